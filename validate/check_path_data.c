#include "validate/check.h"

#include "common/jsonx.h"

static void use(struct check_env *env, const struct check_path *path, void *ctx)
{
    const struct evidence_set_record *r = path->record;
    const json_t *mismatches = json_object_get(json_object_get(r->json, "proof"), "mismatches");
    double count = json_number_value(mismatches);
    ledger_value(path->row, r->value, "B");
    ledger_limit(path->row, LEDGER_LIMIT_EXACT, 0, "no byte may differ");
    if (!json_is_number(mismatches))
        ledger_set(path->row, VERDICT_NOT_MEASURED, "not-run",
                   "the record does not say how many bytes differed");
    else if (count != 0)
        ledger_set(path->row, VERDICT_FAIL, "data-corrupt", "%.0f of %.0f bytes arrived altered",
                   count, r->value);
    else if (!(r->value > 0))
        ledger_set(path->row, VERDICT_NOT_MEASURED, "not-run", "no byte was compared");
    else
        ledger_set(path->row, VERDICT_PASS, NULL, "%.0f bytes compared, none differ", r->value);
}

static int judge(const struct check *check, struct check_env *env, struct err *err)
{
    check_paths(check, env, check_is_required(env, check->stage), true, use, NULL);
    return 0;
}

const struct check check_path_data = {
    .name = "path_data",
    .summary = "what arrives is what was sent",
    .stage = "pairs",
    .needs = {"tcp_data"},
    .judge = judge,
};
