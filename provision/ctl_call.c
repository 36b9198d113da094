/* One request to every active node, with progress and per-node outcomes. */
#include <stdio.h>
#include <stdlib.h>

#include "common/util.h"
#include "provision/ctl.h"

bool ctl_call_pending(const struct ctl_call *call, size_t node)
{
    const struct fleet_call *f = call->fleet_call;
    return f->requests[node] && !f->replies[node] && f->errors[node].kind == ERR_NONE;
}

static void on_event(void *ctx, struct fleet *f, size_t node, const json_t *event)
{
    struct ctl_call *call = ctx;
    if (call->request->on_event)
        call->request->on_event(call, f, node, event);
}

static void on_tick(void *ctx, struct fleet *f, size_t pending)
{
    struct ctl_call *call = ctx;
    struct ctl *c = call->c;
    size_t failed = 0, waiting = c->count;
    for (size_t i = 0; i < c->count; i++) {
        failed += call->fleet_call->errors[i].kind != ERR_NONE;
        if (waiting == c->count && ctl_call_pending(call, i))
            waiting = i;
    }
    char detail[96] = "";
    if (waiting < c->count)
        snprintf(detail, sizeof detail, "waiting for %.70s", c->names[waiting]);
    /* A stage with rounds tells its own detail. */
    bool own_detail = call->request->on_tick != NULL;
    progress_update(&c->progress, call->asked - pending, failed, own_detail ? NULL : detail);
    if (own_detail)
        call->request->on_tick(call, f, pending);
}

static const char *cause_of(const struct ctl *c, size_t node, const struct ctl_request *request,
                            const struct err *error)
{
    if (fleet_state(c->fleet, node) == FLEET_FAILED)
        return fleet_cause(c->fleet, node);
    if (error->kind == ERR_TIMEOUT)
        return request->cause ? "stage-timeout" : "timeout";
    return request->cause ? request->cause : "agent-error";
}

/* An agent that owes an answer would make every later step wait for it as long. */
static void drop_late(struct ctl *c, size_t node, const struct ctl_request *request,
                      const struct err *error)
{
    if (error->kind == ERR_TIMEOUT && fleet_is_late(c->fleet, node))
        fleet_drop(c->fleet, node, ERR_TIMEOUT, request->cause ? "stage-timeout" : "timeout",
                   error->text);
}

static size_t settle(struct ctl *c, const struct ctl_request *request, struct fleet_call *call)
{
    size_t failed = 0;
    for (size_t i = 0; i < c->count; i++) {
        if (!call->requests[i])
            continue;
        struct err *error = &call->errors[i];
        failed += error->kind != ERR_NONE;
        drop_late(c, i, request, error);
        if (fleet_state(c->fleet, i) == FLEET_FAILED)
            c->active[i] = false;
        if (request->done)
            request->done(c, i, call->replies[i], error, request->ctx);
        if (error->kind != ERR_NONE)
            ctl_outcome(c, i, request->step, cause_of(c, i, request, error), error->text);
        json_decref(call->requests[i]);
        json_decref(call->replies[i]);
    }
    return failed;
}

void ctl_call(struct ctl *c, const struct ctl_request *request)
{
    json_t **requests = mem_zero(c->count, sizeof *requests);
    struct fleet_call call = {
        .requests = requests,
        .replies = mem_zero(c->count, sizeof(json_t *)),
        .errors = mem_zero(c->count, sizeof(struct err)),
        .timeout_ms = request->timeout_ms,
        .on_event = on_event,
        .on_tick = on_tick,
    };
    struct ctl_call own = {.c = c, .request = request, .fleet_call = &call};
    call.ctx = &own;
    for (size_t i = 0; i < c->count; i++) {
        requests[i] = c->active[i] ? request->make(c, i, request->ctx) : NULL;
        own.asked += requests[i] != NULL;
    }
    progress_begin(&c->progress, request->step, own.asked);
    if (own.asked > 0)
        fleet_call(c->fleet, &call);
    size_t failed = settle(c, request, &call);
    progress_update(&c->progress, own.asked - failed, failed, NULL);
    progress_end(&c->progress, NULL);
    free(requests);
    free(call.replies);
    free(call.errors);
}
