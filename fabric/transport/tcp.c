#include "fabric/transport/tcp.h"

#include <errno.h>
#include <linux/tcp.h> /* struct tcp_info with the byte counters, which glibc's header lacks */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/jsonx.h"
#include "common/util.h"

#define HELLO_MAGIC "MUSTERT1"
enum { PROOF_AT = 32, LISTEN_BACKLOG = 1024 };

static const char *const cause_codes[] = {
    [TCP_CAUSE_NONE] = NULL,
    [TCP_CAUSE_REFUSED] = "tcp-connect-refused",
    [TCP_CAUSE_TIMEOUT] = "tcp-connect-timeout",
    [TCP_CAUSE_PEER_LOST] = "peer-lost",
    [TCP_CAUSE_CORRUPT] = "data-corrupt",
    [TCP_CAUSE_MTU] = "path-mtu",
    [TCP_CAUSE_LOCAL] = NULL,
};
_Static_assert(ARRAY_LEN(cause_codes) == TCP_CAUSE__COUNT, "one row per cause");

enum want_state {
    WANT_NEW = 0,
    WANT_CONNECTING,
    WANT_SAYING,
    WANT_HEARING,
    WANT_DONE,
    WANT_FAILED
};

/* An accepted connection that no want has claimed yet. */
struct pending {
    int fd;
    bool proved;
    size_t bytes;
    int64_t until_ms; /* for the hello */
    struct tcp_hello hello;
    uint8_t buffer[TCP_HELLO_BYTES];
};

struct tcp {
    int fd;
    uint16_t port;
    struct tcp_addr local;
    uint8_t token[TCP_TOKEN_BYTES];
    struct pending pending[TCP_MAX_PENDING];
    size_t pending_count;
};

const char *tcp_cause_code(enum tcp_cause cause)
{
    return cause < TCP_CAUSE__COUNT ? cause_codes[cause] : NULL;
}

uint64_t tcp_name_id(const char *name)
{
    struct hash h = hash_of(name, strlen(name));
    uint64_t id = 0;
    for (int i = 0; i < 8; i++)
        id = id << 8 | h.bytes[i];
    return id;
}

/* ---------------------------------------------------------------------------- the two proofs */

static void put_be(uint8_t *out, uint64_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--, value >>= 8)
        out[i] = (uint8_t)value;
}

static uint64_t get_be(const uint8_t *in, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | in[i];
    return value;
}

static struct hash prove(const struct tcp *t, char side, const uint8_t said[static PROOF_AT])
{
    uint8_t text[PROOF_AT + 1];
    memcpy(text, said, PROOF_AT);
    text[PROOF_AT] = (uint8_t)side;
    return hash_of2(t->token, sizeof t->token, text, sizeof text);
}

static void hello_write(const struct tcp *t, const struct tcp_hello *h,
                        uint8_t out[TCP_HELLO_BYTES])
{
    memset(out, 0, TCP_HELLO_BYTES);
    memcpy(out, HELLO_MAGIC, 8);
    put_be(out + 8, h->from, 8);
    put_be(out + 16, h->round, 4);
    put_be(out + 20, h->stream, 4);
    struct hash proof = prove(t, 'c', out);
    memcpy(out + PROOF_AT, proof.bytes, HASH_BYTES);
}

static bool hello_read(const struct tcp *t, const uint8_t in[TCP_HELLO_BYTES], struct tcp_hello *h)
{
    struct hash want = prove(t, 'c', in), got;
    memcpy(got.bytes, in + PROOF_AT, HASH_BYTES);
    if (memcmp(in, HELLO_MAGIC, 8) != 0 || !hash_equal(&want, &got))
        return false;
    *h = (struct tcp_hello){.from = get_be(in + 8, 8),
                            .round = (uint32_t)get_be(in + 16, 4),
                            .stream = (uint32_t)get_be(in + 20, 4)};
    return true;
}

/* ---------------------------------------------------------------------------- the listener */

