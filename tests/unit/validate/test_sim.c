/* The simulator: shares are max-min fair, a seed repeats everything, faults show where planted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "validate/isolate/fabric_build.h"
#include "validate/isolate/sim.h"

static const struct sim_conditions quiet = {0};

static struct fabric_graph *tree(size_t hosts, size_t rails)
{
    struct err err = {0};
    struct fabric_graph *g = NULL;
    assert_int_equal(fabric_build_fat_tree(hosts, rails, 4, &g, &err), 0);
    return g;
}

/* Max-min: no link is overfull, and every flow has a full link on which no flow gets more. */
static void check_fair(const struct fabric_graph *g, const struct measure_flow flows[],
                       size_t count)
{
    uint32_t path[MEASURE_MAX_ELEMENTS];
    size_t edges = 2 * g->link_count;
    double *capacity = measure_capacity(g), *share = mem_zero(count + 1, sizeof *share);
    double *used = mem_zero(edges, sizeof *used), *most = mem_zero(edges, sizeof *most);
    measure_shares(g, flows, count, capacity, NULL, share);
    for (size_t i = 0; i < count; i++) {
        size_t length = measure_elements(g, &flows[i], path);
        for (size_t k = 0; k < length; k++)
            if (path[k] < edges) {
                used[path[k]] += share[i];
                most[path[k]] = fmax(most[path[k]], share[i]);
            }
    }
    for (size_t e = 0; e < edges; e++)
        assert_true(used[e] <= capacity[e] * (1 + 1e-6));
    for (size_t i = 0; i < count; i++) {
        size_t length = measure_elements(g, &flows[i], path);
        bool bound = false;
        for (size_t k = 0; k < length; k++)
            bound = bound || (path[k] < edges && used[path[k]] >= capacity[path[k]] * (1 - 1e-6) &&
                              share[i] >= most[path[k]] * (1 - 1e-6));
        assert_true(bound);
    }
    free(capacity);
    free(share);
    free(used);
    free(most);
}

static void shares_are_max_min_fair(void **state)
{
    struct fabric_graph *g = tree(30, 2);
    struct rng rng = {3};
    for (int round = 0; round < 200; round++) {
        struct measure_flow flows[80];
        size_t count = 1 + rng_below(&rng, 80);
        for (size_t i = 0; i < count; i++) {
            static const enum measure_probe probes[] = {MEASURE_PAIR_GPU, MEASURE_PAIR_HOST,
                                                        MEASURE_H2D, MEASURE_LOOP_GPU};
            flows[i].probe = probes[rng_below(&rng, 4)];
            flows[i].from = flows[i].to = (uint32_t)rng_below(&rng, 60);
            while (measure_probe_row(flows[i].probe)->scope == MEASURE_NET &&
                   flows[i].from == flows[i].to)
                flows[i].to = (uint32_t)rng_below(&rng, 60);
        }
        check_fair(g, flows, count);
    }
    fabric_graph_destroy(g);
}

static void limits_hold(void **state)
{
    struct fabric_graph *g = tree(8, 1);
    const struct measure_flow flows[] = {{MEASURE_PAIR_HOST, 0, 1}, {MEASURE_PAIR_HOST, 2, 1}};
    const double limit[] = {50e9, INFINITY};
    double *capacity = measure_capacity(g), share[2];
    measure_shares(g, flows, 2, capacity, limit, share);
    assert_float_equal(share[0], 50e9, 1);
    assert_float_equal(share[1], 350e9, 1);
    free(capacity);
    fabric_graph_destroy(g);
}

static void run_once(struct sim *s, enum measure_probe probe, size_t from, size_t to,
                     struct measure_result *r)
{
    struct err err = {0};
    struct measure_plan plan = {0};
    struct measure_backend b = sim_backend(s);
    measure_plan_add(&plan, probe, from, to);
    assert_int_equal(b.run(b.ctx, &plan, r, &err), 0);
    measure_plan_release(&plan);
}

