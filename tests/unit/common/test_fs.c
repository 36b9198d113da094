/* Files: limits, atomic replacement on good and bad disks, roots, trees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/util.h"

struct place {
    char dir[64];
    struct fs_root root;
};

static char no_mounts[256]; /* why the tests with a small disk cannot run; "" when they can */

static int place_open(void **state)
{
    struct place *p = mem_zero(1, sizeof *p);
    struct err err = {0};
    strcpy(p->dir, "/tmp/test_fs-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    assert_int_equal(fs_root_open(&p->root, p->dir, &err), 0);
    *state = p;
    return 0;
}

static int place_close(void **state)
{
    struct place *p = *state;
    struct err err = {0};
    if (fs_remove_tree(p->dir, &err) != 0)
        fail_msg("%s", err.text);
    assert_false(fs_exists(p->dir));
    free(p);
    return 0;
}

static char *path_in(const struct place *p, const char *name)
{
    return str_printf("%s/%s", p->dir, name);
}

static void put(const struct place *p, const char *name, const char *text)
{
    struct err err = {0};
    AUTO(free_str) char *path = path_in(p, name);
    if (fs_write_atomic(path, text, strlen(text), 0644, &err) != 0)
        fail_msg("%s", err.text);
}

static void expect_content(const char *path, const char *text)
{
    struct err err = {0};
    AUTO(free_str) char *content = NULL;
    size_t len = 0;
    if (fs_read(path, 1 << 20, &content, &len, &err) != 0)
        fail_msg("%s", err.text);
    assert_string_equal(content, text);
    assert_int_equal(len, strlen(text));
}

static void expect_names(const struct place *p, const char *dir, const char *want)
{
    struct err err = {0};
    char **names = NULL;
    size_t count = 0;
    if (fs_list_at(&p->root, dir, &names, &count, &err) != 0)
        fail_msg("%s", err.text);
    AUTO(strbuf_release) struct strbuf out = {0};
    strbuf_puts(&out, "");
    for (size_t i = 0; i < count; i++)
        strbuf_printf(&out, "%s%s", i ? " " : "", names[i]);
    fs_list_free(names, count);
    assert_string_equal(out.data, want);
}

static void reads_up_to_the_limit(void **state)
{
    struct place *p = *state;
    AUTO(free_str) char *path = path_in(p, "f");
    put(p, "f", "12345");
    static const struct {
        size_t max_bytes;
        int rc;
    } rows[] = {{4, -1}, {5, 0}, {6, 0}, {0, -1}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        char *text = NULL;
        assert_int_equal(fs_read(path, rows[i].max_bytes, &text, NULL, &err), rows[i].rc);
        if (rows[i].rc == 0) {
            assert_string_equal(text, "12345");
        } else {
            AUTO(free_str)
            char *want =
                str_printf("%s: larger than the limit of %zu bytes", path, rows[i].max_bytes);
            assert_null(text);
            assert_int_equal(err.kind, ERR_DATA);
            assert_string_equal(err.text, want);
        }
        free(text);
    }
}

static void reads_files_without_size_and_reports_missing_ones(void **state)
{
    struct place *p = *state;
    struct err err = {0};
    char *text = NULL;
    size_t len = 0;
    assert_int_equal(fs_read("/proc/self/status", 1 << 20, &text, &len, &err), 0);
    assert_true(len > 100);
    free(text);
    text = NULL;
    AUTO(free_str) char *path = path_in(p, "missing");
    AUTO(free_str) char *want = str_printf("open %s: No such file or directory", path);
    assert_int_equal(fs_read(path, 10, &text, &len, &err), -1);
    assert_string_equal(err.text, want);
    assert_int_equal(err.kind, ERR_ENV);
    assert_int_equal(err.native, ENOENT);
    assert_null(text);
    err_clear(&err);
    AUTO(free_str) char *want_dir = str_printf("read %s: Is a directory", p->dir);
    assert_int_equal(fs_read(p->dir, 10, &text, &len, &err), -1);
    assert_string_equal(err.text, want_dir);
}

static void writes_content_mode_and_owner(void **state)
{
    struct place *p = *state;
    struct err err = {0};
    struct stat st;
    AUTO(free_str) char *path = path_in(p, "f");
    umask(077);
    assert_int_equal(fs_write_atomic(path, "a\0b", 3, 0644, &err), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
    assert_int_equal(st.st_size, 3);
    assert_int_equal(fs_write_atomic_own(path, "", 0, 0600, geteuid(), getegid(), &err), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_size, 0);
    expect_names(p, "/", "f");
    umask(022);
}

/* A reader that has the old file open keeps the old content: the new one is another file. */
static void replaces_by_rename(void **state)
{
    struct place *p = *state;
    AUTO(free_str) char *path = path_in(p, "f");
    put(p, "f", "old");
    AUTO(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    put(p, "f", "new and longer");
    char seen[16] = "";
    assert_int_equal(read(fd, seen, sizeof seen - 1), 3);
    assert_string_equal(seen, "old");
    expect_content(path, "new and longer");
}

/* The limit on file size stops the write in its middle, as a full disk does. */
static void a_failed_write_leaves_the_old_file(void **state)
{
    struct place *p = *state;
    struct err err = {0};
    struct rlimit before, limit;
    AUTO(free_str) char *path = path_in(p, "f");
    AUTO(free_str) char *data = mem_zero(100000, 1);
    AUTO(free_str) char *want = str_printf("write %s: File too large", path);
    put(p, "f", "old");
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 8192;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int rc = fs_write_atomic(path, data, 100000, 0644, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(rc, -1);
    assert_string_equal(err.text, want);
    assert_int_equal(err.native, EFBIG);
    expect_content(path, "old");
    expect_names(p, "/", "f");
}

static void writes_need_their_directory(void **state)
{
    struct place *p = *state;
    struct err err = {0};
    AUTO(free_str) char *path = path_in(p, "no/f");
    AUTO(free_str)
    char *want =
        str_printf("write %s: create a temporary beside it: No such file or directory", path);
    assert_int_equal(fs_write_atomic(path, "x", 1, 0644, &err), -1);
    assert_string_equal(err.text, want);
    AUTO(free_str) char *dir = path_in(p, "dir");
    AUTO(free_str) char *want_dir = str_printf("write %s: Is a directory", dir);
    assert_int_equal(mkdir(dir, 0755), 0);
    err_clear(&err);
    assert_int_equal(fs_write_atomic(dir, "x", 1, 0644, &err), -1);
    assert_string_equal(err.text, want_dir);
    expect_names(p, "/", "dir");
}

static void a_full_disk_leaves_the_old_file(void **state)
{
    struct place *p = *state;
    struct err err = {0};
    AUTO(free_str) char *path = path_in(p, "f");
    AUTO(free_str) char *data = mem_zero(100000, 1);
    AUTO(free_str) char *want = str_printf("write %s: No space left on device", path);
    if (*no_mounts)
        skip();
    assert_int_equal(mount("test_fs", p->dir, "tmpfs", 0, "size=65536"), 0);
    put(p, "f", "old");
    int rc = fs_write_atomic(path, data, 100000, 0644, &err);
    expect_content(path, "old");
    expect_names(p, "/", "f");
    assert_int_equal(umount(p->dir), 0);
    assert_int_equal(rc, -1);
    assert_int_equal(err.native, ENOSPC);
    assert_string_equal(err.text, want);
}

static void a_read_only_disk_leaves_the_old_file(void **state)
{
    struct place *p = *state;
    struct err err = {0};
    AUTO(free_str) char *path = path_in(p, "f");
    AUTO(free_str)
    char *want = str_printf("write %s: create a temporary beside it: Read-only file system", path);
    if (*no_mounts)
        skip();
    assert_int_equal(mount("test_fs", p->dir, "tmpfs", 0, "size=65536"), 0);
    put(p, "f", "old");
    assert_int_equal(mount("test_fs", p->dir, "tmpfs", MS_REMOUNT | MS_RDONLY, "size=65536"), 0);
    int rc = fs_write_atomic(path, "new", 3, 0644, &err);
    expect_content(path, "old");
    expect_names(p, "/", "f");
    assert_int_equal(umount(p->dir), 0);
    assert_int_equal(rc, -1);
    assert_int_equal(err.native, EROFS);
    assert_string_equal(err.text, want);
}

static void joins_below_the_root(void **state)
{
    static const struct fs_root root = {"/captured"}, real = {""};
    static const struct {
        const struct fs_root *root;
        const char *path, *joined, *message;
    } rows[] = {
        {&root, "/etc/nccl.conf", "/captured/etc/nccl.conf", NULL},
        {&real, "/etc/nccl.conf", "/etc/nccl.conf", NULL},
        {&root, "/a/..b/c..", "/captured/a/..b/c..", NULL},
        {&root, "/...", "/captured/...", NULL},
        {&root, "etc", NULL, "path 'etc' must be absolute and without '..'"},
        {&root, "", NULL, "path '' must be absolute and without '..'"},
        {&root, "/..", NULL, "path '/..' must be absolute and without '..'"},
        {&root, "/a/../b", NULL, "path '/a/../b' must be absolute and without '..'"},
        {&root, "/a/..", NULL, "path '/a/..' must be absolute and without '..'"},
    };
    char out[4096], longest[4096];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        int rc = fs_join(rows[i].root, rows[i].path, out, &err);
        assert_int_equal(rc, rows[i].joined ? 0 : -1);
        if (rows[i].joined)
            assert_string_equal(out, rows[i].joined);
        else
            assert_string_equal(err.text, rows[i].message);
    }
    struct err err = {0};
    memset(longest, 'a', sizeof longest);
    longest[0] = '/';
    longest[4095] = '\0';
    assert_int_equal(fs_join(&real, longest, out, &err), 0);
    assert_int_equal(fs_join(&root, longest, out, &err), -1);
    assert_non_null(strstr(err.text, "is longer than 4095 bytes"));
}

static void opens_roots(void **state)
{
    struct place *p = *state;
    struct fs_root root;
    struct err err = {0};
    assert_int_equal(fs_root_open(&root, NULL, &err), 0);
    assert_string_equal(root.path, "");
    assert_int_equal(fs_root_open(&root, "/", &err), 0);
    assert_string_equal(root.path, "");
    AUTO(free_str) char *slash = path_in(p, "");
    assert_int_equal(fs_root_open(&root, slash, &err), 0);
    assert_string_equal(root.path, p->dir);
    put(p, "f", "");
    AUTO(free_str) char *file = path_in(p, "f");
    AUTO(free_str) char *want = str_printf("root directory %s: not a directory", file);
    assert_int_equal(fs_root_open(&root, file, &err), -1);
    assert_string_equal(err.text, want);
    assert_int_equal(err.kind, ERR_ENV);
}

static void reads_lines_and_integers(void **state)
{
    struct place *p = *state;
    static const struct {
        const char *content, *line;
        long long value;
    } rows[] = {
        {"4096\n", "4096", 4096},
        {"0x10de\n", "0x10de", 0x10de},
        {"-1", "-1", -1},
        {"eth0 \t\r\nx", "eth0", 99},
        {"", "", 99},
        {"12 3\n", "12 3", 99},
        {"99999999999999999999", "99999999999999999999", 99},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        put(p, "attr", rows[i].content);
        AUTO(free_str) char *line = fs_read_line_at(&p->root, "/attr");
        assert_string_equal(line, rows[i].line);
        assert_true(fs_read_int_at(&p->root, "/attr", 99) == rows[i].value);
    }
    assert_null(fs_read_line_at(&p->root, "/missing"));
    assert_true(fs_read_int_at(&p->root, "/missing", -7) == -7);
    assert_null(fs_read_line_at(&p->root, "/../etc/passwd"));
}

static void writes_knobs(void **state)
{
    struct place *p = *state;
    struct err err = {0};
    AUTO(free_str) char *path = path_in(p, "knob");
    AUTO(free_str) char *want = str_printf("open %s for writing: No such file or directory", path);
    assert_int_equal(fs_write_knob(path, "1", &err), -1);
    assert_string_equal(err.text, want);
    put(p, "knob", "");
    err_clear(&err);
    assert_int_equal(fs_write_knob(path, "4096", &err), 0);
    expect_content(path, "4096");
    assert_int_equal(fs_write_knob("/dev/full", "1", &err), -1);
    assert_string_equal(err.text, "write '1' to /dev/full: No space left on device");
    assert_int_equal(err.native, ENOSPC);
}

static void appends(void **state)
{
    struct place *p = *state;
    struct err err = {0};
    AUTO(free_str) char *path = path_in(p, "journal");
    AUTO(close_fd) int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_int_equal(fs_append_sync(fd, "a\n", 2, &err), 0);
    assert_int_equal(fs_append_sync(fd, "b\n", 2, &err), 0);
    expect_content(path, "a\nb\n");
    AUTO(close_fd) int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_int_equal(fs_append_sync(full, "a\n", 2, &err), -1);
    assert_int_equal(err.kind, ERR_ENV);
    assert_int_equal(err.native, ENOSPC);
}

static void makes_and_removes_trees(void **state)
{
    struct place *p = *state;
    struct err err = {0};
    struct stat st;
    AUTO(free_str) char *deep = path_in(p, "a/b//c/");
    AUTO(free_str) char *tree = path_in(p, "a");
    AUTO(free_str) char *link = path_in(p, "a/b/link");
    AUTO(free_str) char *through = path_in(p, "keep/x");
    put(p, "keep", "kept");
    assert_int_equal(fs_mkdirs(deep, 0750, &err), 0);
    assert_int_equal(fs_mkdirs(deep, 0700, &err), 0);
    assert_int_equal(stat(deep, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0750);
    assert_int_equal(symlink("../../keep", link), 0);
    AUTO(free_str) char *want = str_printf("create directory %s: Not a directory", through);
    assert_int_equal(fs_mkdirs(through, 0755, &err), -1);
    assert_string_equal(err.text, want);
    err_clear(&err);
    assert_int_equal(fs_remove_tree(tree, &err), 0);
    assert_int_equal(fs_remove_tree(tree, &err), 0);
    expect_names(p, "/", "keep");
}

static void lists_and_links(void **state)
{
    struct place *p = *state;
    AUTO(free_str) char *link = path_in(p, "device");
    AUTO(free_str) char *bare = path_in(p, "bare");
    assert_int_equal(symlink("../../0000:01:00.0", link), 0);
    assert_int_equal(symlink("name", bare), 0);
    put(p, "b", "");
    put(p, "a", "");
    expect_names(p, "/", "a b bare device");
    expect_names(p, "/missing", "");
    AUTO(free_str) char *name = fs_link_name_at(&p->root, "/device");
    assert_string_equal(name, "0000:01:00.0");
    AUTO(free_str) char *bare_name = fs_link_name_at(&p->root, "/bare");
    assert_string_equal(bare_name, "name");
    assert_null(fs_link_name_at(&p->root, "/a"));
    assert_null(fs_link_name_at(&p->root, "/missing"));
    assert_true(fs_exists_at(&p->root, "/device"));
    assert_false(fs_exists_at(&p->root, "/missing"));
    struct err err = {0};
    char **names = NULL;
    size_t count = 7;
    assert_int_equal(fs_list_at(&p->root, "/a", &names, &count, &err), -1);
    assert_int_equal(err.native, ENOTDIR);
    assert_int_equal(count, 7);
}

/* Mounts of this test must not be seen by anybody else. */
static void find_out_about_mounts(void)
{
    int flags = geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER;
    if (unshare(flags) != 0)
        snprintf(no_mounts, sizeof no_mounts, "no mount namespace: %s", strerror(errno));
    else if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        snprintf(no_mounts, sizeof no_mounts, "no private mounts: %s", strerror(errno));
}

#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, place_open, place_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_PLACE(reads_up_to_the_limit),
        IN_PLACE(reads_files_without_size_and_reports_missing_ones),
        IN_PLACE(writes_content_mode_and_owner),
        IN_PLACE(replaces_by_rename),
        IN_PLACE(a_failed_write_leaves_the_old_file),
        IN_PLACE(writes_need_their_directory),
        IN_PLACE(a_full_disk_leaves_the_old_file),
        IN_PLACE(a_read_only_disk_leaves_the_old_file),
        cmocka_unit_test(joins_below_the_root),
        IN_PLACE(opens_roots),
        IN_PLACE(reads_lines_and_integers),
        IN_PLACE(writes_knobs),
        IN_PLACE(appends),
        IN_PLACE(makes_and_removes_trees),
        IN_PLACE(lists_and_links),
    };
    umask(022);
    find_out_about_mounts();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (failed == 0 && *no_mounts) {
        fprintf(stderr, "skipped: tests with a full and a read-only disk: %s\n", no_mounts);
        return 77;
    }
    return failed;
}
