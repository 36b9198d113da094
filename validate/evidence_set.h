/* The evidence of one run, checked: form, signature, run, node, sequence and seals.
 *
 * Nothing is dropped in silence: whatever is wrong becomes a problem (cause and sentence) of its
 * node, and a record that failed a check is not used for any verdict.  Single-threaded. */
#ifndef MUSTER_VALIDATE_EVIDENCE_SET_H
#define MUSTER_VALIDATE_EVIDENCE_SET_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/evidence.h"
#include "common/hash.h"
#include "validate/sign.h"

struct evidence_set_record {
    json_t *json;                                         /* owned by the set */
    const char *node, *stage, *subject, *quantity, *unit; /* borrowed from json */
    enum evidence_outcome outcome;
    const char *cause, *reason; /* may be NULL */
    int64_t seq;
    const double *samples;
    size_t sample_count;
    double value;     /* median of the samples, 0 without samples */
    bool sealed;      /* a valid seal of its stage follows it */
    unsigned attempt; /* how many seals of its stage its node had made before */
};

struct evidence_set_problem {
    const char *node, *cause; /* cause: a code of causes.def */
    char *text;               /* of the first of its kind */
    unsigned count;           /* how many of this kind this node has */
};

struct evidence_set_node {
    char *name;
    struct hash root; /* Merkle root over the lines as stored */
    size_t line_count;
    size_t record_count; /* accepted records */
};

struct evidence_set;

struct evidence_set *evidence_set_create(const char *run);
void evidence_set_destroy(struct evidence_set *set); /* NULL accepted */

/* Add the lines of one node (each node once).  key NULL: no key is known for this node, and all its
 * records are refused with cause evidence-unsigned.  Bad evidence is a problem, never an error.
 * ERR_USAGE the node was added already. */
int evidence_set_add(struct evidence_set *set, const char *node, const struct sign_public *key,
                     const char *text, size_t len, struct err *err);
/* Read DIR/NODE.jsonl for each node of `nodes` (object NODE -> base64 public key or null).  A
 * missing file is a problem (evidence-missing).  ERR_ENV a file that exists cannot be read. */
int evidence_set_load(struct evidence_set *set, const char *dir, const json_t *nodes,
                      struct err *err);

const char *evidence_set_run(const struct evidence_set *set);
size_t evidence_set_count(const struct evidence_set *set); /* accepted records, seals not counted */
const struct evidence_set_record *evidence_set_at(const struct evidence_set *set, size_t index);
size_t evidence_set_problem_count(const struct evidence_set *set);
const struct evidence_set_problem *evidence_set_problem_at(const struct evidence_set *set,
                                                           size_t i);
/* NULL when the node was not added. */
const struct evidence_set_node *evidence_set_node(const struct evidence_set *set, const char *name);

/* Newest sealed record with these properties; node NULL means any maker.  NULL if there is none. */
const struct evidence_set_record *evidence_set_find(const struct evidence_set *set,
                                                    const char *node, const char *stage,
                                                    const char *subject, const char *quantity);

/* The next record with these properties, sealed or not, in the order added; node NULL means any.
 * *cursor is 0 before the first call.  NULL after the last. */
const struct evidence_set_record *evidence_set_next(const struct evidence_set *set,
                                                    const char *node, const char *stage,
                                                    const char *subject, const char *quantity,
                                                    size_t *cursor);

/* Whether the record is of the node's last sealed attempt at its stage. */
bool evidence_set_is_current(const struct evidence_set *set, const struct evidence_set_record *r);

/* Sign one record in place: adds "sig".  What the agent calls before it sends a line.  ERR_ENV. */
int evidence_set_sign(json_t *record, const struct sign_key *key, struct err *err);
/* Whether "sig" fits.  ERR_DATA missing or wrong. */
int evidence_set_verify(const json_t *record, const struct sign_public *key, struct err *err);

#endif
