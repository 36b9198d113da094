#include "common/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util.h"

int fs_root_open(struct fs_root *root, const char *path, struct err *err)
{
    if (!path || strcmp(path, "/") == 0) {
        root->path[0] = '\0';
        return 0;
    }
    char real[PATH_MAX];
    if (!realpath(path, real))
        return err_set_errno(err, ERR_ENV, errno, "root directory %s", path);
    struct stat st;
    if (stat(real, &st) != 0 || !S_ISDIR(st.st_mode))
        return err_set(err, ERR_ENV, "root directory %s: not a directory", path);
    snprintf(root->path, sizeof root->path, "%s", strcmp(real, "/") == 0 ? "" : real);
    return 0;
}

static bool has_dotdot(const char *path)
{
    for (const char *p = path; (p = strstr(p, "..")); p += 2) {
        bool begins = p == path || p[-1] == '/';
        bool ends = p[2] == '\0' || p[2] == '/';
        if (begins && ends)
            return true;
    }
    return false;
}

int fs_join(const struct fs_root *root, const char *path, char out[static 4096], struct err *err)
{
    if (path[0] != '/' || has_dotdot(path))
        return err_set(err, ERR_DATA, "path '%.200s' must be absolute and without '..'", path);
    int len = snprintf(out, 4096, "%s%s", root->path, path);
    if (len < 0 || len >= 4096)
        return err_set(err, ERR_DATA, "path '%.200s...' is longer than 4095 bytes", path);
    return 0;
}

/* Reads until end of file; one byte over max_bytes tells that it is too large. */
static int read_all(int fd, const char *path, size_t max_bytes, struct strbuf *buf, struct err *err)
{
    char chunk[16384];
    for (;;) {
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_set_errno(err, ERR_ENV, errno, "read %s", path);
        if (got == 0)
            return 0;
        if (buf->len + (size_t)got > max_bytes)
            return err_set(err, ERR_DATA, "%s: larger than the limit of %zu bytes", path,
                           max_bytes);
        strbuf_add(buf, chunk, (size_t)got);
    }
}

int fs_read(const char *path, size_t max_bytes, char **out, size_t *len, struct err *err)
{
    AUTO(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return err_set_errno(err, ERR_ENV, errno, "open %s", path);
    AUTO(strbuf_release) struct strbuf buf = {0};
    strbuf_add(&buf, "", 0);
    if (read_all(fd, path, max_bytes, &buf, err) != 0)
        return -1;
    if (len)
        *len = buf.len;
    *out = STEAL(buf.data);
    return 0;
}

int fs_read_at(const struct fs_root *root, const char *path, size_t max_bytes, char **out,
               size_t *len, struct err *err)
{
    char full[4096];
    if (fs_join(root, path, full, err) != 0)
        return -1;
    return fs_read(full, max_bytes, out, len, err);
}

char *fs_read_line_at(const struct fs_root *root, const char *path)
{
    struct err err = {0};
    char *text = NULL;
    if (fs_read_at(root, path, 65536, &text, NULL, &err) != 0)
        return NULL;
    size_t len = strcspn(text, "\n");
    while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t' || text[len - 1] == '\r'))
        len--;
    text[len] = '\0';
    return text;
}

long long fs_read_int_at(const struct fs_root *root, const char *path, long long fallback)
{
    AUTO(free_str) char *line = fs_read_line_at(root, path);
    if (!line || line[0] == '\0')
        return fallback;
    char *end = NULL;
    errno = 0;
    long long value = strtoll(line, &end, str_has_prefix(line, "0x") ? 16 : 10);
    return errno == 0 && *end == '\0' ? value : fallback;
}

static int write_all(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len > 0) {
        ssize_t put = write(fd, p, len);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -1;
        p += put;
        len -= (size_t)put;
    }
    return 0;
}

static int sync_parent(const char *path, struct err *err)
{
    AUTO(free_str) char *dir = str_dup(path);
    char *slash = strrchr(dir, '/');
    if (slash)
        slash[slash == dir ? 1 : 0] = '\0';
    AUTO(close_fd) int fd = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Some filesystems refuse to sync a directory; the rename is then as durable as they offer. */
    if (fd < 0 || (fsync(fd) != 0 && errno != EINVAL))
        return err_set_errno(err, ERR_ENV, errno, "sync directory of %s", path);
    return 0;
}

struct owner {
    uid_t uid;
    gid_t gid;
};

