/* The allreduce-cluster stage: one ring over every node that the pairs stage has not convicted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/log.h"
#include "common/util.h"
#include "provision/steps.h"

enum { ALLREDUCE_MS = 180000, GRACE_MS = 10000, ENDPOINT_MS = 20000, MIN_RANKS = 2 };

struct allreduce {
    size_t *node_of; /* rank -> node */
    long *rank_of;   /* node -> rank, -1: left out */
    size_t ranks;
    json_t **endpoints; /* per node, own references */
    char token[65];
    int64_t began_ms;
    bool going;
};

static json_t *make(struct ctl *c, size_t node, void *ctx)
{
    struct allreduce *a = ctx;
    if (a->rank_of[node] < 0)
        return NULL;
    json_t *params = step_stage_params(c, "allreduce-cluster");
    const char *interface = jsonx_str_or(json_object_get(c->site, "fabric"), "interface", NULL);
    if (interface && !json_object_get(params, "interface"))
        jsonx_set_str(params, "interface", interface);
    json_t *nodes = json_array();
    for (size_t rank = 0; rank < a->ranks; rank++)
        jsonx_append_str(nodes, c->names[a->node_of[rank]]);
    jsonx_set(params, "nodes", nodes);
    jsonx_set_str(params, "token", a->token);
    jsonx_set_int(params, "rank", a->rank_of[node]);
    jsonx_set_int(params, "ranks", (int64_t)a->ranks);
    return step_stage_request("allreduce-cluster", params, ALLREDUCE_MS);
}

static void on_event(void *ctx, struct fleet *f, size_t node, const json_t *event)
{
    (void)f;
    struct ctl_call *call = ctx;
    struct allreduce *a = call->request->ctx;
    step_take_evidence(call->c, node, event);
    step_take_endpoint(call->c, node, event, &a->endpoints[node]);
}

/* Without one rank there is no ring: tell the others to stop instead of waiting for the deadline.
 */
static void cancel_all(struct ctl_call *call)
{
    for (size_t i = 0; i < call->c->count; i++)
        if (ctl_call_pending(call, i))
            step_cancel(call->c, i);
}

static void send_endpoints(struct ctl_call *call, const struct allreduce *a)
{
    json_auto_t *list = json_array();
    for (size_t rank = 0; rank < a->ranks; rank++)
        jsonx_append(list, json_incref(a->endpoints[a->node_of[rank]]));
    for (size_t rank = 0; rank < a->ranks; rank++) {
        json_auto_t *request = json_object();
        json_t *data = json_object();
        jsonx_set(data, "endpoints", json_incref(list));
        jsonx_set_str(request, "op", "go");
        jsonx_set_int(request, "stage_id", fleet_request_id(call->c->fleet, a->node_of[rank]));
        jsonx_set(request, "data", data);
        fleet_send(call->c->fleet, a->node_of[rank], request);
    }
}

static void on_tick(void *ctx, struct fleet *f, size_t pending)
{
    (void)f;
    struct ctl_call *call = ctx;
    struct allreduce *a = call->request->ctx;
    if (a->going || pending == 0)
        return;
    size_t ready = 0;
    for (size_t rank = 0; rank < a->ranks; rank++)
        ready += a->endpoints[a->node_of[rank]] && ctl_call_pending(call, a->node_of[rank]);
    if (ready == a->ranks) {
        a->going = true;
        send_endpoints(call, a);
    } else if (pending < a->ranks || now_ms() - a->began_ms > ENDPOINT_MS) {
        a->going = true;
        cancel_all(call);
    }
}

/* Nodes that the evidence so far convicts stay out, so that one of them does not spoil the ring. */
static int choose_ranks(struct ctl *c, struct allreduce *a, struct err *err)
{
    json_auto_t *verdict = NULL;
    if (step_judge(c, &verdict, err) != 0)
        return -1;
    const json_t *nodes = json_object_get(verdict, "nodes");
    for (size_t i = 0; i < c->count; i++) {
        const char *state = jsonx_str_or(json_object_get(nodes, c->names[i]), "state", "unknown");
        a->rank_of[i] = -1;
        if (!c->active[i])
            continue;
        if (strcmp(state, "not_ready") == 0) {
            log_info("allreduce-cluster: %s is left out, it has failed already", c->names[i]);
            continue;
        }
        a->rank_of[i] = (long)a->ranks;
        a->node_of[a->ranks++] = i;
    }
    return 0;
}

int step_allreduce(struct ctl *c, struct err *err)
{
    struct allreduce a = {.node_of = mem_zero(c->count, sizeof(size_t)),
                          .rank_of = mem_zero(c->count, sizeof(long)),
                          .endpoints = mem_zero(c->count, sizeof(json_t *)),
                          .began_ms = now_ms()};
    step_token(a.token);
    int status = choose_ranks(c, &a, err);
    if (status == 0 && a.ranks < MIN_RANKS)
        log_warn("allreduce-cluster: fewer than two nodes are left, not measured");
    if (status == 0 && a.ranks >= MIN_RANKS) {
        struct ctl_request request = {.step = "allreduce-cluster",
                                      .cause = "stage-failed",
                                      .make = make,
                                      .on_event = on_event,
                                      .on_tick = on_tick,
                                      .timeout_ms = ALLREDUCE_MS + GRACE_MS,
                                      .ctx = &a};
        ctl_call(c, &request);
    }
    for (size_t i = 0; i < c->count; i++)
        json_decref(a.endpoints[i]);
    free(a.endpoints);
    free(a.rank_of);
    free(a.node_of);
    return status;
}
