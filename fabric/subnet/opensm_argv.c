#include "fabric/subnet/opensm_argv.h"

#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "fabric/subnet/opensm_conf.h"
#include "fabric/subnet/subnet.h"

enum takes { NOTHING = 0, VALUE };

struct seen {
    const char *guid, *config, *torus, *engine, *priority;
    bool qos, failed;
};

struct option_row {
    char letter;
    const char *name;
    enum takes takes;
    const char *value; /* what the value is */
    void (*check)(const char *value, struct seen *seen, json_t *findings);
};

static void check_guid(const char *value, struct seen *seen, json_t *findings)
{
    seen->guid = value;
    char *end;
    unsigned long long guid = strtoull(value, &end, 16);
    if (*end || end == value || guid >> 40 == 0)
        subnet_finding(
            findings, "opensm-options", "-g",
            "-g %s: opensm binds to the local port with this 64-bit GUID; %s is none (a "
            "real one begins with its maker's number). opensm would find no such port, "
            "end with status 0 and leave the subnet without a manager. `ibstat -p` lists "
            "the GUIDs.",
            value, value);
}

static void check_priority(const char *value, struct seen *seen, json_t *findings)
{
    char *end;
    unsigned long priority = strtoul(value, &end, 0);
    seen->priority = value;
    if (*end || end == value)
        subnet_finding(
            findings, "opensm-options", "-p",
            "-p %s: is not a number; opensm takes it for 0, the lowest priority, without "
            "a word.",
            value);
    else if (priority > 15)
        subnet_finding(findings, "opensm-options", "-p",
                       "-p %s: the priority is 0 to 15; opensm refuses %lu.", value, priority);
    else if (priority < 2)
        subnet_finding(findings, "opensm-options", "-p",
                       "-p %s: is allowed and means %lu, nearly the lowest of 0 to 15: any manager "
                       "with a higher one, such as one in a switch, takes over. Give the master 14 "
                       "and its standby 13.",
                       value, priority);
}

static void check_torus(const char *value, struct seen *seen, json_t *findings)
{
    seen->torus = value;
    size_t dims = strspn(value, "0123456789x");
    if (value[dims] || !strchr(value, 'x'))
        return;
    subnet_finding(
        findings, "opensm-options", "--torus_config",
        "--torus_config %s: wants a file, and takes '%s' for its name. Dimensions stand in "
        "that file (`torus 2 2 2` for 2x2x2), with the links of a seed switch "
        "(xp_link, yp_link, zp_link: pairs of switch GUIDs).",
        value, value);
}

static void check_engine(const char *value, struct seen *seen, json_t *findings)
{
    seen->engine = value;
    AUTO(free_str) char *copy = str_dup(value);
    char *rest = NULL;
    for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        bool known = strcmp(word, "no_fallback") == 0 || strcmp(word, "file") == 0;
        for (size_t i = 0; opensm_engines[i] && !known; i++)
            known = strcmp(opensm_engines[i], word) == 0;
        if (!known)
            subnet_finding(findings, "opensm-options", "-R",
                           "-R %s: there is no routing engine '%s'; opensm says so in its log only "
                           "and takes minhop.",
                           value, word);
    }
}

static void see_config(const char *value, struct seen *seen, json_t *findings)
{
    (void)findings;
    seen->config = value;
}

