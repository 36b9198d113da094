#include "provision/ctl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/hostlist.h"
#include "common/jsonx.h"
#include "common/log.h"
#include "common/tty.h"
#include "common/util.h"
#include "provision/agent_image.h"
#include "provision/site.h"

enum { AGENT_START_MS = 120000, BYE_MS = 5000, CONNECT_TIMEOUT_MS = 10000 };

#define COMMON(member) offsetof(struct ctl_options, member)
const struct opt_row ctl_common_rows[] = {
    {OPT_STRING, "site", 's', "FILE", "site file, inventory or host list (default site.yaml)",
     COMMON(site), 0, 0},
    {OPT_STRING, "state", 0, "DIR",
     "where runs, keys and known hosts are kept (default $MUSTER_STATE, else ./muster-state)",
     COMMON(state), 0, 0},
    {OPT_STRING, "nodes", 'w', "HOSTLIST",
     "only these nodes of the site, for instance gpu[001-004,7]; @GROUP and -NODE work too",
     COMMON(nodes), 0, 0},
    {OPT_STRING, "ssh-config", 'F', "FILE",
     "OpenSSH client configuration (default ~/.ssh/config and /etc/ssh/ssh_config)",
     COMMON(ssh_config), 0, 0},
    {OPT_STRING, "identity", 'i', "FILE", "private key to offer first", COMMON(identity), 0, 0},
    {OPT_FLAG, "json", 'j', NULL, "print the result as JSON on standard output", COMMON(json), 0,
     0},
    {OPT_FLAG, "yes", 'y', NULL, "do not ask before a change", COMMON(yes), 0, 0},
    {OPT_FLAG, "quiet", 'q', NULL, "no progress, only results and errors", COMMON(quiet), 0, 0},
    {OPT_FLAG, "verbose", 'v', NULL, "say more", COMMON(verbose), 0, 0},
    {OPT_END, NULL, 0, NULL, NULL, 0, 0, 0},
};

static int load_site(struct ctl *c, struct err *err)
{
    const char *path = c->options->site ? c->options->site : "site.yaml";
    if (!c->options->site && !fs_exists(path))
        return err_set(err, ERR_USAGE,
                       "no site.yaml in this directory; name one with --site, or write one: muster "
                       "init 'gpu[001-004]'");
    return site_load(path, &c->site, err);
}

/* The site is cut to the selected nodes: a run judges and reports what it was asked about. */
static void cut_site(struct ctl *c)
{
    json_t *nodes = json_object_get(c->site, "nodes");
    json_t *kept = json_object();
    for (size_t i = 0; i < c->selection->count; i++)
        jsonx_set(kept, c->selection->names[i],
                  json_incref(json_object_get(nodes, c->selection->names[i])));
    jsonx_set(c->site, "nodes", kept);
}

static int take_selection(struct ctl *c)
{
    cut_site(c);
    c->count = c->selection->count;
    c->names = mem_zero(c->count, sizeof *c->names);
    c->active = mem_zero(c->count, sizeof *c->active);
    for (size_t i = 0; i < c->count; i++) {
        c->names[i] = c->selection->names[i];
        c->active[i] = true;
    }
    return 0;
}

static int select_all(struct ctl *c)
{
    c->selection = mem_zero(1, sizeof *c->selection);
    site_node_names(c->site, c->selection);
    return take_selection(c);
}

static int select_nodes(struct ctl *c, struct err *err)
{
    if (!c->options->nodes)
        return select_all(c);
    c->selection = mem_zero(1, sizeof *c->selection);
    if (site_select(c->site, c->options->nodes, c->selection, err) != 0)
        return err_wrap(err, "--nodes %s: ", c->options->nodes);
    return take_selection(c);
}

