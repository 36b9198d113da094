/* The circle method: complete, disjoint, symmetric, for every size to 64 and some larger. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "validate/schedule.h"

static void check_size(size_t n)
{
    unsigned char *met = mem_zero(n * n + 1, 1);
    for (size_t round = 0; round < schedule_rounds(n); round++) {
        size_t resting = 0;
        for (size_t i = 0; i < n; i++) {
            long partner = schedule_partner(n, round, i);
            if (partner < 0) {
                resting++;
                continue;
            }
            assert_true((size_t)partner < n && (size_t)partner != i);
            assert_int_equal(schedule_partner(n, round, (size_t)partner), i);
            met[i * n + (size_t)partner]++;
        }
        assert_int_equal(resting, n % 2);
    }
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++)
            assert_int_equal(met[a * n + b], a != b);
    free(met);
}

static void every_pair_meets_once(void **state)
{
    for (size_t n = 2; n <= 64; n++)
        check_size(n);
    check_size(255);
    check_size(256);
}

static void edges(void **state)
{
    assert_int_equal(schedule_rounds(0), 0);
    assert_int_equal(schedule_rounds(1), 0);
    assert_int_equal(schedule_rounds(2), 1);
    assert_int_equal(schedule_rounds(3), 3);
    assert_int_equal(schedule_partner(1, 0, 0), -1);
    assert_int_equal(schedule_partner(4, 3, 0), -1);
    assert_int_equal(schedule_partner(4, 0, 4), -1);
}

static void shuffles_are_permutations_and_repeat(void **state)
{
    size_t a[50], b[50], c[50], sum = 0;
    schedule_shuffle(7, 50, a);
    schedule_shuffle(7, 50, b);
    schedule_shuffle(8, 50, c);
    assert_memory_equal(a, b, sizeof a);
    assert_true(memcmp(a, c, sizeof a) != 0);
    unsigned char seen[50] = {0};
    for (size_t i = 0; i < 50; i++)
        seen[a[i]] = 1;
    for (size_t i = 0; i < 50; i++)
        sum += seen[i];
    assert_int_equal(sum, 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_meets_once),
        cmocka_unit_test(edges),
        cmocka_unit_test(shuffles_are_permutations_and_repeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
