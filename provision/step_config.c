/* Plan, apply, roll back: the controller's side of the configuration transaction. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/log.h"
#include "common/util.h"
#include "provision/plan.h"
#include "provision/playbook.h"
#include "provision/steps.h"

enum { PLAN_MS = 60000, APPLY_MS = 300000 };

struct plan_step {
    struct playbook_set *playbooks;
    json_t **resources, **skipped; /* per node, own references */
    json_t *plan;
};

static json_t *make_plan(struct ctl *c, size_t node, void *ctx)
{
    struct plan_step *step = ctx;
    struct err err = {0};
    const json_t *facts = json_object_get(c->facts, c->names[node]);
    if (playbook_resolve(step->playbooks, c->site, c->names[node], facts, &step->resources[node],
                         &step->skipped[node], &err) != 0) {
        plan_add_error(step->plan, c->names[node], err.text);
        ctl_outcome(c, node, "plan", "plan-failed", err.text);
        return NULL;
    }
    json_t *request = json_object();
    jsonx_set_str(request, "op", "plan");
    jsonx_set(request, "resources", json_incref(step->resources[node]));
    return request;
}

static void take_plan(struct ctl *c, size_t node, const json_t *data, const struct err *error,
                      void *ctx)
{
    struct plan_step *step = ctx;
    struct err err = {0};
    const json_t *items = data;
    if (json_is_object(data))
        items = json_object_get(data, "items");
    if (!data)
        plan_add_error(step->plan, c->names[node], error->text);
    else if (plan_add(step->plan, c->names[node], step->resources[node], step->skipped[node], items,
                      &err) != 0)
        plan_add_error(step->plan, c->names[node], err.text);
    if (plan_node_failed(step->plan, c->names[node]) && data)
        ctl_outcome(c, node, "plan", "plan-failed",
                    err.kind ? err.text : "the plan has an error; nothing is applied there");
}

static int save_plan(struct ctl *c, const json_t *plan, struct err *err)
{
    if (!c->run.dir)
        return 0;
    AUTO(free_str) char *path = run_path(&c->run, "plan.json");
    if (plan_save(plan, path, err) != 0)
        return -1;
    return run_note(&c->run, "plan", "done", NULL, err);
}

int step_plan(struct ctl *c, json_t **plan, struct err *err)
{
    AUTO(playbook_set_release) struct playbook_set *playbooks = playbook_set_load(c->site, err);
    if (!playbooks)
        return -1;
    struct plan_step step = {
        .playbooks = playbooks,
        .resources = mem_zero(c->count, sizeof(json_t *)),
        .skipped = mem_zero(c->count, sizeof(json_t *)),
        .plan = plan_create(c->run.dir ? c->run.id : "none"),
    };
    struct ctl_request request = {
        .step = "plan", .make = make_plan, .done = take_plan, .timeout_ms = PLAN_MS, .ctx = &step};
    ctl_call(c, &request);
    for (size_t i = 0; i < c->count; i++) {
        json_decref(step.resources[i]);
        json_decref(step.skipped[i]);
    }
    free(step.resources);
    free(step.skipped);
    if (save_plan(c, step.plan, err) != 0) {
        json_decref(step.plan);
        return -1;
    }
    *plan = step.plan;
    return 0;
}

struct apply_step {
    const json_t *plan;
    char *txn;
    struct err *err;
};

static json_t *make_apply(struct ctl *c, size_t node, void *ctx)
{
    struct apply_step *step = ctx;
    json_t *resources = json_object_get(json_object_get(step->plan, "nodes"), c->names[node]);
    if (!resources || plan_node_failed(step->plan, c->names[node]))
        return NULL;
    json_t *request = json_object();
    jsonx_set_str(request, "op", "apply");
    jsonx_set_str(request, "txn", step->txn);
    jsonx_set(request, "resources", json_incref(resources));
    return request;
}

