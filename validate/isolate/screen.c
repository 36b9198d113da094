#include "validate/isolate/screen.h"

#include <stdlib.h>

#include "common/util.h"
#include "validate/isolate/rng.h"
#include "validate/schedule.h"

static const float filled = 0.9F;

static void plan_self(struct measure_plan *p, const struct fabric_graph *g)
{
    static const enum measure_probe probes[] = {MEASURE_SM_COUNT, MEASURE_COMPUTE, MEASURE_MEMORY};
    for (size_t e = 0; e < g->hosts * g->rails; e++)
        for (size_t i = 0; i < ARRAY_LEN(probes); i++)
            measure_plan_add(p, probes[i], e, e);
    p->why = "each GPU by itself";
}

/* The copies of all rails in both directions: the PCIe links are separate, so they do not meet. */
static void plan_copies(struct measure_plan *p, const struct fabric_graph *g)
{
    for (size_t e = 0; e < g->hosts * g->rails; e++) {
        measure_plan_add(p, MEASURE_H2D, e, e);
        measure_plan_add(p, MEASURE_D2H, e, e);
    }
    p->why = "copies between host and GPU";
}

static void plan_p2p(struct measure_plan *p, const struct fabric_graph *g)
{
    for (size_t h = 0; h < g->hosts; h++)
        for (size_t r = 0; r < g->rails && g->nvswitch[h] != UINT32_MAX; r++)
            measure_plan_add(p, MEASURE_P2P, h * g->rails + r, h * g->rails + (r + 1) % g->rails);
    p->why = "NVLink: each GPU to its neighbour";
}

struct groups {
    uint32_t *hosts; /* by leaf of their first rail */
    uint32_t *first; /* per group; count + 1 values */
    size_t count;
};

static struct groups group_hosts(const struct fabric_graph *g)
{
    struct groups s = {.count = g->leaf_count};
    s.hosts = mem_zero(g->hosts + 1, sizeof *s.hosts);
    s.first = mem_zero(g->leaf_count + 2, sizeof *s.first);
    for (size_t h = 0; h < g->hosts; h++)
        s.first[g->leaf_of[h * g->rails] + 1]++;
    for (size_t l = 0; l < g->leaf_count; l++)
        s.first[l + 1] += s.first[l];
    uint32_t *next = mem_zero(g->leaf_count + 1, sizeof *next);
    for (size_t h = 0; h < g->hosts; h++) {
        uint32_t leaf = g->leaf_of[h * g->rails];
        s.hosts[s.first[leaf] + next[leaf]++] = (uint32_t)h;
    }
    free(next);
    return s;
}

static void join(struct measure_plan *p, const struct fabric_graph *g, enum measure_probe probe,
                 size_t a, size_t b)
{
    for (size_t r = 0; r < g->rails; r++) {
        measure_plan_add(p, probe, a * g->rails + r, b * g->rails + r);
        measure_plan_add(p, probe, b * g->rails + r, a * g->rails + r);
    }
}

/* Two leaves against each other, with an offset; hosts without a partner go to rest. */
static void match_leaves(struct measure_plan *p, const struct fabric_graph *g,
                         enum measure_probe probe, const struct groups *s, size_t a, size_t b,
                         size_t offset, uint32_t *rest, size_t *rest_count)
{
    size_t in_a = s->first[a + 1] - s->first[a], in_b = s->first[b + 1] - s->first[b];
    size_t both = in_a < in_b ? in_a : in_b;
    for (size_t i = 0; i < both; i++)
        join(p, g, probe, s->hosts[s->first[a] + i], s->hosts[s->first[b] + (i + offset) % both]);
    for (size_t i = both; i < in_a; i++)
        rest[(*rest_count)++] = s->hosts[s->first[a] + i];
    for (size_t i = both; i < in_b; i++)
        rest[(*rest_count)++] = s->hosts[s->first[b] + i];
}

/* Round and offset of the circle of leaves; inside: pairs within each leaf instead. */
static void plan_matching(struct measure_plan *p, const struct fabric_graph *g,
                          enum measure_probe probe, size_t circle, size_t offset, bool inside,
                          uint64_t seed)
{
    struct groups s = group_hosts(g);
    uint32_t *rest = mem_zero(g->hosts + 1, sizeof *rest);
    size_t rest_count = 0;
    for (size_t a = 0; a < s.count; a++) {
        long b = inside ? -1 : schedule_partner(s.count, circle, a);
        if (b >= 0 && (size_t)b > a)
            match_leaves(p, g, probe, &s, a, (size_t)b, offset, rest, &rest_count);
        if (b >= 0)
            continue;
        uint32_t end = s.first[a + 1], i = s.first[a];
        for (; i + 1 < end; i += 2)
            join(p, g, probe, s.hosts[i], s.hosts[i + 1]);
        if (i < end)
            rest[rest_count++] = s.hosts[i];
    }
    size_t *order = mem_zero(rest_count + 1, sizeof *order);
    schedule_shuffle(seed, rest_count, order);
    for (size_t i = 0; i + 1 < rest_count; i += 2)
        join(p, g, probe, rest[order[i]], rest[order[i + 1]]);
    free(order);
    free(rest);
    free(s.hosts);
    free(s.first);
}

static void plan_random(struct measure_plan *p, const struct fabric_graph *g, uint64_t seed)
{
    size_t *order = mem_zero(g->hosts + 1, sizeof *order);
    schedule_shuffle(seed, g->hosts, order);
    for (size_t i = 0; i + 1 < g->hosts; i += 2)
        join(p, g, MEASURE_PAIR_GPU, order[i], order[i + 1]);
    free(order);
}

