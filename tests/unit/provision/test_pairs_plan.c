/* Rounds of pairs: complete, disjoint, and for a few pairs no more rounds than needed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/util.h"
#include "provision/pairs_plan.h"

/* How often each pair of nodes meets; fails when a round is not a set of disjoint pairs. */
static void count_meetings(const struct pairs_plan *plan, size_t nodes, unsigned met[])
{
    memset(met, 0, nodes * nodes * sizeof *met);
    for (size_t round = 0; round < plan->rounds; round++) {
        for (size_t i = 0; i < plan->members; i++) {
            long partner = pairs_plan_partner(plan, round, i);
            if (partner < 0)
                continue;
            assert_true((size_t)partner < plan->members && (size_t)partner != i);
            assert_int_equal(pairs_plan_partner(plan, round, (size_t)partner), (long)i);
            met[plan->member[i] * nodes + plan->member[partner]]++;
        }
    }
}

static void all_pairs_meet_once(void **state)
{
    for (size_t n = 2; n <= 17; n++) {
        size_t nodes[17];
        unsigned met[17 * 17];
        struct pairs_plan plan;
        for (size_t i = 0; i < n; i++)
            nodes[i] = i;
        pairs_plan_all(&plan, nodes, n);
        count_meetings(&plan, n, met);
        for (size_t a = 0; a < n; a++)
            for (size_t b = 0; b < n; b++)
                assert_int_equal(met[a * n + b], a != b);
        pairs_plan_release(&plan);
    }
}

static void some_pairs_meet_once(void **state)
{
    static const struct {
        struct pairs_pair pairs[5];
        size_t count, rounds;
    } rows[] = {
        {{{3, 7}}, 1, 1},
        {{{3, 7}, {7, 3}, {3, 7}}, 3, 1},
        {{{0, 1}, {2, 3}, {4, 5}}, 3, 1},
        {{{0, 1}, {0, 2}, {0, 3}, {0, 4}}, 4, 4},
        {{{0, 1}, {1, 2}, {2, 0}}, 3, 3},
        {{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}}, 5, 2},
    };
    enum { NODES = 8 };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct pairs_plan plan;
        unsigned met[NODES * NODES], want[NODES * NODES] = {0};
        pairs_plan_some(&plan, rows[i].pairs, rows[i].count);
        count_meetings(&plan, NODES, met);
        for (size_t k = 0; k < rows[i].count; k++) {
            want[rows[i].pairs[k].a * NODES + rows[i].pairs[k].b] = 1;
            want[rows[i].pairs[k].b * NODES + rows[i].pairs[k].a] = 1;
        }
        assert_memory_equal(met, want, sizeof want);
        assert_int_equal(plan.rounds, rows[i].rounds);
        pairs_plan_release(&plan);
    }
}

static void nothing_to_do(void **state)
{
    struct pairs_plan plan;
    pairs_plan_some(&plan, NULL, 0);
    assert_int_equal(plan.rounds, 0);
    pairs_plan_release(&plan);
    size_t one[] = {4};
    pairs_plan_all(&plan, one, 1);
    assert_int_equal(plan.rounds, 0);
    pairs_plan_release(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_pairs_meet_once),
        cmocka_unit_test(some_pairs_meet_once),
        cmocka_unit_test(nothing_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
