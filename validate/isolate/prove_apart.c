/* Whether any measurement over a fabric tells two hypotheses apart. */
#include "validate/isolate/prove.h"
#include "validate/isolate/rng.h"

enum { RANDOM_PAIRS = 3000, PARTNERS = 40 };

struct pair {
    const struct fabric_graph *g;
    const struct solve_suspect *a, *b;
};

/* The latency of small messages does not tell a part that is slow from one that is dead or slow:
 * it does not count where only one of the two hypotheses speaks of it. */
static bool speaks(const struct pair *p, enum measure_probe probe)
{
    uint32_t a = solve_part_row(p->a->part)->probes, b = solve_part_row(p->b->part)->probes;
    return probe != MEASURE_SMALL || ((a & b) & measure_bit(MEASURE_SMALL)) != 0;
}

static bool splits(const struct pair *p, enum measure_probe probe, size_t from, size_t to)
{
    if (!speaks(p, probe))
        return false;
    uint32_t path[MEASURE_MAX_ELEMENTS];
    struct measure_flow flow = {probe, (uint32_t)from, (uint32_t)to};
    size_t length = measure_elements(p->g, &flow, path);
    return solve_crosses(p->g, p->a, &flow, path, length) !=
           solve_crosses(p->g, p->b, &flow, path, length);
}

static bool splits_between(const struct pair *p, size_t from, size_t to)
{
    for (int probe = 0; probe < MEASURE_PROBE__COUNT; probe++)
        if (measure_probe_row((enum measure_probe)probe)->scope == MEASURE_NET &&
            (splits(p, (enum measure_probe)probe, from, to) ||
             splits(p, (enum measure_probe)probe, to, from)))
            return true;
    return false;
}

static bool splits_inside(const struct pair *p, size_t host)
{
    const struct fabric_graph *g = p->g;
    for (size_t r = 0; r < g->rails; r++) {
        size_t e = host * g->rails + r;
        for (int probe = 0; probe < MEASURE_PROBE__COUNT; probe++)
            if (probe != MEASURE_P2P &&
                measure_probe_row((enum measure_probe)probe)->scope != MEASURE_NET &&
                splits(p, (enum measure_probe)probe, e, e))
                return true;
        for (size_t k = 0; k < g->rails && g->nvswitch[host] != UINT32_MAX; k++)
            if (k != r && splits(p, MEASURE_P2P, e, host * g->rails + k))
                return true;
    }
    return false;
}

/* Host of a suspect's part, or the number of hosts when it is between hosts. */
static size_t host_of(const struct fabric_graph *g, const struct solve_suspect *s)
{
    size_t edges = 2 * g->link_count;
    if (solve_part_row(s->part)->on == SOLVE_ON_PAIR)
        return s->element / g->rails;
    const struct fabric_node *n =
        &g->nodes[s->element < edges ? fabric_graph_edge_from(g, s->element)
                                     : s->element - (uint32_t)edges];
    if (n->host == FABRIC_NONE && s->element < edges)
        n = &g->nodes[fabric_graph_edge_to(g, s->element)];
    return n->host == FABRIC_NONE ? g->hosts : (size_t)n->host;
}

bool prove_told_apart(const struct fabric_graph *g, const struct solve_suspect *a,
                      const struct solve_suspect *b)
{
    struct pair p = {g, a, b};
    struct rng rng = {1};
    size_t endpoints = g->hosts * g->rails;
    size_t hosts[2] = {host_of(g, a), host_of(g, b)};
    for (size_t i = 0; i < 2; i++) {
        if (hosts[i] >= g->hosts)
            continue;
        if (splits_inside(&p, hosts[i]))
            return true;
        for (size_t r = 0; r < g->rails; r++)
            for (size_t k = 0; k < PARTNERS && g->hosts > 1; k++) {
                size_t other = rng_below(&rng, g->hosts);
                if (other != hosts[i] &&
                    splits_between(&p, hosts[i] * g->rails + r, other * g->rails + r))
                    return true;
            }
    }
    for (size_t i = 0; i < RANDOM_PAIRS && g->hosts > 1; i++) {
        size_t from = rng_below(&rng, endpoints);
        size_t to = rng_below(&rng, endpoints);
        if (from / g->rails != to / g->rails && splits_between(&p, from, to))
            return true;
    }
    return false;
}
