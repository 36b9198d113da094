#include "fabric/subnet/sm_check.h"

#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"

static void set_warning(json_t *findings)
{
    jsonx_set_str(json_array_get(findings, json_array_size(findings) - 1), "severity", "warning");
}

static char *sm_text(const struct subnet *s, const struct subnet_sm *sm)
{
    return str_printf("%s port %u (priority %u)", sm->node >= 0 ? s->nodes[sm->node].name : "?",
                      sm->port, sm->priority);
}

/* All managers in one state, "a, b and c"; their number in *count. */
static char *list_in_state(const struct subnet *s, enum subnet_sm_state state, size_t *count)
{
    struct strbuf b = {0};
    strbuf_puts(&b, "");
    *count = 0;
    for (size_t i = 0; i < s->sm_count; i++) {
        if (!s->sms[i].answered || s->sms[i].state != state)
            continue;
        AUTO(free_str) char *one = sm_text(s, &s->sms[i]);
        strbuf_printf(&b, "%s%s", (*count)++ ? ", " : "", one);
    }
    return b.data;
}

static const struct subnet_sm *sm_of_host(const struct subnet *s, const char *host)
{
    for (size_t i = 0; i < s->sm_count; i++) {
        const struct subnet_sm *sm = &s->sms[i];
        if (sm->node < 0)
            continue;
        const char *name = s->nodes[sm->node].description;
        size_t len = strlen(host);
        if (strncmp(name, host, len) == 0 && (name[len] == '\0' || name[len] == ' '))
            return sm;
    }
    return NULL;
}

static void check_hosts(const struct subnet *s, const json_t *managers, json_t *findings)
{
    size_t i;
    json_t *host;
    json_array_foreach(managers, i, host)
    {
        const char *name = json_string_value(host);
        enum subnet_sm_state want = i == 0 ? SUBNET_SM_MASTER : SUBNET_SM_STANDBY;
        const struct subnet_sm *sm = sm_of_host(s, name);
        if (sm && (!sm->answered || sm->state == want))
            continue; /* silence has its own finding */
        if (!sm && i > 0)
            subnet_finding(
                findings, "sm-standby-missing", name,
                "%s runs no subnet manager, though the site plans its standby there: start "
                "opensm on it, or nobody takes over when the master is lost.",
                name);
        else if (i == 0)
            subnet_finding(
                findings, "sm-wrong-node", name,
                "%s is to be the master and is %s: another manager has a higher priority "
                "or it does not run; start opensm on it with the site's priorities.",
                name, sm ? subnet_sm_state_name(sm->state) : "without a subnet manager");
        else if (sm->state != SUBNET_SM_MASTER)
            subnet_finding(findings, "sm-standby-missing", name,
                           "%s is to be the standby and is %s: see its log.", name,
                           subnet_sm_state_name(sm->state));
    }
}

static void check_ties(const struct subnet *s, json_t *findings)
{
    for (size_t i = 0; i < s->sm_count; i++)
        for (size_t k = 0; k < i; k++) {
            const struct subnet_sm *a = &s->sms[k], *b = &s->sms[i];
            if (!a->answered || !b->answered || a->priority != b->priority)
                continue;
            AUTO(free_str) char *x = sm_text(s, a), *y = sm_text(s, b);
            AUTO(free_str) char *subject = str_printf("%s, %s", x, y);
            subnet_finding(
                findings, "sm-priority-tie", subject,
                "%s and %s have one priority: the lower GUID decides who is master. Give "
                "the planned master the higher priority.",
                x, y);
            set_warning(findings);
        }
}

void sm_check_subnet(const struct subnet *s, const struct sm_expect *expect, json_t *findings)
{
    size_t masters, standbys;
    AUTO(free_str) char *who = list_in_state(s, SUBNET_SM_MASTER, &masters);
    AUTO(free_str) char *others = list_in_state(s, SUBNET_SM_STANDBY, &standbys);
    bool silent = false;
    for (size_t i = 0; i < s->sm_count; i++)
        silent |= !s->sms[i].answered;
    if (masters > 1)
        subnet_finding(
            findings, "sm-two-masters", who,
            "%zu masters manage this subnet at once: %s. They undo each other's work; stop "
            "all but the planned one, and see that all have the same sm_key.",
            masters, who);
    if (masters == 0 && !silent)
        subnet_finding(
            findings, "sm-missing", "subnet",
            "No subnet manager is master%s%s: links stay at Initializing, addresses are no "
            "longer given, changes are not routed. Start opensm on a planned host and see "
            "its log.",
            standbys ? "; standby: " : "", others);
    if (expect->managers)
        check_hosts(s, expect->managers, findings);
    check_ties(s, findings);
}

/* ---- the log ---- */

/* Lines that mean that opensm carried on without something. */
static const struct {
    const char *text, *cause, *meaning;
} log_rows[] = {
    {"Partition configuration in error", "sm-partitions",
     "opensm dropped the whole partitions file: everybody is a full member of 0x7fff"},
    {"ERR 1B26", "sm-partitions",
     "the broadcast group of a partition asks for an MTU or rate that cannot be: IPoIB is dead"},
    {"ERR AC0", "sm-qos", "opensm dropped the QoS policy file"},
    {"ERR 0D01", "sm-duplicate-guid", "two nodes have one GUID: no subnet until one is corrected"},
    {"No routing engine able to", "sm-routing",
     "no planned routing engine can route this topology: no tables were written"},
};

static const char *last_of(const char *text, const char *word)
{
    const char *last = NULL;
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
        last = at;
    return last;
}

/* "... osm_ucast_mgr_process: ftree tables configured on all switches" -> "ftree". */
static char *engine_in_force(const char *log)
{
    const char *at = last_of(log, " tables configured on all switches");
    if (!at)
        return NULL;
    const char *begin = at;
    while (begin > log && begin[-1] != ' ' && begin[-1] != '\n')
        begin--;
    return str_printf("%.*s", (int)(at - begin), begin);
}

static char *line_at(const char *log, const char *at)
{
    while (at > log && at[-1] != '\n')
        at--;
    return str_printf("%.*s", (int)strcspn(at, "\n"), at);
}

void sm_check_log(const char *log, const char *path, const struct sm_expect *expect,
                  json_t *findings)
{
    const char *master = last_of(log, "Entering MASTER state");
    if (!master) {
        subnet_finding(findings, "sm-not-up", path, "%s: this opensm never became master.", path);
        return;
    }
    if (!strstr(master, "SUBNET UP"))
        subnet_finding(findings, "sm-not-up", path,
                       "%s: there is no SUBNET UP since it became master. Without force_log_flush "
                       "TRUE the line may still be in opensm's buffer.",
                       path);
    AUTO(free_str) char *engine = engine_in_force(master);
    if (expect->routing && engine && strcasecmp(engine, expect->routing) != 0)
        subnet_finding(
            findings, "sm-routing", path,
            "%s: %s routes the subnet, not the planned %s: opensm found the topology unfit "
            "and fell back (its log has an ERR line before this); a missing cable is "
            "enough.",
            path, engine, expect->routing);
    for (size_t i = 0; i < ARRAY_LEN(log_rows); i++) {
        const char *at = last_of(log, log_rows[i].text);
        if (!at || (at < master && strcmp(log_rows[i].cause, "sm-routing") == 0))
            continue;
        AUTO(free_str) char *line = line_at(log, at);
        subnet_finding(findings, log_rows[i].cause, path, "%s: %s (%.200s).", path,
                       log_rows[i].meaning, line);
    }
}
