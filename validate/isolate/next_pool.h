/* Measurements that could tell something about one fault (internal to the planner). */
#ifndef MUSTER_VALIDATE_ISOLATE_NEXT_POOL_H
#define MUSTER_VALIDATE_ISOLATE_NEXT_POOL_H

#include "validate/isolate/rng.h"
#include "validate/isolate/solve.h"

enum { NEXT_POOL_MAX = 256 };

struct next_pool {
    struct measure_flow flows[NEXT_POOL_MAX];
    size_t count;
};

/* bad: per endpoint, true for those that take part in any failure: they are no partners. */
void next_pool_fill(struct next_pool *p, const struct observe *o, const struct solve_fault *f,
                    const bool bad[], struct rng *rng);

#endif
