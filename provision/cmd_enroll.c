/* muster enroll: the one named step by which host keys become trusted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/tty.h"
#include "common/util.h"
#include "provision/cmd.h"
#include "provision/hostkeys.h"

struct settings {
    struct ctl_options common;
    bool renew;
};

static const struct opt_row rows[] = {
    {OPT_FLAG, "renew", 0, NULL,
     "also take keys that differ from the known ones, and forget the nodes' evidence keys (after a "
     "reinstall or a swap)",
     offsetof(struct settings, renew), 0, 0},
    {OPT_END, NULL, 0, NULL, NULL, 0, 0, 0},
};

static const struct {
    const char *word, *label;
    enum tty_color color;
} states[] = {
    [FLEET_KEY_UNKNOWN] = {"new", "new", TTY_PLAIN},
    [FLEET_KEY_KNOWN] = {"known", "known already", TTY_GREEN},
    [FLEET_KEY_CHANGED] = {"changed", "CHANGED", TTY_RED},
    [FLEET_KEY_REVOKED] = {"revoked", "REVOKED", TTY_RED},
};

static void show_row(struct tty_table *table, const struct ctl *c, size_t i,
                     const struct fleet_scanned *s)
{
    if (!s->base64) {
        tty_table_row(table, TTY_RED,
                      (const char *const[]){c->names[i], "no answer", "", "",
                                            fleet_error(c->fleet, i)->text});
        return;
    }
    AUTO(free_str)
    char *note = s->state == FLEET_KEY_CHANGED
                     ? str_printf("was %s (%s)", s->known_fingerprint, s->known_place)
                     : str_dup("");
    tty_table_row(
        table, states[s->state].color,
        (const char *const[]){c->names[i], states[s->state].label, s->type, s->fingerprint, note});
}

static void show(const struct ctl *c, const struct fleet_scanned scans[])
{
    struct tty_table *table =
        tty_table_create((const char *const[]){"NODE", "KEY", "TYPE", "FINGERPRINT", "NOTE"}, 5);
    for (size_t i = 0; i < c->count; i++)
        show_row(table, c, i, &scans[i]);
    tty_table_print(table, stdout);
    tty_table_destroy(table);
    fflush(stdout);
}

static json_t *as_json(const struct ctl *c, const struct fleet_scanned scans[])
{
    json_t *nodes = json_object();
    for (size_t i = 0; i < c->count; i++) {
        json_t *node = json_object();
        jsonx_set_str(node, "state", scans[i].base64 ? states[scans[i].state].word : "no answer");
        jsonx_set_str(node, "type", scans[i].type);
        jsonx_set_str(node, "fingerprint", scans[i].fingerprint);
        jsonx_set(nodes, c->names[i], node);
    }
    return nodes;
}

/* Whether this key is to be written.  A changed one only with --renew, a revoked one never. */
static bool to_take(const struct settings *s, const struct fleet_scanned *scan)
{
    if (!scan->base64)
        return false;
    return scan->state == FLEET_KEY_UNKNOWN || (scan->state == FLEET_KEY_CHANGED && s->renew);
}

/* A line of another file would still contradict the new key: only its owner may take it out. */
static int check_place(const struct ctl *c, const char *path, size_t i,
                       const struct fleet_scanned *scan, struct err *err)
{
    if (scan->state != FLEET_KEY_CHANGED || !scan->known_place ||
        str_has_prefix(scan->known_place, path))
        return 0;
    return err_set(err, ERR_ENV,
                   "%s: %s has another key for it; remove that line first: ssh-keygen -R '%s'",
                   c->names[i], scan->known_place, scan->host);
}

