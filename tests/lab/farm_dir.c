/* DIR: what the farm leaves for its users to read, and the lock that says that it lives. */
#include "farm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/util.h"

/* Everything the farm writes besides keys/; `hub` is first, so that it goes last. */
static const char *const files[] = {"hub",  "hosts", "known_hosts", "nodes",
                                    "pids", "links", "ssh_config"};

void farm_node_name(const struct farm *f, unsigned index, char out[static FARM_NAME_BYTES])
{
    snprintf(out, FARM_NAME_BYTES, "%.32s%03u", f->prefix, index + 1);
}

void farm_node_address(unsigned index, char out[static 16])
{
    snprintf(out, 16, "10.77.%u.%u", 1 + index / 250 % 250, 1 + index % 250);
}

char *farm_path(const struct farm *f, const char *name)
{
    return str_printf("%s/%s", f->dir, name);
}

int farm_put(const char *path, mode_t mode, struct err *err, const char *fmt, ...)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (fd < 0)
        return err_set_errno(err, ERR_ENV, errno, "cannot write %s", path);
    va_list args;
    va_start(args, fmt);
    int len = vdprintf(fd, fmt, args);
    va_end(args);
    int failed = len < 0 || fchmod(fd, mode);
    int errnum = errno;
    if (close(fd) || failed)
        return err_set_errno(err, ERR_ENV, failed ? errnum : errno, "cannot write %s", path);
    return 0;
}

/* A hub holds the lock of DIR/hub as long as it lives, also through kill -9. */
static bool is_alive(const char *path)
{
    AUTO(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

/* The value of "KEY VALUE" lines; -1 when the key is missing. */
static long number_of(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    return at ? strtol(at + strlen(key), NULL, 10) : -1;
}

int farm_dir_load(struct farm *f, char prefix[static FARM_NAME_BYTES])
{
    AUTO(free_str) char *path = farm_path(f, "hub");
    AUTO(free_str) char *text = NULL;
    struct err unreadable = {0};
    if (fs_read(path, 4096, &text, NULL, &unreadable))
        return -1;
    long hub = number_of(text, "pid "), count = number_of(text, "count ");
    const char *name = strstr(text, "prefix ");
    if (hub <= 0 || count <= 0 || !name)
        return -1;
    name += strlen("prefix ");
    snprintf(prefix, FARM_NAME_BYTES, "%.*s", (int)strcspn(name, "\n"), name);
    f->hub = (pid_t)hub;
    f->count = (unsigned)count;
    f->made_dir = number_of(text, "made ") == 1;
    f->systemd = number_of(text, "systemd ") == 1;
    f->prefix = prefix;
    return is_alive(path) ? 0 : -1;
}

/* A killed hub cannot tidy up: the next one does. */
static int clear_stale(struct farm *f, struct err *err)
{
    struct farm old = *f;
    char prefix[FARM_NAME_BYTES];
    if (farm_dir_load(&old, prefix) == 0)
        return err_set(err, ERR_ENV,
                       "a farm is up in %s (hub is process %d); end it with: "
                       "lab-farm down --dir %s",
                       f->dir, (int)old.hub, f->dir);
    AUTO(free_str) char *hub = farm_path(f, "hub");
    if (access(hub, F_OK) == 0) {
        f->made_dir = old.made_dir;
        old.made_dir = false; /* it stays for the new farm, which then removes it */
        farm_dir_remove(&old);
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        AUTO(free_str) char *path = farm_path(f, files[i]);
        if (access(path, F_OK) == 0)
            return err_set(err, ERR_ENV, "%s exists and no farm made it; give another --dir", path);
    }
    return 0;
}

int farm_dir_create(struct farm *f, struct err *err)
{
    if (mkdir(f->dir, 0755) == 0)
        f->made_dir = true;
    else if (errno != EEXIST)
        return err_set_errno(err, ERR_ENV, errno, "cannot make %s", f->dir);
    if (clear_stale(f, err))
        return -1;
    AUTO(free_str) char *path = farm_path(f, "hub");
    AUTO(close_fd) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB))
        return err_set_errno(err, ERR_ENV, errno, "cannot lock %s", path);
    if (dprintf(fd, "pid %d\nmade %d\nsystemd %d\ncount %u\nprefix %s\n", (int)f->hub, f->made_dir,
                f->systemd, f->count, f->prefix) < 0)
        return err_set_errno(err, ERR_ENV, errno, "cannot write %s", path);
    int kept = fd;
    fd = -1;
    return kept;
}

