#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "fabric/collective/pattern.h"

enum { LEN = 4099 };

/* A stream does not depend on how it is cut. */
static void pieces_make_the_stream(void **state)
{
    static const size_t cuts[] = {1, 3, 7, 8, 9, 64, 1000};
    uint8_t whole[LEN], piece[LEN];
    pattern_bytes_fill(7, 0, whole, LEN);
    for (size_t k = 0; k < ARRAY_LEN(cuts); k++) {
        struct pattern_result r;
        pattern_result_clear(&r);
        for (size_t at = 0; at < LEN; at += cuts[k]) {
            size_t n = LEN - at < cuts[k] ? LEN - at : cuts[k];
            pattern_bytes_fill(7, at, piece + at, n);
            pattern_bytes_check(7, at, whole + at, n, &r);
        }
        assert_memory_equal(whole, piece, LEN);
        assert_int_equal(r.compared, LEN);
        assert_int_equal(r.mismatches, 0);
        assert_true(r.first_bad == UINT64_MAX);
    }
}

static struct pattern_result check_from(const uint8_t *data, uint64_t seed, uint64_t offset)
{
    struct pattern_result r;
    pattern_result_clear(&r);
    pattern_bytes_check(seed, offset, data, LEN, &r);
    return r;
}

static void faults_in_a_stream_show(void **state)
{
    uint8_t data[LEN + 8];
    pattern_bytes_fill(7, 0, data, sizeof data);
    data[1234] ^= 1;
    data[4000] ^= 0x80;
    struct pattern_result r = check_from(data, 7, 0);
    assert_int_equal(r.mismatches, 2);
    assert_int_equal(r.first_bad, 1234);
    pattern_bytes_fill(7, 0, data, sizeof data);
    assert_true(check_from(data + 8, 7, 0).mismatches > LEN * 9 / 10); /* 8 bytes lost */
    assert_true(check_from(data, 8, 0).mismatches > LEN * 9 / 10);     /* another round's */
    memcpy(data + 1024, data, 512);                                    /* repeated */
    r = check_from(data, 7, 0);
    assert_true(r.mismatches > 400);
    assert_in_range(r.first_bad, 1024, 1030);
}

static const struct {
    uint32_t ranks;
    enum reduce_dtype dtype;
} cases[] = {{1, REDUCE_F32},  {2, REDUCE_F32},    {3, REDUCE_I32},   {13, REDUCE_F32},
             {64, REDUCE_I32}, {1000, REDUCE_F32}, {1024, REDUCE_F32}};

enum { COUNT = 1500 };

/* Sum up the contributions of all ranks but `skip`, with `twice` counted twice. */
static void sum_up(const struct pattern *p, int64_t skip, int64_t twice, void *sum)
{
    static uint32_t one[COUNT];
    memset(sum, 0, COUNT * 4);
    for (uint32_t r = 0; r < p->ranks; r++) {
        pattern_fill(p, r, one, COUNT);
        for (int times = r == skip ? 0 : r == twice ? 2 : 1; times > 0; times--)
            reduce_add_scalar(p->dtype, sum, sum, one, COUNT);
    }
}

static void right_sums_pass_and_wrong_ones_do_not(void **state)
{
    static uint32_t sum[COUNT];
    for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
        struct pattern p;
        struct pattern_result r;
        pattern_init(&p, k, cases[k].ranks, cases[k].dtype);
        sum_up(&p, -1, -1, sum);
        pattern_check(&p, sum, COUNT, &r);
        assert_int_equal(r.compared, COUNT);
        assert_int_equal(r.mismatches, 0);
        uint32_t kept = sum[700];
        sum[700] = sum[701];
        sum[701] = kept;
        pattern_check(&p, sum, COUNT, &r);
        assert_int_equal(r.mismatches, 2); /* exchanged positions */
        assert_int_equal(r.first_bad, 700);
        sum_up(&p, p.ranks / 2, -1, sum);
        pattern_check(&p, sum, COUNT, &r);
        assert_true(r.mismatches > COUNT * 9 / 10); /* dropped */
        if (p.ranks < 2)
            continue;
        sum_up(&p, 0, p.ranks - 1, sum);
        pattern_check(&p, sum, COUNT, &r);
        assert_true(r.mismatches > COUNT * 9 / 10); /* one for another */
    }
}

/* f32 adds these integers exactly, so the order of addition cannot matter. */
static void partial_sums_are_exact(void **state)
{
    for (uint32_t ranks = 1; ranks <= PATTERN_MAX_RANKS; ranks *= 2) {
        struct pattern p;
        pattern_init(&p, 1, ranks, REDUCE_F32);
        assert_true(p.value_mask >= 255);
        assert_true((uint64_t)ranks * 2 * (uint64_t)p.value_mask <= 1u << 24);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_make_the_stream),
        cmocka_unit_test(faults_in_a_stream_show),
        cmocka_unit_test(right_sums_pass_and_wrong_ones_do_not),
        cmocka_unit_test(partial_sums_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
