#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "validate/ledger.h"

enum { DAY_MS = 24 * 60 * 60 * 1000 };

enum need {
    NEED_NOTHING,
    NEED_PCI,
    NEED_GPU,
    NEED_GPU_PAIR,
    NEED_RDMA,
    NEED_INFINIBAND,
    NEED_PEER
};

struct stage_row {
    const char *name;
    bool program;
    enum need need;
};

static const struct stage_row stages[] = {
#define REQUIRED_STAGE(name_, program_, need_) {(name_), (program_) != 0, NEED_##need_},
#include "validate/stages.def"
#undef REQUIRED_STAGE
};

static const char *const need_words[] = {
    [NEED_NOTHING] = "nothing",  [NEED_PCI] = "PCI device with a link",
    [NEED_GPU] = "GPU",          [NEED_GPU_PAIR] = "pair of GPUs",
    [NEED_RDMA] = "RDMA device", [NEED_INFINIBAND] = "InfiniBand port",
    [NEED_PEER] = "second node",
};

static const struct stage_row *stage_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(stages); i++)
        if (strcmp(stages[i].name, name) == 0)
            return &stages[i];
    return NULL;
}

json_t *ledger_required(const json_t *site, struct err *err)
{
    const json_t *require = json_object_get(json_object_get(site, "policy"), "require");
    json_auto_t *out = json_array();
    if (json_is_string(require) && strcmp(json_string_value(require), "all") == 0) {
        for (size_t i = 0; i < ARRAY_LEN(stages); i++)
            jsonx_append_str(out, stages[i].name);
        return json_incref(out);
    }
    if (!json_is_array(require) || json_array_size(require) == 0) {
        err_set(err, ERR_DATA, "site: policy.require must be \"all\" or a list of stages");
        return NULL;
    }
    for (size_t i = 0; i < json_array_size(require); i++) {
        const char *name = json_string_value(json_array_get(require, i));
        if (!name || !stage_find(name)) {
            err_set(err, ERR_DATA, "site: policy.require names the unknown stage '%.60s'",
                    name ? name : "(not a string)");
            return NULL;
        }
        jsonx_append_str(out, name);
    }
    return json_incref(out);
}

json_t *ledger_stages(void)
{
    json_t *names = json_object();
    for (size_t i = 0; i < ARRAY_LEN(stages); i++)
        jsonx_set_bool(names, stages[i].name, true);
    return names;
}

static bool has_name(const json_t *names, const char *name)
{
    for (size_t i = 0; i < json_array_size(names); i++)
        if (strcmp(json_string_value(json_array_get(names, i)), name) == 0)
            return true;
    return false;
}

/* --- what a node has -------------------------------------------------------------------------- */

static size_t count_gpus(const json_t *facts)
{
    return json_array_size(json_object_get(json_object_get(facts, "gpus"), "devices"));
}

/* Display controllers of NVIDIA: a GPU whose driver does not answer is still there. */
static size_t count_pci_gpus(const json_t *facts)
{
    const json_t *pci = json_object_get(facts, "pci");
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(pci); i++) {
        const json_t *device = json_array_get(pci, i);
        count += strcmp(jsonx_str_or(device, "vendor", ""), "0x10de") == 0 &&
                 str_has_prefix(jsonx_str_or(device, "class", ""), "0x03");
    }
    return count;
}

static size_t count_pci_links(const json_t *facts)
{
    const json_t *pci = json_object_get(facts, "pci");
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(pci); i++)
        count += json_is_object(json_object_get(json_array_get(pci, i), "link"));
    return count;
}

static size_t count_infiniband(const json_t *facts)
{
    const json_t *rdma = json_object_get(facts, "rdma");
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(rdma); i++) {
        const json_t *ports = json_object_get(json_array_get(rdma, i), "ports");
        for (size_t k = 0; k < json_array_size(ports); k++)
            count +=
                strcmp(jsonx_str_or(json_array_get(ports, k), "link_layer", ""), "InfiniBand") == 0;
    }
    return count;
}

