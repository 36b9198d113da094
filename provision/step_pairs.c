/* The pairs stage: rounds of disjoint pairs by the circle method, a barrier after each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "provision/steps.h"
#include "validate/schedule.h"

enum {
    ROUND_MS = 30000,      /* deadline of one round on the agents */
    ROUND_GRACE_MS = 5000, /* how much longer the controller waits for its "ready" */
    ENDPOINT_MS = 20000,   /* for the listeners to come up */
    STAGE_BASE_MS = 60000,
    RESTING = -1
};

struct pairs {
    size_t *member; /* place on the circle -> node */
    size_t members;
    json_t **endpoints; /* per node, own references */
    long *ready;        /* per node: last round it is ready after, -1 before the first */
    char token[65];
    long round; /* running round, -1 while endpoints are collected */
    long rounds;
    int64_t round_began_ms;
    bool finished;
    size_t failed_pairs;
};

static json_t *make(struct ctl *c, size_t node, void *ctx)
{
    (void)node;
    struct pairs *p = ctx;
    json_t *params = step_stage_params(c, "pairs");
    const char *interface = jsonx_str_or(json_object_get(c->site, "fabric"), "interface", NULL);
    if (interface && !json_object_get(params, "interface"))
        jsonx_set_str(params, "interface", interface);
    jsonx_set_str(params, "token", p->token);
    unsigned deadline_ms = STAGE_BASE_MS + (unsigned)p->rounds * (ROUND_MS + ROUND_GRACE_MS);
    return step_stage_request("pairs", params, deadline_ms);
}

static void on_event(void *ctx, struct fleet *f, size_t node, const json_t *event)
{
    (void)f;
    struct ctl_call *call = ctx;
    struct pairs *p = call->request->ctx;
    const char *name = jsonx_str_or(event, "event", "");
    step_take_evidence(call->c, node, event);
    if (strcmp(name, "endpoint") == 0) {
        json_decref(p->endpoints[node]);
        p->endpoints[node] = json_incref(json_object_get(event, "endpoint"));
    } else if (strcmp(name, "ready") == 0) {
        p->ready[node] = (long)jsonx_int_or(event, "round", -1);
        p->failed_pairs += !jsonx_bool_or(event, "ok", false);
    }
}

static void send_go(struct ctl_call *call, size_t node, json_t *data)
{
    json_auto_t *request = json_object();
    jsonx_set_str(request, "op", "go");
    jsonx_set_int(request, "stage_id", fleet_request_id(call->c->fleet, node));
    jsonx_set(request, "data", data);
    fleet_send(call->c->fleet, node, request);
}

static bool takes_part(const struct ctl_call *call, size_t node)
{
    const struct pairs *p = call->request->ctx;
    return ctl_call_pending(call, node) && p->endpoints[node];
}

static void begin_round(struct ctl_call *call, struct pairs *p)
{
    p->round++;
    p->round_began_ms = now_ms();
    for (size_t i = 0; i < p->members; i++) {
        size_t node = p->member[i];
        if (!takes_part(call, node))
            continue;
        long partner = schedule_partner(p->members, (size_t)p->round, i);
        size_t peer = partner == RESTING ? node : p->member[partner];
        json_t *go = json_object();
        jsonx_set_int(go, "round", p->round);
        jsonx_set_int(go, "deadline_ms", ROUND_MS);
        bool meets = partner != RESTING && takes_part(call, peer);
        jsonx_set_str(go, "peer", meets ? call->c->names[peer] : NULL);
        if (meets) {
            jsonx_set_str(go, "role", (long)i < partner ? "first" : "second");
            jsonx_set(go, "endpoint", json_incref(p->endpoints[peer]));
        }
        send_go(call, node, go);
    }
}

static void finish(struct ctl_call *call, struct pairs *p)
{
    p->finished = true;
    for (size_t i = 0; i < p->members; i++) {
        if (!ctl_call_pending(call, p->member[i]))
            continue;
        json_t *go = json_object();
        jsonx_set_bool(go, "done", true);
        send_go(call, p->member[i], go);
    }
}

/* Everyone who still takes part has come to the barrier, or its time is over. */
static bool barrier_reached(const struct ctl_call *call, const struct pairs *p)
{
    bool late =
        now_ms() - p->round_began_ms > (p->round < 0 ? ENDPOINT_MS : ROUND_MS + ROUND_GRACE_MS);
    for (size_t i = 0; i < p->members && !late; i++) {
        size_t node = p->member[i];
        if (!ctl_call_pending(call, node))
            continue;
        if (!p->endpoints[node] || (p->round >= 0 && p->ready[node] < p->round))
            return false;
    }
    return true;
}

static void on_tick(void *ctx, struct fleet *f, size_t pending)
{
    (void)f;
    struct ctl_call *call = ctx;
    struct pairs *p = call->request->ctx;
    if (p->finished || pending == 0)
        return;
    if (barrier_reached(call, p)) {
        if (p->round + 1 < p->rounds)
            begin_round(call, p);
        else
            finish(call, p);
    }
    char detail[96];
    snprintf(detail, sizeof detail, "round %ld of %ld%s", p->round + 1, p->rounds,
             p->failed_pairs ? ", some pairs failed" : "");
    struct progress *bar = &call->c->progress;
    progress_update(bar, bar->done, bar->failed, detail);
}

static void release(struct pairs *p, size_t count)
{
    for (size_t i = 0; i < count; i++)
        json_decref(p->endpoints[i]);
    free(p->endpoints);
    free(p->ready);
    free(p->member);
}

int step_pairs(struct ctl *c, struct err *err)
{
    (void)err;
    struct pairs p = {.member = mem_zero(c->count, sizeof(size_t)),
                      .endpoints = mem_zero(c->count, sizeof(json_t *)),
                      .ready = mem_zero(c->count, sizeof(long)),
                      .round = -1,
                      .round_began_ms = now_ms()};
    for (size_t i = 0; i < c->count; i++) {
        p.ready[i] = -1;
        if (c->active[i])
            p.member[p.members++] = i;
    }
    p.rounds = (long)schedule_rounds(p.members);
    step_token(p.token);
    struct ctl_request request = {.step = "pairs",
                                  .cause = "stage-failed",
                                  .make = make,
                                  .on_event = on_event,
                                  .on_tick = on_tick,
                                  .timeout_ms = STAGE_BASE_MS +
                                                (unsigned)p.rounds * (ROUND_MS + ROUND_GRACE_MS),
                                  .ctx = &p};
    ctl_call(c, &request);
    release(&p, c->count);
    return 0;
}
