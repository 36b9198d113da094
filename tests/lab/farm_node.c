/* A node's root file system and its pid 1. */
#include "farm.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/util.h"

#define SYSTEMD "/usr/lib/systemd/systemd"

static int make_dir(const char *path, struct err *err)
{
    if (mkdir(path, 0755) && errno != EEXIST)
        return err_set_errno(err, ERR_ENV, errno, "cannot make %s", path);
    return 0;
}

static int mount_one(const char *type, const char *at, const char *options, struct err *err)
{
    if (mount(type, at, type, 0, options))
        return err_set_errno(err, ERR_ENV, errno, "cannot mount %s on %s", type, at);
    return 0;
}

/* An overlay of `lower` at `at`; what the node changes goes to base/u_TAG, in memory. */
static int mount_overlay(const char *base, const char *tag, const char *lower, const char *at,
                         struct err *err)
{
    AUTO(free_str) char *upper = str_printf("%s/u_%s", base, tag);
    AUTO(free_str) char *work = str_printf("%s/w_%s", base, tag);
    if (make_dir(upper, err) || make_dir(work, err))
        return -1;
    AUTO(free_str)
    char *options = str_printf("lowerdir=%s,upperdir=%s,workdir=%s", lower, upper, work);
    return mount_one("overlay", at, options, err);
}

/* The root, and what the machine keeps on file systems of their own. */
static int mount_system(const char *base, const char *root, struct err *err)
{
    static const char *const parts[] = {"usr", "var", "opt", "home", "etc"};
    struct stat top, part;
    if (mount_overlay(base, "root", "/", root, err) || stat("/", &top))
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        AUTO(free_str) char *lower = str_printf("/%s", parts[i]);
        AUTO(free_str) char *at = str_printf("%s/%s", root, parts[i]);
        if (stat(lower, &part) || part.st_dev == top.st_dev)
            continue;
        if (mount_overlay(base, parts[i], lower, at, err))
            return -1;
    }
    return 0;
}

