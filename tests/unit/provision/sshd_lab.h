/* Real sshd processes on 127.0.0.1 with keys of their own in a temporary directory.
 *
 * The nodes' names are in DIR/config (ssh_config), their keys in DIR/known_hosts:
 *   n1 n2      the plain server;  n1's known_hosts line says ed25519, n2's says rsa
 *   noisy      prints half a line before every command; allows one key (MaxAuthTries 1)
 *   sudoer     every command runs where `id -u` says 1000 and `sudo` refuses
 *   nosudo     the same without any sudo
 *   strict     accepts no key that the tests have
 *   jumped     through a second sshd by ProxyJump;  proxied: by ProxyCommand */
#ifndef MUSTER_TESTS_SSHD_LAB_H
#define MUSTER_TESTS_SSHD_LAB_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/util.h"

enum { LAB_MAIN, LAB_JUMP, LAB_NOISY, LAB_SUDOER, LAB_NOSUDO, LAB_STRICT, LAB_SERVERS };

struct lab {
    char dir[64];
    const char *user;
    int port[LAB_SERVERS];
    pid_t pid[LAB_SERVERS];
    char *config, *known_hosts, *agent, *agent_dir;
    char arch[65];
};

static inline int lab_sh(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static inline int lab_sh(const char *fmt, ...)
{
    char *command = NULL;
    va_list args;
    va_start(args, fmt);
    int len = vasprintf(&command, fmt, args);
    va_end(args);
    if (len < 0)
        abort();
    int rc = system(command);
    free(command);
    return rc;
}

static inline void lab_write(const struct lab *l, const char *name, mode_t mode, const char *fmt,
                             ...) __attribute__((format(printf, 4, 5)));
static inline void lab_write(const struct lab *l, const char *name, mode_t mode, const char *fmt,
                             ...)
{
    char *path = str_printf("%s/%s", l->dir, name);
    FILE *f = fopen(path, "w");
    if (!f)
        abort();
    va_list args;
    va_start(args, fmt);
    vfprintf(f, fmt, args);
    va_end(args);
    fclose(f);
    chmod(path, mode);
    free(path);
}

/* A port that nobody listens on now; the kernel does not hand it out again soon. */
static inline int lab_free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) < 0)
        abort();
    close(fd);
    return ntohs(a.sin_port);
}

static inline int lab_wait_port(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr = {htonl(INADDR_LOOPBACK)}};
    for (int i = 0; i < 500; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int rc = connect(fd, (struct sockaddr *)&a, sizeof a);
        close(fd);
        if (rc == 0)
            return 0;
        usleep(20000);
    }
    return -1;
}

static inline int lab_sshd(struct lab *l, int which, const char *extra)
{
    l->port[which] = lab_free_port();
    char *name = str_printf("sshd%d.conf", which);
    lab_write(l, name, 0600,
              "%s\nPort %d\nListenAddress 127.0.0.1\nHostKey %s/host_ed\nHostKey %s/host_rsa\n"
              "AuthorizedKeysFile %s/authorized\nTrustedUserCAKeys %s/ca.pub\nStrictModes no\n"
              "UsePAM no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n"
              "KbdInteractiveAuthentication no\nPidFile none\nPrintMotd no\nMaxStartups 100\n"
              "PermitUserRC no\nLogLevel ERROR\n",
              extra, l->port[which], l->dir, l->dir, l->dir, l->dir);
    char *conf = str_printf("%s/%s", l->dir, name), *log = str_printf("%s/log", l->dir);
    l->pid[which] = fork();
    if (l->pid[which] == 0) {
        int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(fd, STDERR_FILENO);
        setpgid(0, 0);
        execl("/usr/sbin/sshd", "/usr/sbin/sshd", "-D", "-e", "-f", conf, (char *)NULL);
        _exit(127);
    }
    free(log);
    free(conf);
    free(name);
    return lab_wait_port(l->port[which]);
}

