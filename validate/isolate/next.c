#include "validate/isolate/next.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "validate/isolate/next_pool.h"

const struct next_limits next_usual = {.tests = 60, .repeats = 8};

enum { VIEW_MAX = 48, PICKS_MAX = 8, FAULTS_AT_ONCE = 8, TWICE = 2, SOMETIMES_REPEATS = 10 };
static const double least_gain = 0.02; /* nat; less is not worth a round */

/* One fault as a distribution over parts; [0] is chance. */
struct view {
    double belief[VIEW_MAX + 1];
    size_t part[VIEW_MAX + 1]; /* number of the first suspect that blames the same part */
    uint32_t signature[VIEW_MAX + 1];
    size_t count;
};

static struct view view_of(const struct solve_fault *f)
{
    struct view v = {.count = 1};
    v.belief[0] = f->chance;
    for (size_t i = 0; i < f->suspect_count && i < VIEW_MAX; i++) {
        size_t part = i + 1;
        for (size_t k = 0; k < i && part == i + 1; k++)
            if (solve_same_part(&f->suspects[i], &f->suspects[k]))
                part = v.part[k + 1];
        v.belief[v.count] = f->suspects[i].belief;
        v.part[v.count++] = part;
    }
    return v;
}

/* Entropy of the part when the signature is known. */
static double entropy(const struct view *v, const unsigned char crossed[])
{
    double sum = 0;
    for (size_t i = 0; i < v->count; i++) {
        double both = 0, same = 0;
        for (size_t k = 0; k < v->count; k++) {
            if (v->signature[k] != v->signature[i] || (crossed && crossed[k] != crossed[i]))
                continue;
            same += v->belief[k];
            if (v->part[k] == v->part[i])
                both += v->belief[k];
        }
        if (v->belief[i] > 0 && both > 0)
            sum -= v->belief[i] * log(both / same);
    }
    return sum;
}

/* Which endpoints of the round are taken: bit 0 sends, bit 1 receives. */
struct round {
    struct measure_plan *plan;
    unsigned char *taken;
};

static unsigned char needs(const struct measure_flow *f, bool from)
{
    bool both = f->from == f->to || measure_probe_row(f->probe)->scope != MEASURE_NET;
    return both ? 3 : from ? 1 : 2;
}

static bool is_free(const struct round *r, const struct measure_flow *f)
{
    return (r->taken[f->from] & needs(f, true)) == 0 && (r->taken[f->to] & needs(f, false)) == 0;
}

static void take(struct round *r, const struct measure_flow *f)
{
    measure_plan_add(r->plan, f->probe, f->from, f->to);
    r->taken[f->from] |= needs(f, true);
    r->taken[f->to] |= needs(f, false);
}

typedef unsigned char crossings[VIEW_MAX + 1];

/* A fault too weak for the probe's limit does not show in it. */
static bool would_show(const struct solve_suspect *s, const struct measure_flow *flow)
{
    double limit = measure_probe_row(flow->probe)->limit;
    return limit > 1 || s->severity < limit;
}

static crossings *cross_pool(const struct fabric_graph *g, const struct solve_fault *f,
                             const struct view *v, const struct next_pool *pool)
{
    uint32_t path[MEASURE_MAX_ELEMENTS];
    crossings *out = mem_zero(pool->count + 1, sizeof *out);
    for (size_t p = 0; p < pool->count; p++) {
        size_t length = measure_elements(g, &pool->flows[p], path);
        for (size_t i = 1; i < v->count; i++)
            out[p][i] = would_show(&f->suspects[i - 1], &pool->flows[p]) &&
                        solve_crosses(g, &f->suspects[i - 1], &pool->flows[p], path, length);
    }
    return out;
}

static void sign(struct view *v, const unsigned char crossed[])
{
    for (size_t i = 0; i < v->count; i++)
        v->signature[i] = v->signature[i] << 1 | crossed[i];
}

/* Greedy: each pick is the one that tells most beside those already taken. */
static size_t pick(struct next *n, struct round *r, const struct solve_fault *f,
                   const struct next_pool *pool, bool repeat_first, size_t most)
{
    struct view v = view_of(f);
    crossings *crossed = cross_pool(n->g, f, &v, pool);
    size_t picks = 0;
    if (repeat_first && pool->count > 0 && is_free(r, &pool->flows[0])) {
        take(r, &pool->flows[0]);
        sign(&v, crossed[0]);
        picks++;
    }
    while (picks < most) {
        double now = entropy(&v, NULL), best_gain = least_gain;
        size_t best = pool->count;
        for (size_t p = 0; p < pool->count; p++) {
            if (!is_free(r, &pool->flows[p]))
                continue;
            double gain = now - entropy(&v, crossed[p]);
            if (gain > best_gain) {
                best_gain = gain;
                best = p;
            }
        }
        if (best == pool->count)
            break;
        take(r, &pool->flows[best]);
        sign(&v, crossed[best]);
        picks++;
    }
    free(crossed);
    return picks;
}

static const struct measure_flow *flow_of(const struct observe *o, const struct observe_record *r)
{
    return &o->rounds[r->round]->plan.flows[observe_item(o, r)->first_flow];
}