static int mount_special(const char *root, struct err *err)
{
    static const struct {
        const char *type, *at, *options;
    } rows[] = {
        {"proc", "proc", NULL},
        {"sysfs", "sys", NULL},
        {"tmpfs", "run", "mode=755"},
        {"tmpfs", "tmp", "mode=1777"},
        {"tmpfs", "var/tmp", "mode=1777"},
        {"tmpfs", "root", "mode=700"},
        {"tmpfs", "dev", "mode=755"},
        {"devpts", "dev/pts", "newinstance,ptmxmode=0666,mode=620"},
        {"tmpfs", "dev/shm", "mode=1777"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO(free_str) char *at = str_printf("%s/%s", root, rows[i].at);
        if (make_dir(at, err) || mount_one(rows[i].type, at, rows[i].options, err))
            return -1;
    }
    return 0;
}

static int make_devices(const char *root, struct err *err)
{
    static const struct {
        const char *name;
        unsigned major, minor;
    } devices[] = {{"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
                   {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};
    static const char *const links[][2] = {{"pts/ptmx", "ptmx"},
                                           {"/proc/self/fd", "fd"},
                                           {"fd/0", "stdin"},
                                           {"fd/1", "stdout"},
                                           {"fd/2", "stderr"}};
    for (size_t i = 0; i < ARRAY_LEN(devices); i++) {
        AUTO(free_str) char *path = str_printf("%s/dev/%s", root, devices[i].name);
        if (mknod(path, S_IFCHR, makedev(devices[i].major, devices[i].minor)) || chmod(path, 0666))
            return err_set_errno(err, ERR_ENV, errno, "cannot make device %s", path);
    }
    for (size_t i = 0; i < ARRAY_LEN(links); i++) {
        AUTO(free_str) char *path = str_printf("%s/dev/%s", root, links[i][1]);
        if (symlink(links[i][0], path))
            return err_set_errno(err, ERR_ENV, errno, "cannot link %s", path);
    }
    return 0;
}

/* vm, kernel and fs of /proc/sys as files of the node, with the values that are the node's own. */
static int mount_sysctl(const struct farm *f, const char *base, const char *root, const char *name,
                        struct err *err)
{
    static const char *const parts[] = {"vm", "kernel", "fs"};
    /* A copied uuid would answer the same each time. */
    AUTO(close_fd) int uuid = open("/proc/sys/kernel/random/uuid", O_PATH | O_CLOEXEC);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        AUTO(free_str) char *lower = str_printf("%s/rt/sysctl/%s", f->dir, parts[i]);
        AUTO(free_str) char *at = str_printf("%s/proc/sys/%s", root, parts[i]);
        if (mount_overlay(base, parts[i], lower, at, err))
            return -1;
    }
    AUTO(free_str) char *kernel = str_printf("%s/proc/sys/kernel", root);
    AUTO(free_str) char *hostname = str_printf("%s/hostname", kernel);
    AUTO(free_str) char *boot_id = str_printf("%s/random/boot_id", kernel);
    AUTO(free_str) char *uuid_at = str_printf("%s/random/uuid", kernel);
    AUTO(free_str) char *uuid_from = str_printf("/proc/self/fd/%d", uuid);
    char id[64] = "";
    FILE *in = fopen("/proc/sys/kernel/random/uuid", "re");
    if (!in || !fgets(id, sizeof id, in))
        err_set_errno(err, ERR_ENV, errno, "/proc/sys/kernel/random/uuid");
    if (in)
        fclose(in);
    if (err->kind || farm_put(hostname, 0644, err, "%s\n", name) ||
        farm_put(boot_id, 0444, err, "%s", id))
        return -1;
    if (mount(uuid_from, uuid_at, NULL, MS_BIND, NULL))
        return err_set_errno(err, ERR_ENV, errno, "cannot mount %s", uuid_at);
    return 0;
}

/* systemd needs a cgroup2 tree of its own; the node's becomes the root of what it sees. */
static int enter_cgroup(const struct farm *f, const char *root, const char *name, struct err *err)
{
    AUTO(free_str) char *top = farm_cgroup(f);
    if (!top)
        return err_set(err, ERR_ENV,
                       "no cgroup2 mount in /sys/fs/cgroup: --init systemd needs one");
    AUTO(free_str) char *mine = str_printf("%s/%s", top, name);
    AUTO(free_str) char *procs = str_printf("%s/cgroup.procs", mine);
    AUTO(free_str) char *at = str_printf("%s/sys/fs/cgroup", root);
    if (make_dir(top, err) || make_dir(mine, err) || farm_put(procs, 0644, err, "0\n"))
        return -1;
    if (unshare(CLONE_NEWCGROUP))
        return err_set_errno(err, ERR_ENV, errno, "unshare cgroup namespace");
    return mount_one("cgroup2", at, NULL, err);
}

static int enter_root(const char *root, struct err *err)
{
    /* The new root on top of the old one, then the old one goes: pivot_root(2), NOTES. */
    if (chdir(root) || syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH) || chdir("/"))
        return err_set_errno(err, ERR_ENV, errno, "cannot make %s the root", root);
    return 0;
}

int farm_node_build(const struct farm *f, unsigned index, struct err *err)
{
    char name[FARM_NAME_BYTES], address[16];
    farm_node_name(f, index, name);
    farm_node_address(index, address);
    if (sethostname(name, strlen(name)))
        return err_set_errno(err, ERR_ENV, errno, "cannot set the host name");
    if (farm_link_up("lo", NULL, err) || farm_link_up("eth0", address, err) ||
        farm_link_neighbour("eth0", "10.77.0.1", err))
        return -1;
    AUTO(free_str) char *base = str_printf("%s/rt/%s", f->dir, name);
    AUTO(free_str) char *root = str_printf("%s/m", base);
    if (make_dir(base, err) || make_dir(root, err) || mount_system(base, root, err) ||
        mount_special(root, err) || make_devices(root, err) ||
        mount_sysctl(f, base, root, name, err) || farm_etc_write(f, index, root, err))
        return -1;
    if (f->systemd && enter_cgroup(f, root, name, err))
        return -1;
    return enter_root(root, err);
}

int farm_node_exec(const struct farm *f, struct err *err)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    int log = open("/var/log/lab-init.log", O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644);
    if (nothing < 0 || log < 0 || dup2(nothing, 0) < 0 || dup2(nothing, 1) < 0 || dup2(log, 2) < 0)
        return err_set_errno(err, ERR_ENV, errno, "cannot open the node's log");
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    char *const env[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                         "container=lab", "TERM=dumb", NULL};
    char *const sshd[] = {"/usr/sbin/sshd", "-D", "-e", NULL};
    char *const systemd[] = {"systemd", "--unit=multi-user.target", "--show-status=0",
                             "--log-target=journal", NULL};
    const char *program = f->systemd ? SYSTEMD : sshd[0];
    execve(program, f->systemd ? systemd : sshd, env);
    return err_set_errno(err, ERR_ENV, errno, "cannot start %s", program);
}
