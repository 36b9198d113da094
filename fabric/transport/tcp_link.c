/* The TCP row of the transport table.
 *
 * A link is `streams` data connections and one for control; the lower rank connects.  Message m
 * goes over stream m mod streams, behind a header with its number and length; several messages are
 * read and written by one system call.  Control frames carry "are you there", its answer, and "I
 * give up because of rank r", so that a rank that waits can tell a dead neighbour from one that
 * waits too. */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "fabric/transport/tcp.h"
#include "fabric/transport/transport.h"

extern const struct transport_ops tcp_transport;

enum {
    CONTROL_STREAM = 0xffff, /* number of the control connection in the hello */
    FAREWELL_MS = 200,
    BATCH_MESSAGES = 8, /* one system call moves at most this many */
    QUEUE_MESSAGES = TRANSPORT_MAX_POSTED
};
#define MESSAGE_MAGIC 0x3147534du /* "MSG1" */

struct header {
    uint32_t magic; /* both little-endian, as every machine this runs on */
    uint32_t number;
    uint64_t bytes;
};

enum frame_kind { FRAME_PING = 1, FRAME_PONG, FRAME_ABORT, FRAME_BYE };
struct frame {
    uint32_t kind;
    uint32_t rank; /* FRAME_ABORT: who is lost */
};

struct item {
    struct header header; /* to send, or as it came */
    uint8_t *data;
    uint64_t bytes;
    uint64_t number;
};

/* Messages in flight in one direction of one connection. */
struct queue {
    struct item items[QUEUE_MESSAGES];
    size_t head, count;
    size_t moved;  /* bytes of the head item, header included */
    uint64_t done; /* messages */
    bool ready;    /* the last try was not cut short, or poll(2) says so */
};

struct stream {
    int fd;
    struct queue out, in;
};

struct tcp_link {
    struct transport_link base;
    struct stream *streams;
    unsigned stream_count;
    int control;
    struct frame partial; /* control frame being read */
    size_t partial_bytes;
    int64_t heard_ms;  /* last time that anything came */
    int64_t pinged_ms; /* 0 when no answer is due */
    bool bye;          /* the peer said that it is through */
    bool gone;         /* and its control connection is at its end */
};

struct tcp_transport {
    struct transport base;
    struct transport_config config;
    struct tcp *tcp;
    struct tcp_link *links;
    size_t link_count;
    struct pollfd *fds; /* one per stream and control connection */
    struct tcp_addr_counters before;
};

static struct tcp_transport *self(struct transport *t)
{
    return (struct tcp_transport *)(void *)t;
}

static struct tcp_link *link_of(struct transport_link *l)
{
    return (struct tcp_link *)(void *)l;
}

static int lost(struct tcp_transport *t, uint32_t rank, const char *name, const char *how,
                struct err *err)
{
    t->base.culprit = rank;
    return err_set(err, ERR_REMOTE, "%s (rank %u) %s", name, rank, how);
}

