/* The solver on the simulator: every edge of a small fabric is found, alone and with another, and a
 * healthy fabric is left alone. */
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
#include "validate/isolate/prove.h"

static const struct sim_conditions quiet = {.noise = 1};

struct lab {
    struct fabric_graph *g;
    struct screen *screen;
};

static struct lab open_lab(size_t hosts, size_t rails, size_t down)
{
    struct err err = {0};
    struct lab l = {0};
    assert_int_equal(fabric_build_fat_tree(hosts, rails, down, &l.g, &err), 0);
    l.screen = screen_create(l.g, 1);
    return l;
}

static void close_lab(struct lab *l)
{
    screen_destroy(l->screen);
    fabric_graph_destroy(l->g);
}

static struct isolate_result *search(const struct lab *l, const struct sim_fault faults[],
                                     size_t count, const struct sim_conditions *conditions,
                                     uint64_t seed)
{
    struct err err = {0};
    struct sim s;
    struct isolate_result *r = NULL;
    sim_open(&s, l->g, conditions, seed);
    for (size_t i = 0; i < count; i++)
        sim_plant(&s, &faults[i]);
    struct measure_backend b = sim_backend(&s);
    assert_int_equal(isolate_run(l->g, l->screen, &b, &next_usual, seed, &r, &err), 0);
    assert_true(s.tests <= next_usual.tests);
    sim_close(&s);
    return r;
}

/* All that is named is the planted part, or a part of which some hypothesis cannot be told from it.
 */
static void assert_names(const struct lab *l, const struct solve_fault *f,
                         const struct solve_suspect *where)
{
    bool fits[SOLVE_MAX_SUSPECTS] = {false}, found = false;
    size_t named = solve_named(f);
    assert_true(solve_is_convicted(f));
    for (size_t i = 0; i < named; i++) {
        bool same = solve_same_part(where, &f->suspects[i]);
        found = found || same;
        fits[i] = same || !prove_told_apart(l->g, where, &f->suspects[i]);
    }
    for (size_t i = 0; i < named; i++) {
        bool fit = fits[i];
        for (size_t k = 0; k < named && !fit; k++)
            fit = fits[k] && solve_same_part(&f->suspects[i], &f->suspects[k]);
        if (fit)
            continue;
        AUTO(free_str) char *planted = solve_suspect_name(l->g, where);
        AUTO(free_str) char *other = solve_suspect_name(l->g, &f->suspects[i]);
        print_error("planted %s, named %s\n", planted, other);
        fail();
    }
    assert_true(found);
}

static bool is_loaded(const struct lab *l, uint32_t edge)
{
    for (size_t r = 0; r < l->screen->count; r++)
        if (l->screen->rounds[r]->load[edge] >= 0.9F)
            return true;
    return false;
}

/* Dead and slow, both directions and each alone; edges that no route loads cannot show. */
static void check_edge(const struct lab *l, uint32_t edge, size_t *tried)
{
    static const enum solve_part parts[] = {SOLVE_LINK_RATE, SOLVE_EDGE_RATE, SOLVE_EDGE_ALL};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        struct sim_fault f = {.where = {.part = parts[i], .element = edge},
                              .left = parts[i] == SOLVE_EDGE_ALL ? 0 : 0.5,
                              .latency = parts[i] == SOLVE_EDGE_ALL ? 0 : 1,
                              .probability = 1};
        if (solve_part_row(parts[i])->on == SOLVE_ON_LINK)
            f.where.element &= ~1U;
        struct isolate_result *r = search(l, &f, 1, &quiet, edge + 1);
        assert_int_equal(r->answer->fault_count, 1);
        assert_names(l, &r->answer->faults[0], &f.where);
        (*tried)++;
        isolate_result_destroy(r);
    }
}

static void every_edge_is_found(void **state)
{
    static const size_t shapes[][3] = {{16, 2, 4}, {12, 1, 4}, {16, 4, 4}};
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        struct lab l = open_lab(shapes[i][0], shapes[i][1], shapes[i][2]);
        size_t tried = 0;
        for (uint32_t e = 0; e < 2 * l.g->link_count; e++) {
            uint32_t from = fabric_graph_edge_from(l.g, e), to = fabric_graph_edge_to(l.g, e);
            bool switches =
                l.g->nodes[from].kind == FABRIC_SWITCH && l.g->nodes[to].kind == FABRIC_SWITCH;
            int32_t host = l.g->nodes[from].host >= 0 ? l.g->nodes[from].host : l.g->nodes[to].host;
            if (!switches && host != 0 && host + 1 != (int32_t)shapes[i][0])
                continue; /* hosts are alike: the first and the last stand for all */
            if (!switches || (is_loaded(&l, e) && is_loaded(&l, e ^ 1U)))
                check_edge(&l, e, &tried);
        }
        assert_true(tried >= 100);
        close_lab(&l);
    }
}

