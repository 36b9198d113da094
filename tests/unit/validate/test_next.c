/* The planner: disjoint rounds, limits, what is dropped, what it advises; the catalogue and its
 * statistics. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "validate/isolate/fabric_build.h"
#include "validate/isolate/prove.h"

static struct fabric_graph *tree(size_t hosts, size_t rails)
{
    struct err err = {0};
    struct fabric_graph *g = NULL;
    assert_int_equal(fabric_build_fat_tree(hosts, rails, 0, &g, &err), 0);
    return g;
}

/* No endpoint sends twice or receives twice between hosts, so that nothing disturbs anything. */
static void check_disjoint(const struct fabric_graph *g, const struct measure_plan *p)
{
    unsigned char *taken = mem_zero(g->hosts * g->rails, 1);
    for (size_t i = 0; i < p->flow_count; i++) {
        if (measure_probe_row(p->flows[i].probe)->scope != MEASURE_NET)
            continue;
        assert_false(taken[p->flows[i].from] & 1);
        assert_false(taken[p->flows[i].to] & 2);
        taken[p->flows[i].from] |= 1;
        taken[p->flows[i].to] |= 2;
    }
    free(taken);
}

static void screens_are_disjoint_and_full(void **state)
{
    static const size_t sizes[][2] = {{2, 1}, {3, 2}, {32, 8}, {33, 1}, {232, 1}, {232, 8}};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct fabric_graph *g = tree(sizes[i][0], sizes[i][1]);
        struct screen *s = screen_create(g, 1);
        assert_in_range(s->count, 5, SCREEN_ROUNDS_MAX);
        for (size_t r = 0; r < s->count; r++) {
            check_disjoint(g, &s->rounds[r]->plan);
            if (s->rounds[r]->plan.flows[0].probe == MEASURE_PAIR_GPU)
                assert_int_equal(s->rounds[r]->plan.flow_count, sizes[i][0] / 2 * 2 * sizes[i][1]);
        }
        screen_destroy(s);
        fabric_graph_destroy(g);
    }
}

/* Backend that remembers what it was asked; every measurement of one flow fails so many times. */
struct script {
    const struct fabric_graph *g;
    struct measure_flow bad;
    unsigned fails; /* left */
    size_t tests;
};

static int run_script(void *ctx, const struct measure_plan *plan, struct measure_result results[],
                      struct err *err)
{
    struct script *s = ctx;
    struct measure_plan copy = *plan;
    copy.flows = mem_grow(NULL, plan->flow_count, sizeof *copy.flows);
    copy.items = mem_grow(NULL, plan->item_count, sizeof *copy.items);
    memcpy(copy.flows, plan->flows, plan->flow_count * sizeof *copy.flows);
    memcpy(copy.items, plan->items, plan->item_count * sizeof *copy.items);
    struct observe_round *round = observe_prepare(s->g, &copy);
    check_disjoint(s->g, plan);
    for (size_t i = 0; i < plan->item_count * plan->repeats; i++) {
        const struct measure_flow *f = &plan->flows[plan->items[i % plan->item_count].first_flow];
        bool bad = f->probe == s->bad.probe && f->from == s->bad.from && s->fails > 0;
        s->fails -= bad;
        results[i] = (struct measure_result){
            MEASURE_OK, MEASURE_DIRECT, round->expected[i % plan->item_count] * (bad ? 0.4 : 1)};
    }
    s->tests += plan->repeats;
    observe_round_destroy(round);
    return 0;
}

static void once_is_dropped_after_repeats(void **state)
{
    struct fabric_graph *g = tree(32, 2);
    struct screen *screen = screen_create(g, 1);
    struct script s = {.g = g, .bad = {MEASURE_PAIR_GPU, 7, 0}, .fails = 1};
    struct measure_backend b = {.run = run_script, .ctx = &s};
    struct isolate_result *r = NULL;
    struct err err = {0};
    assert_int_equal(isolate_run(g, screen, &b, &next_usual, 1, &r, &err), 0);
    assert_int_equal(r->answer->fault_count, 1);
    assert_false(solve_is_convicted(&r->answer->faults[0]));
    assert_false(r->limited);
    json_auto_t *report = isolate_report(r, &next_usual);
    const json_t *fault = json_array_get(json_object_get(report, "faults"), 0);
    assert_string_equal(jsonx_str_or(fault, "state", ""), "not seen again");
    assert_int_equal(s.tests, screen->count + 2 + next_usual.repeats);
    isolate_result_destroy(r);
    screen_destroy(screen);
    fabric_graph_destroy(g);
}

static void limits_are_kept(void **state)
{
    struct fabric_graph *g = tree(32, 2);
    struct screen *screen = screen_create(g, 1);
    struct script s = {.g = g, .bad = {MEASURE_PAIR_GPU, 7, 0}, .fails = 1000};
    struct measure_backend b = {.run = run_script, .ctx = &s};
    struct next_limits tight = {.tests = screen->count, .repeats = 8};
    struct isolate_result *r = NULL;
    struct err err = {0};
    assert_int_equal(isolate_run(g, screen, &b, &tight, 1, &r, &err), 0);
    assert_int_equal(s.tests, screen->count);
    assert_int_equal(r->follow_tests, 0);
    isolate_result_destroy(r);
    screen_destroy(screen);
    fabric_graph_destroy(g);
}

