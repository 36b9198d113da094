/* A node's own files: its name, its keys, its accounts, its sshd, its services. */
#include "farm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/util.h"

enum { MAX_FILE_BYTES = 1 << 20, OPS_FIRST_ID = 2000 };

/* farm_put below the node's root. */
static int put(const char *root, const char *name, mode_t mode, struct err *err, const char *fmt,
               ...) __attribute__((format(printf, 5, 6)));
static int put(const char *root, const char *name, mode_t mode, struct err *err, const char *fmt,
               ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int len = vasprintf(&text, fmt, args);
    va_end(args);
    if (len < 0)
        abort();
    AUTO(free_str) char *owned = text;
    AUTO(free_str) char *path = str_printf("%s%s", root, name);
    return farm_put(path, mode, err, "%s", owned);
}

static int make_dir(const char *root, const char *name, mode_t mode, struct err *err)
{
    AUTO(free_str) char *path = str_printf("%s%s", root, name);
    if (mkdir(path, mode) && errno != EEXIST)
        return err_set_errno(err, ERR_ENV, errno, "cannot make %s", path);
    return 0;
}

/* Copies DIR/from to the node. */
static int copy_in(const struct farm *f, const char *from, const char *root, const char *to,
                   mode_t mode, struct err *err)
{
    AUTO(free_str) char *path = farm_path(f, from);
    AUTO(free_str) char *text = NULL;
    if (fs_read(path, MAX_FILE_BYTES, &text, NULL, err))
        return -1;
    return put(root, to, mode, err, "%s", text);
}

static void random_hex(char out[static 33])
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        abort();
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

static int write_names(const struct farm *f, const char *name, const char *root, struct err *err)
{
    char id[33];
    random_hex(id);
    if (put(root, "/etc/hostname", 0644, err, "%s\n", name) ||
        put(root, "/etc/machine-id", 0444, err, "%s\n", id) ||
        put(root, "/etc/fstab", 0644, err, "# a node of the lab\n"))
        return -1;
    return copy_in(f, "hosts", root, "/etc/hosts", 0644, err);
}

/* Takes the machine's own host keys out of the node's view and gives it its own. */
static int write_host_key(const struct farm *f, const char *name, const char *root, struct err *err)
{
    static const char *const types[] = {"rsa", "dsa", "ecdsa", "ed25519"};
    if (make_dir(root, "/etc/ssh", 0755, err))
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        AUTO(free_str) char *path = str_printf("%s/etc/ssh/ssh_host_%s_key", root, types[i]);
        AUTO(free_str) char *public_path = str_printf("%s.pub", path);
        unlink(path);
        unlink(public_path);
    }
    AUTO(free_str) char *key = str_printf("keys/%s", name);
    AUTO(free_str) char *public_key = str_printf("%s.pub", key);
    if (copy_in(f, key, root, "/etc/ssh/ssh_host_ed25519_key", 0600, err))
        return -1;
    return copy_in(f, public_key, root, "/etc/ssh/ssh_host_ed25519_key.pub", 0644, err);
}

static int write_sshd(const struct farm *f, const char *root, struct err *err)
{
    if (make_dir(root, "/run/sshd", 0755, err))
        return -1;
    return put(
        root, "/etc/ssh/sshd_config", 0600, err,
        "HostKey /etc/ssh/ssh_host_ed25519_key\nPidFile /run/sshd.pid\nUsePAM %s\nUseDNS no\n"
        "PermitRootLogin prohibit-password\nPasswordAuthentication no\nPrintMotd no\n"
        "PrintLastLog no\nMaxStartups 200:30:400\nMaxSessions 100\nLogLevel ERROR\n"
        "Subsystem sftp internal-sftp\n",
        f->pam ? "yes" : "no");
}

/* Rewrites an account file: drops the lines of `drop`, adds `line` at the end. */
static int edit_accounts(const char *root, const char *name, mode_t mode, const char *drop,
                         const char *line, struct err *err)
{
    AUTO(free_str) char *path = str_printf("%s%s", root, name);
    AUTO(free_str) char *text = NULL;
    if (fs_read(path, MAX_FILE_BYTES, &text, NULL, err))
        return -1;
    struct strbuf out = {0};
    size_t drop_len = strlen(drop);
    char *rest = text;
    for (char *row; (row = strsep(&rest, "\n"));)
        if (*row && (strncmp(row, drop, drop_len) != 0 || row[drop_len] != ':'))
            strbuf_printf(&out, "%s\n", row);
    strbuf_puts(&out, line);
    int rc = farm_put(path, mode, err, "%s", out.data);
    strbuf_release(&out);
    return rc;
}

/* A uid and gid from OPS_FIRST_ID on that no account of the machine has. */
static int free_id(const char *root)
{
    AUTO(free_str) char *passwd = str_printf("%s/etc/passwd", root);
    AUTO(free_str) char *group = str_printf("%s/etc/group", root);
    AUTO(free_str) char *users = NULL;
    AUTO(free_str) char *groups = NULL;
    struct err ignored = {0};
    fs_read(passwd, MAX_FILE_BYTES, &users, NULL, &ignored);
    fs_read(group, MAX_FILE_BYTES, &groups, NULL, &ignored);
    for (int id = OPS_FIRST_ID;; id++) {
        char field[16];
        snprintf(field, sizeof field, ":%d:", id);
        if (!(users && strstr(users, field)) && !(groups && strstr(groups, field)))
            return id;
    }
}

