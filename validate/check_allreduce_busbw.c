#include "validate/check.h"

#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"

#define SUBJECT "cluster"

struct sum {
    double slowest; /* B/s, of the largest message, over the nodes */
    size_t nodes;
    double link_bps; /* the slowest link, 0 when one is not known */
    char *link_source;
};

static int64_t bytes_of(const struct evidence_set_record *r)
{
    return jsonx_int_or(json_object_get(r->json, "conditions"), "bytes", 0);
}

/* The node's figure for the largest message of its last attempt. */
static const struct evidence_set_record *largest(const struct check *check,
                                                 const struct check_env *env, const char *node)
{
    const struct evidence_set *set = env->input->evidence;
    const struct evidence_set_record *best = NULL, *r;
    size_t cursor = 0;
    while ((r = evidence_set_next(set, node, check->stage, SUBJECT, check->needs[0], &cursor))) {
        bool usable = evidence_set_is_current(set, r) && r->outcome == EVIDENCE_MEASURED;
        if (usable && (!best || bytes_of(r) >= bytes_of(best)))
            best = r;
    }
    return best;
}

static void add_node(struct sum *sum, const struct check_env *env,
                     const struct evidence_set_record *r)
{
    char *source = NULL;
    double bps = check_link_bps(env, r->node, &source);
    if (sum->nodes == 0 || r->value < sum->slowest)
        sum->slowest = r->value;
    if (sum->nodes == 0 || bps < sum->link_bps) {
        free(sum->link_source);
        sum->link_source = STEAL(source);
        sum->link_bps = bps;
    }
    free(source);
    sum->nodes++;
}

static int judge(const struct check *check, struct check_env *env, struct err *err)
{
    struct limits_figure figure = {.quantity = limits_find(check->needs[0])};
    if (limits_site_floor(env->input->site, &figure, err) != 0)
        return -1;
    bool required = check_is_required(env, check->stage);
    struct sum sum = {0};
    struct ledger_row *row = NULL;
    for (size_t i = 0; i < env->count; i++) {
        const struct evidence_set_record *r = largest(check, env, env->names[i]);
        if (!r && !required)
            continue;
        row = ledger_row(env->ledger, SUBJECT, "", check->stage, check->name, required);
        if (!r)
            continue;
        ledger_evidence(row, r->node, r->seq);
        add_node(&sum, env, r);
    }
    if (sum.nodes > 0) {
        figure.value = sum.slowest;
        figure.link_bps = sum.link_bps;
        figure.link_source = sum.link_source;
        limits_judge(&figure, row);
    }
    free(sum.link_source);
    return 0;
}

const struct check check_allreduce_busbw = {
    .name = "allreduce_busbw",
    .summary = "the collective is as fast as its slowest link lets it be",
    .stage = "allreduce-cluster",
    .needs = {"allreduce_busbw"},
    .judge = judge,
};
