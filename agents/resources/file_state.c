#include "agents/resources/file_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agents/resources/diff.h"
#include "agents/resources/file_dir.h"
#include "agents/resources/kind.h"
#include "common/hash.h"
#include "common/jsonx.h"

int file_state_check_path(const char *path, struct err *err)
{
    if (path[0] != '/' || path[1] == '\0')
        return err_set(err, ERR_USAGE, "'%s' is not an absolute path of a file", path);
    if (strlen(path) > 1024)
        return err_set(err, ERR_USAGE, "the path is longer than 1024 bytes");
    for (const char *p = path; *p; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return err_set(err, ERR_USAGE, "the path holds a control character");
        if (*p != '/')
            continue;
        size_t n = strcspn(p + 1, "/");
        if (n == 0 || (n == 1 && p[1] == '.') || (n == 2 && p[1] == '.' && p[2] == '.'))
            return err_set(err, ERR_USAGE,
                           "'%s' holds an empty, '.' or '..' component: name the plain path", path);
        if (n > 200)
            return err_set(err, ERR_USAGE, "'%s' holds a component of over 200 bytes", path);
    }
    return 0;
}

json_t *file_state_absent(void)
{
    json_t *state = json_object();
    jsonx_set_bool(state, "exists", false);
    return state;
}

json_t *file_state_make(const void *data, size_t len, mode_t mode, uid_t uid, gid_t gid)
{
    json_t *state = json_object();
    AUTO(free_str) char *b64 = base64_encode(data, len);
    AUTO(free_str) char *octal = str_printf("%04o", (unsigned)(mode & 07777));
    jsonx_set_bool(state, "exists", true);
    jsonx_set_str(state, "content_b64", b64);
    jsonx_set_str(state, "mode", octal);
    jsonx_set_int(state, "uid", uid);
    jsonx_set_int(state, "gid", gid);
    return state;
}

json_t *file_state_own(const char *text)
{
    return file_state_make(text, strlen(text), 0644, geteuid(), getegid());
}

bool file_state_exists(const json_t *state)
{
    return jsonx_bool_or(state, "exists", false);
}

int file_state_content(const json_t *state, char **data, size_t *len, struct err *err)
{
    size_t n = 0;
    const char *b64 = jsonx_str_or(state, "content_b64", "");
    uint8_t *raw = base64_decode(b64, &n);
    if (!raw && b64[0] != '\0')
        return err_set(err, ERR_DATA, "the file's content is not base64");
    char *copy = mem_zero(n + 1, 1);
    if (raw && n > 0)
        memcpy(copy, raw, n);
    free(raw);
    *data = copy;
    if (len)
        *len = n;
    return 0;
}

static const char *type_name(mode_t mode)
{
    if (S_ISDIR(mode))
        return "a directory";
    if (S_ISFIFO(mode))
        return "a pipe";
    if (S_ISSOCK(mode))
        return "a socket";
    return "a device";
}

/* Refuse what is not a plain file of a size that a journal line can hold. */
static int check_type(int dir, const char *name, const char *path, const struct stat *st,
                      struct err *err)
{
    if (S_ISLNK(st->st_mode)) {
        char target[256];
        ssize_t n = readlinkat(dir, name, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        return err_set(err, ERR_DATA,
                       "%s is a symbolic link to '%s': nothing is written through links, name the "
                       "real path",
                       path, target);
    }
    if (!S_ISREG(st->st_mode))
        return err_set(err, ERR_DATA, "%s is %s, not a file", path, type_name(st->st_mode));
    if (st->st_size > FILE_STATE_MAX_BYTES)
        return err_set(err, ERR_DATA, "%s has %lld bytes; at most %d can be managed", path,
                       (long long)st->st_size, FILE_STATE_MAX_BYTES);
    return 0;
}

static int read_all(int fd, const char *path, struct strbuf *out, struct err *err)
{
    char chunk[16384];
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set_errno(err, ERR_ENV, errno, "cannot read %s", path);
        if (n == 0)
            return 0;
        strbuf_add(out, chunk, (size_t)n);
        if (out->len > FILE_STATE_MAX_BYTES)
            return err_set(err, ERR_DATA, "%s grew past %d bytes", path, FILE_STATE_MAX_BYTES);
    }
}