static bool same_hosts(const struct fabric_graph *g, const struct measure_flow *a,
                       const struct measure_flow *b)
{
    size_t a1 = a->from / g->rails, a2 = a->to / g->rails;
    size_t b1 = b->from / g->rails, b2 = b->to / g->rails;
    return (a1 == b1 && a2 == b2) || (a1 == b2 && a2 == b1);
}

/* In how many moments the probe that failed last has passed since between the same hosts: a host
 * that straggles does so with all its rails, so that one rail's repeats speak for the others'. */
static unsigned passes_since(const struct observe *o, const struct solve_fault *f)
{
    const struct observe_record *last = &o->records[f->evidence[f->fails - 1]];
    const struct measure_flow *flow = flow_of(o, last);
    uint32_t counted = last->test;
    unsigned count = 0;
    for (size_t i = f->evidence[f->fails - 1] + 1; i < o->record_count; i++) {
        const struct observe_record *r = &o->records[i];
        const struct measure_flow *other = flow_of(o, r);
        if (r->verdict != OBSERVE_PASS || other->probe != flow->probe || r->test == counted ||
            !same_hosts(o->g, flow, other))
            continue;
        counted = r->test;
        count++;
    }
    return count;
}

enum next_state next_state_of(const struct next *n, const struct observe *o,
                              const struct solve_fault *f)
{
    if (solve_is_convicted(f))
        return NEXT_SETTLED;
    if (f->doubtful)
        return NEXT_OPEN;
    return passes_since(o, f) >= n->limits.repeats ? NEXT_DROPPED : NEXT_OPEN;
}

static bool *bad_endpoints(const struct fabric_graph *g, const struct observe *o,
                           const struct solve_answer *a)
{
    bool *bad = mem_zero(g->hosts * g->rails, sizeof *bad);
    for (size_t i = 0; i < a->fault_count; i++)
        for (size_t k = 0; k < a->faults[i].fails; k++) {
            const struct measure_flow *flow = flow_of(o, &o->records[a->faults[i].evidence[k]]);
            bad[flow->from] = true;
            bad[flow->to] = true;
        }
    return bad;
}

static void plan_fault(struct next *n, const struct observe *o, const struct solve_fault *f,
                       const bool bad[], size_t most, struct round *r)
{
    if (f->doubtful)
        return; /* more measurements over unknown ways would not settle it */
    bool convicted = solve_is_convicted(f);
    unsigned passes = convicted ? 0 : passes_since(o, f);
    if (!convicted && passes >= n->limits.repeats)
        return;
    if (!convicted && passes > 0) {
        const struct measure_flow *flow = flow_of(o, &o->records[f->evidence[f->fails - 1]]);
        if (is_free(r, flow))
            take(r, flow);
        if (r->plan->repeats < n->limits.repeats)
            r->plan->repeats = n->limits.repeats;
        return;
    }
    struct next_pool *pool = mem_zero(1, sizeof *pool);
    next_pool_fill(pool, o, f, bad, &n->rng);
    size_t picks = pick(n, r, f, pool, !convicted, most);
    if (picks > 0 && convicted && f->suspects[0].sometimes && r->plan->repeats < SOMETIMES_REPEATS)
        r->plan->repeats = SOMETIMES_REPEATS;
    free(pool);
}

void next_plan(struct next *n, const struct observe *o, const struct solve_answer *a,
               struct measure_plan *plan)
{
    struct round r = {.plan = plan, .taken = mem_zero(n->g->hosts * n->g->rails, 1)};
    bool *bad = bad_endpoints(n->g, o, a);
    *plan = (struct measure_plan){.why = "what splits the suspects best", .quiet = true};
    /* With many suspicions the round stays quiet by repeating alone. */
    size_t most = a->fault_count > FAULTS_AT_ONCE ? 1 : PICKS_MAX;
    for (size_t i = 0, open = 0; i < a->fault_count && open < FAULTS_AT_ONCE; i++) {
        size_t before = plan->item_count;
        plan_fault(n, o, &a->faults[i], bad, most, &r);
        open += plan->item_count > before;
    }
    /* Never once: a host that straggles in the one moment that decides would be blamed for its
     * neighbour's fault. */
    if (plan->item_count > 0 && plan->repeats < TWICE)
        plan->repeats = TWICE;
    if (o->tests + plan->repeats > n->limits.tests)
        measure_plan_release(plan);
    free(bad);
    free(r.taken);
}

char *next_advice(const struct fabric_graph *g, const struct solve_fault *f)
{
    size_t named = solve_named(f), other = 0;
    for (size_t i = 1; i < named && other == 0; i++)
        if (!solve_same_part(&f->suspects[0], &f->suspects[i]))
            other = i;
    if (other == 0)
        return NULL;
    AUTO(free_str) char *a = solve_suspect_name(g, &f->suspects[0]);
    AUTO(free_str) char *b = solve_suspect_name(g, &f->suspects[other]);
    size_t edges = 2 * g->link_count;
    bool inside = f->suspects[other].element >= edges &&
                  g->nodes[f->suspects[other].element - edges].host != FABRIC_NONE;
    return str_printf("no measurement over the fabric tells %s from %s; %s", a, b,
                      inside ? "read the width, speed and error counters of the slot (lspci -vv) "
                               "or exchange the part with a good one and measure this rail again"
                             : "exchange the cable with a good one and measure again: a fault "
                               "that moves is in the cable");
}