int tcp_open(const struct tcp_addr *addr, const uint8_t token[static TCP_TOKEN_BYTES],
             struct tcp **out, struct err *err)
{
    AUTO(close_fd)
    int fd =
        socket(addr->sockaddr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (fd < 0)
        return err_set_errno(err, ERR_ENV, errno, "cannot make a TCP socket");
    struct sockaddr_storage sa = addr->sockaddr;
    socklen_t len = sizeof sa;
    if (bind(fd, (const struct sockaddr *)&sa, addr->sockaddr_bytes) ||
        listen(fd, LISTEN_BACKLOG) || getsockname(fd, (struct sockaddr *)&sa, &len))
        return err_set_errno(err, ERR_ENV, errno, "cannot listen on %s", addr->text);
    struct tcp *t = mem_zero(1, sizeof *t);
    t->local = *addr;
    t->port = ntohs(sa.ss_family == AF_INET ? ((struct sockaddr_in *)&sa)->sin_port
                                            : ((struct sockaddr_in6 *)&sa)->sin6_port);
    memcpy(t->token, token, sizeof t->token);
    t->fd = fd;
    fd = -1;
    *out = t;
    return 0;
}

static void pending_drop(struct tcp *t, size_t i)
{
    close_fd(&t->pending[i].fd);
    t->pending[i] = t->pending[--t->pending_count];
}

void tcp_close(struct tcp *t)
{
    if (!t)
        return;
    while (t->pending_count)
        pending_drop(t, t->pending_count - 1);
    close_fd(&t->fd);
    explicit_bzero(t->token, sizeof t->token);
    free(t);
}

const struct tcp_addr *tcp_local(const struct tcp *t)
{
    return &t->local;
}

uint16_t tcp_port(const struct tcp *t)
{
    return t->port;
}

json_t *tcp_endpoint(const struct tcp *t)
{
    json_t *e = json_object();
    jsonx_set_str(e, "address", t->local.text);
    jsonx_set_int(e, "port", t->port);
    jsonx_set_str(e, "interface", t->local.interface);
    return e;
}

int tcp_endpoint_parse(const struct tcp *t, const json_t *endpoint, struct tcp_addr *out,
                       struct err *err)
{
    static const char *const keys[] = {"address", "port", "interface", NULL};
    const char *address;
    int64_t port;
    if (jsonx_only_keys(endpoint, "endpoint", keys, err) ||
        jsonx_get_str(endpoint, "endpoint", "address", &address, err) ||
        jsonx_get_int(endpoint, "endpoint", "port", &port, err))
        return -1;
    if (port < 1 || port > 65535)
        return err_set(err, ERR_USAGE, "endpoint: port %lld is not in 1..65535", (long long)port);
    return tcp_addr_parse(address, (uint16_t)port, if_nametoindex(t->local.interface), out, err);
}

/* ---------------------------------------------------------------------------- sockets */

/* The segment size must stand before the connection does.  It bounds both directions: who connects
 * announces it to the other side and keeps to it. */
static void set_options(int fd, bool small_segments)
{
    const int one = 1, segment = TCP_SMALL_SEGMENT;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (small_segments)
        setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment);
}

static void fail(struct tcp_want *w, enum tcp_cause cause, const char *what, int errnum)
{
    char reason[96] = "";
    close_fd(&w->fd);
    w->state = WANT_FAILED;
    w->cause = cause;
    snprintf(w->text, sizeof w->text, "%s %s%s%s", w->peer, what, errnum ? ": " : "",
             errnum ? strerror_r(errnum, reason, sizeof reason) : "");
}

static void fail_connect(const struct tcp *t, struct tcp_want *w, int errnum)
{
    static const struct {
        int errnum;
        enum tcp_cause cause;
    } rows[] = {{ECONNREFUSED, TCP_CAUSE_REFUSED}, {ECONNRESET, TCP_CAUSE_PEER_LOST},
                {EPIPE, TCP_CAUSE_PEER_LOST},      {ETIMEDOUT, TCP_CAUSE_TIMEOUT},
                {EHOSTUNREACH, TCP_CAUSE_TIMEOUT}, {ENETUNREACH, TCP_CAUSE_TIMEOUT}};
    enum tcp_cause cause = TCP_CAUSE_LOCAL;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].errnum == errnum)
            cause = rows[i].cause;
    char what[192];
    snprintf(what, sizeof what, "cannot be connected at %s from %s", w->connect->text,
             t->local.text);
    fail(w, cause, what, errnum);
}