/* State of name in dir.  *state is NULL and 0 returned when it is missing. */
static int read_in(int dir, const char *name, const char *path, json_t **state, struct err *err)
{
    struct stat st;
    *state = NULL;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT)
            return 0;
        return err_set_errno(err, ERR_ENV, errno, "cannot look at %s", path);
    }
    if (check_type(dir, name, path, &st, err) != 0)
        return -1;
    AUTO(close_fd) int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return err_set_errno(err, ERR_ENV, errno, "cannot open %s", path);
    if (fstat(fd, &st) != 0 || check_type(dir, name, path, &st, err) != 0)
        return err_set_errno(err, ERR_ENV, errno, "cannot look at %s", path);
    struct strbuf content = {0};
    int rc = read_all(fd, path, &content, err);
    if (rc == 0)
        *state = file_state_make(content.data, content.len, st.st_mode, st.st_uid, st.st_gid);
    strbuf_release(&content);
    return rc;
}

int file_state_read(const struct resources_env *env, const char *path, json_t **state,
                    struct err *err)
{
    AUTO(close_fd) int dir = -1;
    const char *name;
    unsigned missing = 0;
    if (file_dir_open(env, path, false, &dir, &name, &missing, err) != 0)
        return -1;
    json_t *found = NULL;
    if (dir >= 0 && read_in(dir, name, path, &found, err) != 0)
        return -1;
    if (!found)
        found = file_state_absent();
    if (missing > 0)
        jsonx_set_int(found, FILE_STATE_INFO, missing);
    *state = found;
    return 0;
}

struct attributes {
    mode_t mode;
    uid_t uid;
    gid_t gid;
};

static int parse_attributes(const json_t *state, const char *path, struct attributes *out,
                            struct err *err)
{
    const char *mode;
    int64_t uid, gid;
    if (jsonx_get_str(state, path, "mode", &mode, err) != 0 ||
        jsonx_get_int(state, path, "uid", &uid, err) != 0 ||
        jsonx_get_int(state, path, "gid", &gid, err) != 0)
        return -1;
    char *end;
    unsigned long bits = strtoul(mode, &end, 8);
    if (mode[0] == '\0' || *end != '\0' || bits > 07777 || uid < 0 || uid >= UINT32_MAX ||
        gid < 0 || gid >= UINT32_MAX)
        return err_set(err, ERR_DATA, "%s: the state's mode or owner is out of range", path);
    *out = (struct attributes){(mode_t)bits, (uid_t)uid, (gid_t)gid};
    return 0;
}

static int write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

/* Content and attributes into the temporary file, durable. */
static int fill(const struct resources_env *env, int fd, const char *data, size_t len,
                const struct attributes *a)
{
    kind_step(env, "file.create");
    if (write_all(fd, data, len) != 0)
        return -1;
    struct stat st;
    if (fstat(fd, &st) != 0)
        return -1;
    if ((st.st_uid != a->uid || st.st_gid != a->gid) && fchown(fd, a->uid, a->gid) != 0)
        return -1;
    if (fchmod(fd, a->mode) != 0 || fsync(fd) != 0)
        return -1;
    kind_step(env, "file.filled");
    return 0;
}

static int replace(const struct resources_env *env, int dir, const char *name, const char *temp,
                   const char *path, const json_t *state, struct err *err)
{
    struct attributes a = {0};
    size_t len = 0;
    AUTO(free_str) char *data = NULL;
    if (parse_attributes(state, path, &a, err) != 0 ||
        file_state_content(state, &data, &len, err) != 0)
        return -1;
    AUTO(close_fd)
    int fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set_errno(err, ERR_ENV, errno, "cannot write in the directory of %s", path);
    if (fill(env, fd, data, len, &a) != 0) {
        err_set_errno(err, ERR_ENV, errno, "cannot write %s", path);
        unlinkat(dir, temp, 0);
        return -1;
    }
    if (renameat(dir, temp, dir, name) != 0) {
        err_set_errno(err, ERR_ENV, errno, "cannot replace %s", path);
        unlinkat(dir, temp, 0);
        return -1;
    }
    kind_step(env, "file.rename");
    if (fsync(dir) != 0)
        return err_set_errno(err, ERR_ENV, errno, "cannot sync the directory of %s", path);
    kind_step(env, "file.synced");
    return 0;
}

