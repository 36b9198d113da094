#include "stage_side.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

static json_t *params(void)
{
    json_t *p = json_object();
    jsonx_set_str(p, "token", STAGE_SIDE_TOKEN);
    jsonx_set_str(p, "address", "127.0.0.1");
    jsonx_set_int(p, "duration_ms", 500);
    jsonx_set_int(p, "streams", 2);
    jsonx_set_int(p, "content_bytes", 1 << 20);
    jsonx_set_int(p, "latency_iterations", 50);
    return p;
}

static json_t *order(int round, const char *peer, const char *role, json_t *endpoint,
                     int deadline_ms)
{
    json_t *go = json_object();
    jsonx_set_int(go, "round", round);
    jsonx_set_int(go, "deadline_ms", deadline_ms);
    jsonx_set_str(go, "peer", peer);
    if (peer) {
        jsonx_set_str(go, "role", role);
        jsonx_set(go, "endpoint", json_incref(endpoint));
    }
    return go;
}

static json_t *done(void)
{
    json_t *go = json_object();
    jsonx_set_bool(go, "done", true);
    return go;
}

static bool expect_ready(struct side *s, int round)
{
    json_t *event = side_event(s, "ready");
    assert_non_null(event);
    assert_int_equal(jsonx_int_or(event, "round", -1), round);
    bool ok = jsonx_bool_or(event, "ok", false);
    json_decref(event);
    return ok;
}

static json_t *endpoint_of(struct side *s)
{
    json_t *event = side_event(s, "endpoint");
    assert_non_null(event);
    json_t *endpoint = json_incref(json_object_get(event, "endpoint"));
    assert_string_equal(jsonx_str_or(endpoint, "interface", ""), "lo");
    json_decref(event);
    return endpoint;
}

static void two_nodes_measure_each_other(void **state)
{
    struct side a, b;
    side_start(&a, "pairs", "a", params(), 60000);
    side_start(&b, "pairs", "b", params(), 60000);
    json_t *ea = endpoint_of(&a), *eb = endpoint_of(&b);
    for (int round = 0; round < 2; round++) {
        side_go(&a, order(round, "b", round ? "second" : "first", eb, 20000));
        side_go(&b, order(round, "a", round ? "first" : "second", ea, 20000));
        assert_true(expect_ready(&a, round));
        assert_true(expect_ready(&b, round));
    }
    side_go(&a, order(2, NULL, NULL, NULL, 1000));
    assert_true(expect_ready(&a, 2));
    side_go(&a, done());
    side_go(&b, done());
    side_finish(&a);
    side_finish(&b);
    assert_int_equal(a.rc, 0);
    assert_int_equal(jsonx_int_or(a.data, "rounds", -1), 3);
    assert_int_equal(jsonx_int_or(b.data, "rounds", -1), 2);
    /* The receiver speaks for a path, and each side for its own share of CPU. */
    assert_int_equal(side_count(&b, "tcp_data", "a>b", "measured"), 2);
    assert_int_equal(side_count(&b, "tcp_bandwidth", "a>b", "measured"), 2);
    assert_int_equal(side_count(&a, "tcp_data", "b>a", "measured"), 2);
    assert_int_equal(side_count(&a, "tcp_data", "a>b", "measured"), 0);
    assert_int_equal(side_count(&a, "cpu_share", "a>b", "measured"), 2);
    assert_int_equal(side_count(&a, "cpu_share", "b>a", "measured"), 2);
    assert_int_equal(side_count(&a, "tcp_latency", "a>b", "measured"), 1);
    assert_int_equal(side_count(&b, "tcp_latency", "b>a", "measured"), 1);
    const json_t *data = side_find(&b, "tcp_data", "a>b");
    assert_int_equal(json_number_value(json_array_get(json_object_get(data, "samples"), 0)),
                     1 << 20);
    assert_int_equal(jsonx_int_or(json_object_get(data, "proof"), "mismatches", -1), 0);
    const json_t *rate = side_find(&b, "tcp_bandwidth", "a>b");
    /* 0.5 s less 0.2 s of warm-up; a late wake-up moves that border. */
    assert_in_range(json_array_size(json_object_get(rate, "samples")), 1, 5);
    assert_true(jsonx_int_or(json_object_get(rate, "proof"), "rx_bytes", 0) > 0);
    assert_true(jsonx_int_or(json_object_get(rate, "proof"), "retransmits", -1) >= 0);
    json_decref(ea);
    json_decref(eb);
    side_release(&a);
    side_release(&b);
}

