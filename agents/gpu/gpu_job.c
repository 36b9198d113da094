#include "agents/gpu/gpu_job.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agents/facts/facts_topics.h"
#include "common/jsonx.h"
#include "common/util.h"

enum {
    MAX_GPUS = 64,
    MAX_LINE_BYTES = EVIDENCE_MAX_LINE_BYTES,
    STEP_BYTES = 96,
    MARGIN_MS = 2000,    /* the child gives up by itself before it is killed */
    STAGE_END_MS = 1000, /* left for the parent's own last records */
    REAP_MS = 1000,
    POLL_MS = 50
};

/* --- the child's side ------------------------------------------------------------------------- */

static void put_line(struct gpu_job *job, json_t *line)
{
    AUTO(free_str) char *text = jsonx_canonical(line);
    json_decref(line);
    size_t len = strlen(text);
    text[len] = '\n'; /* in place of the NUL: the line is written by its length */
    for (size_t at = 0; at <= len;) {
        ssize_t put = write(job->out_fd, text + at, len + 1 - at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            _exit(1);
        at += (size_t)put;
    }
}

void gpu_job_step(struct gpu_job *job, const char *what)
{
    json_t *line = json_object();
    jsonx_set_str(line, "step", what);
    put_line(job, line);
}

void gpu_job_emit(struct gpu_job *job, struct evidence e)
{
    struct err err = {0};
    json_auto_t *conditions = e.conditions ? e.conditions : json_object();
    json_auto_t *proof = e.proof;
    if (job->simulated)
        jsonx_set_bool(conditions, "simulated", true);
    e.conditions = conditions;
    e.stage = job->stage;
    if (!e.subject)
        e.subject = job->subject;
    json_t *body = evidence_body(&e, &err);
    json_t *line = json_object();
    if (!body)
        jsonx_set_str(line, "broken", err.text);
    else
        jsonx_set(line, "body", body);
    put_line(job, line);
}

void gpu_job_number(struct gpu_job *job, const char *quantity, const char *unit, double value,
                    json_t *conditions)
{
    gpu_job_emit(job, (struct evidence){.quantity = quantity,
                                        .unit = unit,
                                        .samples = &value,
                                        .sample_count = 1,
                                        .conditions = conditions,
                                        .outcome = EVIDENCE_MEASURED});
}

void gpu_job_absent(struct gpu_job *job, const char *quantity, const char *unit, const char *cause,
                    const char *reason)
{
    gpu_job_emit(job, (struct evidence){.quantity = quantity,
                                        .unit = unit,
                                        .outcome = EVIDENCE_NOT_MEASURED,
                                        .cause = cause,
                                        .reason = reason});
}

static _Noreturn void child_main(struct gpu_job *job, gpu_job_task *task)
{
    struct err err = {0};
    int64_t began_ns = now_ns();
    unsetenv("CUDA_VISIBLE_DEVICES"); /* all GPUs of the node are measured, whatever a job sees */
    if (task(job, &err) == 0)
        gpu_job_number(job, "gpu_run", "s", (double)(now_ns() - began_ns) / 1e9, NULL);
    else
        gpu_job_emit(job, (struct evidence){.quantity = "gpu_run",
                                            .unit = "s",
                                            .outcome = EVIDENCE_FAILED,
                                            .cause = job->cause ? job->cause : "gpu-error",
                                            .reason = err.text});
    _exit(0);
}

/* --- the parent's side ------------------------------------------------------------------------ */

struct child {
    struct gpu_job job;
    char *subject; /* owned */
    pid_t pid;
    int fd; /* -1: ended */
    int64_t kill_ms;
    struct strbuf in;
    char step[STEP_BYTES];
    bool said; /* handed over its gpu_run */
    bool completed, simulated;
};

struct crew {
    struct stage_ctx *ctx;
    const char *stage;
    struct child *children;
    size_t count;
};

static void close_others(const struct crew *crew)
{
    for (size_t i = 0; i < crew->count; i++)
        if (crew->children[i].fd >= 0)
            close(crew->children[i].fd);
}

static int start(struct crew *crew, struct child *c, gpu_job_task *task, int64_t job_ms,
                 struct err *err)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0)
        return err_set_errno(err, ERR_ENV, errno, "%s: a pipe for %s", crew->stage, c->subject);
    int64_t until_ms = now_ms() + job_ms;
    int64_t end_ms = stage_deadline_ms(crew->ctx) - STAGE_END_MS;
    c->kill_ms = until_ms < end_ms ? until_ms : end_ms;
    c->job.deadline_ms = c->kill_ms - MARGIN_MS;
    c->job.out_fd = fds[1];
    c->pid = fork();
    if (c->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(fds[0]);
        close_others(crew);
        child_main(&c->job, task);
    }
    int errnum = errno;
    close(fds[1]);
    if (c->pid < 0) {
        close(fds[0]);
        return err_set_errno(err, ERR_ENV, errnum, "%s: a process for %s", crew->stage, c->subject);
    }
    c->fd = fds[0];
    return 0;
}