struct effect {
    enum solve_part part;
    double left, latency, loss;
    enum measure_probe probe;
    enum measure_outcome outcome;
    double value;
};
/* Planted at the cable of endpoint 0 (PAIR: 0 and 5); measured from 0 to 5. */
static const struct effect effects[] = {
    {SOLVE_LINK_RATE, 0.5, 1, 0, MEASURE_PAIR_GPU, MEASURE_OK, 200e9},
    {SOLVE_LINK_RATE, 0.5, 1, 0, MEASURE_LOOP_GPU, MEASURE_OK, 512e9},
    {SOLVE_LINK_RATE, 0, 1, 0, MEASURE_PAIR_GPU, MEASURE_DEAD, 0},
    {SOLVE_LINK_RATE, 0, 1, 0, MEASURE_SMALL, MEASURE_OK, 2.15e-6},
    {SOLVE_LINK_ALL, 0, 0, 0, MEASURE_SMALL, MEASURE_DEAD, 0},
    {SOLVE_LINK_LATENCY, 1, 2, 0, MEASURE_SMALL, MEASURE_OK, 4.3e-6},
    {SOLVE_LINK_LATENCY, 1, 2, 0, MEASURE_PAIR_GPU, MEASURE_OK, 400e9},
    {SOLVE_LINK_RATE, 1, 1, 0.01, MEASURE_PAIR_GPU, MEASURE_OK, 400e9 / 1.61},
    {SOLVE_PAIR_RATE, 0.25, 1, 0, MEASURE_PAIR_HOST, MEASURE_OK, 100e9},
};

static void faults_show_where_they_are(void **state)
{
    struct fabric_graph *g = tree(8, 1);
    int64_t cable = fabric_graph_edge(g, g->nic[0], g->leaf_node[g->leaf_of[0]]);
    for (size_t i = 0; i < ARRAY_LEN(effects); i++) {
        const struct effect *e = &effects[i];
        bool pair = solve_part_row(e->part)->on == SOLVE_ON_PAIR;
        struct sim_fault f = {
            .where = {.part = e->part, .element = pair ? 0 : (uint32_t)cable, .peer = pair ? 5 : 0},
            .left = e->left,
            .latency = e->latency,
            .loss = e->loss,
            .probability = 1};
        struct sim s;
        struct measure_result r, other;
        size_t to = measure_probe_row(e->probe)->scope == MEASURE_NET ? 5 : 0;
        sim_open(&s, g, &quiet, 1);
        sim_plant(&s, &f);
        run_once(&s, e->probe, 0, to, &r);
        assert_int_equal(r.outcome, e->outcome);
        assert_float_equal(r.value / (e->value > 0 ? e->value : 1), e->value > 0 ? 1 : 0, 1e-3);
        run_once(&s, MEASURE_PAIR_GPU, 1, 6, &other); /* elsewhere all is well */
        assert_float_equal(other.value, 400e9, 1);
        sim_close(&s);
    }
    fabric_graph_destroy(g);
}

static void a_seed_repeats(void **state)
{
    struct fabric_graph *g = tree(16, 2);
    struct sim_conditions rough = {.straggler = 0.1, .missing = 0.1, .noise = 1};
    size_t differ = 0, missing = 0, slow = 0;
    struct sim a, b, c;
    sim_open(&a, g, &rough, 5);
    sim_open(&b, g, &rough, 5);
    sim_open(&c, g, &rough, 6);
    for (size_t i = 0; i < 500; i++) {
        struct measure_result x, y, z;
        run_once(&a, MEASURE_PAIR_GPU, i % 16, 16 + i % 15, &x);
        run_once(&b, MEASURE_PAIR_GPU, i % 16, 16 + i % 15, &y);
        run_once(&c, MEASURE_PAIR_GPU, i % 16, 16 + i % 15, &z);
        assert_memory_equal(&x.value, &y.value, sizeof x.value);
        assert_int_equal(x.outcome, y.outcome);
        differ += x.value != z.value;
        missing += x.outcome == MEASURE_MISSING;
        slow += x.outcome == MEASURE_OK && x.value < 0.95 * 400e9;
    }
    assert_true(differ > 400);
    assert_in_range(missing, 50, 150); /* 19 % of 500 */
    assert_in_range(slow, 40, 130);
    assert_int_equal(a.tests, 500);
    sim_close(&a);
    sim_close(&b);
    sim_close(&c);
    fabric_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_max_min_fair),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(faults_show_where_they_are),
        cmocka_unit_test(a_seed_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