static bool is_met(enum need need, const json_t *facts, size_t node_count)
{
    size_t gpus = count_gpus(facts), pci_gpus = count_pci_gpus(facts);
    size_t most = gpus > pci_gpus ? gpus : pci_gpus;
    switch (need) {
    case NEED_NOTHING:
        return true;
    case NEED_PCI:
        return count_pci_links(facts) > 0;
    case NEED_GPU:
        return most > 0;
    case NEED_GPU_PAIR:
        return most > 1;
    case NEED_RDMA:
        return json_array_size(json_object_get(facts, "rdma")) > 0;
    case NEED_INFINIBAND:
        return count_infiniband(facts) > 0;
    case NEED_PEER:
        return node_count > 1;
    }
    return false;
}

json_t *ledger_measurable(const json_t *facts, size_t node_count)
{
    json_t *names = json_array();
    for (size_t i = 0; i < ARRAY_LEN(stages); i++)
        if (stages[i].program && is_met(stages[i].need, facts, node_count))
            jsonx_append_str(names, stages[i].name);
    return names;
}

/* --- rows of one node ------------------------------------------------------------------------- */

static void plan_gpus(struct ledger *l, const char *node, const json_t *facts, bool required)
{
    const json_t *devices = json_object_get(json_object_get(facts, "gpus"), "devices");
    for (size_t i = 0; i < json_array_size(devices); i++) {
        const json_t *gpu = json_array_get(devices, i);
        AUTO(free_str)
        char *subject =
            str_printf("%s/gpu:%lld", node, (long long)jsonx_int_or(gpu, "index", (int64_t)i));
        ledger_row(l, subject, node, "gpu", "gpu_run", required);
    }
}

static void plan_ports(struct ledger *l, const char *node, const json_t *facts, bool required)
{
    const json_t *rdma = json_object_get(facts, "rdma");
    for (size_t i = 0; i < json_array_size(rdma); i++) {
        const json_t *device = json_array_get(rdma, i);
        const json_t *ports = json_object_get(device, "ports");
        for (size_t k = 0; k < json_array_size(ports); k++) {
            const json_t *port = json_array_get(ports, k);
            AUTO(free_str)
            char *subject = str_printf("%s/hca:%s/%lld", node, jsonx_str_or(device, "name", "?"),
                                       (long long)jsonx_int_or(port, "port", 0));
            struct ledger_row *row = ledger_row(l, subject, node, "link", "exercised", required);
            ledger_set(row, VERDICT_NOT_MEASURED, "stage-missing",
                       "port is %s, %s; no measurement of this version exercises RDMA ports",
                       jsonx_str_or(port, "state", "in an unknown state"),
                       jsonx_str_or(port, "rate", "rate unknown"));
        }
    }
}

/* What the node lacks for a stage, as its facts say it. */
static char *what_is_absent(enum need need, const json_t *facts)
{
    const char *gpu = jsonx_str_or(json_object_get(facts, "gpus"), "reason", NULL);
    if (need == NEED_PEER)
        return str_dup("there is no second node: the run was of this node alone");
    if ((need == NEED_GPU || need == NEED_GPU_PAIR) && gpu)
        return str_dup(gpu);
    return str_printf("the node's facts show no %s", need_words[need]);
}

/* A stage that cannot be measured here leaves a row that says so, required or not: what was not
 * looked at must not be out of sight.  Only where somebody required it, it is a cause. */
