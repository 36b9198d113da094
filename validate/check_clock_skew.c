#include "validate/check.h"

#include <stdlib.h>

#include "common/jsonx.h"
#include "common/util.h"

enum { DEFAULT_MAX_SKEW_MS = 5000 };

static int judge(const struct check *check, struct check_env *env, struct err *err)
{
    int64_t limit_ms = jsonx_int_or(json_object_get(env->input->site, "policy"),
                                    "max_clock_skew_ms", DEFAULT_MAX_SKEW_MS);
    for (size_t i = 0; i < env->count; i++) {
        const char *node = env->names[i];
        struct ledger_row *row = ledger_row(env->ledger, node, node, check->stage, check->name,
                                            check_is_required(env, check->stage));
        const json_t *skew = json_object_get(env->input->clock_skew_ms, node);
        if (!json_is_integer(skew)) {
            ledger_set(row, VERDICT_NOT_MEASURED, "clock-unknown",
                       "the clock of %s was not compared with the controller's", node);
            continue;
        }
        double seconds = (double)json_integer_value(skew) / 1000;
        double limit = (double)limit_ms / 1000;
        bool late = seconds > limit || seconds < -limit;
        ledger_value(row, seconds, "s");
        ledger_limit(row, LEDGER_LIMIT_CEILING, limit, "site: policy.max_clock_skew");
        ledger_set(row, late ? VERDICT_FAIL : VERDICT_PASS, late ? "clock-skew" : NULL,
                   "the clock differs by %.3f s from the controller's (limit %.3f s)", seconds,
                   limit);
    }
    return 0;
}

const struct check check_clock_skew = {
    .name = "clock_skew",
    .summary = "the node's clock agrees with the controller's",
    .stage = "inventory",
    .judge = judge,
};