static void healthy_fabrics_are_left_alone(void **state)
{
    struct lab l = open_lab(64, 1, 16);
    size_t convicted = 0;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        struct isolate_result *r = search(&l, NULL, 0, &sim_usual, seed);
        for (size_t i = 0; i < r->answer->fault_count; i++)
            convicted += solve_is_convicted(&r->answer->faults[i]);
        convicted += r->silent_count;
        isolate_result_destroy(r);
    }
    assert_true(convicted <= 2); /* stated false alarm rate: at most 2 in 1000 */
    close_lab(&l);
}

static void two_faults_are_found(void **state)
{
    struct lab l = open_lab(32, 2, 16);
    struct sim_fault f[2] = {{.left = 0.5, .latency = 1, .probability = 1},
                             {.left = 0.25, .latency = 1, .probability = 1}};
    const size_t ends[2] = {3, 41};
    for (size_t i = 0; i < 2; i++) {
        uint32_t leaf = l.g->leaf_node[l.g->leaf_of[ends[i]]];
        f[i].where.part = SOLVE_LINK_RATE;
        f[i].where.element = (uint32_t)fabric_graph_edge(l.g, l.g->nic[ends[i]], leaf) & ~1U;
    }
    struct isolate_result *r = search(&l, f, 2, &quiet, 11);
    assert_int_equal(r->answer->fault_count, 2);
    size_t first = solve_same_part(&r->answer->faults[0].suspects[0], &f[0].where) ? 0 : 1;
    assert_names(&l, &r->answer->faults[0], &f[first].where);
    assert_names(&l, &r->answer->faults[1], &f[1 - first].where);
    isolate_result_destroy(r);
    close_lab(&l);
}

static void same_seed_same_answer(void **state)
{
    struct lab l = open_lab(48, 2, 16);
    struct sim_fault f = {
        .where = {.part = SOLVE_NIC_RATE}, .left = 0.6, .latency = 1, .probability = 0.5};
    f.where.element = fabric_graph_node_element(l.g, l.g->nic[17]);
    struct isolate_result *a = search(&l, &f, 1, &sim_usual, 3);
    struct isolate_result *b = search(&l, &f, 1, &sim_usual, 3);
    json_auto_t *x = isolate_report(a, &next_usual), *y = isolate_report(b, &next_usual);
    assert_true(json_equal(x, y));
    isolate_result_destroy(a);
    isolate_result_destroy(b);
    close_lab(&l);
}

static void a_group_that_passes_exonerates(void **state)
{
    struct lab l = open_lab(8, 1, 4);
    struct observe *o = observe_create(l.g);
    struct measure_plan pair = {0}, group = {0};
    const struct measure_flow ring[] = {
        {MEASURE_PAIR_GPU, 0, 1}, {MEASURE_PAIR_GPU, 1, 2}, {MEASURE_PAIR_GPU, 2, 0}};
    const struct measure_result slow = {MEASURE_OK, MEASURE_DIRECT, 200e9};
    const struct measure_result well = {MEASURE_OK, MEASURE_DIRECT, 400e9};
    measure_plan_add(&pair, MEASURE_PAIR_GPU, 0, 5);
    struct observe_round *one = observe_prepare(l.g, &pair);
    observe_add(o, one, true, &slow);
    struct solve_answer *before = solve_run(o);
    measure_plan_group(&group, ring, 3);
    observe_add(o, observe_prepare(l.g, &group), true, &well);
    struct solve_answer *after = solve_run(o);
    struct solve_suspect gpu = {.part = SOLVE_GPU_ALL,
                                .element = fabric_graph_node_element(l.g, l.g->gpu[0])};
    double was = 0, is = 0;
    for (size_t i = 0; i < before->faults[0].suspect_count; i++)
        if (solve_same_part(&before->faults[0].suspects[i], &gpu))
            was += before->faults[0].suspects[i].belief;
    for (size_t i = 0; i < after->faults[0].suspect_count; i++)
        if (solve_same_part(&after->faults[0].suspects[i], &gpu))
            is += after->faults[0].suspects[i].belief;
    assert_false(solve_is_convicted(&before->faults[0])); /* seen once */
    assert_true(was > 0 && is < was / 5);
    AUTO(free_str) char *text = observe_describe(o, 0);
    assert_string_equal(text, "RDMA of GPU memory gpu001 mlx5_0 > gpu006 mlx5_0: 200 Gbit/s, 50 % "
                              "of what is expected");
    solve_answer_destroy(before);
    solve_answer_destroy(after);
    observe_destroy(o);
    close_lab(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_edge_is_found),
        cmocka_unit_test(healthy_fabrics_are_left_alone),
        cmocka_unit_test(two_faults_are_found),
        cmocka_unit_test(same_seed_same_answer),
        cmocka_unit_test(a_group_that_passes_exonerates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
