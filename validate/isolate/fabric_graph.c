#include "validate/isolate/fabric_graph.h"

#include <stdlib.h>
#include <string.h>

#include "common/util.h"

struct fabric_graph *fabric_graph_create(const char *name, size_t hosts, size_t rails)
{
    struct fabric_graph *g = mem_zero(1, sizeof *g);
    g->name = str_dup(name);
    g->hosts = hosts;
    g->rails = rails;
    return g;
}

void fabric_graph_destroy(struct fabric_graph *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->node_count; i++)
        free(g->nodes[i].name);
    void *const owned[] = {g->name,    g->nodes,    g->links,     g->host_node,    g->nvswitch,
                           g->gpu,     g->pcie,     g->nic,       g->first_hop,    g->hops,
                           g->leaf_of, g->place_of, g->leaf_node, g->switch_index, g->distance};
    for (size_t i = 0; i < ARRAY_LEN(owned); i++)
        free(owned[i]);
    free(g);
}

void fabric_graph_drop(struct fabric_graph **g)
{
    fabric_graph_destroy(*g);
    *g = NULL;
}

/* Room grows by doubling: at sizes that are powers of two the array is full. */
static bool is_full(size_t count)
{
    return (count & (count - 1)) == 0;
}

uint32_t fabric_graph_add_node(struct fabric_graph *g, enum fabric_kind kind, int level,
                               int32_t host, int32_t rail, const char *name)
{
    if (is_full(g->node_count))
        g->nodes = mem_grow(g->nodes, g->node_count ? 2 * g->node_count : 1, sizeof *g->nodes);
    g->nodes[g->node_count] = (struct fabric_node){
        .name = str_dup(name), .kind = kind, .level = level, .host = host, .rail = rail};
    return (uint32_t)g->node_count++;
}

uint32_t fabric_graph_add_link(struct fabric_graph *g, uint32_t a, unsigned port_a, uint32_t b,
                               unsigned port_b, double bps)
{
    if (is_full(g->link_count))
        g->links = mem_grow(g->links, g->link_count ? 2 * g->link_count : 1, sizeof *g->links);
    g->links[g->link_count] =
        (struct fabric_link){.a = a, .b = b, .port_a = port_a, .port_b = port_b, .bps = bps};
    return (uint32_t)g->link_count++;
}

size_t fabric_graph_elements(const struct fabric_graph *g)
{
    return 2 * g->link_count + g->node_count;
}

uint32_t fabric_graph_node_element(const struct fabric_graph *g, uint32_t node)
{
    return (uint32_t)(2 * g->link_count) + node;
}

uint32_t fabric_graph_edge_from(const struct fabric_graph *g, uint32_t edge)
{
    const struct fabric_link *l = &g->links[edge / 2];
    return edge % 2 ? l->b : l->a;
}

uint32_t fabric_graph_edge_to(const struct fabric_graph *g, uint32_t edge)
{
    return fabric_graph_edge_from(g, edge ^ 1U);
}

int64_t fabric_graph_edge(const struct fabric_graph *g, uint32_t from, uint32_t to)
{
    for (uint32_t i = g->first_hop[from]; i < g->first_hop[from + 1]; i++)
        if (g->hops[i].to == to)
            return g->hops[i].edge;
    return FABRIC_NONE;
}

/* Which of the shortest ways: a destination's number is divided once per level, so that the choice
 * at a higher switch does not repeat that of the lower one. */
static struct fabric_hop choose(const struct fabric_graph *g, uint32_t at, size_t leaf, size_t to)
{
    const unsigned char *distance = g->distance + leaf * g->switch_count;
    unsigned char here = distance[g->switch_index[at]];
    size_t candidates = 0;
    struct fabric_hop found = {0, 0};
    for (uint32_t i = g->first_hop[at]; i < g->first_hop[at + 1]; i++) {
        uint32_t index = g->switch_index[g->hops[i].to];
        if (index == UINT32_MAX || distance[index] + 1 != here)
            continue;
        if (candidates++ == 0)
            found = g->hops[i];
    }
    if (candidates < 2 || g->rule == FABRIC_FIRST_PORT)
        return found;
    size_t number = g->place_of[to];
    for (int level = 1; level < g->nodes[at].level; level++)
        number /= candidates;
    number %= candidates;
    for (uint32_t i = g->first_hop[at]; i < g->first_hop[at + 1]; i++) {
        uint32_t index = g->switch_index[g->hops[i].to];
        if (index == UINT32_MAX || distance[index] + 1 != here)
            continue;
        if (number-- == 0)
            return g->hops[i];
    }
    return found;
}

size_t fabric_graph_route(const struct fabric_graph *g, size_t from, size_t to, uint32_t out[])
{
    if (from == to)
        return 0;
    size_t count = 0, leaf = g->leaf_of[to];
    uint32_t at = g->leaf_node[g->leaf_of[from]];
    const struct fabric_hop *up = &g->hops[g->first_hop[g->nic[from]]];
    while (up->to != at)
        up++;
    out[count++] = up->edge;
    out[count++] = fabric_graph_node_element(g, at);
    while (at != g->leaf_node[leaf]) {
        struct fabric_hop next = choose(g, at, leaf, to);
        at = next.to;
        out[count++] = next.edge;
        out[count++] = fabric_graph_node_element(g, at);
    }
    const struct fabric_hop *down = &g->hops[g->first_hop[g->nic[to]]];
    while (down->to != at)
        down++;
    out[count++] = down->edge ^ 1U;
    return count;
}

char *fabric_graph_node_name(const struct fabric_graph *g, uint32_t node)
{
    const struct fabric_node *n = &g->nodes[node];
    if (n->host == FABRIC_NONE || n->kind == FABRIC_HOST)
        return str_dup(n->name);
    return str_printf("%s %s", g->nodes[g->host_node[n->host]].name, n->name);
}

static char *end_name(const struct fabric_graph *g, uint32_t node, unsigned port)
{
    AUTO(free_str) char *name = fabric_graph_node_name(g, node);
    return port ? str_printf("%s port %u", name, port) : STEAL(name);
}

static char *joined(const struct fabric_graph *g, uint32_t edge, const char *arrow)
{
    const struct fabric_link *l = &g->links[edge / 2];
    AUTO(free_str) char *a = end_name(g, l->a, l->port_a);
    AUTO(free_str) char *b = end_name(g, l->b, l->port_b);
    return edge % 2 ? str_printf("%s %s %s", b, arrow, a) : str_printf("%s %s %s", a, arrow, b);
}

char *fabric_graph_link_name(const struct fabric_graph *g, uint32_t link)
{
    return joined(g, 2 * link, "<->");
}

char *fabric_graph_edge_name(const struct fabric_graph *g, uint32_t edge)
{
    return joined(g, edge, "->");
}
