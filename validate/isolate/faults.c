#include "validate/isolate/faults.h"

#include <stdlib.h>
#include <string.h>

#include "common/util.h"

static const struct faults_row rows[] = {
#define FAULT(id_, site_, part_, left_, latency_, loss_, probability_, way_, planted_, shows_)     \
    {.id = #id_,                                                                                   \
     .planted = (planted_),                                                                        \
     .shows = (shows_),                                                                            \
     .site = FAULTS_##site_,                                                                       \
     .effect = {.where = {.part = SOLVE_##part_},                                                  \
                .left = (left_),                                                                   \
                .latency = (latency_),                                                             \
                .loss = (loss_),                                                                   \
                .spread = (left_) > 0 && (left_) < 1 ? 0.01 : 0,                                   \
                .probability = (probability_),                                                     \
                .way = MEASURE_##way_}},
#include "validate/isolate/faults.def"
#undef FAULT
};

size_t faults_count(void)
{
    return ARRAY_LEN(rows);
}

const struct faults_row *faults_at(size_t i)
{
    return &rows[i];
}

const struct faults_row *faults_find(const char *id)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].id, id) == 0)
            return &rows[i];
    return NULL;
}

struct place {
    const struct fabric_graph *g;
    const struct screen *screen;
    struct rng *rng;
};

/* A node of this kind (switches: leaf or above), drawn evenly; FABRIC_NONE when there is none. */
static int64_t draw_node(const struct place *p, enum fabric_kind kind, bool upper)
{
    size_t count = 0;
    for (size_t i = 0; i < p->g->node_count; i++)
        count += p->g->nodes[i].kind == kind && (p->g->nodes[i].level > 1) == upper;
    if (count == 0)
        return FABRIC_NONE;
    size_t wanted = rng_below(p->rng, count);
    for (size_t i = 0; i < p->g->node_count; i++)
        if (p->g->nodes[i].kind == kind && (p->g->nodes[i].level > 1) == upper && wanted-- == 0)
            return fabric_graph_node_element(p->g, (uint32_t)i);
    return FABRIC_NONE;
}

static bool is_exercised(const struct place *p, size_t link)
{
    bool seen[2] = {false, false};
    for (size_t r = 0; r < p->screen->count; r++)
        for (size_t k = 0; k < 2; k++)
            if (p->screen->rounds[r]->load[2 * link + k] >= 0.9F)
                seen[k] = true;
    return seen[0] && seen[1];
}

/* First edge (from kind a to kind b) of a link between such nodes. */
static int64_t draw_link(const struct place *p, enum fabric_kind a, enum fabric_kind b)
{
    for (int attempt = 0; attempt < 100000; attempt++) {
        size_t link = rng_below(p->rng, p->g->link_count);
        const struct fabric_link *l = &p->g->links[link];
        enum fabric_kind x = p->g->nodes[l->a].kind, y = p->g->nodes[l->b].kind;
        if (!((x == a && y == b) || (x == b && y == a)))
            continue;
        if (a == FABRIC_SWITCH && b == FABRIC_SWITCH && !is_exercised(p, link))
            continue;
        return (int64_t)(2 * link + (x == a ? 0 : 1));
    }
    return FABRIC_NONE;
}

static bool draw_pair(const struct place *p, bool met, struct solve_suspect *where)
{
    const struct fabric_graph *g = p->g;
    if (g->hosts < 2)
        return false;
    size_t rail = rng_below(p->rng, g->rails), a = rng_below(p->rng, g->hosts);
    size_t b = (a + 1 + rng_below(p->rng, g->hosts - 1)) % g->hosts;
    where->element = (uint32_t)(a * g->rails + rail);
    where->peer = (uint32_t)(b * g->rails + rail);
    if (met) {
        const struct measure_plan *plan = &p->screen->rounds[p->screen->count - 1]->plan;
        const struct measure_flow *f = &plan->flows[rng_below(p->rng, plan->flow_count)];
        where->element = f->from;
        where->peer = f->to;
    }
    return true;
}

struct link_site {
    enum fabric_kind from, to;
    bool backwards, either;
};

