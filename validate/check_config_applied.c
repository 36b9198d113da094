#include "validate/check.h"

#include <string.h>

#include "common/jsonx.h"

static void judge_apply(const json_t *apply, struct ledger_row *row)
{
    const char *state = jsonx_str_or(apply, "state", "unknown");
    const json_t *items = json_object_get(apply, "items");
    for (size_t i = 0; i < json_array_size(items); i++) {
        const json_t *item = json_array_get(items, i);
        if (strcmp(jsonx_str_or(item, "outcome", ""), "failed") == 0)
            ledger_set(row, VERDICT_FAIL, "apply-failed", "%s %s: %s",
                       jsonx_str_or(item, "kind", "?"), jsonx_str_or(item, "id", "?"),
                       jsonx_str_or(item, "text", "no text"));
    }
    if (strcmp(state, "committed") == 0 || strcmp(state, "nothing") == 0)
        ledger_set(row, VERDICT_PASS, NULL, "%zu resources are as planned", json_array_size(items));
    else
        ledger_set(row, VERDICT_FAIL, "apply-failed", "the transaction ended in state '%s'", state);
}

static int judge(const struct check *check, struct check_env *env, struct err *err)
{
    if (!env->input->applies)
        return 0;
    for (size_t i = 0; i < env->count; i++) {
        const char *node = env->names[i];
        const json_t *apply = json_object_get(env->input->applies, node);
        const json_t *playbooks = json_object_get(check_site_node(env, node), "playbooks");
        if (!apply && json_array_size(playbooks) == 0)
            continue;
        struct ledger_row *row =
            ledger_row(env->ledger, node, node, check->stage, check->name, true);
        if (apply)
            judge_apply(apply, row);
        else
            ledger_set(row, VERDICT_NOT_MEASURED, "config-missing",
                       "the site gives %s playbooks, but they were not applied in this run", node);
    }
    return 0;
}

const struct check check_config_applied = {
    .name = "config_applied",
    .summary = "what the playbooks ask for was applied and verified",
    .stage = "run",
    .judge = judge,
};