/* First item that failed, as a sentence. */
static void tell_failed_item(struct ctl *c, size_t node, const json_t *data)
{
    size_t i;
    json_t *item;
    bool failed = false;
    json_array_foreach(json_object_get(data, "items"), i, item)
    {
        if (strcmp(jsonx_str_or(item, "outcome", ""), "failed") != 0)
            continue;
        AUTO(free_str)
        char *text = str_printf("%s %s: %s; every change of this run on the node was undone",
                                jsonx_str_or(item, "kind", "?"), jsonx_str_or(item, "id", "?"),
                                jsonx_str_or(item, "text", "failed"));
        ctl_outcome(c, node, "apply", "apply-failed", text);
        failed = true;
    }
    const char *state = jsonx_str_or(data, "state", "");
    if (strcmp(state, "open") == 0)
        ctl_outcome(c, node, "apply", "apply-failed",
                    "the node is neither as before nor as planned: an item could not be put back; "
                    "mend its cause and run muster apply again");
    if (strcmp(state, "undone") == 0 && !failed)
        ctl_outcome(c, node, "apply", "apply-failed", "the transaction was undone");
}

static void take_apply(struct ctl *c, size_t node, const json_t *data, const struct err *error,
                       void *ctx)
{
    struct apply_step *step = ctx;
    (void)error;
    if (!data)
        return;
    jsonx_set(c->applies, c->names[node], json_incref((json_t *)data));
    json_t *manifest = json_object_get(data, "manifest");
    if (manifest)
        jsonx_set(c->configs, c->names[node], json_incref(manifest));
    tell_failed_item(c, node, data);
    AUTO(free_str) char *path = run_node_path(&c->run, "apply", c->names[node], ".json");
    jsonx_save(path, data, 0600, step->err);
}

int step_apply(struct ctl *c, const json_t *plan, struct err *err)
{
    if (!c->applies)
        c->applies = json_object();
    struct err save_error = {0};
    /* A resumed run applies in a transaction of its own: the first one may be committed somewhere.
     */
    int64_t earlier = run_attempts(&c->run, "apply");
    AUTO(free_str)
    char *txn =
        earlier ? str_printf("%s.%lld", c->run.id, (long long)earlier + 1) : str_dup(c->run.id);
    struct apply_step step = {.plan = plan, .txn = txn, .err = &save_error};
    struct ctl_request request = {.step = "apply",
                                  .make = make_apply,
                                  .done = take_apply,
                                  .timeout_ms = APPLY_MS,
                                  .ctx = &step};
    if (run_note(&c->run, "apply", "begin", NULL, err) != 0)
        return -1;
    ctl_call(c, &request);
    if (save_error.kind != ERR_NONE) {
        *err = save_error;
        return -1;
    }
    return run_note(&c->run, "apply", "done", NULL, err);
}

struct rollback_step {
    const char *txn;
    bool force;
};

static json_t *make_rollback(struct ctl *c, size_t node, void *ctx)
{
    (void)c;
    (void)node;
    struct rollback_step *step = ctx;
    json_t *request = json_object();
    jsonx_set_str(request, "op", "rollback");
    jsonx_set_str(request, "txn", step->txn ? step->txn : "latest");
    jsonx_set_bool(request, "force", step->force);
    return request;
}

static void take_rollback(struct ctl *c, size_t node, const json_t *data, const struct err *error,
                          void *ctx)
{
    (void)error;
    (void)ctx;
    if (!data)
        return;
    if (!c->applies)
        c->applies = json_object();
    jsonx_set(c->applies, c->names[node], json_incref((json_t *)data));
}

int step_rollback(struct ctl *c, const char *txn, bool force, struct err *err)
{
    (void)err;
    struct rollback_step step = {.txn = txn, .force = force};
    struct ctl_request request = {.step = "rollback",
                                  .make = make_rollback,
                                  .done = take_rollback,
                                  .timeout_ms = APPLY_MS,
                                  .ctx = &step};
    ctl_call(c, &request);
    return 0;
}
