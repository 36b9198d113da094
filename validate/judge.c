#include "validate/judge.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/jsonx.h"
#include "common/util.h"
#include "validate/causes.h"
#include "validate/check.h"
#include "validate/judge_paths.h"

static void destroy_ledger(struct ledger **ledger)
{
    ledger_destroy(*ledger);
}

static int compare_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void env_release(struct check_env *env)
{
    json_decref(env->required);
    json_decref(env->interfaces);
    free(env->names);
}

static int env_open(struct check_env *env, struct err *err)
{
    const json_t *nodes = NULL;
    if (jsonx_get_obj(env->input->site, "site", "nodes", &nodes, err) != 0)
        return -1;
    env->required = ledger_required(env->input->site, err);
    if (!env->required)
        return -1;
    env->names = mem_zero(json_object_size(nodes) + 1, sizeof *env->names);
    const char *name;
    json_t *unused;
    json_object_foreach((json_t *)nodes, name, unused) env->names[env->count++] = name;
    qsort(env->names, env->count, sizeof *env->names, compare_name);
    env->interfaces = json_object();
    for (size_t i = 0; i < evidence_set_count(env->input->evidence); i++) {
        const struct evidence_set_record *r = evidence_set_at(env->input->evidence, i);
        const char *interface = jsonx_str_or(json_object_get(r->json, "proof"), "interface", NULL);
        if (interface && r->sealed)
            jsonx_set_str(env->interfaces, r->node, interface);
    }
    return 0;
}

/* --- causes of one node ----------------------------------------------------------------------- */

static bool has_cause(const json_t *causes, const char *code, const char *subject)
{
    for (size_t i = 0; i < json_array_size(causes); i++) {
        const json_t *c = json_array_get(causes, i);
        if (strcmp(jsonx_str_or(c, "code", ""), code) == 0 &&
            strcmp(jsonx_str_or(c, "subject", ""), subject) == 0)
            return true;
    }
    return false;
}

/* A cause weighs less where nobody asked for the measurement, or where nothing is known to be
 * wrong. */
static enum cause_severity severity_of(const struct ledger_row *row, const struct cause *cause)
{
    if (!row->required)
        return CAUSE_INFO;
    if (row->verdict == VERDICT_FAIL)
        return CAUSE_FATAL;
    return cause->severity == CAUSE_INFO ? CAUSE_INFO : CAUSE_WARNING;
}

/* The rows that count for nodes; those of paths, which are far more, are left out. */
struct node_rows {
    const struct ledger_row **rows;
    size_t count;
};

static struct node_rows node_rows_of(struct ledger *ledger)
{
    struct node_rows out = {.rows = mem_zero(ledger_count(ledger) + 1, sizeof(void *))};
    for (size_t i = 0; i < ledger_count(ledger); i++) {
        const struct ledger_row *row = ledger_at(ledger, i);
        if (row->node[0])
            out.rows[out.count++] = row;
    }
    return out;
}

static void add_causes(json_t *causes, const struct node_rows *all, const char *node,
                       enum cause_severity severity)
{
    for (size_t i = 0; i < all->count; i++) {
        const struct ledger_row *row = all->rows[i];
        const struct cause *cause = causes_find(row->cause);
        if (!cause || strcmp(row->node, node) != 0 || severity_of(row, cause) != severity ||
            has_cause(causes, cause->code, row->subject))
            continue;
        json_t *c = json_object();
        jsonx_set_str(c, "code", cause->code);
        jsonx_set_str(c, "subject", row->subject);
        jsonx_set_str(c, "text", row->reason);
        jsonx_set_str(c, "remedy", cause->remedy);
        jsonx_set_str(c, "severity", causes_severity_name(severity));
        jsonx_append(causes, c);
    }
}

static json_t *counts_json(const struct verdict_counts *counts)
{
    json_t *out = json_object();
    for (int v = VERDICT_PASS; v < VERDICT__COUNT; v++)
        jsonx_set_int(out, verdict_name((enum verdict)v), counts->all[v]);
    return out;
}

static json_t *node_json(const struct node_rows *all, const char *node,
                         struct verdict_counts *counts)
{
    for (size_t i = 0; i < all->count; i++) {
        const struct ledger_row *row = all->rows[i];
        if (strcmp(row->node, node) == 0)
            verdict_count(counts, row->verdict, row->required);
    }
    json_t *causes = json_array();
    add_causes(causes, all, node, CAUSE_FATAL);
    add_causes(causes, all, node, CAUSE_WARNING);
    add_causes(causes, all, node, CAUSE_INFO);
    json_t *out = json_object();
    jsonx_set_str(out, "state", verdict_state_name(verdict_state_of(counts)));
    jsonx_set(out, "causes", causes);
    jsonx_set(out, "counts", counts_json(counts));
    return out;
}

