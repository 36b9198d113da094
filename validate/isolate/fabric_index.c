/* fabric_graph_finish(): indexes by host, endpoint and port, distances between switches. */
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "validate/isolate/fabric_graph.h"

static uint32_t *unset(size_t count)
{
    uint32_t *values = mem_grow(NULL, count + 1, sizeof *values);
    memset(values, 0xff, (count + 1) * sizeof *values);
    return values;
}

static uint32_t *slot_of(struct fabric_graph *g, const struct fabric_node *n)
{
    size_t host = (size_t)n->host;
    if (n->kind == FABRIC_HOST)
        return &g->host_node[host];
    if (n->kind == FABRIC_NVSWITCH)
        return &g->nvswitch[host];
    size_t endpoint = host * g->rails + (size_t)n->rail;
    return n->kind == FABRIC_GPU    ? &g->gpu[endpoint]
           : n->kind == FABRIC_PCIE ? &g->pcie[endpoint]
                                    : &g->nic[endpoint];
}

static int place_nodes(struct fabric_graph *g, struct err *err)
{
    for (size_t i = 0; i < g->node_count; i++) {
        const struct fabric_node *n = &g->nodes[i];
        bool per_rail = n->kind == FABRIC_GPU || n->kind == FABRIC_PCIE || n->kind == FABRIC_NIC;
        if (n->kind == FABRIC_SWITCH) {
            g->switch_index[i] = (uint32_t)g->switch_count++;
            continue;
        }
        if (n->host < 0 || (size_t)n->host >= g->hosts)
            return err_set(err, ERR_DATA, "fabric: node '%s' is of host %d; there are %zu", n->name,
                           (int)n->host, g->hosts);
        if (per_rail && (n->rail < 0 || (size_t)n->rail >= g->rails))
            return err_set(err, ERR_DATA, "fabric: node '%s' is of rail %d; there are %zu", n->name,
                           (int)n->rail, g->rails);
        uint32_t *slot = slot_of(g, n);
        if (*slot != UINT32_MAX)
            return err_set(err, ERR_DATA, "fabric: '%s' and '%s' are the same part of host %d",
                           g->nodes[*slot].name, n->name, (int)n->host);
        *slot = (uint32_t)i;
    }
    for (size_t h = 0; h < g->hosts; h++)
        if (g->host_node[h] == UINT32_MAX)
            return err_set(err, ERR_DATA, "fabric: host %zu has no node of kind host", h);
    for (size_t e = 0; e < g->hosts * g->rails; e++)
        if (g->gpu[e] == UINT32_MAX || g->pcie[e] == UINT32_MAX || g->nic[e] == UINT32_MAX)
            return err_set(err, ERR_DATA, "fabric: host %zu rail %zu lacks its %s", e / g->rails,
                           e % g->rails,
                           g->gpu[e] == UINT32_MAX    ? "GPU"
                           : g->pcie[e] == UINT32_MAX ? "PCIe switch"
                                                      : "NIC");
    return 0;
}

static void index_hops(struct fabric_graph *g)
{
    g->first_hop = mem_zero(g->node_count + 2, sizeof *g->first_hop);
    g->hops = mem_zero(2 * g->link_count + 1, sizeof *g->hops);
    for (size_t l = 0; l < g->link_count; l++) {
        g->first_hop[g->links[l].a + 1]++;
        g->first_hop[g->links[l].b + 1]++;
    }
    for (size_t i = 0; i < g->node_count; i++)
        g->first_hop[i + 1] += g->first_hop[i];
    uint32_t *next = mem_grow(NULL, g->node_count + 1, sizeof *next);
    memcpy(next, g->first_hop, (g->node_count + 1) * sizeof *next);
    for (size_t l = 0; l < g->link_count; l++) {
        const struct fabric_link *k = &g->links[l];
        g->hops[next[k->a]++] = (struct fabric_hop){(uint32_t)(2 * l), k->b};
        g->hops[next[k->b]++] = (struct fabric_hop){(uint32_t)(2 * l + 1), k->a};
    }
    free(next);
}

static unsigned port_at(const struct fabric_graph *g, const struct fabric_hop *hop)
{
    const struct fabric_link *l = &g->links[hop->edge / 2];
    return hop->edge % 2 ? l->port_b : l->port_a;
}

/* By port number: a choice among ports must not depend on the order in which links were listed. */
static void sort_hops(struct fabric_graph *g)
{
    for (size_t v = 0; v < g->node_count; v++)
        for (uint32_t i = g->first_hop[v] + 1; i < g->first_hop[v + 1]; i++) {
            struct fabric_hop moved = g->hops[i];
            uint32_t k = i;
            for (; k > g->first_hop[v] && port_at(g, &g->hops[k - 1]) > port_at(g, &moved); k--)
                g->hops[k] = g->hops[k - 1];
            g->hops[k] = moved;
        }
}

