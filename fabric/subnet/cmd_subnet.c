/* muster fabric discover, cables, counters, check, sm-check. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/fs.h"
#include "common/jsonx.h"
#include "common/util.h"
#include "fabric/subnet/cables.h"
#include "fabric/subnet/cmd.h"
#include "fabric/subnet/counters.h"
#include "fabric/subnet/counters_read.h"
#include "fabric/subnet/sm_check.h"

enum { MAX_STATE_BYTES = 512 * 1024 * 1024, MAX_LOG_BYTES = 256 * 1024 * 1024 };

#define PLAN_ROW                                                                                   \
    {                                                                                              \
        OPT_STRING, "plan", 0, "FILE", "cable plan: CSV or the text of ibnetdiscover",             \
            offsetof(struct cmd_settings, plan), 0, 0                                              \
    }
#define TREE_ROW                                                                                   \
    {                                                                                              \
        OPT_STRING, "fat-tree", 0, "WORDS",                                                        \
            "cable plan by rule: \"hosts=n[1-8] leaves=l[1-4] spines=s[1-2] trunk=2 rate=4xHDR\"", \
            offsetof(struct cmd_settings, tree), 0, 0                                              \
    }
#define COUNTERS_ROW                                                                               \
    {                                                                                              \
        OPT_STRING, "counters", 0, "FILE", "where the counters of the last reading are kept",      \
            offsetof(struct cmd_settings, counters), 0, 0                                          \
    }
#define WINDOW_ROW                                                                                 \
    {                                                                                              \
        OPT_MS, "window", 0, "TIME",                                                               \
            "read twice, this far apart, instead of comparing with the file",                      \
            offsetof(struct cmd_settings, window_ms), 0, 0                                         \
    }
#define LOG_ROW                                                                                    \
    {                                                                                              \
        OPT_STRING, "log", 0, "FILE", "opensm's log on this host, for SUBNET UP and the engine",   \
            offsetof(struct cmd_settings, log), 0, 0                                               \
    }
#define MASTER_ROW                                                                                 \
    {                                                                                              \
        OPT_STRING, "master", 0, "HOST", "host that must be master (default: the site's first)",   \
            offsetof(struct cmd_settings, master), 0, 0                                            \
    }
#define ROUTING_ROW                                                                                \
    {                                                                                              \
        OPT_STRING, "routing", 0, "ENGINE", "engine that must be in force (default: the site's)",  \
            offsetof(struct cmd_settings, routing), 0, 0                                           \
    }
#define END_ROW                                                                                    \
    {                                                                                              \
        OPT_END, NULL, 0, NULL, NULL, 0, 0, 0                                                      \
    }

/* ---- parts that `check` and the single commands share ---- */

static int read_plan(const struct cmd_settings *c, struct cable_plan *plan, struct err *err)
{
    if (c->plan && c->tree)
        return err_set(err, ERR_USAGE, "--plan and --fat-tree are two plans; give one");
    if (c->tree)
        return cable_plan_generate(c->tree, plan, err);
    AUTO(free_str) char *text = NULL;
    size_t len;
    if (fs_read(c->plan, CABLE_PLAN_MAX_BYTES, &text, &len, err) != 0)
        return -1;
    return cable_plan_parse(text, len, c->plan, plan, err);
}

static int do_cables(const struct cmd_settings *c, const struct subnet *s, json_t *findings,
                     struct cables_result *result, struct err *err)
{
    struct cable_plan plan = {0};
    if (read_plan(c, &plan, err) != 0)
        return -1;
    int status = cables_compare(&plan, s, findings, result, err);
    cable_plan_release(&plan);
    return status;
}

static int load_state(const char *path, struct counters *c, struct err *err)
{
    json_auto_t *json = NULL;
    if (jsonx_load(path, MAX_STATE_BYTES, &json, err) != 0)
        return -1;
    return counters_from_json(json, path, c, err);
}

static int save_state(const char *path, const struct counters *c, struct err *err)
{
    json_auto_t *json = counters_to_json(c);
    return jsonx_save(path, json, 0644, err);
}

