#include "fabric/collective/doubling.h"

#include <stdbool.h>
#include <string.h>

#include "common/util.h"

enum fold { FOLD_NONE = 0, FOLD_GIVES, FOLD_TAKES };

struct place {
    enum fold fold;
    uint32_t power, extra; /* p, and n - p */
    uint32_t index;        /* among the p ranks that exchange; meaningless for FOLD_GIVES */
};

static struct place place_of(uint32_t rank, uint32_t ranks)
{
    struct place p = {.power = 1};
    while (p.power <= ranks / 2)
        p.power *= 2;
    p.extra = ranks - p.power;
    if (rank < 2 * p.extra) {
        p.fold = rank % 2 ? FOLD_TAKES : FOLD_GIVES;
        p.index = rank / 2;
    } else {
        p.index = rank - p.extra;
    }
    return p;
}

static uint32_t rank_of(const struct place *p, uint32_t index)
{
    return index < p->extra ? 2 * index + 1 : index + p->extra;
}

size_t doubling_partners(uint32_t rank, uint32_t ranks, uint32_t out[DOUBLING_MAX_PARTNERS])
{
    struct place p = place_of(rank, ranks);
    size_t n = 0;
    if (p.fold == FOLD_GIVES)
        out[n++] = rank + 1;
    if (p.fold == FOLD_TAKES)
        out[n++] = rank - 1;
    for (uint32_t bit = 1; p.fold != FOLD_GIVES && bit < p.power; bit *= 2)
        out[n++] = rank_of(&p, p.index ^ bit);
    return n;
}

struct run {
    const struct doubling *d;
    enum reduce_dtype dtype;
    size_t element_bytes, chunk; /* elements of a full message */
    uint8_t *out;
    size_t count;
    int64_t deadline_ms;
};

/* Send `from` (may be NULL) and receive into `to` (may be NULL), whole vectors, cut into chunks.
 * With `add`, each chunk that has come is added to out, in the order of ranks. */
static int exchange(const struct run *x, struct transport_link *l, const uint8_t *from, uint8_t *to,
                    bool add, struct err *err)
{
    struct transport *t = x->d->transport;
    size_t chunks = (x->count + x->chunk - 1) / x->chunk, posted = 0, taken = 0;
    uint64_t send_base = l->sends_done, recv_base = l->recvs_done;
    for (;;) {
        for (; posted < chunks && posted - taken < TRANSPORT_MAX_POSTED / 2; posted++) {
            size_t at = posted * x->chunk;
            size_t n = x->count - at < x->chunk ? x->count - at : x->chunk;
            size_t at_bytes = at * x->element_bytes, bytes = n * x->element_bytes;
            if ((to && t->ops->post_recv(l, to + at_bytes, bytes, err)) ||
                (from && t->ops->post_send(l, from + at_bytes, bytes, err)))
                return -1;
        }
        /* A chunk of out may change only once the old one has left. */
        while (taken < chunks && (!to || l->recvs_done - recv_base > taken) &&
               (!from || l->sends_done - send_base > taken)) {
            size_t at = taken * x->chunk;
            size_t n = x->count - at < x->chunk ? x->count - at : x->chunk;
            uint8_t *mine = x->out + at * x->element_bytes;
            uint8_t *theirs = to + (add ? at * x->element_bytes : 0);
            bool lower = l->rank < x->d->rank;
            if (add)
                reduce_add(x->dtype, mine, lower ? theirs : mine, lower ? mine : theirs, n);
            taken++;
        }
        if (taken == chunks)
            return 0;
        if (posted < chunks && posted - taken < TRANSPORT_MAX_POSTED / 2)
            continue;
        if (t->ops->poll(t, x->deadline_ms, err))
            return -1;
    }
}

int doubling_allreduce(const struct doubling *d, enum reduce_dtype dtype, const void *in, void *out,
                       size_t count, int64_t deadline_ms, struct err *err)
{
    struct run x = {.d = d,
                    .dtype = dtype,
                    .element_bytes = reduce_dtype_bytes(dtype),
                    .out = out,
                    .count = count,
                    .deadline_ms = deadline_ms};
    x.chunk = d->chunk_bytes / x.element_bytes;
    if (count * x.element_bytes > d->staging_bytes)
        return err_set(err, ERR_DATA, "%zu bytes do not fit the staging memory of %zu bytes",
                       count * x.element_bytes, d->staging_bytes);
    struct place p = place_of(d->rank, d->ranks);
    if (p.fold == FOLD_GIVES)
        return exchange(&x, d->links[0], in, NULL, false, err) ||
                       exchange(&x, d->links[0], NULL, out, false, err)
                   ? -1
                   : 0;
    memcpy(out, in, count * x.element_bytes);
    size_t link = 0;
    if (p.fold == FOLD_TAKES && exchange(&x, d->links[link++], NULL, d->staging, true, err))
        return -1;
    for (uint32_t bit = 1; bit < p.power; bit *= 2)
        if (exchange(&x, d->links[link++], out, d->staging, true, err))
            return -1;
    if (p.fold == FOLD_TAKES && exchange(&x, d->links[0], out, NULL, false, err))
        return -1;
    return 0;
}
