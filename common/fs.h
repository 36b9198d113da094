/* Files: whole reads with a limit, atomic writes, everything below one root directory.
 *
 * A struct fs_root names the directory that stands for "/": the real root on a node, a captured
 * tree in a test.  Paths given with it are absolute ("/etc/nccl.conf") and are resolved inside. */
#ifndef MUSTER_COMMON_FS_H
#define MUSTER_COMMON_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"

struct fs_root {
    char path[4096]; /* "" for the real root, else an absolute directory without trailing slash */
};

/* root NULL or "/" means the real root.  Fails with ERR_ENV if it is not a directory. */
int fs_root_open(struct fs_root *root, const char *path, struct err *err);
/* Joins into out; fails with ERR_DATA when path is not absolute, holds ".." or is too long. */
int fs_join(const struct fs_root *root, const char *path, char out[static 4096], struct err *err);

/* Read a whole file; NUL-terminated, *len without it (len may be NULL).  Works for /proc and /sys,
 * whose sizes are not known.  ERR_ENV cannot open or read (native errno), ERR_DATA over max_bytes.
 */
int fs_read(const char *path, size_t max_bytes, char **out, size_t *len, struct err *err);
int fs_read_at(const struct fs_root *root, const char *path, size_t max_bytes, char **out,
               size_t *len, struct err *err);
/* First line of a small file without its newline and trailing blanks; NULL when it cannot be read
 * (a missing sysfs attribute is an ordinary answer).  The caller frees. */
char *fs_read_line_at(const struct fs_root *root, const char *path);
/* Integer of a small file, base 10 or 0x...; fallback when it is missing or not an integer. */
long long fs_read_int_at(const struct fs_root *root, const char *path, long long fallback);

/* Replace a file so that a reader, and a machine that loses power, sees the old or the new content:
 * temporary file in the same directory, fsync, rename, fsync of the directory.  On failure the old
 * file is untouched and no temporary is left.  uid or gid (uid_t)-1 means unchanged. */
int fs_write_atomic(const char *path, const void *data, size_t len, mode_t mode, struct err *err);
int fs_write_atomic_own(const char *path, const void *data, size_t len, mode_t mode, uid_t uid,
                        gid_t gid, struct err *err);
/* One write(2) to an existing file, as /proc and /sys want it.  ERR_ENV with the kernel's errno. */
int fs_write_knob(const char *path, const char *value, struct err *err);
/* Append one line and fsync (journals).  mode is used when the file is created. */
int fs_append_sync(int fd, const void *data, size_t len, struct err *err);

/* mkdir -p; the mode goes to each directory that is created. */
int fs_mkdirs(const char *path, mode_t mode, struct err *err);
int fs_remove_tree(const char *path, struct err *err); /* missing is success; follows no symlink */
bool fs_exists(const char *path);
bool fs_exists_at(const struct fs_root *root, const char *path);
/* Sorted names in a directory without . and ..; count 0 and 0 returned when it is missing. */
int fs_list_at(const struct fs_root *root, const char *path, char ***names, size_t *count,
               struct err *err);
void fs_list_free(char **names, size_t count);
/* Target of a symlink's last component ("../../0000:01:00.0" gives "0000:01:00.0"), NULL if none.
 */
char *fs_link_name_at(const struct fs_root *root, const char *path);

#endif
