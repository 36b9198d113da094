/* muster facts, plan, apply, rollback. */
#include <stdio.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/log.h"
#include "common/tty.h"
#include "common/units.h"
#include "common/util.h"
#include "provision/cmd.h"
#include "provision/plan.h"
#include "provision/steps.h"

struct settings {
    struct ctl_options common;
    bool check, force;
    const char *txn;
};

static const struct opt_row no_rows[] = {{OPT_END, NULL, 0, NULL, NULL, 0, 0, 0}};

static const struct opt_row plan_rows[] = {
    {OPT_FLAG, "check", 'c', NULL, "exit with 1 when something would change",
     offsetof(struct settings, check), 0, 0},
    {OPT_END, NULL, 0, NULL, NULL, 0, 0, 0},
};

static const struct opt_row apply_rows[] = {
    {OPT_FLAG, "check", 'c', NULL, "only say what would change; exit with 1 when something would",
     offsetof(struct settings, check), 0, 0},
    {OPT_END, NULL, 0, NULL, NULL, 0, 0, 0},
};

static const struct opt_row rollback_rows[] = {
    {OPT_STRING, "run", 'r', "RUN", "undo what this run applied (default: each node's newest)",
     offsetof(struct settings, txn), 0, 0},
    {OPT_FLAG, "force", 0, NULL, "also put back what someone else has changed since",
     offsetof(struct settings, force), 0, 0},
    {OPT_END, NULL, 0, NULL, NULL, 0, 0, 0},
};

typedef int body_fn(struct ctl *c, const struct settings *s, struct err *err);

/* Opens everything, gets agents and (unless told) facts, runs the body, ends the agents. */
static int with_nodes(const struct settings *s, bool facts, body_fn *body)
{
    struct err err = {0};
    struct ctl c;
    unsigned need = CTL_SITE | CTL_STATE | CTL_FLEET | CTL_NEW_RUN;
    if (ctl_open(&c, &s->common, need, &err) != 0)
        return ctl_fail(&err);
    int status = ctl_agents(&c, &err);
    if (status == 0 && facts)
        status = ctl_facts(&c, &err);
    if (status == 0)
        status = body(&c, s, &err);
    if (status < 0)
        status = ctl_fail(&err);
    else if (status == 0)
        status = ctl_exit_status(&c);
    ctl_close(&c);
    return status;
}

static void facts_row(struct tty_table *table, const char *node, const json_t *facts)
{
    const json_t *cpu = json_object_get(facts, "cpu");
    const json_t *gpus = json_object_get(facts, "gpus");
    size_t gpu_count = json_array_size(json_object_get(gpus, "devices"));
    AUTO(free_str) char *threads = str_printf("%lld", (long long)jsonx_int_or(cpu, "threads", 0));
    AUTO(free_str)
    char *memory = units_format_bytes(
        (double)jsonx_int_or(json_object_get(facts, "memory"), "total_bytes", 0));
    AUTO(free_str)
    char *gpu = gpu_count ? str_printf("%zu", gpu_count) : str_dup("0");
    AUTO(free_str) char *rdma = str_printf("%zu", json_array_size(json_object_get(facts, "rdma")));
    tty_table_row(
        table, TTY_PLAIN,
        (const char *const[]){node, jsonx_str_or(json_object_get(facts, "distro"), "pretty", "?"),
                              jsonx_str_or(json_object_get(facts, "kernel"), "release", "?"),
                              threads, memory, gpu, rdma,
                              gpu_count ? jsonx_str_or(gpus, "driver", "?")
                                        : jsonx_str_or(gpus, "reason", "")});
}

static int facts_body(struct ctl *c, const struct settings *s, struct err *err)
{
    (void)s;
    (void)err;
    ctl_bye(c);
    if (c->options->json) {
        cmd_print_json(c->facts);
        return 0;
    }
    struct tty_table *table =
        tty_table_create((const char *const[]){"NODE", "SYSTEM", "KERNEL", "CPUS", "MEMORY", "GPUS",
                                               "HCAS", "GPU DRIVER"},
                         8);
    for (size_t i = 0; i < c->count; i++) {
        const json_t *facts = json_object_get(c->facts, c->names[i]);
        if (facts)
            facts_row(table, c->names[i], facts);
    }
    tty_table_print(table, stdout);
    tty_table_destroy(table);
    return 0;
}

static int plan_body(struct ctl *c, const struct settings *s, struct err *err)
{
    json_auto_t *plan = NULL;
    if (step_plan(c, &plan, err) != 0)
        return -1;
    ctl_bye(c);
    struct plan_counts counts = plan_count(plan);
    if (c->options->json)
        cmd_print_json(plan);
    else
        plan_render(plan, c->options->verbose, stdout);
    return counts.nodes_error > 0 || (s->check && counts.nodes_change > 0) ? 1 : 0;
}

static void tell_applied(const struct ctl *c)
{
    size_t committed = 0, nothing = 0, undone = 0;
    const char *node;
    json_t *data;
    json_object_foreach(c->applies, node, data)
    {
        const char *state = jsonx_str_or(data, "state", "");
        committed += strcmp(state, "committed") == 0;
        nothing += strcmp(state, "nothing") == 0;
        undone += strcmp(state, "undone") == 0;
    }
    printf("%zu node%s changed, %zu as wanted already, %zu undone\n", committed,
           committed == 1 ? "" : "s", nothing, undone);
    if (committed)
        printf("undo with: muster rollback --run %s\n", c->run.id);
}

