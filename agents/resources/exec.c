#include "agents/resources/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util.h"

char *exec_find(const struct fs_root *root, const char *program)
{
    static const char *const dirs[] = {"/usr/sbin", "/sbin", "/usr/bin", "/bin"};
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        char joined[4096];
        struct err ignored = {0};
        AUTO(free_str) char *path = str_printf("%s/%s", dirs[i], program);
        if (fs_join(root, path, joined, &ignored) == 0 && access(joined, X_OK) == 0)
            return str_dup(joined);
    }
    return NULL;
}

/* In the child, after fork: only async-signal-safe calls. */
static _Noreturn void become(const char *const argv[], int out, int text, int report)
{
    static const char *const environment[] = {"PATH=/usr/sbin:/sbin:/usr/bin:/bin", "LC_ALL=C",
                                              NULL};
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    /* Nothing may go on changing the node once its journal has no keeper. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int null = open("/dev/null", O_RDONLY);
    if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(text, 2) < 0)
        _exit(127);
    execve(argv[0], (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)environment);
    int errnum = errno;
    ssize_t n = write(report, &errnum, sizeof errnum);
    _exit(n > 0 ? 127 : 126);
}

/* Read what is there; false at the end of the stream. */
static bool drain(int fd, struct strbuf *into)
{
    char chunk[4096];
    ssize_t n = read(fd, chunk, sizeof chunk);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN;
    size_t room = EXEC_MAX_OUTPUT_BYTES - into->len;
    strbuf_add(into, chunk, (size_t)n < room ? (size_t)n : room);
    return n > 0;
}

/* Until both streams end or the deadline passes (-1). */
static int collect(const int fds[2], struct strbuf into[2], int64_t deadline_ms)
{
    struct pollfd set[2] = {{fds[0], POLLIN, 0}, {fds[1], POLLIN, 0}};
    while (set[0].fd >= 0 || set[1].fd >= 0) {
        int64_t left = deadline_ms - now_ms();
        if (left <= 0)
            return -1;
        int n = poll(set, 2, (int)left);
        for (int i = 0; n > 0 && i < 2; i++) {
            if (set[i].revents && !drain(set[i].fd, &into[i]))
                set[i].fd = -1;
        }
    }
    return 0;
}

/* A program that has closed its streams may still run until the deadline. */
static int reap(pid_t pid, int64_t deadline_ms, int *status)
{
    for (;;) {
        pid_t got = waitpid(pid, status, WNOHANG);
        if (got == pid)
            return 0;
        if (now_ms() >= deadline_ms)
            return -1;
        poll(NULL, 0, 5);
    }
}

static int open_pipes(int pipes[3][2], struct err *err)
{
    for (int i = 0; i < 3; i++) {
        if (pipe2(pipes[i], O_CLOEXEC) == 0)
            continue;
        err_set_errno(err, ERR_ENV, errno, "cannot make a pipe");
        for (int j = 0; j < i; j++) {
            close(pipes[j][0]);
            close(pipes[j][1]);
        }
        return -1;
    }
    return 0;
}

static void trim_end(struct strbuf *b)
{
    strbuf_puts(b, "");
    while (b->len > 0 && strchr(" \t\r\n", b->data[b->len - 1]))
        b->data[--b->len] = '\0';
}

static int finish(pid_t pid, const char *program, int pipes[3][2], int timeout_ms,
                  struct exec_result *result, struct err *err)
{
    struct strbuf streams[2] = {0};
    int64_t deadline_ms = now_ms() + timeout_ms;
    int status = 0, errnum = 0;
    const int fds[2] = {pipes[0][0], pipes[1][0]};
    if (collect(fds, streams, deadline_ms) != 0 || reap(pid, deadline_ms, &status) != 0) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        err_set(err, ERR_TIMEOUT, "%s did not end within %d ms and was killed", program,
                timeout_ms);
    } else if (read(pipes[2][0], &errnum, sizeof errnum) == (ssize_t)sizeof errnum) {
        err_set_errno(err, ERR_ENV, errnum, "cannot start %s", program);
    }
    if (err->kind != ERR_NONE) {
        strbuf_release(&streams[0]);
        strbuf_release(&streams[1]);
        return -1;
    }
    strbuf_puts(&streams[0], "");
    trim_end(&streams[1]);
    result->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    result->out = streams[0].data;
    result->text = streams[1].data;
    return 0;
}

int exec_run(const char *const argv[], int timeout_ms, struct exec_result *result, struct err *err)
{
    int pipes[3][2];
    if (open_pipes(pipes, err) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0)
        become(argv, pipes[0][1], pipes[1][1], pipes[2][1]);
    for (int i = 0; i < 3; i++)
        close(pipes[i][1]);
    int rc = pid < 0 ? err_set_errno(err, ERR_ENV, errno, "cannot start %s", argv[0])
                     : finish(pid, argv[0], pipes, timeout_ms, result, err);
    for (int i = 0; i < 3; i++)
        close(pipes[i][0]);
    return rc;
}

void exec_release(struct exec_result *result)
{
    free(result->out);
    free(result->text);
    *result = (struct exec_result){0};
}
