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

/* What the seed article would paste, and what is right. */
static void test_known_modules(void **state)
{
    static const char refused[] =
        "nvidia_peermem rm_peer_mem: no version of nvidia_peermem has this parameter (the kernel "
        "would log 'unknown parameter ignored'); write no option, the defaults are right";
    static const char inert[] =
        "mlx4_core drives ConnectX-2 and ConnectX-3 only, and no device here is bound to it; "
        "ConnectX-4 and later use mlx5_core";
    static const struct scratch_vector vectors[] = {
        {"nvidia-peermem", "{'options':{'rm_peer_mem':1}}", "error", refused},
        {"nvidia_peermem", "{'options':{'rm-peer-mem':'1'}}", "error", refused},
        {"nvidia-peermem", "{'options':{}}", "same", NULL},
        {"nvidia-peermem", "{'options':{'peerdirect_support':1}}", "change", NULL},
        {"nvidia-peermem", "{'options':{'persistent_api_support':false}}", "change", NULL},
        {"nvidia-peermem", "{'options':{'peerdirect_support':2}}", "error",
         "peerdirect_support of nvidia_peermem must be 0..1, is 2 (0 default, 1 legacy MLNX_OFED "
         "4.9 LTS)"},
        {"nvidia-peermem", "{'options':{'other':1}}", "error",
         "nvidia_peermem has no parameter 'other'"},
        {"mlx4_core", "{'options':{'log_num_mgm_entry_size':-1}}", "skip", inert},
        {"mlx4_core", "{'options':{'log_num_mgm_entry_size':'-13.4'}}", "error",
         "log_num_mgm_entry_size of mlx4_core: '-13.4' is not an integer (trailing '.4'); two "
         "settings run together?"},
        {"mlx4_core", "{'options':{'log_num_mgm_entry_size':-13.4}}", "error",
         "the value of 'log_num_mgm_entry_size' must be a text, an integer, true or false; two "
         "settings run together?"},
        {"mlx4_core", "{'options':{'log_num_mgm_entry_size':5}}", "error",
         "log_num_mgm_entry_size of mlx4_core must be -7..0 or 7..12, is 5 (7..12 is the log2 of "
         "the multicast entry's size, -7..0 device-managed flow steering)"},
        {"mlx4_core", "{'options':{'log_num_mgm_entry_size':13}}", "error",
         "log_num_mgm_entry_size of mlx4_core must be -7..0 or 7..12, is 13 (7..12 is the log2 of "
         "the multicast entry's size, -7..0 device-managed flow steering)"},
        {"mlx4_core", "{'options':{'log_num_mgm_entry_size':'1 options x y=2'}}", "error",
         "the value '1 options x y=2' of log_num_mgm_entry_size (mlx4_core) holds a blank, a "
         "quote or a control character; two settings run together?"},
        {"some_module", "{'options':{'p':'-13.4'}}", "error",
         "p of some_module: '-13.4' is not an integer (trailing '.4'); two settings run together?"},
        {"some_module", "{'options':{'p':'a\\\"b'}}", "error",
         "the value 'a\"b' of p (some_module) holds a blank, a quote or a control character; two "
         "settings run together?"},
        {"some_module", "{'options':{'p':''}}", "error", "p of some_module has an empty value"},
        {"some_module", "{'options':{'p q':'1'}}", "error",
         "'p q' is not the name of a parameter of some_module: letters, digits and '_'"},
        {"some_module", "{'options':{'a-b':1,'a_b':2}}", "error", "parameter 'a_b' is given twice"},
        {"some/module", "{'options':{}}", "error",
         "'some/module' is not the name of a module: letters, digits, '_' and '-'"},
        {"m", "{'options':{'p':1},'file':'/etc/modprobe.d/x.config'}", "error",
         "modprobe reads only /etc/modprobe.d/*.conf, and the file is '/etc/modprobe.d/x.config'"},
        {"m", "{'options':{'p':1},'file':'/etc/modprobe.d/x.conf'}", "change", NULL},
    };
    scratch_check_vectors(*state, "modprobe_options", vectors, ARRAY_LEN(vectors));
}

static void test_bound_device(void **state)
{
    struct scratch *s = *state;
    scratch_put(s, "/sys/bus/pci/drivers/mlx4_core/bind", "", 0200);
    json_t *item = scratch_plan1(s, "modprobe_options", "mlx4_core",
                                 "{'options':{'log_num_mgm_entry_size':-1}}");
    assert_string_equal(jsonx_str_or(item, "outcome", ""), "skip");
    json_decref(item);
    scratch_dir(s, "/sys/bus/pci/drivers/mlx4_core/0000:3b:00.0");
    item = scratch_plan1(s, "modprobe_options", "mlx4_core",
                         "{'options':{'log_num_mgm_entry_size':-1}}");
    assert_string_equal(jsonx_str_or(item, "outcome", ""), "change");
    assert_string_equal(jsonx_str_or(item, "diff", ""),
                        "--- /dev/null\n+++ /etc/modprobe.d/muster-mlx4_core.conf\n"
                        "@@ -0,0 +1,2 @@\n"
                        "+# Written by muster; what is changed here is overwritten.\n"
                        "+options mlx4_core log_num_mgm_entry_size=-1\n");
    json_decref(item);
}

