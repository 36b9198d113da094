#include "resources_scratch.h"

static const char note[] = "holds for new logins; a systemd service needs LimitMEMLOCK= and "
                           "LimitNOFILE= in its unit";

static void test_parameters(void **state)
{
    struct scratch s;
    scratch_open(&s);
    scratch_put(&s, "/proc/sys/fs/nr_open", "1048576\n", 0644);
    static const struct scratch_vector vectors[] = {
        {"*", "{}", "change", note},
        {"slurm", "{'memlock':'64GiB'}", "change", note},
        {"@hpc", "{'memlock':1048576,'nofile':1024}", "change", note},
        {"*", "{'memlock':1000}", "error",
         "memlock is 1000 bytes; it must be \"unlimited\" or a multiple of 1024 bytes from 64 KiB"},
        {"*", "{'memlock':-1}", "error",
         "memlock is -1 bytes; it must be \"unlimited\" or a multiple of 1024 bytes from 64 KiB"},
        {"*", "{'memlock':true}", "error",
         "memlock must be \"unlimited\", a size as in \"64GiB\" or a number of bytes"},
        {"*", "{'nofile':'unlimited'}", "error",
         "nofile cannot be unlimited: the kernel allows at most fs.nr_open = 1048576, and a login "
         "with more fails"},
        {"*", "{'nofile':1048577}", "error",
         "nofile must be 256..1048576 (fs.nr_open of this node), is 1048577"},
        {"*", "{'nofile':'65536.5'}", "error",
         "nofile: '65536.5' is not an integer (trailing '.5'); two settings run together?"},
        {"* hard", "{}", "error",
         "'* hard' is not a domain of limits.conf: '*', a user or '@group'"},
        {"../x", "{}", "error", "'../x' is not a domain of limits.conf: '*', a user or '@group'"},
    };
    scratch_check_vectors(&s, "limits", vectors, ARRAY_LEN(vectors));
    scratch_close(&s);
}

static void test_apply(void **state)
{
    struct scratch s;
    scratch_open(&s);
    AUTO(free_str) char *text = NULL;
    AUTO(free_str)
    char *done =
        scratch_apply1(&s, "t", "limits", "@hpc", "{'memlock':'64GiB','nofile':4096}", &text);
    assert_string_equal(done, "committed");
    assert_string_equal(text, note);
    AUTO(free_str) char *file = scratch_get(&s, "/etc/security/limits.d/90-muster-group-hpc.conf");
    assert_string_equal(file, "# Written by muster; what is changed here is overwritten.\n"
                              "@hpc soft memlock 67108864\n@hpc hard memlock 67108864\n"
                              "@hpc soft nofile 4096\n@hpc hard nofile 4096\n");
    AUTO(free_str)
    char *again =
        scratch_apply1(&s, "t2", "limits", "@hpc", "{'memlock':'65536MiB','nofile':'4096'}", NULL);
    assert_string_equal(again, "nothing");
    scratch_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_apply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