/* --- the whole -------------------------------------------------------------------------------- */

static bool is_excluded(const struct verdict_counts *counts)
{
    unsigned others = 0;
    for (int v = 0; v < VERDICT__COUNT; v++)
        others += v == VERDICT_EXCLUDED ? 0 : counts->all[v];
    return others == 0 && counts->all[VERDICT_EXCLUDED] > 0;
}

/* The worst state of a node that is not excluded. */
static enum verdict_state cluster_state(const unsigned states[VERDICT_STATE__COUNT])
{
    static const enum verdict_state order[] = {VERDICT_STATE_NOT_READY, VERDICT_STATE_UNKNOWN,
                                               VERDICT_STATE_DEGRADED, VERDICT_STATE_READY};
    for (size_t i = 0; i < ARRAY_LEN(order); i++)
        if (states[order[i]] > 0)
            return order[i];
    return VERDICT_STATE_UNKNOWN;
}

static void add_nodes(const struct check_env *env, json_t *verdict)
{
    unsigned all[VERDICT_STATE__COUNT] = {0}, judged[VERDICT_STATE__COUNT] = {0};
    struct node_rows rows = node_rows_of(env->ledger);
    json_t *nodes = json_object(), *counts = json_object();
    for (size_t i = 0; i < env->count; i++) {
        struct verdict_counts c = {0};
        jsonx_set(nodes, env->names[i], node_json(&rows, env->names[i], &c));
        enum verdict_state state = verdict_state_of(&c);
        all[state]++;
        judged[state] += !is_excluded(&c);
    }
    free(rows.rows);
    for (int s = VERDICT_STATE_READY; s < VERDICT_STATE__COUNT; s++)
        jsonx_set_int(counts, verdict_state_name((enum verdict_state)s), all[s]);
    jsonx_set(verdict, "nodes", nodes);
    jsonx_set(verdict, "counts", counts);
    jsonx_set_str(verdict, "cluster_state", verdict_state_name(cluster_state(judged)));
}

static json_t *verdict_json(const struct check_env *env, const char *cluster)
{
    char time[25], digest[HASH_HEX_BYTES];
    time_format(env->input->now_ms, time);
    const json_t *policy = json_object_get(env->input->site, "policy");
    AUTO(free_str) char *text = jsonx_canonical(policy);
    struct hash h = hash_of(text, strlen(text));
    hash_hex(&h, digest);
    json_t *elements = json_array();
    for (size_t i = 0; i < ledger_count(env->ledger); i++)
        jsonx_append(elements, ledger_row_json(ledger_at(env->ledger, i)));
    json_t *verdict = json_object();
    jsonx_set_int(verdict, "v", 1);
    jsonx_set_str(verdict, "run", evidence_set_run(env->input->evidence));
    jsonx_set_str(verdict, "cluster", cluster);
    jsonx_set_str(verdict, "time", time);
    jsonx_set_str(verdict, "policy_digest", digest);
    jsonx_set(verdict, "required", json_incref(env->required));
    jsonx_set(verdict, "elements", elements);
    add_nodes(env, verdict);
    return verdict;
}

static int check_site(const json_t *site, const char **cluster, struct err *err)
{
    const json_t *policy = NULL;
    if (jsonx_get_str(site, "site", "cluster", cluster, err) != 0)
        return -1;
    return jsonx_get_obj(site, "site", "policy", &policy, err);
}

int judge_run(const struct judge_input *input, json_t **verdict, struct err *err)
{
    const char *cluster = NULL;
    if (check_site(input->site, &cluster, err) != 0)
        return -1;
    AUTO(destroy_ledger) struct ledger *ledger = ledger_create();
    AUTO(env_release) struct check_env env = {.input = input, .ledger = ledger};
    if (env_open(&env, err) != 0 || ledger_plan(ledger, input->site, input->facts, err) != 0 ||
        checks_run(&env, err) != 0)
        return -1;
    ledger_close(ledger, input->site, input->now_ms);
    judge_paths_charge(&env);
    ledger_close(ledger, input->site, input->now_ms);
    *verdict = verdict_json(&env, cluster);
    return 0;
}
