/* The kernels' text compiles for every architecture from Turing on, and the C mirrors are stable.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agents/gpu/ptx.h"
#include "common/util.h"

enum { SKIPPED = 77 };

static const char *ptxas(void)
{
    static const char *const places[] = {"/usr/local/cuda/bin/ptxas", "/usr/bin/ptxas"};
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (access(places[i], X_OK) == 0)
            return places[i];
    return NULL;
}

static void each_kernel_is_in_the_module(void **state)
{
    AUTO(free_str) char *text = ptx_module();
    assert_true(str_has_prefix(text, ".version 6.0\n.target sm_60\n"));
    for (size_t i = 0; i < PTX_KERNEL__COUNT; i++) {
        AUTO(free_str) char *entry = str_printf(".visible .entry %s(", ptx_kernels[i]);
        assert_non_null(strstr(text, entry));
    }
    assert_null(ptx_kernels[PTX_KERNEL__COUNT]);
}

/* Values that real GPUs have reproduced: another result here means that evidence of before cannot
 * be compared any more. */
static void mirrors_give_known_values(void **state)
{
    assert_int_equal(ptx_pattern(5000000000u, 7), 0x95dfe6ba);
    assert_true(ptx_compute(3, 100) == 0x7358843c407088bcULL);
    assert_true(ptx_pattern(0, 1) != ptx_pattern(1, 1) && ptx_pattern(0, 1) != ptx_pattern(0, 2));
}

static void ptxas_accepts_every_architecture(void **state)
{
    static const int archs[] = {75, 80, 90, 100, 120};
    if (!ptxas())
        return;
    char path[] = "/tmp/muster-ptx-XXXXXX";
    int fd = mkstemp(path);
    AUTO(free_str) char *text = ptx_module();
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    for (size_t i = 0; i < ARRAY_LEN(archs); i++) {
        AUTO(free_str)
        char *command = str_printf("%s -arch=sm_%d -o /dev/null %s", ptxas(), archs[i], path);
        if (system(command) != 0)
            fail_msg("%s", command);
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kernel_is_in_the_module),
        cmocka_unit_test(mirrors_give_known_values),
        cmocka_unit_test(ptxas_accepts_every_architecture),
    };
    int status = cmocka_run_group_tests(tests, NULL, NULL);
    if (status == 0 && !ptxas()) {
        puts("skipped: no ptxas here, the kernels were not compiled");
        return SKIPPED;
    }
    return status;
}
