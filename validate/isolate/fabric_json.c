/* A fabric graph as JSON: what `muster fabric` writes and the solver reads. */
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "validate/isolate/fabric_graph.h"

static const char *const kind_names[FABRIC_KIND__COUNT] = {
    [FABRIC_UNSET] = "",        [FABRIC_HOST] = "host", [FABRIC_GPU] = "gpu",
    [FABRIC_PCIE] = "pcie",     [FABRIC_NIC] = "nic",   [FABRIC_NVSWITCH] = "nvswitch",
    [FABRIC_SWITCH] = "switch",
};
static const char *const rule_names[] = {"spread", "first_port"};

json_t *fabric_graph_save(const struct fabric_graph *g)
{
    json_t *out = json_object(), *nodes = json_array(), *links = json_array();
    jsonx_set_int(out, "v", 1);
    jsonx_set_str(out, "name", g->name);
    jsonx_set_str(out, "rule", rule_names[g->rule]);
    jsonx_set_int(out, "hosts", (int64_t)g->hosts);
    jsonx_set_int(out, "rails", (int64_t)g->rails);
    for (size_t i = 0; i < g->node_count; i++) {
        const struct fabric_node *n = &g->nodes[i];
        json_t *row = json_object();
        jsonx_set_str(row, "name", n->name);
        jsonx_set_str(row, "kind", kind_names[n->kind]);
        jsonx_set_int(row, "level", n->level);
        jsonx_set_int(row, "host", n->host);
        jsonx_set_int(row, "rail", n->rail);
        jsonx_append(nodes, row);
    }
    for (size_t i = 0; i < g->link_count; i++) {
        const struct fabric_link *l = &g->links[i];
        json_t *row = json_object();
        jsonx_set_int(row, "a", l->a);
        jsonx_set_int(row, "port_a", l->port_a);
        jsonx_set_int(row, "b", l->b);
        jsonx_set_int(row, "port_b", l->port_b);
        jsonx_set_num(row, "bps", l->bps);
        jsonx_append(links, row);
    }
    jsonx_set(out, "nodes", nodes);
    jsonx_set(out, "links", links);
    return out;
}

static int get_bounded(const json_t *row, const char *what, const char *key, int64_t min,
                       int64_t max, int64_t *out, struct err *err)
{
    int64_t value = 0;
    if (jsonx_get_int(row, what, key, &value, err) != 0)
        return -1;
    if (value < min || value > max)
        return err_set(err, ERR_DATA, "%s: '%s' is %lld, outside %lld to %lld", what, key,
                       (long long)value, (long long)min, (long long)max);
    *out = value;
    return 0;
}

static int load_node(struct fabric_graph *g, const json_t *row, const char *what, struct err *err)
{
    static const char *const keys[] = {"name", "kind", "level", "host", "rail", NULL};
    const char *name = NULL, *kind = NULL;
    int64_t level = 0, host = 0, rail = 0;
    if (jsonx_only_keys(row, what, keys, err) != 0 ||
        jsonx_get_str(row, what, "name", &name, err) != 0 ||
        jsonx_get_str(row, what, "kind", &kind, err) != 0 ||
        get_bounded(row, what, "level", 0, 16, &level, err) != 0 ||
        get_bounded(row, what, "host", FABRIC_NONE, FABRIC_MAX_NODES, &host, err) != 0 ||
        get_bounded(row, what, "rail", FABRIC_NONE, FABRIC_MAX_NODES, &rail, err) != 0)
        return -1;
    for (int k = FABRIC_HOST; k < FABRIC_KIND__COUNT; k++)
        if (strcmp(kind, kind_names[k]) == 0) {
            fabric_graph_add_node(g, (enum fabric_kind)k, (int)level, (int32_t)host, (int32_t)rail,
                                  name);
            return 0;
        }
    return err_set(err, ERR_DATA, "%s: kind '%s'; there are host, gpu, pcie, nic, nvswitch, switch",
                   what, kind);
}

