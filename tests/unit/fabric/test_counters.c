#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "fabric/subnet/counters.h"
#include "subnet_net.h"

enum { HOUR_MS = 3600 * 1000 };

/* Every linked port, all counters zero. */
static void reading(const struct subnet *s, int64_t time_ms, struct counters *c)
{
    *c = (struct counters){.time_ms = time_ms, .ports = mem_zero(64, sizeof *c->ports)};
    for (size_t i = 0; i < s->count; i++)
        for (unsigned p = 1; p <= s->nodes[i].port_count; p++)
            if (s->nodes[i].ports[p].peer_node >= 0)
                c->ports[c->count++] =
                    (struct counters_port){.guid = s->nodes[i].guid, .port = p, .read = true};
    counters_sort(c);
}

static uint64_t *at(struct counters *c, const struct subnet *s, int node, unsigned port,
                    enum counter k)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->ports[i].guid == s->nodes[node].guid && c->ports[i].port == port)
            return &c->ports[i].value[k];
    fail_msg("no such port");
    return NULL;
}

static const struct {
    const char *name;
    enum counter counter;
    uint64_t before, now;
    const char *cause, *text; /* NULL: nothing is said */
} cases[] = {
    {"nothing", COUNTER_SYMBOL, 5, 5, NULL, NULL},
    /* 4 lanes of 53.125 Gbit/s in an hour at 10^-15. */
    {"one symbol error is chance", COUNTER_SYMBOL, 0, 1, NULL, NULL},
    {"a hundred are not", COUNTER_SYMBOL, 7, 107, "ib-symbol-errors",
     "leaf1 port 3: 100 SymbolErrorCounter in 3600.0 s are 100 an hour; 4xHDR may show 0.765 an "
     "hour"},
    {"a reset by somebody else", COUNTER_SYMBOL, 500, 300, "ib-symbol-errors",
     "leaf1 port 3: at least 300 SymbolErrorCounter"},
    {"one link down", COUNTER_DOWNED, 3, 4, "ib-link-flapping",
     "leaf1 port 3: LinkDownedCounter grew by 1 in 3600.0 s"},
    {"receive errors", COUNTER_RCV_ERRORS, 0, 2, "ib-port-errors",
     "leaf1 port 3: PortRcvErrors grew by 2"},
    {"errors from upstream", COUNTER_REMOTE, 0, 1000, NULL, NULL},
    {"full before and after", COUNTER_RCV_ERRORS, 65535, 65535, "counters-saturated",
     "leaf1 port 3: PortRcvErrors stands at its highest value, 65535"},
    {"traffic", COUNTER_XMIT_DATA, 0, UINT64_C(1) << 40, NULL, NULL},
    {"waiting", COUNTER_WAIT, 0, 5000000, "ib-congestion", "leaf1 port 3: waited 5000000 ticks"},
    {"a few ticks", COUNTER_WAIT, 0, 999, NULL, NULL},
};

static void each_counter_has_its_meaning(void **state)
{
    (void)state;
    struct subnet s;
    net_make(&s);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct counters before, now;
        struct err err = {0};
        json_auto_t *findings = json_array(), *rates = json_array();
        reading(&s, 0, &before);
        reading(&s, HOUR_MS, &now);
        *at(&before, &s, LEAF1, 3, cases[i].counter) = cases[i].before;
        *at(&now, &s, LEAF1, 3, cases[i].counter) = cases[i].now;
        assert_int_equal(counters_judge(&before, &now, &s, findings, rates, &err), 0);
        assert_int_equal(json_array_size(rates), 12);
        assert_int_equal(json_array_size(findings), cases[i].cause ? 1 : 0);
        const json_t *f = json_array_get(findings, 0);
        if (cases[i].cause) {
            assert_string_equal(jsonx_str_or(f, "cause", ""), cases[i].cause);
            assert_string_equal(jsonx_str_or(f, "subject", ""), "leaf1 port 3 <-> spine1 port 1");
            assert_true(str_has_prefix(jsonx_str_or(f, "text", ""), cases[i].text));
        }
        bool warning = strcmp(jsonx_str_or(f, "severity", ""), "warning") == 0;
        assert_int_equal(warning, cases[i].counter == COUNTER_WAIT && cases[i].cause);
        counters_release(&before);
        counters_release(&now);
    }
    subnet_release(&s);
}

