/* Who meets whom in which round of the pairs stage: all pairs by the circle method, or given pairs
 * (those that failed and are measured again) in as few rounds as a greedy choice finds.  Pure. */
#ifndef MUSTER_PROVISION_PAIRS_PLAN_H
#define MUSTER_PROVISION_PAIRS_PLAN_H

#include <stddef.h>

struct pairs_pair {
    size_t a, b; /* nodes, a != b */
};

struct pairs_plan {
    size_t *member; /* place -> node */
    size_t members;
    size_t rounds;
    long *table; /* rounds * members places, -1 rests; NULL: the circle method */
};

/* All pairs of these nodes. */
void pairs_plan_all(struct pairs_plan *plan, const size_t nodes[], size_t count);
/* Only these pairs; a pair given twice meets once. */
void pairs_plan_some(struct pairs_plan *plan, const struct pairs_pair pairs[], size_t count);
/* Place of the partner, -1 when place i rests in this round. */
long pairs_plan_partner(const struct pairs_plan *plan, size_t round, size_t i);
void pairs_plan_release(struct pairs_plan *plan);

#endif