/* The record that says how the work on a GPU went when the child cannot say it. */
static int say(struct crew *crew, const struct child *c, enum evidence_outcome outcome,
               const char *cause, const char *reason, struct err *err)
{
    json_auto_t *conditions = json_object();
    if (c->simulated)
        jsonx_set_bool(conditions, "simulated", true);
    struct evidence e = {.stage = crew->stage,
                         .subject = c->subject,
                         .quantity = "gpu_run",
                         .unit = "s",
                         .conditions = conditions,
                         .outcome = outcome,
                         .cause = cause,
                         .reason = reason};
    return stage_evidence(crew->ctx, &e, err);
}

static int take_body(struct crew *crew, struct child *c, json_t *body, struct err *err)
{
    if (strcmp(jsonx_str_or(body, "quantity", ""), "gpu_run") == 0) {
        c->said = true;
        c->completed = strcmp(jsonx_str_or(body, "outcome", ""), "measured") == 0;
    }
    if (jsonx_bool_or(json_object_get(body, "conditions"), "simulated", false))
        c->simulated = true;
    return stage_evidence_body(crew->ctx, json_incref(body), err);
}

static int take_line(struct crew *crew, struct child *c, const char *text, size_t len,
                     struct err *err)
{
    json_auto_t *line = NULL;
    if (jsonx_parse(text, len, c->subject, &line, err) != 0)
        return -1;
    const char *broken = jsonx_str_or(line, "broken", NULL);
    if (broken)
        return err_set(err, ERR_DATA, "%s: %s", c->subject, broken);
    json_t *body = json_object_get(line, "body");
    if (body)
        return take_body(crew, c, body, err);
    snprintf(c->step, sizeof c->step, "%s", jsonx_str_or(line, "step", "?"));
    json_t *fields = json_object();
    AUTO(free_str) char *text_of = str_printf("%s: %s", c->subject, c->step);
    jsonx_set_str(fields, "text", text_of);
    return stage_event(crew->ctx, "progress", fields, err);
}

/* Dead or stuck in the driver: it is not waited for longer than REAP_MS. */
static bool reap(struct child *c, int *status)
{
    for (int64_t until = now_ms() + REAP_MS; now_ms() < until; poll(NULL, 0, 5)) {
        pid_t done = waitpid(c->pid, status, WNOHANG);
        if (done == c->pid || (done < 0 && errno != EINTR))
            return done == c->pid;
    }
    return false;
}

static int finish(struct crew *crew, struct child *c, bool late, struct err *err)
{
    int status = 0;
    close_fd(&c->fd);
    if (late)
        kill(c->pid, SIGKILL);
    bool gone = reap(c, &status);
    if (c->said)
        return 0;
    AUTO(free_str) char *text = NULL;
    const char *cause = "gpu-hang";
    if (late || !gone) {
        text = str_printf("no answer in time during: %s%s", c->step,
                          gone ? "" : "; the process is stuck in the driver and cannot be ended");
    } else {
        const char *name = WIFSIGNALED(status) ? sigabbrev_np(WTERMSIG(status)) : NULL;
        cause = "stage-crashed";
        text = str_printf("the process ended %s%s during: %s", name ? "by SIG" : "without a word",
                          name ? name : "", c->step);
    }
    return say(crew, c, EVIDENCE_FAILED, cause, text, err);
}

static int take_lines(struct crew *crew, struct child *c, struct err *err)
{
    char *end;
    while (c->in.len > 0 && (end = memchr(c->in.data, '\n', c->in.len)) != NULL) {
        size_t len = (size_t)(end - c->in.data);
        if (take_line(crew, c, c->in.data, len, err) != 0)
            return -1;
        strbuf_drop_front(&c->in, len + 1);
    }
    return c->in.len > MAX_LINE_BYTES ? err_set(err, ERR_DATA, "%s: a line is too long", c->subject)
                                      : 0;
}

static int serve(struct crew *crew, struct child *c, bool readable, struct err *err)
{
    if (readable) {
        char chunk[16384];
        ssize_t got = read(c->fd, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR)
            return 0;
        if (got <= 0)
            return finish(crew, c, false, err);
        strbuf_add(&c->in, chunk, (size_t)got);
        return take_lines(crew, c, err);
    }
    return now_ms() >= c->kill_ms ? finish(crew, c, true, err) : 0;
}

