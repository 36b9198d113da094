/* lab-farm: the command line of the node farm. */
#include "farm.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/units.h"
#include "common/util.h"

enum { DOWN_LIMIT_MS = 60000 };

static const char usage_text[] =
    "usage: lab-farm up N [--dir DIR] [--init sshd|systemd] [--prefix NAME] [--pam] [--sudo] "
    "[--tie PID]\n"
    "       lab-farm down   [--dir DIR]            end the farm and remove what it made\n"
    "       lab-farm status [--dir DIR]            nodes, addresses, pid and state of each\n"
    "       lab-farm ctl    [--dir DIR] CMD...     run CMD where every node is reached by name\n"
    "       lab-farm in     [--dir DIR] NODE CMD...   run CMD as root inside a node (number or "
    "name)\n"
    "DIR is $MUSTER_FARM_DIR or /run/muster-farm; it gets hosts, known_hosts, keys/id, "
    "ssh_config,\n"
    "nodes and pids.  --tie ends the farm with process PID.  Exit status 77: this machine does "
    "not\n"
    "permit a farm.\n";

static int complain(const struct err *err)
{
    fprintf(stderr, "lab-farm: %s\n", err->text);
    return err_exit_status(err->kind);
}

static int usage(const char *what)
{
    fprintf(stderr, "lab-farm: %s\n%s", what, usage_text);
    return 2;
}

/* ---- up ---- */

/* Programs that a node runs; a test is better off with one clear line than with a dead node. */
static int check_tools(const struct farm *f)
{
    const struct {
        const char *path, *package;
        bool wanted;
    } tools[] = {
        {"/usr/sbin/sshd", "openssh-server", true},
        {"/usr/lib/systemd/systemd", "systemd", f->systemd},
        {"/usr/bin/sudo", "sudo", f->sudo},
    };
    for (size_t i = 0; i < ARRAY_LEN(tools); i++)
        if (tools[i].wanted && access(tools[i].path, X_OK) != 0) {
            fprintf(stderr, "lab-farm: %s is missing; install the package %s\n", tools[i].path,
                    tools[i].package);
            return FARM_EXIT_CANNOT;
        }
    if (geteuid() == 0)
        return 0;
    fprintf(stderr, "lab-farm: the lab makes namespaces and mounts and must run as root\n");
    return FARM_EXIT_CANNOT;
}

static int report_start(const struct farm *f, int status, const char *text, int64_t began_ms)
{
    if (status == FARM_EXIT_CANNOT)
        fprintf(stderr,
                "lab-farm: %s\nlab-farm: a farm needs root with CAP_SYS_ADMIN, CAP_NET_ADMIN and "
                "CAP_MKNOD, and overlayfs and veth in the kernel; in a container: "
                "docker run --privileged\n",
                text);
    else if (status != 0)
        fprintf(stderr, "lab-farm: %s\n", *text ? text : "the hub ended without a word");
    else
        printf("%u nodes up in %s after %.2f s\n", f->count, f->dir,
               (double)(now_ms() - began_ms) / 1000);
    return status;
}

int farm_up(struct farm *f)
{
    int64_t began_ms = now_ms();
    int status = check_tools(f), pair[2];
    if (status)
        return status;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
        perror("lab-farm: socketpair");
        return 3;
    }
    pid_t pid = fork();
    if (pid == 0) {
        /* Everything else that the caller had open (a pipe to a test driver) must not live on. */
        if (dup3(pair[1], 3, O_CLOEXEC) < 0 && pair[1] != 3)
            _exit(3);
        close_range(4, ~0U, 0);
        _exit(farm_hub_run(f, 3));
    }
    close(pair[1]);
    if (pid < 0) {
        perror("lab-farm: fork");
        return 3;
    }
    char words[1 + ERR_TEXT_BYTES] = {1};
    size_t len = 0;
    for (ssize_t got; len < sizeof words - 1; len += (size_t)got) {
        got = read(pair[0], words + len, sizeof words - 1 - len);
        if (got < 0 && errno == EINTR)
            got = 0;
        else if (got <= 0)
            break;
    }
    status = len ? words[0] : 1;
    if (write(pair[0], "k", 1) != 1)
        status = status ? status : 1;
    if (status)
        waitpid(pid, NULL, 0);
    return report_start(f, status, words + 1, began_ms);
}

/* ---- down, status, ctl, in ---- */

