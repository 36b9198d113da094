/* muster init: a commented site file from a host list and what the first node shows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/jsonx.h"
#include "common/log.h"
#include "common/util.h"
#include "provision/cmd.h"
#include "provision/site.h"

struct settings {
    struct ctl_options common;
    const char *output, *cluster, *user, *interface;
    bool sudo, offline, force;
};

static const struct opt_row rows[] = {
    {OPT_STRING, "output", 'o', "FILE", "where to write (default site.yaml; - is standard output)",
     offsetof(struct settings, output), 0, 0},
    {OPT_STRING, "cluster", 'c', "NAME", "name of the cluster (default cluster)",
     offsetof(struct settings, cluster), 0, 0},
    {OPT_STRING, "user", 'u', "NAME", "remote user (default: what ~/.ssh/config says)",
     offsetof(struct settings, user), 0, 0},
    {OPT_STRING, "interface", 0, "NAME", "interface that carries the cluster's traffic",
     offsetof(struct settings, interface), 0, 0},
    {OPT_FLAG, "sudo", 0, NULL, "become root with sudo -n on the nodes",
     offsetof(struct settings, sudo), 0, 0},
    {OPT_FLAG, "offline", 0, NULL, "do not look at the first node",
     offsetof(struct settings, offline), 0, 0},
    {OPT_FLAG, "force", 0, NULL, "replace an existing file", offsetof(struct settings, force), 0,
     0},
    {OPT_END, NULL, 0, NULL, NULL, 0, 0, 0},
};

/* Facts of the first node; what it cannot tell is left to the operator, and said. */
static json_t *look_at_first(const struct settings *s, const char *hosts)
{
    struct err err = {0};
    struct ctl c = {.options = &s->common, .state.lock_fd = -1, .run.journal_fd = -1};
    json_auto_t *site = NULL;
    struct hostlist all = {0};
    json_t *facts = NULL;
    if (site_from_hostlist(hosts, &site, &err) != 0)
        return NULL;
    site_node_names(site, &all);
    if (ctl_open_adhoc(&c, &s->common, all.names[0], s->user, s->sudo, &err) == 0 &&
        ctl_agents(&c, &err) == 0 && ctl_facts(&c, &err) == 0)
        facts = json_incref(json_object_get(c.facts, all.names[0]));
    if (!facts)
        log_warn("%s could not be looked at (%s); its part of the file is left to you",
                 all.names[0], err.text);
    else
        ctl_bye(&c);
    ctl_close(&c);
    hostlist_release(&all);
    return facts;
}

static int write_site(const struct settings *s, const char *text, struct err *err)
{
    const char *path = s->output ? s->output : "site.yaml";
    if (strcmp(path, "-") == 0) {
        fputs(text, stdout);
        return 0;
    }
    if (fs_exists(path) && !s->force)
        return err_set(err, ERR_USAGE,
                       "%s exists; use --force to replace it, or -o for another name", path);
    if (fs_write_atomic(path, text, strlen(text), 0644, err) != 0)
        return -1;
    fprintf(stderr, "wrote %s; look it over, then: muster enroll && muster up\n", path);
    return 0;
}

static int run_init(void *settings, int count, char **operands)
{
    (void)count;
    const struct settings *s = settings;
    struct err err = {0};
    json_auto_t *probe = NULL;
    if (site_from_hostlist(operands[0], &probe, &err) != 0)
        return ctl_fail(&err);
    json_auto_t *facts = s->offline ? NULL : look_at_first(s, operands[0]);
    struct site_init init = {.cluster = s->cluster,
                             .hosts = operands[0],
                             .user = s->user,
                             .sudo = s->sudo,
                             .interface = s->interface,
                             .facts = facts};
    AUTO(free_str) char *text = NULL;
    if (site_init_text(&init, &text, &err) != 0 || write_site(s, text, &err) != 0)
        return ctl_fail(&err);
    return 0;
}

static const char *const about[] = {
    "Looks at the first node over SSH (its host key must be known) and writes a site file with "
    "comments that fits it. Nothing is changed there.",
    NULL,
};
static const struct opt_example examples[] = {
    {"muster init 'gpu[001-128]' -c aurora --sudo -u ops", "128 nodes, root by sudo"},
    {"muster init gpu001,gpu002 --offline -o -", "to standard output, without contact"},
    {NULL, NULL},
};
const struct opt_command cmd_init = {
    .name = "init",
    .summary = "write a commented site file",
    .operands = "HOSTLIST",
    .operands_min = 1,
    .operands_max = 1,
    .about = about,
    .rows = rows,
    .common = ctl_common_rows,
    .examples = examples,
    .settings_bytes = sizeof(struct settings),
    .run = run_init,
};
