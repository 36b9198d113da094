/* The stand-in for the parts of /proc/sys that the kernel has only once for all namespaces. */
#include "farm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util.h"

/* A knob that cannot be read (write-only ones, or a refusal) becomes an empty file of its mode. */
static int copy_knob(int from, int to, const char *name, mode_t mode, struct err *err)
{
    char value[65536];
    ssize_t len = 0;
    AUTO(close_fd) int in = openat(from, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (in >= 0)
        len = read(in, value, sizeof value);
    AUTO(close_fd)
    int out = openat(to, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode | S_IWUSR);
    if (out < 0 || (len > 0 && write(out, value, (size_t)len) != len))
        return err_set_errno(err, ERR_ENV, errno, "copy of /proc/sys: %s", name);
    return 0;
}

static int copy_tree(int from, int to, dev_t device, int depth, struct err *err);

static int copy_entry(int from, int to, const char *name, dev_t device, int depth, struct err *err)
{
    struct stat st;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) || st.st_dev != device)
        return 0; /* another file system is mounted there, or the entry is gone */
    if (!S_ISDIR(st.st_mode))
        return copy_knob(from, to, name, st.st_mode & 07777, err);
    if (mkdirat(to, name, 0755) && errno != EEXIST)
        return err_set_errno(err, ERR_ENV, errno, "copy of /proc/sys: %s", name);
    AUTO(close_fd) int sub_to = openat(to, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int sub_from = openat(from, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (sub_to < 0 || sub_from < 0) {
        close_fd(&sub_from);
        return err_set_errno(err, ERR_ENV, errno, "copy of /proc/sys: %s", name);
    }
    return copy_tree(sub_from, sub_to, device, depth + 1, err);
}

/* Takes over `from`. */
static int copy_tree(int from, int to, dev_t device, int depth, struct err *err)
{
    DIR *dir = fdopendir(from);
    if (!dir) {
        close(from);
        return err_set_errno(err, ERR_ENV, errno, "copy of /proc/sys");
    }
    int rc = 0;
    for (struct dirent *e; rc == 0 && depth < 16 && (e = readdir(dir));)
        /* binfmt_misc is an automount on many machines: looking into it would mount it. */
        if (e->d_name[0] != '.' && strcmp(e->d_name, "binfmt_misc") != 0)
            rc = copy_entry(from, to, e->d_name, device, depth, err);
    closedir(dir);
    return rc;
}

int farm_sysctl_copy(const char *to, struct err *err)
{
    static const char *const parts[] = {"vm", "kernel", "fs"};
    struct stat st;
    AUTO(close_fd) int from = open("/proc/sys", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (from < 0 || fstat(from, &st))
        return err_set_errno(err, ERR_ENV, errno, "/proc/sys");
    if (mkdir(to, 0755) && errno != EEXIST)
        return err_set_errno(err, ERR_ENV, errno, "%s", to);
    AUTO(close_fd) int out = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (out < 0)
        return err_set_errno(err, ERR_ENV, errno, "%s", to);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (copy_entry(from, out, parts[i], st.st_dev, 0, err))
            return -1;
    return 0;
}
