#include "validate/isolate/fabric_build.h"

#include <stdlib.h>

#include "common/util.h"
#include "validate/schedule.h"

static const double nic_bps = 400e9, pcie_bps = 512e9, nvlink_bps = 3600e9;

static uint32_t add(struct fabric_graph *g, enum fabric_kind kind, int level, size_t host,
                    int32_t rail, char *name)
{
    AUTO(free_str) char *owned = name;
    return fabric_graph_add_node(g, kind, level,
                                 kind == FABRIC_SWITCH ? FABRIC_NONE : (int32_t)host, rail, owned);
}

/* One host with its rails; nics gets the node numbers of its NICs. */
static void add_host(struct fabric_graph *g, size_t host, uint32_t nics[])
{
    uint32_t root = add(g, FABRIC_HOST, 0, host, FABRIC_NONE, str_printf("gpu%03zu", host + 1));
    uint32_t nvswitch = UINT32_MAX;
    if (g->rails > 1)
        nvswitch = add(g, FABRIC_NVSWITCH, 0, host, FABRIC_NONE, str_dup("NVSwitch"));
    for (size_t r = 0; r < g->rails; r++) {
        int32_t rail = (int32_t)r;
        uint32_t gpu = add(g, FABRIC_GPU, 0, host, rail, str_printf("GPU %zu", r));
        uint32_t pcie = add(g, FABRIC_PCIE, 0, host, rail, str_printf("PCIe switch %zu", r));
        nics[r] = add(g, FABRIC_NIC, 0, host, rail, str_printf("mlx5_%zu", r));
        fabric_graph_add_link(g, gpu, 0, pcie, 0, pcie_bps);
        fabric_graph_add_link(g, pcie, 0, nics[r], 0, pcie_bps);
        fabric_graph_add_link(g, pcie, 0, root, 0, pcie_bps);
        if (nvswitch != UINT32_MAX)
            fabric_graph_add_link(g, gpu, 0, nvswitch, 0, nvlink_bps);
    }
}

struct tree {
    size_t down, leaves, pods, leaves_per_pod;
    uint32_t *leaf; /* node numbers */
};

static void join_two_levels(struct fabric_graph *g, const struct tree *t)
{
    for (size_t s = 0; s < t->down; s++) {
        uint32_t spine = add(g, FABRIC_SWITCH, 2, 0, FABRIC_NONE, str_printf("spine%zu", s + 1));
        for (size_t l = 0; l < t->leaves; l++)
            fabric_graph_add_link(g, t->leaf[l], (unsigned)(t->down + s + 1), spine,
                                  (unsigned)(l + 1), nic_bps);
    }
}

static void join_three_levels(struct fabric_graph *g, const struct tree *t)
{
    size_t down = t->down;
    uint32_t *core = mem_zero(down * down, sizeof *core);
    for (size_t c = 0; c < down * down; c++)
        core[c] = add(g, FABRIC_SWITCH, 3, 0, FABRIC_NONE, str_printf("core%zu", c + 1));
    for (size_t p = 0; p < t->pods; p++)
        for (size_t s = 0; s < down; s++) {
            uint32_t spine = add(g, FABRIC_SWITCH, 2, 0, FABRIC_NONE,
                                 str_printf("pod%zu-spine%zu", p + 1, s + 1));
            for (size_t l = 0; l < down && p * down + l < t->leaves; l++)
                fabric_graph_add_link(g, t->leaf[p * down + l], (unsigned)(down + s + 1), spine,
                                      (unsigned)(l + 1), nic_bps);
            for (size_t c = 0; c < down; c++)
                fabric_graph_add_link(g, spine, (unsigned)(down + c + 1), core[s * down + c],
                                      (unsigned)(p + 1), nic_bps);
        }
    free(core);
}

static int shape_tree(size_t hosts, size_t rails, size_t down, struct tree *t, struct err *err)
{
    static const size_t usual[] = {16, 32};
    if (hosts == 0 || rails == 0)
        return err_set(err, ERR_USAGE, "a fat-tree needs at least one host and one rail");
    for (size_t i = 0; i < ARRAY_LEN(usual) && down == 0; i++)
        if ((hosts + usual[i] - 1) / usual[i] * rails <= 2 * usual[i])
            down = usual[i];
    t->down = down ? down : 32;
    t->leaves = (hosts + t->down - 1) / t->down * rails;
    t->pods = t->leaves <= 2 * t->down ? 1 : (t->leaves + t->down - 1) / t->down;
    if (t->pods > 2 * t->down)
        return err_set(err, ERR_USAGE,
                       "a fat-tree of three levels with %zu ports per switch holds %zu leaves; "
                       "%zu hosts with %zu rails need %zu",
                       2 * t->down, 2 * t->down * t->down, hosts, rails, t->leaves);
    return 0;
}

