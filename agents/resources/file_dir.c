#include "agents/resources/file_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agents/resources/file_state.h"
#include "agents/resources/kind.h"
#include "common/util.h"

/* Says why a component could not be opened as a directory; a link is the interesting answer. */
static int refuse(int at, const char *component, const char *path, int len, int errnum,
                  struct err *err)
{
    struct stat st;
    if (fstatat(at, component, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode)) {
        char target[256];
        ssize_t n = readlinkat(at, component, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        return err_set(err, ERR_DATA,
                       "%.*s is a symbolic link to '%s': nothing is written through links, name "
                       "the real path",
                       len, path, target);
    }
    if (errnum == ENOTDIR)
        return err_set(err, ERR_DATA, "%.*s is not a directory", len, path);
    return err_set_errno(err, ERR_ENV, errnum, "cannot open the directory %.*s", len, path);
}

static int make_dir(const struct resources_env *env, int at, const char *component,
                    const char *path, int len, struct err *err)
{
    if (mkdirat(at, component, 0755) != 0)
        return errno == EEXIST ? 0
                               : err_set_errno(err, ERR_ENV, errno,
                                               "cannot make the directory %.*s", len, path);
    /* The umask must not decide what others may read below it. */
    if (fchmodat(at, component, 0755, 0) != 0)
        return err_set_errno(err, ERR_ENV, errno, "cannot set the mode of %.*s", len, path);
    if (fsync(at) != 0)
        return err_set_errno(err, ERR_ENV, errno, "cannot sync the directory above %.*s", len,
                             path);
    kind_step(env, "file.mkdir");
    return 0;
}

/* One step down.  *fd is replaced; -1 when the component is missing and create is false. */
static int descend(const struct resources_env *env, int *fd, const char *component,
                   const char *path, int len, bool create, struct err *err)
{
    enum { FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
    int next = openat(*fd, component, FLAGS);
    if (next < 0 && errno == ENOENT && create) {
        if (make_dir(env, *fd, component, path, len, err) != 0)
            return -1;
        next = openat(*fd, component, FLAGS);
    }
    if (next < 0 && (errno != ENOENT || create))
        return refuse(*fd, component, path, len, errno, err);
    close_fd(fd);
    *fd = next;
    return 0;
}

int file_dir_open(const struct resources_env *env, const char *path, bool create, int *out,
                  const char **name, unsigned *missing, struct err *err)
{
    if (file_state_check_path(path, err) != 0)
        return -1;
    const char *root = kind_root_is_real(env) ? "/" : env->root->path;
    AUTO(close_fd) int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_set_errno(err, ERR_ENV, errno, "cannot open the directory %s", root);
    unsigned absent = 0;
    const char *p = path + 1;
    for (const char *slash = strchr(p, '/'); slash; slash = strchr(p, '/')) {
        AUTO(free_str) char *component = str_printf("%.*s", (int)(slash - p), p);
        if (fd >= 0 && descend(env, &fd, component, path, (int)(slash - path), create, err) != 0)
            return -1;
        if (fd < 0)
            absent++;
        p = slash + 1;
    }
    *name = p;
    if (missing)
        *missing = absent;
    *out = fd;
    fd = -1;
    return 0;
}

int file_dir_prune(const struct resources_env *env, const char *path, unsigned levels,
                   struct err *err)
{
    AUTO(free_str) char *dir = str_dup(path);
    for (unsigned i = 0; i < levels; i++) {
        *strrchr(dir, '/') = '\0';
        if (dir[0] == '\0')
            return 0;
        AUTO(close_fd) int fd = -1;
        const char *name;
        if (file_dir_open(env, dir, false, &fd, &name, NULL, err) != 0)
            return -1;
        if (fd < 0)
            continue;
        if (unlinkat(fd, name, AT_REMOVEDIR) == 0) {
            kind_step(env, "file.rmdir");
            fsync(fd);
        } else if (errno == ENOTEMPTY || errno == EEXIST) {
            return 0; /* somebody else keeps something there by now */
        } else if (errno != ENOENT) {
            return err_set_errno(err, ERR_ENV, errno, "cannot remove the directory %s", dir);
        }
    }
    return 0;
}