static int make_fleet(struct ctl *c, struct err *err)
{
    const json_t *ssh = json_object_get(c->site, "ssh");
    struct fleet_target *targets = mem_zero(c->count, sizeof *targets);
    for (size_t i = 0; i < c->count; i++) {
        const json_t *node = site_node(c->site, c->names[i]);
        targets[i] = (struct fleet_target){
            .name = c->names[i],
            .host = jsonx_str_or(node, "host", NULL),
            .user = jsonx_str_or(node, "user", jsonx_str_or(ssh, "user", NULL)),
            .port = (int)jsonx_int_or(node, "port", jsonx_int_or(ssh, "port", 0)),
        };
    }
    AUTO(free_str) char *enrolled = c->state.dir ? state_path(&c->state, "known_hosts") : NULL;
    const char *known[] = {enrolled, NULL};
    bool sudo = strcmp(jsonx_str_or(ssh, "become", "none"), "sudo") == 0;
    struct fleet_options options = {
        .ssh_config =
            c->options->ssh_config ? c->options->ssh_config : jsonx_str_or(ssh, "config", NULL),
        .identity = c->options->identity,
        .known_hosts = known,
        .become = sudo ? FLEET_BECOME_SUDO : FLEET_BECOME_NONE,
        .connect_timeout_ms = (unsigned)jsonx_int_or(ssh, "connect_timeout_ms", CONNECT_TIMEOUT_MS),
        .parallel = (unsigned)jsonx_int_or(ssh, "parallel", 0),
    };
    c->fleet = fleet_create(targets, c->count, &options, err);
    free(targets);
    return c->fleet ? 0 : -1;
}

/* For enrolled host keys; a command that changes nothing also works without a state directory. */
static void read_state_if_any(struct ctl *c)
{
    struct err none = {0};
    if (state_open(&c->state, c->options->state, STATE_READ, &none) != 0)
        c->state.dir = NULL;
}

static void begin_context(struct ctl *c, const struct ctl_options *options)
{
    *c = (struct ctl){.options = options, .state.lock_fd = -1, .run.journal_fd = -1};
    if (options->verbose)
        log_set_level(LOG_LEVEL_DEBUG);
    progress_init(&c->progress, options->quiet);
    c->facts = json_object();
    c->hello = json_object();
    c->clock_skew_ms = json_object();
    c->configs = json_object();
    c->outcomes = json_array();
}

static int open_parts(struct ctl *c, unsigned need, struct err *err)
{
    if ((need & CTL_SITE) && (load_site(c, err) != 0 || select_nodes(c, err) != 0))
        return -1;
    if ((need & CTL_STATE) && state_open(&c->state, c->options->state, STATE_WRITE, err) != 0)
        return -1;
    if (!(need & CTL_STATE) && (need & CTL_FLEET))
        read_state_if_any(c);
    if ((need & CTL_NEW_RUN) && run_create(&c->state, &c->run, err) != 0)
        return -1;
    return need & CTL_FLEET ? make_fleet(c, err) : 0;
}

int ctl_open(struct ctl *c, const struct ctl_options *options, unsigned need, struct err *err)
{
    begin_context(c, options);
    if (open_parts(c, need, err) == 0)
        return 0;
    ctl_close(c);
    return -1;
}

int ctl_open_adhoc(struct ctl *c, const struct ctl_options *options, const char *host,
                   const char *user, bool sudo, struct err *err)
{
    begin_context(c, options);
    if (site_from_hostlist(host, &c->site, err) != 0)
        return -1;
    json_t *ssh = json_object_get(c->site, "ssh");
    jsonx_set_str(ssh, "user", user);
    jsonx_set_str(ssh, "become", sudo ? "sudo" : "none");
    if (select_all(c) != 0)
        return -1;
    read_state_if_any(c);
    return make_fleet(c, err);
}

int ctl_open_run(struct ctl *c, const char *id, bool append, struct err *err)
{
    return run_open(&c->state, id, append, &c->run, err);
}

void ctl_close(struct ctl *c)
{
    fleet_destroy(c->fleet);
    run_close(&c->run);
    state_close(&c->state);
    json_decref(c->site);
    json_decref(c->facts);
    json_decref(c->hello);
    json_decref(c->clock_skew_ms);
    json_decref(c->applies);
    json_decref(c->configs);
    json_decref(c->outcomes);
    free(c->names);
    free(c->active);
    if (c->selection)
        hostlist_release(c->selection);
    free(c->selection);
    *c = (struct ctl){.state.lock_fd = -1, .run.journal_fd = -1};
}

