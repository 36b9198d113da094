#include "validate/check.h"

#include "common/jsonx.h"
#include "common/units.h"
#include "common/util.h"

/* GPU and RDMA libraries pin whole buffers; without such a device any limit is good enough. */
static bool pins_memory(const json_t *facts)
{
    return json_array_size(json_object_get(facts, "rdma")) > 0 ||
           json_array_size(json_object_get(json_object_get(facts, "gpus"), "devices")) > 0;
}

static void judge_record(const struct evidence_set_record *r, bool needed, struct ledger_row *row)
{
    if (jsonx_bool_or(json_object_get(r->json, "conditions"), "unlimited", false)) {
        ledger_set(row, VERDICT_PASS, NULL, "locked memory is unlimited");
        return;
    }
    AUTO(free_str) char *value = units_format_bytes(r->value);
    ledger_value(row, r->value, "B");
    if (needed)
        ledger_set(row, VERDICT_FAIL, "memlock-low",
                   "locked memory is limited to %s; RDMA and GPU libraries need it unlimited",
                   value);
    else
        ledger_set(row, VERDICT_PASS, NULL,
                   "locked memory is limited to %s; no RDMA device or GPU here needs more", value);
}

static int judge(const struct check *check, struct check_env *env, struct err *err)
{
    struct limits_figure figure = {.quantity = limits_find("memlock")};
    if (limits_site_floor(env->input->site, &figure, err) != 0)
        return -1;
    /* Where the site states a number, that is the limit (check floors). */
    for (size_t i = 0; i < env->count && !figure.has_floor; i++) {
        const char *node = env->names[i];
        bool needed = pins_memory(check_facts(env, node)), unsealed = false;
        struct ledger_row *row = ledger_row(env->ledger, node, node, check->stage, check->name,
                                            needed && check_is_required(env, check->stage));
        const struct evidence_set_record *r =
            check_record(env, node, check->stage, node, check->needs[0], &unsealed);
        if (!r)
            check_absent(env, row, unsealed);
        else if (check_use(r, row))
            judge_record(r, needed, row);
    }
    return 0;
}

const struct check check_memlock = {
    .name = "memlock",
    .summary = "memory can be locked without limit where RDMA or GPUs need it",
    .stage = "inventory",
    .needs = {"memlock"},
    .judge = judge,
};
