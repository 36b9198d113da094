/* The pairs stage: rounds of disjoint pairs by the circle method, a barrier after each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/log.h"
#include "common/util.h"
#include "provision/pairs_plan.h"
#include "provision/steps.h"

enum {
    ROUND_MS = 30000,      /* deadline of one round on the agents */
    ROUND_GRACE_MS = 5000, /* how much longer the controller waits for its "ready" */
    ENDPOINT_MS = 20000,   /* for the listeners to come up */
    STOP_MS = 10000,       /* for a node that missed a barrier to answer that it has stopped */
    STAGE_BASE_MS = 60000,
    /* A path is only convicted when it fails this often more; a busy machine is no bad cable. */
    RETESTS = 2,
    /* A node with more failed pairs than this is convicted by their number. */
    RETEST_PAIRS_PER_NODE = 8,
    STAGE_MAX_MS = 24 * 3600 * 1000, /* the agent takes no longer deadline */
    DEFAULT_DURATION_MS = 1000,
    MAX_DURATION_MS = 60000
};

struct pairs {
    struct pairs_plan plan;
    json_t **endpoints; /* per node, own references */
    long *ready;        /* per node: last round it is ready after, -1 before the first */
    int64_t *stop_ms;   /* per node: when it was told to stop, 0 for never */
    char token[65];
    long round;       /* running round, -1 while endpoints are collected */
    unsigned attempt; /* 0, then one up for each time that failed pairs are measured again */
    int64_t round_began_ms;
    bool finished;
    size_t failed_pairs;
};

static unsigned stage_ms(const struct pairs *p)
{
    uint64_t ms = STAGE_BASE_MS + (uint64_t)p->plan.rounds * (ROUND_MS + ROUND_GRACE_MS);
    return ms < STAGE_MAX_MS ? (unsigned)ms : STAGE_MAX_MS;
}

static bool is_member(const struct pairs *p, size_t node)
{
    size_t i = 0;
    while (i < p->plan.members && p->plan.member[i] != node)
        i++;
    return i < p->plan.members;
}

static json_t *make(struct ctl *c, size_t node, void *ctx)
{
    struct pairs *p = ctx;
    if (!is_member(p, node))
        return NULL;
    json_t *params = step_stage_params(c, "pairs");
    const char *interface = jsonx_str_or(json_object_get(c->site, "fabric"), "interface", NULL);
    if (interface && !json_object_get(params, "interface"))
        jsonx_set_str(params, "interface", interface);
    jsonx_set_str(params, "token", p->token);
    if (p->attempt > 0) {
        int64_t duration_ms = jsonx_int_or(params, "duration_ms", DEFAULT_DURATION_MS)
                              << p->attempt;
        jsonx_set_int(params, "duration_ms",
                      duration_ms < MAX_DURATION_MS ? duration_ms : MAX_DURATION_MS);
    }
    return step_stage_request("pairs", params, stage_ms(p));
}

