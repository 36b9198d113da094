#include "validate/isolate/prove.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"

void prove_interval(size_t k, size_t n, double *low, double *high)
{
    const double z = 1.959964;
    if (n == 0) {
        *low = 0;
        *high = 1;
        return;
    }
    double p = (double)k / (double)n, m = (double)n;
    double middle = (p + z * z / (2 * m)) / (1 + z * z / m);
    double half = z / (1 + z * z / m) * sqrt(p * (1 - p) / m + z * z / (4 * m * m));
    *low = fmax(0, middle - half);
    *high = fmin(1, middle + half);
}

struct trial {
    const struct fabric_graph *g;
    const struct sim_fault *planted;
    size_t planted_count;
    const struct isolate_result *result;
};

static bool is_planted(const struct trial *t, const struct solve_suspect *s, bool found[2])
{
    bool any = false;
    for (size_t i = 0; i < t->planted_count; i++) {
        const struct solve_suspect *where = &t->planted[i].where;
        if (!solve_same_part(where, s) && prove_told_apart(t->g, where, s))
            continue;
        found[i] = any = true;
    }
    return any;
}

static bool is_inside_node(const struct fabric_graph *g, const struct solve_suspect *s)
{
    size_t edges = 2 * g->link_count;
    if (solve_part_row(s->part)->on == SOLVE_ON_PAIR)
        return false;
    if (s->element >= edges)
        return g->nodes[s->element - edges].host != FABRIC_NONE;
    return g->nodes[fabric_graph_edge_from(g, s->element)].host != FABRIC_NONE &&
           g->nodes[fabric_graph_edge_to(g, s->element)].host != FABRIC_NONE;
}

struct outcome {
    size_t convictions;
    bool extra, wrong, wrong_node;
    bool found[2];
};

static void weigh_conviction(const struct trial *t, const struct solve_fault *f, struct outcome *o)
{
    size_t named = solve_named(f), hits = 0;
    bool hit[SOLVE_MAX_SUSPECTS] = {false};
    o->convictions++;
    for (size_t i = 0; i < named; i++)
        hit[i] = is_planted(t, &f->suspects[i], o->found);
    /* One direction or another symptom of a part that is right is no other part. */
    for (size_t i = 0; i < named; i++)
        for (size_t k = 0; k < named && !hit[i]; k++)
            hit[i] = hit[k] && solve_same_part(&f->suspects[i], &f->suspects[k]);
    for (size_t i = 0; i < named; i++)
        hits += hit[i];
    o->extra = o->extra || hits < named;
    if (hits == 0) {
        o->wrong = true;
        o->wrong_node = o->wrong_node || is_inside_node(t->g, &f->suspects[0]);
    }
}

static void weigh_silent(const struct trial *t, struct outcome *o)
{
    for (size_t i = 0; i < t->result->silent_count; i++) {
        uint32_t node = fabric_graph_node_element(t->g, t->g->host_node[t->result->silent[i]]);
        bool mute =
            t->planted_count > 0 && t->planted[0].mute && t->planted[0].where.element == node;
        o->convictions++;
        o->found[0] = o->found[0] || mute;
        o->wrong = o->wrong || !mute;
        o->wrong_node = o->wrong_node || !mute;
    }
}

static void tally(const struct trial *t, struct prove_tally *row)
{
    struct outcome o = {0};
    for (size_t i = 0; i < t->result->answer->fault_count; i++)
        if (solve_is_convicted(&t->result->answer->faults[i]))
            weigh_conviction(t, &t->result->answer->faults[i], &o);
    weigh_silent(t, &o);
    bool all = true;
    for (size_t i = 0; i < t->planted_count; i++)
        all = all && o.found[i];
    row->detected += o.convictions > 0;
    if (o.wrong)
        row->wrong++;
    else if (o.convictions > 0 && all && !o.extra)
        row->right++;
    else if (o.convictions > 0)
        row->wide++;
    row->wrong_node += o.wrong_node;
}

struct bench {
    const struct fabric_graph *g;
    const struct screen *screen;
    const struct prove_settings *settings;
};

/* A seed of its own for each trial, so that one kind alone repeats what it did among all. */
static uint64_t trial_seed(uint64_t seed, const char *kind, size_t number)
{
    struct rng r = {seed};
    for (const char *c = kind; *c; c++)
        r.state = rng_next(&r) ^ (uint64_t)(unsigned char)*c;
    r.state += number * 0x2545f4914f6cdd1dU;
    return rng_next(&r);
}

/* Returns 1 when the trial was run, 0 when this fabric has no place for the fault. */
static int run_trial(const struct bench *b, const struct faults_row *fault, struct prove_tally *row,
                     struct err *err)
{
    struct rng rng = {trial_seed(b->settings->seed, row->kind, row->trials)};
    struct sim_fault planted[2];
    struct trial t = {.g = b->g, .planted = planted};
    if (fault && (t.planted_count = faults_place(fault, b->g, b->screen, &rng, planted)) == 0)
        return 0;
    struct sim sim;
    sim_open(&sim, b->settings->real ? b->settings->real : b->g, &b->settings->conditions,
             rng_next(&rng));
    for (size_t i = 0; i < t.planted_count; i++)
        sim_plant(&sim, &planted[i]);
    struct measure_backend backend = sim_backend(&sim);
    struct isolate_result *result = NULL;
    int status =
        isolate_run(b->g, b->screen, &backend, &b->settings->limits, rng_next(&rng), &result, err);
    if (status == 0) {
        t.result = result;
        tally(&t, row);
        row->tests[row->trials++] = sim.tests;
        row->measurements += (double)(result->observed->answers + result->observed->missing);
        row->seconds += sim.seconds;
        row->cpu_s += result->cpu_s;
        row->cpu_max_s = fmax(row->cpu_max_s, result->cpu_s);
    }
    isolate_result_destroy(result);
    sim_close(&sim);
    return status == 0 ? 1 : -1;
}

