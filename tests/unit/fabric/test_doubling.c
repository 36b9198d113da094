#include "ranks.h"

#include "fabric/collective/doubling.h"

static void sums_are_exact(void **state)
{
    static const uint32_t ranks[] = {2, 3, 4, 5, 7, 8, 13};
    static const size_t counts[] = {1, 3, 1001, 65536, 200003};
    for (size_t i = 0; i < ARRAY_LEN(ranks); i++)
        for (size_t k = 0; k < ARRAY_LEN(counts); k++) {
            struct rank_case c = {.ranks = ranks[i],
                                  .streams = 1 + (unsigned)(k % 2),
                                  .count = counts[k],
                                  .dtype = k % 2 ? REDUCE_I32 : REDUCE_F32,
                                  .algorithm = ALLREDUCE_DOUBLING,
                                  .repeats = 2};
            ranks_expect_exact(&c);
        }
}

/* Both ends of each exchange name each other, at the same place of the order. */
static void partners_are_mutual(void **state)
{
    for (uint32_t n = 2; n <= 40; n++)
        for (uint32_t r = 0; r < n; r++) {
            uint32_t mine[DOUBLING_MAX_PARTNERS], theirs[DOUBLING_MAX_PARTNERS];
            size_t count = doubling_partners(r, n, mine);
            assert_in_range(count, 1, 7);
            for (size_t i = 0; i < count; i++) {
                assert_in_range(mine[i], 0, n - 1);
                assert_int_not_equal(mine[i], r);
                size_t other = doubling_partners(mine[i], n, theirs);
                bool found = false;
                for (size_t k = 0; k < other; k++)
                    found = found || theirs[k] == r;
                if (!found)
                    fail_msg("%u ranks: %u speaks to %u, not the other way", n, r, mine[i]);
            }
        }
}

static void the_way_is_chosen_by_size(void **state)
{
    assert_int_equal(allreduce_choose(4, 2), ALLREDUCE_DOUBLING);
    assert_int_equal(allreduce_choose(64 * 1024, 4), ALLREDUCE_DOUBLING);
    assert_int_equal(allreduce_choose(64 * 1024 + 4, 4), ALLREDUCE_RING);
    assert_int_equal(allreduce_choose(64 << 20, 128), ALLREDUCE_RING);
}

static void a_vector_beyond_the_staging_is_refused(void **state)
{
    struct rank_case c = {.ranks = 2,
                          .count = 100000,
                          .dtype = REDUCE_F32,
                          .algorithm = ALLREDUCE_DOUBLING,
                          .max_bytes = 64};
    struct rank_state s[RANKS_MAX];
    ranks_run(&c, s);
    assert_int_equal(s[0].rc, -1);
    assert_int_equal(s[0].err.kind, ERR_DATA);
    assert_string_equal(s[0].err.text, "400000 bytes do not fit the staging memory of 64 bytes");
    ranks_release(&c, s);
}

/* No rank may have added in another order than the others. */
static void fractions_have_the_same_bits_everywhere(void **state)
{
    for (uint32_t n = 2; n <= 13; n++) {
        struct rank_case c = {.ranks = n,
                              .count = 5003,
                              .dtype = REDUCE_F32,
                              .algorithm = ALLREDUCE_DOUBLING,
                              .inexact = true};
        ranks_expect_exact(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_exact),
        cmocka_unit_test(fractions_have_the_same_bits_everywhere),
        cmocka_unit_test(partners_are_mutual),
        cmocka_unit_test(the_way_is_chosen_by_size),
        cmocka_unit_test(a_vector_beyond_the_staging_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