static inline void lab_config(struct lab *l)
{
    char *plain = str_printf("  HostName 127.0.0.1\n  User %s\n", l->user);
    lab_write(
        l, "config", 0600,
        "Host n1\n%s  Port %d\nHost n2\n%s  Port %d\n  HostKeyAlias rsa-node\n"
        "Host noisy\n%s  Port %d\nHost sudoer\n%s  Port %d\nHost nosudo\n%s  Port %d\n"
        "Host strict\n%s  Port %d\nHost jump\n%s  Port %d\n"
        "Host jumped\n%s  Port %d\n  ProxyJump jump\n"
        "Host proxied\n%s  Port %d\n  ProxyCommand ssh -q -F %s/config -o BatchMode=yes "
        "-o GlobalKnownHostsFile=%s/known_hosts -W %%h:%%p jump\n"
        "Host badproxy\n%s  Port %d\n  ProxyCommand echo cannot reach the jump host >&2; exit 1\n"
        "Host *\n  IdentityFile %s/id\n  IdentityAgent none\n  UserKnownHostsFile none\n"
        "  GlobalKnownHostsFile none\n  StrictHostKeyChecking yes\n",
        plain, l->port[LAB_MAIN], plain, l->port[LAB_MAIN], plain, l->port[LAB_NOISY], plain,
        l->port[LAB_SUDOER], plain, l->port[LAB_NOSUDO], plain, l->port[LAB_STRICT], plain,
        l->port[LAB_JUMP], plain, l->port[LAB_MAIN], plain, l->port[LAB_MAIN], l->dir, l->dir,
        plain, l->port[LAB_MAIN], l->dir);
    free(plain);
    l->config = str_printf("%s/config", l->dir);
    l->known_hosts = str_printf("%s/known_hosts", l->dir);
    for (int i = 0; i < LAB_SERVERS; i++)
        lab_sh("printf '[127.0.0.1]:%d %%s\\n' \"$(cut -d' ' -f1,2 %s/host_ed.pub)\" >>%s",
               l->port[i], l->dir, l->known_hosts);
    lab_sh("printf 'rsa-node %%s\\n' \"$(cut -d' ' -f1,2 %s/host_rsa.pub)\" >>%s", l->dir,
           l->known_hosts);
}

/* 0, or -1 with the reason why this cannot run here. */
static inline int lab_up(struct lab *l, const char **why)
{
    *l = (struct lab){0};
    snprintf(l->dir, sizeof l->dir, "/tmp/muster-sshd-XXXXXX");
    const struct passwd *pw = getpwuid(getuid());
    struct utsname u;
    *why = "/usr/sbin/sshd is missing: install openssh-server";
    if (access("/usr/sbin/sshd", X_OK) != 0)
        return -1;
    *why = "sshd needs /run/sshd, which cannot be made";
    if (getuid() == 0 && mkdir("/run/sshd", 0755) < 0 && errno != EEXIST)
        return -1;
    *why = "no user, directory or keys for the sshd lab";
    if (!pw || uname(&u) < 0 || !mkdtemp(l->dir))
        return -1;
    l->user = pw->pw_name;
    snprintf(l->arch, sizeof l->arch, "%s", u.machine);
    if (lab_sh("cd %s && chmod 755 . && mkdir fake nosudo && "
               "ssh-keygen -q -t ed25519 -N '' -f host_ed && ssh-keygen -q -t rsa -b 2048 -N '' -f "
               "host_rsa "
               "&& for k in id certified other ca other_host; do ssh-keygen -q -t ed25519 -N '' -f "
               "$k || "
               "exit 1; done && cp id.pub authorized && "
               "ssh-keygen -q -s ca -I test -n %s -V +1h certified.pub && "
               "ssh-keygen -q -t ed25519 -N secret -f locked",
               l->dir, l->user) != 0)
        return -1;
    lab_write(l, "fake/id", 0755, "#!/bin/sh\necho 1000\n");
    lab_write(l, "nosudo/id", 0755, "#!/bin/sh\necho 1000\n");
    lab_write(l, "fake/sudo", 0755, "#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n");
    lab_sh("ln -s \"$(command -v sh)\" %s/nosudo/sh", l->dir);
    char *sudoer = str_printf(
        "ForceCommand PATH=%s/fake:$PATH; export PATH; eval \"$SSH_ORIGINAL_COMMAND\"", l->dir);
    char *nosudo = str_printf(
        "ForceCommand PATH=%s/nosudo; export PATH; eval \"$SSH_ORIGINAL_COMMAND\"", l->dir);
    *why = "an sshd of the lab does not start";
    int rc =
        lab_sshd(l, LAB_MAIN, "") | lab_sshd(l, LAB_JUMP, "") |
        lab_sshd(l, LAB_NOISY,
                 "MaxAuthTries 1\nForceCommand echo Welcome to the cluster; printf 'half a line'; "
                 "eval \"$SSH_ORIGINAL_COMMAND\"") |
        lab_sshd(l, LAB_SUDOER, sudoer) | lab_sshd(l, LAB_NOSUDO, nosudo) |
        lab_sshd(l, LAB_STRICT, "AuthorizedKeysFile none\nTrustedUserCAKeys none");
    free(nosudo);
    free(sudoer);
    lab_config(l);
    l->agent = str_printf("%s/agent.sh", l->dir);
    l->agent_dir = str_printf("%s/store", l->dir);
    return rc;
}

static inline void lab_down(struct lab *l)
{
    for (int i = 0; i < LAB_SERVERS; i++) {
        if (l->pid[i] <= 0)
            continue;
        kill(l->pid[i], SIGTERM);
        waitpid(l->pid[i], NULL, 0);
    }
    struct err err = {0};
    if (str_has_prefix(l->dir, "/tmp/muster-sshd-"))
        fs_remove_tree(l->dir, &err);
    free(l->config);
    free(l->known_hosts);
    free(l->agent);
    free(l->agent_dir);
}

#endif