static void test_loaded_module(void **state)
{
    struct scratch *s = *state;
    scratch_put(s, "/sys/module/rdma_rxe/parameters/max_ucontext", "512\n", 0444);
    scratch_put(s, "/sys/module/rdma_rxe/parameters/wait_reset", "N\n", 0444);
    static const struct scratch_vector vectors[] = {
        {"rdma_rxe", "{'options':{'max_ucontex':1}}", "error",
         "rdma_rxe has no parameter 'max_ucontex'; /sys/module lists: max_ucontext, wait_reset"},
        {"rdma_rxe", "{'options':{'max_ucontext':'12x'}}", "error",
         "max_ucontext of rdma_rxe: '12x' is not an integer (trailing 'x')"},
        {"rdma_rxe", "{'options':{'wait_reset':false}}", "change", NULL},
        {"rdma_rxe", "{'options':{'max_ucontext':512}}", "change", NULL},
        {"rdma_rxe", "{'options':{'max_ucontext':1024}}", "change",
         "max_ucontext is 512 now: takes effect at the next load of rdma_rxe"},
    };
    scratch_check_vectors(s, "modprobe_options", vectors, ARRAY_LEN(vectors));
    AUTO(free_str) char *text = NULL;
    AUTO(free_str)
    char *done = scratch_apply1(s, "t", "modprobe_options", "rdma_rxe",
                                "{'options':{'max_ucontext':1024,'wait_reset':true}}", &text);
    assert_string_equal(done, "committed");
    assert_string_equal(text, "max_ucontext is 512 now: takes effect at the next load of rdma_rxe; "
                              "wait_reset is N now: takes effect at the next load of rdma_rxe");
    AUTO(free_str) char *file = scratch_get(s, "/etc/modprobe.d/muster-rdma_rxe.conf");
    assert_string_equal(file, "# Written by muster; what is changed here is overwritten.\n"
                              "options rdma_rxe max_ucontext=1024 wait_reset=1\n");
    /* What the loaded module shows is no part of the configuration's digest. */
    json_t *manifest = NULL, *now = NULL;
    struct err err = {0};
    assert_ok(resources_manifest(&s->env, &manifest, &err), err);
    scratch_put(s, "/sys/module/rdma_rxe/parameters/max_ucontext", "1024\n", 0444);
    assert_ok(resources_manifest_now(&s->env, manifest, &now, &err), err);
    assert_true(json_equal(manifest, now));
    json_decref(now);
    json_decref(manifest);
}

static void test_modinfo(void **state)
{
    struct scratch *s = *state;
    scratch_put(s, "/usr/sbin/modinfo",
                "#!/bin/sh\n[ \"$4\" = there ] || exit 1\n"
                "echo 'count:number of things (int)'\necho 'mode:how (a, b) (charp)'\n"
                "echo 'flag:yes (or no) (bool)'\n",
                0755);
    static const struct scratch_vector vectors[] = {
        {"there", "{'options':{'count':'3.'}}", "error",
         "count of there: '3.' is not an integer (trailing '.'); two settings run together?"},
        {"there", "{'options':{'mode':'1.2'}}", "change", NULL},
        {"there", "{'options':{'flag':true,'count':3}}", "change", NULL},
        {"there", "{'options':{'size':3}}", "error",
         "there has no parameter 'size'; modinfo lists: count, mode, flag"},
        {"elsewhere", "{'options':{'size':3}}", "change", NULL},
    };
    scratch_check_vectors(s, "modprobe_options", vectors, ARRAY_LEN(vectors));
}

static void test_other_files(void **state)
{
    struct scratch *s = *state;
    scratch_put(s, "/etc/modprobe.d/mlx.conf",
                "# options my-mod size=9\noptions my-mod size=4 other=1\n", 0644);
    scratch_put(s, "/usr/lib/modprobe.d/dist.conf", "options my_mod\tsize=3\nblacklist my_mod\n",
                0644);
    scratch_put(s, "/etc/modprobe.d/ignored.txt", "options my_mod size=7\n", 0644);
    static const struct scratch_vector vectors[] = {
        {"my_mod", "{'options':{'size':4}}", "change",
         "/usr/lib/modprobe.d/dist.conf sets size differently (3)"},
        {"my-mod", "{'options':{'size':5}}", "change",
         "/etc/modprobe.d/mlx.conf sets size differently (4); /usr/lib/modprobe.d/dist.conf sets "
         "size differently (3)"},
    };
    scratch_check_vectors(s, "modprobe_options", vectors, ARRAY_LEN(vectors));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_known_modules, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bound_device, setup, teardown),
        cmocka_unit_test_setup_teardown(test_loaded_module, setup, teardown),
        cmocka_unit_test_setup_teardown(test_modinfo, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_files, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
