#include "validate/isolate/measure.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

static const struct measure_probe_row rows[] = {
#define PROBE(id, name_, noun_, scope_, unit_, limit_)                                             \
    [MEASURE_##id] = {.name = (name_),                                                             \
                      .noun = (noun_),                                                             \
                      .unit = (unit_),                                                             \
                      .scope = MEASURE_##scope_,                                                   \
                      .limit = (limit_)},
#include "validate/isolate/probes.def"
#undef PROBE
};
_Static_assert(ARRAY_LEN(rows) == MEASURE_PROBE__COUNT, "a row per probe");

const struct measure_probe_row *measure_probe_row(enum measure_probe probe)
{
    return &rows[probe];
}

static bool is_full(size_t count)
{
    return (count & (count - 1)) == 0;
}

static void add_flow(struct measure_plan *p, struct measure_flow flow)
{
    if (is_full(p->flow_count))
        p->flows = mem_grow(p->flows, p->flow_count ? 2 * p->flow_count : 1, sizeof *p->flows);
    p->flows[p->flow_count++] = flow;
}

static void add_item(struct measure_plan *p, size_t flows)
{
    if (is_full(p->item_count))
        p->items = mem_grow(p->items, p->item_count ? 2 * p->item_count : 1, sizeof *p->items);
    p->items[p->item_count++] = (struct measure_item){
        .first_flow = (uint32_t)(p->flow_count - flows), .flow_count = (uint32_t)flows};
    if (p->repeats == 0)
        p->repeats = 1;
}

void measure_plan_add(struct measure_plan *p, enum measure_probe probe, size_t from, size_t to)
{
    add_flow(p, (struct measure_flow){probe, (uint32_t)from, (uint32_t)to});
    add_item(p, 1);
}

void measure_plan_group(struct measure_plan *p, const struct measure_flow flows[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        add_flow(p, flows[i]);
    add_item(p, count);
}

void measure_plan_release(struct measure_plan *p)
{
    free(p->flows);
    free(p->items);
    *p = (struct measure_plan){0};
}

double *measure_capacity(const struct fabric_graph *g)
{
    double *capacity = mem_zero(2 * g->link_count + 1, sizeof *capacity);
    for (size_t e = 0; e < 2 * g->link_count; e++)
        capacity[e] = g->links[e / 2].bps;
    return capacity;
}

double measure_latency(size_t switches)
{
    return 1.7e-6 + 0.15e-6 * (double)switches;
}

struct path {
    const struct fabric_graph *g;
    uint32_t *out;
    size_t count;
};

static void cross(struct path *p, uint32_t node)
{
    p->out[p->count++] = fabric_graph_node_element(p->g, node);
}

static void walk(struct path *p, uint32_t from, uint32_t to)
{
    int64_t edge = fabric_graph_edge(p->g, from, to);
    assert(edge >= 0);
    p->out[p->count++] = (uint32_t)edge;
    cross(p, to);
}

/* From the memory to the NIC (up) or from the NIC to the memory. */
static void walk_end(struct path *p, uint32_t endpoint, bool gpu, bool up)
{
    const struct fabric_graph *g = p->g;
    uint32_t host = g->host_node[endpoint / g->rails];
    uint32_t memory = gpu ? g->gpu[endpoint] : host;
    if (up) {
        cross(p, memory);
        walk(p, memory, g->pcie[endpoint]);
        walk(p, g->pcie[endpoint], g->nic[endpoint]);
    } else {
        walk(p, g->nic[endpoint], g->pcie[endpoint]);
        walk(p, g->pcie[endpoint], memory);
    }
    if (gpu)
        cross(p, host);
}

static void walk_local(struct path *p, const struct measure_flow *flow)
{
    const struct fabric_graph *g = p->g;
    uint32_t host = g->host_node[flow->from / g->rails], gpu = g->gpu[flow->from];
    uint32_t nvswitch = g->nvswitch[flow->from / g->rails];
    switch (flow->probe) {
    case MEASURE_H2D:
        cross(p, host);
        walk(p, host, g->pcie[flow->from]);
        walk(p, g->pcie[flow->from], gpu);
        break;
    case MEASURE_D2H:
        cross(p, gpu);
        walk(p, gpu, g->pcie[flow->from]);
        walk(p, g->pcie[flow->from], host);
        break;
    case MEASURE_P2P:
        cross(p, host);
        cross(p, gpu);
        walk(p, gpu, nvswitch);
        walk(p, nvswitch, g->gpu[flow->to]);
        break;
    default:
        walk_end(p, flow->from, flow->probe == MEASURE_LOOP_GPU, true);
        walk_end(p, flow->from, flow->probe == MEASURE_LOOP_GPU, false);
    }
}

size_t measure_elements(const struct fabric_graph *g, const struct measure_flow *flow,
                        uint32_t out[])
{
    struct path p = {g, out, 0};
    if (rows[flow->probe].scope == MEASURE_SELF) {
        cross(&p, g->host_node[flow->from / g->rails]);
        cross(&p, g->gpu[flow->from]);
    } else if (rows[flow->probe].scope == MEASURE_LOCAL) {
        walk_local(&p, flow);
    } else {
        bool gpu = flow->probe == MEASURE_PAIR_GPU;
        walk_end(&p, flow->from, gpu, true);
        p.count += fabric_graph_route(g, flow->from, flow->to, out + p.count);
        cross(&p, g->nic[flow->to]);
        walk_end(&p, flow->to, gpu, false);
    }
    return p.count;
}