static int write_ssh_config(const struct farm *f, struct err *err)
{
    AUTO(free_str) char *path = farm_path(f, "ssh_config");
    return farm_put(path, 0644, err,
                    "Host *\n    User root\n    IdentityFile %s/keys/id\n    IdentitiesOnly yes\n"
                    "    UserKnownHostsFile %s/known_hosts\n    StrictHostKeyChecking yes\n"
                    "    BatchMode yes\n",
                    f->dir, f->dir);
}

/* One line per node and file; a file is written in one go. */
int farm_dir_fill(const struct farm *f, struct err *err)
{
    struct strbuf hosts = {0}, known = {0}, names = {0};
    AUTO(free_str) char *keys = farm_path(f, "keys");
    AUTO(free_str) char *id = farm_path(f, "keys/id");
    int rc = mkdir(keys, 0700) && errno != EEXIST
                 ? err_set_errno(err, ERR_ENV, errno, "cannot make %s", keys)
                 : farm_key_make(id, "lab-farm", NULL, err);
    strbuf_puts(&hosts, "127.0.0.1 localhost\n10.77.0.1 hub\n");
    for (unsigned i = 0; rc == 0 && i < f->count; i++) {
        char name[FARM_NAME_BYTES], address[16];
        farm_node_name(f, i, name);
        farm_node_address(i, address);
        AUTO(free_str) char *key = str_printf("%s/%s", keys, name);
        AUTO(free_str) char *line = NULL;
        rc = farm_key_make(key, name, &line, err);
        if (rc)
            break;
        strbuf_printf(&hosts, "%s %s\n", address, name);
        strbuf_printf(&known, "%s,%s %s\n", name, address, line);
        strbuf_printf(&names, "%s\n", name);
    }
    const struct {
        const char *name;
        const struct strbuf *text;
    } out[] = {{"hosts", &hosts}, {"known_hosts", &known}, {"nodes", &names}};
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(out); i++) {
        AUTO(free_str) char *path = farm_path(f, out[i].name);
        rc = farm_put(path, 0644, err, "%s", out[i].text->data);
    }
    strbuf_release(&hosts);
    strbuf_release(&known);
    strbuf_release(&names);
    return rc ? rc : write_ssh_config(f, err);
}

int farm_dir_add_pid(const struct farm *f, pid_t pid, struct err *err)
{
    AUTO(free_str) char *path = farm_path(f, "pids");
    AUTO(close_fd) int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0 || dprintf(fd, "%d\n", (int)pid) < 0)
        return err_set_errno(err, ERR_ENV, errno, "cannot write %s", path);
    return 0;
}

pid_t farm_dir_pid(const struct farm *f, unsigned index)
{
    AUTO(free_str) char *path = farm_path(f, "pids");
    AUTO(free_str) char *text = NULL;
    struct err unreadable = {0};
    if (fs_read(path, (size_t)FARM_MAX_NODES * 16, &text, NULL, &unreadable))
        return 0;
    const char *line = text;
    for (; line && index > 0; index--) {
        const char *end = strchr(line, '\n');
        line = end ? end + 1 : NULL;
    }
    return line ? (pid_t)strtol(line, NULL, 10) : 0;
}

/* Only what the farm made goes; a directory with other people's files in it stays. */
void farm_dir_remove(const struct farm *f)
{
    AUTO(free_str) char *keys = farm_path(f, "keys");
    for (unsigned i = 0; i < f->count; i++) {
        char name[FARM_NAME_BYTES];
        farm_node_name(f, i, name);
        AUTO(free_str) char *key = str_printf("%s/%s", keys, name);
        AUTO(free_str) char *public_key = str_printf("%s.pub", key);
        unlink(key);
        unlink(public_key);
    }
    AUTO(free_str) char *id = farm_path(f, "keys/id");
    AUTO(free_str) char *id_public = farm_path(f, "keys/id.pub");
    AUTO(free_str) char *runtime = farm_path(f, "rt");
    unlink(id);
    unlink(id_public);
    rmdir(keys);
    rmdir(runtime);
    for (size_t i = ARRAY_LEN(files); i-- > 0;) {
        AUTO(free_str) char *path = farm_path(f, files[i]);
        unlink(path);
    }
    if (f->made_dir)
        rmdir(f->dir);
}

/* The cgroup2 mount: /sys/fs/cgroup itself, or unified/ below it on a machine with both versions.
 */
char *farm_cgroup(const struct farm *f)
{
    static const char *const places[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        AUTO(free_str) char *probe = str_printf("%s/cgroup.controllers", places[i]);
        if (access(probe, F_OK) == 0)
            return str_printf("%s/muster-farm-%d", places[i], (int)f->hub);
    }
    return NULL;
}
