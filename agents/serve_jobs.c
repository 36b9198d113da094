#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "agents/serve_state.h"
#include "common/jsonx.h"
#include "common/log.h"

/* --- start and find ------------------------------------------------------------------------- */

static void job_destroy(struct serve_job *job)
{
    worker_release(&job->worker);
    evidence_stage_release(&job->evidence);
    json_decref(job->body);
    json_decref(job->final);
    free(job->what);
    free(job);
}

int serve_job_start(struct serve *s, const struct protocol_request *request,
                    const struct stage *stage, int64_t timeout_ms, struct err *err)
{
    if (s->job_count == SERVE_MAX_JOBS)
        return err_set(err, ERR_ENV, "%d requests are running already", SERVE_MAX_JOBS);
    struct serve_job *job = mem_zero(1, sizeof *job);
    *job = (struct serve_job){
        .serve = s,
        .id = request->id,
        .op = request->op,
        .what =
            stage ? str_printf("stage '%s'", stage->name) : str_dup(protocol_op_name(request->op)),
        .body = json_incref(request->body),
        .stage = stage,
        .worker = {.fd = -1},
        .deadline_ms = now_ms() + timeout_ms,
        .timeout_ms = timeout_ms,
        .evidence = {.name = stage ? stage->name : NULL},
    };
    struct worker_task task = {
        .run = serve_task_run, .arg = job, .outlives_main = serve_job_is_config(job)};
    if (worker_start(&job->worker, &task, err) != 0) {
        job_destroy(job);
        return -1;
    }
    s->jobs[s->job_count++] = job;
    return 0;
}

struct serve_job *serve_job_find(struct serve *s, int64_t id)
{
    for (size_t i = 0; i < s->job_count; i++)
        if (s->jobs[i]->id == id && !s->jobs[i]->replied)
            return s->jobs[i];
    return NULL;
}

bool serve_job_is_config(const struct serve_job *job)
{
    return job->op == PROTOCOL_APPLY || job->op == PROTOCOL_ROLLBACK;
}

const struct serve_job *serve_job_config(const struct serve *s)
{
    for (size_t i = 0; i < s->job_count; i++)
        if (serve_job_is_config(s->jobs[i]))
            return s->jobs[i];
    return NULL;
}

/* --- relay ---------------------------------------------------------------------------------- */

static void send_evidence(struct serve_job *job, char *line)
{
    json_t *fields = json_object();
    jsonx_set_str(fields, "line", line);
    protocol_event(&job->serve->out, job->id, "evidence", fields);
    free(line);
}

static void relay_event(struct serve_job *job, const char *event, json_t *line)
{
    char *text = NULL;
    if (strcmp(event, "evidence") != 0) {
        json_t *fields = json_copy(line);
        json_object_del(fields, "event");
        protocol_event(&job->serve->out, job->id, event, fields);
        return;
    }
    if (job->op != PROTOCOL_STAGE)
        err_set(&job->broken, ERR_DATA, "%s handed over evidence", job->what);
    else if (evidence_out_line(&job->serve->evidence, &job->evidence, json_object_get(line, "body"),
                               &text, &job->broken) == 0)
        send_evidence(job, text);
}

void serve_job_pump(struct serve_job *job)
{
    for (;;) {
        json_auto_t *line = NULL;
        int got = worker_next(&job->worker, &line, &job->broken);
        if (got < 0)
            serve_job_kill(job, SERVE_END_NONE);
        if (got <= 0)
            return;
        const char *event = jsonx_str_or(line, "event", NULL);
        if (event)
            relay_event(job, event, line);
        else if (!job->final && json_object_get(line, "ok"))
            job->final = json_incref(line);
        else
            err_set(&job->broken, ERR_DATA, "%s sent a line that is neither event nor reply",
                    job->what);
    }
}

/* --- end ------------------------------------------------------------------------------------ */

void serve_job_kill(struct serve_job *job, enum serve_end why)
{
    if (job->give_up_ms)
        return;
    worker_kill(&job->worker);
    job->end = why;
    job->give_up_ms = now_ms() + SERVE_KILL_GRACE_MS;
}