static int run_failing(void *ctx, const struct measure_plan *plan, struct measure_result results[],
                       struct err *err)
{
    return err_set(err, ERR_REMOTE, "no agent is left");
}

static void a_backend_that_fails_ends_the_search(void **state)
{
    struct fabric_graph *g = tree(4, 1);
    struct screen *screen = screen_create(g, 1);
    struct measure_backend b = {.run = run_failing};
    struct isolate_result *r = NULL;
    struct err err = {0};
    assert_int_equal(isolate_run(g, screen, &b, &next_usual, 1, &r, &err), -1);
    assert_null(r);
    assert_string_equal(err.text, "no agent is left");
    screen_destroy(screen);
    fabric_graph_destroy(g);
}

static void advice_says_what_would_decide(void **state)
{
    struct fabric_graph *g = tree(32, 2);
    int64_t slot = fabric_graph_edge(g, g->pcie[5], g->nic[5]);
    struct solve_fault *f = mem_zero(1, sizeof *f);
    f->suspect_count = 1;
    f->suspects[0] = (struct solve_suspect){
        .part = SOLVE_LINK_RATE, .element = (uint32_t)slot & ~1U, .belief = 0.6};
    assert_null(next_advice(g, f));
    f->suspect_count = 2;
    f->suspects[1] = (struct solve_suspect){
        .part = SOLVE_NIC_RATE, .element = fabric_graph_node_element(g, g->nic[5]), .belief = 0.4};
    AUTO(free_str) char *text = next_advice(g, f);
    assert_string_equal(
        text, "no measurement over the fabric tells gpu003 PCIe switch 1 <-> gpu003 mlx5_1 from "
              "gpu003 mlx5_1; read the width, speed and error counters of the slot (lspci -vv) or "
              "exchange the part with a good one and measure this rail again");
    free(f);
    fabric_graph_destroy(g);
}

struct interval {
    size_t k, n;
    double low, high;
};
/* Computed with exact rational arithmetic from Wilson's formula. */
static const struct interval intervals[] = {
    {0, 10, 0, 0.27753}, {10, 10, 0.72247, 1},       {5, 10, 0.23659, 0.76341},
    {0, 0, 0, 1},        {1, 100, 0.00177, 0.05449},
};

static void intervals_are_wilson(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(intervals); i++) {
        double low = -1, high = -1;
        prove_interval(intervals[i].k, intervals[i].n, &low, &high);
        assert_float_equal(low, intervals[i].low, 1e-4);
        assert_float_equal(high, intervals[i].high, 1e-4);
    }
}

static void catalogue_is_complete(void **state)
{
    struct fabric_graph *g = tree(48, 2);
    struct screen *screen = screen_create(g, 1);
    struct rng rng = {4};
    assert_true(faults_count() >= 40);
    for (size_t i = 0; i < faults_count(); i++) {
        struct sim_fault planted[2];
        assert_ptr_equal(faults_find(faults_at(i)->id), faults_at(i)); /* unique */
        size_t count = faults_place(faults_at(i), g, screen, &rng, planted);
        assert_in_range(count, 1, 2);
        for (size_t k = 0; k < count; k++) {
            AUTO(free_str) char *name = solve_suspect_name(g, &planted[k].where);
            assert_true(strlen(name) > 4);
        }
    }
    assert_null(faults_find("no_such"));
    screen_destroy(screen);
    fabric_graph_destroy(g);
}

static void proof_is_simulated_and_repeats(void **state)
{
    struct fabric_graph *g = tree(48, 2);
    struct prove_settings s = {
        .trials = 10, .seed = 2, .only = "cable_1x", .limits = next_usual, .conditions = sim_usual};
    struct err err = {0};
    json_auto_t *a = NULL, *b = NULL, *none = NULL;
    assert_int_equal(prove_run(g, &s, &a, &err), 0);
    assert_int_equal(prove_run(g, &s, &b, &err), 0);
    assert_true(json_is_true(json_object_get(a, "simulated")));
    static const char *const keys[] = {"detected",     "right",     "wrong",
                                       "tests_median", "tests_p95", "measurements_mean"};
    const json_t *x = json_array_get(json_object_get(a, "kinds"), 0);
    const json_t *y = json_array_get(json_object_get(b, "kinds"), 0);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        assert_true(json_equal(json_object_get(x, keys[i]), json_object_get(y, keys[i])));
    assert_int_equal(jsonx_int_or(json_object_get(x, "right"), "count", 0), 10);
    s.only = "cable_1y";
    assert_int_equal(prove_run(g, &s, &none, &err), -1);
    assert_string_equal(err.text, "no fault 'cable_1y'; did you mean 'cable_1x'?; muster prove "
                                  "--list lists them");
    fabric_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(screens_are_disjoint_and_full),
        cmocka_unit_test(once_is_dropped_after_repeats),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(a_backend_that_fails_ends_the_search),
        cmocka_unit_test(advice_says_what_would_decide),
        cmocka_unit_test(intervals_are_wilson),
        cmocka_unit_test(catalogue_is_complete),
        cmocka_unit_test(proof_is_simulated_and_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
