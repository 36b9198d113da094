/* Seeded numbers, the same on every machine (splitmix64).  One object, one thread. */
#ifndef MUSTER_VALIDATE_ISOLATE_RNG_H
#define MUSTER_VALIDATE_ISOLATE_RNG_H

#include <stddef.h>
#include <stdint.h>

struct rng {
    uint64_t state;
};

static inline uint64_t rng_next(struct rng *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15U;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27) * 0x94d049bb133111ebU;
    return z ^ z >> 31;
}

/* 0 <= value < 1 */
static inline double rng_unit(struct rng *r)
{
    return (double)(rng_next(r) >> 11) * 0x1p-53;
}

/* 0 <= value < limit, limit > 0 */
static inline size_t rng_below(struct rng *r, size_t limit)
{
    return (size_t)(rng_next(r) % limit);
}

#endif
