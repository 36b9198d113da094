/* The node's key: made once, kept, and refused when it is not safe. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agents/node_key.h"
#include "common/util.h"

#define STATE "/var/lib/muster"

static struct fs_root root;

static int set_up(void **state)
{
    char path[] = "/tmp/muster-test-node-key-XXXXXX";
    struct err err = {0};
    return mkdtemp(path) && fs_root_open(&root, path, &err) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    struct err err = {0};
    return fs_remove_tree(root.path, &err);
}

static struct sign_public public_of(struct sign_key *key)
{
    struct sign_public public;
    assert_non_null(key);
    sign_public_raw(key, &public);
    sign_key_destroy(key);
    return public;
}

static char *path_of(const char *name)
{
    return str_printf("%s" STATE "/%s", root.path, name);
}

static void makes_a_key_and_keeps_it(void **state)
{
    struct err err = {0};
    struct stat st;
    struct sign_public first = public_of(node_key_open(&root, STATE, &err)), stored;
    AUTO(free_str) char *path = path_of("node.key");
    AUTO(free_str) char *public_path = path_of("node.pub");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_nlink, 1);
    assert_int_equal(sign_public_load(public_path, &stored, &err), 0);
    assert_true(sign_public_equal(&first, &stored));
    assert_int_equal(unlink(public_path), 0);
    struct sign_public second = public_of(node_key_open(&root, STATE, &err));
    assert_true(sign_public_equal(&first, &second));
    assert_true(fs_exists(public_path));
    char **names = NULL;
    size_t count = 0;
    assert_int_equal(fs_list_at(&root, STATE, &names, &count, &err), 0);
    assert_int_equal(count, 2);
    fs_list_free(names, count);
}

static void refuses_a_key_that_others_may_read(void **state)
{
    static const mode_t modes[] = {0640, 0604, 0620, 0777};
    struct err err = {0};
    AUTO(free_str) char *path = path_of("node.key");
    (void)public_of(node_key_open(&root, STATE, &err));
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        err_clear(&err);
        assert_null(node_key_open(&root, STATE, &err));
        assert_int_equal(err.kind, ERR_ENV);
        AUTO(free_str)
        char *text = str_printf("private key %s: mode %04o lets others touch it; run: chmod 600 %s",
                                path, modes[i], path);
        assert_string_equal(err.text, text);
    }
}

static void refuses_what_is_no_file(void **state)
{
    struct err err = {0};
    AUTO(free_str) char *path = path_of("node.key");
    AUTO(free_str) char *other = path_of("elsewhere");
    (void)public_of(node_key_open(&root, STATE, &err));
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(symlink(other, path), 0);
    assert_null(node_key_open(&root, STATE, &err));
    AUTO(free_str)
    char *text =
        str_printf("node key %s: must be a regular file of uid %u, is something else of uid %u",
                   path, (unsigned)geteuid(), (unsigned)geteuid());
    assert_string_equal(err.text, text);
}

static void refuses_a_key_of_somebody_else(void **state)
{
    struct err err = {0};
    if (geteuid() != 0) {
        print_message("skipped: only root can give a file away\n");
        skip();
    }
    AUTO(free_str) char *path = path_of("node.key");
    (void)public_of(node_key_open(&root, STATE, &err));
    assert_int_equal(chown(path, 12345, 12345), 0);
    assert_null(node_key_open(&root, STATE, &err));
    AUTO(free_str)
    char *text =
        str_printf("node key %s: must be a regular file of uid 0, is one of uid 12345", path);
    assert_string_equal(err.text, text);
}

static void refuses_what_is_no_key(void **state)
{
    struct err err = {0};
    AUTO(free_str) char *path = path_of("node.key");
    (void)public_of(node_key_open(&root, STATE, &err));
    assert_int_equal(fs_write_atomic(path, "torn", 4, 0600, &err), 0);
    assert_null(node_key_open(&root, STATE, &err));
    assert_int_equal(err.kind, ERR_DATA);
    /* Nothing replaces it: who knows what was signed with it. */
    AUTO(free_str) char *kept = NULL;
    err_clear(&err);
    assert_int_equal(fs_read(path, 100, &kept, NULL, &err), 0);
    assert_string_equal(kept, "torn");
}

/* Many processes at first contact: all of them sign with one key. */
static void agrees_under_contention(void **state)
{
    enum { PROCESSES = 16 };
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    for (int i = 0; i < PROCESSES; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            struct err err = {0};
            struct sign_key *key = node_key_open(&root, STATE, &err);
            struct sign_public public = {{0}};
            if (key)
                sign_public_raw(key, &public);
            else
                fprintf(stderr, "%s\n", err.text);
            sign_key_destroy(key);
            _exit(write(fds[1], &public, sizeof public) == (ssize_t)sizeof public ? 0 : 1);
        }
    }
    struct sign_public first, next, none = {{0}};
    for (int i = 0; i < PROCESSES; i++) {
        assert_int_equal(read(fds[0], &next, sizeof next), sizeof next);
        assert_false(sign_public_equal(&next, &none));
        if (i == 0)
            first = next;
        assert_true(sign_public_equal(&first, &next));
    }
    while (wait(NULL) > 0)
        continue;
    close(fds[0]);
    close(fds[1]);
}

static void says_why_it_cannot_make_one(void **state)
{
    struct err err = {0};
    AUTO(free_str) char *in_the_way = str_printf("%s/var", root.path);
    assert_int_equal(fs_write_atomic(in_the_way, "", 0, 0644, &err), 0);
    assert_null(node_key_open(&root, STATE, &err));
    assert_int_equal(err.kind, ERR_ENV);
    AUTO(free_str)
    char *text = str_printf("create directory %s/var/lib: Not a directory", root.path);
    assert_string_equal(err.text, text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(makes_a_key_and_keeps_it),    TEST(refuses_a_key_that_others_may_read),
        TEST(refuses_what_is_no_file),     TEST(refuses_a_key_of_somebody_else),
        TEST(refuses_what_is_no_key),      TEST(agrees_under_contention),
        TEST(says_why_it_cannot_make_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
