/* The hub: parent of all nodes and router between them. */
#include "farm.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/util.h"

extern char **environ;

enum { SETUPS_AT_ONCE = 16, START_LIMIT_MS = 60000, STRAY_LIMIT_MS = 2000, HUB_MTU = 65535 };

struct hub {
    struct farm *farm;
    pid_t *pids;
    int signals;  /* signalfd: TERM INT HUP CHLD */
    int tied;     /* pidfd of farm->tie, or -1 */
    int lock;     /* DIR/hub, locked */
    int gate[2];  /* tokens: so many nodes set themselves up at once */
    int words[2]; /* a node that fails writes why; end of file when every node runs its pid 1 */
};

/* True once somebody asked for the end; waits for it at most timeout_ms (-1: for ever).  A node
 * whose pid 1 ended is only reaped: the lab goes on without it. */
static bool wants_end(const struct hub *h, int timeout_ms)
{
    struct pollfd fds[] = {{.fd = h->signals, .events = POLLIN}, {.fd = h->tied, .events = POLLIN}};
    for (;;) {
        int ready = poll(fds, ARRAY_LEN(fds), timeout_ms);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return false;
        if (fds[1].revents)
            return true;
        struct signalfd_siginfo info;
        if (read(h->signals, &info, sizeof info) != (ssize_t)sizeof info)
            return true;
        if (info.ssi_signo != SIGCHLD)
            return true;
    }
}

static int write_knob(const char *path, const char *value, struct err *err)
{
    AUTO(close_fd) int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, value, strlen(value)) < 0)
        return err_set_errno(err, ERR_ENV, errno, "cannot write %s", path);
    return 0;
}

static int enter_namespaces(const struct hub *h, struct err *err)
{
    struct farm *f = h->farm;
    if (unshare(CLONE_NEWNS | CLONE_NEWNET))
        return err_set_errno(err, ERR_ENV, errno, "cannot make mount and network namespaces");
    AUTO(free_str) char *runtime = farm_path(f, "rt");
    AUTO(free_str) char *hosts = farm_path(f, "hosts");
    AUTO(free_str) char *sysctl = farm_path(f, "rt/sysctl");
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
        return err_set_errno(err, ERR_ENV, errno, "cannot make the mounts private");
    if (mkdir(runtime, 0755) && errno != EEXIST)
        return err_set_errno(err, ERR_ENV, errno, "cannot make %s", runtime);
    if (mount("tmpfs", runtime, "tmpfs", 0, "mode=755,nr_inodes=0"))
        return err_set_errno(err, ERR_ENV, errno, "cannot mount a tmpfs on %s", runtime);
    if (mount(hosts, "/etc/hosts", NULL, MS_BIND, NULL))
        return err_set_errno(err, ERR_ENV, errno, "cannot mount %s on /etc/hosts", hosts);
    return farm_sysctl_copy(sysctl, err);
}

static int set_router(struct err *err)
{
    static const char *const knobs[][2] = {
        {"/proc/sys/net/ipv4/ip_forward", "1"},
        {"/proc/sys/net/ipv4/conf/default/proxy_arp", "1"},
        {"/proc/sys/net/core/somaxconn", "4096"},
    };
    for (size_t i = 0; i < ARRAY_LEN(knobs); i++)
        if (write_knob(knobs[i][0], knobs[i][1], err))
            return -1;
    return farm_link_up("lo", NULL, err);
}

static int run_ip(const char *batch, struct err *err)
{
    char *argv[] = {"ip", "-batch", (char *)batch, NULL};
    posix_spawnattr_t attr;
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attr, &none);
    pid_t pid = 0;
    int rc = posix_spawnp(&pid, argv[0], NULL, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    if (rc)
        return err_set_errno(err, ERR_ENV, rc, "cannot run ip (package iproute2 or iproute)");
    int status = 0;
    if (waitpid(pid, &status, 0) < 0 || status != 0)
        return err_set(err, ERR_ENV,
                       "ip -batch %s failed: veth pairs need CAP_NET_ADMIN and the "
                       "kernel's veth driver",
                       batch);
    return 0;
}

