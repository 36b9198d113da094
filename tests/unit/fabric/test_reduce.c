#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "fabric/collective/reduce.h"

static void names_and_sizes_go_together(void **state)
{
    for (int d = 1; d < REDUCE_DTYPE__COUNT; d++) {
        const char *name = reduce_dtype_name((enum reduce_dtype)d);
        assert_non_null(name);
        assert_int_equal(reduce_dtype_find(name), d);
        assert_int_equal(reduce_dtype_bytes((enum reduce_dtype)d), 4);
    }
    assert_int_equal(reduce_dtype_find("f64"), REDUCE_UNSET);
    assert_int_equal(reduce_dtype_find(NULL), REDUCE_UNSET);
    assert_null(reduce_dtype_name(REDUCE_UNSET));
}

/* Every tail length of the vector kernels, every offset within a vector, guard words on both sides.
 */
static void kernels_agree_bit_by_bit(void **state)
{
    enum { MOST = 70, GUARD = 0x5a5a5a5a };
    uint32_t a[MOST + 8], b[MOST + 8], fast[MOST + 10], slow[MOST + 10];
    for (size_t i = 0; i < ARRAY_LEN(a); i++) {
        float x = (float)i * 0.37f - 9.1f, y = 1.0f / (float)(i + 3);
        memcpy(&a[i], &x, 4);
        memcpy(&b[i], &y, 4);
    }
    a[5] = 0x7f7fffff; /* largest finite */
    b[5] = 0x7f7fffff;
    a[6] = 0x00000001; /* smallest subnormal */
    a[7] = 0x80000000; /* minus zero */
    for (int d = 1; d < REDUCE_DTYPE__COUNT; d++)
        for (size_t offset = 0; offset < 8; offset++)
            for (size_t n = 0; n <= MOST; n++) {
                for (size_t i = 0; i < ARRAY_LEN(fast); i++)
                    fast[i] = slow[i] = GUARD;
                reduce_add((enum reduce_dtype)d, fast + 1, a + offset, b + offset, n);
                reduce_add_scalar((enum reduce_dtype)d, slow + 1, a + offset, b + offset, n);
                assert_memory_equal(fast, slow, sizeof fast);
                assert_int_equal(fast[0], GUARD);
                assert_int_equal(fast[n + 1], GUARD);
            }
}

static void integers_wrap_and_results_may_replace_inputs(void **state)
{
    uint32_t a[20], b[20];
    for (size_t i = 0; i < 20; i++) {
        a[i] = 0x7fffffff;
        b[i] = (uint32_t)i + 1;
    }
    reduce_add(REDUCE_I32, a, a, b, 20);
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(a[i], 0x7fffffffu + (uint32_t)i + 1);
    float x[17], y[17];
    for (int i = 0; i < 17; i++) {
        x[i] = (float)i;
        y[i] = 100;
    }
    reduce_add(REDUCE_F32, y, x, y, 17);
    for (int i = 0; i < 17; i++)
        assert_true(y[i] == (float)(i + 100));
}

int main(void)
{
    print_message("kernel: %s\n", reduce_kernel_name());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_sizes_go_together),
        cmocka_unit_test(kernels_agree_bit_by_bit),
        cmocka_unit_test(integers_wrap_and_results_may_replace_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
