/* Max-min fair shares by progressive filling: the tightest link is settled first, its flows leave,
 * and so on. */
#include <math.h>
#include <stdlib.h>

#include "common/util.h"
#include "validate/isolate/measure.h"

struct filling {
    size_t flow_count, used_count;
    uint32_t *first; /* per flow into edges; flow_count + 1 values */
    uint32_t *edges; /* numbers into used */
    uint32_t *used;  /* edges of the graph that carry a flow */
    double *left;    /* per used edge, bit/s not given away */
    uint32_t *flows; /* per used edge, flows not settled */
    const double *limit;
    double *share;
    bool *settled;
};

static bool takes_bandwidth(const struct measure_flow *f)
{
    return measure_probe_row(f->probe)->scope != MEASURE_SELF && f->probe != MEASURE_SMALL;
}

static void collect(struct filling *f, const struct fabric_graph *g,
                    const struct measure_flow flows[], const double capacity[])
{
    uint32_t path[MEASURE_MAX_ELEMENTS];
    uint32_t *number = mem_zero(2 * g->link_count + 1, sizeof *number);
    size_t count = 0, room = 0;
    for (size_t i = 0; i < f->flow_count; i++) {
        f->first[i] = (uint32_t)count;
        f->settled[i] = !takes_bandwidth(&flows[i]);
        f->share[i] = 1;
        if (f->settled[i])
            continue;
        size_t length = measure_elements(g, &flows[i], path);
        if (count + length > room) {
            room = 2 * (count + length);
            f->edges = mem_grow(f->edges, room, sizeof *f->edges);
        }
        for (size_t k = 0; k < length; k++) {
            if (path[k] >= 2 * g->link_count)
                continue;
            if (number[path[k]] == 0) {
                f->used[f->used_count] = path[k];
                f->left[f->used_count] = capacity[path[k]];
                number[path[k]] = (uint32_t)++f->used_count;
            }
            f->edges[count++] = number[path[k]] - 1;
            f->flows[number[path[k]] - 1]++;
        }
    }
    f->first[f->flow_count] = (uint32_t)count;
    free(number);
}

/* The smallest share that any link or limit allows to a flow that is not settled. */
static double tightest(const struct filling *f)
{
    double least = INFINITY;
    for (size_t u = 0; u < f->used_count; u++)
        if (f->flows[u] > 0)
            least = fmin(least, f->left[u] / f->flows[u]);
    for (size_t i = 0; f->limit && i < f->flow_count; i++)
        if (!f->settled[i])
            least = fmin(least, f->limit[i]);
    return least;
}

static bool is_bound(const struct filling *f, size_t flow, double least)
{
    if (f->limit && f->limit[flow] <= least * (1 + 1e-9))
        return true;
    for (uint32_t k = f->first[flow]; k < f->first[flow + 1]; k++)
        if (f->left[f->edges[k]] / f->flows[f->edges[k]] <= least * (1 + 1e-9))
            return true;
    return false;
}

/* Two passes: who is bound is decided before anything is given away. */
static size_t settle(struct filling *f, double least, uint32_t *bound)
{
    size_t count = 0;
    for (size_t i = 0; i < f->flow_count; i++)
        if (!f->settled[i] && is_bound(f, i, least))
            bound[count++] = (uint32_t)i;
    for (size_t b = 0; b < count; b++) {
        uint32_t i = bound[b];
        f->settled[i] = true;
        f->share[i] = least;
        for (uint32_t k = f->first[i]; k < f->first[i + 1]; k++) {
            f->left[f->edges[k]] = fmax(0, f->left[f->edges[k]] - least);
            f->flows[f->edges[k]]--;
        }
    }
    return count;
}

void measure_shares(const struct fabric_graph *g, const struct measure_flow flows[],
                    size_t flow_count, const double capacity[], const double limit[],
                    double share[])
{
    size_t edges = 2 * g->link_count + 1;
    struct filling f = {.flow_count = flow_count, .limit = limit, .share = share};
    f.first = mem_zero(flow_count + 1, sizeof *f.first);
    f.used = mem_zero(edges, sizeof *f.used);
    f.left = mem_zero(edges, sizeof *f.left);
    f.flows = mem_zero(edges, sizeof *f.flows);
    f.settled = mem_zero(flow_count + 1, sizeof *f.settled);
    uint32_t *bound = mem_zero(flow_count + 1, sizeof *bound);
    collect(&f, g, flows, capacity);
    for (;;) {
        double least = tightest(&f);
        if (!isfinite(least) || settle(&f, least, bound) == 0)
            break;
    }
    free(bound);
    free(f.first);
    free(f.edges);
    free(f.used);
    free(f.left);
    free(f.flows);
    free(f.settled);
}