static int load_link(struct fabric_graph *g, const json_t *row, const char *what, struct err *err)
{
    static const char *const keys[] = {"a", "port_a", "b", "port_b", "bps", NULL};
    int64_t a = 0, b = 0, port_a = 0, port_b = 0, last = (int64_t)g->node_count - 1;
    double bps = 0;
    if (jsonx_only_keys(row, what, keys, err) != 0 ||
        get_bounded(row, what, "a", 0, last, &a, err) != 0 ||
        get_bounded(row, what, "b", 0, last, &b, err) != 0 ||
        get_bounded(row, what, "port_a", 0, 65535, &port_a, err) != 0 ||
        get_bounded(row, what, "port_b", 0, 65535, &port_b, err) != 0 ||
        jsonx_get_num(row, what, "bps", &bps, err) != 0)
        return -1;
    if (!(bps > 0))
        return err_set(err, ERR_DATA, "%s: 'bps' must be above 0", what);
    if (a == b)
        return err_set(err, ERR_DATA, "%s: both ends are node %lld", what, (long long)a);
    fabric_graph_add_link(g, (uint32_t)a, (unsigned)port_a, (uint32_t)b, (unsigned)port_b, bps);
    return 0;
}

typedef int load_row_fn(struct fabric_graph *g, const json_t *row, const char *what,
                        struct err *err);

static int load_rows(struct fabric_graph *g, const json_t *rows, const char *what, const char *key,
                     load_row_fn *load, struct err *err)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        AUTO(free_str) char *place = str_printf("%s: %s[%zu]", what, key, i);
        const json_t *row = json_array_get(rows, i);
        if (!json_is_object(row))
            return err_set(err, ERR_DATA, "%s must be an object", place);
        if (load(g, row, place, err) != 0)
            return -1;
    }
    return 0;
}

static int load_head(const json_t *value, const char *what, struct fabric_graph **out,
                     struct err *err)
{
    static const char *const keys[] = {"v",     "name",  "rule",  "hosts",
                                       "rails", "nodes", "links", NULL};
    const char *name = NULL, *rule = NULL;
    int64_t version = 0, hosts = 0, rails = 0;
    if (!json_is_object(value))
        return err_set(err, ERR_DATA, "%s: a fabric must be an object", what);
    if (jsonx_only_keys(value, what, keys, err) != 0 ||
        get_bounded(value, what, "v", 1, 1, &version, err) != 0 ||
        jsonx_get_str(value, what, "name", &name, err) != 0 ||
        jsonx_get_str(value, what, "rule", &rule, err) != 0 ||
        get_bounded(value, what, "hosts", 1, 65536, &hosts, err) != 0 ||
        get_bounded(value, what, "rails", 1, 64, &rails, err) != 0)
        return -1;
    bool spread = strcmp(rule, rule_names[FABRIC_SPREAD]) == 0;
    if (!spread && strcmp(rule, rule_names[FABRIC_FIRST_PORT]) != 0)
        return err_set(err, ERR_DATA, "%s: rule '%s'; there are spread and first_port", what, rule);
    *out = fabric_graph_create(name, (size_t)hosts, (size_t)rails);
    (*out)->rule = spread ? FABRIC_SPREAD : FABRIC_FIRST_PORT;
    return 0;
}

int fabric_graph_load(const json_t *value, const char *what, struct fabric_graph **out,
                      struct err *err)
{
    AUTO(fabric_graph_drop) struct fabric_graph *g = NULL;
    const json_t *nodes = NULL, *links = NULL;
    if (load_head(value, what, &g, err) != 0 ||
        jsonx_get_arr(value, what, "nodes", &nodes, err) != 0 ||
        jsonx_get_arr(value, what, "links", &links, err) != 0)
        return -1;
    if (json_array_size(nodes) > FABRIC_MAX_NODES || json_array_size(links) > FABRIC_MAX_NODES)
        return err_set(err, ERR_DATA, "%s: more than %d nodes or links", what, FABRIC_MAX_NODES);
    if (load_rows(g, nodes, what, "nodes", load_node, err) != 0 ||
        load_rows(g, links, what, "links", load_link, err) != 0)
        return -1;
    if (fabric_graph_finish(g, err) != 0)
        return err_wrap(err, "%s: ", what);
    *out = STEAL(g);
    return 0;
}
