/* Who measures with whom in which round: the circle method.  Every pair of n nodes meets exactly
 * once, and in one round no node has two partners.  Closed form: each node can work it out alone.
 */
#ifndef MUSTER_VALIDATE_SCHEDULE_H
#define MUSTER_VALIDATE_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

/* 0 for fewer than two nodes, n - 1 for an even n, n for an odd one (each node rests once). */
size_t schedule_rounds(size_t n);
/* Partner of node i in this round, or -1 when it rests.  round < schedule_rounds(n), i < n. */
long schedule_partner(size_t n, size_t round, size_t i);

/* A permutation of 0..n-1 from a seed, the same on every machine: shuffles who stands where on the
 * circle, so that repeated runs meet in another order. */
void schedule_shuffle(uint64_t seed, size_t n, size_t order[]);

#endif