int farm_down(struct farm *f)
{
    char prefix[FARM_NAME_BYTES];
    if (farm_dir_load(f, prefix)) {
        AUTO(free_str) char *hub = farm_path(f, "hub");
        if (access(hub, F_OK) != 0)
            return 0;
        farm_dir_remove(f); /* the hub was killed: its files are left */
        return 0;
    }
    AUTO(close_fd) int fd = (int)syscall(SYS_pidfd_open, f->hub, 0);
    if (fd < 0 || syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0)) {
        if (errno == ESRCH)
            return 0;
        fprintf(stderr, "lab-farm: cannot end the hub, process %d: %s\n", (int)f->hub,
                strerror(errno));
        return 3;
    }
    struct pollfd end = {.fd = fd, .events = POLLIN};
    if (poll(&end, 1, DOWN_LIMIT_MS) == 1)
        return 0;
    fprintf(stderr, "lab-farm: the hub, process %d, did not end within %d s\n", (int)f->hub,
            DOWN_LIMIT_MS / 1000);
    return 5;
}

static int show_status(const struct farm *f)
{
    unsigned lost = 0;
    for (unsigned i = 0; i < f->count; i++) {
        char name[FARM_NAME_BYTES], address[16];
        farm_node_name(f, i, name);
        farm_node_address(i, address);
        pid_t pid = farm_dir_pid(f, i);
        bool up = pid > 0 && kill(pid, 0) == 0;
        lost += !up;
        printf("%-12s %-14s %8d  %s\n", name, address, (int)pid, up ? "up" : "ended");
    }
    return lost ? 1 : 0;
}

static int enter(pid_t pid, int namespaces)
{
    AUTO(close_fd) int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd >= 0 && setns(fd, namespaces) == 0)
        return 0;
    fprintf(stderr, "lab-farm: cannot enter the namespaces of process %d: %s\n", (int)pid,
            strerror(errno));
    return -1;
}

static int exec_command(char **argv)
{
    execvp(argv[0], argv);
    fprintf(stderr, "lab-farm: cannot run %s: %s\n", argv[0], strerror(errno));
    return errno == ENOENT ? 127 : 126;
}

static int run_ctl(const struct farm *f, char **argv)
{
    AUTO(free_str) char *cwd = getcwd(NULL, 0);
    if (enter(f->hub, CLONE_NEWNET | CLONE_NEWNS))
        return 3;
    if (!cwd || chdir(cwd)) {
        fprintf(stderr, "lab-farm: cannot go back to %s: %s\n", cwd ? cwd : "the working directory",
                strerror(errno));
        return 3;
    }
    setenv("MUSTER_FARM_DIR", f->dir, 1);
    return exec_command(argv);
}

static int find_node(const struct farm *f, const char *word)
{
    struct err ignored = {0};
    int64_t number = 0;
    bool is_number = units_parse_int(word, 1, f->count, &number, &ignored) == 0;
    for (unsigned i = 0; i < f->count; i++) {
        char name[FARM_NAME_BYTES];
        farm_node_name(f, i, name);
        if (strcmp(name, word) == 0 || (is_number && number == (int64_t)i + 1))
            return (int)i;
    }
    return -1;
}

/* What a process of the node's own would have, and nothing of the caller's. */
static void set_node_environment(void)
{
    const char *term = getenv("TERM");
    AUTO(free_str) char *kept = str_dup(term ? term : "dumb");
    clearenv();
    setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
    setenv("HOME", "/root", 1);
    setenv("USER", "root", 1);
    setenv("TERM", kept, 1);
}