static int remove_file(const struct resources_env *env, int dir, const char *name, const char *path,
                       const json_t *state, struct err *err)
{
    if (dir >= 0 && unlinkat(dir, name, 0) == 0) {
        kind_step(env, "file.unlink");
        if (fsync(dir) != 0)
            return err_set_errno(err, ERR_ENV, errno, "cannot sync the directory of %s", path);
    } else if (dir >= 0 && errno != ENOENT) {
        return err_set_errno(err, ERR_ENV, errno, "cannot remove %s", path);
    }
    int64_t levels = jsonx_int_or(state, FILE_STATE_INFO, 0);
    return file_dir_prune(env, path, levels > 0 && levels < 64 ? (unsigned)levels : 0, err);
}

int file_state_apply(const struct resources_env *env, const char *path, const json_t *state,
                     struct err *err)
{
    bool exists = file_state_exists(state);
    AUTO(close_fd) int dir = -1;
    const char *name;
    if (file_dir_open(env, path, exists, &dir, &name, NULL, err) != 0)
        return -1;
    /* The name does not end in .conf, so that a tool which reads the directory passes it over. */
    AUTO(free_str) char *temp = str_printf(".%s.muster-new", name);
    if (dir >= 0 && unlinkat(dir, temp, 0) != 0 && errno != ENOENT)
        return err_set_errno(err, ERR_ENV, errno, "cannot remove %s beside %s", temp, path);
    if (!exists)
        return remove_file(env, dir, name, path, state, err);
    struct err ignored = {0};
    json_t *now = NULL;
    if (read_in(dir, name, path, &now, &ignored) != 0)
        now = NULL; /* a link or the like: the rename below replaces it */
    bool same = now && json_equal(now, (json_t *)(uintptr_t)state);
    json_decref(now);
    return same ? 0 : replace(env, dir, name, temp, path, state, err);
}

static void attribute_line(struct strbuf *out, const char *path, const char *what,
                           const json_t *from, const json_t *to)
{
    if (!from || !to || json_equal(from, to))
        return;
    char *a = json_dumps(from, JSON_ENCODE_ANY), *b = json_dumps(to, JSON_ENCODE_ANY);
    strbuf_printf(out, "%s: %s: %s -> %s\n", path, what, a, b);
    free(a);
    free(b);
}

void file_state_diff(struct strbuf *out, const char *path, const json_t *before, const json_t *want)
{
    static const char *const keys[] = {"mode", "uid", "gid"};
    struct err ignored = {0};
    AUTO(free_str) char *old = NULL;
    AUTO(free_str) char *new = NULL;
    size_t old_len = 0, new_len = 0;
    bool was = file_state_exists(before), is = file_state_exists(want);
    if (file_state_content(before, &old, &old_len, &ignored) != 0 ||
        file_state_content(want, &new, &new_len, &ignored) != 0) {
        strbuf_printf(out, "%s: %s\n", path, ignored.text);
        return;
    }
    for (size_t i = 0; was && is && i < ARRAY_LEN(keys); i++)
        attribute_line(out, path, keys[i], json_object_get(before, keys[i]),
                       json_object_get(want, keys[i]));
    if (was != is && old_len == 0 && new_len == 0)
        strbuf_printf(out, "%s: %s -> %s\n", path, was ? "empty" : "absent",
                      is ? "empty" : "absent");
    diff_files(out, was ? path : NULL, old, old_len, is ? path : NULL, new, new_len);
}
