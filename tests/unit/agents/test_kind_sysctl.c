#include "resources_scratch.h"

static int setup(void **state)
{
    struct scratch *s = mem_zero(1, sizeof *s);
    scratch_open(s);
    scratch_put(s, "/proc/sys/net/core/rmem_max", "212992", 0644);
    scratch_put(s, "/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456", 0644);
    scratch_put(s, "/proc/sys/net/ipv4/conf/eth0.100/forwarding", "0", 0644);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    scratch_close(*state);
    free(*state);
    return 0;
}

static void test_parameters(void **state)
{
    struct scratch *s = *state;
    static const struct scratch_vector vectors[] = {
        {"net.core.rmem_max", "{'value':1}", "change", NULL},
        {"net.ipv4.tcp_rmem", "{'value':'4096 131072   6291456','persist':false}", "same", NULL},
        {"net.ipv4.conf.eth0/100.forwarding", "{'value':0,'persist':false}", "same", NULL},
        {"net/ipv4/conf/eth0.100/forwarding", "{'value':1}", "change", NULL},
        {"net.core.rmem_maxx", "{'value':1}", "error",
         "the kernel has no sysctl net.core.rmem_maxx (/proc/sys/net/core/rmem_maxx does not "
         "exist); is its module loaded?"},
        {"../../etc/passwd", "{'value':1}", "error",
         "'../../etc/passwd' is not a sysctl key; write it as in net.core.rmem_max"},
        {"net/../../../etc/passwd", "{'value':1}", "error",
         "the sysctl key 'net/../../../etc/passwd' has an empty part; write it as in "
         "net.core.rmem_max"},
        {"net.core..rmem_max", "{'value':1}", "error",
         "the sysctl key 'net.core..rmem_max' has an empty part; write it as in net.core.rmem_max"},
        {"/proc/sys/net/core/rmem_max", "{'value':1}", "error",
         "'/proc/sys/net/core/rmem_max' is not a sysctl key; write it as in net.core.rmem_max"},
        {"net.core.rmem_max", "{}", "error", "'value' must be given, as a text or an integer"},
        {"net.core.rmem_max", "{'value':8900.4}", "error",
         "'value' must be given, as a text or an integer; two settings run together?"},
        {"net.core.rmem_max", "{'value':'1\\nkernel.panic=1'}", "error",
         "the value holds a newline or a control character"},
        {"net.core.rmem_max", "{'value':' '}", "error", "the value is empty"},
    };
    scratch_check_vectors(s, "sysctl", vectors, ARRAY_LEN(vectors));
}

static void test_apply_and_undo(void **state)
{
    struct scratch *s = *state;
    AUTO(free_str) char *before = scratch_snapshot(s);
    AUTO(free_str)
    char *done = scratch_apply1(s, "t", "sysctl", "net.ipv4.tcp_rmem",
                                "{'value':'4096 87380 1000000'}", NULL);
    assert_string_equal(done, "committed");
    AUTO(free_str) char *value = scratch_get(s, "/proc/sys/net/ipv4/tcp_rmem");
    AUTO(free_str) char *file = scratch_get(s, "/etc/sysctl.d/90-muster-net.ipv4.tcp_rmem.conf");
    assert_string_equal(value, "4096 87380 1000000");
    assert_string_equal(file, "# Written by muster; what is changed here is overwritten.\n"
                              "net.ipv4.tcp_rmem = 4096 87380 1000000\n");
    AUTO(free_str)
    char *again = scratch_apply1(s, "t2", "sysctl", "net.ipv4.tcp_rmem",
                                 "{'value':'4096\\t87380 1000000'}", NULL);
    assert_string_equal(again, "nothing");
    json_t *data = NULL;
    struct err err = {0};
    assert_ok(resources_rollback(&s->env, "t", false, &data, &err), err);
    json_decref(data);
    AUTO(free_str) char *after = scratch_get(s, "/proc/sys/net/ipv4/tcp_rmem");
    assert_string_equal(after, "4096 131072 6291456");
    AUTO(free_str) char *gone = scratch_get(s, "/etc/sysctl.d/90-muster-net.ipv4.tcp_rmem.conf");
    assert_string_equal(gone, "(none)");
    assert_non_null(before);
}

/* A knob that takes every write and keeps its value: /dev/null reads back as nothing. */
static void test_value_that_does_not_take(void **state)
{
    struct scratch *s = *state;
    AUTO(free_str) char *knob = scratch_path(s, "/proc/sys/net/core/deaf");
    assert_int_equal(symlink("/dev/null", knob), 0);
    AUTO(free_str) char *text = NULL;
    AUTO(free_str)
    char *done = scratch_apply1(s, "t", "sysctl", "net.core.deaf", "{'value':7}", &text);
    assert_string_equal(done, "undone");
    assert_string_equal(text, "net.core.deaf was set to '7' and reads back as ''");
    AUTO(free_str) char *file = scratch_get(s, "/etc/sysctl.d/90-muster-net.core.deaf.conf");
    assert_string_equal(file, "(none)");
}

/* The kernel itself: a refusal names the value, and nothing is left. */
static void test_real_kernel_refuses(void **state)
{
    struct scratch *s = *state;
    AUTO(free_str) char *mine = scratch_path(s, "/proc/sys/vm");
    assert_int_equal(symlink("/proc/sys/vm", mine), 0);
    AUTO(free_str) char *text = NULL;
    AUTO(free_str)
    char *done = scratch_apply1(s, "t", "sysctl", "vm.swappiness", "{'value':1000}", &text);
    assert_string_equal(done, "undone");
    AUTO(free_str)
    char *want = str_printf("the kernel refused vm.swappiness = 1000: cannot write "
                            "%s/proc/sys/vm/swappiness: Invalid argument",
                            s->root.path);
    assert_string_equal(text, want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_parameters, setup, teardown),
        cmocka_unit_test_setup_teardown(test_apply_and_undo, setup, teardown),
        cmocka_unit_test_setup_teardown(test_value_that_does_not_take, setup, teardown),
        cmocka_unit_test_setup_teardown(test_real_kernel_refuses, setup, teardown),
    };
    if (access("/proc/sys/vm/swappiness", W_OK) != 0) {
        printf("skipped: vm.swappiness of this machine cannot be written: %s\n", strerror(errno));
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
