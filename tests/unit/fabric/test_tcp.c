#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util.h"
#include "fabric/transport/tcp.h"

static const uint8_t token[TCP_TOKEN_BYTES] = {1, 2, 3, 4};
static const uint8_t other_token[TCP_TOKEN_BYTES] = {1, 2, 3, 5};

static struct tcp *open_on(const char *address, const uint8_t *secret)
{
    struct err err = {.kind = ERR_NONE};
    struct tcp_addr addr;
    struct tcp *t = NULL;
    if (tcp_addr_choose(address, NULL, NULL, &addr, &err) || tcp_open(&addr, secret, &t, &err))
        fail_msg("%s: %s", address, err.text);
    return t;
}

static struct tcp_addr addr_of(const struct tcp *t)
{
    struct err err = {.kind = ERR_NONE};
    struct tcp_addr a;
    json_t *e = tcp_endpoint(t);
    assert_int_equal(tcp_endpoint_parse(t, e, &a, &err), 0);
    json_decref(e);
    return a;
}

/* One side of an establishment, as a thread. */
struct party {
    struct tcp *t;
    struct tcp_want wants[4];
    size_t count;
    int timeout_ms;
    pthread_t thread;
    int rc;
    struct err err;
};

static void *party_main(void *arg)
{
    struct party *p = arg;
    p->rc = tcp_establish(p->t, p->wants, p->count, now_ms() + p->timeout_ms, &p->err);
    return NULL;
}

static void party_start(struct party *p)
{
    assert_int_equal(pthread_create(&p->thread, NULL, party_main, p), 0);
}

static void party_end(struct party *p)
{
    pthread_join(p->thread, NULL);
}

static void party_close(struct party *p)
{
    for (size_t i = 0; i < p->count; i++)
        close_fd(&p->wants[i].fd);
    tcp_close(p->t);
}

static struct tcp_want want(const struct tcp_addr *connect, uint64_t from, uint32_t round,
                            uint32_t stream)
{
    return (struct tcp_want){.connect = connect,
                             .hello = {.from = from, .round = round, .stream = stream},
                             .peer = "peer",
                             .fd = -1};
}

/* Both directions at once, two streams; each end of a stream must be the same stream. */
static void meet(const char *address)
{
    struct party a = {.t = open_on(address, token), .count = 4, .timeout_ms = 5000};
    struct party b = {.t = open_on(address, token), .count = 4, .timeout_ms = 5000};
    struct tcp_addr to_a = addr_of(a.t), to_b = addr_of(b.t);
    for (uint32_t i = 0; i < 2; i++) {
        a.wants[i] = want(&to_b, 1, 7, i);
        a.wants[2 + i] = want(NULL, 2, 7, i);
        b.wants[i] = want(NULL, 1, 7, 1 - i);
        b.wants[2 + i] = want(&to_a, 2, 7, i);
    }
    party_start(&a);
    party_start(&b);
    party_end(&a);
    party_end(&b);
    if (a.rc || b.rc)
        fail_msg("%s / %s", a.err.text, b.err.text);
    char byte = 0;
    assert_int_equal(send(a.wants[0].fd, "x", 1, 0), 1);
    struct pollfd p = {.fd = b.wants[1].fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 2000), 1);
    assert_int_equal(recv(b.wants[1].fd, &byte, 1, 0), 1);
    assert_int_equal(byte, 'x');
    struct tcp_counters c = tcp_counters(&a.wants[0].fd, 1);
    assert_true(c.bytes_acked >= TCP_HELLO_BYTES);
    assert_int_equal(c.retransmits, 0);
    assert_true(c.segment_bytes > 0);
    party_close(&a);
    party_close(&b);
}

static void two_parties_meet_over_ipv4(void **state)
{
    meet("127.0.0.1");
}

static void two_parties_meet_over_ipv6(void **state)
{
    struct err err = {.kind = ERR_NONE};
    struct tcp_addr addr;
    if (tcp_addr_choose("::1", NULL, NULL, &addr, &err)) {
        print_message("no ::1 on this machine: %s\n", err.text);
        skip();
    }
    meet("::1");
}

static int plain_connect(const struct tcp_addr *to)
{
    int fd = socket(to->sockaddr.ss_family, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to->sockaddr, to->sockaddr_bytes), 0);
    return fd;
}

