#include "validate/check_gpu.h"

#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "validate/causes.h"

void check_gpu_each(const struct check *check, struct check_env *env, check_gpu_fn *use, void *ctx)
{
    for (size_t i = 0; i < env->count; i++) {
        const json_t *gpus = json_object_get(check_facts(env, env->names[i]), "gpus");
        const json_t *devices = json_object_get(gpus, "devices");
        for (size_t k = 0; k < json_array_size(devices); k++) {
            const json_t *device = json_array_get(devices, k);
            struct check_gpu gpu = {.node = env->names[i],
                                    .name = jsonx_str_or(device, "name", "GPU")};
            AUTO(free_str)
            char *subject = str_printf("%s/gpu:%lld", gpu.node,
                                       (long long)jsonx_int_or(device, "index", (int64_t)k));
            gpu.subject = gpu.own = subject;
            gpu.profile = gpu_profile_find(gpu.name);
            use(check, env, &gpu, ctx);
        }
    }
}

static bool has_stage(const struct check_env *env, const char *node, const char *stage)
{
    const struct evidence_set *set = env->input->evidence;
    for (size_t i = 0; i < evidence_set_count(set); i++) {
        const struct evidence_set_record *r = evidence_set_at(set, i);
        if (strcmp(r->stage, stage) == 0 && strcmp(r->node, node) == 0)
            return true;
    }
    return false;
}

/* A GPU that could not be used has one cause, not as many as there are quantities. */
static bool explain_absence(struct check_env *env, const struct check_gpu *gpu, const char *stage,
                            struct ledger_row *row)
{
    bool unsealed = false;
    const struct evidence_set_record *run =
        check_record(env, gpu->node, stage, gpu->own, "gpu_run", &unsealed);
    if (!run || run->outcome != EVIDENCE_FAILED)
        return false;
    const struct cause *cause = causes_find(run->cause);
    ledger_evidence(row, run->node, run->seq);
    ledger_set(row, VERDICT_NOT_MEASURED, cause ? cause->code : "gpu-error",
               "the GPU could not be measured: %s", run->reason ? run->reason : "no reason given");
    return true;
}

const struct evidence_set_record *check_gpu_record(struct check_env *env,
                                                   const struct check_gpu *gpu, const char *stage,
                                                   const char *quantity, bool needed,
                                                   struct ledger_row **row)
{
    bool unsealed = false, required = check_is_required(env, stage);
    *row = NULL;
    if (!required && !has_stage(env, gpu->node, stage))
        return NULL;
    *row = ledger_row(env->ledger, gpu->subject, gpu->node, stage, quantity, required && needed);
    const struct evidence_set_record *r =
        check_record(env, gpu->node, stage, gpu->subject, quantity, &unsealed);
    if (r)
        return check_use(r, *row) ? r : NULL;
    if (unsealed || !explain_absence(env, gpu, stage, *row))
        check_absent(env, *row, unsealed);
    return NULL;
}
