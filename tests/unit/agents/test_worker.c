/* Workers: what they send arrives, however they end is told, and nothing of them stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agents/worker.h"
#include "common/fs.h"
#include "common/jsonx.h"

enum { PATIENCE_MS = 60000 };

static struct worker start(int (*run)(struct worker_link *, void *, json_t **, struct err *),
                           void *arg, bool outlives)
{
    struct worker w;
    struct err err = {0};
    struct worker_task task = {.run = run, .arg = arg, .outlives_main = outlives};
    assert_int_equal(worker_start(&w, &task, &err), 0);
    return w;
}

/* Next line, waiting for it; NULL at the end. */
static json_t *line_of(struct worker *w)
{
    for (;;) {
        json_t *line = NULL;
        struct err err = {0};
        int got = worker_next(w, &line, &err);
        assert_true(got >= 0);
        if (got == 1)
            return line;
        if (w->in.ended)
            return NULL;
        struct pollfd p = {.fd = w->fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
    }
}

static void expect_text(json_t *line, const char *text)
{
    assert_non_null(line);
    AUTO(free_str) char *got = jsonx_canonical(line);
    assert_string_equal(got, text);
    json_decref(line);
}

static void expect_end(struct worker *w, const char *text)
{
    assert_true(worker_wait(w, PATIENCE_MS));
    AUTO(free_str) char *got = worker_end_text(w);
    assert_string_equal(got, text);
    worker_release(w);
}

/* --- talk ----------------------------------------------------------------------------------- */

static int task_echo(struct worker_link *link, void *arg, json_t **data, struct err *err)
{
    for (int i = 0; i < 2; i++) {
        json_t *line = NULL;
        if (worker_link_receive(link, PATIENCE_MS, &line, err) != 0)
            return -1;
        json_t *event = json_pack("{s:s,s:o}", "event", "echo", "got", line);
        if (worker_link_send(link, event, err) != 0)
            return -1;
    }
    *data = json_pack("{s:s}", "arg", (const char *)arg);
    return 0;
}

static void relays_both_ways(void **state)
{
    struct worker w = start(task_echo, "forty-two", false);
    worker_send(&w, json_pack("{s:i}", "n", 1));
    worker_send(&w, json_pack("{s:i}", "n", 2));
    expect_text(line_of(&w), "{\"event\":\"echo\",\"got\":{\"n\":1}}");
    expect_text(line_of(&w), "{\"event\":\"echo\",\"got\":{\"n\":2}}");
    expect_text(line_of(&w), "{\"data\":{\"arg\":\"forty-two\"},\"id\":0,\"ok\":true,\"v\":1}");
    assert_null(line_of(&w));
    expect_end(&w, "ended with status 0 and without a reply");
}

static int task_fail(struct worker_link *link, void *arg, json_t **data, struct err *err)
{
    return err_set(err, ERR_DATA, "no such thing");
}

static void relays_an_error(void **state)
{
    struct worker w = start(task_fail, NULL, false);
    expect_text(line_of(&w), "{\"error\":{\"kind\":\"data\",\"text\":\"no such thing\"},\"id\":0,"
                             "\"ok\":false,\"v\":1}");
    expect_end(&w, "ended with status 0 and without a reply");
}

/* More than a socket holds: the worker waits for room, and the last line is whole. */
static int task_flood(struct worker_link *link, void *arg, json_t **data, struct err *err)
{
    AUTO(free_str) char *text = mem_zero(1, 100001);
    memset(text, 'x', 100000);
    for (int i = 0; i < 100; i++)
        if (worker_link_send(link, json_pack("{s:s,s:i}", "t", text, "i", i), err) != 0)
            return -1;
    *data = json_object();
    return 0;
}

static void relays_a_flood(void **state)
{
    struct worker w = start(task_flood, NULL, false);
    for (int i = 0; i < 100; i++) {
        json_t *line = line_of(&w);
        assert_int_equal(jsonx_int_or(line, "i", -1), i);
        json_decref(line);
    }
    expect_text(line_of(&w), "{\"data\":{},\"id\":0,\"ok\":true,\"v\":1}");
    expect_end(&w, "ended with status 0 and without a reply");
}

/* A line that is not JSON on the worker's socket is an error, not a crash of the agent. */
static int task_garbage(struct worker_link *link, void *arg, json_t **data, struct err *err)
{
    _exit(write(worker_link_fd(link), "oops\n", 5) == 5 ? 3 : 4);
}

static void refuses_garbage(void **state)
{
    struct worker w = start(task_garbage, NULL, false);
    struct pollfd p = {.fd = w.fd, .events = POLLIN};
    json_t *line = NULL;
    struct err err = {0};
    assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
    assert_int_equal(worker_next(&w, &line, &err), -1);
    assert_int_equal(err.kind, ERR_DATA);
    assert_string_equal(err.text, "worker:1:4: '[' or '{' expected near 'oops'");
    expect_end(&w, "ended with status 3 and without a reply");
}

/* --- surroundings --------------------------------------------------------------------------- */

static int task_look(struct worker_link *link, void *arg, json_t **data, struct err *err)
{
    char byte, in[64] = "";
    struct rlimit core;
    struct stat out, errs;
    sigset_t mask;
    getrlimit(RLIMIT_CORE, &core);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    ssize_t len = readlink("/proc/self/fd/0", in, sizeof in - 1);
    int inherited = fcntl(*(int *)arg, F_GETFD);
    fstat(STDOUT_FILENO, &out);
    fstat(STDERR_FILENO, &errs);
    puts("a library prints");
    *data = json_pack("{s:s#,s:i,s:b,s:b,s:i,s:b,s:b}", "in", in, (int)len, "read",
                      (int)read(0, &byte, 1), "inherited", inherited >= 0, "out_is_err",
                      out.st_ino == errs.st_ino && out.st_dev == errs.st_dev, "core",
                      (int)core.rlim_max, "term_blocked", sigismember(&mask, SIGTERM), "leader",
                      getpgid(0) == getpid());
    return 0;
}

static void isolates_the_worker(void **state)
{
    sigset_t block, before;
    int low = open("/dev/null", O_RDONLY);
    int fd = fcntl(low, F_DUPFD, 50); /* without FD_CLOEXEC, as a library would */
    close(low);
    assert_true(fd >= 0);
    sigemptyset(&block);
    sigaddset(&block, SIGTERM);
    sigprocmask(SIG_BLOCK, &block, &before);
    struct worker w = start(task_look, &fd, false);
    sigprocmask(SIG_SETMASK, &before, NULL);
    expect_text(line_of(&w),
                "{\"data\":{\"core\":0,\"in\":\"/dev/null\",\"inherited\":false,"
                "\"leader\":true,\"out_is_err\":true,\"read\":0,\"term_blocked\":false},"
                "\"id\":0,\"ok\":true,\"v\":1}");
    expect_end(&w, "ended with status 0 and without a reply");
    close(fd);
}

/* --- ends ----------------------------------------------------------------------------------- */

static int task_signal(struct worker_link *link, void *arg, json_t **data, struct err *err)
{
    signal(*(int *)arg, SIG_DFL); /* sanitizers catch some of them */
    raise(*(int *)arg);
    return 0;
}

static void names_the_signal(void **state)
{
    static const struct {
        int number;
        const char *text;
    } rows[] = {
        {SIGSEGV, "ended by signal SIGSEGV"}, {SIGKILL, "ended by signal SIGKILL"},
        {SIGBUS, "ended by signal SIGBUS"},   {SIGABRT, "ended by signal SIGABRT"},
        {SIGTERM, "ended by signal SIGTERM"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int number = rows[i].number;
        struct worker w = start(task_signal, &number, false);
        assert_null(line_of(&w));
        expect_end(&w, rows[i].text);
    }
}

/* Sleeps with a child of its own, whose pid it tells. */
static int task_hang(struct worker_link *link, void *arg, json_t **data, struct err *err)
{
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    if (worker_link_send(link, json_pack("{s:i}", "child", (int)child), err) != 0)
        return -1;
    if (arg)
        return err_set(err, ERR_ENV, "leaves its child behind");
    for (;;)
        pause();
}

static void wait_gone(pid_t pid)
{
    for (int64_t until = now_ms() + PATIENCE_MS; kill(pid, 0) == 0;) {
        AUTO(free_str) char *path = str_printf("/proc/%d/stat", (int)pid);
        AUTO(free_str) char *stat = NULL;
        struct err err = {0};
        /* A zombie that waits for init is dead as well. */
        if (fs_read(path, 4096, &stat, NULL, &err) == 0 && strstr(stat, ") Z "))
            return;
        assert_true(now_ms() < until);
        poll(NULL, 0, 5);
    }
}

static void kills_the_whole_group(void **state)
{
    struct worker w = start(task_hang, NULL, false);
    json_t *line = line_of(&w);
    pid_t child = (pid_t)jsonx_int_or(line, "child", 0);
    json_decref(line);
    assert_true(child > 0);
    assert_false(worker_reap(&w));
    assert_false(worker_wait(&w, 1));
    worker_kill(&w);
    expect_end(&w, "ended by signal SIGKILL");
    wait_gone(child);
}

static void ends_what_a_worker_leaves(void **state)
{
    struct worker w = start(task_hang, "leave", false);
    json_t *line = line_of(&w);
    pid_t child = (pid_t)jsonx_int_or(line, "child", 0);
    json_decref(line);
    assert_true(child > 0);
    assert_true(worker_wait(&w, PATIENCE_MS));
    wait_gone(child);
    worker_kill(&w); /* the number may be another's by now: nothing happens */
    worker_release(&w);
}

/* --- a main process that goes away ---------------------------------------------------------- */

static int task_watch(struct worker_link *link, void *arg, json_t **data, struct err *err)
{
    json_t *line = NULL;
    if (worker_link_gone(link))
        return err_set(err, ERR_DATA, "gone too early");
    if (worker_link_send(link, json_object(), err) != 0)
        return -1;
    struct err lost = {0};
    if (worker_link_receive(link, PATIENCE_MS, &line, &lost) == 0)
        return err_set(err, ERR_DATA, "a line came");
    *data = json_pack("{s:s,s:b}", "text", lost.text, "gone", worker_link_gone(link));
    return 0;
}

static void tells_that_the_channel_closed(void **state)
{
    struct worker w = start(task_watch, NULL, true);
    json_decref(line_of(&w));
    worker_hang_up(&w);
    expect_text(line_of(&w),
                "{\"data\":{\"gone\":true,\"text\":\"the agent's main process is gone\"},"
                "\"id\":0,\"ok\":true,\"v\":1}");
    expect_end(&w, "ended with status 0 and without a reply");
}

static int task_nested(struct worker_link *link, void *arg, json_t **data, struct err *err)
{
    bool outlives = *(bool *)arg;
    struct worker inner = start(task_hang, NULL, outlives);
    json_t *line = line_of(&inner);
    json_object_set_new(line, "inner", json_integer(inner.pid));
    if (worker_link_send(link, line, err) != 0)
        return -1;
    raise(SIGKILL);
    return 0;
}

static void dies_with_the_main_process_unless_told(void **state)
{
    for (int outlives = 0; outlives <= 1; outlives++) {
        bool flag = outlives != 0;
        struct worker w = start(task_nested, &flag, false);
        json_t *line = line_of(&w);
        pid_t inner = (pid_t)jsonx_int_or(line, "inner", 0);
        pid_t child = (pid_t)jsonx_int_or(line, "child", 0);
        json_decref(line);
        assert_true(inner > 0 && child > 0);
        expect_end(&w, "ended by signal SIGKILL");
        if (outlives)
            assert_int_equal(kill(inner, 0), 0);
        else
            wait_gone(inner);
        kill(-inner, SIGKILL);
        kill(child, SIGKILL);
    }
}

/* --- the link alone ------------------------------------------------------------------------- */

/* The socket stays readable as long as a line waits: stages poll it. */
static void keeps_the_second_line_in_the_socket(void **state)
{
    int fds[2];
    struct err err = {0};
    json_t *line = NULL;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    struct worker_link *link = worker_link_create(fds[0]);
    struct pollfd p = {.fd = worker_link_fd(link), .events = POLLIN};
    assert_int_equal(worker_link_receive(link, 1, &line, &err), -1);
    assert_int_equal(err.kind, ERR_TIMEOUT);
    assert_string_equal(err.text, "nothing came from the controller within 1 ms");
    assert_int_equal(write(fds[1], "{\"a\":1}\n{\"b\":2}\n{\"c\"", 20), 20);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(poll(&p, 1, 0), 1);
        err_clear(&err);
        assert_int_equal(worker_link_receive(link, PATIENCE_MS, &line, &err), 0);
        expect_text(line, i == 0 ? "{\"a\":1}" : "{\"b\":2}");
    }
    err_clear(&err);
    assert_int_equal(worker_link_receive(link, 1, &line, &err), -1);
    assert_int_equal(err.kind, ERR_TIMEOUT);
    assert_int_equal(write(fds[1], ":3}\n", 4), 4);
    err_clear(&err);
    assert_int_equal(worker_link_receive(link, PATIENCE_MS, &line, &err), 0);
    expect_text(line, "{\"c\":3}");
    close(fds[1]);
    assert_true(worker_link_gone(link));
    err_clear(&err);
    signal(SIGPIPE, SIG_DFL); /* sending to nobody must not need it ignored */
    assert_int_equal(worker_link_send(link, json_object(), &err), -1);
    assert_string_equal(err.text, "the agent's main process is gone: Broken pipe");
    worker_link_destroy(link);
    worker_link_destroy(NULL);
    close(fds[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(relays_both_ways),
        cmocka_unit_test(relays_an_error),
        cmocka_unit_test(relays_a_flood),
        cmocka_unit_test(refuses_garbage),
        cmocka_unit_test(isolates_the_worker),
        cmocka_unit_test(names_the_signal),
        cmocka_unit_test(kills_the_whole_group),
        cmocka_unit_test(ends_what_a_worker_leaves),
        cmocka_unit_test(tells_that_the_channel_closed),
        cmocka_unit_test(dies_with_the_main_process_unless_told),
        cmocka_unit_test(keeps_the_second_line_in_the_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
