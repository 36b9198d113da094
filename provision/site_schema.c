#include "provision/site_schema.h"

#include <stdio.h>
#include <string.h>

#include "common/util.h"
#include "provision/site.h"

const char *const site_stages[] = {
    "inventory", "pcie", "gpu",   "shm",   "p2p", "nvlink", "allreduce-node",
    "link",      "pairs", "allreduce-cluster", "fabric", NULL,
};
const char *const site_fabric_kinds[] = {"ethernet", "infiniband", "roce", "efa", NULL};
static const char *const become_words[] = {"none", "sudo", NULL};
static const char *const routing_words[] = {"minhop", "updn",       "dnup",    "ftree", "lash",
                                            "dor",    "torus-2QoS", "dfsssp",  "sssp",  NULL};

enum { MINUTE_MS = 60 * 1000 };
static const int64_t year_ms = INT64_C(366) * 24 * 60 * MINUTE_MS;

/* Rows of one section stand together; that order is the order of the documentation. */
static const struct site_key rows[] = {
    {.section = "", .key = "cluster", .type = SITE_NAME, .required = true,
     .doc = "name of the cluster; it goes into every report"},
    {.section = "", .key = "ssh", .type = SITE_PART, .doc = "how nodes are reached"},
    {.section = "", .key = "fabric", .type = SITE_PART, .doc = "the network between the nodes"},
    {.section = "", .key = "nodes", .type = SITE_PART, .required = true,
     .doc = "list of node entries; a hostlist stands for an entry with names only"},
    {.section = "", .key = "groups", .type = SITE_PART,
     .doc = "groups of nodes by name, each with names and vars"},
    {.section = "", .key = "vars", .type = SITE_VARS, .fallback = "{}",
     .doc = "variables for the playbooks of every node"},
    {.section = "", .key = "playbooks", .type = SITE_NAMES, .fallback = "[\"base\"]",
     .doc = "playbooks of the nodes whose entry names none"},
    {.section = "", .key = "playbook_path", .type = SITE_TEXTS, .fallback = "[]",
     .doc = "directories searched first for playbooks, relative to the site file"},
    {.section = "", .key = "policy", .type = SITE_PART, .doc = "what ready means here"},
    {.section = "", .key = "stages", .type = SITE_PART,
     .doc = "parameters of stages by the stage's name; the stage checks them"},

    {.section = "ssh", .key = "user", .type = SITE_TEXT,
     .doc = "login name; default from ~/.ssh/config"},
    {.section = "ssh", .key = "port", .type = SITE_INT, .min = 1, .max = 65535,
     .doc = "TCP port; default from ~/.ssh/config"},
    {.section = "ssh", .key = "become", .type = SITE_CHOICE, .choices = become_words,
     .fallback = "\"none\"", .doc = "how to become root: none (log in as root) or sudo"},
    {.section = "ssh", .key = "connect_timeout", .to = "connect_timeout_ms",
     .type = SITE_DURATION, .min = 100, .max = 10 * MINUTE_MS, .fallback = "10000",
     .doc = "limit for connection, key exchange and authentication together"},
    {.section = "ssh", .key = "parallel", .type = SITE_INT, .min = 1, .max = 4096,
     .fallback = "256", .doc = "connections that are being set up at once"},
    {.section = "ssh", .key = "config", .type = SITE_TEXT,
     .doc = "an ssh_config file instead of ~/.ssh/config and the system's"},

    {.section = "fabric", .key = "kind", .type = SITE_CHOICE, .choices = site_fabric_kinds,
     .fallback = "\"ethernet\"", .doc = "technology of the network between the nodes"},
    {.section = "fabric", .key = "rate", .to = "rate_bps", .type = SITE_RATE,
     .doc = "planned rate of every port"},
    {.section = "fabric", .key = "mtu", .type = SITE_INT, .min = 256, .max = 65520,
     .doc = "planned MTU in bytes; on InfiniBand 256, 512, 1024, 2048 or 4096"},
    {.section = "fabric", .key = "interface", .type = SITE_NAME,
     .doc = "network interface for traffic between nodes, the same name on every node"},
    {.section = "fabric", .key = "subnet_managers", .type = SITE_HOSTS, .fallback = "[]",
     .doc = "hosts that run the subnet manager (InfiniBand), highest priority first"},
    {.section = "fabric", .key = "routing", .type = SITE_CHOICE, .choices = routing_words,
     .doc = "routing engine of the subnet manager (InfiniBand)"},

    {.section = "node", .key = "names", .type = SITE_HOSTS, .required = true,
     .doc = "the nodes of this entry"},
    {.section = "node", .key = "host", .type = SITE_TEXT,
     .doc = "address to connect to instead of the name; for an entry of one node"},
    {.section = "node", .key = "user", .type = SITE_TEXT, .doc = "login name on these nodes"},
    {.section = "node", .key = "port", .type = SITE_INT, .min = 1, .max = 65535,
     .doc = "TCP port on these nodes"},
    {.section = "node", .key = "hardware", .type = SITE_NAME,
     .doc = "hardware profile that these nodes must match"},
    {.section = "node", .key = "playbooks", .type = SITE_NAMES,
     .doc = "playbooks of these nodes, in the order of application; [] for none"},
    {.section = "node", .key = "vars", .type = SITE_VARS, .fallback = "{}",
     .doc = "variables for the playbooks of these nodes"},
    {.section = "node", .key = "groups", .type = SITE_NAMES, .fallback = "[]",
     .doc = "groups that these nodes are in"},

    {.section = "group", .key = "names", .type = SITE_HOSTS, .fallback = "[]",
     .doc = "nodes of the group; they must be under nodes too"},
    {.section = "group", .key = "vars", .type = SITE_VARS, .fallback = "{}",
     .doc = "variables for the playbooks of the group's nodes"},

    {.section = "policy", .key = "require", .type = SITE_PART,
     .doc = "all, or the list of stages that a ready node must have passed"},
    {.section = "policy", .key = "max_age", .to = "max_age_ms", .type = SITE_DURATION,
     .min = MINUTE_MS, .max = year_ms, .fallback = "604800000",
     .doc = "after this time a report no longer opens the gate"},
    {.section = "policy", .key = "allow_degraded", .type = SITE_BOOL, .fallback = "false",
     .doc = "whether the gate opens for a degraded node"},
    {.section = "policy", .key = "max_clock_skew", .to = "max_clock_skew_ms",
     .type = SITE_DURATION, .min = 1, .max = 60 * MINUTE_MS, .fallback = "5000",
     .doc = "largest difference between a node's clock and the controller's"},
    {.section = "policy", .key = "floors", .type = SITE_PART,
     .doc = "own limits by quantity, as VALUE or { value: VALUE, reason: TEXT }"},
    {.section = "policy", .key = "exclude", .type = SITE_PART,
     .doc = "elements that are not judged, each with a reason and an end date"},

    {.section = "floor", .key = "value", .type = SITE_PART, .required = true,
     .doc = "the limit, with the unit of its quantity"},
    {.section = "floor", .key = "reason", .type = SITE_TEXT, .doc = "why this limit"},

    {.section = "exclude", .key = "subject", .type = SITE_TEXT, .required = true,
     .doc = "NODE, NODE/KIND:ID, FROM>TO or cluster"},
    {.section = "exclude", .key = "reason", .type = SITE_TEXT, .required = true,
     .doc = "why it is not judged; it is printed in the report"},
    {.section = "exclude", .key = "until", .type = SITE_DATE, .required = true,
     .doc = "last day of the exclusion"},
};

static const struct {
    const char *name, *form;
} types[] = {
    [SITE_TEXT] = {"text", "\"text\""},
    [SITE_NAME] = {"name", "aurora-1"},
    [SITE_NAMES] = {"list of names", "[base, nccl]"},
    [SITE_TEXTS] = {"list of texts", "[dir, other/dir]"},
    [SITE_INT] = {"integer", "4096"},
    [SITE_BOOL] = {"true or false", "true"},
    [SITE_RATE] = {"rate", "400Gb/s"},
    [SITE_DURATION] = {"duration", "7d"},
    [SITE_CHOICE] = {"word", NULL},
    [SITE_DATE] = {"date", "2026-12-31"},
    [SITE_HOSTS] = {"hostlist", "\"gpu[001-128]\""},
    [SITE_VARS] = {"mapping", "{ key: value }"},
    [SITE_PART] = {"section", NULL},
};
_Static_assert(ARRAY_LEN(types) == SITE_TYPE__COUNT, "a row per type");

const struct site_key *site_schema(size_t *count)
{
    *count = ARRAY_LEN(rows);
    return rows;
}

const char *site_type_name(enum site_type type)
{
    return types[type].name;
}

const char *site_type_form(enum site_type type)
{
    return types[type].form;
}