/* opensm(8) of 3.3.23; those whose value muster does not check have no function. */
static const struct option_row rows[] = {
    {'g', "guid", VALUE, "the GUID of a local port", check_guid},
    {'p', "priority", VALUE, "0 to 15", check_priority},
    {'F', "config", VALUE, "a file such as /etc/opensm/opensm.conf", see_config},
    {'R', "routing_engine", VALUE, "a list of engines", check_engine},
    {0, "torus_config", VALUE, "a file such as /etc/opensm/torus-2QoS.conf", check_torus},
    {'Q', "qos", NOTHING, NULL, NULL},
    {'Y', "qos_policy_file", VALUE, "a file", NULL},
    {'P', "Pconfig", VALUE, "a partitions file", NULL},
    {'a', "root_guid_file", VALUE, "a file of switch GUIDs", NULL},
    {'u', "cn_guid_file", VALUE, "a file of GUIDs", NULL},
    {'G', "io_guid_file", VALUE, "a file of GUIDs", NULL},
    {'z', "connect_roots", NOTHING, NULL, NULL},
    {'A', "ucast_cache", NOTHING, NULL, NULL},
    {'l', "lmc", VALUE, "0 to 7", NULL},
    {'s', "sweep", VALUE, "seconds", NULL},
    {'t', "timeout", VALUE, "milliseconds", NULL},
    {'n', "maxsmps", VALUE, "a number", NULL},
    {'f', "log_file", VALUE, "a file", NULL},
    {'L', "log_limit", VALUE, "megabytes", NULL},
    {'e', "erase_log_file", NOTHING, NULL, NULL},
    {'o', "once", NOTHING, NULL, NULL},
    {'B', "daemon", NOTHING, NULL, NULL},
    {'I', "inactive", NOTHING, NULL, NULL},
    {'d', "debug", VALUE, "a level", NULL},
    {'D', "D", VALUE, "log flags", NULL},
    {'v', "verbose", NOTHING, NULL, NULL},
    {'V', "V", NOTHING, NULL, NULL},
    {'y', "stay_on_fatal", NOTHING, NULL, NULL},
    {'k', "smkey", VALUE, "a 64-bit key", NULL},
    {'c', "create-config", VALUE, "a file to write", NULL},
    {'q', "console", VALUE, "off, local or loopback", NULL},
    {'C', "console-port", VALUE, "a port", NULL},
    {'r', "reassign_lids", NOTHING, NULL, NULL},
    {'M', "lid_matrix_file", VALUE, "a file", NULL},
    {'U', "lfts_file", VALUE, "a file", NULL},
    {'S', "sadb_file", VALUE, "a file", NULL},
    {'H', "max_reverse_hops", VALUE, "a number", NULL},
    {'m', "ids_guid_file", VALUE, "a file", NULL},
    {'X', "guid_routing_order_file", VALUE, "a file", NULL},
    {'i', "ignore_guids", VALUE, "a file", NULL},
    {'w', "hop_weights_file", VALUE, "a file", NULL},
    {'O', "port_search_ordering_file", VALUE, "a file", NULL},
    {'x', "honor_guid2lid", NOTHING, NULL, NULL},
    {'N', "no_part_enforce", NOTHING, NULL, NULL},
    {'Z', "part_enforce", VALUE, "both, in, out or off", NULL},
    {'W', "allow_both_pkeys", NOTHING, NULL, NULL},
    {0, "subnet_prefix", VALUE, "a 64-bit prefix", NULL},
    {0, "do_mesh_analysis", NOTHING, NULL, NULL},
    {0, "lash_start_vl", VALUE, "a number", NULL},
    {0, "sm_sl", VALUE, "0 to 15", NULL},
    {0, "nue_max_num_vls", VALUE, "a number", NULL},
    {0, "port-shifting", NOTHING, NULL, NULL},
    {0, "scatter-ports", VALUE, "a seed", NULL},
    {0, "retries", VALUE, "a number", NULL},
    {0, "dump_files_dir", VALUE, "a directory", NULL},
    {0, "congestion_control", NOTHING, NULL, NULL},
    {0, "cc_key", VALUE, "a 64-bit key", NULL},
    {0, "perfmgr", NOTHING, NULL, NULL},
    {0, "perfmgr_sweep_time_s", VALUE, "seconds", NULL},
    {0, "prefix_routes_file", VALUE, "a file", NULL},
    {0, "consolidate_ipv6_snm_req", NOTHING, NULL, NULL},
    {0, "guid_routing_order_no_scatter", NOTHING, NULL, NULL},
    {0, "log_prefix", VALUE, "a text", NULL},
    {0, "version", NOTHING, NULL, NULL},
    {'h', "help", NOTHING, NULL, NULL},
};

static const struct option_row *by_letter(char letter)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].letter == letter && letter)
            return &rows[i];
    return NULL;
}

/* The option of that name, or the only one that begins so, as getopt_long finds it. */
static const struct option_row *by_name(const char *name, size_t len)
{
    const struct option_row *only = NULL;
    size_t count = 0;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (strncmp(rows[i].name, name, len) != 0)
            continue;
        if (strlen(rows[i].name) == len)
            return &rows[i];
        only = &rows[i];
        count++;
    }
    return count == 1 ? only : NULL;
}

static void unknown(const char *word, struct seen *seen, json_t *findings)
{
    const char *names[ARRAY_LEN(rows) + 1] = {0};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        names[i] = rows[i].name;
    const char *near = str_has_prefix(word, "--") ? str_nearest(word + 2, names) : NULL;
    seen->failed = true;
    subnet_finding(
        findings, "opensm-options", word,
        "%s: opensm has no such option%s%s%s; it prints its usage and ends with status 2.", word,
        near ? ", did you mean --" : "", near ? near : "", near ? "?" : "");
}