/* A veth pair and a host route per node.  The hub's end takes packets of any size, so that a node
 * may raise its own MTU. */
static int make_links(const struct hub *h, struct err *err)
{
    const struct farm *f = h->farm;
    AUTO(free_str) char *path = farm_path(f, "links");
    struct strbuf out = {0};
    strbuf_puts(&out, "addr add 10.77.0.1/32 dev lo\n");
    for (unsigned i = 0; i < f->count; i++) {
        char address[16], mac[24];
        farm_node_address(i, address);
        snprintf(mac, sizeof mac, "02:4d:01:00:%02x:%02x", i >> 8 & 255, i & 255);
        strbuf_printf(
            &out,
            "link add v%u address 02:4d:00:00:00:00 mtu %d type veth peer name eth0 "
            "address %s netns %d\nlink set v%u up\nroute add %s/32 dev v%u src 10.77.0.1\n"
            "neigh add %s lladdr %s dev v%u nud permanent\n",
            i, HUB_MTU, mac, (int)h->pids[i], i, address, i, address, mac, i);
    }
    int rc = farm_put(path, 0644, err, "%s", out.data);
    strbuf_release(&out);
    if (rc || run_ip(path, err))
        return -1;
    /* The hub answers for the other nodes; the usual delay of such an answer is 0.8 s at random. */
    for (unsigned i = 0; i < f->count; i++) {
        AUTO(free_str) char *knob = str_printf("/proc/sys/net/ipv4/neigh/v%u/proxy_delay", i);
        if (write_knob(knob, "0", err))
            return -1;
    }
    return 0;
}

/* In the new process: wait for a token, build, pass the token on, become pid 1's program. */
static void node_main(const struct hub *h, unsigned index)
{
    struct err err = {0};
    char token = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int pass = fcntl(h->gate[1], F_DUPFD_CLOEXEC, 3);
    ssize_t got = 0;
    while ((got = read(h->gate[0], &token, 1)) < 0 && errno == EINTR)
        ;
    if (got != 1 || token == 'x')
        _exit(1);
    int failed = farm_node_build(h->farm, index, &err);
    if (write(pass, "g", 1) != 1)
        _exit(1);
    if (!failed)
        farm_node_exec(h->farm, &err);
    char name[FARM_NAME_BYTES];
    farm_node_name(h->farm, index, name);
    AUTO(free_str) char *words = str_printf("%s: %s\n", name, err.text);
    _exit(write(h->words[1], words, strlen(words)) < 0 ? 2 : 1);
}

static int start_nodes(struct hub *h, struct err *err)
{
    const struct farm *f = h->farm;
    if (pipe2(h->gate, O_CLOEXEC) || pipe2(h->words, O_CLOEXEC))
        return err_set_errno(err, ERR_ENV, errno, "pipe");
    const unsigned long flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWUTS |
                                CLONE_NEWIPC | (unsigned long)SIGCHLD;
    for (unsigned i = 0; i < f->count; i++) {
        long pid = syscall(SYS_clone, flags, 0, 0, 0, 0);
        if (pid < 0)
            return err_set_errno(err, ERR_ENV, errno, "cannot make the namespaces of node %u",
                                 i + 1);
        if (pid == 0)
            node_main(h, i);
        h->pids[i] = (pid_t)pid;
        if (farm_dir_add_pid(f, h->pids[i], err))
            return -1;
    }
    if (make_links(h, err))
        return -1;
    for (int i = 0; i < SETUPS_AT_ONCE; i++)
        if (write(h->gate[1], "g", 1) != 1)
            return err_set_errno(err, ERR_ENV, errno, "pipe");
    close_fd(&h->words[1]);
    return 0;
}