static void want_connect(const struct tcp *t, struct tcp_want *w)
{
    const int one = 1;
    w->fd = socket(w->connect->sockaddr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                   IPPROTO_TCP);
    if (w->fd < 0) {
        fail_connect(t, w, errno);
        return;
    }
    set_options(w->fd, w->small_segments);
    setsockopt(w->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    if (w->connect->sockaddr.ss_family == t->local.sockaddr.ss_family &&
        bind(w->fd, (const struct sockaddr *)&t->local.sockaddr, t->local.sockaddr_bytes)) {
        fail_connect(t, w, errno);
        return;
    }
    hello_write(t, &w->hello, w->buffer);
    w->state = WANT_CONNECTING;
    if (connect(w->fd, (const struct sockaddr *)&w->connect->sockaddr,
                w->connect->sockaddr_bytes) &&
        errno != EINPROGRESS)
        fail_connect(t, w, errno);
}

/* One step of a connecting want whose socket is ready. */
static void want_step(const struct tcp *t, struct tcp_want *w)
{
    if (w->state == WANT_CONNECTING) {
        int error = 0;
        socklen_t len = sizeof error;
        getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &error, &len);
        if (error) {
            fail_connect(t, w, error);
            return;
        }
        w->state = WANT_SAYING;
    }
    if (w->state == WANT_SAYING) {
        ssize_t n = send(w->fd, w->buffer + w->bytes, TCP_HELLO_BYTES - w->bytes, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            fail_connect(t, w, errno);
        w->bytes += n > 0 ? (unsigned)n : 0;
        if (w->bytes == TCP_HELLO_BYTES) {
            w->state = WANT_HEARING;
            w->bytes = 0;
        }
        return;
    }
    uint8_t said[TCP_HELLO_BYTES];
    ssize_t n = recv(w->fd, w->buffer + w->bytes, TCP_ACK_BYTES - w->bytes, 0);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        fail(w, TCP_CAUSE_PEER_LOST, "closed the connection instead of answering it",
             n ? errno : 0);
        return;
    }
    w->bytes += (unsigned)n;
    if (w->bytes < TCP_ACK_BYTES)
        return;
    hello_write(t, &w->hello, said);
    struct hash want = prove(t, 'a', said), got;
    memcpy(got.bytes, w->buffer, HASH_BYTES);
    if (hash_equal(&want, &got))
        w->state = WANT_DONE;
    else
        fail(w, TCP_CAUSE_PEER_LOST, "is not the process that answers at its endpoint", 0);
}

/* ---------------------------------------------------------------------------- accepting */

