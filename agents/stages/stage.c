#include "agents/stages/stage.h"

#include <string.h>

#include "agents/stages/stage_run.h"
#include "common/jsonx.h"

// NOLINTNEXTLINE(bugprone-macro-parentheses): the row's name is a declarator
#define STAGE(row) extern const struct stage row;
#include "agents/stages/stages.def"
#undef STAGE

static const struct stage *const stages[] = {
#define STAGE(row) &(row),
#include "agents/stages/stages.def"
#undef STAGE
    NULL,
};

struct stage_ctx {
    struct worker_link *link;
    const struct stage_job *job;
};

const struct stage *stage_find(const char *name)
{
    for (size_t i = 0; stages[i]; i++)
        if (strcmp(stages[i]->name, name) == 0)
            return stages[i];
    return NULL;
}

const char *stage_node(const struct stage_ctx *ctx)
{
    return ctx->job->node;
}

const struct fs_root *stage_root(const struct stage_ctx *ctx)
{
    return ctx->job->root;
}

int64_t stage_deadline_ms(const struct stage_ctx *ctx)
{
    return ctx->job->deadline_ms;
}

int stage_go_fd(const struct stage_ctx *ctx)
{
    return worker_link_fd(ctx->link);
}

static int send_event(struct stage_ctx *ctx, const char *event, json_t *fields, struct err *err)
{
    json_t *line = json_object();
    jsonx_set_str(line, "event", event);
    if (fields)
        (void)json_object_update_missing(line, fields);
    json_decref(fields);
    return worker_link_send(ctx->link, line, err);
}

int stage_evidence(struct stage_ctx *ctx, const struct evidence *e, struct err *err)
{
    json_t *body = evidence_body(e, err);
    return body ? stage_evidence_body(ctx, body, err) : -1;
}

int stage_evidence_body(struct stage_ctx *ctx, json_t *body, struct err *err)
{
    json_t *fields = json_object();
    jsonx_set(fields, "body", body);
    return send_event(ctx, "evidence", fields, err);
}

int stage_event(struct stage_ctx *ctx, const char *event, json_t *fields, struct err *err)
{
    return send_event(ctx, event, fields, err);
}

int stage_wait_go(struct stage_ctx *ctx, int timeout_ms, json_t **data, struct err *err)
{
    json_auto_t *line = NULL;
    if (worker_link_receive(ctx->link, timeout_ms, &line, err) != 0)
        return -1;
    json_t *value = json_object_get(line, "data");
    if (!value)
        return err_set(err, ERR_DATA, "the main process sent a line without data");
    *data = json_incref(value);
    return 0;
}

int stage_run(struct worker_link *link, const struct stage_job *job, json_t **data, struct err *err)
{
    struct stage_ctx ctx = {.link = link, .job = job};
    return job->stage->run(&ctx, job->params, data, err);
}