/* Collects what failing nodes say; none says anything when all is well. */
static int wait_built(struct hub *h, struct err *err)
{
    char words[ERR_TEXT_BYTES] = "";
    size_t len = 0;
    for (int64_t limit = now_ms() + START_LIMIT_MS; now_ms() < limit;) {
        if (wants_end(h, 0))
            return err_set(err, ERR_ENV, "stopped while the nodes started");
        struct pollfd fd = {.fd = h->words[0], .events = POLLIN};
        if (poll(&fd, 1, 100) <= 0)
            continue;
        char chunk[256];
        ssize_t got = read(h->words[0], chunk, sizeof chunk);
        if (got <= 0)
            return len ? err_set(err, ERR_ENV, "%.*s", (int)strcspn(words, "\n"), words) : 0;
        size_t room = sizeof words - 1 - len;
        size_t take = (size_t)got < room ? (size_t)got : room;
        memcpy(words + len, chunk, take);
        len += take;
    }
    return err_set(err, ERR_TIMEOUT, "the nodes were not set up within %d s",
                   START_LIMIT_MS / 1000);
}

static bool answers(const char *address)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(22)};
    inet_pton(AF_INET, address, &to.sin_addr);
    AUTO(close_fd) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof to) == 0;
}

/* The kernel tells an interface's state a moment after the link is there; who reads it in between
 * would see a link that is down. */
static bool link_is_up(pid_t node)
{
    struct fs_root root;
    snprintf(root.path, sizeof root.path, "/proc/%d/root", (int)node);
    AUTO(free_str) char *state = fs_read_line_at(&root, "/sys/class/net/eth0/operstate");
    return state && strcmp(state, "up") == 0;
}

static int wait_answers(struct hub *h, struct err *err)
{
    int64_t limit = now_ms() + START_LIMIT_MS;
    for (unsigned i = 0; i < h->farm->count; i++) {
        char name[FARM_NAME_BYTES], address[16];
        farm_node_name(h->farm, i, name);
        farm_node_address(i, address);
        while (!link_is_up(h->pids[i]) || !answers(address)) {
            if (wants_end(h, 2))
                return err_set(err, ERR_ENV, "stopped while the nodes started");
            if (now_ms() > limit || waitpid(h->pids[i], NULL, WNOHANG) == h->pids[i])
                return err_set(err, ERR_ENV, "%s: its link or its sshd did not come up", name);
        }
    }
    return 0;
}

static int start(struct hub *h, struct err *err)
{
    if ((h->lock = farm_dir_create(h->farm, err)) < 0)
        return -1;
    if (farm_dir_fill(h->farm, err) || enter_namespaces(h, err) || set_router(err))
        return -1;
    /* A systemd takes about five inotify instances; the usual 128 are used up at 25 nodes.  The
     * limit is the user's, counted over all namespaces. */
    if (h->farm->systemd && h->farm->count > 20 &&
        write_knob("/proc/sys/fs/inotify/max_user_instances", "65536", err))
        return -1;
    if (start_nodes(h, err) || wait_built(h, err) || wait_answers(h, err))
        return -1;
    return 0;
}

/* Ends what runs in the hub's network by way of `lab-farm ctl`. */
static size_t signal_strays(int signo)
{
    struct stat mine, other;
    size_t found = 0;
    DIR *proc = opendir("/proc");
    if (!proc || stat("/proc/self/ns/net", &mine)) {
        if (proc)
            closedir(proc);
        return 0;
    }
    for (struct dirent *e; (e = readdir(proc));) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        AUTO(free_str) char *path = str_printf("/proc/%d/ns/net", (int)pid);
        if (pid <= 0 || pid == getpid() || stat(path, &other) || other.st_ino != mine.st_ino)
            continue;
        found++;
        kill(pid, signo);
    }
    closedir(proc);
    return found;
}

