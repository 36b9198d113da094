#include "validate/isolate/next_pool.h"

#include <stdlib.h>

#include "common/util.h"

enum { ENDS_MAX = 6, EVIDENCE_MAX = 3, WALKS = 96, WALKS_KEPT = 24, NEIGHBOURS = 8 };

struct filler {
    struct next_pool *p;
    const struct observe *o;
    const struct fabric_graph *g;
    const struct solve_fault *f;
    const bool *bad;
    struct rng *rng;
    uint32_t ends[ENDS_MAX];
    size_t end_count;
};

static void offer(struct filler *x, enum measure_probe probe, size_t from, size_t to)
{
    if (x->p->count < NEXT_POOL_MAX)
        x->p->flows[x->p->count++] = (struct measure_flow){probe, (uint32_t)from, (uint32_t)to};
}

static void add_end(struct filler *x, size_t endpoint)
{
    for (size_t i = 0; i < x->end_count; i++)
        if (x->ends[i] == endpoint)
            return;
    if (x->end_count < ENDS_MAX)
        x->ends[x->end_count++] = (uint32_t)endpoint;
}

static const struct measure_flow *evidence_flow(const struct filler *x, size_t i)
{
    const struct observe_record *r = &x->o->records[x->f->evidence[i]];
    return &x->o->rounds[r->round]->plan.flows[observe_item(x->o, r)->first_flow];
}

/* The endpoint that a node inside a host belongs to, FABRIC_NONE for a switch. */
static int64_t endpoint_of(const struct fabric_graph *g, uint32_t node)
{
    const struct fabric_node *n = &g->nodes[node];
    if (n->host == FABRIC_NONE)
        return FABRIC_NONE;
    return (int64_t)n->host * (int64_t)g->rails + (n->rail == FABRIC_NONE ? 0 : n->rail);
}

static void ends_of_suspect(struct filler *x, const struct solve_suspect *s)
{
    enum solve_on on = solve_part_row(s->part)->on;
    size_t edges = 2 * x->g->link_count;
    if (on == SOLVE_ON_PAIR) {
        add_end(x, s->element);
        add_end(x, s->peer);
        return;
    }
    uint32_t nodes[2] = {s->element - (uint32_t)edges, UINT32_MAX};
    if (s->element < edges) {
        nodes[0] = fabric_graph_edge_from(x->g, s->element);
        nodes[1] = fabric_graph_edge_to(x->g, s->element);
    }
    for (size_t i = 0; i < 2 && nodes[i] != UINT32_MAX; i++)
        if (endpoint_of(x->g, nodes[i]) != FABRIC_NONE)
            add_end(x, (size_t)endpoint_of(x->g, nodes[i]));
}

/* A well endpoint: on the same leaf as this endpoint (same rail), or anywhere. */
static int64_t partner(const struct filler *x, size_t endpoint, bool near)
{
    size_t rail = endpoint % x->g->rails, start = rng_below(x->rng, x->g->hosts);
    for (size_t i = 0; i < x->g->hosts; i++) {
        size_t host = (start + i) % x->g->hosts, e = host * x->g->rails + rail;
        bool same = x->g->leaf_of[e] == x->g->leaf_of[endpoint];
        if (!x->bad[e] && e != endpoint && same == near)
            return (int64_t)e;
    }
    return FABRIC_NONE;
}

static void offer_inside(struct filler *x, size_t e)
{
    static const enum measure_probe probes[] = {
        MEASURE_LOOP_HOST, MEASURE_LOOP_GPU, MEASURE_H2D,     MEASURE_D2H,
        MEASURE_MEMORY,    MEASURE_COMPUTE,  MEASURE_SM_COUNT};
    for (size_t i = 0; i < ARRAY_LEN(probes); i++)
        offer(x, probes[i], e, e);
    size_t host = e / x->g->rails, rail = e % x->g->rails, base = host * x->g->rails;
    if (x->g->nvswitch[host] == UINT32_MAX)
        return;
    size_t skip = x->g->rails > 2 ? 2 : 1;
    offer(x, MEASURE_P2P, e, base + (rail + skip) % x->g->rails);
    offer(x, MEASURE_P2P, base + (rail + x->g->rails - skip) % x->g->rails, e);
}

static void offer_partners(struct filler *x, size_t e)
{
    static const enum measure_probe probes[] = {MEASURE_PAIR_GPU, MEASURE_PAIR_HOST, MEASURE_SMALL};
    size_t host = e / x->g->rails, rail = e % x->g->rails;
    size_t rails = x->g->rails;
    for (int k = 0; k < (rails > 1 ? 5 : 3); k++) {
        /* Of the same rail one near and two anywhere; of another rail one anywhere and one near,
         * which is on another leaf below the same upper switches. */
        size_t along = k < 3 ? rail : (rail + 1 + rng_below(x->rng, rails - 1)) % rails;
        int64_t other = partner(x, host * rails + along, k == 0 || k == 4);
        if (other != FABRIC_NONE && (size_t)other / x->g->rails == host)
            continue;
        for (size_t i = 0; i < ARRAY_LEN(probes) && other != FABRIC_NONE; i++) {
            offer(x, probes[i], e, (size_t)other);
            offer(x, probes[i], (size_t)other, e);
        }
    }
}

