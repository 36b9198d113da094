#include "validate/judge_paths.h"

#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "validate/blame.h"

/* All rows of one directed path together. */
struct path {
    enum verdict verdict; /* the worst; UNSET when there is no row */
    bool took_part;       /* something of it was measured */
    const struct ledger_row *worst;
};

struct charge {
    struct check_env *env;
    struct path *paths; /* from * count + to */
    bool *convicted;
    bool *took_part;
    bool *lost;    /* the node itself fell out before or during the pairs */
    bool *silent;  /* nothing that it says about its paths counts */
    bool *suspect; /* what the paths with warnings have in common */
};

static int compare_name(const void *key, const void *name)
{
    return strcmp(key, *(const char *const *)name);
}

/* Position of the first len bytes of name among the sorted nodes; their number when it is none. */
static size_t index_of(const struct check_env *env, const char *name, size_t len)
{
    AUTO(free_str) char *key = str_printf("%.*s", (int)len, name);
    const char **at = bsearch(key, env->names, env->count, sizeof *env->names, compare_name);
    return at ? (size_t)(at - env->names) : env->count;
}

static bool is_worse(enum verdict a, enum verdict b)
{
    static const int weight[] = {
        [VERDICT_UNSET] = 0,        [VERDICT_PASS] = 1, [VERDICT_WARN] = 2,
        [VERDICT_NOT_MEASURED] = 3, [VERDICT_FAIL] = 4, [VERDICT_EXCLUDED] = 5,
    };
    return weight[a] > weight[b];
}

static void add_row(struct charge *c, const struct ledger_row *row, bool stage_required)
{
    const char *sep = strchr(row->subject, '>');
    if (!sep || strcmp(row->stage, "pairs") != 0)
        return;
    size_t from = index_of(c->env, row->subject, (size_t)(sep - row->subject));
    size_t to = index_of(c->env, sep + 1, strlen(sep + 1));
    if (from == c->env->count || to == c->env->count)
        return;
    struct path *p = &c->paths[from * c->env->count + to];
    bool measured = row->verdict == VERDICT_PASS || row->verdict == VERDICT_WARN ||
                    row->verdict == VERDICT_FAIL || row->has_value;
    p->took_part = p->took_part || measured;
    /* What is only information does not make a path unmeasured. */
    if (row->verdict == VERDICT_NOT_MEASURED && row->required != stage_required)
        return;
    if (is_worse(row->verdict, p->verdict)) {
        p->verdict = row->verdict;
        p->worst = row;
    }
}

/* Steps without which a node cannot take part.  A clock that is off does not keep it away. */
static void find_lost(struct charge *c)
{
    static const char *const steps[] = {"connect", "agent", "hello", "facts", "pairs"};
    for (size_t i = 0; i < json_array_size(c->env->input->steps); i++) {
        const json_t *step = json_array_get(c->env->input->steps, i);
        const char *node = jsonx_str_or(step, "node", ""), *name = jsonx_str_or(step, "step", "");
        size_t at = index_of(c->env, node, strlen(node));
        if (at == c->env->count || strcmp(jsonx_str_or(step, "cause", ""), "clock-skew") == 0)
            continue;
        for (size_t k = 0; k < ARRAY_LEN(steps); k++)
            c->lost[at] = c->lost[at] || strcmp(name, steps[k]) == 0;
    }
}

/* A node whose records do not count (refused, or its stage was broken off) leaves its paths without
 * a figure; that is no fault of its partners. */
static void find_silent(struct charge *c)
{
    const struct evidence_set *set = c->env->input->evidence;
    for (size_t i = 0; i < c->env->count; i++)
        c->silent[i] = true;
    for (size_t i = 0; i < evidence_set_count(set); i++) {
        const struct evidence_set_record *r = evidence_set_at(set, i);
        size_t at = index_of(c->env, r->node, strlen(r->node));
        if (at < c->env->count && r->sealed && strcmp(r->stage, "pairs") == 0)
            c->silent[at] = false;
    }
}