static const struct link_site link_sites[] = {
    [FAULTS_CABLE] = {FABRIC_NIC, FABRIC_SWITCH, false, false},
    [FAULTS_CABLE_OUT] = {FABRIC_NIC, FABRIC_SWITCH, false, false},
    [FAULTS_CABLE_IN] = {FABRIC_NIC, FABRIC_SWITCH, true, false},
    [FAULTS_UPLINK] = {FABRIC_SWITCH, FABRIC_SWITCH, false, false},
    [FAULTS_UPLINK_ONEWAY] = {FABRIC_SWITCH, FABRIC_SWITCH, false, true},
    [FAULTS_SLOT] = {FABRIC_PCIE, FABRIC_NIC, false, false},
    [FAULTS_GPU_SLOT] = {FABRIC_GPU, FABRIC_PCIE, false, false},
    [FAULTS_ROOT] = {FABRIC_PCIE, FABRIC_HOST, false, false},
    [FAULTS_NVLINK] = {FABRIC_GPU, FABRIC_NVSWITCH, false, false},
};

static const enum fabric_kind node_sites[] = {
    [FAULTS_HOST] = FABRIC_HOST,   [FAULTS_HOST_SILENT] = FABRIC_HOST,
    [FAULTS_GPU] = FABRIC_GPU,     [FAULTS_PCIE] = FABRIC_PCIE,
    [FAULTS_NIC] = FABRIC_NIC,     [FAULTS_NVSWITCH] = FABRIC_NVSWITCH,
    [FAULTS_LEAF] = FABRIC_SWITCH, [FAULTS_UPPER] = FABRIC_SWITCH,
};

static bool place_one(const struct place *p, enum faults_site site, struct sim_fault *f)
{
    if (site == FAULTS_PAIR_MET || site == FAULTS_PAIR_ANY)
        return draw_pair(p, site == FAULTS_PAIR_MET, &f->where);
    int64_t element;
    if ((size_t)site < ARRAY_LEN(node_sites)) {
        element = draw_node(p, node_sites[site], site == FAULTS_UPPER);
        f->mute = site == FAULTS_HOST_SILENT;
    } else {
        const struct link_site *l = &link_sites[site];
        element = draw_link(p, l->from, l->to);
        bool turned = l->backwards || (l->either && rng_below(p->rng, 2) == 1);
        if (solve_part_row(f->where.part)->on == SOLVE_ON_LINK)
            element = element < 0 ? element : element & ~(int64_t)1;
        else if (turned && element >= 0)
            element ^= 1;
    }
    f->where.element = (uint32_t)element;
    return element >= 0;
}

static size_t place_swap(const struct place *p, struct sim_fault out[2])
{
    const struct fabric_graph *g = p->g;
    if (g->rails < 2)
        return 0;
    size_t host = rng_below(p->rng, g->hosts), rail = rng_below(p->rng, g->rails - 1);
    for (size_t i = 0; i < 2; i++) {
        size_t e = host * g->rails + rail + i;
        int64_t edge = fabric_graph_edge(g, g->nic[e], g->leaf_node[g->leaf_of[e]]);
        out[i].where.element = (uint32_t)edge & ~1U;
    }
    return 2;
}

size_t faults_place(const struct faults_row *row, const struct fabric_graph *g,
                    const struct screen *screen, struct rng *rng, struct sim_fault out[2])
{
    struct place p = {g, screen, rng};
    enum faults_site sites[2] = {row->site, row->site};
    out[0] = out[1] = row->effect;
    switch (row->site) {
    case FAULTS_RAIL_SWAP:
        return place_swap(&p, out);
    case FAULTS_TWO_CABLES:
        sites[0] = sites[1] = FAULTS_CABLE;
        break;
    case FAULTS_TWO_UPLINKS:
        sites[0] = sites[1] = FAULTS_UPLINK;
        break;
    case FAULTS_CABLE_AND_UPLINK:
        sites[0] = FAULTS_CABLE;
        sites[1] = FAULTS_UPLINK;
        break;
    default:
        return place_one(&p, row->site, &out[0]) ? 1 : 0;
    }
    for (int attempt = 0; attempt < 100; attempt++) {
        if (!place_one(&p, sites[0], &out[0]) || !place_one(&p, sites[1], &out[1]))
            return 0;
        if (out[0].where.element != out[1].where.element)
            return 2;
    }
    return 0;
}
