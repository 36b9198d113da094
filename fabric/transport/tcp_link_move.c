/* The moving parts of a TCP link: control frames and messages. */
#include "fabric/transport/tcp_link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include "common/util.h"

#define MESSAGE_MAGIC 0x3147534du /* "MSG1" */

int tcp_link_lost(struct tcp_transport *t, uint32_t rank, const char *name, const char *how,
                  struct err *err)
{
    t->base.culprit = rank;
    return err_set(err, ERR_REMOTE, "%s (rank %u) %s", name, rank, how);
}

void tcp_link_say(const struct tcp_link *l, enum frame_kind kind, uint32_t rank)
{
    struct frame f = {.kind = kind, .rank = rank};
    /* Eight bytes into an idle connection: if they do not fit, the peer has not read for long, and
     * its silence is what will be reported. */
    send(l->control, &f, sizeof f, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---------------------------------------------------------------------------- control */

void tcp_link_abort(struct transport *base, uint32_t culprit)
{
    struct tcp_transport *t = tcp_transport_of(base);
    for (size_t i = 0; i < t->link_count; i++)
        tcp_link_say(&t->links[i], FRAME_ABORT, culprit);
}

static int hear_frame(struct tcp_transport *t, struct tcp_link *l, struct err *err)
{
    l->heard_ms = now_ms();
    l->pinged_ms = 0;
    switch (l->partial.kind) {
    case FRAME_PING:
        tcp_link_say(l, FRAME_PONG, 0);
        return 0;
    case FRAME_PONG:
        return 0;
    case FRAME_BYE:
        l->bye = true;
        return 0;
    case FRAME_ABORT:
        if (l->partial.rank == TRANSPORT_NO_RANK)
            return err_set(err, ERR_REMOTE, "%s (rank %u) gave up", l->base.name, l->base.rank);
        t->base.culprit = l->partial.rank;
        return err_set(err, ERR_REMOTE, "rank %u is lost, as %s (rank %u) found", l->partial.rank,
                       l->base.name, l->base.rank);
    default:
        return err_set(err, ERR_DATA, "%s sent a control frame of unknown kind %u", l->base.name,
                       l->partial.kind);
    }
}

int tcp_link_hear(struct tcp_transport *t, struct tcp_link *l, struct err *err)
{
    for (;;) {
        ssize_t n = recv(l->control, (uint8_t *)&l->partial + l->partial_bytes,
                         sizeof l->partial - l->partial_bytes, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n <= 0) {
            l->gone = true;
            return 0;
        }
        l->partial_bytes += (size_t)n;
        if (l->partial_bytes < sizeof l->partial)
            continue;
        l->partial_bytes = 0;
        if (hear_frame(t, l, err))
            return -1;
    }
}

/* A data connection has ended.  Who gave up because of another rank says so on the control
 * connection, which may be a moment behind. */
static int data_closed(struct tcp_transport *t, struct tcp_link *l, struct err *err)
{
    int64_t until_ms = now_ms() + FAREWELL_MS;
    while (!l->gone && now_ms() < until_ms) {
        struct pollfd p = {.fd = l->control, .events = POLLIN};
        poll(&p, 1, FAREWELL_MS);
        if (tcp_link_hear(t, l, err))
            return -1;
    }
    return tcp_link_lost(t, l->base.rank, l->base.name, "closed its connection", err);
}

/* A peer that owes data is asked after half the silence and given up after all of it. */
int tcp_link_check_silence(struct tcp_transport *t, struct tcp_link *l, struct err *err)
{
    int64_t now = now_ms(), half = t->config.silence_ms / 2;
    bool owes = l->base.recvs_done < l->base.recvs_posted;
    if (!owes) {
        l->heard_ms = now;
        return 0;
    }
    if (l->pinged_ms && now - l->pinged_ms >= half) {
        char how[64];
        snprintf(how, sizeof how, "went silent for %lld ms", (long long)(now - l->heard_ms));
        return tcp_link_lost(t, l->base.rank, l->base.name, how, err);
    }
    if (!l->pinged_ms && now - l->heard_ms >= half) {
        tcp_link_say(l, FRAME_PING, 0);
        l->pinged_ms = now;
    }
    return 0;
}

/* ---------------------------------------------------------------------------- data */

static int push(struct queue *q, const char *peer, uint64_t number, void *data, size_t bytes,
                struct err *err)
{
    if (q->count == QUEUE_MESSAGES)
        return err_set(err, ERR_DATA, "%s: more than %d messages in flight", peer, QUEUE_MESSAGES);
    q->items[(q->head + q->count++) % QUEUE_MESSAGES] = (struct item){
        .header = {.magic = MESSAGE_MAGIC, .number = (uint32_t)number, .bytes = bytes},
        .data = data,
        .bytes = bytes,
        .number = number};
    q->ready = true;
    return 0;
}

int tcp_link_post_send(struct transport_link *base, const void *data, size_t bytes, struct err *err)
{
    struct tcp_link *l = tcp_link_of(base);
    struct stream *s = &l->streams[base->sends_posted % l->stream_count];
    if (push(&s->out, base->name, base->sends_posted, (void *)(uintptr_t)data, bytes, err))
        return -1;
    base->sends_posted++;
    return 0;
}

int tcp_link_post_recv(struct transport_link *base, void *data, size_t bytes, struct err *err)
{
    struct tcp_link *l = tcp_link_of(base);
    struct stream *s = &l->streams[base->recvs_posted % l->stream_count];
    if (push(&s->in, base->name, base->recvs_posted, data, bytes, err))
        return -1;
    base->recvs_posted++;
    return 0;
}

/* Describe what is left of the first messages; returns the number of bytes. */
static size_t gather(struct queue *q, struct iovec iov[2 * BATCH_MESSAGES], int *iov_count)
{
    size_t total = 0, skip = q->moved;
    *iov_count = 0;
    for (size_t i = 0; i < q->count && i < BATCH_MESSAGES; i++) {
        struct item *item = &q->items[(q->head + i) % QUEUE_MESSAGES];
        struct iovec parts[2] = {{&item->header, sizeof item->header}, {item->data, item->bytes}};
        for (int p = 0; p < 2; p++) {
            size_t cut = skip < parts[p].iov_len ? skip : parts[p].iov_len;
            skip -= cut;
            if (parts[p].iov_len == cut)
                continue;
            iov[(*iov_count)++] =
                (struct iovec){(uint8_t *)parts[p].iov_base + cut, parts[p].iov_len - cut};
            total += parts[p].iov_len - cut;
        }
    }
    return total;
}

/* Count `bytes` as moved.  With `check`, a header that has come is compared with what was expected.
 */
static int advance(struct queue *q, size_t bytes, const struct tcp_link *check, struct err *err)
{
    q->moved += bytes;
    while (q->count) {
        struct item *item = &q->items[q->head];
        if (check && q->moved >= sizeof item->header &&
            (item->header.magic != MESSAGE_MAGIC || item->header.number != (uint32_t)item->number ||
             item->header.bytes != item->bytes))
            return err_set(err, ERR_DATA,
                           "%s sent message %u of %llu bytes, message %llu of %llu was expected",
                           check->base.name, item->header.number,
                           (unsigned long long)item->header.bytes, (unsigned long long)item->number,
                           (unsigned long long)item->bytes);
        size_t whole = sizeof item->header + item->bytes;
        if (q->moved < whole)
            return 0;
        q->moved -= whole;
        q->head = (q->head + 1) % QUEUE_MESSAGES;
        q->count--;
        q->done++;
    }
    return 0;
}

/* Send or receive until the socket has had enough.  Returns the messages done, -1 on failure. */
static int move(struct tcp_transport *t, struct tcp_link *l, struct stream *s, bool out,
                struct err *err)
{
    struct queue *q = out ? &s->out : &s->in;
    uint64_t before = q->done;
    while (q->count && q->ready) {
        struct iovec iov[2 * BATCH_MESSAGES];
        int iov_count;
        size_t wanted = gather(q, iov, &iov_count);
        struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)iov_count};
        ssize_t n = out ? sendmsg(s->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT)
                        : recvmsg(s->fd, &msg, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            q->ready = errno == EINTR;
            continue;
        }
        if (n <= 0)
            return data_closed(t, l, err);
        q->ready = (size_t)n == wanted; /* a short move leaves nothing to be had at once */
        if (!out) {
            l->heard_ms = now_ms();
            l->pinged_ms = 0; /* data answer as well as a pong does */
        }
        if (advance(q, (size_t)n, out ? NULL : l, err))
            return -1;
    }
    return (int)(q->done - before);
}

/* Messages are done in order: stream s holds numbers s, s + streams, ... */
static uint64_t done_in_order(const struct tcp_link *l, bool out)
{
    uint64_t least = UINT64_MAX;
    for (unsigned s = 0; s < l->stream_count; s++) {
        const struct queue *q = out ? &l->streams[s].out : &l->streams[s].in;
        uint64_t next = q->done * l->stream_count + s; /* first number that is not done here */
        least = next < least ? next : least;
    }
    return least;
}

int tcp_link_move_all(struct tcp_transport *t, struct err *err)
{
    int done = 0;
    for (size_t i = 0; i < t->link_count; i++) {
        struct tcp_link *l = &t->links[i];
        for (unsigned s = 0; s < l->stream_count; s++) {
            int in = move(t, l, &l->streams[s], false, err);
            int out = in < 0 ? -1 : move(t, l, &l->streams[s], true, err);
            if (out < 0)
                return -1;
            done += in + out;
        }
        l->base.sends_done = done_in_order(l, true);
        l->base.recvs_done = done_in_order(l, false);
    }
    return done;
}
