#include "validate/check.h"

static double median_of(const struct evidence_set_record *record)
{
    return record->value;
}

static int judge(const struct check *check, struct check_env *env, struct err *err)
{
    return check_paths_by_limits(check, env, check_is_required(env, check->stage), true, median_of,
                                 err);
}

const struct check check_path_bandwidth = {
    .name = "path_bandwidth",
    .summary = "each direction between two nodes reaches its limit",
    .stage = "pairs",
    .needs = {"tcp_bandwidth"},
    .judge = judge,
};
