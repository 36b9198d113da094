/* Links are set in a network namespace of this test's own. */
#include "resources_scratch.h"

#include <sched.h>
#include <sys/wait.h>

#include "agents/resources/exec.h"
#include "agents/resources/link_info.h"

/* The real root for the interfaces, the scratch directory for muster's own state. */
struct node {
    struct fs_root root;
    struct resources_env env;
    char state_dir[64];
};

static void node_open(struct node *n)
{
    struct err err = {0};
    memset(n, 0, sizeof *n);
    snprintf(n->state_dir, sizeof n->state_dir, "/dev/shm/muster-link-XXXXXX");
    assert_non_null(mkdtemp(n->state_dir));
    assert_ok(fs_root_open(&n->root, NULL, &err), err);
    n->env = (struct resources_env){.root = &n->root, .state_dir = n->state_dir};
}

static void node_close(struct node *n)
{
    struct err err = {0};
    assert_ok(fs_remove_tree(n->state_dir, &err), err);
}

static void expect(const struct node *n, const char *txn, const char *id, const char *params,
                   const char *state, const char *text)
{
    struct scratch s = {.root = n->root, .env = n->env};
    AUTO(free_str) char *got_text = NULL;
    AUTO(free_str) char *got = scratch_apply1(&s, txn, "link", id, params, &got_text);
    assert_string_equal(got_text, text);
    assert_string_equal(got, state);
}

static struct link_info info(const char *name)
{
    struct link_info out;
    struct err err = {0};
    assert_ok(link_info_read(name, &out, &err), err);
    return out;
}

static void test_parameters(void **state)
{
    struct node n;
    node_open(&n);
    struct scratch s = {.root = n.root, .env = n.env};
    static const struct scratch_vector vectors[] = {
        {"lo", "{'mtu':67}", "error", "mtu must be 68..65536 bytes, is 67"},
        {"lo", "{'mtu':89004.2}", "error",
         "mtu must be an integer, is 89004.2; two settings run together?"},
        {"lo", "{'mtu':89004}", "error", "mtu must be 68..65536 bytes, is 89004"},
        {"nosuch0", "{'mtu':9000}", "error", "there is no interface nosuch0 on this node"},
        {"a/b", "{'mtu':9000}", "error", "'a/b' is not the name of an interface"},
        {"averyveryverylongname", "{'mtu':9000}", "error",
         "'averyveryverylongname' is not the name of an interface"},
    };
    scratch_check_vectors(&s, "link", vectors, ARRAY_LEN(vectors));
    node_close(&n);
}

static void test_other_root(void **state)
{
    struct scratch s;
    scratch_open(&s);
    json_t *item = scratch_plan1(&s, "link", "lo", "{'mtu':9000}");
    AUTO(free_str)
    char *want = str_printf("a link can be read and set on the running node only, not below %s",
                            s.root.path);
    assert_string_equal(jsonx_str_or(item, "reason", ""), want);
    json_decref(item);
    scratch_close(&s);
}

static void test_mtu_and_up(void **state)
{
    struct node n;
    node_open(&n);
    int64_t old = info("lo").mtu;
    assert_false(info("lo").up);
    expect(&n, "t1", "lo", "{'mtu':9000,'up':true}", "committed", "");
    assert_int_equal(info("lo").mtu, 9000);
    assert_true(info("lo").up);
    expect(&n, "t2", "lo", "{'mtu':9000}", "nothing", "");
    json_t *data = NULL;
    struct err err = {0};
    assert_ok(resources_rollback(&n.env, NULL, false, &data, &err), err);
    json_decref(data);
    assert_int_equal(info("lo").mtu, old);
    assert_false(info("lo").up);
    node_close(&n);
}

/* A veth's range is 68..65535, which the kernel tells. */
static void test_driver_refuses(void **state)
{
    struct node n;
    node_open(&n);
    assert_int_equal(info("veth-a").max, 65535);
    expect(&n, "t", "veth-a", "{'mtu':65536}", "undone",
           "veth-a cannot take an MTU of 65536: its driver takes 68..65535");
    expect(&n, "t2", "veth-a", "{'mtu':65535}", "committed", "");
    assert_int_equal(info("veth-a").mtu, 65535);
    node_close(&n);
}

static void test_session_link_stays_up(void **state)
{
    struct node n;
    struct err err = {0};
    node_open(&n);
    assert_ok(link_info_set_up("lo", true, &err), err);
    assert_int_equal(setenv("SSH_CONNECTION", "127.0.0.1 50000 127.0.0.1 22", 1), 0);
    expect(&n, "t1", "lo", "{'up':false}", "undone",
           "lo is not set down: it carries the SSH session through which the node is configured");
    assert_true(info("lo").up);
    assert_int_equal(setenv("SSH_CONNECTION", "10.9.9.9 50000 10.9.9.8 22", 1), 0);
    expect(&n, "t2", "lo", "{'up':false}", "committed", "");
    assert_false(info("lo").up);
    unsetenv("SSH_CONNECTION");
    node_close(&n);
}

static bool make_veth(void)
{
    const struct fs_root root = {""};
    AUTO(free_str) char *ip = exec_find(&root, "ip");
    const char *const argv[] = {ip,     "link", "add",  "veth-a", "type",
                                "veth", "peer", "name", "veth-b", NULL};
    struct exec_result result = {0};
    struct err err = {0};
    bool made = ip && exec_run(argv, 10000, &result, &err) == 0 && result.status == 0;
    exec_release(&result);
    return made;
}

int main(void)
{
    if (unshare(CLONE_NEWNET) != 0) {
        printf("skipped: no network namespace can be made here: %s\n", strerror(errno));
        return 77;
    }
    if (!make_veth()) {
        printf("skipped: no veth can be made here (ip or the kernel's veth is missing)\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_other_root),
        cmocka_unit_test(test_mtu_and_up),
        cmocka_unit_test(test_driver_refuses),
        cmocka_unit_test(test_session_link_stays_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