/* Warnings are charged as failures are: one node that loses packets does not degrade its peers. */
static void find_suspects(struct charge *c)
{
    size_t n = c->env->count;
    unsigned char *state = mem_zero(n * n + 1, 1);
    for (size_t i = 0; i < n * n; i++)
        state[i] = c->paths[i].verdict == VERDICT_WARN   ? BLAME_FAILED
                   : c->paths[i].verdict == VERDICT_PASS ? BLAME_PASSED
                                                         : BLAME_UNKNOWN;
    blame_solve(n, state, c->suspect);
    free(state);
}

static void blame(struct charge *c)
{
    size_t n = c->env->count;
    unsigned char *state = mem_zero(n * n + 1, 1);
    for (size_t i = 0; i < n * n; i++) {
        enum verdict v = c->paths[i].verdict;
        /* What a lost node explains says nothing about others. */
        if (v == VERDICT_FAIL && (c->lost[i / n] || c->lost[i % n]))
            v = VERDICT_UNSET;
        state[i] = v == VERDICT_FAIL                        ? BLAME_FAILED
                   : v == VERDICT_PASS || v == VERDICT_WARN ? BLAME_PASSED
                                                            : BLAME_UNKNOWN;
        if (c->paths[i].took_part)
            c->took_part[i / n] = c->took_part[i % n] = true;
    }
    blame_solve(n, state, c->convicted);
    for (size_t i = 0; i < n; i++)
        c->convicted[i] = c->convicted[i] || c->lost[i];
    free(state);
}

/* What one node has to answer for. */
struct account {
    size_t total, passed, failed_own, failed_pair, failed_other, missing_own, missing_other;
    size_t warned_own, warned_pair, warned_other;
    const struct ledger_row *failed, *pair, *missing, *warning;
};

static bool fell_out(const struct charge *c, size_t node)
{
    return !c->took_part[node] || c->lost[node] || c->silent[node];
}

static void count_path(const struct charge *c, const struct path *p, size_t self, size_t other,
                       struct account *a)
{
    switch (p->verdict) {
    case VERDICT_PASS:
        a->passed++;
        break;
    case VERDICT_WARN:
        if (c->suspect[self])
            a->warned_own++;
        else if (c->suspect[other])
            a->warned_other++;
        else
            a->warned_pair++;
        if (c->suspect[self] || !c->suspect[other])
            a->warning = p->worst;
        break;
    case VERDICT_FAIL:
        if (c->convicted[self]) {
            a->failed_own++;
            a->failed = a->failed ? a->failed : p->worst;
        } else if (c->convicted[other]) {
            a->failed_other++;
        } else {
            a->failed_pair++;
            a->pair = a->pair ? a->pair : p->worst;
        }
        break;
    case VERDICT_NOT_MEASURED:
        /* Whoever took no part at all, or fell out, is the reason and not its partner. */
        if (!fell_out(c, self) && fell_out(c, other)) {
            a->missing_other++;
        } else {
            a->missing_own++;
            a->missing = a->missing ? a->missing : p->worst;
        }
        break;
    default:
        return;
    }
    a->total++;
}

static void charge_warnings(const struct account *a, const char *node, struct ledger_row *row)
{
    if (a->warning && a->warned_own > 0)
        ledger_set(row, VERDICT_WARN, a->warning->cause,
                   "%zu of %zu directed paths warn and %s is what they have in common (%s: %s)",
                   a->warned_own, a->total, node, a->warning->subject, a->warning->reason);
    else if (a->warning)
        ledger_set(row, VERDICT_WARN, a->warning->cause, "%s: %s", a->warning->subject,
                   a->warning->reason);
}

