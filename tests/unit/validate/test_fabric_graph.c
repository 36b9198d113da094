/* Graphs: routes are walks without a loop from NIC to NIC, the same table for every source, names
 * and JSON are exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "validate/isolate/fabric_build.h"
#include "validate/isolate/measure.h"
#include "validate/isolate/rng.h"

struct shape {
    size_t hosts, rails, down;
    size_t longest; /* switches on the longest route */
};
static const struct shape shapes[] = {
    {1, 1, 0, 1},   {2, 1, 0, 1},   {32, 1, 0, 3}, {32, 8, 0, 3}, {33, 1, 16, 3},
    {232, 1, 0, 3}, {232, 8, 0, 3}, {14, 1, 2, 5}, {7, 2, 2, 5},  {1024, 1, 0, 3},
};

static struct fabric_graph *tree(const struct shape *s)
{
    struct err err = {0};
    struct fabric_graph *g = NULL;
    assert_int_equal(fabric_build_fat_tree(s->hosts, s->rails, s->down, &g, &err), 0);
    return g;
}

/* Returns the number of switches. */
static size_t check_route(const struct fabric_graph *g, size_t from, size_t to)
{
    uint32_t path[MEASURE_MAX_ELEMENTS];
    size_t length = fabric_graph_route(g, from, to, path), edges = 2 * g->link_count;
    uint32_t at = g->nic[from];
    assert_int_equal(length % 2, 1);
    for (size_t i = 0; i < length; i++) {
        if (i % 2 == 0) {
            assert_true(path[i] < edges);
            assert_int_equal(fabric_graph_edge_from(g, path[i]), at);
            at = fabric_graph_edge_to(g, path[i]);
        } else {
            assert_int_equal(path[i] - edges, at);
            assert_int_equal(g->nodes[at].kind, FABRIC_SWITCH);
        }
        for (size_t k = 0; k < i; k++)
            assert_true(path[k] != path[i]);
    }
    assert_int_equal(at, g->nic[to]);
    return length / 2;
}

static void check_all_routes(const struct fabric_graph *g, size_t longest)
{
    size_t endpoints = g->hosts * g->rails, seen = 1;
    struct rng rng = {7};
    for (size_t i = 0; i < 20000 && endpoints > 1; i++) {
        size_t a = rng_below(&rng, endpoints), b = rng_below(&rng, endpoints);
        if (a == b)
            continue;
        size_t there = check_route(g, a, b);
        assert_int_equal(there, check_route(g, b, a)); /* as long in both directions */
        seen = there > seen ? there : seen;
    }
    assert_int_equal(seen, longest);
}

static void routes_are_walks(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        struct fabric_graph *g = tree(&shapes[i]);
        check_all_routes(g, shapes[i].longest);
        fabric_graph_destroy(g);
    }
}

static void torus_routes_are_walks(void **state)
{
    static const size_t sides[][4] = {{4, 3, 2, 5}, {8, 8, 4, 11}, {5, 1, 1, 3}, {2, 2, 2, 4}};
    for (size_t i = 0; i < ARRAY_LEN(sides); i++) {
        struct err err = {0};
        struct fabric_graph *g = NULL;
        assert_int_equal(fabric_build_torus(sides[i][0], sides[i][1], sides[i][2], &g, &err), 0);
        check_all_routes(g, sides[i][3]);
        fabric_graph_destroy(g);
    }
}

/* A table by destination: from where two routes to one destination meet they are one. */
static void routes_follow_tables(void **state)
{
    struct fabric_graph *g = tree(&(struct shape){64, 2, 16, 3});
    uint32_t a[MEASURE_MAX_ELEMENTS], b[MEASURE_MAX_ELEMENTS];
    struct rng rng = {9};
    for (size_t i = 0; i < 5000; i++) {
        size_t to = rng_below(&rng, 128), x = rng_below(&rng, 128), y = rng_below(&rng, 128);
        if (x == to || y == to)
            continue;
        size_t la = fabric_graph_route(g, x, to, a), lb = fabric_graph_route(g, y, to, b);
        for (size_t k = 1; k < la; k += 2)
            for (size_t m = 1; m < lb; m += 2)
                if (a[k] == b[m])
                    assert_int_equal(a[k + 1], b[m + 1]);
    }
    fabric_graph_destroy(g);
}

static void names_are_exact(void **state)
{
    struct fabric_graph *g = tree(&(struct shape){32, 8, 16, 3});
    size_t e = 16 * 8 + 3;
    int64_t edge = fabric_graph_edge(g, g->nic[e], g->leaf_node[g->leaf_of[e]]);
    AUTO(free_str) char *both = fabric_graph_link_name(g, (uint32_t)edge / 2);
    AUTO(free_str) char *there = fabric_graph_edge_name(g, (uint32_t)edge);
    AUTO(free_str) char *back = fabric_graph_edge_name(g, (uint32_t)edge ^ 1U);
    AUTO(free_str) char *gpu = fabric_graph_node_name(g, g->gpu[e]);
    AUTO(free_str) char *host = fabric_graph_node_name(g, g->host_node[16]);
    assert_string_equal(both, "gpu017 mlx5_3 port 1 <-> leaf12 port 1");
    assert_string_equal(there, "gpu017 mlx5_3 port 1 -> leaf12 port 1");
    assert_string_equal(back, "leaf12 port 1 -> gpu017 mlx5_3 port 1");
    assert_string_equal(gpu, "gpu017 GPU 3");
    assert_string_equal(host, "gpu017");
    assert_string_equal(g->name, "fat-tree of 32 hosts, 8 rails, 2 levels of 32-port switches");
    assert_int_equal(fabric_graph_edge(g, g->gpu[0], g->nic[0]), FABRIC_NONE);
    fabric_graph_destroy(g);
}

