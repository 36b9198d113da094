/* The next cheapest measurement: what splits the suspects best.
 *
 * For each open fault a pool of measurements is made (inside the suspected hosts, of their rails
 * against known good partners near and far, per direction, of the pair itself, through and around
 * suspected switches).  Those are taken that tell most about WHICH PART it is: the expected loss of
 * entropy of the parts, chance among them.  One round serves all faults; no endpoint is used twice
 * in one direction.  One object, one thread. */
#ifndef MUSTER_VALIDATE_ISOLATE_NEXT_H
#define MUSTER_VALIDATE_ISOLATE_NEXT_H

#include "validate/isolate/rng.h"
#include "validate/isolate/solve.h"

enum next_state {
    NEXT_OPEN = 0, /* more would be learned */
    NEXT_SETTLED,  /* one part is left, or what is left cannot be told apart from here */
    NEXT_DROPPED   /* seen, but not again in so many repeats */
};

struct next_limits {
    size_t tests;     /* rounds and repeats in all */
    double seconds;   /* what the backend's clock may say; 0 no limit */
    unsigned repeats; /* of what failed once and then passed: 8 find a fault of 31 % in 95 of 100 */
};
extern const struct next_limits next_usual;

struct next {
    const struct fabric_graph *g;
    struct rng rng;
    struct next_limits limits;
};

enum next_state next_state_of(const struct next *n, const struct observe *o,
                              const struct solve_fault *f);
/* The follow-up round; empty when every fault is settled or dropped, or the limits leave no test.
 */
void next_plan(struct next *n, const struct observe *o, const struct solve_answer *a,
               struct measure_plan *plan);
/* What would decide between the parts that are left, for a person; NULL when one is left.  The
 * caller frees. */
char *next_advice(const struct fabric_graph *g, const struct solve_fault *f);

#endif
