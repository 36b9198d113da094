/* AllReduce over one transport: connects the links that both ways need and picks the way by size.
 *
 * Thread rule: as the transport. */
#ifndef MUSTER_FABRIC_COLLECTIVE_ALLREDUCE_H
#define MUSTER_FABRIC_COLLECTIVE_ALLREDUCE_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "fabric/collective/reduce.h"
#include "fabric/transport/transport.h"

enum { ALLREDUCE_MAX_RANKS = 16384 };

enum allreduce_algorithm {
    ALLREDUCE_AUTO = 0, /* by size */
    ALLREDUCE_RING,
    ALLREDUCE_DOUBLING,
    ALLREDUCE_ALGORITHM__COUNT
};
const char *allreduce_algorithm_name(enum allreduce_algorithm a); /* "auto", "ring", "doubling" */

/* What ALLREDUCE_AUTO takes for a vector of `bytes` among `ranks`. */
enum allreduce_algorithm allreduce_choose(size_t bytes, uint32_t ranks);

struct allreduce;

/* Connect with the peers that rank needs.  peers holds all `ranks` (2..ALLREDUCE_MAX_RANKS) in
 * order, this one too; its strings are borrowed until allreduce_close().  max_bytes: largest
 * vector.  The transport stays the caller's.  Errors as of the transport's connect(). */
int allreduce_open(struct transport *transport, const struct transport_peer peers[], uint32_t rank,
                   uint32_t ranks, size_t max_bytes, int64_t deadline_ms, struct allreduce **out,
                   struct err *err);
void allreduce_close(struct allreduce *a); /* NULL accepted */

/* out = sum over all ranks of in.  Every rank calls it with the same algorithm, dtype and count. in
 * and out do not overlap. */
int allreduce_run(struct allreduce *a, enum allreduce_algorithm algorithm, enum reduce_dtype dtype,
                  const void *in, void *out, size_t count, int64_t deadline_ms, struct err *err);

/* Wait until every rank is here, and agree on one number: the sum of `value`, which may be 0. */
int allreduce_barrier(struct allreduce *a, int32_t value, int32_t *sum, int64_t deadline_ms,
                      struct err *err);

#endif