/* Strangers that say nothing, nonsense, or know another token; more of them than there are places.
 */
static void strangers_do_not_disturb(void **state)
{
    enum { SILENT = TCP_MAX_PENDING + 20 };
    struct party a = {.t = open_on("127.0.0.1", token), .count = 1, .timeout_ms = 5000};
    struct party b = {.t = open_on("127.0.0.1", token), .count = 1, .timeout_ms = 5000};
    struct party wrong = {.t = open_on("127.0.0.1", other_token), .count = 1, .timeout_ms = 5000};
    struct tcp_addr to_b = addr_of(b.t);
    int silent[SILENT], noisy = plain_connect(&to_b);
    for (int i = 0; i < SILENT; i++)
        silent[i] = plain_connect(&to_b);
    char junk[200];
    memset(junk, 'M', sizeof junk);
    assert_int_equal(send(noisy, junk, sizeof junk, MSG_NOSIGNAL), sizeof junk);
    wrong.wants[0] = want(&to_b, 1, 0, 0);
    a.wants[0] = want(&to_b, 1, 0, 0);
    b.wants[0] = want(NULL, 1, 0, 0);
    party_start(&wrong);
    usleep(50000);
    party_start(&b);
    party_end(&wrong); /* closed, without an answer, while the right one is still awaited */
    party_start(&a);
    party_end(&a);
    party_end(&b);
    if (a.rc || b.rc)
        fail_msg("%s / %s", a.err.text, b.err.text);
    assert_int_equal(wrong.rc, -1);
    assert_int_equal(wrong.wants[0].cause, TCP_CAUSE_PEER_LOST);
    for (int i = 0; i < SILENT; i++)
        close(silent[i]);
    close(noisy);
    party_close(&a);
    party_close(&b);
    party_close(&wrong);
}

/* A connection for a later round is kept, one for an earlier round is closed. */
static void rounds_do_not_mix(void **state)
{
    struct party early = {.t = open_on("127.0.0.1", token), .count = 1, .timeout_ms = 3000};
    struct party stale = {.t = open_on("127.0.0.1", token), .count = 1, .timeout_ms = 3000};
    struct party b = {.t = open_on("127.0.0.1", token), .count = 1, .timeout_ms = 300};
    struct tcp_addr to_b = addr_of(b.t);
    early.wants[0] = want(&to_b, 1, 5, 0);
    stale.wants[0] = want(&to_b, 1, 3, 0);
    b.wants[0] = want(NULL, 9, 4, 0); /* round 4, with somebody who does not come */
    party_start(&early);
    party_start(&stale);
    party_start(&b);
    party_end(&b);
    assert_int_equal(b.rc, -1);
    assert_int_equal(b.err.kind, ERR_TIMEOUT);
    assert_string_equal(b.err.text, "peer never connected");
    party_end(&stale);
    assert_int_equal(stale.rc, -1);
    assert_int_equal(stale.wants[0].cause, TCP_CAUSE_PEER_LOST);
    err_clear(&b.err);
    b.wants[0] = want(NULL, 1, 5, 0);
    b.timeout_ms = 3000;
    party_start(&b);
    party_end(&b);
    party_end(&early);
    if (early.rc || b.rc)
        fail_msg("%s / %s", early.err.text, b.err.text);
    party_close(&early);
    party_close(&stale);
    party_close(&b);
}

static void failures_are_told_apart(void **state)
{
    struct party a = {.t = open_on("127.0.0.1", token), .count = 1, .timeout_ms = 5000};
    struct tcp *gone = open_on("127.0.0.1", token);
    struct tcp_addr nobody = addr_of(gone);
    tcp_close(gone);
    a.wants[0] = want(&nobody, 1, 0, 0);
    int64_t begin_ms = now_ms();
    party_start(&a);
    party_end(&a);
    assert_true(now_ms() - begin_ms < 3000); /* a refusal is not waited out */
    assert_int_equal(a.wants[0].cause, TCP_CAUSE_REFUSED);
    assert_int_equal(a.err.kind, ERR_REMOTE);
    assert_string_equal(a.err.text,
                        "peer cannot be connected at 127.0.0.1 from 127.0.0.1: Connection refused");
    /* A listener that never serves: the kernel connects, nobody answers. */
    struct tcp *mute = open_on("127.0.0.1", token);
    struct tcp_addr to_mute = addr_of(mute);
    err_clear(&a.err);
    a.wants[0] = want(&to_mute, 1, 0, 0);
    a.timeout_ms = 300;
    party_start(&a);
    party_end(&a);
    assert_int_equal(a.wants[0].cause, TCP_CAUSE_PEER_LOST);
    assert_string_equal(a.err.text, "peer took the connection and said nothing");
    tcp_close(mute);
    party_close(&a);
}

