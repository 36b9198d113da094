/* The TCP row of the transport table.
 *
 * A link is `streams` data connections and one for control; the lower rank connects.  Message m
 * goes over stream m mod streams, behind a header with its number and length; several messages are
 * read and written by one system call.  Control frames carry "are you there", its answer, and "I
 * give up because of rank r", so that a rank that waits can tell a dead neighbour from one that
 * waits too. */
#include "fabric/transport/tcp_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"

/* ------------------------------------------------------------ open, connect, close */

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
        tcp_link_say(&t->links[i], FRAME_BYE, 0);
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
    struct tcp_transport *t = tcp_transport_of(base);
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
        if (fd >= 0 && recv(fd, &f, sizeof f, MSG_DONTWAIT) == sizeof f && f.kind == FRAME_ABORT &&
            f.rank != TRANSPORT_NO_RANK)
            t->base.culprit = f.rank;
    }
    for (size_t i = 0; i < count * per_link; i++) {
        struct tcp_link l = {.control = wants[i].fd};
        if (l.control >= 0 && i % per_link == t->config.streams)
            tcp_link_say(&l, FRAME_ABORT,
                         t->base.culprit < 0 ? TRANSPORT_NO_RANK : (uint32_t)t->base.culprit);
        close_fd(&wants[i].fd);
    }
}

static int connect_peers(struct transport *base, const struct transport_peer peers[], size_t count,
                         int64_t deadline_ms, struct transport_link *links[], struct err *err)
{
    struct tcp_transport *t = tcp_transport_of(base);
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

/* ---------------------------------------------------------------------------- poll */

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
        if (t->fds[n++].revents && tcp_link_hear(t, l, err))
            return -1;
        if (tcp_link_check_silence(t, l, err))
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
    struct tcp_transport *t = tcp_transport_of(base);
    for (;;) {
        int done = tcp_link_move_all(t, err);
        if (done)
            return done < 0 ? -1 : 0;
        /* Whoever leaves without a word is lost even when nothing is due from it. */
        for (size_t i = 0; i < t->link_count; i++)
            if (t->links[i].gone && !t->links[i].bye)
                return tcp_link_lost(t, t->links[i].base.rank, t->links[i].base.name,
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
    .post_send = tcp_link_post_send,
    .post_recv = tcp_link_post_recv,
    .poll = poll_links,
    .abort = tcp_link_abort,
    .proof = proof,
    .close = close_transport,
};