static int find_leaves(struct fabric_graph *g, struct err *err)
{
    size_t endpoints = g->hosts * g->rails;
    uint32_t *leaf_of_node = unset(g->node_count);
    g->leaf_node = unset(g->switch_count);
    for (size_t e = 0; e < endpoints; e++) {
        uint32_t nic = g->nic[e], leaf = UINT32_MAX;
        size_t found = 0;
        for (uint32_t i = g->first_hop[nic]; i < g->first_hop[nic + 1]; i++)
            if (g->switch_index[g->hops[i].to] != UINT32_MAX) {
                leaf = g->hops[i].to;
                found++;
            }
        if (found != 1) {
            free(leaf_of_node);
            return err_set(err, ERR_DATA,
                           "fabric: NIC '%s' of host %zu has %zu links to switches; "
                           "one is needed",
                           g->nodes[nic].name, e / g->rails, found);
        }
        if (leaf_of_node[leaf] == UINT32_MAX) {
            leaf_of_node[leaf] = (uint32_t)g->leaf_count;
            g->leaf_node[g->leaf_count++] = leaf;
        }
        g->leaf_of[e] = leaf_of_node[leaf];
    }
    free(leaf_of_node);
    return 0;
}

/* Destination numbers run along the ports of each leaf, as a subnet manager hands out LIDs. */
static void number_places(struct fabric_graph *g)
{
    uint32_t *endpoint_of_nic = unset(g->node_count);
    uint32_t next = 0;
    for (size_t e = 0; e < g->hosts * g->rails; e++)
        endpoint_of_nic[g->nic[e]] = (uint32_t)e;
    for (size_t l = 0; l < g->leaf_count; l++)
        for (uint32_t i = g->first_hop[g->leaf_node[l]]; i < g->first_hop[g->leaf_node[l] + 1]; i++)
            if (endpoint_of_nic[g->hops[i].to] != UINT32_MAX)
                g->place_of[endpoint_of_nic[g->hops[i].to]] = next++;
    free(endpoint_of_nic);
}

static void distances_from(struct fabric_graph *g, size_t leaf, uint32_t *queue)
{
    unsigned char *distance = g->distance + leaf * g->switch_count;
    size_t head = 0, tail = 0;
    memset(distance, 255, g->switch_count);
    queue[tail++] = g->leaf_node[leaf];
    distance[g->switch_index[g->leaf_node[leaf]]] = 0;
    while (head < tail) {
        uint32_t at = queue[head++];
        unsigned char here = distance[g->switch_index[at]];
        for (uint32_t i = g->first_hop[at]; i < g->first_hop[at + 1]; i++) {
            uint32_t to = g->switch_index[g->hops[i].to];
            if (to == UINT32_MAX || distance[to] != 255 || here >= FABRIC_MAX_HOPS - 2)
                continue;
            distance[to] = (unsigned char)(here + 1);
            queue[tail++] = g->hops[i].to;
        }
    }
}

static int measure_distances(struct fabric_graph *g, struct err *err)
{
    g->distance = mem_zero(g->leaf_count * g->switch_count + 1, 1);
    uint32_t *queue = mem_grow(NULL, g->switch_count + 1, sizeof *queue);
    for (size_t l = 0; l < g->leaf_count; l++)
        distances_from(g, l, queue);
    free(queue);
    for (size_t a = 0; a < g->leaf_count; a++)
        for (size_t b = 0; b < g->leaf_count; b++)
            if (g->distance[a * g->switch_count + g->switch_index[g->leaf_node[b]]] == 255)
                return err_set(err, ERR_DATA, "fabric: no way from %s to %s",
                               g->nodes[g->leaf_node[b]].name, g->nodes[g->leaf_node[a]].name);
    return 0;
}

static int check_inner_links(const struct fabric_graph *g, struct err *err)
{
    for (size_t e = 0; e < g->hosts * g->rails; e++) {
        uint32_t host = g->host_node[e / g->rails];
        const uint32_t needed[][2] = {
            {g->gpu[e], g->pcie[e]}, {g->pcie[e], g->nic[e]}, {g->pcie[e], host}};
        for (size_t i = 0; i < ARRAY_LEN(needed); i++)
            if (fabric_graph_edge(g, needed[i][0], needed[i][1]) == FABRIC_NONE)
                return err_set(err, ERR_DATA,
                               "fabric: host %zu rail %zu: no link from '%s' to '%s'", e / g->rails,
                               e % g->rails, g->nodes[needed[i][0]].name,
                               g->nodes[needed[i][1]].name);
        uint32_t nvswitch = g->nvswitch[e / g->rails];
        if (nvswitch != UINT32_MAX && fabric_graph_edge(g, g->gpu[e], nvswitch) == FABRIC_NONE)
            return err_set(err, ERR_DATA, "fabric: host %zu rail %zu: no link from '%s' to '%s'",
                           e / g->rails, e % g->rails, g->nodes[g->gpu[e]].name,
                           g->nodes[nvswitch].name);
    }
    return 0;
}

int fabric_graph_finish(struct fabric_graph *g, struct err *err)
{
    size_t endpoints = g->hosts * g->rails;
    if (endpoints == 0)
        return err_set(err, ERR_DATA, "fabric: no hosts or no rails");
    g->host_node = unset(g->hosts);
    g->nvswitch = unset(g->hosts);
    g->gpu = unset(endpoints);
    g->pcie = unset(endpoints);
    g->nic = unset(endpoints);
    g->leaf_of = unset(endpoints);
    g->place_of = unset(endpoints);
    g->switch_index = unset(g->node_count);
    if (place_nodes(g, err) != 0)
        return -1;
    index_hops(g);
    sort_hops(g);
    if (find_leaves(g, err) != 0 || check_inner_links(g, err) != 0)
        return -1;
    number_places(g);
    return measure_distances(g, err);
}
