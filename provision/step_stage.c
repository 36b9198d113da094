/* Stages that a node runs by itself, and what all stage steps share. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/jsonx.h"
#include "common/log.h"
#include "common/util.h"
#include "provision/steps.h"

enum { INVENTORY_MS = 60000, GPU_STAGE_MS = 180000, STAGE_GRACE_MS = 10000 };

json_t *step_stage_params(const struct ctl *c, const char *stage)
{
    const json_t *params = json_object_get(json_object_get(c->site, "stages"), stage);
    return json_is_object(params) ? json_deep_copy(params) : json_object();
}

json_t *step_stage_request(const char *stage, json_t *params, unsigned deadline_ms)
{
    json_t *request = json_object();
    jsonx_set_str(request, "op", "stage");
    jsonx_set_str(request, "stage", stage);
    jsonx_set(request, "params", params);
    jsonx_set_int(request, "deadline_ms", deadline_ms);
    return request;
}

void step_token(char token[static 65])
{
    struct hash secret;
    random_bytes(secret.bytes, sizeof secret.bytes);
    hash_hex(&secret, token);
}

/* A stage that each node runs by itself. */
struct node_stage {
    const char *name;
    unsigned deadline_ms;
    bool needs_gpu; /* asked of nodes only whose facts show a GPU, or that one is on the bus */
};

static bool has_gpu(const struct ctl *c, size_t node)
{
    const json_t *facts = json_object_get(c->facts, c->names[node]);
    const json_t *gpus = json_object_get(facts, "gpus");
    const char *reason = jsonx_str_or(gpus, "reason", "");
    return json_array_size(json_object_get(gpus, "devices")) > 0 ||
           (json_is_object(gpus) && strcmp(reason, "no NVIDIA GPU on the PCI bus") != 0);
}

static json_t *make_node_stage(struct ctl *c, size_t node, void *ctx)
{
    const struct node_stage *stage = ctx;
    if (stage->needs_gpu && !has_gpu(c, node))
        return NULL; /* the ledger says that the hardware is not here */
    return step_stage_request(stage->name, step_stage_params(c, stage->name), stage->deadline_ms);
}

static void take_event(void *ctx, struct fleet *f, size_t node, const json_t *event)
{
    (void)f;
    struct ctl_call *call = ctx;
    step_take_evidence(call->c, node, event);
}

static int run_node_stage(struct ctl *c, const struct node_stage *stage)
{
    struct node_stage own = *stage;
    struct ctl_request request = {.step = own.name,
                                  .cause = "stage-failed",
                                  .make = make_node_stage,
                                  .on_event = take_event,
                                  .timeout_ms = own.deadline_ms + STAGE_GRACE_MS,
                                  .ctx = &own};
    ctl_call(c, &request);
    return 0;
}

/* In the order of the run.  Stages between nodes have a function of their own. */
static const struct {
    struct node_stage node;
    int (*run)(struct ctl *c, struct err *err);
} stages[] = {
    {{"inventory", INVENTORY_MS, false}, NULL}, {{"gpu", GPU_STAGE_MS, true}, NULL},
    {{"pcie", GPU_STAGE_MS, true}, NULL},       {{"shm", GPU_STAGE_MS, true}, NULL},
    {{"pairs", 0, false}, step_pairs},          {{"allreduce-cluster", 0, false}, step_allreduce},
};

const char *const step_stage_names[] = {"inventory",         "gpu", "pcie", "shm", "pairs",
                                        "allreduce-cluster", NULL};
_Static_assert(ARRAY_LEN(step_stage_names) == ARRAY_LEN(stages) + 1, "one name per stage");

/* Whether the comma-separated list names the stage; NULL means all. */
static bool wanted(const char *only, const char *stage)
{
    if (!only)
        return true;
    size_t len = strlen(stage);
    for (const char *p = only; *p; p += strcspn(p, ","), p += *p == ',')
        if (strcspn(p, ",") == len && strncmp(p, stage, len) == 0)
            return true;
    return false;
}

static int check_names(const char *only, struct err *err)
{
    for (const char *p = only; p && *p; p += strcspn(p, ","), p += *p == ',') {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p, ","), p);
        bool known = false;
        for (size_t i = 0; step_stage_names[i]; i++)
            known = known || strcmp(step_stage_names[i], name) == 0;
        const char *near = known ? NULL : str_nearest(name, step_stage_names);
        if (!known)
            return err_set(err, ERR_USAGE,
                           "--stages: '%s' is not a stage that can be run (inventory, gpu, pcie, "
                           "shm, pairs, allreduce-cluster)%s%s%s",
                           name, near ? "; did you mean '" : "", near ? near : "",
                           near ? "'?" : "");
    }
    return 0;
}

/* A resumed run repeats a stage unless every active node has it. */
static bool stage_done(const struct ctl *c, const char *step)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->active[i] && !run_has(&c->run, step, c->names[i]))
            return false;
    return true;
}

static json_t *node_states(const struct ctl *c, const bool *before)
{
    json_t *nodes = json_object();
    for (size_t i = 0; i < c->count; i++)
        if (before[i])
            jsonx_set_str(nodes, c->names[i], c->active[i] ? "ok" : "node lost");
    return nodes;
}

static int run_stage(struct ctl *c, size_t stage, struct err *err)
{
    AUTO(free_str) char *step = str_printf("stage:%s", stages[stage].node.name);
    if (stage_done(c, step)) {
        log_info("%s: already measured in this run", stages[stage].node.name);
        return 0;
    }
    bool *before = mem_zero(c->count, sizeof *before);
    memcpy(before, c->active, c->count * sizeof *before);
    int status = run_note(&c->run, step, "begin", NULL, err);
    if (status == 0)
        status =
            stages[stage].run ? stages[stage].run(c, err) : run_node_stage(c, &stages[stage].node);
    if (status == 0) {
        json_auto_t *nodes = node_states(c, before);
        status = run_note(&c->run, step, "done", nodes, err);
    }
    free(before);
    return status;
}

int step_stages(struct ctl *c, const char *only, struct err *err)
{
    if (check_names(only, err) != 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(stages); i++)
        if (wanted(only, stages[i].node.name) && run_stage(c, i, err) != 0)
            return -1;
    return 0;
}
