#include "ranks.h"

/* Counts around the number of ranks, odd ones, and some that need several chunks of 256 KiB a
 * block. */
static void sums_are_exact(void **state)
{
    static const uint32_t ranks[] = {2, 3, 4, 5, 7, 8, 13};
    static const size_t counts[] = {1, 2, 12, 13, 14, 1001, 65537, 700001};
    for (size_t i = 0; i < ARRAY_LEN(ranks); i++)
        for (size_t k = 0; k < ARRAY_LEN(counts); k++) {
            struct rank_case c = {.ranks = ranks[i],
                                  .streams = 1 + (unsigned)(k % 3),
                                  .count = counts[k],
                                  .dtype = k % 2 ? REDUCE_I32 : REDUCE_F32,
                                  .algorithm = ALLREDUCE_RING,
                                  .repeats = 2};
            ranks_expect_exact(&c);
        }
}

static int post_flipped(struct transport_link *l, const void *data, size_t bytes, struct err *err)
{
    struct faulty_ops *f = (struct faulty_ops *)(void *)(uintptr_t)l->transport->ops;
    if (f->countdown-- != 0 || bytes == 0 || bytes > sizeof f->scratch)
        return f->real->post_send(l, data, bytes, err);
    memcpy(f->scratch, data, bytes);
    f->scratch[bytes / 2] ^= 0x10;
    return f->real->post_send(l, f->scratch, bytes, err);
}

/* Zeroes instead of this rank's part: the sum lacks one contribution. */
static int post_dropped(struct transport_link *l, const void *data, size_t bytes, struct err *err)
{
    struct faulty_ops *f = (struct faulty_ops *)(void *)(uintptr_t)l->transport->ops;
    if (f->countdown-- != 0 || bytes == 0 || bytes > sizeof f->scratch)
        return f->real->post_send(l, data, bytes, err);
    memset(f->scratch, 0, bytes);
    return f->real->post_send(l, f->scratch, bytes, err);
}

static struct faulty_ops faulty;

static bool plant_in_rank_1(struct rank_state *s, int (*post)(struct transport_link *, const void *,
                                                              size_t, struct err *))
{
    if (s->rank != 1)
        return true;
    faulty.real = s->transport->ops;
    faulty.ops = *s->transport->ops;
    faulty.ops.post_send = post;
    faulty.countdown = 0; /* the first message: rank 1's own block */
    s->transport->ops = &faulty.ops;
    return true;
}

static bool plant_flip(struct rank_state *s)
{
    return plant_in_rank_1(s, post_flipped);
}

static bool plant_drop(struct rank_state *s)
{
    return plant_in_rank_1(s, post_dropped);
}

static void expect_mismatches(bool (*fault)(struct rank_state *), uint64_t at_least,
                              uint64_t at_most)
{
    struct rank_case c = {.ranks = 4,
                          .count = 4000,
                          .dtype = REDUCE_F32,
                          .algorithm = ALLREDUCE_RING,
                          .fault = fault};
    struct rank_state s[RANKS_MAX];
    ranks_run(&c, s);
    for (uint32_t r = 0; r < c.ranks; r++) {
        assert_int_equal(s[r].rc, 0);
        assert_in_range(s[r].check.mismatches, at_least, at_most);
        /* Block 1 is what rank 1 sends first. */
        assert_in_range(s[r].check.first_bad, 1000, 1999);
    }
    ranks_release(&c, s);
}

static void a_flipped_bit_is_found(void **state)
{
    expect_mismatches(plant_flip, 1, 1);
}

static void a_missing_contribution_is_found(void **state)
{
    expect_mismatches(plant_drop, 990, 1000);
}

static bool die(struct rank_state *s)
{
    if (s->rank != 2)
        return true;
    s->transport->ops->close(s->transport); /* says good-bye, and yet owes data */
    s->transport = NULL;
    return false;
}

static bool freeze(struct rank_state *s)
{
    return s->rank != 2;
}

static void expect_culprit(bool (*fault)(struct rank_state *), enum allreduce_algorithm algorithm,
                           size_t count)
{
    struct rank_case c = {
        .ranks = 5, .count = count, .dtype = REDUCE_F32, .algorithm = algorithm, .fault = fault};
    struct rank_state s[RANKS_MAX];
    ranks_run(&c, s);
    for (uint32_t r = 0; r < c.ranks; r++) {
        if (r == 2)
            continue;
        assert_int_equal(s[r].rc, -1);
        if (s[r].culprit != 2)
            fail_msg("rank %u blames %lld: %s", r, (long long)s[r].culprit, s[r].err.text);
        assert_int_equal(s[r].err.kind, ERR_REMOTE);
    }
    ranks_release(&c, s);
}

static void every_rank_names_the_one_that_died(void **state)
{
    expect_culprit(die, ALLREDUCE_RING, 1 << 20);
    expect_culprit(die, ALLREDUCE_DOUBLING, 1000);
}

static void every_rank_names_the_one_that_went_silent(void **state)
{
    expect_culprit(freeze, ALLREDUCE_RING, 1 << 20);
    expect_culprit(freeze, ALLREDUCE_DOUBLING, 1000);
}

/* No rank may have added in another order than the others. */
static void fractions_have_the_same_bits_everywhere(void **state)
{
    for (uint32_t n = 2; n <= 13; n++) {
        struct rank_case c = {.ranks = n,
                              .count = 5003,
                              .dtype = REDUCE_F32,
                              .algorithm = ALLREDUCE_RING,
                              .inexact = true};
        ranks_expect_exact(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_exact),
        cmocka_unit_test(fractions_have_the_same_bits_everywhere),
        cmocka_unit_test(a_flipped_bit_is_found),
        cmocka_unit_test(a_missing_contribution_is_found),
        cmocka_unit_test(every_rank_names_the_one_that_died),
        cmocka_unit_test(every_rank_names_the_one_that_went_silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
