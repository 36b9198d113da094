/* Pairs as two threads.  Faults are planted by a relay between them: the connections of `a` go
 * through it, as through a bad switch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util.h"
#include "fabric/transport/tcp_pair.h"

static const uint8_t token[TCP_TOKEN_BYTES] = {9, 8, 7};

struct half {
    struct tcp *t;
    struct tcp_pair_peer peer;
    struct tcp_pair_config config;
    int timeout_ms;
    struct tcp_pair_result result;
    bool ok;
    pthread_t thread;
};

static struct half a, b; /* large */

static void *half_main(void *arg)
{
    struct half *h = arg;
    h->ok = tcp_pair_run(h->t, &h->peer, &h->config, now_ms() + h->timeout_ms, &h->result);
    return NULL;
}

static struct tcp_addr addr_of(const struct tcp *t)
{
    struct err err = {.kind = ERR_NONE};
    struct tcp_addr addr;
    json_t *e = tcp_endpoint(t);
    assert_int_equal(tcp_endpoint_parse(t, e, &addr, &err), 0);
    json_decref(e);
    return addr;
}

static void open_halves(unsigned streams, int64_t content_bytes)
{
    struct half *halves[] = {&a, &b};
    for (int i = 0; i < 2; i++) {
        struct err err = {.kind = ERR_NONE};
        struct tcp_addr addr;
        memset(halves[i], 0, sizeof **halves);
        assert_int_equal(tcp_addr_choose("127.0.0.1", NULL, NULL, &addr, &err), 0);
        assert_int_equal(tcp_open(&addr, token, &halves[i]->t, &err), 0);
        halves[i]->timeout_ms = 30000;
        halves[i]->config = (struct tcp_pair_config){.streams = streams,
                                                     .duration_ms = 500,
                                                     .content_bytes = content_bytes,
                                                     .latency_iterations = 100};
    }
    a.peer = (struct tcp_pair_peer){.self = "a", .name = "b", .first = true, .round = 3};
    b.peer = (struct tcp_pair_peer){.self = "b", .name = "a", .first = false, .round = 3};
    a.peer.addr = addr_of(b.t);
    b.peer.addr = addr_of(a.t);
}

static void run_halves(void)
{
    assert_int_equal(pthread_create(&a.thread, NULL, half_main, &a), 0);
    assert_int_equal(pthread_create(&b.thread, NULL, half_main, &b), 0);
    pthread_join(a.thread, NULL);
    pthread_join(b.thread, NULL);
}

static void close_halves(void)
{
    tcp_close(a.t);
    tcp_close(b.t);
}

/* ------------------------------------------------------------------------------- the relay */

enum { RELAY_MAX = 16 };

struct relay {
    int listener;
    struct tcp_addr target;
    atomic_bool stop;
    pthread_t thread;
    int ends[RELAY_MAX][2];     /* accepted, connected */
    uint64_t passed[RELAY_MAX]; /* bytes from the accepted to the connected end */
    size_t count;
    /* Faults on what goes from a to b, by bytes of one connection; 0 for none. */
    uint64_t flip_at, hold_at, cut_at;
};

static void relay_accept(struct relay *r)
{
    int in = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC);
    if (in < 0 || r->count == RELAY_MAX)
        return;
    int out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(out, (struct sockaddr *)&r->target.sockaddr, r->target.sockaddr_bytes),
                     0);
    r->ends[r->count][0] = in;
    r->ends[r->count++][1] = out;
}

static bool holds(const struct relay *r, size_t i)
{
    return r->hold_at && r->passed[i] >= r->hold_at;
}

/* Pass on what one end has; closes both at its end. */
static void relay_pass(struct relay *r, size_t i, int from)
{
    uint8_t block[65536];
    ssize_t n = recv(r->ends[i][from], block, sizeof block, MSG_DONTWAIT);
    if (n < 0)
        return;
    uint64_t at = r->passed[i];
    bool cut = from == 0 && r->cut_at && at + (uint64_t)n >= r->cut_at;
    if (from == 0) {
        if (r->flip_at >= at && r->flip_at < at + (uint64_t)n && r->flip_at)
            block[r->flip_at - at] ^= 4;
        r->passed[i] += (uint64_t)n;
    }
    if (n == 0 && !cut) {
        shutdown(r->ends[i][!from], SHUT_WR);
        close_fd(&r->ends[i][from]);
        return;
    }
    send(r->ends[i][!from], block, (size_t)n, MSG_NOSIGNAL);
    for (size_t k = 0; cut && k < r->count; k++) {
        shutdown(r->ends[k][0], SHUT_RDWR);
        shutdown(r->ends[k][1], SHUT_RDWR);
    }
}