/* Until every child that runs has ended. */
static int attend(struct crew *crew, struct err *err)
{
    for (;;) {
        struct pollfd fds[MAX_GPUS];
        size_t who[MAX_GPUS];
        nfds_t n = 0;
        for (size_t i = 0; i < crew->count; i++)
            if (crew->children[i].fd >= 0) {
                fds[n] = (struct pollfd){.fd = crew->children[i].fd, .events = POLLIN};
                who[n++] = i;
            }
        if (n == 0)
            return 0;
        (void)poll(fds, n, POLL_MS);
        for (nfds_t k = 0; k < n; k++)
            if (serve(crew, &crew->children[who[k]], fds[k].revents != 0, err) != 0)
                return -1;
    }
}

static void release(struct crew *crew)
{
    for (size_t i = 0; i < crew->count; i++) {
        struct child *c = &crew->children[i];
        if (c->fd >= 0) {
            int status = 0;
            kill(c->pid, SIGKILL);
            (void)reap(c, &status);
        }
        close_fd(&c->fd);
        strbuf_release(&c->in);
        free(c->subject);
    }
    free(crew->children);
}

static int run_crew(struct crew *crew, gpu_job_task *task, bool at_once, int64_t job_ms,
                    struct err *err)
{
    for (size_t i = 0; i < crew->count; i++) {
        if (start(crew, &crew->children[i], task, job_ms, err) != 0)
            return -1;
        if (!at_once && attend(crew, err) != 0)
            return -1;
    }
    return attend(crew, err);
}

static void fill_crew(struct crew *crew, const json_t *devices, const json_t *params)
{
    crew->children = mem_zero(crew->count + 1, sizeof *crew->children);
    for (size_t i = 0; i < crew->count; i++) {
        struct child *c = &crew->children[i];
        const json_t *gpu = json_array_get(devices, i);
        int64_t index = jsonx_int_or(gpu, "index", (int64_t)i);
        c->subject = str_printf("%s/gpu:%lld", stage_node(crew->ctx), (long long)index);
        c->fd = -1;
        snprintf(c->step, sizeof c->step, "start");
        c->job = (struct gpu_job){.stage = crew->stage,
                                  .node = stage_node(crew->ctx),
                                  .subject = c->subject,
                                  .bdf = jsonx_str_or(gpu, "bdf", ""),
                                  .name = jsonx_str_or(gpu, "name", "GPU"),
                                  .index = index,
                                  .root = stage_root(crew->ctx),
                                  .params = params,
                                  .gpus = devices};
    }
}

/* No GPU can be asked: a node without any has nothing to measure, one with a dead driver fails. */
static int say_none(struct stage_ctx *ctx, const char *stage, const json_t *gpus, struct err *err)
{
    const char *reason = jsonx_str_or(gpus, "reason", "NVML shows no GPU");
    bool absent = strcmp(reason, "no NVIDIA GPU on the PCI bus") == 0;
    struct evidence e = {.stage = stage,
                         .subject = stage_node(ctx),
                         .quantity = "gpu_run",
                         .unit = "s",
                         .outcome = absent ? EVIDENCE_NOT_MEASURED : EVIDENCE_FAILED,
                         .cause = absent ? "hardware-absent" : "no-gpu-driver",
                         .reason = reason};
    return stage_evidence(ctx, &e, err);
}

int gpu_job_all(struct stage_ctx *ctx, const char *stage, gpu_job_task *task, bool at_once,
                int64_t job_ms, const json_t *params, json_t **data, struct err *err)
{
    json_auto_t *gpus = facts_gpu(stage_root(ctx));
    const json_t *devices = json_object_get(gpus, "devices");
    struct crew crew = {.ctx = ctx, .stage = stage, .count = json_array_size(devices)};
    if (crew.count > MAX_GPUS)
        return err_set(err, ERR_ENV, "NVML shows %zu GPUs; this version handles %d", crew.count,
                       MAX_GPUS);
    int rc = crew.count == 0 ? say_none(ctx, stage, gpus, err) : 0;
    size_t completed = 0;
    fill_crew(&crew, devices, params);
    if (rc == 0)
        rc = run_crew(&crew, task, at_once, job_ms, err);
    for (size_t i = 0; i < crew.count; i++)
        completed += crew.children[i].completed;
    size_t count = crew.count;
    release(&crew);
    if (rc != 0)
        return -1;
    *data = json_object();
    jsonx_set_int(*data, "gpus", (int64_t)count);
    jsonx_set_int(*data, "completed", (int64_t)completed);
    return 0;
}