/* authorized_keys of one account, owned by it. */
static int write_authorized(const struct farm *f, const char *root, const char *home, int id,
                            struct err *err)
{
    AUTO(free_str) char *ssh = str_printf("%s/.ssh", home);
    AUTO(free_str) char *keys = str_printf("%s/authorized_keys", ssh);
    if (make_dir(root, home, 0700, err) || make_dir(root, ssh, 0700, err) ||
        copy_in(f, "keys/id.pub", root, keys, 0600, err))
        return -1;
    const char *const owned[] = {home, ssh, keys};
    for (size_t i = 0; i < ARRAY_LEN(owned); i++) {
        AUTO(free_str) char *path = str_printf("%s%s", root, owned[i]);
        if (chown(path, (uid_t)id, (gid_t)id))
            return err_set_errno(err, ERR_ENV, errno, "chown %s", path);
    }
    return 0;
}

/* A node is the same whether or not the machine below has sudo installed. */
static int drop_sudo(const char *root, struct err *err)
{
    AUTO(free_str) char *path = str_printf("%s/usr/bin/sudo", root);
    if (unlink(path) && errno != ENOENT)
        return err_set_errno(err, ERR_ENV, errno, "cannot remove %s", path);
    return 0;
}

/* root and ops get in with the farm's key; '*' is "no password", where '!' would be "locked". */
static int write_accounts(const struct farm *f, const char *root, struct err *err)
{
    int id = free_id(root);
    AUTO(free_str) char *user = str_printf("ops:x:%d:%d:operator:/home/ops:/bin/sh\n", id, id);
    AUTO(free_str) char *group = str_printf("ops:x:%d:\n", id);
    if (edit_accounts(root, "/etc/passwd", 0644, "ops", user, err) ||
        edit_accounts(root, "/etc/group", 0644, "ops", group, err) ||
        edit_accounts(root, "/etc/shadow", 0600, "ops", "ops:*:19000:0:99999:7:::\n", err) ||
        edit_accounts(root, "/etc/shadow", 0600, "root", "root:*:19000:0:99999:7:::\n", err) ||
        make_dir(root, "/home", 0755, err) || write_authorized(f, root, "/root", 0, err) ||
        write_authorized(f, root, "/home/ops", id, err))
        return -1;
    if (!f->sudo)
        return drop_sudo(root, err);
    return put(root, "/etc/sudoers.d/ops", 0440, err, "ops ALL=(ALL) NOPASSWD: ALL\n");
}

int farm_etc_write(const struct farm *f, unsigned index, const char *root, struct err *err)
{
    char name[FARM_NAME_BYTES];
    farm_node_name(f, index, name);
    AUTO(free_str) char *state = str_printf("%s/var/lib/muster", root);
    if (fs_remove_tree(state, err) || write_names(f, name, root, err) ||
        write_host_key(f, name, root, err) || write_sshd(f, root, err) ||
        write_accounts(f, root, err))
        return -1;
    return f->systemd ? farm_etc_systemd(root, err) : 0;
}

/* Units that would fight over the machine's devices, or wait for what a node does not have. */
static const char *const masked[] = {
    "systemd-udevd.service",
    "systemd-udev-trigger.service",
    "systemd-logind.service",
    "systemd-timesyncd.service",
    "systemd-modules-load.service",
    "systemd-binfmt.service",
    "systemd-journal-flush.service",
    "systemd-update-utmp.service",
    "getty@tty1.service",
    "console-getty.service",
    "ssh.service",
    "sshd.service",
};

static int drop_wants(const char *root, struct err *err)
{
    static const char *const targets[] = {
        "multi-user.target",     "sysinit.target", "timers.target",   "sockets.target",
        "network-online.target", "getty.target",   "graphical.target"};
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        AUTO(free_str) char *path = str_printf("%s/etc/systemd/system/%s.wants", root, targets[i]);
        if (fs_remove_tree(path, err))
            return -1;
    }
    return 0;
}

static int link_unit(const char *root, const char *target, const char *name, struct err *err)
{
    AUTO(free_str) char *path = str_printf("%s/etc/systemd/system/%s", root, name);
    unlink(path);
    if (symlink(target, path))
        return err_set_errno(err, ERR_ENV, errno, "cannot link %s", path);
    return 0;
}

int farm_etc_systemd(const char *root, struct err *err)
{
    if (drop_wants(root, err))
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(masked); i++)
        if (link_unit(root, "/dev/null", masked[i], err))
            return -1;
    if (make_dir(root, "/etc/systemd/system/multi-user.target.wants", 0755, err) ||
        make_dir(root, "/etc/systemd/journald.conf.d", 0755, err) ||
        put(root, "/etc/systemd/journald.conf.d/lab.conf", 0644, err,
            "[Journal]\nStorage=volatile\nRuntimeMaxUse=2M\n") ||
        put(root, "/etc/systemd/system/lab-sshd.service", 0644, err,
            "[Unit]\nDefaultDependencies=no\nAfter=sysinit.target\n[Service]\n"
            "ExecStart=/usr/sbin/sshd -D -e\nRuntimeDirectory=sshd\nKillMode=process\n"
            "[Install]\nWantedBy=multi-user.target\n"))
        return -1;
    return link_unit(root, "../lab-sshd.service", "multi-user.target.wants/lab-sshd.service", err);
}