static bool is_between_switches(const struct filler *x, const struct solve_suspect *s)
{
    size_t edges = 2 * x->g->link_count;
    if (solve_part_row(s->part)->on == SOLVE_ON_PAIR)
        return false;
    if (s->element >= edges)
        return x->g->nodes[s->element - edges].kind == FABRIC_SWITCH;
    const struct fabric_link *l = &x->g->links[s->element / 2];
    return x->g->nodes[l->a].kind == FABRIC_SWITCH && x->g->nodes[l->b].kind == FABRIC_SWITCH;
}

static size_t suspects_crossed(const struct filler *x, const struct measure_flow *flow)
{
    uint32_t path[MEASURE_MAX_ELEMENTS];
    size_t length = measure_elements(x->g, flow, path), count = 0;
    for (size_t i = 0; i < x->f->suspect_count && i < 32; i++)
        count += is_between_switches(x, &x->f->suspects[i]) &&
                 solve_crosses(x->g, &x->f->suspects[i], flow, path, length);
    return count;
}

static int64_t draw_on_rail(const struct filler *x, size_t rail)
{
    return (int64_t)(rng_below(x->rng, x->g->hosts) * x->g->rails + rail);
}

/* Pairs of well hosts whose way leads over some of the suspected switch links: hosts near the
 * failing ends to anywhere, and anywhere to near them. */
static void offer_walks(struct filler *x, const struct measure_flow *seed)
{
    size_t rail = seed->from % x->g->rails, kept = 0;
    enum measure_probe probe =
        measure_probe_row(seed->probe)->scope == MEASURE_NET ? seed->probe : MEASURE_PAIR_GPU;
    for (int i = 0; i < 4 * WALKS && kept < WALKS_KEPT; i++) {
        /* Across rails too: between few leaves only that separates the two ends of a way. */
        size_t far_rail = i / 4 % 2 ? rng_below(x->rng, x->g->rails) : rail;
        int64_t from = i % 2 ? partner(x, seed->from, true) : draw_on_rail(x, rail);
        int64_t to = i / 2 % 2 ? partner(x, seed->to, true) : draw_on_rail(x, far_rail);
        if (from == FABRIC_NONE || to == FABRIC_NONE ||
            (size_t)from / x->g->rails == (size_t)to / x->g->rails || x->bad[from] || x->bad[to])
            continue;
        struct measure_flow flow = {probe, (uint32_t)from, (uint32_t)to};
        if (suspects_crossed(x, &flow) == 0)
            continue;
        offer(x, probe, flow.from, flow.to);
        kept++;
    }
}

/* Where both switches of a suspected link have hosts, two of those meet over that link alone. */
static void offer_neighbours(struct filler *x)
{
    size_t edges = 2 * x->g->link_count, done = 0;
    for (size_t i = 0; i < x->f->suspect_count && done < NEIGHBOURS; i++) {
        const struct solve_suspect *s = &x->f->suspects[i];
        if (!is_between_switches(x, s) || s->element >= edges)
            continue;
        uint32_t a = fabric_graph_edge_from(x->g, s->element);
        uint32_t b = fabric_graph_edge_to(x->g, s->element);
        int64_t from = FABRIC_NONE, to = FABRIC_NONE;
        for (size_t e = 0; e < x->g->hosts * x->g->rails; e++) {
            uint32_t leaf = x->g->leaf_node[x->g->leaf_of[e]];
            from = leaf == a ? (int64_t)e : from;
            to = leaf == b ? (int64_t)e : to;
        }
        if (from == FABRIC_NONE || to == FABRIC_NONE)
            continue;
        offer(x, MEASURE_PAIR_GPU, (size_t)from, (size_t)to);
        offer(x, MEASURE_PAIR_GPU, (size_t)to, (size_t)from);
        offer(x, MEASURE_SMALL, (size_t)from, (size_t)to);
        done++;
    }
}

void next_pool_fill(struct next_pool *p, const struct observe *o, const struct solve_fault *f,
                    const bool bad[], struct rng *rng)
{
    struct filler x = {.p = p, .o = o, .g = o->g, .f = f, .bad = bad, .rng = rng};
    p->count = 0;
    for (size_t i = 0; i < f->fails && i < EVIDENCE_MAX; i++) {
        const struct measure_flow *flow = evidence_flow(&x, f->fails - 1 - i);
        offer(&x, flow->probe, flow->from, flow->to);
        add_end(&x, flow->from);
        add_end(&x, flow->to);
        if (flow->from == flow->to)
            continue;
        offer(&x, flow->probe, flow->to, flow->from);
        if (measure_probe_row(flow->probe)->scope == MEASURE_NET) {
            offer(&x, MEASURE_PAIR_HOST, flow->from, flow->to);
            offer(&x, MEASURE_SMALL, flow->from, flow->to);
        }
    }
    for (size_t i = 0; i < f->suspect_count && i < 8; i++)
        ends_of_suspect(&x, &f->suspects[i]);
    offer_neighbours(&x);
    for (size_t i = 0; i < x.end_count; i++) {
        offer_inside(&x, x.ends[i]);
        offer_partners(&x, x.ends[i]);
    }
    if (f->fails > 0)
        offer_walks(&x, evidence_flow(&x, 0));
    if (f->fails > 1)
        offer_walks(&x, evidence_flow(&x, f->fails - 1));
}