void ctl_outcome(struct ctl *c, size_t node, const char *step, const char *cause, const char *text)
{
    json_t *outcome = json_object();
    jsonx_set_str(outcome, "node", c->names[node]);
    jsonx_set_str(outcome, "step", step);
    jsonx_set_str(outcome, "cause", cause);
    jsonx_set_str(outcome, "text", text);
    jsonx_append(c->outcomes, outcome);
    if (c->progress.live)
        fputs("\r\033[K", stderr);
    AUTO(free_str) char *shown = tty_text(text);
    bool named = str_has_prefix(text, c->names[node]);
    fprintf(stderr, "%s%s%s%s: %s [%s]%s\n", tty_begin(stderr, TTY_RED),
            named ? "" : c->names[node], named ? "" : ": ", step, shown, cause, tty_end(stderr));
}

size_t ctl_active_count(const struct ctl *c)
{
    size_t active = 0;
    for (size_t i = 0; i < c->count; i++)
        active += c->active[i];
    return active;
}

/* Turns fleet failures of active nodes into outcomes; the rest stay active. */
static int collect_failures(struct ctl *c, const char *step, struct err *err)
{
    for (size_t i = 0; i < c->count; i++) {
        if (!c->active[i] || fleet_state(c->fleet, i) != FLEET_FAILED)
            continue;
        c->active[i] = false;
        ctl_outcome(c, i, step, fleet_cause(c->fleet, i), fleet_error(c->fleet, i)->text);
    }
    if (ctl_active_count(c) > 0)
        return 0;
    return err_set(err, ERR_REMOTE, "%s: none of the %zu nodes is usable; the reasons are above",
                   step, c->count);
}

static void show_connecting(void *ctx, struct fleet *f, size_t node, const char *what)
{
    struct ctl *c = ctx;
    size_t done = 0, failed = 0;
    for (size_t i = 0; i < c->count; i++) {
        done += fleet_state(f, i) == FLEET_CONNECTED || fleet_state(f, i) == FLEET_AGENT;
        failed += fleet_state(f, i) == FLEET_FAILED;
    }
    char detail[96];
    snprintf(detail, sizeof detail, "%.60s: %.30s", fleet_name(f, node), what);
    progress_update(&c->progress, done, failed, detail);
}

int ctl_connect(struct ctl *c, struct err *err)
{
    progress_begin(&c->progress, "connect", c->count);
    fleet_on_progress(c->fleet, show_connecting, c);
    size_t connected = fleet_connect(c->fleet);
    fleet_on_progress(c->fleet, NULL, NULL);
    progress_update(&c->progress, connected, c->count - connected, NULL);
    progress_end(&c->progress, NULL);
    return collect_failures(c, "connect", err);
}

static int check_pin(struct ctl *c, json_t *pins, size_t node, const json_t *hello, bool *added)
{
    struct err err = {0};
    if (state_pin_check(pins, c->names[node], jsonx_str_or(hello, "node_key", ""),
                        fleet_host_key(c->fleet, node), jsonx_str_or(hello, "machine_id", ""),
                        added, &err) == 0)
        return 0;
    c->active[node] = false;
    ctl_outcome(c, node, "hello", "node-key-changed", err.text);
    return -1;
}

/* What the agent found half done when it started is news for the operator; a node that could not be
 * put back is neither as before nor as planned and takes no further part. */
static void tell_recovery(struct ctl *c, size_t node, const json_t *hello)
{
    const json_t *recovery = json_object_get(hello, "recovery");
    if (!json_is_object(recovery))
        return;
    const char *text = jsonx_str_or(recovery, "text", "");
    if (strcmp(jsonx_str_or(recovery, "action", ""), "open") != 0) {
        log_warn("%s: transaction %s had been broken off; %s", c->names[node],
                 jsonx_str_or(recovery, "txn", "?"), text);
        return;
    }
    c->active[node] = false;
    ctl_outcome(c, node, "hello", "apply-failed", text);
}