static void json_comes_back(void **state)
{
    struct err err = {0};
    struct fabric_graph *g = tree(&(struct shape){7, 2, 2, 5}), *h = NULL;
    json_auto_t *saved = fabric_graph_save(g);
    assert_int_equal(fabric_graph_load(saved, "fabric.json", &h, &err), 0);
    json_auto_t *again = fabric_graph_save(h);
    assert_true(json_equal(saved, again));
    uint32_t a[MEASURE_MAX_ELEMENTS], b[MEASURE_MAX_ELEMENTS];
    size_t length = fabric_graph_route(g, 0, 13, a);
    assert_int_equal(fabric_graph_route(h, 0, 13, b), length);
    assert_memory_equal(a, b, length * sizeof *a);
    fabric_graph_destroy(g);
    fabric_graph_destroy(h);
}

struct bad {
    const char *text, *error;
};
#define HEAD(n) "{\"v\":1,\"name\":\"x\",\"rule\":\"spread\",\"hosts\":1,\"rails\":1,\"nodes\":[" n
#define NODE(k, l, h, r)                                                                           \
    "{\"name\":\"" k "\",\"kind\":\"" k "\",\"level\":" l ",\"host\":" h ",\"rail\":" r "}"
#define PARTS                                                                                      \
    NODE("host", "0", "0", "-1")                                                                   \
    "," NODE("gpu", "0", "0", "0") "," NODE("pcie", "0", "0", "0") "," NODE("nic", "0", "0", "0")
#define LINK(a, b) "{\"a\":" a ",\"port_a\":0,\"b\":" b ",\"port_b\":0,\"bps\":1}"
static const struct bad bads[] = {
    {"[]", "f: a fabric must be an object"},
    {"{\"v\":2}", "f: 'v' is 2, outside 1 to 1"},
    {"{\"v\":1,\"name\":\"x\",\"rule\":\"ecmp\",\"hosts\":1,\"rails\":1,\"nodes\":[],\"links\":[]}",
     "f: rule 'ecmp'; there are spread and first_port"},
    {HEAD("],\"links\":[]}"), "f: fabric: host 0 has no node of kind host"},
    {HEAD("3],\"links\":[]}"), "f: nodes[0] must be an object"},
    {HEAD(NODE("cat", "0", "0", "0") "],\"links\":[]}"),
     "f: nodes[0]: kind 'cat'; there are host, gpu, pcie, nic, nvswitch, switch"},
    {HEAD(PARTS "],\"links\":[]}"),
     "f: fabric: NIC 'nic' of host 0 has 0 links to switches; one is needed"},
    {HEAD(PARTS "," NODE("switch", "1", "-1", "-1") "],\"links\":[" LINK("3", "4") "]}"),
     "f: fabric: host 0 rail 0: no link from 'gpu' to 'pcie'"},
    {HEAD(PARTS "],\"links\":[" LINK("3", "4") "]}"), "f: links[0]: 'b' is 4, outside 0 to 3"},
    {HEAD(PARTS "],\"links\":[" LINK("3", "3") "]}"), "f: links[0]: both ends are node 3"},
    {HEAD(NODE("host", "0", "0", "-1") "," NODE("host", "0", "0", "-1") "],\"links\":[]}"),
     "f: fabric: 'host' and 'host' are the same part of host 0"},
};

static void bad_json_is_refused(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(bads); i++) {
        struct err err = {0};
        json_auto_t *value = NULL;
        struct fabric_graph *g = NULL;
        assert_int_equal(jsonx_parse(bads[i].text, strlen(bads[i].text), "f", &value, &err), 0);
        assert_int_equal(fabric_graph_load(value, "f", &g, &err), -1);
        assert_string_equal(err.text, bads[i].error);
        assert_int_equal(err.kind, ERR_DATA);
        assert_null(g);
    }
}

static void impossible_shapes_are_refused(void **state)
{
    struct err err = {0};
    struct fabric_graph *g = NULL;
    assert_int_equal(fabric_build_fat_tree(0, 1, 0, &g, &err), -1);
    assert_string_equal(err.text, "a fat-tree needs at least one host and one rail");
    err_clear(&err);
    assert_int_equal(fabric_build_fat_tree(100, 1, 2, &g, &err), -1);
    assert_string_equal(err.text, "a fat-tree of three levels with 4 ports per switch holds 8 "
                                  "leaves; 100 hosts with 1 rails need 50");
    err_clear(&err);
    assert_int_equal(fabric_build_torus(3, 0, 1, &g, &err), -1);
    assert_string_equal(err.text, "a torus of 3 x 0 x 1: sides from 1, at most 65536 hosts");
    assert_null(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(routes_are_walks),
        cmocka_unit_test(torus_routes_are_walks),
        cmocka_unit_test(routes_follow_tables),
        cmocka_unit_test(names_are_exact),
        cmocka_unit_test(json_comes_back),
        cmocka_unit_test(bad_json_is_refused),
        cmocka_unit_test(impossible_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
