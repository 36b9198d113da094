#include "validate/check.h"

/* The whole window counts: samples are intervals of equal length, so their mean is bytes over time.
 * A median would forgive a path that stands still for less than half of it, and call one dead that
 * does so for more. */
static double mean_of(const struct evidence_set_record *record)
{
    double sum = 0;
    for (size_t i = 0; i < record->sample_count; i++)
        sum += record->samples[i];
    return record->sample_count ? sum / (double)record->sample_count : 0;
}

static int judge(const struct check *check, struct check_env *env, struct err *err)
{
    return check_paths_by_limits(check, env, check_is_required(env, check->stage), true, mean_of,
                                 err);
}

const struct check check_path_bandwidth = {
    .name = "path_bandwidth",
    .summary = "each direction between two nodes reaches its limit",
    .stage = "pairs",
    .needs = {"tcp_bandwidth"},
    .judge = judge,
};