/* Hosts of switches that are joined directly, along ports from number first_hop on. */
static void plan_neighbours(struct measure_plan *p, const struct fabric_graph *g, size_t start,
                            size_t first_hop)
{
    uint32_t *host_of = mem_grow(NULL, g->node_count + 1, sizeof *host_of);
    bool *met = mem_zero(g->hosts + 1, sizeof *met);
    for (size_t i = 0; i < g->node_count; i++)
        host_of[i] = UINT32_MAX;
    for (size_t h = 0; h < g->hosts; h++)
        host_of[g->leaf_node[g->leaf_of[h * g->rails]]] = (uint32_t)h;
    for (size_t i = 0; i < g->hosts; i++) {
        size_t h = (start + i) % g->hosts;
        uint32_t leaf = g->leaf_node[g->leaf_of[h * g->rails]];
        uint32_t base = g->first_hop[leaf], hops = g->first_hop[leaf + 1] - base;
        for (uint32_t k = 0; k < hops && !met[h]; k++) {
            uint32_t other = host_of[g->hops[base + (first_hop + k) % hops].to];
            if (other == UINT32_MAX || met[other] || other == h)
                continue;
            met[h] = met[other] = true;
            join(p, g, MEASURE_PAIR_GPU, h, other);
        }
    }
    free(host_of);
    free(met);
}

static bool leaves_are_neighbours(const struct fabric_graph *g)
{
    uint32_t leaf = g->leaf_node[0];
    for (uint32_t i = g->first_hop[leaf]; i < g->first_hop[leaf + 1]; i++)
        for (size_t l = 1; l < g->leaf_count; l++)
            if (g->hops[i].to == g->leaf_node[l])
                return true;
    return false;
}

/* How much a round adds: a first filling counts full, a second one a quarter. */
static double worth(const struct observe_round *r, const unsigned char *seen, size_t edges)
{
    double sum = 0;
    for (size_t e = 0; e < edges; e++)
        if (r->load[e] >= filled)
            sum += seen[e] == 0 ? 1 : seen[e] == 1 ? 0.25 : 0;
    return sum;
}

static void note(struct screen *s, const struct observe_round *r, unsigned char *seen)
{
    for (size_t e = 0; e < s->edges; e++)
        if (r->load[e] >= filled && seen[e] < 200)
            s->exercised += seen[e]++ == 0;
}

static void keep(struct screen *s, const struct fabric_graph *g, struct measure_plan *plan,
                 unsigned char *seen)
{
    if (plan->item_count == 0)
        return;
    s->rounds[s->count] = observe_prepare(g, plan);
    note(s, s->rounds[s->count++], seen);
}

static struct observe_round *best_matching(const struct fabric_graph *g, struct rng *rng,
                                           const unsigned char *seen, double *best_worth)
{
    size_t tries = g->hosts * g->rails > 4096 ? 3 : 6;
    bool neighbours = leaves_are_neighbours(g);
    size_t circles = schedule_rounds(g->leaf_count), edges = 2 * g->link_count;
    struct observe_round *best = NULL;
    *best_worth = 0;
    for (size_t t = 0; t < tries; t++) {
        struct measure_plan plan = {.why = "matching of all hosts"};
        size_t circle = circles ? rng_below(rng, circles) : 0;
        size_t offset = rng_below(rng, g->hosts);
        uint64_t seed = rng_next(rng);
        if (neighbours && t > 0 && t + 1 < tries)
            plan_neighbours(&plan, g, offset, circle % 7);
        else if (t + 1 == tries || circles == 0)
            plan_random(&plan, g, seed);
        else
            plan_matching(&plan, g, MEASURE_PAIR_GPU, circle, offset, false, seed);
        struct observe_round *round = observe_prepare(g, &plan);
        double value = worth(round, seen, edges);
        if (best && value <= *best_worth) {
            observe_round_destroy(round);
            continue;
        }
        observe_round_destroy(best);
        best = round;
        *best_worth = value;
    }
    return best;
}

struct screen *screen_create(const struct fabric_graph *g, uint64_t seed)
{
    struct screen *s = mem_zero(1, sizeof *s);
    struct rng rng = {seed};
    struct measure_plan plan = {0};
    s->edges = 2 * g->link_count;
    unsigned char *seen = mem_zero(s->edges + 1, 1);
    plan_self(&plan, g);
    keep(s, g, &plan, seen);
    plan_copies(&plan, g);
    keep(s, g, &plan, seen);
    plan_p2p(&plan, g);
    keep(s, g, &plan, seen);
    if (g->hosts > 1) {
        plan.why = "latency of neighbours";
        plan_matching(&plan, g, MEASURE_SMALL, 0, 0, true, rng_next(&rng));
        keep(s, g, &plan, seen);
    }
    for (size_t m = 0; m < SCREEN_MATCHINGS_MAX && g->hosts > 1; m++) {
        double value = 0;
        struct observe_round *round = best_matching(g, &rng, seen, &value);
        if (m >= 2 && value < 0.005 * (double)s->edges) {
            observe_round_destroy(round);
            break;
        }
        s->rounds[s->count++] = round;
        note(s, round, seen);
    }
    free(seen);
    return s;
}

void screen_destroy(struct screen *s)
{
    for (size_t i = 0; s && i < s->count; i++)
        observe_round_destroy(s->rounds[i]);
    free(s);
}