static void *relay_main(void *arg)
{
    struct relay *r = arg;
    while (!r->stop) {
        struct pollfd fds[1 + 2 * RELAY_MAX] = {{.fd = r->listener, .events = POLLIN}};
        for (size_t i = 0; i < r->count; i++) {
            fds[1 + 2 * i] =
                (struct pollfd){.fd = holds(r, i) ? -1 : r->ends[i][0], .events = POLLIN};
            fds[2 + 2 * i] = (struct pollfd){.fd = r->ends[i][1], .events = POLLIN};
        }
        size_t count = r->count;
        poll(fds, 1 + 2 * count, 20);
        if (fds[0].revents)
            relay_accept(r);
        for (size_t k = 0; k < 2 * count; k++)
            if (fds[1 + k].revents && r->ends[k / 2][k % 2] >= 0)
                relay_pass(r, k / 2, (int)(k % 2));
    }
    return NULL;
}

static void relay_start(struct relay *r)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof sa;
    struct err err = {.kind = ERR_NONE};
    r->target = a.peer.addr;
    r->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(r->listener, (struct sockaddr *)&sa, sizeof sa), 0);
    assert_int_equal(listen(r->listener, 16), 0);
    assert_int_equal(getsockname(r->listener, (struct sockaddr *)&sa, &len), 0);
    assert_int_equal(tcp_addr_parse("127.0.0.1", ntohs(sa.sin_port), 0, &a.peer.addr, &err), 0);
    assert_int_equal(pthread_create(&r->thread, NULL, relay_main, r), 0);
}

static void relay_end(struct relay *r)
{
    r->stop = true;
    pthread_join(r->thread, NULL);
    for (size_t i = 0; i < r->count; i++) {
        close_fd(&r->ends[i][0]);
        close_fd(&r->ends[i][1]);
    }
    close_fd(&r->listener);
}

/* ------------------------------------------------------------------------------- tests */

static void a_good_pair_is_measured(void **state)
{
    /* Sizes that the streams do not divide, fewer bytes than streams, one stream. */
    static const struct {
        unsigned streams;
        int64_t content_bytes;
    } rows[] = {{3, 1000003}, {4, 3}, {1, 1 << 20}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        open_halves(rows[i].streams, rows[i].content_bytes);
        run_halves();
        if (!a.ok || !b.ok)
            fail_msg("%s %s %s", a.result.out.data.text, a.result.in.data.text,
                     a.result.latency.text);
        assert_int_equal(b.result.in.content.compared, rows[i].content_bytes);
        assert_int_equal(a.result.out.content.compared, rows[i].content_bytes);
        /* Five intervals, of which two are warm-up; a late wake-up moves that border. */
        assert_in_range(b.result.in.sample_count, 1, 5);
        assert_in_range(a.result.in.sample_count, 1, 5);
        assert_true(b.result.in.samples_bps[0] > 0);
        assert_true(a.result.min_s > 0 && a.result.min_s <= a.result.p50_s);
        assert_true(a.result.p50_s <= a.result.p99_s);
        assert_true(a.result.out.cpu_share >= 0 && b.result.in.cpu_share >= 0);
        assert_true(b.result.in.retransmits >= 0);
        assert_true(b.result.in.moved.rx_bytes > 0);
        close_halves();
    }
}

static void a_flipped_bit_is_found_and_located(void **state)
{
    open_halves(1, 1 << 20);
    struct relay r = {.flip_at = TCP_HELLO_BYTES + 500000};
    relay_start(&r);
    run_halves();
    relay_end(&r);
    assert_false(a.ok);
    assert_false(b.ok);
    assert_int_equal(b.result.in.data.outcome, TCP_PAIR_FAILED);
    assert_int_equal(b.result.in.data.cause, TCP_CAUSE_CORRUPT);
    assert_string_equal(b.result.in.data.text,
                        "1 of 1048576 bytes from a arrived altered, the first at offset 500000");
    assert_int_equal(a.result.out.data.cause, TCP_CAUSE_CORRUPT);
    assert_string_equal(a.result.out.data.text, "b received 1 of 1048576 bytes altered");
    /* The rest is measured all the same. */
    assert_int_equal(b.result.in.bandwidth.outcome, TCP_PAIR_MEASURED);
    assert_int_equal(a.result.in.data.outcome, TCP_PAIR_MEASURED);
    close_halves();
}

