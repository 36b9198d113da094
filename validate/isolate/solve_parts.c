/* The rows of parts.def, and what a hypothesis means on the graph. */
#include <math.h>
#include <string.h>

#include "common/util.h"
#include "validate/isolate/solve.h"

#define BIT(id) (1U << MEASURE_##id)
enum {
    ON_GPUDIRECT = BIT(PAIR_GPU) | BIT(LOOP_GPU),
    ON_NETWORK_RATE = BIT(PAIR_GPU) | BIT(PAIR_HOST),
    ON_NETWORK = ON_NETWORK_RATE | BIT(SMALL),
    ON_HOST_MEMORY = BIT(H2D) | BIT(D2H) | BIT(LOOP_HOST) | BIT(PAIR_HOST),
    ON_P2P = BIT(P2P),
    ON_SMALL = BIT(SMALL),
    ON_MEMORY = BIT(MEMORY),
    ON_CLOCK = BIT(COMPUTE),
    ON_COMPUTE = BIT(COMPUTE) | BIT(SM_COUNT),
    ON_RATE = BIT(H2D) | BIT(D2H) | BIT(P2P) | BIT(LOOP_GPU) | BIT(LOOP_HOST) | ON_NETWORK_RATE,
    ON_ALL = ON_RATE | ON_SMALL | ON_MEMORY | ON_COMPUTE,
    ON_NODE = ON_ALL & ~BIT(SM_COUNT)
};

static const struct solve_part_row rows[] = {
    [SOLVE_NOTHING] = {.id = "nothing", .text = "chance"},
#define PART(id_, on_, probes_, prior_, text_)                                                     \
    [SOLVE_##id_] = {.id = #id_,                                                                   \
                     .text = (text_),                                                              \
                     .on = SOLVE_ON_##on_,                                                         \
                     .probes = (probes_),                                                          \
                     .log_prior = (prior_)},
#include "validate/isolate/parts.def"
#undef PART
};
_Static_assert(ARRAY_LEN(rows) == SOLVE_PART__COUNT, "a row per part");

const struct solve_part_row *solve_part_row(enum solve_part part)
{
    return &rows[part];
}

static bool joins(const struct solve_suspect *s, const struct measure_flow *flow)
{
    return (s->element == flow->from && s->peer == flow->to) ||
           (s->element == flow->to && s->peer == flow->from);
}

bool solve_crosses(const struct fabric_graph *g, const struct solve_suspect *s,
                   const struct measure_flow *flow, const uint32_t path[], size_t length)
{
    const struct solve_part_row *row = &rows[s->part];
    if ((row->probes & measure_bit(flow->probe)) == 0)
        return false;
    if (row->on == SOLVE_ON_PAIR)
        return joins(s, flow);
    for (size_t i = 0; i < length; i++)
        if (path[i] == s->element || (row->on == SOLVE_ON_LINK && path[i] == (s->element ^ 1U)))
            return true;
    return false;
}

bool solve_same_part(const struct solve_suspect *a, const struct solve_suspect *b)
{
    enum solve_on x = rows[a->part].on, y = rows[b->part].on;
    bool line_a = x == SOLVE_ON_LINK || x == SOLVE_ON_EDGE;
    bool line_b = y == SOLVE_ON_LINK || y == SOLVE_ON_EDGE;
    if (line_a || line_b)
        return line_a && line_b && a->element / 2 == b->element / 2;
    if (x == SOLVE_ON_PAIR || y == SOLVE_ON_PAIR)
        return x == y && fmin(a->element, a->peer) == fmin(b->element, b->peer) &&
               fmax(a->element, a->peer) == fmax(b->element, b->peer);
    return x == y && a->element == b->element;
}

static char *element_name(const struct fabric_graph *g, const struct solve_suspect *s)
{
    switch (rows[s->part].on) {
    case SOLVE_ON_LINK:
        return fabric_graph_link_name(g, s->element / 2);
    case SOLVE_ON_EDGE:
        return fabric_graph_edge_name(g, s->element);
    case SOLVE_ON_PAIR: {
        AUTO(free_str) char *a = fabric_graph_node_name(g, g->nic[s->element]);
        AUTO(free_str) char *b = fabric_graph_node_name(g, g->nic[s->peer]);
        return str_printf("%s and %s", a, b);
    }
    default:
        return fabric_graph_node_name(g, s->element - (uint32_t)(2 * g->link_count));
    }
}

char *solve_suspect_name(const struct fabric_graph *g, const struct solve_suspect *s)
{
    if (s->part == SOLVE_NOTHING)
        return str_dup(rows[SOLVE_NOTHING].text);
    AUTO(free_str) char *name = element_name(g, s);
    const char *place = strstr(rows[s->part].text, "%s");
    return str_printf("%s%s", name, place ? place + 2 : "");
}