/* A port of this host where nothing listens. */
static json_t *dead_endpoint(void)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof sa;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
    close(fd);
    json_t *e = json_object();
    jsonx_set_str(e, "address", "127.0.0.1");
    jsonx_set_int(e, "port", ntohs(sa.sin_port));
    jsonx_set_str(e, "interface", "lo");
    return e;
}

static void a_dead_peer_is_told_and_the_next_round_works(void **state)
{
    struct side a, b;
    side_start(&a, "pairs", "a", params(), 60000);
    side_start(&b, "pairs", "b", params(), 60000);
    json_t *ea = endpoint_of(&a), *eb = endpoint_of(&b), *dead = dead_endpoint();
    side_go(&a, order(0, "ghost", "first", dead, 3000));
    side_go(&b, order(0, NULL, NULL, NULL, 3000));
    assert_false(expect_ready(&a, 0));
    assert_true(expect_ready(&b, 0));
    side_go(&a, order(1, "b", "first", eb, 20000));
    side_go(&b, order(1, "a", "second", ea, 20000));
    assert_true(expect_ready(&a, 1));
    assert_true(expect_ready(&b, 1));
    side_go(&a, done());
    side_go(&b, done());
    side_finish(&a);
    side_finish(&b);
    assert_int_equal(a.rc, 0);
    assert_int_equal(side_count(&a, "tcp_data", "a>ghost", "failed"), 1);
    assert_int_equal(side_count(&a, "tcp_bandwidth", "ghost>a", "failed"), 1);
    const json_t *out = side_find(&a, "tcp_data", "a>ghost");
    assert_string_equal(jsonx_str_or(out, "cause", ""), "tcp-connect-refused");
    assert_string_equal(
        jsonx_str_or(out, "reason", ""),
        "ghost cannot be connected at 127.0.0.1 from 127.0.0.1: Connection refused");
    const json_t *in = side_find(&a, "tcp_data", "ghost>a");
    assert_string_equal(jsonx_str_or(in, "cause", ""), "peer-lost");
    assert_string_equal(jsonx_str_or(in, "reason", ""), "ghost never connected");
    assert_int_equal(side_count(&a, "tcp_data", "b>a", "measured"), 1);
    json_decref(ea);
    json_decref(eb);
    json_decref(dead);
    side_release(&a);
    side_release(&b);
}

static void wrong_parameters_are_refused(void **state)
{
    const struct {
        const char *key;
        json_t *value;
        const char *text;
    } rows[] = {
        {"stream", json_integer(2), "stage pairs: unknown key 'stream'; did you mean 'streams'?"},
        {"streams", json_integer(0), "stage pairs: streams is 0, must be 1 to 64"},
        {"duration_ms", json_integer(10), "stage pairs: duration_ms is 10, must be 500 to 60000"},
        {"token", json_string("zz"), "stage pairs: key 'token' must be 64 hex digits"},
        {"address", json_string("10.0.0.300"),
         "stage pairs: '10.0.0.300' is not a numeric IPv4 or IPv6 address (like 10.0.0.1 or "
         "fd00::1)"},
        {"address", json_string("192.0.2.77"),
         "stage pairs: address 192.0.2.77 is not on any interface of this node"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct side s;
        json_t *p = params();
        jsonx_set(p, rows[i].key, rows[i].value);
        side_start(&s, "pairs", "a", p, 5000);
        side_finish(&s);
        assert_int_equal(s.rc, -1);
        assert_int_equal(s.err.kind, ERR_USAGE);
        assert_string_equal(s.err.text, rows[i].text);
        side_release(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_nodes_measure_each_other),
        cmocka_unit_test(a_dead_peer_is_told_and_the_next_round_works),
        cmocka_unit_test(wrong_parameters_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