static void charge_node(const struct account *a, const char *node, struct ledger_row *row)
{
    size_t good = a->passed + a->warned_own + a->warned_pair + a->warned_other;
    ledger_value(row, (double)good, "1");
    ledger_limit(row, LEDGER_LIMIT_EXACT, (double)a->total, "directed paths of this node");
    if (a->failed)
        ledger_set(row, VERDICT_FAIL, a->failed->cause,
                   "%zu of %zu directed paths fail and %s is what they have in common (%s: %s)",
                   a->failed_own, a->total, node, a->failed->subject, a->failed->reason);
    if (a->pair)
        ledger_set(row, VERDICT_FAIL, a->pair->cause,
                   "%s fails and no single node explains it, so both ends are charged: %s",
                   a->pair->subject, a->pair->reason);
    if (a->missing)
        ledger_set(row, VERDICT_NOT_MEASURED, a->missing->cause,
                   "%zu of %zu directed paths were not measured (%s: %s)", a->missing_own, a->total,
                   a->missing->subject, a->missing->reason);
    if (good + a->failed_other == 0)
        ledger_set(row, VERDICT_NOT_MEASURED, "path-missing",
                   "no path of %s was measured: no other node took part", node);
    charge_warnings(a, node, row);
    ledger_set(row, VERDICT_PASS, NULL, "%zu of %zu directed paths passed%s%s", good, a->total,
               a->failed_other + a->missing_other > 0 ? "; the others are charged to the other end"
                                                      : "",
               a->warned_other > 0 ? "; warnings are charged to the other end" : "");
}

static void charge_paths(struct charge *c, bool required)
{
    size_t n = c->env->count;
    for (size_t v = 0; v < n; v++) {
        struct account a = {0};
        for (size_t w = 0; w < n; w++) {
            if (v == w)
                continue;
            count_path(c, &c->paths[v * n + w], v, w, &a);
            count_path(c, &c->paths[w * n + v], v, w, &a);
        }
        const char *node = c->env->names[v];
        charge_node(&a, node, ledger_row(c->env->ledger, node, node, "pairs", "paths", required));
    }
}

/* The collective is one measurement of all: its verdict is everyone's, unless a node is to blame.
 */
static void charge_collective(struct charge *c)
{
    const struct ledger_row *all =
        ledger_find(c->env->ledger, "cluster", "allreduce-cluster", "allreduce_busbw");
    size_t culprit = 0;
    while (culprit < c->env->count && !c->convicted[culprit])
        culprit++;
    for (size_t v = 0; all && v < c->env->count; v++) {
        const char *node = c->env->names[v];
        struct ledger_row *row =
            ledger_row(c->env->ledger, node, node, all->stage, "allreduce_share", all->required);
        bool explained = culprit < c->env->count && !c->convicted[v];
        const struct ledger_row *data =
            ledger_find(c->env->ledger, node, all->stage, "allreduce_data");
        bool took_part = data && (data->verdict == VERDICT_PASS || data->verdict == VERDICT_FAIL);
        if (!took_part)
            ledger_set(row, VERDICT_NOT_MEASURED, "not-run", "%s took no part in the collective",
                       node);
        else if (all->verdict == VERDICT_FAIL && explained)
            ledger_set(row, VERDICT_NOT_MEASURED, "slow-member", "%s; the paths of %s explain it",
                       all->reason, c->env->names[culprit]);
        else
            ledger_set(row, all->verdict, all->cause, "all nodes together: %s", all->reason);
    }
}

void judge_paths_charge(struct check_env *env)
{
    struct charge c = {.env = env,
                       .paths = mem_zero(env->count * env->count + 1, sizeof *c.paths),
                       .convicted = mem_zero(env->count + 1, sizeof *c.convicted),
                       .took_part = mem_zero(env->count + 1, sizeof *c.took_part),
                       .lost = mem_zero(env->count + 1, sizeof *c.lost),
                       .silent = mem_zero(env->count + 1, sizeof *c.silent),
                       .suspect = mem_zero(env->count + 1, sizeof *c.suspect)};
    bool required = check_is_required(env, "pairs"), any = false;
    for (size_t i = 0; i < ledger_count(env->ledger); i++)
        add_row(&c, ledger_at(env->ledger, i), required);
    for (size_t i = 0; i < env->count * env->count; i++)
        any = any || c.paths[i].verdict != VERDICT_UNSET;
    find_lost(&c);
    find_silent(&c);
    find_suspects(&c);
    blame(&c);
    if (any && env->count > 1)
        charge_paths(&c, required);
    charge_collective(&c);
    free(c.paths);
    free(c.convicted);
    free(c.took_part);
    free(c.lost);
    free(c.silent);
    free(c.suspect);
}