static void say(const struct tcp_link *l, enum frame_kind kind, uint32_t rank)
{
    struct frame f = {.kind = kind, .rank = rank};
    /* Eight bytes into an idle connection: if they do not fit, the peer has not read for long, and
     * its silence is what will be reported. */
    send(l->control, &f, sizeof f, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---------------------------------------------------------------------------- open, connect, close
 */

static int always_available(struct err *err)
{
    return 0;
}

static int open_endpoint(const struct transport_config *config, struct transport **out,
                         struct err *err)
{
    struct tcp_addr addr;
    if (config->streams < 1 || config->streams > TRANSPORT_MAX_STREAMS)
        return err_set(err, ERR_USAGE, "%u streams: 1 to %d are possible", config->streams,
                       TRANSPORT_MAX_STREAMS);
    if (tcp_addr_choose(config->address, NULL, NULL, &addr, err))
        return -1;
    struct tcp_transport *t = mem_zero(1, sizeof *t);
    t->base = (struct transport){.ops = &tcp_transport, .culprit = -1};
    t->config = *config;
    t->config.token = NULL;
    if (tcp_open(&addr, config->token, &t->tcp, err)) {
        free(t);
        return -1;
    }
    t->before = tcp_addr_counters(addr.interface);
    *out = &t->base;
    return 0;
}

static void close_links(struct tcp_transport *t)
{
    for (size_t i = 0; i < t->link_count; i++) {
        say(&t->links[i], FRAME_BYE, 0);
        for (unsigned s = 0; s < t->links[i].stream_count; s++)
            close_fd(&t->links[i].streams[s].fd);
        close_fd(&t->links[i].control);
        free(t->links[i].streams);
    }
    free(t->links);
    free(t->fds);
    t->links = NULL;
    t->fds = NULL;
    t->link_count = 0;
}

static void close_transport(struct transport *base)
{
    if (!base)
        return;
    struct tcp_transport *t = self(base);
    close_links(t);
    tcp_close(t->tcp);
    free(t);
}

static json_t *endpoint(const struct transport *base)
{
    return tcp_endpoint(((const struct tcp_transport *)(const void *)base)->tcp);
}

/* One want per connection: streams 0..n-1 and control of each peer in turn. */
static void fill_wants(const struct tcp_transport *t, const struct transport_peer peers[],
                       size_t count, const struct tcp_addr addrs[], struct tcp_want wants[])
{
    unsigned per_link = t->config.streams + 1;
    for (size_t i = 0; i < count * per_link; i++) {
        const struct transport_peer *p = &peers[i / per_link];
        unsigned stream = (unsigned)(i % per_link);
        bool active = t->config.rank < p->rank;
        wants[i] = (struct tcp_want){
            .connect = active ? &addrs[i / per_link] : NULL,
            .hello = {.from = active ? t->config.rank : p->rank,
                      .stream = stream == t->config.streams ? CONTROL_STREAM : stream},
            .peer = p->name,
            .fd = -1};
    }
}

static void take_links(struct tcp_transport *t, const struct transport_peer peers[], size_t count,
                       const struct tcp_want wants[], struct transport_link *links[])
{
    unsigned streams = t->config.streams;
    t->links = mem_zero(count, sizeof *t->links);
    t->fds = mem_zero(count * (streams + 1), sizeof *t->fds);
    t->link_count = count;
    for (size_t i = 0; i < count; i++) {
        struct tcp_link *l = &t->links[i];
        l->base = (struct transport_link){
            .transport = &t->base, .rank = peers[i].rank, .name = peers[i].name};
        l->streams = mem_zero(streams, sizeof *l->streams);
        l->stream_count = streams;
        for (unsigned s = 0; s < streams; s++)
            l->streams[s] = (struct stream){.fd = wants[i * (streams + 1) + s].fd};
        l->control = wants[i * (streams + 1) + streams].fd;
        l->heard_ms = now_ms();
        links[i] = &l->base;
    }
}

/* Not all connections are there.  Who is to blame: the peer that failed, or the one that a peer
 * which gave up as well names; the others are told. */
static void give_up(struct tcp_transport *t, const struct transport_peer peers[], size_t count,
                    struct tcp_want wants[])
{
    unsigned per_link = t->config.streams + 1;
    for (size_t i = 0; i < count * per_link && t->base.culprit < 0; i++)
        if (wants[i].cause)
            t->base.culprit = peers[i / per_link].rank;
    struct frame f = {0};
    for (size_t i = 0; i < count; i++) {
        int fd = wants[i * per_link + t->config.streams].fd;
        if (fd >= 0 && recv(fd, &f, sizeof f, MSG_DONTWAIT) == sizeof f && f.kind == FRAME_ABORT)
            t->base.culprit = f.rank;
    }
    for (size_t i = 0; i < count * per_link; i++) {
        struct tcp_link l = {.control = wants[i].fd};
        if (l.control >= 0 && i % per_link == t->config.streams)
            say(&l, FRAME_ABORT, (uint32_t)t->base.culprit);
        close_fd(&wants[i].fd);
    }
}

static int connect_peers(struct transport *base, const struct transport_peer peers[], size_t count,
                         int64_t deadline_ms, struct transport_link *links[], struct err *err)
{
    struct tcp_transport *t = self(base);
    size_t want_count = count * (t->config.streams + 1);
    struct tcp_addr *addrs = mem_zero(count, sizeof *addrs);
    struct tcp_want *wants = mem_zero(want_count, sizeof *wants);
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++)
        if ((rc = tcp_endpoint_parse(t->tcp, peers[i].endpoint, &addrs[i], err)))
            err_wrap(err, "%s: ", peers[i].name);
    if (rc == 0) {
        fill_wants(t, peers, count, addrs, wants);
        rc = tcp_establish(t->tcp, wants, want_count, deadline_ms, err);
        if (rc)
            give_up(t, peers, count, wants);
    }
    if (rc == 0)
        take_links(t, peers, count, wants, links);
    free(wants);
    free(addrs);
    return rc;
}

static int attach(struct transport *t, void *memory, size_t bytes, struct err *err)
{
    return 0; /* the kernel takes any memory */
}

/* ---------------------------------------------------------------------------- control */

static void abort_links(struct transport *base, uint32_t culprit)
{
    struct tcp_transport *t = self(base);
    for (size_t i = 0; i < t->link_count; i++)
        say(&t->links[i], FRAME_ABORT, culprit);
}

static int hear_frame(struct tcp_transport *t, struct tcp_link *l, struct err *err)
{
    char how[96];
    l->heard_ms = now_ms();
    l->pinged_ms = 0;
    switch (l->partial.kind) {
    case FRAME_PING:
        say(l, FRAME_PONG, 0);
        return 0;
    case FRAME_PONG:
        return 0;
    case FRAME_BYE:
        l->bye = true;
        return 0;
    case FRAME_ABORT:
        t->base.culprit = l->partial.rank;
        snprintf(how, sizeof how, "rank %u is lost, as %s (rank %u) found", l->partial.rank,
                 l->base.name, l->base.rank);
        return err_set(err, ERR_REMOTE, "%s", how);
    default:
        return err_set(err, ERR_DATA, "%s sent a control frame of unknown kind %u", l->base.name,
                       l->partial.kind);
    }
}

static int hear(struct tcp_transport *t, struct tcp_link *l, struct err *err)
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
        if (hear(t, l, err))
            return -1;
    }
    return lost(t, l->base.rank, l->base.name, "closed its connection", err);
}

