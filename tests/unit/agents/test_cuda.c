/* The driver's library is missing, or too old: each has its own words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agents/gpu/cuda.h"
#include "fake_gpu.h"

static void a_missing_symbol_is_named(void **state)
{
    struct cuda cuda = {0};
    struct err err = {0};
    const char *cause = NULL;
    fake_gpu_describe("gpus 1\n");
    assert_int_equal(cuda_open(&cuda, &cause, &err), -1);
    assert_int_equal(err.kind, ERR_ENV);
    assert_string_equal(cause, "gpu-driver-old");
    assert_string_equal(err.text, "libcuda.so.1 has no cuMemHostAlloc: the driver is too old (R470 "
                                  "is the oldest)");
}

static void results_have_causes(void **state)
{
    assert_string_equal(cuda_cause(802), "fabric-manager");
    assert_string_equal(cuda_cause(803), "gpu-driver-mismatch");
    assert_string_equal(cuda_cause(CUDA_NO_DEVICE), "gpu-missing");
    assert_string_equal(cuda_cause(1), "gpu-error");
}

int main(int argc, char **argv)
{
    (void)argc;
    fake_gpu_enter(argv, "fake_gpu_old");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_symbol_is_named),
        cmocka_unit_test(results_have_causes),
    };
    int status = cmocka_run_group_tests(tests, NULL, NULL);
    fake_gpu_leave();
    return status;
}
