#include "agents/resources/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agents/resources/kind.h"
#include "common/jsonx.h"

int journal_check_id(const char *id, struct err *err)
{
    if (!kind_is_name(id, ".-") || id[0] == '.' || strlen(id) > JOURNAL_ID_MAX_BYTES)
        return err_set(
            err, ERR_USAGE,
            "'%.80s' is not a transaction's name: up to %d letters, digits, '.', '_' and "
            "'-'",
            id, JOURNAL_ID_MAX_BYTES);
    return 0;
}

char *journal_path(const struct resources_env *env, const char *below, struct err *err)
{
    char joined[4096];
    AUTO(free_str) char *path = str_printf("%s/%s", env->state_dir, below);
    return fs_join(env->root, path, joined, err) == 0 ? str_dup(joined) : NULL;
}

static char *file_path(const struct resources_env *env, const char *id, struct err *err)
{
    AUTO(free_str) char *below = str_printf("txn/%s.jsonl", id);
    return journal_path(env, below, err);
}

static int sync_dir(const struct resources_env *env, struct err *err)
{
    AUTO(free_str) char *dir = journal_path(env, "txn", err);
    if (!dir)
        return -1;
    AUTO(close_fd) int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0)
        return err_set_errno(err, ERR_ENV, errno, "cannot sync the directory %s", dir);
    return 0;
}

int journal_lock(const struct resources_env *env, int *out, struct err *err)
{
    AUTO(free_str) char *dir = journal_path(env, "txn", err);
    AUTO(free_str) char *path = journal_path(env, "lock", err);
    if (!dir || !path || fs_mkdirs(dir, 0755, err) != 0)
        return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set_errno(err, ERR_ENV, errno, "cannot open the lock %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int errnum = errno;
        close(fd);
        if (errnum == EWOULDBLOCK)
            return err_set(err, ERR_ENV,
                           "another transaction is running on this node (it holds %s); try again "
                           "when it has ended",
                           path);
        return err_set_errno(err, ERR_ENV, errnum, "cannot lock %s", path);
    }
    *out = fd;
    return 0;
}

int journal_open_id(const struct resources_env *env, char **id, struct err *err)
{
    AUTO(free_str) char *link = journal_path(env, "txn/open", err);
    if (!link)
        return -1;
    char target[JOURNAL_ID_MAX_BYTES + 16];
    ssize_t n = readlink(link, target, sizeof target - 1);
    if (n < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        *id = NULL;
        return 0;
    }
    if (n < 0)
        return err_set_errno(err, ERR_ENV, errno, "cannot read the link %s", link);
    target[n] = '\0';
    char *dot = strrchr(target, '.');
    if (!dot || strcmp(dot, ".jsonl") != 0)
        return err_set(err, ERR_DATA, "%s points to '%s', which is no journal", link, target);
    *dot = '\0';
    if (journal_check_id(target, err) != 0)
        return err_wrap(err, "%s: ", link);
    *id = str_dup(target);
    return 0;
}

int journal_mark_open(const struct resources_env *env, const char *id, struct err *err)
{
    AUTO(free_str) char *link = journal_path(env, "txn/open", err);
    AUTO(free_str) char *target = str_printf("%s.jsonl", id);
    if (!link)
        return -1;
    kind_step(env, "journal.mark");
    if (symlink(target, link) != 0)
        return err_set_errno(err, ERR_ENV, errno, "cannot make the link %s", link);
    kind_step(env, "journal.marked");
    return sync_dir(env, err);
}

static int unlink_below(const struct resources_env *env, char *path, struct err *err)
{
    if (!path)
        return -1;
    if (unlink(path) != 0 && errno != ENOENT)
        return err_set_errno(err, ERR_ENV, errno, "cannot remove %s", path);
    return sync_dir(env, err);
}

int journal_clear_open(const struct resources_env *env, struct err *err)
{
    AUTO(free_str) char *link = journal_path(env, "txn/open", err);
    kind_step(env, "journal.clear");
    int rc = unlink_below(env, link, err);
    kind_step(env, "journal.cleared");
    return rc;
}