/* A peer that owes data is asked after half the silence and given up after all of it. */
static int check_silence(struct tcp_transport *t, struct tcp_link *l, struct err *err)
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
        return lost(t, l->base.rank, l->base.name, how, err);
    }
    if (!l->pinged_ms && now - l->heard_ms >= half) {
        say(l, FRAME_PING, 0);
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

static int post_send(struct transport_link *base, const void *data, size_t bytes, struct err *err)
{
    struct tcp_link *l = link_of(base);
    struct stream *s = &l->streams[base->sends_posted % l->stream_count];
    if (push(&s->out, base->name, base->sends_posted, (void *)(uintptr_t)data, bytes, err))
        return -1;
    base->sends_posted++;
    return 0;
}

static int post_recv(struct transport_link *base, void *data, size_t bytes, struct err *err)
{
    struct tcp_link *l = link_of(base);
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
        if (!out)
            l->heard_ms = now_ms();
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

/* ---------------------------------------------------------------------------- poll */

static int move_all(struct tcp_transport *t, struct err *err)
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

static size_t watch(struct tcp_transport *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->link_count; i++) {
        struct tcp_link *l = &t->links[i];
        for (unsigned s = 0; s < l->stream_count; s++) {
            struct stream *st = &l->streams[s];
            int events = (st->in.count ? POLLIN : 0) | (st->out.count ? POLLOUT : 0);
            t->fds[n++] = (struct pollfd){.fd = events ? st->fd : -1, .events = (short)events};
        }
        t->fds[n++] = (struct pollfd){.fd = l->gone ? -1 : l->control, .events = POLLIN};
    }
    return n;
}

/* Take in what poll(2) said. */
static int note(struct tcp_transport *t, struct err *err)
{
    size_t n = 0;
    for (size_t i = 0; i < t->link_count; i++) {
        struct tcp_link *l = &t->links[i];
        for (unsigned s = 0; s < l->stream_count; s++, n++) {
            l->streams[s].in.ready |= (t->fds[n].revents & ~POLLOUT) != 0;
            l->streams[s].out.ready |= (t->fds[n].revents & ~POLLIN) != 0;
        }
        if (t->fds[n++].revents && hear(t, l, err))
            return -1;
        if (check_silence(t, l, err))
            return -1;
    }
    return 0;
}

static int late(const struct tcp_transport *t, struct err *err)
{
    for (size_t i = 0; i < t->link_count; i++) {
        const struct transport_link *l = &t->links[i].base;
        if (l->recvs_done < l->recvs_posted)
            return err_set(err, ERR_TIMEOUT, "deadline passed while waiting for %s (rank %u)",
                           l->name, l->rank);
    }
    return err_set(err, ERR_TIMEOUT, "deadline passed");
}

static int poll_links(struct transport *base, int64_t deadline_ms, struct err *err)
{
    struct tcp_transport *t = self(base);
    for (;;) {
        int done = move_all(t, err);
        if (done)
            return done < 0 ? -1 : 0;
        /* Whoever leaves without a word is lost even when nothing is due from it. */
        for (size_t i = 0; i < t->link_count; i++)
            if (t->links[i].gone && !t->links[i].bye)
                return lost(t, t->links[i].base.rank, t->links[i].base.name,
                            "closed its connection", err);
        size_t n = watch(t);
        int64_t left_ms = deadline_ms - now_ms();
        if (left_ms <= 0)
            return late(t, err);
        int64_t wait_ms = t->config.silence_ms / 4 + 1;
        if (poll(t->fds, n, (int)(left_ms < wait_ms ? left_ms : wait_ms)) < 0 && errno != EINTR)
            return err_set_errno(err, ERR_ENV, errno, "poll");
        if (note(t, err))
            return -1;
    }
}

static json_t *proof(const struct transport *base)
{
    const struct tcp_transport *t = (const struct tcp_transport *)(const void *)base;
    struct tcp_addr_counters now = tcp_addr_counters(tcp_local(t->tcp)->interface);
    int64_t retransmits = 0;
    for (size_t i = 0; i < t->link_count; i++)
        for (unsigned s = 0; s < t->links[i].stream_count; s++) {
            int64_t n = tcp_counters(&t->links[i].streams[s].fd, 1).retransmits;
            retransmits += n > 0 ? n : 0;
        }
    json_t *p = json_object();
    jsonx_set_str(p, "path", "tcp");
    jsonx_set_str(p, "interface", tcp_local(t->tcp)->interface);
    jsonx_set_int(p, "tx_bytes", now.tx_bytes - t->before.tx_bytes);
    jsonx_set_int(p, "rx_bytes", now.rx_bytes - t->before.rx_bytes);
    jsonx_set_int(p, "retransmits", retransmits);
    return p;
}

const struct transport_ops tcp_transport = {
    .name = "tcp",
    .summary = "kernel TCP sockets, for every network with IP",
    .available = always_available,
    .open = open_endpoint,
    .endpoint = endpoint,
    .connect = connect_peers,
    .attach = attach,
    .post_send = post_send,
    .post_recv = post_recv,
    .poll = poll_links,
    .abort = abort_links,
    .proof = proof,
    .close = close_transport,
};