static void addresses_are_chosen_as_told(void **state)
{
    struct err err = {.kind = ERR_NONE};
    struct tcp_addr a;
    assert_int_equal(tcp_addr_choose("127.0.0.1", NULL, NULL, &a, &err), 0);
    assert_string_equal(a.interface, "lo");
    assert_int_equal(tcp_addr_choose(NULL, NULL, "10.9.9.9 40000 127.0.0.1 22", &a, &err), 0);
    assert_string_equal(a.text, "127.0.0.1"); /* this node's side of the SSH connection */
    assert_int_equal(tcp_addr_choose(NULL, "lo", NULL, &a, &err), -1);
    assert_int_equal(err.kind, ERR_ENV);
    assert_string_equal(err.text, "interface lo has no global address");
    err_clear(&err);
    assert_int_equal(tcp_addr_choose(NULL, "nosuch0", NULL, &a, &err), -1);
    assert_string_equal(err.text, "interface nosuch0 does not exist");
    err_clear(&err);
    assert_int_equal(tcp_addr_choose("127.0.0.1", "nosuch0", NULL, &a, &err), -1);
    assert_string_equal(err.text, "address 127.0.0.1 is not on interface nosuch0 of this node");
    struct tcp_addr_counters c = tcp_addr_counters("lo");
    assert_true(c.tx_bytes >= 0 && c.rx_bytes >= 0);
    assert_int_equal(tcp_addr_counters("nosuch0").rx_bytes, -1);
}

static void wrong_endpoints_are_refused(void **state)
{
    const struct {
        json_t *endpoint;
        const char *text;
    } rows[] = {
        {json_pack("{s:s,s:i}", "address", "10.0.0.1", "port", 0),
         "endpoint: port 0 is not in 1..65535"},
        {json_pack("{s:s,s:i}", "address", "10.0.0.1", "port", 70000),
         "endpoint: port 70000 is not in 1..65535"},
        {json_pack("{s:s,s:i}", "address", "gpu001", "port", 1),
         "'gpu001' is not a numeric IPv4 or IPv6 address (like 10.0.0.1 or fd00::1)"},
        {json_pack("{s:s,s:i,s:i}", "address", "10.0.0.1", "port", 1, "gid", 3),
         "endpoint: unknown key 'gid'"},
    };
    struct tcp *t = open_on("127.0.0.1", token);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {.kind = ERR_NONE};
        struct tcp_addr a;
        assert_int_equal(tcp_endpoint_parse(t, rows[i].endpoint, &a, &err), -1);
        assert_string_equal(err.text, rows[i].text);
        json_decref(rows[i].endpoint);
    }
    tcp_close(t);
}

static void every_cause_has_its_code(void **state)
{
    static const char *const codes[] = {NULL,        "tcp-connect-refused", "tcp-connect-timeout",
                                        "peer-lost", "data-corrupt",        "path-mtu",
                                        NULL};
    for (int i = 0; i < TCP_CAUSE__COUNT; i++)
        if (codes[i])
            assert_string_equal(tcp_cause_code((enum tcp_cause)i), codes[i]);
        else
            assert_null(tcp_cause_code((enum tcp_cause)i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_parties_meet_over_ipv4),
        cmocka_unit_test(two_parties_meet_over_ipv6),
        cmocka_unit_test(strangers_do_not_disturb),
        cmocka_unit_test(rounds_do_not_mix),
        cmocka_unit_test(failures_are_told_apart),
        cmocka_unit_test(addresses_are_chosen_as_told),
        cmocka_unit_test(wrong_endpoints_are_refused),
        cmocka_unit_test(every_cause_has_its_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