static int run_in(const struct farm *f, const char *word, char **argv)
{
    int index = find_node(f, word);
    if (index < 0) {
        fprintf(stderr, "lab-farm: no node '%s'; there are 1 to %u\n", word, f->count);
        return 2;
    }
    pid_t init = farm_dir_pid(f, (unsigned)index);
    int all =
        CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWCGROUP;
    if (init <= 0 || enter(init, all) || chdir("/"))
        return 3;
    pid_t child = fork(); /* a pid namespace is entered by a child only */
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        set_node_environment();
        _exit(exec_command(argv));
    }
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    /* No exit handlers: children of this process, a leak checker's too, land in the node's pid
     * namespace, where a checker waits for ever. */
    _exit(child < 0 ? 3 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

/* ---- command line ---- */

struct settings {
    const char *dir, *init, *tie;
    struct farm farm;
};

/* Takes options from the front of *argv; returns 0, or 2 after a complaint. */
static int take_options(struct settings *s, char ***argv)
{
    const struct {
        const char *name;
        const char **value;
        bool *flag;
    } rows[] = {
        {"--dir", &s->dir, NULL},      {"--init", &s->init, NULL},
        {"--tie", &s->tie, NULL},      {"--prefix", &s->farm.prefix, NULL},
        {"--pam", NULL, &s->farm.pam}, {"--sudo", NULL, &s->farm.sudo},
    };
    for (; **argv && (**argv)[0] == '-'; (*argv)++) {
        if (strcmp(**argv, "--") == 0) {
            (*argv)++;
            return 0;
        }
        size_t i = 0;
        while (i < ARRAY_LEN(rows) && strcmp(rows[i].name, **argv) != 0)
            i++;
        if (i == ARRAY_LEN(rows) || (rows[i].value && !(*argv)[1])) {
            AUTO(free_str)
            char *what = str_printf(
                "%s '%s'", i < ARRAY_LEN(rows) ? "a value is missing after" : "unknown option",
                **argv);
            return usage(what);
        }
        if (rows[i].flag)
            *rows[i].flag = true;
        else
            *rows[i].value = *++*argv;
    }
    return 0;
}

static int check_settings(struct settings *s, struct err *err)
{
    struct farm *f = &s->farm;
    int64_t tie = 0;
    const char *dir = s->dir;
    AUTO(free_str) char *cwd = getcwd(NULL, 0);
    if (snprintf(f->dir, sizeof f->dir, "%s%s%s",
                 dir[0] == '/' ? ""
                 : cwd         ? cwd
                               : "",
                 dir[0] == '/' ? "" : "/", dir) >= (int)sizeof f->dir)
        return err_set(err, ERR_USAGE, "--dir: '%s' is too long", dir);
    if (strpbrk(f->dir, ":,\\ \t\n"))
        return err_set(err, ERR_USAGE, "--dir: '%s' may not hold blanks, ',', ':' or '\\'", f->dir);
    if (strcmp(s->init, "sshd") != 0 && strcmp(s->init, "systemd") != 0)
        return err_set(err, ERR_USAGE, "--init: '%s' is neither sshd nor systemd", s->init);
    f->systemd = strcmp(s->init, "systemd") == 0;
    if (s->tie && units_parse_int(s->tie, 1, 1 << 30, &tie, err))
        return err_wrap(err, "--tie: ");
    f->tie = (pid_t)tie;
    size_t len = strlen(f->prefix);
    if (len < 1 || len > 32 || strspn(f->prefix, "abcdefghijklmnopqrstuvwxyz0123456789-") != len)
        return err_set(err, ERR_USAGE, "--prefix: '%s' is not 1 to 32 small letters, digits or '-'",
                       f->prefix);
    return 0;
}

static int run(struct settings *s, const char *verb, const char *operand, char **rest)
{
    struct farm *f = &s->farm;
    struct err err = {0};
    char prefix[FARM_NAME_BYTES];
    if (check_settings(s, &err))
        return complain(&err);
    if (strcmp(verb, "up") == 0) {
        int64_t count = 0;
        if (units_parse_int(operand, 1, FARM_MAX_NODES, &count, &err)) {
            err_wrap(&err, "number of nodes: ");
            return complain(&err);
        }
        f->count = (unsigned)count;
        return farm_up(f);
    }
    if (strcmp(verb, "down") == 0)
        return farm_down(f);
    if (farm_dir_load(f, prefix)) {
        fprintf(stderr, "lab-farm: no farm is up in %s\n", f->dir);
        return 1;
    }
    if (strcmp(verb, "status") == 0)
        return show_status(f);
    return operand ? run_in(f, operand, rest) : run_ctl(f, rest);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *verb;
        bool operand, command;
    } verbs[] = {{"up", true, false},
                 {"down", false, false},
                 {"status", false, false},
                 {"ctl", false, true},
                 {"in", true, true}};
    const char *dir = getenv("MUSTER_FARM_DIR");
    struct settings s = {
        .dir = dir ? dir : "/run/muster-farm", .init = "sshd", .farm = {.prefix = "gpu"}};
    const char *verb = argc > 1 ? argv[1] : "";
    if (strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0)
        return fputs(usage_text, stdout) < 0;
    size_t i = 0;
    while (i < ARRAY_LEN(verbs) && strcmp(verbs[i].verb, verb) != 0)
        i++;
    if (i == ARRAY_LEN(verbs))
        return usage("say up, down, status, ctl or in");
    char **rest = argv + 2;
    const char *operand = NULL;
    if (take_options(&s, &rest))
        return 2;
    if (verbs[i].operand && !(operand = *rest))
        return usage(verbs[i].command ? "which node?" : "how many nodes?");
    if (operand) {
        rest++;
        if (take_options(&s, &rest))
            return 2;
    }
    if (verbs[i].command && !*rest)
        return usage("which command?");
    if (!verbs[i].command && *rest)
        return usage("too many words");
    return run(&s, verb, operand, rest);
}
