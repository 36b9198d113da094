#include "validate/isolate/observe.h"

#include <math.h>
#include <stdlib.h>

#include "common/units.h"
#include "common/util.h"

void observe_round_destroy(struct observe_round *round)
{
    if (!round)
        return;
    measure_plan_release(&round->plan);
    free(round->first_path);
    free(round->path);
    free(round->expected);
    free(round->filled);
    free(round->load);
    free(round);
}

static void keep_paths(struct observe_round *r, const struct fabric_graph *g)
{
    uint32_t path[MEASURE_MAX_ELEMENTS];
    size_t count = 0, room = 0;
    r->first_path = mem_zero(r->plan.flow_count + 1, sizeof *r->first_path);
    for (size_t i = 0; i < r->plan.flow_count; i++) {
        size_t length = measure_elements(g, &r->plan.flows[i], path);
        if (count + length > room) {
            room = 2 * (count + length);
            r->path = mem_grow(r->path, room, sizeof *r->path);
        }
        r->first_path[i] = (uint32_t)count;
        for (size_t k = 0; k < length; k++)
            r->path[count++] = path[k];
    }
    r->first_path[r->plan.flow_count] = (uint32_t)count;
}

static double latency_of(const struct observe_round *r, const struct fabric_graph *g, size_t flow)
{
    size_t switches = 0, edges = 2 * g->link_count;
    for (uint32_t k = r->first_path[flow]; k < r->first_path[flow + 1]; k++)
        if (r->path[k] >= edges && g->nodes[r->path[k] - edges].kind == FABRIC_SWITCH)
            switches++;
    return measure_latency(switches);
}

/* Rate of the narrowest link on the way of a flow; 1 where there is none. */
static double alone(const struct observe_round *r, size_t flow, const double capacity[],
                    size_t edges)
{
    double least = INFINITY;
    for (uint32_t k = r->first_path[flow]; k < r->first_path[flow + 1]; k++)
        if (r->path[k] < edges)
            least = fmin(least, capacity[r->path[k]]);
    return isfinite(least) ? least : 1;
}

static void expect(struct observe_round *r, const struct fabric_graph *g)
{
    const struct measure_plan *p = &r->plan;
    size_t edges = 2 * g->link_count;
    double *share = mem_zero(p->flow_count + 1, sizeof *share);
    double *capacity = measure_capacity(g);
    measure_shares(g, p->flows, p->flow_count, capacity, NULL, share);
    r->expected = mem_zero(p->item_count + 1, sizeof *r->expected);
    r->load = mem_zero(edges + 1, sizeof *r->load);
    r->filled = mem_zero(p->flow_count + 1, sizeof *r->filled);
    for (size_t f = 0; f < p->flow_count; f++)
        r->filled[f] =
            (float)(p->flows[f].probe == MEASURE_SMALL ? 1
                                                       : share[f] / alone(r, f, capacity, edges));
    for (size_t i = 0; i < p->item_count; i++) {
        double least = INFINITY, slowest = 0;
        for (uint32_t f = p->items[i].first_flow;
             f < p->items[i].first_flow + p->items[i].flow_count; f++) {
            least = fmin(least, share[f]);
            slowest = fmax(slowest, latency_of(r, g, f));
            for (uint32_t k = r->first_path[f]; k < r->first_path[f + 1]; k++)
                if (r->path[k] < edges)
                    r->load[r->path[k]] += (float)(share[f] / capacity[r->path[k]]);
        }
        bool latency = p->flows[p->items[i].first_flow].probe == MEASURE_SMALL;
        r->expected[i] = latency ? slowest : least;
    }
    free(capacity);
    free(share);
}

struct observe_round *observe_prepare(const struct fabric_graph *g, struct measure_plan *plan)
{
    struct observe_round *r = mem_zero(1, sizeof *r);
    r->plan = *plan;
    *plan = (struct measure_plan){0};
    keep_paths(r, g);
    expect(r, g);
    return r;
}

struct observe *observe_create(const struct fabric_graph *g)
{
    struct observe *o = mem_zero(1, sizeof *o);
    o->g = g;
    return o;
}

void observe_destroy(struct observe *o)
{
    if (!o)
        return;
    for (size_t i = 0; i < o->round_count; i++)
        if (o->owned[i])
            observe_round_destroy((struct observe_round *)(uintptr_t)o->rounds[i]);
    free(o->rounds);
    free(o->owned);
    free(o->records);
    free(o);
}

