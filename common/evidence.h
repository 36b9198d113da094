/* One measurement as it travels and is stored: a JSON line signed by the node that made it.
 *
 * docs/contracts.md states the form.  The signature covers EVIDENCE_CONTEXT followed by the
 * canonical bytes of the record without its "sig" member; making and checking it is validate/sign's
 * task. */
#ifndef MUSTER_COMMON_EVIDENCE_H
#define MUSTER_COMMON_EVIDENCE_H

#include <jansson.h>

#include "common/err.h"

#define EVIDENCE_CONTEXT "muster-evidence-v1\n"

enum { EVIDENCE_VERSION = 1, EVIDENCE_MAX_LINE_BYTES = 1024 * 1024, EVIDENCE_MAX_SAMPLES = 4096 };

enum evidence_outcome {
    EVIDENCE_UNSET = 0,
    EVIDENCE_MEASURED, /* samples hold the result */
    EVIDENCE_FAILED, /* the measurement ran and the thing did not work; reason and cause say how */
    EVIDENCE_NOT_MEASURED, /* it could not be run: reason says why */
    EVIDENCE_OUTCOME__COUNT
};

const char *evidence_outcome_name(enum evidence_outcome outcome);
enum evidence_outcome evidence_outcome_find(const char *name);

/* What a stage fills in; strings and JSON are borrowed until the record has been built. */
struct evidence {
    const char *stage;    /* "pairs" */
    const char *subject;  /* "gpu001>gpu002" */
    const char *quantity; /* "tcp_bandwidth" */
    const char *unit;     /* "bit/s", "s", "B", "1" */
    const double *samples;
    size_t sample_count; /* 0 unless measured; at most EVIDENCE_MAX_SAMPLES */
    json_t *conditions;  /* object: message size, streams, transport, direction ...; NULL for {} */
    json_t *proof;       /* object: counters before and after, chosen path ...; NULL for {} */
    enum evidence_outcome outcome;
    const char *cause;  /* cause code or NULL */
    const char *reason; /* one sentence or NULL; required unless measured */
};

/* The record without run, node, seq, time, tool and sig, which the agent's main process adds.
 * NULL and err (ERR_DATA) if a required member is missing or a sample is not finite. */
json_t *evidence_body(const struct evidence *e, struct err *err);

/* Checks the form of a complete record (not its signature): known keys, types, ranges.  ERR_DATA.
 */
int evidence_check(const json_t *record, struct err *err);

#endif
