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

static void test_parameters(void **state)
{
    struct scratch *s = *state;
    scratch_dir(s, "/etc/dir");
    scratch_put(s, "/etc/file", "x", 0644);
    AUTO(free_str) char *fifo = scratch_path(s, "/etc/fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    static const struct scratch_vector vectors[] = {
        {"/etc/a", "{'content':'x'}", "change", NULL},
        {"/etc/a", "{'state':'absent'}", "same", NULL},
        {"/etc/file", "{'content':'x'}", "same", NULL},
        {"/etc/a", "{}", "error", "'content' must be given, as text"},
        {"/etc/a", "{'content':5}", "error", "'content' must be given, as text"},
        {"/etc/a", "{'content':'x','mode':'0888'}", "error",
         "'0888' is not a mode: write three or four octal digits in quotes, as in \"0644\""},
        {"/etc/a", "{'content':'x','mode':'rw-r--r--'}", "error",
         "'rw-r--r--' is not a mode: write three or four octal digits in quotes, as in \"0644\""},
        {"/etc/a", "{'content':'x','mode':'0044'}", "error",
         "mode '0044' keeps the owner from reading the file"},
        {"/etc/a", "{'content':'x','mode':'0666'}", "error",
         "mode '0666' lets everybody write a file that the configuration depends on"},
        {"/etc/a", "{'content':'x','owner':'no-such-user'}", "error",
         "there is no user 'no-such-user' on this node"},
        {"/etc/a", "{'content':'x','group':'no-such-group'}", "error",
         "there is no group 'no-such-group' on this node"},
        {"/etc/a", "{'content':'x','owner':'root','group':0}", "change", NULL},
        {"/etc/a", "{'state':'absent','content':'x'}", "error",
         "state 'absent' and a content contradict each other"},
        {"/etc/a", "{'state':'gone'}", "error", "state 'gone' must be 'present' or 'absent'"},
        {"etc/a", "{'content':'x'}", "error", "'etc/a' is not an absolute path of a file"},
        {"/", "{'content':'x'}", "error", "'/' is not an absolute path of a file"},
        {"/etc/../a", "{'content':'x'}", "error",
         "'/etc/../a' holds an empty, '.' or '..' component: name the plain path"},
        {"/etc//a", "{'content':'x'}", "error",
         "'/etc//a' holds an empty, '.' or '..' component: name the plain path"},
        {"/etc/a/", "{'content':'x'}", "error",
         "'/etc/a/' holds an empty, '.' or '..' component: name the plain path"},
        {"/etc/a\nb", "{'content':'x'}", "error", "the path holds a control character"},
        {"/etc/dir", "{'content':'x'}", "error", "/etc/dir is a directory, not a file"},
        {"/etc/fifo", "{'content':'x'}", "error", "/etc/fifo is a pipe, not a file"},
        {"/etc/file/a", "{'content':'x'}", "error", "/etc/file is not a directory"},
    };
    scratch_check_vectors(s, "file", vectors, ARRAY_LEN(vectors));
    json_t *item = scratch_plan1(s, "file", "/etc/a", "{'contents':'x'}");
    assert_non_null(strstr(jsonx_str_or(item, "reason", ""), "contents"));
    json_decref(item);
}

static void check_diff(const struct scratch *s, const char *id, const char *params,
                       const char *want)
{
    json_t *item = scratch_plan1(s, "file", id, params);
    assert_string_equal(jsonx_str_or(item, "diff", ""), want);
    json_decref(item);
}

static void test_difference(void **state)
{
    struct scratch *s = *state;
    scratch_put(s, "/etc/file", "a\nb\n", 0600);
    scratch_put(s, "/etc/empty", "", 0644);
    check_diff(s, "/etc/file", "{'content':'a\\nc\\n'}",
               "/etc/file: mode: \"0600\" -> \"0644\"\n--- /etc/file\n+++ /etc/file\n"
               "@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
    check_diff(s, "/etc/new", "{'content':'a\\n'}",
               "--- /dev/null\n+++ /etc/new\n@@ -0,0 +1 @@\n+a\n");
    check_diff(s, "/etc/file", "{'state':'absent'}",
               "--- /etc/file\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n");
    check_diff(s, "/etc/new", "{'content':''}", "/etc/new: absent -> empty\n");
    check_diff(s, "/etc/empty", "{'state':'absent'}", "/etc/empty: empty -> absent\n");
}

static void test_apply(void **state)
{
    struct scratch *s = *state;
    AUTO(free_str)
    char *done =
        scratch_apply1(s, "t1", "file", "/etc/x/y/file", "{'content':'a','mode':'0750'}", NULL);
    assert_string_equal(done, "committed");
    AUTO(free_str) char *path = scratch_path(s, "/etc/x/y/file");
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0750);
    AUTO(free_str)
    char *same =
        scratch_apply1(s, "t2", "file", "/etc/x/y/file", "{'content':'a','mode':'750'}", NULL);
    assert_string_equal(same, "nothing");
    AUTO(free_str)
    char *mode =
        scratch_apply1(s, "t3", "file", "/etc/x/y/file", "{'content':'a','mode':'0640'}", NULL);
    assert_string_equal(mode, "committed");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    AUTO(free_str)
    char *gone = scratch_apply1(s, "t4", "file", "/etc/x/y/file", "{'state':'absent'}", NULL);
    assert_string_equal(gone, "committed");
    assert_int_equal(stat(path, &st), -1);
}

static void test_too_large(void **state)
{
    struct scratch *s = *state;
    AUTO(free_str) char *path = scratch_path(s, "/etc/large");
    scratch_put(s, "/etc/large", "", 0644);
    assert_int_equal(truncate(path, 1048577), 0);
    json_t *item = scratch_plan1(s, "file", "/etc/large", "{'content':'x'}");
    assert_string_equal(jsonx_str_or(item, "reason", ""),
                        "/etc/large has 1048577 bytes; at most 1048576 can be managed");
    json_decref(item);
    assert_int_equal(truncate(path, 1048576), 0);
    item = scratch_plan1(s, "file", "/etc/large", "{'content':'x'}");
    assert_string_equal(jsonx_str_or(item, "outcome", ""), "change");
    assert_true(str_has_prefix(jsonx_str_or(item, "diff", ""),
                               "/etc/large: binary content: 1048576 bytes (sha256 "));
    json_decref(item);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_parameters, setup, teardown),
        cmocka_unit_test_setup_teardown(test_difference, setup, teardown),
        cmocka_unit_test_setup_teardown(test_apply, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_large, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
