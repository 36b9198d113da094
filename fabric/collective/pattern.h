/* Data whose every byte is known beforehand, so that a transfer or a sum is checked exactly.
 *
 * Bytes: a stream in which each 8-byte word depends on its position and a seed; a lost, repeated or
 * moved piece shows, not only a flipped bit.
 * Vectors: rank r's element i is h(i) + g(r, i mod 256), integers small enough that every partial
 * sum is exact in f32 in any order.  The sum is n h(i) + G(i mod 256), so checking costs the same
 * for any n. A dropped, doubled or exchanged contribution and an exchanged position change it.
 * Thread rule: pure functions on the caller's memory. */
#ifndef MUSTER_FABRIC_COLLECTIVE_PATTERN_H
#define MUSTER_FABRIC_COLLECTIVE_PATTERN_H

#include <stddef.h>
#include <stdint.h>

#include "fabric/collective/reduce.h"

/* More ranks would leave fewer than 8 bits for the value that tells positions apart. */
enum { PATTERN_MAX_RANKS = 16384, PATTERN_PERIOD = 256 };

struct pattern_result {
    uint64_t compared;   /* units compared: bytes of a stream, elements of a vector */
    uint64_t mismatches; /* units that differ */
    uint64_t first_bad;  /* position of the first one, UINT64_MAX when there is none */
};

/* A result in which nothing was compared yet. */
void pattern_result_clear(struct pattern_result *r);

/* Write bytes [offset, offset + len) of the stream. */
void pattern_bytes_fill(uint64_t seed, uint64_t offset, void *out, size_t len);
/* Compare them; adds to *r. */
void pattern_bytes_check(uint64_t seed, uint64_t offset, const void *data, size_t len,
                         struct pattern_result *r);

/* What the ranks of one sum contribute.  ranks 1..PATTERN_MAX_RANKS.  The same seed on every rank.
 */
struct pattern {
    uint64_t seed;
    uint32_t ranks;
    enum reduce_dtype dtype;
    int32_t value_mask;           /* h(i) is in 0..value_mask */
    int32_t sums[PATTERN_PERIOD]; /* G */
};
void pattern_init(struct pattern *p, uint64_t seed, uint32_t ranks, enum reduce_dtype dtype);
/* Rank's contribution, count elements. */
void pattern_fill(const struct pattern *p, uint32_t rank, void *out, size_t count);
/* Compare a sum over all ranks; *r is set, not added to. */
void pattern_check(const struct pattern *p, const void *sum, size_t count,
                   struct pattern_result *r);

#endif