/* Why there is no good reply: the first thing that went wrong, as an error. */
static void job_failure(const struct serve_job *job, struct err *err)
{
    const struct worker *w = &job->worker;
    AUTO(free_str)
    char *ended = w->exited ? worker_end_text(w) : str_dup("was killed and has not ended yet");
    switch (job->end) {
    case SERVE_END_TIMEOUT:
        err_set(err, ERR_TIMEOUT, "%s passed its deadline of %lld ms and was killed%s", job->what,
                (long long)job->timeout_ms, w->exited ? "" : "; its process has not ended yet");
        return;
    case SERVE_END_CANCEL:
        err_set(err, ERR_ENV, "%s was cancelled by the controller", job->what);
        return;
    case SERVE_END_CLOSED:
        err_set(err, ERR_ENV, "%s was ended because the agent closes", job->what);
        return;
    case SERVE_END_NONE:
        break;
    }
    if (job->broken.kind != ERR_NONE)
        *err = job->broken;
    else
        err_set(err, ERR_ENV, "%s: its worker %s", job->what, ended);
}

static void reply_error(struct serve_job *job, const struct err *err)
{
    protocol_reply_error(&job->serve->out, job->id, err);
}

/* A worker that died in the middle of a transaction: undo it here, and say so. */
static void reply_failure(struct serve_job *job)
{
    struct err err = {0};
    job_failure(job, &err);
    if (serve_job_is_config(job) && !job->final) {
        AUTO(free_str) char *undone = serve_recover_text(job->serve);
        struct err full = {0};
        err_set(&full, err.kind, "%s; %s", err.text, undone);
        err = full;
        log_warn("%s", err.text);
    }
    reply_error(job, &err);
}

static void reply_final(struct serve_job *job)
{
    if (json_is_true(json_object_get(job->final, "ok"))) {
        char *seal = NULL;
        struct err err = {0};
        if (job->op == PROTOCOL_STAGE &&
            evidence_out_seal(&job->serve->evidence, &job->evidence, &seal, &err) != 0) {
            reply_error(job, &err);
            return;
        }
        if (seal)
            send_evidence(job, seal);
        protocol_reply(&job->serve->out, job->id, json_incref(json_object_get(job->final, "data")));
        return;
    }
    const json_t *error = json_object_get(job->final, "error");
    struct err err = {0};
    enum err_kind kind = err_kind_find(jsonx_str_or(error, "kind", ""));
    err_set(&err, kind == ERR_NONE ? ERR_ENV : kind, "%s", jsonx_str_or(error, "text", ""));
    reply_error(job, &err);
}

/* A reply that arrived before the kill stands; evidence that is broken never gets a seal. */
static void reply(struct serve_job *job)
{
    if (job->final && job->broken.kind == ERR_NONE)
        reply_final(job);
    else
        reply_failure(job);
    job->replied = true;
}

/* Whether the job needs no more attention. */
static bool tend(struct serve_job *job, int64_t now)
{
    if (worker_reap(&job->worker)) {
        serve_job_pump(job);
        if (!job->replied)
            reply(job);
        return true;
    }
    if (!job->give_up_ms && now >= job->deadline_ms)
        serve_job_kill(job, SERVE_END_TIMEOUT);
    if (job->give_up_ms && now >= job->give_up_ms && !job->replied) {
        serve_job_pump(job);
        reply(job);
    }
    return false;
}

void serve_jobs_tend(struct serve *s)
{
    int64_t now = now_ms();
    size_t kept = 0;
    for (size_t i = 0; i < s->job_count; i++) {
        if (tend(s->jobs[i], now))
            job_destroy(s->jobs[i]);
        else
            s->jobs[kept++] = s->jobs[i];
    }
    s->job_count = kept;
}

int64_t serve_jobs_next_ms(const struct serve *s)
{
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < s->job_count; i++) {
        const struct serve_job *job = s->jobs[i];
        if (job->replied)
            continue;
        int64_t at = job->give_up_ms ? job->give_up_ms : job->deadline_ms;
        next = at < next ? at : next;
    }
    return next;
}

size_t serve_jobs_unreplied(const struct serve *s)
{
    size_t count = 0;
    for (size_t i = 0; i < s->job_count; i++)
        count += !s->jobs[i]->replied;
    return count;
}

void serve_jobs_release(struct serve *s)
{
    for (size_t i = 0; i < s->job_count; i++)
        job_destroy(s->jobs[i]);
    s->job_count = 0;
}
