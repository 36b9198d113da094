#include "agents/serve.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agents/leftovers.h"
#include "agents/serve_state.h"
#include "common/jsonx.h"
#include "common/log.h"

enum { EXIT_PROTOCOL = 2, EXIT_BROKEN_OFF = 4, FLUSH_TIMEOUT_MS = 100 };

/* --- closing -------------------------------------------------------------------------------- */

/* No more requests: stages and readers die now, a transaction gets the time to undo itself. */
static void begin_closing(struct serve *s, const char *why)
{
    if (s->closing)
        return;
    s->closing = true;
    s->close_by_ms = now_ms() + SERVE_UNDO_GRACE_MS;
    size_t running = serve_jobs_unreplied(s);
    if (running && s->bye_id == PROTOCOL_NO_ID && s->status == 0) {
        log_warn("%s with %zu unfinished: ended", why, running);
        s->status = EXIT_BROKEN_OFF;
    }
    for (size_t i = 0; i < s->job_count; i++) {
        if (serve_job_is_config(s->jobs[i]))
            worker_hang_up(&s->jobs[i]->worker);
        else
            serve_job_kill(s->jobs[i], SERVE_END_CLOSED);
    }
}

static void tend_closing(struct serve *s)
{
    if (!s->closing || now_ms() < s->close_by_ms)
        return;
    for (size_t i = 0; i < s->job_count; i++)
        serve_job_kill(s->jobs[i], SERVE_END_CLOSED);
}

/* --- input ---------------------------------------------------------------------------------- */

static void fail_channel(struct serve *s, const struct err *err)
{
    protocol_reply_error(&s->out, PROTOCOL_NO_ID, err);
    log_error("%s", err->text);
    s->status = EXIT_PROTOCOL;
    begin_closing(s, err->text);
}

static void handle_lines(struct serve *s)
{
    while (!s->closing) {
        char *line = NULL;
        size_t len = 0;
        struct err err = {0};
        int found = protocol_next(&s->in, &line, &len, &err);
        if (found == 0)
            break;
        if (found < 0) {
            fail_channel(s, &err);
        } else if (serve_handle_line(s, line, len) != 0) {
            s->status = EXIT_PROTOCOL;
            begin_closing(s, "a line that is not the protocol");
        } else if (s->bye_id != PROTOCOL_NO_ID) {
            begin_closing(s, "bye");
        }
    }
}

static void read_input(struct serve *s)
{
    struct err err = {0};
    if (protocol_fill(&s->in, s->options.in_fd, &err) < 0)
        fail_channel(s, &err);
    handle_lines(s);
    if (s->in.ended)
        begin_closing(s, "the channel closed");
}