static void on_event(void *ctx, struct fleet *f, size_t node, const json_t *event)
{
    (void)f;
    struct ctl_call *call = ctx;
    struct pairs *p = call->request->ctx;
    const char *name = jsonx_str_or(event, "event", "");
    step_take_evidence(call->c, node, event);
    step_take_endpoint(call->c, node, event, &p->endpoints[node]);
    if (strcmp(name, "ready") == 0) {
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
    return ctl_call_pending(call, node) && p->endpoints[node] && p->stop_ms[node] == 0;
}

static void begin_round(struct ctl_call *call, struct pairs *p)
{
    p->round++;
    p->round_began_ms = now_ms();
    for (size_t i = 0; i < p->plan.members; i++) {
        size_t node = p->plan.member[i];
        if (!takes_part(call, node))
            continue;
        long partner = pairs_plan_partner(&p->plan, (size_t)p->round, i);
        size_t peer = partner < 0 ? node : p->plan.member[partner];
        json_t *go = json_object();
        jsonx_set_int(go, "round", p->round);
        jsonx_set_int(go, "deadline_ms", ROUND_MS);
        bool meets = partner >= 0 && takes_part(call, peer);
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
    for (size_t i = 0; i < p->plan.members; i++) {
        if (!takes_part(call, p->plan.member[i]))
            continue;
        json_t *go = json_object();
        jsonx_set_bool(go, "done", true);
        send_go(call, p->plan.member[i], go);
    }
}

static bool has_come(const struct pairs *p, size_t node)
{
    return p->endpoints[node] && (p->round < 0 || p->ready[node] >= p->round);
}

/* Everyone who still takes part has come to the barrier. */
static bool barrier_reached(const struct ctl_call *call, const struct pairs *p)
{
    for (size_t i = 0; i < p->plan.members; i++) {
        size_t node = p->plan.member[i];
        if (ctl_call_pending(call, node) && p->stop_ms[node] == 0 && !has_come(p, node))
            return false;
    }
    return true;
}

/* Who misses a barrier would hold up every later one as long: it takes no further part. */
static void stop_late(struct ctl_call *call, struct pairs *p)
{
    int64_t now = now_ms();
    if (now - p->round_began_ms <= (p->round < 0 ? ENDPOINT_MS : ROUND_MS + ROUND_GRACE_MS))
        return;
    for (size_t i = 0; i < p->plan.members; i++) {
        size_t node = p->plan.member[i];
        if (!ctl_call_pending(call, node) || p->stop_ms[node] != 0 || has_come(p, node))
            continue;
        log_warn("pairs: %s does not come to the end of round %ld and takes no further part",
                 call->c->names[node], p->round + 1);
        p->stop_ms[node] = now;
        step_cancel(call->c, node);
    }
}

/* An agent that does not even answer that it has stopped. */
static void drop_silent(struct ctl_call *call, struct pairs *p)
{
    for (size_t i = 0; i < p->plan.members; i++) {
        size_t node = p->plan.member[i];
        if (p->stop_ms[node] != 0 && ctl_call_pending(call, node) &&
            now_ms() - p->stop_ms[node] > STOP_MS)
            fleet_drop(call->c->fleet, node, ERR_TIMEOUT, "stage-timeout",
                       "the agent did not end its round in time, nor when it was told to stop");
    }
}

static void on_tick(void *ctx, struct fleet *f, size_t pending)
{
    (void)f;
    struct ctl_call *call = ctx;
    struct pairs *p = call->request->ctx;
    if (pending == 0)
        return;
    drop_silent(call, p);
    if (p->finished)
        return;
    stop_late(call, p);
    if (barrier_reached(call, p)) {
        if (p->round + 1 < (long)p->plan.rounds)
            begin_round(call, p);
        else
            finish(call, p);
    }
    char detail[96];
    snprintf(detail, sizeof detail, "round %ld of %zu%s", p->round + 1, p->plan.rounds,
             p->failed_pairs ? ", some pairs failed" : "");
    struct progress *bar = &call->c->progress;
    progress_update(bar, bar->done, bar->failed, detail);
}

static void measure(struct ctl *c, struct pairs *p)
{
    p->endpoints = mem_zero(c->count, sizeof *p->endpoints);
    p->ready = mem_zero(c->count, sizeof *p->ready);
    p->stop_ms = mem_zero(c->count, sizeof *p->stop_ms);
    for (size_t i = 0; i < c->count; i++)
        p->ready[i] = -1;
    p->round = -1;
    p->round_began_ms = now_ms();
    step_token(p->token);
    struct ctl_request request = {.step = "pairs",
                                  .cause = "stage-failed",
                                  .make = make,
                                  .on_event = on_event,
                                  .on_tick = on_tick,
                                  .timeout_ms = stage_ms(p) + ROUND_GRACE_MS,
                                  .ctx = p};
    ctl_call(c, &request);
    for (size_t i = 0; i < c->count; i++)
        json_decref(p->endpoints[i]);
    free(p->endpoints);
    free(p->ready);
    free(p->stop_ms);
}

static size_t node_of(const struct ctl *c, const char *name, size_t len)
{
    size_t i = 0;
    while (i < c->count && (strncmp(c->names[i], name, len) != 0 || c->names[i][len] != '\0'))
        i++;
    return i;
}

/* Pairs with a failed path whose ends are both still there.  Data that arrived wrong once is never
 * forgiven, so it is not measured again. */
static size_t failed_pairs(const struct ctl *c, const json_t *verdict, struct pairs_pair **pairs)
{
    size_t count = 0, i;
    json_t *element;
    *pairs = NULL;
    json_array_foreach(json_object_get(verdict, "elements"), i, element)
    {
        const char *subject = jsonx_str_or(element, "subject", "");
        const char *arrow = strchr(subject, '>');
        if (!arrow || strcmp(jsonx_str_or(element, "stage", ""), "pairs") != 0 ||
            strcmp(jsonx_str_or(element, "verdict", ""), "FAIL") != 0 ||
            strcmp(jsonx_str_or(element, "cause", ""), "data-corrupt") == 0)
            continue;
        struct pairs_pair pair = {node_of(c, subject, (size_t)(arrow - subject)),
                                  node_of(c, arrow + 1, strlen(arrow + 1))};
        if (pair.a == c->count || pair.b == c->count || !c->active[pair.a] || !c->active[pair.b])
            continue;
        *pairs = mem_grow(*pairs, count + 1, sizeof **pairs);
        (*pairs)[count++] = pair;
    }
    return count;
}

/* Takes out the pairs of nodes that fail with many; returns how many pairs are left. */
static size_t leave_out_convicted(const struct ctl *c, struct pairs_pair pairs[], size_t count)
{
    size_t *failed = mem_zero(c->count, sizeof *failed), kept = 0;
    for (size_t i = 0; i < count; i++) {
        failed[pairs[i].a]++;
        failed[pairs[i].b]++;
    }
    for (size_t i = 0; i < count; i++)
        /* Both directions of a pair are in the list. */
        if (failed[pairs[i].a] <= 2 * RETEST_PAIRS_PER_NODE &&
            failed[pairs[i].b] <= 2 * RETEST_PAIRS_PER_NODE)
            pairs[kept++] = pairs[i];
    free(failed);
    return kept;
}

/* Measures what failed again, longer; the newest result counts. */
static int retest(struct ctl *c, unsigned attempt, bool *again, struct err *err)
{
    json_auto_t *verdict = NULL;
    struct pairs_pair *pairs = NULL;
    if (step_judge(c, &verdict, err) != 0)
        return -1;
    size_t count = failed_pairs(c, verdict, &pairs);
    count = leave_out_convicted(c, pairs, count);
    *again = count > 0;
    if (count > 0) {
        struct pairs p = {.attempt = attempt};
        pairs_plan_some(&p.plan, pairs, count);
        log_info("pairs: %zu directed path%s failed and %s measured again (%u of %d)", count,
                 count == 1 ? "" : "s", count == 1 ? "is" : "are", attempt, RETESTS);
        measure(c, &p);
        pairs_plan_release(&p.plan);
    }
    free(pairs);
    return 0;
}

int step_pairs(struct ctl *c, struct err *err)
{
    struct pairs p = {.attempt = 0};
    size_t *nodes = mem_zero(c->count, sizeof *nodes), count = 0;
    for (size_t i = 0; i < c->count; i++)
        if (c->active[i])
            nodes[count++] = i;
    pairs_plan_all(&p.plan, nodes, count);
    free(nodes);
    measure(c, &p);
    pairs_plan_release(&p.plan);
    bool again = true;
    for (unsigned attempt = 1; attempt <= RETESTS && again; attempt++)
        if (retest(c, attempt, &again, err) != 0)
            return -1;
    return 0;
}