int fabric_build_fat_tree(size_t hosts, size_t rails, size_t down, struct fabric_graph **out,
                          struct err *err)
{
    struct tree t = {0};
    if (shape_tree(hosts, rails, down, &t, err) != 0)
        return -1;
    AUTO(free_str)
    char *name = str_printf("fat-tree of %zu hosts, %zu rail%s, %d levels of %zu-port switches",
                            hosts, rails, rails == 1 ? "" : "s", t.pods > 1 ? 3 : 2, 2 * t.down);
    AUTO(fabric_graph_drop) struct fabric_graph *g = fabric_graph_create(name, hosts, rails);
    uint32_t *nics = mem_zero(rails, sizeof *nics);
    t.leaf = mem_zero(t.leaves, sizeof *t.leaf);
    for (size_t l = 0; l < t.leaves; l++)
        t.leaf[l] = add(g, FABRIC_SWITCH, 1, 0, FABRIC_NONE, str_printf("leaf%zu", l + 1));
    for (size_t h = 0; h < hosts; h++) {
        add_host(g, h, nics);
        for (size_t r = 0; r < rails; r++)
            fabric_graph_add_link(g, nics[r], 1, t.leaf[h / t.down * rails + r],
                                  (unsigned)(h % t.down + 1), nic_bps);
    }
    if (t.pods > 1)
        join_three_levels(g, &t);
    else if (t.leaves > 1)
        join_two_levels(g, &t);
    free(nics);
    free(t.leaf);
    if (fabric_graph_finish(g, err) != 0)
        return -1;
    *out = STEAL(g);
    return 0;
}

/* A ring of two would be a double link: one link is laid. */
static void join_ring(struct fabric_graph *g, const uint32_t *routers, size_t at, size_t next,
                      size_t side, size_t place, unsigned dimension)
{
    if (side < 2 || (side == 2 && place == 1))
        return;
    fabric_graph_add_link(g, routers[at], 2 + 2 * dimension, routers[next], 3 + 2 * dimension,
                          nic_bps);
}

int fabric_build_torus(size_t x, size_t y, size_t z, struct fabric_graph **out, struct err *err)
{
    if (x == 0 || y == 0 || z == 0 || x > 65536 || y > 65536 || z > 65536 || x * y * z > 65536)
        return err_set(err, ERR_USAGE,
                       "a torus of %zu x %zu x %zu: sides from 1, at most 65536 "
                       "hosts",
                       x, y, z);
    if (x / 2 + y / 2 + z / 2 + 2 > FABRIC_MAX_HOPS)
        return err_set(err, ERR_USAGE, "a torus of %zu x %zu x %zu has routes of more than %d hops",
                       x, y, z, FABRIC_MAX_HOPS);
    AUTO(free_str) char *name = str_printf("torus of %zu x %zu x %zu hosts", x, y, z);
    AUTO(fabric_graph_drop) struct fabric_graph *g = fabric_graph_create(name, x * y * z, 1);
    g->rule = FABRIC_FIRST_PORT;
    uint32_t *routers = mem_zero(x * y * z, sizeof *routers), nic = 0;
    for (size_t h = 0; h < x * y * z; h++) {
        routers[h] = add(g, FABRIC_SWITCH, 1, 0, FABRIC_NONE,
                         str_printf("router%zu-%zu-%zu", h % x, h / x % y, h / x / y));
        add_host(g, h, &nic);
        fabric_graph_add_link(g, nic, 1, routers[h], 1, nic_bps);
    }
    for (size_t h = 0; h < x * y * z; h++) {
        size_t i = h % x, j = h / x % y, k = h / x / y;
        join_ring(g, routers, h, h - i + (i + 1) % x, x, i, 0);
        join_ring(g, routers, h, h - j * x + (j + 1) % y * x, y, j, 1);
        join_ring(g, routers, h, h - k * x * y + (k + 1) % z * x * y, z, k, 2);
    }
    free(routers);
    if (fabric_graph_finish(g, err) != 0)
        return -1;
    *out = STEAL(g);
    return 0;
}

void fabric_build_renumber(struct fabric_graph *g, uint64_t seed)
{
    size_t endpoints = g->hosts * g->rails;
    size_t *order = mem_zero(endpoints, sizeof *order);
    schedule_shuffle(seed, endpoints, order);
    for (size_t e = 0; e < endpoints; e++)
        g->place_of[e] = (uint32_t)order[e];
    free(order);
}
