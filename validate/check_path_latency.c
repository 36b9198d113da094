#include "validate/check.h"

/* Samples are p50, p99 and min, in this order (contracts.md, section 8). */
static double p50_of(const struct evidence_set_record *record)
{
    return record->samples[0];
}

static int judge(const struct check *check, struct check_env *env, struct err *err)
{
    struct limits_figure figure = {.quantity = limits_find(check->needs[0])};
    if (limits_site_floor(env->input->site, &figure, err) != 0)
        return -1;
    /* Without a limit of the site the figure is information. */
    bool required = figure.has_floor && check_is_required(env, check->stage);
    return check_paths_by_limits(check, env, required, false, p50_of, err);
}

const struct check check_path_latency = {
    .name = "path_latency",
    .summary = "small messages are as quick as the site asks",
    .stage = "pairs",
    .needs = {"tcp_latency"},
    .judge = judge,
};