static void plan_stage(struct ledger *l, const struct stage_row *stage, const char *node,
                       const json_t *facts, size_t node_count, bool required)
{
    bool met = facts && is_met(stage->need, facts, node_count);
    if (met && stage->program)
        return;
    struct ledger_row *row = ledger_row(l, node, node, stage->name, "coverage", required);
    if (!facts) {
        ledger_set(row, VERDICT_NOT_MEASURED, required ? "facts-missing" : NULL,
                   "the node's facts are not known, so nothing says what stage %s must cover",
                   stage->name);
    } else if (!met) {
        AUTO(free_str) char *absent = what_is_absent(stage->need, facts);
        const char *cause = stage->need == NEED_PEER ? "too-few-nodes" : "hardware-absent";
        ledger_set(row, VERDICT_NOT_MEASURED, required ? cause : NULL, "%s%s",
                   required ? "required, but " : "", absent);
    } else {
        ledger_set(row, VERDICT_NOT_MEASURED, required ? "stage-missing" : NULL,
                   "%sthis version of muster cannot measure it", required ? "required, but " : "");
    }
}

int ledger_plan(struct ledger *ledger, const json_t *site, const json_t *facts, struct err *err)
{
    const json_t *nodes = NULL;
    if (jsonx_get_obj(site, "site", "nodes", &nodes, err) != 0)
        return -1;
    json_auto_t *required = ledger_required(site, err);
    if (!required)
        return -1;
    const char *node;
    json_t *unused;
    json_object_foreach((json_t *)nodes, node, unused)
    {
        const json_t *own = json_object_get(facts, node);
        plan_gpus(ledger, node, own, has_name(required, "gpu"));
        plan_ports(ledger, node, own, has_name(required, "link"));
        for (size_t i = 0; i < ARRAY_LEN(stages); i++)
            plan_stage(ledger, &stages[i], node, own, json_object_size(nodes),
                       has_name(required, stages[i].name));
    }
    return 0;
}

/* --- exclusions ------------------------------------------------------------------------------- */

/* Whether an exclusion of `subject` covers the row: itself, a part of that node, a path of that
 * node. */
static bool covers(const char *subject, const char *row)
{
    size_t len = strlen(subject);
    if (strncmp(row, subject, len) == 0 &&
        (row[len] == '\0' || row[len] == '/' || (row[len] == '>' && !strchr(subject, '>'))))
        return true;
    const char *to = strchr(row, '>');
    return to && strcmp(to + 1, subject) == 0;
}

static int parse_day(const char *until, int64_t *end_ms)
{
    int64_t begin = 0;
    AUTO(free_str) char *text = str_printf("%sT00:00:00Z", until);
    if (strlen(until) != 10 || time_parse(text, &begin) != 0)
        return -1;
    *end_ms = begin + DAY_MS;
    return 0;
}

static void exclude(struct ledger_row *row, const char *until, const char *reason, bool in_force)
{
    if (in_force) {
        ledger_set(row, VERDICT_EXCLUDED, NULL, "excluded until %s: %s", until, reason);
        return;
    }
    AUTO(free_str)
    char *note = str_printf(" (the exclusion '%s' ended on %s)", reason, until);
    if (row->verdict == VERDICT_PASS || (row->reason && strstr(row->reason, note)))
        return;
    char *joined = str_printf("%s%s", row->reason ? row->reason : "", note);
    free(row->reason);
    row->reason = joined;
}

void ledger_close(struct ledger *ledger, const json_t *site, int64_t now_ms)
{
    const json_t *list = json_object_get(json_object_get(site, "policy"), "exclude");
    for (size_t i = 0; i < ledger_count(ledger); i++) {
        struct ledger_row *row = ledger_at(ledger, i);
        ledger_set(row, row->verdict == VERDICT_UNSET ? VERDICT_NOT_MEASURED : VERDICT_UNSET,
                   "not-run", "no measurement of %s in this run (check %s)", row->subject,
                   row->check);
        for (size_t k = 0; k < json_array_size(list); k++) {
            const json_t *e = json_array_get(list, k);
            const char *until = jsonx_str_or(e, "until", "");
            int64_t end_ms = 0;
            if (!covers(jsonx_str_or(e, "subject", ""), row->subject))
                continue;
            /* A date that cannot be read excludes nothing. */
            bool in_force = parse_day(until, &end_ms) == 0 && now_ms < end_ms;
            exclude(row, until, jsonx_str_or(e, "reason", "no reason given"), in_force);
        }
    }
}
