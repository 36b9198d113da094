/* muster up and muster validate: from bare nodes, or from configured ones, to the signed report. */
#include <stdio.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/log.h"
#include "common/util.h"
#include "provision/cmd.h"
#include "provision/plan.h"
#include "provision/site.h"
#include "provision/steps.h"

struct settings {
    struct ctl_options common;
    const char *resume, *stages;
    bool no_configure;
};

static const struct opt_row up_rows[] = {
    {OPT_STRING, "resume", 'r', "RUN", "go on with a run that was broken off (an id, or latest)",
     offsetof(struct settings, resume), 0, 0},
    {OPT_STRING, "stages", 0, "LIST", "only these stages, comma-separated",
     offsetof(struct settings, stages), 0, 0},
    {OPT_FLAG, "no-configure", 0, NULL, "measure the nodes as they are, change nothing",
     offsetof(struct settings, no_configure), 0, 0},
    {OPT_END, NULL, 0, NULL, NULL, 0, 0, 0},
};

static const struct opt_row validate_rows[] = {
    {OPT_STRING, "resume", 'r', "RUN", "go on with a run that was broken off (an id, or latest)",
     offsetof(struct settings, resume), 0, 0},
    {OPT_STRING, "stages", 0, "LIST", "only these stages, comma-separated",
     offsetof(struct settings, stages), 0, 0},
    {OPT_END, NULL, 0, NULL, NULL, 0, 0, 0},
};

static int keep_site(struct ctl *c, struct err *err)
{
    AUTO(free_str) char *path = run_path(&c->run, "site.json");
    if (jsonx_save(path, c->site, 0600, err) != 0)
        return -1;
    return run_point_latest(&c->state, &c->run, err);
}

static int cut_evidence(struct ctl *c, struct err *err)
{
    for (size_t i = 0; i < c->count; i++)
        if (run_cut_evidence(&c->run, c->names[i], err) != 0)
            return -1;
    return 0;
}

/* A run goes on only with the site that it began with. */
static int resume(struct ctl *c, const char *id, struct err *err)
{
    json_auto_t *begun = NULL;
    if (ctl_open_run(c, id, true, err) != 0)
        return -1;
    AUTO(free_str) char *path = run_path(&c->run, "site.json");
    char before[HASH_HEX_BYTES], now[HASH_HEX_BYTES];
    if (jsonx_load(path, SIZE_MAX / 2, &begun, err) != 0)
        return err_wrap(err, "run %s cannot be resumed: ", c->run.id);
    site_digest(begun, before);
    site_digest(c->site, now);
    if (strcmp(before, now) == 0)
        return cut_evidence(c, err);
    return err_set(err, ERR_USAGE,
                   "run %s began with another site file or node selection; begin a new run, or use "
                   "%s",
                   c->run.id, path);
}

static int configure(struct ctl *c, struct err *err)
{
    json_auto_t *plan = NULL;
    if (step_plan(c, &plan, err) != 0)
        return -1;
    struct plan_counts counts = plan_count(plan);
    if (!c->options->quiet)
        plan_render(plan, c->options->verbose, stderr);
    if (counts.nodes_change == 0)
        return step_apply(c, plan, err);
    char question[96];
    snprintf(question, sizeof question, "Apply these changes to %zu node%s?", counts.nodes_change,
             counts.nodes_change == 1 ? "" : "s");
    if (!cmd_confirm(c->options, question, err))
        return -1;
    return step_apply(c, plan, err);
}

static int work(struct ctl *c, const struct settings *s, bool configures, struct err *err)
{
    if (ctl_agents(c, err) != 0 || ctl_facts(c, err) != 0)
        return -1;
    if (configures && configure(c, err) != 0)
        return -1;
    if (step_stages(c, s->stages, err) != 0)
        return -1;
    return cmd_conclude(c, err);
}

static int begin(const struct settings *s, bool configures)
{
    struct err err = {0};
    struct ctl c;
    unsigned need = CTL_SITE | CTL_STATE | CTL_FLEET | (s->resume ? 0 : CTL_NEW_RUN);
    if (ctl_open(&c, &s->common, need, &err) != 0)
        return ctl_fail(&err);
    int status = s->resume ? resume(&c, s->resume, &err) : keep_site(&c, &err);
    if (status == 0) {
        if (!s->common.quiet)
            log_info("run %s, %zu node%s", c.run.id, c.count, c.count == 1 ? "" : "s");
        status = work(&c, s, configures, &err);
    }
    if (status < 0)
        status = ctl_fail(&err);
    ctl_close(&c);
    return status;
}

static int run_up(void *settings, int count, char **operands)
{
    (void)count;
    (void)operands;
    struct settings *s = settings;
    return begin(s, !s->no_configure);
}

static int run_validate(void *settings, int count, char **operands)
{
    (void)count;
    (void)operands;
    return begin(settings, false);
}

static const char *const up_about[] = {
    "Does every step on the nodes of the site file: connect, send the agent, read facts, plan and "
    "apply the playbooks, run the stages, judge, sign the report, and hand each node its part for "
    "muster-gate. Each step can also be run alone.",
    "A node that fails never stops the others; it ends up in the report with its cause. A run that "
    "was broken off is continued with --resume latest.",
    NULL,
};
static const struct opt_example up_examples[] = {
    {"muster up", "all nodes of ./site.yaml"},
    {"muster up -s aurora.yaml -w 'gpu[001-016]' --yes", "sixteen of them, without asking"},
    {"muster up --resume latest", "go on where the last run broke off"},
    {NULL, NULL},
};
const struct opt_command cmd_up = {
    .name = "up",
    .summary = "configure, measure, judge, sign and publish: everything",
    .operands = "",
    .about = up_about,
    .rows = up_rows,
    .common = ctl_common_rows,
    .examples = up_examples,
    .settings_bytes = sizeof(struct settings),
    .run = run_up,
};

static const char *const validate_about[] = {
    "Measures the nodes as they are and signs the report; changes nothing but muster's own files "
    "below /var/lib/muster.",
    NULL,
};
static const struct opt_example validate_examples[] = {
    {"muster validate", "all stages on all nodes"},
    {"muster validate --stages inventory,pairs -w 'gpu[001-004]'", "two stages on four nodes"},
    {NULL, NULL},
};
const struct opt_command cmd_validate = {
    .name = "validate",
    .summary = "measure, judge, sign and publish; changes no configuration",
    .operands = "",
    .about = validate_about,
    .rows = validate_rows,
    .common = ctl_common_rows,
    .examples = validate_examples,
    .settings_bytes = sizeof(struct settings),
    .run = run_validate,
};