/* SIGCHLD only wakes the loop; the others mean the same as the end of the input. */
static void read_signals(struct serve *s, int fd)
{
    struct signalfd_siginfo info;
    while (read(fd, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo != SIGCHLD)
            begin_closing(s, "a signal came");
}

/* --- loop ----------------------------------------------------------------------------------- */

enum { AT_SIGNALS = 0, AT_INPUT, AT_OUTPUT, AT_JOBS };

/* fd -1 is skipped by poll: what must not be read now, or has ended. */
static size_t fill_polls(const struct serve *s, int signal_fd, struct pollfd polls[])
{
    bool full = protocol_pending_bytes(&s->out) > SERVE_MAX_PENDING_BYTES;
    bool pending = protocol_pending_bytes(&s->out) > 0;
    polls[AT_SIGNALS] = (struct pollfd){.fd = signal_fd, .events = POLLIN};
    polls[AT_INPUT] =
        (struct pollfd){.fd = s->closing || full ? -1 : s->options.in_fd, .events = POLLIN};
    polls[AT_OUTPUT] = (struct pollfd){.fd = pending ? s->options.out_fd : -1, .events = POLLOUT};
    for (size_t i = 0; i < s->job_count; i++) {
        const struct worker *w = &s->jobs[i]->worker;
        short events = full ? 0 : POLLIN;
        if (protocol_pending_bytes(&w->out) > 0)
            events |= POLLOUT;
        polls[AT_JOBS + i] =
            (struct pollfd){.fd = w->in.ended || events == 0 ? -1 : w->fd, .events = events};
    }
    return AT_JOBS + s->job_count;
}

static int poll_timeout_ms(const struct serve *s)
{
    int64_t next = serve_jobs_next_ms(s);
    if (s->closing && s->close_by_ms < next)
        next = s->close_by_ms;
    if (next == INT64_MAX)
        return -1;
    int64_t left = next - now_ms();
    return left <= 0 ? 0 : left > 60000 ? 60000 : (int)left;
}

/* One turn: wait, read, relay, answer. */
static int turn(struct serve *s, int signal_fd, struct err *err)
{
    struct pollfd polls[AT_JOBS + SERVE_MAX_JOBS];
    size_t count = fill_polls(s, signal_fd, polls), jobs = s->job_count;
    if (poll(polls, count, poll_timeout_ms(s)) < 0 && errno != EINTR)
        return err_set_errno(err, ERR_ENV, errno, "wait for requests");
    if (polls[AT_SIGNALS].revents)
        read_signals(s, signal_fd);
    for (size_t i = 0; i < jobs; i++) {
        if (polls[AT_JOBS + i].revents & POLLOUT)
            protocol_flush(&s->jobs[i]->worker.out, s->jobs[i]->worker.fd);
        if (polls[AT_JOBS + i].revents & (POLLIN | POLLHUP | POLLERR))
            serve_job_pump(s->jobs[i]);
    }
    if (polls[AT_INPUT].revents)
        read_input(s);
    tend_closing(s);
    serve_jobs_tend(s);
    protocol_flush(&s->out, s->options.out_fd);
    if (s->out.broken)
        begin_closing(s, "the controller no longer reads");
    return 0;
}

/* --- end ------------------------------------------------------------------------------------ */

static void say_bye(struct serve *s, int processes)
{
    json_t *left = json_object(), *data = json_object();
    jsonx_set_int(left, "processes", processes);
    jsonx_set(left, "files", leftovers_files(&s->options.root, s->options.state_dir));
    jsonx_set(data, "left", left);
    protocol_reply(&s->out, s->bye_id, data);
}

static void flush_rest(struct serve *s)
{
    int64_t until = now_ms() + FLUSH_TIMEOUT_MS;
    for (;;) {
        protocol_flush(&s->out, s->options.out_fd);
        int64_t left = until - now_ms();
        if (s->out.broken || protocol_pending_bytes(&s->out) == 0 || left <= 0)
            return;
        struct pollfd p = {.fd = s->options.out_fd, .events = POLLOUT};
        (void)poll(&p, 1, (int)left);
    }
}

static void serve_release(struct serve *s)
{
    serve_jobs_release(s);
    protocol_reader_release(&s->in);
    protocol_writer_release(&s->out);
    sign_key_destroy(s->key);
    free(s->run);
    free(s->node);
    free(s->tool);
}

static int open_signals(struct err *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    signal(SIGPIPE, SIG_IGN);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0 || sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return err_set_errno(err, ERR_ENV, errno, "receive signals");
    return fd;
}

int serve_run(const struct serve_options *options, int *status, struct err *err)
{
    struct serve s = {.options = *options, .bye_id = PROTOCOL_NO_ID};
    AUTO(close_fd) int signal_fd = open_signals(err);
    if (signal_fd < 0)
        return -1;
    leftovers_adopt();
    int rc = 0;
    while (rc == 0 && !(s.closing && serve_jobs_unreplied(&s) == 0))
        rc = turn(&s, signal_fd, err);
    int processes =
        leftovers_end(s.bye_id == PROTOCOL_NO_ID ? FLUSH_TIMEOUT_MS : SERVE_LEFT_TIMEOUT_MS);
    if (s.bye_id != PROTOCOL_NO_ID)
        say_bye(&s, processes);
    flush_rest(&s);
    *status = s.status;
    serve_release(&s);
    return rc;
}
