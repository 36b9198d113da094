#include "validate/check.h"

#include <string.h>

#include "common/jsonx.h"

static size_t count_of(const json_t *facts, const char *what)
{
    if (strcmp(what, "gpus") == 0)
        return json_array_size(json_object_get(json_object_get(facts, "gpus"), "devices"));
    return json_array_size(json_object_get(facts, what));
}

static void judge_profile(const json_t *profile, const json_t *facts, const char *name,
                          struct ledger_row *row)
{
    static const struct {
        const char *what, *key, *cause;
    } counts[] = {{"gpus", "gpu_count", "gpu-missing"},
                  {"rdma", "rdma_count", "hardware-mismatch"}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        int64_t want = jsonx_int_or(profile, counts[i].key, -1);
        size_t have = count_of(facts, counts[i].what);
        if (want >= 0 && (size_t)want != have)
            ledger_set(row, VERDICT_FAIL, counts[i].cause, "profile %s has %s %lld, here are %zu",
                       name, counts[i].key, (long long)want, have);
    }
    const char *gpu_name = jsonx_str_or(profile, "gpu_name", NULL);
    const json_t *gpus = json_object_get(json_object_get(facts, "gpus"), "devices");
    for (size_t i = 0; gpu_name && i < json_array_size(gpus); i++) {
        const char *have = jsonx_str_or(json_array_get(gpus, i), "name", "?");
        if (strcmp(have, gpu_name) != 0)
            ledger_set(row, VERDICT_FAIL, "hardware-mismatch",
                       "profile %s has GPUs '%s', GPU %zu is '%s'", name, gpu_name, i, have);
    }
    int64_t least = jsonx_int_or(profile, "memory_min_bytes", 0);
    int64_t memory = jsonx_int_or(json_object_get(facts, "memory"), "total_bytes", 0);
    if (memory < least)
        ledger_set(row, VERDICT_FAIL, "hardware-mismatch",
                   "profile %s has at least %lld bytes of memory, here are %lld", name,
                   (long long)least, (long long)memory);
    ledger_set(row, VERDICT_PASS, NULL, "as profile %s has it", name);
}

static int judge(const struct check *check, struct check_env *env, struct err *err)
{
    for (size_t i = 0; i < env->count; i++) {
        const char *node = env->names[i];
        const char *name = jsonx_str_or(check_site_node(env, node), "hardware", NULL);
        if (!name)
            continue;
        struct ledger_row *row = ledger_row(env->ledger, node, node, check->stage, check->name,
                                            check_is_required(env, check->stage));
        const json_t *profile = json_object_get(env->input->profiles, name);
        const json_t *facts = check_facts(env, node);
        if (!facts)
            ledger_set(row, VERDICT_NOT_MEASURED, "facts-missing", "the facts of %s are not known",
                       node);
        else if (!json_is_object(profile))
            ledger_set(row, VERDICT_NOT_MEASURED, "hardware-unknown",
                       "the site names hardware profile '%s', whose content is not known", name);
        else
            judge_profile(profile, facts, name, row);
    }
    return 0;
}

const struct check check_hardware = {
    .name = "expected_hardware",
    .summary = "the node has what its hardware profile says",
    .stage = "inventory",
    .judge = judge,
};
