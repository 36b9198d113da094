/* The words of judgement, and how elements add up to a node's state. */
#ifndef MUSTER_VALIDATE_VERDICT_H
#define MUSTER_VALIDATE_VERDICT_H

#include <stdbool.h>

enum verdict {
    VERDICT_UNSET = 0, /* never opens the gate */
    VERDICT_PASS,
    VERDICT_WARN,
    VERDICT_FAIL,
    VERDICT_NOT_MEASURED,
    VERDICT_EXCLUDED, /* the site file names it, with reason and end date */
    VERDICT__COUNT
};

enum verdict_state {
    VERDICT_STATE_UNSET = 0,
    VERDICT_STATE_READY,
    VERDICT_STATE_DEGRADED,
    VERDICT_STATE_NOT_READY,
    VERDICT_STATE_UNKNOWN,
    VERDICT_STATE__COUNT
};

const char *verdict_name(enum verdict v);             /* "PASS" ...; "UNSET" for anything else */
enum verdict verdict_find(const char *name);          /* VERDICT_UNSET for an unknown word */
const char *verdict_state_name(enum verdict_state s); /* "ready" ... */
enum verdict_state verdict_state_find(const char *name);

/* How often each verdict occurred, all elements and the required ones. */
struct verdict_counts {
    unsigned all[VERDICT__COUNT];
    unsigned required[VERDICT__COUNT];
};
void verdict_count(struct verdict_counts *c, enum verdict v, bool required);
/* Any required FAIL: not_ready; else any required NOT_MEASURED or UNSET, or nothing required at
 * all: unknown; else any WARN: degraded; else ready. */
enum verdict_state verdict_state_of(const struct verdict_counts *c);

#endif