int journal_remove(const struct resources_env *env, const char *id, struct err *err)
{
    AUTO(free_str) char *path = file_path(env, id, err);
    return unlink_below(env, path, err);
}

bool journal_exists(const struct resources_env *env, const char *id)
{
    struct err ignored = {0};
    AUTO(free_str) char *path = file_path(env, id, &ignored);
    return path && fs_exists(path);
}

static int create_file(const struct resources_env *env, const char *id, json_t *begin,
                       struct journal *journal, struct err *err)
{
    AUTO(free_str) char *path = file_path(env, id, err);
    if (!path)
        return -1;
    journal->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (journal->fd < 0)
        return err_set_errno(err, ERR_ENV, errno, "cannot create the journal %s", path);
    kind_step(env, "journal.created");
    if (sync_dir(env, err) != 0)
        return -1;
    return journal_append(env, journal, json_incref(begin), err);
}

int journal_create(const struct resources_env *env, const char *id, json_t *begin,
                   struct journal *journal, struct err *err)
{
    journal->fd = -1;
    int rc = journal_mark_open(env, id, err);
    if (rc == 0 && create_file(env, id, begin, journal, err) != 0) {
        struct err ignored = {0};
        journal_close(journal);
        journal_remove(env, id, &ignored);
        journal_clear_open(env, &ignored);
        rc = -1;
    }
    json_decref(begin);
    return rc;
}

int journal_reopen(const struct resources_env *env, const char *id, size_t good_bytes,
                   struct journal *journal, struct err *err)
{
    AUTO(free_str) char *path = file_path(env, id, err);
    if (!path)
        return -1;
    int fd = open(path, O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_set_errno(err, ERR_ENV, errno, "cannot open the journal %s", path);
    if (ftruncate(fd, (off_t)good_bytes) != 0) {
        err_set_errno(err, ERR_ENV, errno, "cannot cut the torn end of %s", path);
        close(fd);
        return -1;
    }
    journal->fd = fd;
    return 0;
}

int journal_append(const struct resources_env *env, struct journal *journal, json_t *line,
                   struct err *err)
{
    AUTO(free_str) char *text = jsonx_canonical(line);
    AUTO(free_str) char *whole = str_printf("%s\n", text);
    const char *type = jsonx_str_or(line, "t", "?");
    AUTO(free_str) char *point = str_printf("journal.%s", type);
    AUTO(free_str) char *after = str_printf("journal.%s.done", type);
    json_decref(line);
    kind_step(env, point);
    off_t start = lseek(journal->fd, 0, SEEK_END);
    if (fs_append_sync(journal->fd, whole, strlen(whole), err) != 0) {
        if (start >= 0 && ftruncate(journal->fd, start) != 0)
            return err_wrap(err, "the journal has a torn end, and cannot be written: ");
        return err_wrap(err, "the journal cannot be written: ");
    }
    kind_step(env, after);
    return 0;
}

void journal_close(struct journal *journal)
{
    close_fd(&journal->fd);
}

json_t *journal_line(const char *type)
{
    json_t *line = json_object();
    jsonx_set_str(line, "t", type);
    return line;
}

json_t *journal_line_at(const char *type, size_t index)
{
    json_t *line = journal_line(type);
    jsonx_set_int(line, "i", (int64_t)index);
    return line;
}

int journal_load(const struct resources_env *env, const char *id, struct journal_log *log,
                 struct err *err)
{
    AUTO(free_str) char *path = file_path(env, id, err);
    if (!path)
        return -1;
    *log = (struct journal_log){0};
    if (!fs_exists(path))
        return 0;
    AUTO(free_str) char *text = NULL;
    size_t len = 0;
    if (fs_read(path, JOURNAL_MAX_BYTES, &text, &len, err) != 0)
        return -1;
    return journal_parse(text, len, path, log, err);
}
