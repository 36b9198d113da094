/* muster exec: one command on many nodes, by the same sessions that everything else uses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hostlist.h"
#include "common/jsonx.h"
#include "common/tty.h"
#include "common/util.h"
#include "provision/cmd.h"

enum { DEFAULT_TIMEOUT_MS = 60000, OUTPUT_BYTES = 16 * 1024 * 1024 };

struct settings {
    struct ctl_options common;
    int64_t timeout_ms;
    bool gather;
};

static const struct opt_row rows[] = {
    {OPT_MS, "timeout", 't', "TIME", "for the command, for instance 30s (default 60s)",
     offsetof(struct settings, timeout_ms), 0, 0},
    {OPT_FLAG, "gather", 'b', NULL, "show equal output once, with its nodes",
     offsetof(struct settings, gather), 0, 0},
    {OPT_END, NULL, 0, NULL, NULL, 0, 0, 0},
};

static void print_lines(const char *node, const char *text, FILE *out)
{
    for (const char *p = text; *p;) {
        size_t len = strcspn(p, "\n");
        fprintf(out, "%s: %.*s\n", node, (int)len, p);
        p += len + (p[len] == '\n');
    }
}

static bool same(const struct fleet_output *a, const struct fleet_output *b)
{
    return a->done == b->done && a->status == b->status && a->out_len == b->out_len &&
           memcmp(a->out, b->out, a->out_len) == 0;
}

static void print_gathered(const struct ctl *c, const struct fleet_output outputs[])
{
    bool *shown = mem_zero(c->count, sizeof *shown);
    const char **names = mem_zero(c->count, sizeof *names);
    for (size_t i = 0; i < c->count; i++) {
        if (shown[i] || !outputs[i].done)
            continue;
        size_t count = 0;
        for (size_t k = i; k < c->count; k++)
            if (!shown[k] && same(&outputs[i], &outputs[k])) {
                shown[k] = true;
                names[count++] = c->names[k];
            }
        AUTO(free_str) char *hosts = hostlist_format(names, count);
        printf("%s%s (%zu)%s\n%s", tty_begin(stdout, TTY_BOLD), hosts, count, tty_end(stdout),
               outputs[i].out);
        if (outputs[i].out_len && outputs[i].out[outputs[i].out_len - 1] != '\n')
            putchar('\n');
    }
    free(shown);
    free(names);
}

static void print_json(const struct ctl *c, const struct fleet_output outputs[])
{
    json_auto_t *nodes = json_object();
    for (size_t i = 0; i < c->count; i++) {
        json_t *node = json_object();
        jsonx_set_int(node, "status", outputs[i].done ? outputs[i].status : -1);
        json_t *text = json_stringn(outputs[i].out ? outputs[i].out : "", outputs[i].out_len);
        jsonx_set(node, "stdout", text ? text : json_null());
        text = json_stringn(outputs[i].errs ? outputs[i].errs : "", outputs[i].errs_len);
        jsonx_set(node, "stderr", text ? text : json_null());
        const struct err *error = fleet_error(c->fleet, i);
        jsonx_set_str(node, "error", error->kind ? error->text : NULL);
        jsonx_set(nodes, c->names[i], node);
    }
    cmd_print_json(nodes);
}

static int report(struct ctl *c, const struct fleet_output outputs[])
{
    int status = 0;
    if (c->options->json)
        print_json(c, outputs);
    for (size_t i = 0; i < c->count; i++) {
        const struct fleet_output *o = &outputs[i];
        bool ok = o->done && o->status == 0;
        status = ok ? status : 1;
        if (c->options->json)
            continue;
        if (o->errs)
            print_lines(c->names[i], o->errs, stderr);
        if (!((struct settings *)c->options)->gather && o->out)
            print_lines(c->names[i], o->out, stdout);
        if (o->done && o->status != 0)
            fprintf(stderr, "%s: exit status %d\n", c->names[i], o->status);
        else if (!o->done && c->active[i])
            fprintf(stderr, "%s: %s\n", c->names[i],
                    fleet_error(c->fleet, i)->kind ? fleet_error(c->fleet, i)->text
                                                   : "the command did not end in time");
    }
    if (!c->options->json && ((struct settings *)c->options)->gather)
        print_gathered(c, outputs);
    return status;
}

static int run_exec(void *settings, int count, char **operands)
{
    (void)count;
    struct settings *s = settings;
    struct err err = {0};
    struct ctl c;
    if (ctl_open(&c, &s->common, CTL_SITE | CTL_FLEET, &err) != 0)
        return ctl_fail(&err);
    c.progress.quiet = true;
    unsigned timeout_ms = s->timeout_ms ? (unsigned)s->timeout_ms : DEFAULT_TIMEOUT_MS;
    struct fleet_output *outputs = mem_zero(c.count, sizeof *outputs);
    int status = ctl_connect(&c, &err);
    if (status == 0)
        status = fleet_exec(c.fleet, (const char *const *)operands, timeout_ms, OUTPUT_BYTES,
                            outputs, &err);
    status = status == 0 ? report(&c, outputs) : ctl_fail(&err);
    for (size_t i = 0; i < c.count; i++)
        fleet_output_release(&outputs[i]);
    free(outputs);
    ctl_close(&c);
    return status;
}

static const char *const about[] = {
    "The command's words reach the node as they are: no shell takes them apart. For a pipeline say "
    "-- sh -c 'a | b'.",
    NULL,
};
static const struct opt_example examples[] = {
    {"muster exec -w 'gpu[001-064]' -- uname -r", "one line per node"},
    {"muster exec -b -- cat /etc/nccl.conf", "equal answers once"},
    {NULL, NULL},
};
const struct opt_command cmd_exec = {
    .name = "exec",
    .summary = "run one command on the nodes",
    .operands = "-- COMMAND [ARGUMENT]...",
    .operands_min = 1,
    .operands_max = -1,
    .about = about,
    .rows = rows,
    .common = ctl_common_rows,
    .examples = examples,
    .settings_bytes = sizeof(struct settings),
    .run = run_exec,
};