static void put_rate(json_t *out, const char *key, size_t k, size_t n)
{
    double low = 0, high = 0;
    json_t *rate = json_object();
    prove_interval(k, n, &low, &high);
    jsonx_set_int(rate, "count", (int64_t)k);
    jsonx_set_num(rate, "rate", n ? (double)k / (double)n : 0);
    jsonx_set_num(rate, "low", low);
    jsonx_set_num(rate, "high", high);
    jsonx_set(out, key, rate);
}

static int compare(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

static json_t *row_json(const struct prove_tally *row, const struct faults_row *fault)
{
    json_t *out = json_object();
    size_t n = row->trials;
    jsonx_set_str(out, "kind", row->kind);
    jsonx_set_str(out, "planted", fault ? fault->planted : "nothing");
    jsonx_set_str(out, "shows", fault ? fault->shows : "nothing may be convicted");
    jsonx_set_int(out, "trials", (int64_t)n);
    if (n == 0)
        return out;
    put_rate(out, "detected", row->detected, n);
    put_rate(out, "right", row->right, n);
    put_rate(out, "wide", row->wide, n);
    put_rate(out, "wrong", row->wrong, n);
    put_rate(out, "wrong_node", row->wrong_node, n);
    qsort(row->tests, n, sizeof *row->tests, compare);
    jsonx_set_int(out, "tests_median", (int64_t)row->tests[n / 2]);
    jsonx_set_int(out, "tests_p95", (int64_t)row->tests[(n * 95 + 99) / 100 - 1]);
    jsonx_set_num(out, "measurements_mean", row->measurements / (double)n);
    jsonx_set_num(out, "simulated_seconds_mean", row->seconds / (double)n);
    jsonx_set_num(out, "cpu_seconds_mean", row->cpu_s / (double)n);
    jsonx_set_num(out, "cpu_seconds_max", row->cpu_max_s);
    return out;
}

static int run_kind(const struct bench *b, const struct faults_row *fault, json_t **out,
                    struct err *err)
{
    struct prove_tally row = {.kind = fault ? fault->id : "healthy"};
    int status = 1;
    row.tests = mem_zero(b->settings->trials + 1, sizeof *row.tests);
    if (b->settings->progress)
        b->settings->progress(b->settings->ctx, row.kind);
    while (row.trials < b->settings->trials && status == 1)
        status = run_trial(b, fault, &row, err);
    if (status >= 0)
        *out = row_json(&row, fault);
    free(row.tests);
    return status >= 0 ? 0 : -1;
}

static json_t *head(const struct bench *b)
{
    const struct prove_settings *s = b->settings;
    json_t *out = json_object(), *screen = json_object(), *conditions = json_object();
    jsonx_set_bool(out, "simulated", true);
    jsonx_set_str(out, "fabric", b->g->name);
    jsonx_set_int(out, "hosts", (int64_t)b->g->hosts);
    jsonx_set_int(out, "rails", (int64_t)b->g->rails);
    jsonx_set_int(out, "seed", (int64_t)s->seed);
    jsonx_set_int(out, "trials", (int64_t)s->trials);
    jsonx_set_bool(out, "tables_known", !s->real);
    jsonx_set_int(screen, "rounds", (int64_t)b->screen->count);
    jsonx_set_int(screen, "directed_edges", (int64_t)b->screen->edges);
    jsonx_set_int(screen, "exercised", (int64_t)b->screen->exercised);
    jsonx_set(out, "screen", screen);
    jsonx_set_num(conditions, "straggler", s->conditions.straggler);
    jsonx_set_num(conditions, "missing", s->conditions.missing);
    jsonx_set_num(conditions, "noise", s->conditions.noise);
    jsonx_set_int(conditions, "tests_limit", (int64_t)s->limits.tests);
    jsonx_set_int(conditions, "repeats", s->limits.repeats);
    jsonx_set(out, "conditions", conditions);
    return out;
}

static int run_all(const struct bench *b, json_t *out, struct err *err)
{
    const char *only = b->settings->only;
    json_t *kinds = json_array(), *row = NULL;
    jsonx_set(out, "kinds", kinds);
    if (!only || strcmp(only, "healthy") == 0) {
        if (run_kind(b, NULL, &row, err) != 0)
            return -1;
        jsonx_set(out, "healthy", row);
    }
    for (size_t i = 0; i < faults_count(); i++) {
        if (only && strcmp(only, faults_at(i)->id) != 0)
            continue;
        if (run_kind(b, faults_at(i), &row, err) != 0)
            return -1;
        jsonx_append(kinds, row);
    }
    return 0;
}

static int check_kind(const char *only, struct err *err)
{
    if (!only || strcmp(only, "healthy") == 0 || faults_find(only))
        return 0;
    const char **names = mem_zero(faults_count() + 2, sizeof *names);
    for (size_t i = 0; i < faults_count(); i++)
        names[i] = faults_at(i)->id;
    const char *near = str_nearest(only, names);
    free(names);
    return err_set(err, ERR_USAGE, "no fault '%s'%s%s%s; muster prove --list lists them", only,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

int prove_run(const struct fabric_graph *g, const struct prove_settings *settings, json_t **out,
              struct err *err)
{
    if (check_kind(settings->only, err) != 0)
        return -1;
    struct screen *screen = screen_create(g, settings->seed);
    struct bench b = {g, screen, settings};
    json_t *result = head(&b);
    int status = run_all(&b, result, err);
    screen_destroy(screen);
    if (status != 0) {
        json_decref(result);
        return -1;
    }
    *out = result;
    return 0;
}
