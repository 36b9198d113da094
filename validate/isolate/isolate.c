#include "validate/isolate/isolate.h"

#include <stdlib.h>
#include <time.h>

#include "common/jsonx.h"
#include "common/util.h"

static double cpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int measure(struct isolate_result *r, const struct measure_backend *backend,
                   const struct observe_round *round, bool owned, struct err *err)
{
    const struct measure_plan *p = &round->plan;
    struct measure_result *results = mem_zero(p->item_count * p->repeats + 1, sizeof *results);
    double before = cpu_now();
    int status = backend->run(backend->ctx, p, results, err);
    r->cpu_s -= cpu_now() - before;
    if (status == 0)
        observe_add(r->observed, round, owned, results);
    free(results);
    return status;
}

static void find_silent(struct isolate_result *r, const struct fabric_graph *g)
{
    const struct observe *o = r->observed;
    unsigned *asked = mem_zero(g->hosts, sizeof *asked);
    bool *answered = mem_zero(g->hosts, sizeof *answered);
    uint32_t *last = mem_zero(g->hosts, sizeof *last);
    for (size_t i = 0; i < o->record_count; i++) {
        const struct observe_record *rec = &o->records[i];
        const struct measure_item *item = observe_item(o, rec);
        for (uint32_t f = item->first_flow; f < item->first_flow + item->flow_count; f++) {
            const struct measure_flow *flow = &o->rounds[rec->round]->plan.flows[f];
            size_t ends[2] = {flow->from / g->rails, flow->to / g->rails};
            for (size_t k = 0; k < 2; k++) {
                asked[ends[k]] += last[ends[k]] != rec->test + 1;
                last[ends[k]] = rec->test + 1;
                answered[ends[k]] = answered[ends[k]] || rec->verdict != OBSERVE_MISSING;
            }
        }
    }
    r->silent = mem_zero(g->hosts, sizeof *r->silent);
    for (size_t h = 0; h < g->hosts; h++)
        if (asked[h] >= 2 && !answered[h])
            r->silent[r->silent_count++] = (uint32_t)h;
    free(asked);
    free(answered);
    free(last);
}

static void solve_again(struct isolate_result *r)
{
    solve_answer_destroy(r->answer);
    r->answer = solve_run(r->observed);
}

static int follow_up(struct isolate_result *r, struct next *n,
                     const struct measure_backend *backend, struct err *err)
{
    for (;;) {
        struct measure_plan plan;
        if (n->limits.seconds > 0 && backend->clock(backend->ctx) >= n->limits.seconds)
            return 0;
        next_plan(n, r->observed, r->answer, &plan);
        if (plan.item_count == 0)
            return 0;
        struct observe_round *round = observe_prepare(n->g, &plan);
        r->follow_tests += round->plan.repeats;
        if (measure(r, backend, round, true, err) != 0) {
            observe_round_destroy(round);
            return -1;
        }
        solve_again(r);
    }
}

int isolate_run(const struct fabric_graph *g, const struct screen *screen,
                const struct measure_backend *backend, const struct next_limits *limits,
                uint64_t seed, struct isolate_result **out, struct err *err)
{
    struct isolate_result *r = mem_zero(1, sizeof *r);
    struct next n = {.g = g, .rng = {seed}, .limits = *limits};
    double begin = cpu_now();
    int status = 0;
    r->observed = observe_create(g);
    for (size_t i = 0; i < screen->count && status == 0; i++)
        status = measure(r, backend, screen->rounds[i], false, err);
    r->screen_tests = screen->count;
    if (status == 0) {
        solve_again(r);
        status = follow_up(r, &n, backend, err);
    }
    if (status != 0) {
        isolate_result_destroy(r);
        return -1;
    }
    find_silent(r, g);
    for (size_t i = 0; i < r->answer->fault_count; i++)
        if (next_state_of(&n, r->observed, &r->answer->faults[i]) == NEXT_OPEN)
            r->limited = true;
    r->cpu_s += cpu_now() - begin;
    *out = r;
    return 0;
}

void isolate_result_destroy(struct isolate_result *r)
{
    if (!r)
        return;
    observe_destroy(r->observed);
    solve_answer_destroy(r->answer);
    free(r->silent);
    free(r);
}

static json_t *report_fault(const struct isolate_result *r, const struct next *n,
                            const struct solve_fault *f)
{
    static const char *const states[] = {"open", "settled", "not seen again"};
    const struct fabric_graph *g = r->observed->g;
    json_t *out = json_object(), *candidates = json_array(), *evidence = json_array();
    jsonx_set_str(out, "state", states[next_state_of(n, r->observed, f)]);
    jsonx_set_num(out, "confidence", 1 - f->chance);
    jsonx_set_int(out, "fails", f->fails);
    jsonx_set_int(out, "moments", f->rounds);
    for (size_t i = 0; i < solve_named(f); i++) {
        AUTO(free_str) char *name = solve_suspect_name(g, &f->suspects[i]);
        json_t *row = json_object();
        jsonx_set_str(row, "part", name);
        jsonx_set_str(row, "kind", solve_part_row(f->suspects[i].part)->id);
        jsonx_set_num(row, "belief", f->suspects[i].belief);
        jsonx_set_num(row, "rate_left", f->suspects[i].severity);
        jsonx_set_bool(row, "intermittent", f->suspects[i].sometimes);
        jsonx_append(candidates, row);
    }
    for (size_t i = 0; i < f->fails && i < 12; i++) {
        AUTO(free_str) char *text = observe_describe(r->observed, f->evidence[i]);
        jsonx_append_str(evidence, text);
    }
    AUTO(free_str) char *advice = next_advice(g, f);
    jsonx_set(out, "candidates", candidates);
    jsonx_set(out, "evidence", evidence);
    jsonx_set_str(out, "advice", advice);
    return out;
}

json_t *isolate_report(const struct isolate_result *r, const struct next_limits *limits)
{
    const struct fabric_graph *g = r->observed->g;
    struct next n = {.g = g, .limits = *limits};
    json_t *out = json_object(), *faults = json_array(), *silent = json_array();
    for (size_t i = 0; i < r->answer->fault_count; i++)
        jsonx_append(faults, report_fault(r, &n, &r->answer->faults[i]));
    for (size_t i = 0; i < r->silent_count; i++)
        jsonx_append_str(silent, g->nodes[g->host_node[r->silent[i]]].name);
    json_t *tests = json_object();
    jsonx_set_int(tests, "screen", (int64_t)r->screen_tests);
    jsonx_set_int(tests, "follow_up", (int64_t)r->follow_tests);
    jsonx_set_int(tests, "measurements", (int64_t)(r->observed->answers + r->observed->missing));
    jsonx_set(out, "faults", faults);
    jsonx_set(out, "silent", silent);
    jsonx_set(out, "tests", tests);
    jsonx_set_bool(out, "limited", r->limited);
    jsonx_set_bool(out, "routes_doubtful", r->answer->doubtful);
    return out;
}