static enum measure_probe probe_of(const struct observe_round *r, size_t item)
{
    return r->plan.flows[r->plan.items[item].first_flow].probe;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void learn(struct observe *o, const struct observe_round *r,
                  const struct measure_result results[])
{
    double *ratios = mem_zero(r->plan.item_count + 1, sizeof *ratios);
    for (int probe = 0; probe < MEASURE_PROBE__COUNT; probe++) {
        size_t count = 0;
        for (size_t i = 0; i < r->plan.item_count && o->efficiency[probe] == 0; i++)
            if ((int)probe_of(r, i) == probe && results[i].outcome == MEASURE_OK)
                ratios[count++] = results[i].value / r->expected[i];
        if (count < OBSERVE_PEERS)
            continue;
        qsort(ratios, count, sizeof *ratios, compare);
        o->efficiency[probe] = ratios[count / 2];
    }
    free(ratios);
}

static struct observe_record judge(const struct observe *o, const struct observe_round *r,
                                   size_t item, const struct measure_result *result)
{
    enum measure_probe probe = probe_of(r, item);
    double limit = measure_probe_row(probe)->limit;
    double reached = o->efficiency[probe] > 0 ? o->efficiency[probe] : 1;
    struct observe_record record = {.round = (uint32_t)o->round_count, .item = (uint32_t)item};
    record.way = result->way;
    if (result->outcome == MEASURE_MISSING)
        return record;
    double ratio = result->value / r->expected[item] / reached;
    if (result->outcome == MEASURE_DEAD || !isfinite(ratio))
        ratio = 0;
    bool bad = limit > 1 ? ratio > limit || ratio <= 0 : ratio < limit;
    record.ratio = (float)ratio;
    record.verdict = bad || result->way != MEASURE_DIRECT ? OBSERVE_FAIL : OBSERVE_PASS;
    return record;
}

void observe_add(struct observe *o, const struct observe_round *round, bool owned,
                 const struct measure_result results[])
{
    size_t count = round->plan.item_count * round->plan.repeats;
    learn(o, round, results);
    o->records = mem_grow(o->records, o->record_count + count + 1, sizeof *o->records);
    for (size_t i = 0; i < count; i++) {
        struct observe_record r = judge(o, round, i % round->plan.item_count, &results[i]);
        r.test = (uint32_t)(o->tests + i / round->plan.item_count);
        o->records[o->record_count++] = r;
        if (r.verdict == OBSERVE_MISSING)
            o->missing++;
        else
            o->answers++;
    }
    o->rounds = mem_grow(o->rounds, o->round_count + 1, sizeof(*o->rounds));
    o->owned = mem_grow(o->owned, o->round_count + 1, sizeof *o->owned);
    o->rounds[o->round_count] = round;
    o->owned[o->round_count++] = owned;
    o->tests += round->plan.repeats;
}

char *observe_describe(const struct observe *o, size_t record)
{
    static const char *const ways[] = {"", ", bounced through host memory", ", over sockets"};
    const struct observe_record *r = &o->records[record];
    const struct measure_item *item = observe_item(o, r);
    const struct measure_flow *f = &o->rounds[r->round]->plan.flows[item->first_flow];
    const struct measure_probe_row *row = measure_probe_row(f->probe);
    bool net = row->scope == MEASURE_NET;
    AUTO(free_str)
    char *from = fabric_graph_node_name(o->g, net ? o->g->nic[f->from] : o->g->gpu[f->from]);
    AUTO(free_str)
    char *to = fabric_graph_node_name(o->g, net ? o->g->nic[f->to] : o->g->gpu[f->to]);
    double value = r->ratio * o->rounds[r->round]->expected[r->item];
    AUTO(free_str) char *shown = units_format(value, row->unit);
    AUTO(free_str)
    char *rest = item->flow_count > 1 ? str_printf(" in a group of %u flows", item->flow_count)
                                      : str_dup("");
    if (r->verdict == OBSERVE_MISSING)
        return str_printf("%s %s > %s%s: no answer", row->noun, from, to, rest);
    if (r->ratio <= 0)
        return str_printf("%s %s > %s%s: nothing arrived", row->noun, from, to, rest);
    return str_printf("%s %s > %s%s: %s, %.0f %% of what is expected%s", row->noun, from, to, rest,
                      shown, 100 * (double)r->ratio, ways[r->way]);
}