static void end_strays(void)
{
    int64_t limit = now_ms() + STRAY_LIMIT_MS;
    int signo = SIGTERM;
    while (signal_strays(signo) > 0) {
        usleep(10000);
        signo = now_ms() > limit ? SIGKILL : 0;
        if (now_ms() > limit + STRAY_LIMIT_MS)
            return;
    }
}

/* Leaf first; the processes in it are gone by now. */
static void remove_cgroups(const char *path, int depth)
{
    DIR *dir = opendir(path);
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));) {
        AUTO(free_str) char *sub = str_printf("%s/%s", path, e->d_name);
        if (e->d_type == DT_DIR && e->d_name[0] != '.' && depth < 16)
            remove_cgroups(sub, depth + 1);
    }
    closedir(dir);
    rmdir(path);
}

static void stop(struct hub *h, bool in_namespace)
{
    for (unsigned i = 0; i < h->farm->count; i++)
        if (h->pids[i] > 0)
            kill(h->pids[i], SIGKILL);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
    if (in_namespace)
        end_strays();
    AUTO(free_str) char *cgroup = h->farm->systemd ? farm_cgroup(h->farm) : NULL;
    if (cgroup)
        remove_cgroups(cgroup, 0);
    if (h->lock < 0)
        return; /* nothing there is ours */
    AUTO(free_str) char *runtime = farm_path(h->farm, "rt");
    if (in_namespace)
        umount2(runtime, MNT_DETACH);
    farm_dir_remove(h->farm);
}

static int prepare(struct hub *h, struct err *err)
{
    setsid();
    umask(022);
    prctl(PR_SET_NAME, "lab-farm-hub");
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGPIPE, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    const int ours[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD};
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        sigaddset(&set, ours[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    h->signals = signalfd(-1, &set, SFD_CLOEXEC);
    if (h->signals < 0)
        return err_set_errno(err, ERR_ENV, errno, "signalfd");
    if (h->farm->tie > 0) {
        h->tied = (int)syscall(SYS_pidfd_open, h->farm->tie, 0);
        if (h->tied < 0)
            return err_set_errno(err, ERR_ENV, errno, "--tie: process %d", (int)h->farm->tie);
    }
    return 0;
}

/* Tells `up` how it went and waits for its nod: an `up` that died meanwhile takes the farm along.
 */
static int answer(int sock, const struct err *err)
{
    int status = err->kind == ERR_NONE ? 0 : 1;
    if (err->native == EPERM || err->native == EACCES || err->native == ENODEV)
        status = FARM_EXIT_CANNOT;
    prctl(PR_SET_PDEATHSIG, 0);
    if (dprintf(sock, "%c%s", status, err->text) < 0)
        return 1;
    char nod = 0;
    ssize_t got = 0;
    shutdown(sock, SHUT_WR);
    while ((got = read(sock, &nod, 1)) < 0 && errno == EINTR)
        ;
    return got == 1 ? status : 1;
}

static void let_go_of_terminal(void)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3 && nothing >= 0; fd++)
        dup2(nothing, fd);
    close_fd(&nothing);
    if (chdir("/"))
        _exit(1);
}

int farm_hub_run(struct farm *f, int sock)
{
    struct err err = {0};
    struct hub h = {
        .farm = f, .signals = -1, .tied = -1, .lock = -1, .gate = {-1, -1}, .words = {-1, -1}};
    struct stat before, after;
    h.pids = mem_zero(f->count, sizeof *h.pids);
    f->hub = getpid();
    int failed = stat("/proc/self/ns/net", &before) || prepare(&h, &err) || start(&h, &err);
    int status = failed && err.kind == ERR_NONE ? 1 : answer(sock, &err);
    close(sock);
    if (status == 0) {
        close_fd(&h.gate[0]);
        close_fd(&h.gate[1]);
        let_go_of_terminal();
        while (!wants_end(&h, -1))
            ;
    }
    bool moved = stat("/proc/self/ns/net", &after) == 0 && after.st_ino != before.st_ino;
    stop(&h, moved);
    free(h.pids);
    return status;
}