static void wait_ms(int64_t ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

/* A second reading against the first: that of the file, or one --window ago.  *seconds 0: there was
 * nothing to compare with, this reading is the first. */
static int do_counters(const struct cmd_settings *c, struct ibmad_port *mads,
                       const struct subnet *s, json_t *findings, json_t *rates, double *seconds,
                       struct err *err)
{
    struct counters before = {0}, now = {0};
    int status = 0;
    if (c->window_ms > 0) {
        counters_read(mads, s, &before);
        wait_ms(c->window_ms);
    } else if (fs_exists(c->counters)) {
        status = load_state(c->counters, &before, err);
    }
    if (status == 0) {
        counters_read(mads, s, &now);
        *seconds = before.ports ? (double)(now.time_ms - before.time_ms) / 1000 : 0;
        if (before.ports)
            status = counters_judge(&before, &now, s, findings, rates, err);
    }
    if (status == 0 && c->counters)
        status = save_state(c->counters, &now, err);
    counters_release(&before);
    counters_release(&now);
    return status;
}

static int do_sm(const struct cmd_settings *c, const json_t *fabric, const struct subnet *s,
                 json_t *findings, struct err *err)
{
    json_auto_t *named = c->master ? json_pack("[s]", c->master) : NULL;
    const json_t *planned = json_object_get(fabric, "subnet_managers");
    const struct sm_expect expect = {.managers = named                      ? named
                                                 : json_array_size(planned) ? planned
                                                                            : NULL,
                                     .routing = c->routing ? c->routing
                                                           : jsonx_str_or(fabric, "routing", NULL)};
    sm_check_subnet(s, &expect, findings);
    if (!c->log)
        return 0;
    AUTO(free_str) char *log = NULL;
    if (fs_read(c->log, MAX_LOG_BYTES, &log, NULL, err) != 0)
        return -1;
    sm_check_log(log, c->log, &expect, findings);
    return 0;
}

/* What a command needs while it runs. */
struct work {
    struct ibmad_port *mads;
    struct subnet s;
    json_t *site, *findings;
    const json_t *fabric;
};

static int work_begin(const struct cmd_settings *c, struct work *w, struct err *err)
{
    *w = (struct work){.findings = json_array()};
    if (cmd_read_site(c, &w->site, &w->fabric, err) != 0)
        return -1;
    return cmd_read_subnet(c, &w->mads, &w->s, err);
}

static void work_end(struct work *w)
{
    discover_close(w->mads);
    subnet_release(&w->s);
    json_decref(w->site);
    json_decref(w->findings);
}

/* What must be known before anything is sent. */
static int usage_error(const char *text)
{
    struct err err = {0};
    err_set(&err, ERR_USAGE, "%s", text);
    return cmd_fail(&err);
}

/* ---- commands ---- */

static int run_discover(void *settings, int count, char **operands)
{
    const struct cmd_settings *c = settings;
    (void)count;
    (void)operands;
    struct err err = {0};
    struct work w;
    int status = work_begin(c, &w, &err);
    if (status != 0) {
        work_end(&w);
        return cmd_fail(&err);
    }
    if (c->json) {
        json_auto_t *json = subnet_to_json(&w.s);
        json_dumpf(json, stdout, JSON_INDENT(1) | JSON_SORT_KEYS);
        puts("");
    } else {
        subnet_print(&w.s, stdout);
    }
    status = json_array_size(w.s.unanswered) > 0 ? 1 : 0;
    work_end(&w);
    return status;
}

static json_t *cables_json(const struct cables_result *r)
{
    json_t *o = json_object();
    jsonx_set_int(o, "planned", (int64_t)r->planned);
    jsonx_set_int(o, "in_place", (int64_t)r->in_place);
    jsonx_set_int(o, "moves", (int64_t)r->moves);
    jsonx_set_int(o, "to_plug", (int64_t)r->to_plug);
    jsonx_set_int(o, "to_remove", (int64_t)r->to_remove);
    return o;
}

static int run_cables(void *settings, int count, char **operands)
{
    const struct cmd_settings *c = settings;
    (void)count;
    (void)operands;
    if (!c->plan && !c->tree)
        return usage_error(
            "cables: --plan FILE or --fat-tree WORDS says what is to be plugged where");
    struct err err = {0};
    struct work w;
    struct cables_result r = {0};
    int status = work_begin(c, &w, &err);
    if (status == 0)
        status = do_cables(c, &w.s, w.findings, &r, &err);
    if (status == 0) {
        json_t *extra = json_object();
        jsonx_set(extra, "cables", cables_json(&r));
        AUTO(free_str) char *good = str_printf("all %zu planned cables are in place", r.planned);
        status = cmd_conclude(c, w.findings, extra, good);
        if (!c->json && status != 0)
            printf("%zu of %zu cables are in place; %zu plugs to move, %zu cables to plug, %zu to "
                   "remove\n",
                   r.in_place, r.planned, r.moves, r.to_plug, r.to_remove);
    } else {
        status = cmd_fail(&err);
    }
    work_end(&w);
    return status;
}

static int run_counters(void *settings, int count, char **operands)
{
    const struct cmd_settings *c = settings;
    (void)count;
    (void)operands;
    if (!c->counters && c->window_ms <= 0)
        return usage_error(
            "counters: --counters FILE (difference to the last call) or --window TIME");
    struct err err = {0};
    struct work w;
    double seconds = 0;
    json_t *rates = json_array();
    int status = work_begin(c, &w, &err);
    if (status == 0)
        status = do_counters(c, w.mads, &w.s, w.findings, rates, &seconds, &err);
    json_t *extra = json_object();
    jsonx_set(extra, "ports", rates);
    jsonx_set_num(extra, "window_s", seconds);
    AUTO(free_str)
    char *good = seconds > 0 ? str_printf("no link erred in %.1f s", seconds)
                             : str_dup("first reading kept; the next call compares with it");
    if (status == 0) {
        status = cmd_conclude(c, w.findings, extra, good);
    } else {
        json_decref(extra);
        status = cmd_fail(&err);
    }
    work_end(&w);
    return status;
}

static int run_sm_check(void *settings, int count, char **operands)
{
    const struct cmd_settings *c = settings;
    (void)count;
    (void)operands;
    struct err err = {0};
    struct work w;
    int status = work_begin(c, &w, &err);
    if (status == 0)
        status = do_sm(c, w.fabric, &w.s, w.findings, &err);
    if (status == 0)
        status = cmd_conclude(c, w.findings, NULL, "one subnet manager is master, as planned");
    else
        status = cmd_fail(&err);
    work_end(&w);
    return status;
}

/* A link that is narrow by itself is not reported again because the plan says so too. */
static void drop_repeated(json_t *findings)
{
    static const struct {
        const char *again, *first;
    } pairs[] = {{"cable-narrow", "ib-link-narrow"}, {"cable-slow", "ib-link-slow"}};
    for (size_t i = json_array_size(findings); i-- > 0;) {
        const json_t *f = json_array_get(findings, i);
        bool repeated = false;
        for (size_t p = 0; p < ARRAY_LEN(pairs); p++)
            for (size_t k = 0; k < i && strcmp(jsonx_str_or(f, "cause", ""), pairs[p].again) == 0;
                 k++) {
                const json_t *other = json_array_get(findings, k);
                repeated |=
                    strcmp(jsonx_str_or(other, "cause", ""), pairs[p].first) == 0 &&
                    strcmp(jsonx_str_or(other, "subject", ""), jsonx_str_or(f, "subject", "")) == 0;
            }
        if (repeated)
            json_array_remove(findings, i);
    }
}

static int check_all(const struct cmd_settings *c, struct work *w, json_t *left_out,
                     struct err *err)
{
    struct cables_result r;
    double seconds = 0;
    subnet_judge(&w->s, w->findings);
    if (do_sm(c, w->fabric, &w->s, w->findings, err) != 0)
        return -1;
    if (!c->plan && !c->tree)
        jsonx_append_str(left_out, "cables: no plan was given (--plan, --fat-tree)");
    else if (do_cables(c, &w->s, w->findings, &r, err) != 0)
        return -1;
    drop_repeated(w->findings);
    if (!c->counters && c->window_ms <= 0)
        jsonx_append_str(left_out, "counters: neither --counters nor --window was given");
    else if (do_counters(c, w->mads, &w->s, w->findings, NULL, &seconds, err) != 0)
        return -1;
    else if (seconds <= 0)
        jsonx_append_str(left_out, "counters: first reading; the next check compares with it");
    if (!c->log)
        jsonx_append_str(left_out, "opensm's log: --log was not given");
    return 0;
}

static int run_check(void *settings, int count, char **operands)
{
    const struct cmd_settings *c = settings;
    (void)count;
    (void)operands;
    struct err err = {0};
    struct work w;
    json_t *left_out = json_array();
    int status = work_begin(c, &w, &err);
    if (status == 0)
        status = check_all(c, &w, left_out, &err);
    if (status == 0) {
        json_t *extra = json_object();
        jsonx_set(extra, "not_checked", json_incref(left_out));
        status = cmd_conclude(c, w.findings, extra, "nothing is wrong in what was checked");
        size_t i;
        json_t *text;
        json_array_foreach(left_out, i, text) if (!c->json)
            printf("not checked: %s\n", json_string_value(text));
    } else {
        status = cmd_fail(&err);
    }
    json_decref(left_out);
    work_end(&w);
    return status;
}

static const struct opt_row no_rows[] = {END_ROW};
static const struct opt_row cables_rows[] = {PLAN_ROW, TREE_ROW, END_ROW};
static const struct opt_row counters_rows[] = {COUNTERS_ROW, WINDOW_ROW, END_ROW};
static const struct opt_row sm_rows[] = {LOG_ROW, MASTER_ROW, ROUTING_ROW, END_ROW};
static const struct opt_row check_rows[] = {PLAN_ROW, TREE_ROW,   COUNTERS_ROW, WINDOW_ROW,
                                            LOG_ROW,  MASTER_ROW, ROUTING_ROW,  END_ROW};

// NOLINTBEGIN(bugprone-macro-parentheses): names and rows are no expressions
#define COMMAND_OF(id, text, word, own_rows)                                                       \
    const struct opt_command cmd_##id = {.name = text,                                             \
                                         .summary = word,                                          \
                                         .operands = "",                                           \
                                         .rows = own_rows,                                         \
                                         .common = cmd_common_rows,                                \
                                         .settings_bytes = sizeof(struct cmd_settings),            \
                                         .run = run_##id}
COMMAND_OF(discover, "discover", "read the whole subnet: nodes, links, managers", no_rows);
COMMAND_OF(cables, "cables", "compare the cables with the plan, say which plug goes where",
           cables_rows);
COMMAND_OF(counters, "counters", "errors and congestion since the last reading; resets nothing",
           counters_rows);
COMMAND_OF(check, "check", "everything that can be wrong with the subnet", check_rows);
COMMAND_OF(sm_check, "sm-check", "prove that one subnet manager is master, the planned one",
           sm_rows);
// NOLINTEND(bugprone-macro-parentheses)
