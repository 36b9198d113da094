/* Facts of every node, and how far each node's clock is off. */
#include <stdio.h>
#include <stdlib.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "provision/ctl.h"

enum { FACTS_MS = 60000 };

struct facts_step {
    int64_t asked_ms; /* wall clock when the first request went out */
    struct err *err;
};

static json_t *make(struct ctl *c, size_t node, void *ctx)
{
    (void)c;
    (void)node;
    struct facts_step *step = ctx;
    if (step->asked_ms == 0)
        step->asked_ms = wall_ms();
    json_t *request = json_object();
    jsonx_set_str(request, "op", "facts");
    return request;
}

/* The node read its clock between our two readings; only what lies outside is certainly skew. */
static int64_t clock_skew(int64_t theirs, int64_t asked_ms, int64_t answered_ms)
{
    if (theirs < asked_ms)
        return theirs - asked_ms;
    return theirs > answered_ms ? theirs - answered_ms : 0;
}

/* Facts without a time leave the clock uncompared, which the verdict then says. */
static void compare_clock(struct ctl *c, size_t node, const json_t *facts, int64_t asked_ms)
{
    int64_t theirs = 0;
    if (time_parse(jsonx_str_or(facts, "time", ""), &theirs) != 0)
        return;
    int64_t skew = clock_skew(theirs, asked_ms, wall_ms());
    jsonx_set_int(c->clock_skew_ms, c->names[node], skew);
    int64_t limit = jsonx_int_or(json_object_get(c->site, "policy"), "max_clock_skew_ms", 5000);
    if (llabs(skew) > limit) {
        char text[160];
        snprintf(text, sizeof text,
                 "the clock is %.1f s %s the controller's (limit %.1f s); start chrony or ntpd",
                 (double)llabs(skew) / 1000, skew > 0 ? "ahead of" : "behind",
                 (double)limit / 1000);
        ctl_outcome(c, node, "facts", "clock-skew", text);
    }
}

static void done(struct ctl *c, size_t node, const json_t *data, const struct err *error, void *ctx)
{
    (void)error;
    struct facts_step *step = ctx;
    json_t *facts = json_object_get(data, "facts");
    if (!json_is_object(facts)) {
        if (data)
            ctl_outcome(c, node, "facts", "protocol", "the agent's answer holds no facts");
        c->active[node] = false;
        return;
    }
    compare_clock(c, node, facts, step->asked_ms);
    jsonx_set(c->facts, c->names[node], json_incref(facts));
    if (!c->run.dir)
        return;
    AUTO(free_str) char *path = run_node_path(&c->run, "facts", c->names[node], ".json");
    jsonx_save(path, facts, 0600, step->err);
}

int ctl_facts(struct ctl *c, struct err *err)
{
    struct err save_error = {0};
    struct facts_step step = {.err = &save_error};
    struct ctl_request request = {
        .step = "facts", .make = make, .done = done, .timeout_ms = FACTS_MS, .ctx = &step};
    ctl_call(c, &request);
    if (save_error.kind != ERR_NONE) {
        *err = save_error;
        return -1;
    }
    if (ctl_active_count(c) == 0)
        return err_set(err, ERR_REMOTE, "facts: no node answered; the reasons are above");
    return c->run.dir ? run_note(&c->run, "facts", "done", NULL, err) : 0;
}
