/* Publishing a slice: verified, for this node, never older than what was accepted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agents/publish.h"
#include "common/jsonx.h"
#include "common/util.h"
#include "validate/sign.h"
#include "validate/slice.h"

#define STATE "/var/lib/muster"

static struct fs_root root;
static struct sign_key *key;
static char *pem;

static int set_up(void **state)
{
    char path[] = "/tmp/muster-test-publish-XXXXXX";
    struct err err = {0};
    struct sign_public public;
    key = sign_key_generate(&err);
    if (!key || !mkdtemp(path) || fs_root_open(&root, path, &err) != 0)
        return -1;
    sign_public_raw(key, &public);
    pem = sign_public_pem(&public);
    return 0;
}

static int tear_down(void **state)
{
    struct err err = {0};
    sign_key_destroy(key);
    free_str(&pem);
    return fs_remove_tree(root.path, &err);
}

/* The slice of node in a report over three nodes. */
static json_t *make_slice(const char *node, int serial)
{
    static const char *const names[] = {"n1", "n2", "n3"};
    struct err err = {0};
    json_t *slices = NULL;
    json_auto_t *entries = json_object();
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        jsonx_set(entries, names[i], json_pack("{s:s,s:s}", "node", names[i], "state", "ready"));
    json_auto_t *predicate =
        json_pack("{s:i,s:s,s:i,s:i}", "v", 1, "run", "r", "serial", serial, "count", 3);
    struct sign_key *keys[] = {key};
    assert_int_equal(slice_build(entries, "c", predicate, keys, 1, &slices, &err), 0);
    json_t *slice = json_incref(json_object_get(slices, node));
    json_decref(slices);
    return slice;
}

static char *read_state(const char *name)
{
    AUTO(free_str) char *path = str_printf(STATE "/%s", name);
    struct err err = {0};
    char *text = NULL;
    return fs_read_at(&root, path, SLICE_MAX_BYTES, &text, NULL, &err) == 0 ? text : NULL;
}

static void expect_state(const char *name, const char *text)
{
    AUTO(free_str) char *got = read_state(name);
    if (text)
        assert_string_equal(got, text);
    else
        assert_null(got);
}

static void accept_slice(int serial)
{
    struct err err = {0};
    AUTO(free_str) char *path = NULL;
    json_auto_t *slice = make_slice("n1", serial);
    assert_int_equal(publish_slice(&root, STATE, "n1", slice, pem, &path, &err), 0);
    assert_string_equal(path, STATE "/slice.json");
}

static void refuse(const char *node, const json_t *slice, const char *public_key, const char *text)
{
    struct err err = {0};
    char *path = NULL;
    assert_int_equal(publish_slice(&root, STATE, node, slice, public_key, &path, &err), -1);
    assert_string_equal(err.text, text);
    assert_int_equal(err.kind, ERR_DATA);
    assert_null(path);
}

static void writes_what_the_gate_reads(void **state)
{
    struct stat st;
    AUTO(free_str) char *path = str_printf("%s" STATE "/slice.json", root.path);
    accept_slice(7);
    json_auto_t *slice = make_slice("n1", 7);
    AUTO(free_str) char *text = jsonx_canonical(slice);
    AUTO(free_str) char *line = str_printf("%s\n", text);
    expect_state("slice.json", line);
    expect_state("report.pub", pem);
    expect_state("serial", "7\n");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
    accept_slice(7);
    accept_slice(12);
    expect_state("serial", "12\n");
}

static void refuses_an_older_report(void **state)
{
    accept_slice(7);
    AUTO(free_str) char *before = read_state("slice.json");
    json_auto_t *slice = make_slice("n1", 6);
    refuse("n1", slice, pem, "an older report: serial 6, this node has accepted serial 7");
    expect_state("slice.json", before);
    expect_state("serial", "7\n");
}

static void refuses_the_slice_of_another_node(void **state)
{
    json_auto_t *slice = make_slice("n2", 7);
    refuse("n1", slice, pem, "the slice is for node 'n2', this node is 'n1'");
    expect_state("slice.json", NULL);
    expect_state("serial", NULL);
}

static void refuses_what_does_not_verify(void **state)
{
    struct err err = {0};
    struct sign_public other;
    struct sign_key *other_key = sign_key_generate(&err);
    sign_public_raw(other_key, &other);
    AUTO(free_str) char *other_pem = sign_public_pem(&other);
    sign_key_destroy(other_key);
    json_auto_t *slice = make_slice("n1", 7);
    char *path = NULL;
    assert_int_equal(publish_slice(&root, STATE, "n1", slice, other_pem, &path, &err), -1);
    assert_int_equal(err.kind, ERR_DATA);
    err_clear(&err);
    jsonx_set_str(json_object_get(slice, "entry"), "state", "not_ready");
    refuse("n1", slice, pem,
           "slice: the entry of n1 does not belong to the signed root (altered, or of another "
           "report)");
    json_auto_t *empty = json_object();
    refuse("n1", empty, pem, "slice: key 'v' is missing (must be an integer)");
    assert_int_equal(publish_slice(&root, STATE, "n1", slice, "no key", &path, &err), -1);
    assert_int_equal(err.kind, ERR_DATA);
    assert_null(path);
    expect_state("slice.json", NULL);
    expect_state("report.pub", NULL);
}

/* A serial that cannot be read could hide a newer one: nothing is accepted. */
static void refuses_when_the_serial_is_broken(void **state)
{
    struct err err = {0};
    accept_slice(7);
    AUTO(free_str) char *path = str_printf("%s" STATE "/serial", root.path);
    assert_int_equal(fs_write_atomic(path, "7x\n", 3, 0644, &err), 0);
    json_auto_t *slice = make_slice("n1", 8);
    AUTO(free_str) char *ignored = NULL;
    assert_int_equal(publish_slice(&root, STATE, "n1", slice, pem, &ignored, &err), -1);
    assert_int_equal(err.kind, ERR_DATA);
    assert_true(str_has_prefix(err.text, path));
    expect_state("serial", "7x\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(writes_what_the_gate_reads),        TEST(refuses_an_older_report),
        TEST(refuses_the_slice_of_another_node), TEST(refuses_what_does_not_verify),
        TEST(refuses_when_the_serial_is_broken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
