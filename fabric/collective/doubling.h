/* AllReduce by recursive doubling: log2(n) exchanges of the whole vector, best for small ones.
 *
 * In step k each rank exchanges its sum with the rank whose number differs in bit k, and both add
 * the lower rank's sum first: the result has the same bits on every rank.  When n is not a power of
 * two, the first 2(n - p) ranks (p the power below n) fold in pairs before and unfold after: the
 * even one hands its vector to the odd one and gets the result from it. Thread rule: as the
 * transport. */
#ifndef MUSTER_FABRIC_COLLECTIVE_DOUBLING_H
#define MUSTER_FABRIC_COLLECTIVE_DOUBLING_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "fabric/collective/reduce.h"
#include "fabric/transport/transport.h"

enum { DOUBLING_MAX_PARTNERS = 33 };

struct doubling {
    struct transport *transport;
    uint32_t rank, ranks; /* ranks >= 2 */
    /* Links to doubling_partners(), in that order. */
    struct transport_link *links[DOUBLING_MAX_PARTNERS];
    size_t chunk_bytes; /* messages are cut to this, a multiple of the element */
    void *staging;      /* as large as the vector, attached to the transport */
    size_t staging_bytes;
};

/* The ranks that this one speaks with, in the order of the steps; returns how many. */
size_t doubling_partners(uint32_t rank, uint32_t ranks, uint32_t out[DOUBLING_MAX_PARTNERS]);

/* As ring_allreduce().  ERR_DATA when the vector is larger than the staging memory. */
int doubling_allreduce(const struct doubling *d, enum reduce_dtype dtype, const void *in, void *out,
                       size_t count, int64_t deadline_ms, struct err *err);

#endif
