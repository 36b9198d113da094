#include "validate/check.h"

#include <string.h>

#include "common/jsonx.h"

static bool driver_is_silent(const json_t *facts)
{
    const json_t *pci = json_object_get(facts, "pci");
    if (jsonx_bool_or(json_object_get(facts, "gpus"), "available", false))
        return false;
    for (size_t i = 0; i < json_array_size(pci); i++) {
        const json_t *f = json_array_get(pci, i);
        if (strcmp(jsonx_str_or(f, "vendor", ""), "0x10de") == 0 &&
            strncmp(jsonx_str_or(f, "class", ""), "0x03", 4) == 0)
            return true;
    }
    return false;
}

static void judge_node(const struct check *check, struct check_env *env, const char *node,
                       struct ledger_row *row)
{
    const json_t *facts = check_facts(env, node);
    if (!facts) {
        ledger_set(row, VERDICT_NOT_MEASURED, "facts-missing", "the facts of %s are not known",
                   node);
        return;
    }
    bool unsealed = false;
    const struct evidence_set_record *r =
        check_record(env, node, check->stage, node, check->needs[0], &unsealed);
    if (!r) {
        check_absent(env, row, unsealed);
        return;
    }
    if (!check_use(r, row))
        return;
    if (driver_is_silent(facts))
        ledger_set(row, VERDICT_FAIL, "no-gpu-driver", "GPUs are on the PCI bus, but: %s",
                   jsonx_str_or(json_object_get(facts, "gpus"), "reason", "no reason given"));
    ledger_set(row, VERDICT_PASS, NULL, "facts are known, their digest is signed by the node");
}

static int judge(const struct check *check, struct check_env *env, struct err *err)
{
    for (size_t i = 0; i < env->count; i++)
        judge_node(check, env, env->names[i],
                   ledger_row(env->ledger, env->names[i], env->names[i], check->stage, check->name,
                              check_is_required(env, check->stage)));
    return 0;
}

const struct check check_facts_present = {
    .name = "facts",
    .summary = "the node's inventory is known and signed",
    .stage = "inventory",
    .needs = {"facts_digest"},
    .judge = judge,
};
