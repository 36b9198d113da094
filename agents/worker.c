#include "agents/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/jsonx.h"

enum { CHILD_FD = 3, POLL_STEP_MS = 5 };

/* --- start ---------------------------------------------------------------------------------- */

/* A core file of a process with pinned GPU memory fills the disk.  Other limits stay as they are:
 * facts and stages report what this session gets. */
static void set_limits(void)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
}

static void reset_signals(void)
{
    static const int defaults[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD};
    sigset_t none;
    sigemptyset(&none);
    for (size_t i = 0; i < ARRAY_LEN(defaults); i++)
        signal(defaults[i], SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* stdout is the protocol's: whatever a library prints must not reach it. */
static int redirect(int link_fd)
{
    int null = open("/dev/null", O_RDONLY);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return -1;
    if (link_fd == CHILD_FD) {
        if (fcntl(link_fd, F_SETFD, FD_CLOEXEC) != 0)
            return -1;
    } else if (dup3(link_fd, CHILD_FD, O_CLOEXEC) < 0) {
        return -1;
    }
    return close_range(CHILD_FD + 1, ~0U, 0);
}

/* Runs the task and sends its final reply.  Returns the exit status: 0 once the reply is out. */
static int child_run(struct worker_link *link, const struct worker_task *task)
{
    struct err err = {0};
    json_t *data = NULL;
    struct protocol_writer reply = {0};
    if (task->run(link, task->arg, &data, &err) == 0)
        protocol_reply(&reply, 0, data);
    else
        protocol_reply_error(&reply, 0, &err);
    struct err lost = {0};
    json_t *line = NULL;
    int rc = jsonx_parse(reply.buf.data, reply.buf.len, "reply", &line, &lost);
    if (rc == 0)
        rc = worker_link_send(link, line, &lost);
    protocol_writer_release(&reply);
    return rc == 0 ? 0 : 1;
}

static _Noreturn void child_main(int link_fd, const struct worker_task *task, pid_t parent)
{
    setpgid(0, 0);
    if (!task->outlives_main) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1); /* it died before the line above */
    }
    reset_signals();
    set_limits();
    if (redirect(link_fd) != 0)
        _exit(1);
    struct worker_link *link = worker_link_create(CHILD_FD);
    int status = child_run(link, task);
    worker_link_destroy(link);
    _exit(status);
}

int worker_start(struct worker *w, const struct worker_task *task, struct err *err)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
        return err_set_errno(err, ERR_ENV, errno, "start a worker: socket pair");
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0)
        child_main(fds[1], task, parent);
    int errnum = errno;
    close(fds[1]);
    if (pid < 0) {
        close(fds[0]);
        return err_set_errno(err, ERR_ENV, errnum, "start a worker: fork");
    }
    /* Both sides set the group, so that neither can signal it before it exists. */
    setpgid(pid, pid);
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    *w = (struct worker){.pid = pid, .fd = fds[0]};
    return 0;
}

/* --- talk ----------------------------------------------------------------------------------- */

/* Takes what is there; 1 when more came. */
static int fill(struct worker *w, struct err *err)
{
    if (w->fd < 0 || w->in.ended)
        return 0;
    return protocol_fill(&w->in, w->fd, err);
}

int worker_next(struct worker *w, json_t **line, struct err *err)
{
    for (;;) {
        char *text = NULL;
        size_t len = 0;
        int found = protocol_next(&w->in, &text, &len, err);
        if (found < 0)
            return -1;
        if (found > 0) {
            if (jsonx_parse(text, len, "worker", line, err) != 0)
                return -1;
            return 1;
        }
        int got = fill(w, err);
        if (got <= 0)
            return got;
    }
}

void worker_send(struct worker *w, json_t *line)
{
    protocol_put(&w->out, line);
    if (w->fd >= 0)
        protocol_flush(&w->out, w->fd);
}

void worker_hang_up(struct worker *w)
{
    if (w->fd >= 0)
        shutdown(w->fd, SHUT_WR);
}

/* --- end ------------------------------------------------------------------------------------ */

bool worker_reap(struct worker *w)
{
    if (w->exited)
        return true;
    if (w->pid <= 0)
        return false;
    /* The group's number is surely its own only until the leader has been reaped. */
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)w->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
        return false;
    kill(-w->pid, SIGKILL);
    w->exited = waitpid(w->pid, &w->status, WNOHANG) == w->pid;
    return w->exited;
}

bool worker_wait(struct worker *w, int timeout_ms)
{
    for (int64_t until = now_ms() + timeout_ms; !worker_reap(w);) {
        if (now_ms() >= until)
            return false;
        poll(NULL, 0, POLL_STEP_MS);
    }
    return true;
}

void worker_kill(const struct worker *w)
{
    if (w->pid <= 0 || w->exited)
        return;
    kill(-w->pid, SIGKILL);
    kill(w->pid, SIGKILL); /* the group may not exist yet */
}

char *worker_end_text(const struct worker *w)
{
    if (WIFSIGNALED(w->status)) {
        const char *name = sigabbrev_np(WTERMSIG(w->status));
        if (name)
            return str_printf("ended by signal SIG%s", name);
        return str_printf("ended by signal %d", WTERMSIG(w->status));
    }
    return str_printf("ended with status %d and without a reply", WEXITSTATUS(w->status));
}

void worker_release(struct worker *w)
{
    close_fd(&w->fd);
    protocol_reader_release(&w->in);
    protocol_writer_release(&w->out);
}
