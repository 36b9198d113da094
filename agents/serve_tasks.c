#include <string.h>

#include "agents/facts/facts.h"
#include "agents/resources/resources.h"
#include "agents/serve_state.h"
#include "agents/stages/stage_run.h"
#include "common/jsonx.h"

/* Tells the controller how far the transaction is; non-zero once nobody listens any more. */
static int report_progress(void *ctx, size_t index, size_t count, const char *text)
{
    struct worker_link *link = ctx;
    if (worker_link_gone(link))
        return 1;
    json_t *event = json_object();
    json_t *sentence = json_string(text);
    jsonx_set_str(event, "event", "progress");
    jsonx_set_int(event, "i", (int64_t)index);
    jsonx_set_int(event, "n", (int64_t)count);
    jsonx_set(event, "text", sentence ? sentence : json_null());
    struct err lost = {0};
    return worker_link_send(link, event, &lost);
}

static struct resources_env config_env(const struct serve *s, struct worker_link *link)
{
    return (struct resources_env){
        .root = &s->options.root,
        .state_dir = s->options.state_dir,
        .progress = link ? report_progress : NULL,
        .ctx = link,
    };
}

static int task_facts(struct serve_job *job, struct worker_link *link, json_t **data,
                      struct err *err)
{
    json_t *facts = NULL;
    if (facts_read(&job->serve->options.root, &facts, err) != 0)
        return -1;
    *data = json_object();
    jsonx_set(*data, "facts", facts);
    return 0;
}

static int task_plan(struct serve_job *job, struct worker_link *link, json_t **data,
                     struct err *err)
{
    struct resources_env env = config_env(job->serve, NULL);
    json_t *items = NULL;
    if (resources_plan(&env, json_object_get(job->body, "resources"), &items, err) != 0)
        return -1;
    *data = json_object();
    jsonx_set(*data, "items", items);
    return 0;
}

/* The controller needs the manifest for the configuration digest of its report. */
static int add_manifest(const struct resources_env *env, json_t *data, struct err *err)
{
    json_t *manifest = NULL;
    if (resources_manifest(env, &manifest, err) != 0)
        return err_wrap(err, "the transaction is over (%s), but its result cannot be read: ",
                        jsonx_str_or(data, "state", "?"));
    jsonx_set(data, "manifest", manifest);
    return 0;
}

static int task_apply(struct serve_job *job, struct worker_link *link, json_t **data,
                      struct err *err)
{
    struct resources_env env = config_env(job->serve, link);
    json_auto_t *result = NULL;
    if (resources_apply(&env, jsonx_str_or(job->body, "txn", ""),
                        json_object_get(job->body, "resources"), &result, err) != 0 ||
        add_manifest(&env, result, err) != 0)
        return -1;
    *data = STEAL(result);
    return 0;
}

static int task_rollback(struct serve_job *job, struct worker_link *link, json_t **data,
                         struct err *err)
{
    struct resources_env env = config_env(job->serve, link);
    const char *txn = jsonx_str_or(job->body, "txn", "");
    json_auto_t *result = NULL;
    if (resources_rollback(&env, strcmp(txn, "latest") == 0 ? NULL : txn,
                           jsonx_bool_or(job->body, "force", false), &result, err) != 0 ||
        add_manifest(&env, result, err) != 0)
        return -1;
    *data = STEAL(result);
    return 0;
}

static int task_stage(struct serve_job *job, struct worker_link *link, json_t **data,
                      struct err *err)
{
    json_auto_t *none = json_object();
    const json_t *params = json_object_get(job->body, "params");
    struct stage_job stage = {
        .stage = job->stage,
        .params = params ? params : none,
        .node = job->serve->node,
        .root = &job->serve->options.root,
        .deadline_ms = job->deadline_ms,
    };
    return stage_run(link, &stage, data, err);
}

int serve_task_run(struct worker_link *link, void *arg, json_t **data, struct err *err)
{
    static int (*const tasks[PROTOCOL_OP__COUNT])(struct serve_job *, struct worker_link *,
                                                  json_t **, struct err *) = {
        [PROTOCOL_FACTS] = task_facts, [PROTOCOL_PLAN] = task_plan,
        [PROTOCOL_APPLY] = task_apply, [PROTOCOL_ROLLBACK] = task_rollback,
        [PROTOCOL_STAGE] = task_stage,
    };
    struct serve_job *job = arg;
    return tasks[job->op](job, link, data, err);
}

char *serve_recover_text(const struct serve *s)
{
    struct resources_env env = config_env(s, NULL);
    json_auto_t *recovery = NULL;
    struct err err = {0};
    if (resources_recover(&env, &recovery, &err) != 0)
        return str_printf("undoing its transaction failed, the next hello tries again: %s",
                          err.text);
    if (!recovery)
        return str_dup("it had no open transaction");
    return str_printf("%s", jsonx_str_or(recovery, "text", "its transaction was undone"));
}