static void what_was_not_read_is_not_measured(void **state)
{
    (void)state;
    struct subnet s;
    struct counters before, now;
    struct err err = {0};
    json_auto_t *findings = json_array();
    net_make(&s);
    reading(&s, 0, &before);
    reading(&s, HOUR_MS, &now);
    now.ports[0].read = false;
    before.count--;
    assert_int_equal(counters_judge(&before, &now, &s, findings, NULL, &err), 0);
    assert_int_equal(json_array_size(findings), 2);
    for (size_t i = 0; i < 2; i++)
        assert_string_equal(jsonx_str_or(json_array_get(findings, i), "cause", ""), "not-measured");
    now.time_ms = 0;
    assert_int_equal(counters_judge(&before, &now, &s, findings, NULL, &err), -1);
    assert_string_equal(err.text, "the kept counters are from 0 ms later than now: the clock was "
                                  "set back; remove the state file");
    counters_release(&before);
    counters_release(&now);
    subnet_release(&s);
}

static void a_state_comes_back_as_it_was(void **state)
{
    (void)state;
    struct subnet s;
    struct counters c, again = {0};
    struct err err = {0};
    net_make(&s);
    reading(&s, 123, &c);
    *at(&c, &s, SPINE, 2, COUNTER_RCV_DATA) = UINT64_C(1) << 60;
    json_auto_t *json = counters_to_json(&c);
    assert_int_equal(counters_from_json(json, "state", &again, &err), 0);
    assert_int_equal(again.time_ms, 123);
    assert_int_equal(again.count, c.count);
    assert_memory_equal(again.ports, c.ports, c.count * sizeof *c.ports);
    jsonx_set_int(json, "v", 2);
    counters_release(&again);
    assert_int_equal(counters_from_json(json, "state", &again, &err), -1);
    assert_string_equal(err.text, "state: is not a counter state of version 1");
    counters_release(&c);
    subnet_release(&s);
}

static void chance_is_poisson(void **state)
{
    (void)state;
    assert_true(fabs(counters_chance(1, 1) - (1 - exp(-1))) < 1e-12);
    assert_true(fabs(counters_chance(2, 3) - (1 - 5 * exp(-2))) < 1e-12);
    assert_true(counters_chance(0, 0) == 1 && counters_chance(0, 1) == 0);
    assert_true(counters_chance(10000, 10000) > 0.4 && counters_chance(10000, 10000) < 0.6);
    assert_true(counters_chance(10000, 11000) < 1e-4);
    assert_true(counters_chance(0.001, UINT64_MAX) == 0);
    /* QDR 4x: 40 Gbit/s for an hour at 10^-12. */
    assert_true(fabs(counters_budget_per_hour(4, RATE_QDR) - 144) < 1e-9);
    assert_true(counters_budget_per_hour(4, RATE_UNSET) == 0);
}

static void rates_and_codes(void **state)
{
    (void)state;
    unsigned lanes = 0;
    enum rate_speed speed = RATE_UNSET;
    for (int s = 1; s < RATE_SPEED__COUNT; s++) {
        AUTO(free_str) char *text = str_printf("12x%s", rate_speed_at((enum rate_speed)s)->name);
        assert_true(rate_parse(text, &lanes, &speed));
        assert_int_equal(lanes, 12);
        assert_int_equal(speed, s);
    }
    static const char *const bad[] = {"", "x", "4x", "4xHDRx", "3xHDR", "HDR", "-4xHDR"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(rate_parse(bad[i], &lanes, &speed));
    assert_int_equal(rate_bps(4, RATE_NDR), INT64_C(400000000000));
    assert_int_equal(rate_code(INT64_C(100000000000)), 16);
    assert_int_equal(rate_code(12345), 0);
    for (unsigned code = 1; code <= 5; code++)
        assert_int_equal(rate_mtu_code(rate_mtu_bytes(code)), code);
    assert_int_equal(rate_mtu_code(1500), 0);
    assert_int_equal(rate_lanes_most(1 | 2 | 8, false), 4);
    assert_int_equal(rate_lanes_most(1 | 2 | 8, true), 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_counter_has_its_meaning),
        cmocka_unit_test(what_was_not_read_is_not_measured),
        cmocka_unit_test(a_state_comes_back_as_it_was),
        cmocka_unit_test(chance_is_poisson),
        cmocka_unit_test(rates_and_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
