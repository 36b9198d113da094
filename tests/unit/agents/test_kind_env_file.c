#include "resources_scratch.h"

#include "agents/resources/env_text.h"
#include "agents/resources/exec.h"

static void test_merge(void **state)
{
    static const struct {
        enum env_format format;
        const char *text, *set, *want;
    } vectors[] = {
        {ENV_FORMAT_NCCL, "", "{'A':'1','B':'=mlx5_0,mlx5_1'}", "A=1\nB==mlx5_0,mlx5_1\n"},
        {ENV_FORMAT_NCCL, "# c\nA=0\n\nX=y z\n", "{'A':'1'}", "# c\nA=1\n\nX=y z\n"},
        {ENV_FORMAT_NCCL, "A=0\nA=2\nX=1", "{'A':'1'}", "A=1\nX=1\n"},
        {ENV_FORMAT_NCCL, " A = 0\nAB=2\n#A=3\n", "{'A':'1'}", "A=1\nAB=2\n#A=3\n"},
        {ENV_FORMAT_NCCL, "A=0\nB=1\n", "{'A':null,'C':null}", "B=1\n"},
        {ENV_FORMAT_NCCL, "A=0\nB=1\nA=2\n", "{'A':null}", "B=1\n"},
        {ENV_FORMAT_PROFILE, "export A='0'\nB=1\nif true; then\n", "{'A':'x y','B':'2'}",
         "export A='x y'\nexport B='2'\nif true; then\n"},
        {ENV_FORMAT_PROFILE, "", "{'A':'it$HOME`x`'}", "export A='it$HOME`x`'\n"},
        {ENV_FORMAT_SYSTEMD, "A=0\n# x\n", "{'A':'a\\\\b $c'}", "A=\"a\\\\b \\$c\"\n# x\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        json_t *set = scratch_json(vectors[i].set);
        AUTO(free_str) char *once = env_text_merge(vectors[i].format, vectors[i].text, set);
        AUTO(free_str) char *twice = env_text_merge(vectors[i].format, once, set);
        assert_string_equal(once, vectors[i].want);
        assert_string_equal(twice, once);
        json_decref(set);
    }
}

/* A quote in a value must survive the shell. */
static void test_profile_in_a_shell(void **state)
{
    struct scratch s;
    scratch_open(&s);
    json_t *set = json_object();
    jsonx_set_str(set, "A", "it's \"x\" $HOME `id` \\ end");
    AUTO(free_str) char *text = env_text_merge(ENV_FORMAT_PROFILE, "", set);
    json_decref(set);
    scratch_put(&s, "/profile", text, 0644);
    AUTO(free_str) char *command = str_printf(". '%s/profile'; printf '%%s' \"$A\"", s.root.path);
    const char *const argv[] = {"/bin/sh", "-c", command, NULL};
    struct exec_result result;
    struct err err = {0};
    assert_ok(exec_run(argv, 10000, &result, &err), err);
    assert_int_equal(result.status, 0);
    assert_string_equal(result.out, "it's \"x\" $HOME `id` \\ end");
    exec_release(&result);
    scratch_close(&s);
}

static void test_parameters(void **state)
{
    struct scratch s;
    scratch_open(&s);
    scratch_put(&s, "/etc/nccl.conf", "NCCL_DEBUG=WARN\n", 0600);
    static const struct scratch_vector vectors[] = {
        {"/etc/nccl.conf", "{'format':'nccl','set':{'NCCL_DEBUG':'WARN'}}", "same", NULL},
        {"/etc/nccl.conf", "{'format':'nccl','set':{'NCCL_IB_TC':106}}", "change", NULL},
        {"/etc/none.conf", "{'format':'nccl','set':{}}", "same", NULL},
        {"/etc/nccl.conf", "{'format':'bash','set':{}}", "error",
         "format 'bash' must be 'nccl', 'profile' or 'systemd'"},
        {"/etc/nccl.conf", "{'format':'nccl','set':{'NCCL DEBUG':'x'}}", "error",
         "'NCCL DEBUG' is not the name of a variable: letters, digits and '_', no digit first"},
        {"/etc/nccl.conf", "{'format':'nccl','set':{'1A':'x'}}", "error",
         "'1A' is not the name of a variable: letters, digits and '_', no digit first"},
        {"/etc/nccl.conf", "{'format':'nccl','set':{'FI_EFA_USE_DEVICE_RDMA':'15.'}}", "error",
         "the value '15.' of FI_EFA_USE_DEVICE_RDMA has a trailing '.'; two settings run "
         "together?"},
        {"/etc/nccl.conf", "{'format':'nccl','set':{'A':'1\\nB=2'}}", "error",
         "the value of A holds a newline or a control character; two settings run together?"},
        {"/etc/nccl.conf", "{'format':'nccl','set':{'A':' 1'}}", "error",
         "the value of A begins or ends with a blank, which NCCL would take as a part of it"},
        {"/etc/nccl.conf", "{'format':'nccl','set':{'A':'\\\"1\\\"'}}", "error",
         "the value of A holds a quote, which NCCL would take as a part of it"},
        {"/etc/nccl.conf", "{'format':'nccl','set':{'A':1.5}}", "error",
         "the value of A must be a text, an integer, true, false or null (to remove it); two "
         "settings run together?"},
    };
    scratch_check_vectors(&s, "env_file", vectors, ARRAY_LEN(vectors));
    scratch_close(&s);
}

static void test_apply_and_undo(void **state)
{
    struct scratch s;
    scratch_open(&s);
    scratch_put(&s, "/etc/nccl.conf", "# site\nNCCL_DEBUG=WARN", 0600);
    AUTO(free_str) char *before = scratch_snapshot(&s);
    AUTO(free_str)
    char *done =
        scratch_apply1(&s, "t", "env_file", "/etc/nccl.conf",
                       "{'format':'nccl','set':{'NCCL_DEBUG':'INFO','NCCL_IB_TC':106}}", NULL);
    assert_string_equal(done, "committed");
    AUTO(free_str) char *text = scratch_get(&s, "/etc/nccl.conf");
    assert_string_equal(text, "# site\nNCCL_DEBUG=INFO\nNCCL_IB_TC=106\n");
    AUTO(free_str) char *path = scratch_path(&s, "/etc/nccl.conf");
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600); /* kept */
    json_t *data = NULL;
    struct err err = {0};
    assert_ok(resources_rollback(&s.env, NULL, false, &data, &err), err);
    json_decref(data);
    AUTO(free_str) char *after = scratch_snapshot(&s);
    assert_string_equal(before, after);
    scratch_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_profile_in_a_shell),
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_apply_and_undo),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