static int apply_body(struct ctl *c, const struct settings *s, struct err *err)
{
    json_auto_t *plan = NULL;
    if (step_plan(c, &plan, err) != 0)
        return -1;
    struct plan_counts counts = plan_count(plan);
    if (!c->options->json)
        plan_render(plan, c->options->verbose, stdout);
    fflush(stdout);
    if (s->check) {
        if (c->options->json)
            cmd_print_json(plan);
        ctl_bye(c);
        return counts.nodes_change > 0 || counts.nodes_error > 0 ? 1 : 0;
    }
    char question[96];
    snprintf(question, sizeof question, "Apply these changes to %zu node%s?", counts.nodes_change,
             counts.nodes_change == 1 ? "" : "s");
    if (counts.nodes_change > 0 && !cmd_confirm(c->options, question, err))
        return -1;
    if (step_apply(c, plan, err) != 0)
        return -1;
    ctl_bye(c);
    if (c->options->json)
        cmd_print_json(c->applies);
    else
        tell_applied(c);
    return 0;
}

static int rollback_body(struct ctl *c, const struct settings *s, struct err *err)
{
    char question[128];
    snprintf(question, sizeof question, "Undo %s on %zu node%s?",
             s->txn ? s->txn : "the newest changes", ctl_active_count(c),
             ctl_active_count(c) == 1 ? "" : "s");
    if (!cmd_confirm(c->options, question, err))
        return -1;
    if (step_rollback(c, s->txn, s->force, err) != 0)
        return -1;
    ctl_bye(c);
    if (c->options->json) {
        cmd_print_json(c->applies ? c->applies : json_null());
        return 0;
    }
    size_t undone = 0, nothing = 0;
    const char *node;
    json_t *data;
    json_object_foreach(c->applies, node, data)
    {
        undone += strcmp(jsonx_str_or(data, "state", ""), "undone") == 0;
        nothing += strcmp(jsonx_str_or(data, "state", ""), "nothing") == 0;
    }
    printf("%zu node%s rolled back, %zu had nothing to undo\n", undone, undone == 1 ? "" : "s",
           nothing);
    return 0;
}

static int run_facts(void *settings, int count, char **operands)
{
    (void)count;
    (void)operands;
    return with_nodes(settings, true, facts_body);
}

static int run_plan(void *settings, int count, char **operands)
{
    (void)count;
    (void)operands;
    return with_nodes(settings, true, plan_body);
}

static int run_apply(void *settings, int count, char **operands)
{
    (void)count;
    (void)operands;
    return with_nodes(settings, true, apply_body);
}

static int run_rollback(void *settings, int count, char **operands)
{
    (void)count;
    (void)operands;
    return with_nodes(settings, false, rollback_body);
}

static const struct opt_example facts_examples[] = {
    {"muster facts", "one line per node"},
    {"muster facts --json -w gpu001", "everything about one node"},
    {NULL, NULL},
};
const struct opt_command cmd_facts = {
    .name = "facts",
    .summary = "what the nodes are: hardware, kernel, links, limits",
    .operands = "",
    .rows = no_rows,
    .common = ctl_common_rows,
    .examples = facts_examples,
    .settings_bytes = sizeof(struct settings),
    .run = run_facts,
};

static const char *const plan_about[] = {
    "Resolves the playbooks with each node's facts and asks the node what would change. Nodes with "
    "the same difference are shown once with their host list.",
    NULL,
};
const struct opt_command cmd_plan = {
    .name = "plan",
    .summary = "what the playbooks would change, each difference once",
    .operands = "",
    .about = plan_about,
    .rows = plan_rows,
    .common = ctl_common_rows,
    .settings_bytes = sizeof(struct settings),
    .run = run_plan,
};

static const char *const apply_about[] = {
    "Each node applies its changes as one transaction: journal, keep the old state, change, read "
    "back, verify the effect. If one step fails, all of them are undone on that node. Killed at "
    "any "
    "point, a node is as before or as planned, and the next run says which.",
    "A second apply changes nothing and says so.",
    NULL,
};
static const struct opt_example apply_examples[] = {
    {"muster apply --check", "only say what would change"},
    {"muster apply -w gpu001 --yes", "one node first"},
    {NULL, NULL},
};
const struct opt_command cmd_apply = {
    .name = "apply",
    .summary = "make the nodes as the playbooks want them, as a transaction",
    .operands = "",
    .about = apply_about,
    .rows = apply_rows,
    .common = ctl_common_rows,
    .examples = apply_examples,
    .settings_bytes = sizeof(struct settings),
    .run = run_apply,
};

static const struct opt_example rollback_examples[] = {
    {"muster rollback", "undo the newest transaction of each node"},
    {"muster rollback --run 20261130T081500Z-3fa9 -w gpu001", "what one run did, on one node"},
    {NULL, NULL},
};
const struct opt_command cmd_rollback = {
    .name = "rollback",
    .summary = "put back what an apply has changed",
    .operands = "",
    .rows = rollback_rows,
    .common = ctl_common_rows,
    .examples = rollback_examples,
    .settings_bytes = sizeof(struct settings),
    .run = run_rollback,
};
