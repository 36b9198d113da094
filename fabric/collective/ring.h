/* AllReduce around a ring: best for vectors of which each rank's share is worth a message.
 *
 * The vector is cut into one block per rank and each block into chunks.  In the first n-1 steps
 * block sums travel round and grow (reduce-scatter), in the next n-1 steps the finished blocks
 * travel round (all-gather).  A rank only ever sends to its successor.  Block b is summed in the
 * order b, b+1, ..., so the result has the same bits on every rank and in every run. Thread rule:
 * as the transport. */
#ifndef MUSTER_FABRIC_COLLECTIVE_RING_H
#define MUSTER_FABRIC_COLLECTIVE_RING_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "fabric/collective/reduce.h"
#include "fabric/transport/transport.h"

enum { RING_WINDOW = 4 }; /* receives that are posted ahead, and slots of the staging memory */

struct ring {
    struct transport *transport;
    struct transport_link *next, *prev; /* ranks rank+1 and rank-1; the same link for two ranks */
    uint32_t rank, ranks;               /* ranks >= 2 */
    size_t chunk_bytes;                 /* upper limit of a message, a multiple of the element */
    void *staging;                      /* RING_WINDOW * chunk_bytes, attached to the transport */
};

/* out = sum over ranks of in; count elements.  in and out do not overlap; in is not changed.  Every
 * rank calls it with the same count, dtype and chunk_bytes.  deadline_ms on the now_ms() clock.
 * Errors are those of the transport's poll(); out is then undefined. */
int ring_allreduce(const struct ring *r, enum reduce_dtype dtype, const void *in, void *out,
                   size_t count, int64_t deadline_ms, struct err *err);

#endif