static int pin_nodes(struct ctl *c, json_t *const hellos[], struct err *err)
{
    json_auto_t *pins = NULL;
    bool pinning = c->state.lock_fd >= 0; /* without a state directory of ours nothing is pinned */
    if (pinning && state_pins_load(&c->state, &pins, err) != 0)
        return -1;
    bool changed = false;
    for (size_t i = 0; i < c->count; i++) {
        if (!c->active[i] || !hellos[i])
            continue;
        bool added = false;
        if (pinning && check_pin(c, pins, i, hellos[i], &added) != 0)
            continue;
        changed = changed || added;
        tell_recovery(c, i, hellos[i]);
        jsonx_set(c->hello, c->names[i], json_incref(hellos[i]));
    }
    return changed ? state_pins_save(&c->state, pins, err) : 0;
}

/* Next evidence sequence number of a node: one past the last stored line. */
static int64_t next_seq(const struct ctl *c, size_t node)
{
    if (!c->run.dir)
        return 0;
    AUTO(free_str) char *path = run_node_path(&c->run, "evidence", c->names[node], ".jsonl");
    AUTO(free_str) char *text = NULL;
    struct err err = {0};
    if (!fs_exists(path) || fs_read(path, SIZE_MAX / 2, &text, NULL, &err) != 0)
        return 0;
    int64_t lines = 0;
    for (const char *p = text; (p = strchr(p, '\n')); p++)
        lines++;
    return lines;
}

static int start_agents(struct ctl *c, json_t *hellos[], struct err *err)
{
    struct agent_images images;
    if (agent_images_find(&images, err) != 0)
        return -1;
    int64_t *seqs = mem_zero(c->count, sizeof *seqs);
    for (size_t i = 0; i < c->count; i++)
        seqs[i] = next_seq(c, i);
    progress_begin(&c->progress, "agents", ctl_active_count(c));
    fleet_on_progress(c->fleet, show_connecting, c);
    size_t answering =
        fleet_start_agents(c->fleet, images.images, images.count, c->run.dir ? c->run.id : "none",
                           seqs, AGENT_START_MS, hellos);
    fleet_on_progress(c->fleet, NULL, NULL);
    progress_update(&c->progress, answering, ctl_active_count(c) - answering, NULL);
    progress_end(&c->progress, NULL);
    free(seqs);
    agent_images_release(&images);
    return collect_failures(c, "agent", err);
}

int ctl_agents(struct ctl *c, struct err *err)
{
    if (ctl_connect(c, err) != 0)
        return -1;
    json_t **hellos = mem_zero(c->count, sizeof *hellos);
    int status = start_agents(c, hellos, err);
    if (status == 0)
        status = pin_nodes(c, hellos, err);
    for (size_t i = 0; i < c->count; i++)
        json_decref(hellos[i]);
    free(hellos);
    if (status == 0 && ctl_active_count(c) == 0)
        return err_set(err, ERR_REMOTE, "no node is usable; the reasons are above");
    return status;
}

void ctl_bye(struct ctl *c)
{
    json_t **replies = mem_zero(c->count, sizeof *replies);
    fleet_bye(c->fleet, BYE_MS, replies);
    for (size_t i = 0; i < c->count; i++) {
        const json_t *left = json_object_get(replies[i], "left");
        int64_t processes = jsonx_int_or(left, "processes", 0);
        size_t files = json_array_size(json_object_get(left, "files"));
        if (replies[i] && (processes > 0 || files > 0))
            log_warn("%s: the agent left %lld processes and %zu files behind", c->names[i],
                     (long long)processes, files);
        json_decref(replies[i]);
    }
    free(replies);
}

int ctl_exit_status(const struct ctl *c)
{
    return json_array_size(c->outcomes) > 0 ? 1 : 0;
}

int ctl_fail(const struct err *err)
{
    log_error("%s", err->text);
    return err_exit_status(err->kind);
}
