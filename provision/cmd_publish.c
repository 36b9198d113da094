/* muster publish and muster gate: hand out the report's slices, ask the nodes' gates. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/tty.h"
#include "common/util.h"
#include "provision/cmd.h"
#include "provision/steps.h"

enum { GATE_MS = 20000, GATE_OUTPUT_BYTES = 4096 };
#define GATE_PATH "/var/lib/muster/bin/muster-gate"

struct settings {
    struct ctl_options common;
    const char *run;
};

static const struct opt_row publish_rows[] = {
    {OPT_STRING, "run", 'r', "RUN", "the report of this run (default: the newest)",
     offsetof(struct settings, run), 0, 0},
    {OPT_END, NULL, 0, NULL, NULL, 0, 0, 0},
};
static const struct opt_row gate_rows[] = {{OPT_END, NULL, 0, NULL, NULL, 0, 0, 0}};

static int publish(struct ctl *c, const struct settings *s, struct err *err)
{
    AUTO(free_str) char *newest = run_newest_report(&c->state);
    if (ctl_open_run(c, s->run ? s->run : newest, true, err) != 0 || ctl_agents(c, err) != 0 ||
        step_publish(c, err) != 0)
        return -1;
    ctl_bye(c);
    return ctl_exit_status(c);
}

static int run_publish(void *settings, int count, char **operands)
{
    (void)count;
    (void)operands;
    const struct settings *s = settings;
    struct err err = {0};
    struct ctl c;
    if (ctl_open(&c, &s->common, CTL_SITE | CTL_STATE | CTL_FLEET, &err) != 0)
        return ctl_fail(&err);
    int status = publish(&c, s, &err);
    if (status < 0)
        status = ctl_fail(&err);
    ctl_close(&c);
    return status;
}

static const char *gate_word(const struct fleet_output *o)
{
    if (!o->done)
        return "no answer";
    return o->status == 0 ? "ready" : o->status == 1 ? "not ready" : "cannot tell";
}

static json_t *gate_json(const struct ctl *c, const struct fleet_output outputs[])
{
    json_t *nodes = json_object();
    for (size_t i = 0; i < c->count; i++) {
        json_t *node = json_object();
        jsonx_set_str(node, "gate", gate_word(&outputs[i]));
        jsonx_set_str(node, "why", outputs[i].out ? outputs[i].out : "");
        jsonx_set_int(node, "status", outputs[i].done ? outputs[i].status : 2);
        jsonx_set(nodes, c->names[i], node);
    }
    return nodes;
}

static void print_gates(const struct ctl *c, const struct fleet_output outputs[])
{
    if (c->options->json) {
        json_auto_t *nodes = gate_json(c, outputs);
        cmd_print_json(nodes);
        return;
    }
    struct tty_table *table = tty_table_create((const char *const[]){"NODE", "GATE", "WHY"}, 3);
    for (size_t i = 0; i < c->count; i++) {
        const struct fleet_output *o = &outputs[i];
        const char *why = o->out && o->out[0] ? o->out : o->errs ? o->errs : "";
        AUTO(free_str) char *line = str_dup(why);
        line[strcspn(line, "\n")] = '\0';
        if (!o->done && fleet_error(c->fleet, i)->kind)
            line = (free(line), str_dup(fleet_error(c->fleet, i)->text));
        tty_table_row(table, o->done && o->status == 0 ? TTY_GREEN : TTY_RED,
                      (const char *const[]){c->names[i], gate_word(o), line});
    }
    tty_table_print(table, stdout);
    tty_table_destroy(table);
}

static int ask_gates(struct ctl *c, struct err *err)
{
    if (ctl_connect(c, err) != 0)
        return -1;
    struct fleet_output *outputs = mem_zero(c->count, sizeof *outputs);
    const char *const argv[] = {GATE_PATH, "--why", NULL};
    int status = fleet_exec(c->fleet, argv, GATE_MS, GATE_OUTPUT_BYTES, outputs, err);
    if (status == 0) {
        print_gates(c, outputs);
        for (size_t i = 0; i < c->count; i++)
            if (!outputs[i].done || outputs[i].status != 0)
                status = 1;
    }
    for (size_t i = 0; i < c->count; i++)
        fleet_output_release(&outputs[i]);
    free(outputs);
    return status;
}

static int run_gate(void *settings, int count, char **operands)
{
    (void)count;
    (void)operands;
    const struct settings *s = settings;
    struct err err = {0};
    struct ctl c;
    if (ctl_open(&c, &s->common, CTL_SITE | CTL_STATE | CTL_FLEET, &err) != 0)
        return ctl_fail(&err);
    int status = ask_gates(&c, &err);
    if (status < 0)
        status = ctl_fail(&err);
    ctl_close(&c);
    return status;
}

static const char *const publish_about[] = {
    "Gives each node its own slice of the report (its entry, the Merkle path and the signed root) "
    "for muster-gate. A node refuses a slice with a lower serial than it has accepted. up and "
    "validate do this by themselves.",
    NULL,
};
const struct opt_command cmd_publish = {
    .name = "publish",
    .summary = "hand each node its part of a report, for the gate",
    .operands = "",
    .about = publish_about,
    .rows = publish_rows,
    .common = ctl_common_rows,
    .settings_bytes = sizeof(struct settings),
    .run = run_publish,
};

static const char *const gate_about[] = {
    "Runs muster-gate on each node and shows its answer. A scheduler's prolog calls " GATE_PATH
    " on the node itself: exit 0 ready, 1 not ready, 2 cannot tell.",
    NULL,
};
const struct opt_command cmd_gate = {
    .name = "gate",
    .summary = "ask each node's gate: ready for jobs, and why not",
    .operands = "",
    .about = gate_about,
    .rows = gate_rows,
    .common = ctl_common_rows,
    .settings_bytes = sizeof(struct settings),
    .run = run_gate,
};