static void accept_all(struct tcp *t)
{
    for (;;) {
        int fd = accept4(t->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return; /* nothing waits, or a connection that ended meanwhile */
        /* A stranger must not keep a peer out: an unproved one makes room. */
        for (size_t i = 0; t->pending_count == TCP_MAX_PENDING && i < TCP_MAX_PENDING; i++)
            if (!t->pending[i].proved)
                pending_drop(t, i);
        if (t->pending_count == TCP_MAX_PENDING) {
            close(fd);
            continue;
        }
        set_options(fd, false);
        t->pending[t->pending_count++] =
            (struct pending){.fd = fd, .until_ms = now_ms() + TCP_HELLO_MS};
    }
}

/* Returns false when the connection is over. */
static bool pending_read(struct tcp *t, struct pending *p)
{
    if (p->proved) {
        uint8_t byte;
        ssize_t n = recv(p->fd, &byte, 1, MSG_PEEK);
        return n > 0 || (n < 0 && errno == EAGAIN);
    }
    ssize_t n = recv(p->fd, p->buffer + p->bytes, TCP_HELLO_BYTES - p->bytes, 0);
    if (n < 0 && errno == EAGAIN)
        return now_ms() < p->until_ms;
    if (n <= 0)
        return false;
    p->bytes += (size_t)n;
    if (p->bytes < TCP_HELLO_BYTES)
        return true;
    p->proved = hello_read(t, p->buffer, &p->hello);
    return p->proved;
}

static bool hello_equal(const struct tcp_hello *a, const struct tcp_hello *b)
{
    return a->from == b->from && a->round == b->round && a->stream == b->stream;
}

/* Give a proved connection to the want that expects it; true when it was taken. */
static bool claim(struct tcp *t, struct pending *p, struct tcp_want wants[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct tcp_want *w = &wants[i];
        if (w->connect || w->state != WANT_NEW || !hello_equal(&w->hello, &p->hello))
            continue;
        struct hash answer = prove(t, 'a', p->buffer);
        if (send(p->fd, answer.bytes, TCP_ACK_BYTES, MSG_NOSIGNAL) != TCP_ACK_BYTES)
            return false;
        w->fd = p->fd;
        p->fd = -1;
        w->state = WANT_DONE;
        return true;
    }
    return false;
}

/* Read hellos, hand over what is wanted, drop what is foreign, late or of a past round. */
static void serve_pending(struct tcp *t, struct tcp_want wants[], size_t count)
{
    uint32_t round = UINT32_MAX;
    for (size_t i = 0; i < count; i++)
        round = wants[i].hello.round < round ? wants[i].hello.round : round;
    for (size_t i = 0; i < t->pending_count;) {
        struct pending *p = &t->pending[i];
        bool keep = pending_read(t, p) && !(p->proved && p->hello.round < round);
        if (keep && p->proved && claim(t, p, wants, count))
            keep = false;
        if (keep)
            i++;
        else
            pending_drop(t, i);
    }
}

/* ---------------------------------------------------------------------------- the loop */

static bool is_open(const struct tcp_want *w)
{
    return w->state != WANT_DONE && w->state != WANT_FAILED;
}

static void wait_ready(struct tcp *t, struct tcp_want wants[], size_t count, int64_t until_ms)
{
    struct pollfd *fds = mem_zero(1 + t->pending_count + count, sizeof *fds);
    nfds_t n = 0;
    fds[n++] = (struct pollfd){.fd = t->fd, .events = POLLIN};
    for (size_t i = 0; i < t->pending_count; i++)
        if (!t->pending[i].proved)
            fds[n++] = (struct pollfd){.fd = t->pending[i].fd, .events = POLLIN};
    nfds_t first_want = n;
    for (size_t i = 0; i < count; i++)
        if (wants[i].connect && is_open(&wants[i]))
            fds[n++] = (struct pollfd){.fd = wants[i].fd,
                                       .events = wants[i].state == WANT_HEARING ? POLLIN : POLLOUT};
    int64_t left_ms = until_ms - now_ms();
    /* Hellos have deadlines of their own, so the wait is cut. */
    left_ms = left_ms < 0 ? 0 : left_ms > 100 ? 100 : left_ms;
    poll(fds, n, (int)left_ms);
    nfds_t at = first_want;
    for (size_t i = 0; i < count; i++)
        if (wants[i].connect && is_open(&wants[i]) && fds[at++].revents)
            want_step(t, &wants[i]);
    free(fds);
}

static void fail_late(const struct tcp *t, struct tcp_want *w)
{
    char what[192];
    if (w->connect && w->state == WANT_CONNECTING) {
        snprintf(what, sizeof what, "does not answer at %s (from %s)", w->connect->text,
                 t->local.text);
        fail(w, TCP_CAUSE_TIMEOUT, what, 0);
    } else if (w->connect) {
        fail(w, TCP_CAUSE_PEER_LOST, "took the connection and said nothing", 0);
    } else {
        fail(w, TCP_CAUSE_PEER_LOST, "never connected", 0);
    }
}

static int report(const struct tcp_want wants[], size_t count, bool late, struct err *err)
{
    const struct tcp_want *worst = NULL;
    for (size_t i = 0; i < count; i++)
        /* A refusal tells more than the silence that follows from it. */
        if (wants[i].state == WANT_FAILED &&
            (!worst || (worst->cause == TCP_CAUSE_PEER_LOST && wants[i].cause != worst->cause)))
            worst = &wants[i];
    if (!worst)
        return 0;
    enum err_kind kind = worst->cause == TCP_CAUSE_LOCAL ? ERR_ENV
                         : late                          ? ERR_TIMEOUT
                                                         : ERR_REMOTE;
    return err_set(err, kind, "%s", worst->text);
}

int tcp_establish(struct tcp *t, struct tcp_want wants[], size_t count, int64_t deadline_ms,
                  struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        wants[i].fd = -1;
        wants[i].state = WANT_NEW;
        wants[i].bytes = 0;
        wants[i].cause = TCP_CAUSE_NONE;
        wants[i].text[0] = '\0';
        if (wants[i].connect)
            want_connect(t, &wants[i]);
    }
    int64_t until_ms = deadline_ms;
    for (;;) {
        accept_all(t);
        serve_pending(t, wants, count);
        size_t open = 0, failed = 0;
        for (size_t i = 0; i < count; i++) {
            open += is_open(&wants[i]);
            failed += wants[i].state == WANT_FAILED;
        }
        if (!open)
            return report(wants, count, false, err);
        if (failed && until_ms == deadline_ms && now_ms() + TCP_GRACE_MS < deadline_ms)
            until_ms = now_ms() + TCP_GRACE_MS;
        if (now_ms() >= until_ms)
            break;
        wait_ready(t, wants, count, until_ms);
    }
    for (size_t i = 0; i < count; i++)
        if (is_open(&wants[i]))
            fail_late(t, &wants[i]);
    return report(wants, count, true, err);
}

/* ---------------------------------------------------------------------------- counters */

struct tcp_counters tcp_counters(const int fds[], size_t count)
{
    struct tcp_counters sum = {.segment_bytes = -1};
    for (size_t i = 0; i < count; i++) {
        struct tcp_info info = {0};
        socklen_t len = sizeof info;
        if (getsockopt(fds[i], IPPROTO_TCP, TCP_INFO, &info, &len))
            return (struct tcp_counters){-1, -1, -1, -1, -1};
        sum.retransmits += info.tcpi_total_retrans;
        sum.unanswered += info.tcpi_retransmits;
        sum.bytes_acked += (int64_t)info.tcpi_bytes_acked;
        sum.bytes_received += (int64_t)info.tcpi_bytes_received;
        if (i == 0)
            sum.segment_bytes = info.tcpi_snd_mss;
    }
    return sum;
}