/* The next word goes to the option whatever it looks like, as getopt does. */
static size_t use(const struct option_row *row, const char *shown, const char *attached,
                  const char *next, struct seen *seen, json_t *findings)
{
    const char *value = attached ? attached : row->takes == VALUE ? next : NULL;
    if (row->takes == VALUE && !value) {
        seen->failed = true;
        subnet_finding(findings, "opensm-options", shown,
                       "%s: needs %s behind it and has nothing: opensm prints \"option requires an "
                       "argument\" and its usage, ends with status 2, and nothing runs.",
                       shown, row->value);
        return 0;
    }
    if (row->letter == 'Q')
        seen->qos = true;
    if (row->check)
        row->check(value, seen, findings);
    return row->takes == VALUE && !attached ? 1 : 0;
}

static size_t read_long(const char *word, const char *next, struct seen *seen, json_t *findings)
{
    const char *equals = strchr(word, '=');
    size_t len = equals ? (size_t)(equals - word - 2) : strlen(word + 2);
    const struct option_row *row = by_name(word + 2, len);
    if (!row) {
        unknown(word, seen, findings);
        return 0;
    }
    AUTO(free_str) char *full = str_printf("--%s", row->name);
    if (strlen(row->name) != len)
        subnet_finding(findings, "opensm-options", word,
                       "%s: is no option; opensm takes it for %s because no other begins so. Write "
                       "the name in full: the next version may have another.",
                       word, full);
    return use(row, full, equals ? equals + 1 : NULL, next, seen, findings);
}

static size_t read_short(const char *word, const char *next, struct seen *seen, json_t *findings)
{
    for (const char *c = word + 1; *c; c++) {
        const struct option_row *row = by_letter(*c);
        const char shown[] = {'-', *c, '\0'};
        if (!row) {
            unknown(shown, seen, findings);
            return 0;
        }
        if (row->takes == VALUE)
            return use(row, shown, c[1] ? c + 1 : NULL, next, seen, findings);
        use(row, shown, NULL, NULL, seen, findings);
    }
    return 0;
}

/* What no single option can tell. */
static void check_together(const struct seen *seen, json_t *findings)
{
    bool torus_engine = seen->engine && strstr(seen->engine, "torus-2QoS");
    if (seen->torus && !torus_engine && !seen->config)
        subnet_finding(
            findings, "opensm-options", "-R",
            "-R torus-2QoS is missing: without it the torus file is never read, and opensm "
            "routes with minhop, which can deadlock on a torus.");
    if ((seen->torus || torus_engine) && !seen->qos && !seen->config)
        subnet_finding(findings, "opensm-options", "-Q",
                       "-Q is missing: torus-2QoS refuses to route without it, because it keeps "
                       "deadlock away by service levels.");
}

static char *right_form(const struct seen *seen)
{
    const char *file = seen->config ? seen->config : "/etc/opensm/opensm.conf";
    if (seen->torus || (seen->engine && strstr(seen->engine, "torus-2QoS")))
        return str_printf(
            "opensm -B -F %s, with in that file: guid 0x<port GUID of `ibstat -p`>; sm_priority "
            "14; "
            "routing_engine torus-2QoS,no_fallback; qos TRUE; torus_config "
            "/etc/opensm/torus-2QoS.conf. `muster fabric sm-config` writes these files from the "
            "site file (fabric.routing: torus-2QoS, fabric.subnet.torus).",
            file);
    return str_printf("opensm -B -F %s, a file that `muster fabric sm-config` writes from the site "
                      "file; a file that is missing is passed over without a word.",
                      file);
}

char *opensm_argv_explain(const char *const args[], size_t count, json_t *findings)
{
    struct seen seen = {0};
    for (size_t i = 0; i < count; i++) {
        const char *next = i + 1 < count ? args[i + 1] : NULL;
        if (str_has_prefix(args[i], "--") && args[i][2])
            i += read_long(args[i], next, &seen, findings);
        else if (args[i][0] == '-' && args[i][1])
            i += read_short(args[i], next, &seen, findings);
        else
            unknown(args[i], &seen, findings);
    }
    check_together(&seen, findings);
    return right_form(&seen);
}
