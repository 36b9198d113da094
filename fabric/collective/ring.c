#include "fabric/collective/ring.h"

/* One run.  Message m = step * chunks + chunk goes from each rank to its successor. */
struct run {
    const struct ring *ring;
    enum reduce_dtype dtype;
    size_t element_bytes;
    const uint8_t *in;
    uint8_t *out;
    size_t count;
    uint64_t chunks;   /* per block */
    uint64_t messages; /* in each direction */
    uint64_t sent, posted, taken;
    uint64_t recv_base; /* of the link's count of receives */
};

/* A piece of the vector, in elements. */
struct piece {
    size_t at, count;
};

/* The parts of an even cut differ by one element at most; a part may be empty. */
static struct piece cut(size_t at, size_t count, uint64_t parts, uint64_t index)
{
    size_t share = count / parts, rest = count % parts;
    size_t begin = share * index + (index < rest ? index : rest);
    return (struct piece){at + begin, share + (index < rest)};
}

static struct piece piece_of(const struct run *x, uint64_t block, uint64_t chunk)
{
    struct piece b = cut(0, x->count, x->ring->ranks, block);
    return cut(b.at, b.count, x->chunks, chunk);
}

static uint64_t steps_of_reduce(const struct run *x)
{
    return x->ring->ranks - 1;
}

/* Block that message m carries from this rank, or to it. */
static uint64_t block_sent(const struct run *x, uint64_t m)
{
    uint64_t n = x->ring->ranks, s = m / x->chunks, r = x->ring->rank;
    return s < n - 1 ? (r + n - s) % n : (r + 1 + n - (s - (n - 1))) % n;
}

static uint64_t block_received(const struct run *x, uint64_t m)
{
    uint64_t n = x->ring->ranks, s = m / x->chunks, r = x->ring->rank;
    return s < n - 1 ? (r + 2 * n - s - 1) % n : (r + n - (s - (n - 1))) % n;
}

static uint8_t *slot(const struct run *x, uint64_t m)
{
    return (uint8_t *)x->ring->staging + (m % RING_WINDOW) * x->ring->chunk_bytes;
}

/* A sum in growth lands in staging, a finished block in its place. */
static int post_receives(struct run *x, struct err *err)
{
    while (x->posted < x->messages && x->posted - x->taken < RING_WINDOW) {
        uint64_t m = x->posted;
        struct piece p = piece_of(x, block_received(x, m), m % x->chunks);
        uint8_t *to =
            m / x->chunks < steps_of_reduce(x) ? slot(x, m) : x->out + p.at * x->element_bytes;
        if (x->ring->transport->ops->post_recv(x->ring->prev, to, p.count * x->element_bytes, err))
            return -1;
        x->posted++;
    }
    return 0;
}

/* Message m leaves when the one a step before has been received and added. */
static int post_sends(struct run *x, struct err *err)
{
    const struct transport_link *next = x->ring->next;
    while (x->sent < x->messages && (x->sent < x->chunks || x->sent - x->chunks < x->taken) &&
           next->sends_posted - next->sends_done < TRANSPORT_MAX_POSTED / 2) {
        uint64_t m = x->sent;
        struct piece p = piece_of(x, block_sent(x, m), m % x->chunks);
        const uint8_t *from = m < x->chunks ? x->in : x->out;
        if (x->ring->transport->ops->post_send(x->ring->next, from + p.at * x->element_bytes,
                                               p.count * x->element_bytes, err))
            return -1;
        x->sent++;
    }
    return 0;
}

static int take_one(struct run *x, struct err *err)
{
    uint64_t m = x->taken;
    if (m / x->chunks < steps_of_reduce(x)) {
        struct piece p = piece_of(x, block_received(x, m), m % x->chunks);
        size_t at = p.at * x->element_bytes;
        reduce_add(x->dtype, x->out + at, slot(x, m), x->in + at, p.count);
    }
    x->taken++;
    /* At once, so that the successor works while the next chunk is added here. */
    return post_sends(x, err);
}

int ring_allreduce(const struct ring *r, enum reduce_dtype dtype, const void *in, void *out,
                   size_t count, int64_t deadline_ms, struct err *err)
{
    struct run x = {.ring = r,
                    .dtype = dtype,
                    .element_bytes = reduce_dtype_bytes(dtype),
                    .in = in,
                    .out = out,
                    .count = count,
                    .recv_base = r->prev->recvs_done};
    size_t block_bytes = (count / r->ranks + 1) * x.element_bytes;
    x.chunks = (block_bytes + r->chunk_bytes - 1) / r->chunk_bytes;
    x.messages = 2 * (uint64_t)(r->ranks - 1) * x.chunks;
    uint64_t send_end = r->next->sends_posted + x.messages;
    if (post_receives(&x, err) || post_sends(&x, err))
        return -1;
    while (x.taken < x.messages || r->next->sends_done < send_end) {
        if (r->transport->ops->poll(r->transport, deadline_ms, err))
            return -1;
        while (r->prev->recvs_done - x.recv_base > x.taken)
            if (take_one(&x, err))
                return -1;
        if (post_receives(&x, err) || post_sends(&x, err))
            return -1;
    }
    return 0;
}