static int take(struct ctl *c, const struct settings *s, const struct fleet_scanned scans[],
                struct err *err)
{
    AUTO(free_str) char *path = state_path(&c->state, "known_hosts");
    json_auto_t *pins = NULL;
    if (state_pins_load(&c->state, &pins, err) != 0)
        return -1;
    struct hostkeys_line *lines = mem_zero(c->count, sizeof *lines);
    size_t count = 0;
    int status = 0;
    for (size_t i = 0; i < c->count && status == 0; i++) {
        if (s->renew && scans[i].base64)
            state_pin_forget(pins, c->names[i]);
        if (!to_take(s, &scans[i]))
            continue;
        status = check_place(c, path, i, &scans[i], err);
        lines[count++] = (struct hostkeys_line){.host = scans[i].host,
                                                .port = scans[i].port,
                                                .type = scans[i].type,
                                                .base64 = scans[i].base64};
    }
    if (status == 0 && count > 0)
        status = hostkeys_append_all(path, lines, count, s->renew, err);
    if (status == 0 && s->renew)
        status = state_pins_save(&c->state, pins, err);
    free(lines);
    if (status == 0 && !c->options->json && count > 0)
        printf("%zu key%s taken into %s\n", count, count == 1 ? "" : "s", path);
    return status;
}

/* Nodes whose key is not trusted after this command, in words. */
static int leftovers(const struct ctl *c, const struct settings *s,
                     const struct fleet_scanned scans[])
{
    int status = 0;
    for (size_t i = 0; i < c->count; i++) {
        if (!scans[i].base64) {
            status = 1;
            fprintf(stderr, "%s: no key taken: %s\n", c->names[i], fleet_error(c->fleet, i)->text);
        } else if (scans[i].state == FLEET_KEY_REVOKED) {
            status = 1;
            fprintf(stderr, "%s: this key is revoked (%s); it is never taken\n", c->names[i],
                    scans[i].known_place ? scans[i].known_place : "known_hosts");
        } else if (scans[i].state == FLEET_KEY_CHANGED && !s->renew) {
            status = 1;
            fprintf(stderr,
                    "%s: another key than the known one: the node was reinstalled, or someone "
                    "stands in between. Compare the fingerprint on its console (ssh-keygen -lf "
                    "/etc/ssh/ssh_host_*_key.pub); if it is right: muster enroll --renew -w %s\n",
                    c->names[i], c->names[i]);
        }
    }
    return status;
}

static int enroll(struct ctl *c, const struct settings *s, struct fleet_scanned scans[],
                  struct err *err)
{
    fleet_scan(c->fleet, scans);
    size_t due = 0;
    for (size_t i = 0; i < c->count; i++)
        due += to_take(s, &scans[i]);
    if (c->options->json) {
        json_auto_t *nodes = as_json(c, scans);
        cmd_print_json(nodes);
    } else {
        show(c, scans);
    }
    char question[96];
    snprintf(question, sizeof question, "Trust %zu key%s from now on?", due, due == 1 ? "" : "s");
    if (due > 0 && !cmd_confirm(c->options, question, err))
        return -1;
    if (take(c, s, scans, err) != 0)
        return -1;
    return leftovers(c, s, scans);
}

static int run_enroll(void *settings, int count, char **operands)
{
    (void)count;
    (void)operands;
    const struct settings *s = settings;
    struct err err = {0};
    struct ctl c;
    if (ctl_open(&c, &s->common, CTL_SITE | CTL_STATE | CTL_FLEET, &err) != 0)
        return ctl_fail(&err);
    struct fleet_scanned *scans = mem_zero(c.count, sizeof *scans);
    int status = enroll(&c, s, scans, &err);
    for (size_t i = 0; i < c.count; i++)
        fleet_scanned_release(&scans[i]);
    free(scans);
    if (status < 0)
        status = ctl_fail(&err);
    ctl_close(&c);
    return status;
}

static const char *const about[] = {
    "Host keys are checked always; a node whose key is unknown or has changed is refused by every "
    "other command. enroll fetches the keys, shows their fingerprints and, when you agree, writes "
    "them to known_hosts in the state directory. Compare them with the consoles, or with what your "
    "provisioning system recorded.",
    NULL,
};
static const struct opt_example examples[] = {
    {"muster enroll", "all nodes of ./site.yaml; asks before it trusts"},
    {"muster enroll --renew -w gpu017", "after gpu017 was reinstalled"},
    {NULL, NULL},
};
const struct opt_command cmd_enroll = {
    .name = "enroll",
    .summary = "show the nodes' host keys and trust them",
    .operands = "",
    .about = about,
    .rows = rows,
    .common = ctl_common_rows,
    .examples = examples,
    .settings_bytes = sizeof(struct settings),
    .run = run_enroll,
};
