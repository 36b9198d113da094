/* Evidence on its way out: numbered, timed, signed by the node, and sealed stage by stage.
 *
 * A worker hands over bodies (evidence_body() of common/evidence.h); here they get run, node, seq,
 * time, tool and sig, and become lines whose bytes stay as they were signed.  A seal closes a
 * stage: the Merkle root over its lines.  One object, one thread. */
#ifndef MUSTER_AGENTS_EVIDENCE_OUT_H
#define MUSTER_AGENTS_EVIDENCE_OUT_H

#include <jansson.h>
#include <stdint.h>

#include "common/err.h"
#include "common/hash.h"
#include "validate/sign.h"

/* One per run and node; the strings and the key are borrowed. */
struct evidence_out {
    const char *run, *node, *tool;
    const struct sign_key *key;
    int64_t next_seq;
};

/* One per stage that is running. */
struct evidence_stage {
    const char *name; /* borrowed */
    struct hash *leaves;
    size_t count;
};

/* Complete and sign one body (borrowed).  *line: the canonical record, the caller frees.  ERR_DATA:
 * the body is malformed, is of another stage or holds what is added here; then no number is used
 * up. */
int evidence_out_line(struct evidence_out *out, struct evidence_stage *stage, const json_t *body,
                      char **line, struct err *err);
/* The record that closes the stage. */
int evidence_out_seal(struct evidence_out *out, struct evidence_stage *stage, char **line,
                      struct err *err);
void evidence_stage_release(struct evidence_stage *stage);

#endif
