/* Floors, rooflines, peers, and figures that cannot be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "validate/causes.h"
#include "validate/limits.h"

static void every_row_has_a_cause_and_a_source(void **state)
{
    for (size_t i = 0; limits_at(i); i++) {
        const struct limits_quantity *q = limits_at(i);
        assert_non_null(causes_find(q->cause));
        assert_ptr_equal(limits_find(q->name), q);
        assert_true(strlen(q->source) > 10);
        assert_true(q->efficiency >= 0 && q->efficiency <= 1);
    }
    assert_null(limits_find("warp_factor"));
}

static void peers_need_eight(void **state)
{
    double values[9];
    for (size_t i = 0; i < 9; i++)
        values[i] = 100;
    struct limits_peers seven = limits_peers_of(values, 7), eight = limits_peers_of(values, 8);
    assert_true(limits_peers_floor(&seven) == 0);
    /* MAD is floored at 0.5 % of the median: 3.5 * 0.5 / 0.6745 = 2.59; the 5 % rule is the lower.
     */
    assert_true(fabs(limits_peers_floor(&eight) - 95) < 1e-9);
    values[0] = 94.9;
    struct limits_peers one_low = limits_peers_of(values, 8);
    assert_true(one_low.median == 100 && values[0] < limits_peers_floor(&one_low));
    /* A wide cohort tolerates more than 5 %. */
    const double wide[] = {80, 85, 90, 95, 105, 110, 115, 120};
    struct limits_peers w = limits_peers_of(wide, 8);
    assert_true(w.median == 100 && w.mad == 12.5);
    assert_true(fabs(limits_peers_floor(&w) - (100 - 3.5 * 12.5 / 0.6745)) < 1e-9);
    struct limits_peers none = limits_peers_of(NULL, 0);
    assert_int_equal(none.count, 0);
}

struct row {
    const char *quantity;
    double value, link_bps, floor; /* floor 0: none */
    size_t peers;                  /* equal peers at 1e9 */
    enum verdict verdict;
    const char *cause, *reason;
};

static const struct row rows[] = {
    {"tcp_bandwidth", 9e9, 1e10, 0, 0, VERDICT_PASS, NULL, "9 Gbit/s, limit 8.5 Gbit/s"},
    {"tcp_bandwidth", 8e9, 1e10, 0, 0, VERDICT_FAIL, "bandwidth-low",
     "8 Gbit/s is below the limit 8.5 Gbit/s (n1/net:eth0; 0.85 of the port's rate for TCP, as "
     "ngc_multinode_perf's ngc_tcp_test.sh has it)"},
    {"tcp_bandwidth", 8e9, 1e10, 7e9, 0, VERDICT_PASS, NULL, "8 Gbit/s, limit 7 Gbit/s"},
    {"tcp_bandwidth", 1.04e10, 1e10, 0, 0, VERDICT_PASS, NULL, "10.4 Gbit/s, limit 8.5 Gbit/s"},
    {"tcp_bandwidth", 1.06e10, 1e10, 1e9, 0, VERDICT_FAIL, "faster-than-link",
     "10.6 Gbit/s is faster than the link itself, 10 Gbit/s (n1/net:eth0): not a measurement of "
     "this link"},
    {"tcp_bandwidth", 1e9, 0, 0, 7, VERDICT_NOT_MEASURED, "limit-missing",
     "1 Gbit/s was measured, but there is no limit: the link's speed is not known, the site "
     "states no floor, and there are 7 of its kind (8 are needed)"},
    {"tcp_bandwidth", 1e9, 0, 0, 8, VERDICT_PASS, NULL, "1 Gbit/s, limit 950 Mbit/s"},
    {"tcp_bandwidth", 9e8, 0, 0, 8, VERDICT_FAIL, "bandwidth-low",
     "900 Mbit/s is below the limit 950 Mbit/s (8 of their kind in this run, median 1 Gbit/s)"},
    {"tcp_bandwidth", 0, 0, 0, 8, VERDICT_FAIL, "bandwidth-low",
     "0 bit/s is not a possible tcp_bandwidth"},
    {"tcp_latency", 5e-5, 0, 0, 0, VERDICT_PASS, NULL,
     "50 us, for information: no limit is stated"},
    {"tcp_latency", 5e-5, 0, 4e-5, 0, VERDICT_FAIL, "latency-high",
     "50 us is above the limit 40 us (site: policy.floors.tcp_latency)"},
};

static void figures_are_judged(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct row *t = &rows[i];
        struct ledger *l = ledger_create();
        struct ledger_row *row = ledger_row(l, "n1>n2", "", "pairs", "x", true);
        struct limits_figure f = {.quantity = limits_find(t->quantity),
                                  .value = t->value,
                                  .link_bps = t->link_bps,
                                  .link_source = "n1/net:eth0",
                                  .has_floor = t->floor > 0,
                                  .floor = t->floor};
        double peers[8] = {1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9};
        f.peers = limits_peers_of(peers, t->peers);
        limits_judge(&f, row);
        assert_string_equal(row->reason, t->reason);
        assert_int_equal(row->verdict, t->verdict);
        assert_string_equal(row->cause ? row->cause : "", t->cause ? t->cause : "");
        ledger_destroy(l);
    }
}

static void floors_of_the_site_are_checked(void **state)
{
    static const struct {
        const char *floor, *error;
    } bad[] = {
        {"{\"unit\":\"bit/s\"}",
         "site: policy.floors.tcp_bandwidth: key 'value' is missing (must be a number)"},
        {"{\"value\":1,\"unit\":\"B\"}", "site: policy.floors.tcp_bandwidth: unit is 'B', "
                                         "tcp_bandwidth is measured in 'bit/s'"},
        {"{\"value\":0,\"unit\":\"bit/s\"}",
         "site: policy.floors.tcp_bandwidth: value must be above 0"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = {0};
        json_auto_t *floor = json_loads(bad[i].floor, 0, NULL);
        json_auto_t *site = json_pack("{s:{s:{s:O}}}", "policy", "floors", "tcp_bandwidth", floor);
        struct limits_figure f = {.quantity = limits_find("tcp_bandwidth")};
        assert_int_equal(limits_site_floor(site, &f, &err), -1);
        assert_string_equal(err.text, bad[i].error);
        assert_false(f.has_floor);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_a_cause_and_a_source),
        cmocka_unit_test(peers_need_eight),
        cmocka_unit_test(figures_are_judged),
        cmocka_unit_test(floors_of_the_site_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