static int fill_temporary(int fd, const void *data, size_t len, mode_t mode, struct owner owner)
{
    if (write_all(fd, data, len) != 0)
        return -1;
    if ((owner.uid != (uid_t)-1 || owner.gid != (gid_t)-1) && fchown(fd, owner.uid, owner.gid) != 0)
        return -1;
    if (fchmod(fd, mode) != 0)
        return -1;
    return fsync(fd);
}

int fs_write_atomic_own(const char *path, const void *data, size_t len, mode_t mode, uid_t uid,
                        gid_t gid, struct err *err)
{
    AUTO(free_str) char *tmp = str_printf("%s.muster-XXXXXX", path);
    AUTO(close_fd) int fd = mkostemp(tmp, O_CLOEXEC);
    if (fd < 0)
        return err_set_errno(err, ERR_ENV, errno, "write %s: create a temporary beside it", path);
    if (fill_temporary(fd, data, len, mode, (struct owner){uid, gid}) != 0 ||
        rename(tmp, path) != 0) {
        int errnum = errno;
        unlink(tmp);
        return err_set_errno(err, ERR_ENV, errnum, "write %s", path);
    }
    return sync_parent(path, err);
}

int fs_write_atomic(const char *path, const void *data, size_t len, mode_t mode, struct err *err)
{
    return fs_write_atomic_own(path, data, len, mode, (uid_t)-1, (gid_t)-1, err);
}

int fs_write_knob(const char *path, const char *value, struct err *err)
{
    AUTO(close_fd) int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return err_set_errno(err, ERR_ENV, errno, "open %s for writing", path);
    size_t len = strlen(value);
    ssize_t put = write(fd, value, len);
    if (put < 0)
        return err_set_errno(err, ERR_ENV, errno, "write '%s' to %s", value, path);
    if ((size_t)put != len)
        return err_set(err, ERR_ENV, "write '%s' to %s: only %zd bytes taken", value, path, put);
    return 0;
}

int fs_append_sync(int fd, const void *data, size_t len, struct err *err)
{
    if (write_all(fd, data, len) != 0 || fsync(fd) != 0)
        return err_set_errno(err, ERR_ENV, errno, "append to journal");
    return 0;
}

int fs_mkdirs(const char *path, mode_t mode, struct err *err)
{
    AUTO(free_str) char *dir = str_dup(path);
    for (char *p = dir + 1; *dir; p++) {
        bool end = *p == '\0';
        if (!end && *p != '/')
            continue;
        *p = '\0';
        if (mkdir(dir, mode) != 0 && errno != EEXIST)
            return err_set_errno(err, ERR_ENV, errno, "create directory %s", dir);
        if (end)
            break;
        *p = '/';
    }
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return err_set(err, ERR_ENV, "create directory %s: something else is in the way", path);
    return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

int fs_remove_tree(const char *path, struct err *err)
{
    if (nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT)
        return err_set_errno(err, ERR_ENV, errno, "remove %s", path);
    return 0;
}

bool fs_exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

bool fs_exists_at(const struct fs_root *root, const char *path)
{
    char full[4096];
    struct err err = {0};
    return fs_join(root, path, full, &err) == 0 && fs_exists(full);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int fs_list_at(const struct fs_root *root, const char *path, char ***names, size_t *count,
               struct err *err)
{
    char full[4096];
    if (fs_join(root, path, full, err) != 0)
        return -1;
    DIR *dir = opendir(full);
    if (!dir && errno == ENOENT) {
        *names = NULL;
        *count = 0;
        return 0;
    }
    if (!dir)
        return err_set_errno(err, ERR_ENV, errno, "list %s", full);
    char **list = NULL;
    size_t used = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        list = mem_grow(list, used + 1, sizeof *list);
        list[used++] = str_dup(e->d_name);
    }
    closedir(dir);
    if (used)
        qsort(list, used, sizeof *list, compare_names);
    *names = list;
    *count = used;
    return 0;
}

void fs_list_free(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
}

char *fs_link_name_at(const struct fs_root *root, const char *path)
{
    char full[4096], target[4096];
    struct err err = {0};
    if (fs_join(root, path, full, &err) != 0)
        return NULL;
    ssize_t len = readlink(full, target, sizeof target - 1);
    if (len < 0)
        return NULL;
    target[len] = '\0';
    const char *slash = strrchr(target, '/');
    return str_dup(slash ? slash + 1 : target);
}
