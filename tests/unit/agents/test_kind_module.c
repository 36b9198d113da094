#include "resources_scratch.h"

static int setup(void **state)
{
    struct scratch *s = mem_zero(1, sizeof *s);
    scratch_open(s);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    scratch_close(*state);
    free(*state);
    return 0;
}

static void expect(const struct scratch *s, const char *txn, const char *id, const char *params,
                   const char *state, const char *text)
{
    AUTO(free_str) char *got_text = NULL;
    AUTO(free_str) char *got = scratch_apply1(s, txn, "module", id, params, &got_text);
    assert_string_equal(got_text, text);
    assert_string_equal(got, state);
}

static void test_load_and_roll_back(void **state)
{
    struct scratch *s = *state;
    scratch_modprobe(s);
    AUTO(free_str) char *before = scratch_snapshot(s);
    json_t *item = scratch_plan1(s, "module", "ib-umad", "{}");
    assert_string_equal(jsonx_str_or(item, "diff", ""),
                        "loaded: false -> true\n--- /dev/null\n"
                        "+++ /etc/modules-load.d/muster-ib-umad.conf\n@@ -0,0 +1,2 @@\n"
                        "+# Written by muster; what is changed here is overwritten.\n+ib_umad\n");
    json_decref(item);
    expect(s, "t", "ib-umad", "{}", "committed", "");
    assert_true(fs_exists_at(&s->root, "/sys/module/ib_umad"));
    expect(s, "t2", "ib-umad", "{}", "nothing", "");
    json_t *data = NULL;
    struct err err = {0};
    assert_ok(resources_rollback(&s->env, NULL, false, &data, &err), err);
    json_decref(data);
    AUTO(free_str) char *after = scratch_snapshot(s);
    assert_string_equal(before, after);
}

static void test_without_load_or_boot(void **state)
{
    struct scratch *s = *state;
    scratch_modprobe(s);
    expect(s, "t", "a", "{'load':false}", "committed", "");
    assert_false(fs_exists_at(&s->root, "/sys/module/a"));
    assert_true(fs_exists_at(&s->root, "/etc/modules-load.d/muster-a.conf"));
    expect(s, "t2", "a", "{'boot':false}", "committed", "");
    assert_true(fs_exists_at(&s->root, "/sys/module/a"));
    assert_false(fs_exists_at(&s->root, "/etc/modules-load.d/muster-a.conf"));
    /* Nothing is unloaded unasked. */
    expect(s, "t3", "a", "{'load':false,'boot':false}", "nothing", "");
    assert_true(fs_exists_at(&s->root, "/sys/module/a"));
}

static void test_failures(void **state)
{
    struct scratch *s = *state;
    struct utsname uts;
    uname(&uts);
    AUTO(free_str)
    char *no_tree = str_printf(
        "module a cannot be loaded: there are no modules of this kernel on this node "
        "(/lib/modules/%s is missing); install the modules of the running kernel or reboot into "
        "the installed one",
        uts.release);
    AUTO(free_str) char *tree = str_printf("/lib/modules/%s", uts.release);
    expect(s, "t1", "a", "{}", "undone", no_tree);
    scratch_dir(s, tree);
    expect(s, "t2", "a", "{}", "undone",
           "module a cannot be loaded: modprobe is not installed (package kmod)");
    scratch_modprobe(s);
    expect(s, "t3", "refused", "{}", "undone",
           "module refused: modprobe ended with status 1: could not insert 'refused': Invalid "
           "argument");
    expect(s, "t4", "liar", "{}", "undone",
           "module liar: modprobe reported success, but /sys/module/liar says that it is not "
           "loaded");
    expect(s, "t5", "a b", "{}", "undone",
           "'a b' is not the name of a module: letters, digits, '_' and '-'");
    expect(s, "t6", "--help", "{}", "undone",
           "'--help' is not the name of a module: letters, digits, '_' and '-'");
}

static void test_state_of_the_kernel(void **state)
{
    struct scratch *s = *state;
    struct utsname uts;
    uname(&uts);
    AUTO(free_str) char *builtin = str_printf("/lib/modules/%s/modules.builtin", uts.release);
    scratch_put(s, builtin, "kernel/drivers/a/in-side.ko\n", 0644);
    scratch_put(s, "/sys/module/coming/initstate", "coming\n", 0444);
    scratch_put(s, "/sys/module/live/initstate", "live\n", 0444);
    static const struct scratch_vector vectors[] = {
        {"in_side", "{'boot':false}", "same", NULL},
        {"live", "{'boot':false}", "same", NULL},
        {"coming", "{'boot':false}", "change", NULL},
        {"side", "{'boot':false}", "change", NULL},
    };
    scratch_check_vectors(s, "module", vectors, ARRAY_LEN(vectors));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_load_and_roll_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_load_or_boot, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failures, setup, teardown),
        cmocka_unit_test_setup_teardown(test_state_of_the_kernel, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
