#include "fabric/collective/allreduce.h"

#include <stdlib.h>

#include "common/util.h"
#include "fabric/collective/doubling.h"
#include "fabric/collective/ring.h"

enum {
    CHUNK_BYTES = 128 * 1024,         /* stays in the cache between arrival and addition */
    DOUBLING_UP_TO_BYTES = 64 * 1024, /* of the vector; doubling is used up to here */
    DOUBLING_MAX_BYTES = 1024 * 1024  /* staging memory for it */
};

static const char *const algorithm_names[] = {
    [ALLREDUCE_AUTO] = "auto", [ALLREDUCE_RING] = "ring", [ALLREDUCE_DOUBLING] = "doubling"};
_Static_assert(ARRAY_LEN(algorithm_names) == ALLREDUCE_ALGORITHM__COUNT, "one row per algorithm");

struct allreduce {
    struct ring ring;
    struct doubling doubling;
};

const char *allreduce_algorithm_name(enum allreduce_algorithm a)
{
    return a < ALLREDUCE_ALGORITHM__COUNT ? algorithm_names[a] : NULL;
}

enum allreduce_algorithm allreduce_choose(size_t bytes, uint32_t ranks)
{
    return bytes <= DOUBLING_UP_TO_BYTES ? ALLREDUCE_DOUBLING : ALLREDUCE_RING;
}

/* The ranks to connect with, each once: the ring's two and those of doubling. */
struct circle {
    uint32_t ranks[DOUBLING_MAX_PARTNERS + 2];
    size_t count;
};

static size_t circle_add(struct circle *c, uint32_t rank)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->ranks[i] == rank)
            return i;
    c->ranks[c->count] = rank;
    return c->count++;
}

static int prepare(struct allreduce *a, struct transport *t, uint32_t rank, uint32_t ranks,
                   size_t max_bytes, struct err *err)
{
    size_t ring_bytes = (size_t)RING_WINDOW * CHUNK_BYTES;
    size_t double_bytes = max_bytes < DOUBLING_MAX_BYTES ? max_bytes : DOUBLING_MAX_BYTES;
    double_bytes = double_bytes < 64 ? 64 : double_bytes;
    a->ring = (struct ring){.transport = t,
                            .rank = rank,
                            .ranks = ranks,
                            .chunk_bytes = CHUNK_BYTES,
                            .staging = mem_zero(ring_bytes, 1)};
    a->doubling = (struct doubling){.transport = t,
                                    .rank = rank,
                                    .ranks = ranks,
                                    .chunk_bytes = CHUNK_BYTES,
                                    .staging = mem_zero(double_bytes, 1),
                                    .staging_bytes = double_bytes};
    return t->ops->attach(t, a->ring.staging, ring_bytes, err) ||
                   t->ops->attach(t, a->doubling.staging, double_bytes, err)
               ? -1
               : 0;
}

int allreduce_open(struct transport *transport, const struct transport_peer peers[], uint32_t rank,
                   uint32_t ranks, size_t max_bytes, int64_t deadline_ms, struct allreduce **out,
                   struct err *err)
{
    if (ranks < 2 || ranks > ALLREDUCE_MAX_RANKS || rank >= ranks)
        return err_set(err, ERR_USAGE, "rank %u of %u: 2 to %d ranks are possible", rank, ranks,
                       ALLREDUCE_MAX_RANKS);
    struct circle c = {.count = 0};
    struct transport_peer chosen[ARRAY_LEN(c.ranks)];
    struct transport_link *links[ARRAY_LEN(c.ranks)];
    uint32_t partners[DOUBLING_MAX_PARTNERS];
    size_t partner_count = doubling_partners(rank, ranks, partners);
    size_t next = circle_add(&c, (rank + 1) % ranks);
    size_t prev = circle_add(&c, (rank + ranks - 1) % ranks);
    for (size_t i = 0; i < partner_count; i++)
        circle_add(&c, partners[i]);
    for (size_t i = 0; i < c.count; i++)
        chosen[i] = peers[c.ranks[i]];
    if (transport->ops->connect(transport, chosen, c.count, deadline_ms, links, err))
        return -1;
    struct allreduce *a = mem_zero(1, sizeof *a);
    if (prepare(a, transport, rank, ranks, max_bytes, err)) {
        allreduce_close(a);
        return -1;
    }
    a->ring.next = links[next];
    a->ring.prev = links[prev];
    for (size_t i = 0; i < partner_count; i++)
        a->doubling.links[i] = links[circle_add(&c, partners[i])];
    *out = a;
    return 0;
}

void allreduce_close(struct allreduce *a)
{
    if (!a)
        return;
    free(a->ring.staging);
    free(a->doubling.staging);
    free(a);
}

int allreduce_run(struct allreduce *a, enum allreduce_algorithm algorithm, enum reduce_dtype dtype,
                  const void *in, void *out, size_t count, int64_t deadline_ms, struct err *err)
{
    if (algorithm == ALLREDUCE_AUTO)
        algorithm = allreduce_choose(count * reduce_dtype_bytes(dtype), a->ring.ranks);
    return algorithm == ALLREDUCE_DOUBLING
               ? doubling_allreduce(&a->doubling, dtype, in, out, count, deadline_ms, err)
               : ring_allreduce(&a->ring, dtype, in, out, count, deadline_ms, err);
}

int allreduce_barrier(struct allreduce *a, int32_t value, int32_t *sum, int64_t deadline_ms,
                      struct err *err)
{
    int32_t total;
    if (doubling_allreduce(&a->doubling, REDUCE_I32, &value, &total, 1, deadline_ms, err))
        return -1;
    *sum = total;
    return 0;
}