/* The data connection takes no more, while the control connection goes on. */
static void data_that_stop_are_told_from_a_small_mtu(void **state)
{
    open_halves(1, 64 << 20);
    struct relay r = {.hold_at = 1000000};
    relay_start(&r);
    run_halves();
    relay_end(&r);
    assert_int_equal(b.result.latency.outcome, TCP_PAIR_MEASURED);
    assert_int_equal(b.result.in.data.cause, TCP_CAUSE_PEER_LOST);
    assert_string_equal(b.result.in.data.text,
                        "data from a to b stopped for 1500 ms although b answers");
    assert_int_equal(a.result.out.bandwidth.outcome, TCP_PAIR_FAILED);
    /* The other direction does not go through the relay. */
    assert_int_equal(a.result.in.bandwidth.outcome, TCP_PAIR_MEASURED);
    close_halves();
}

static void a_peer_that_dies_on_the_way_is_lost(void **state)
{
    open_halves(2, 32 << 20);
    struct relay r = {.cut_at = 4000000};
    relay_start(&r);
    run_halves();
    relay_end(&r);
    assert_false(a.ok);
    assert_false(b.ok);
    assert_int_equal(b.result.in.data.outcome, TCP_PAIR_FAILED);
    assert_int_equal(b.result.in.data.cause, TCP_CAUSE_PEER_LOST);
    assert_int_equal(a.result.out.data.cause, TCP_CAUSE_PEER_LOST);
    assert_int_equal(a.result.in.bandwidth.outcome, TCP_PAIR_FAILED);
    close_halves();
}

static void a_peer_that_never_comes_is_waited_for_until_the_deadline(void **state)
{
    open_halves(2, 1000);
    a.timeout_ms = 400;
    int64_t begin_ms = now_ms();
    half_main(&a);
    assert_true(now_ms() - begin_ms < 10000);
    assert_false(a.ok);
    assert_int_equal(a.result.out.data.outcome, TCP_PAIR_FAILED);
    assert_int_equal(a.result.out.data.cause, TCP_CAUSE_PEER_LOST);
    assert_string_equal(a.result.out.data.text, "b took the connection and said nothing");
    assert_string_equal(a.result.in.data.text, "b never connected");
    /* And the pair works when it comes in the next round. */
    a.timeout_ms = 30000;
    a.peer.round = b.peer.round = 4;
    run_halves();
    assert_true(a.ok);
    assert_true(b.ok);
    close_halves();
}

/* One way is blocked: only that direction has failed. */
static void a_one_way_block_is_charged_to_its_direction(void **state)
{
    open_halves(1, 1000);
    struct err err = {.kind = ERR_NONE};
    struct tcp_addr nobody;
    struct tcp *gone;
    struct tcp_addr local = *tcp_local(a.t);
    assert_int_equal(tcp_open(&local, token, &gone, &err), 0);
    nobody = addr_of(gone);
    tcp_close(gone);
    b.peer.addr = nobody; /* b cannot reach a */
    a.timeout_ms = b.timeout_ms = 2000;
    run_halves();
    assert_int_equal(b.result.out.data.outcome, TCP_PAIR_FAILED);
    assert_int_equal(b.result.out.data.cause, TCP_CAUSE_REFUSED);
    assert_int_equal(b.result.in.data.outcome, TCP_PAIR_NOT_MEASURED);
    assert_int_equal(a.result.in.data.outcome, TCP_PAIR_FAILED);
    assert_int_equal(a.result.in.data.cause, TCP_CAUSE_PEER_LOST);
    assert_int_equal(a.result.out.data.outcome, TCP_PAIR_NOT_MEASURED);
    close_halves();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_pair_is_measured),
        cmocka_unit_test(a_flipped_bit_is_found_and_located),
        cmocka_unit_test(data_that_stop_are_told_from_a_small_mtu),
        cmocka_unit_test(a_peer_that_dies_on_the_way_is_lost),
        cmocka_unit_test(a_peer_that_never_comes_is_waited_for_until_the_deadline),
        cmocka_unit_test(a_one_way_block_is_charged_to_its_direction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
