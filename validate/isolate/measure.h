/* The measuring interface: what to measure at one time, and what came back.
 *
 * The planner makes a plan, a backend (agents over SSH, or the simulator) runs it, the solver reads
 * the results.  Nothing above this line knows which backend it is.  All flows of a plan run at the
 * same time.  An item is the unit that gets one answer: one flow, or a group that runs a collective
 * (its slowest flow is its answer).  No two items of a plan use the same endpoint in one direction,
 * unless the planner wants them to. */
#ifndef MUSTER_VALIDATE_ISOLATE_MEASURE_H
#define MUSTER_VALIDATE_ISOLATE_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "validate/isolate/fabric_graph.h"

enum measure_probe {
#define PROBE(id, name, noun, scope, unit, limit) MEASURE_##id,
#include "validate/isolate/probes.def"
#undef PROBE
    MEASURE_PROBE__COUNT
};

enum measure_scope { MEASURE_SELF, MEASURE_LOCAL, MEASURE_NET };

struct measure_probe_row {
    const char *name, *noun, *unit;
    enum measure_scope scope;
    double limit;
};
const struct measure_probe_row *measure_probe_row(enum measure_probe probe);
static inline uint32_t measure_bit(enum measure_probe probe)
{
    return 1U << probe;
}

/* From one endpoint to another; SELF and loopbacks have from == to. */
struct measure_flow {
    enum measure_probe probe;
    uint32_t from, to;
};

struct measure_item {
    uint32_t first_flow, flow_count;
};

struct measure_plan {
    struct measure_flow *flows;
    size_t flow_count;
    struct measure_item *items;
    size_t item_count;
    bool quiet;       /* few flows: what fails here did not fail by sharing a link */
    unsigned repeats; /* each item is measured so often, one after the other; at least 1 */
    const char *why;  /* for the log: a constant string */
};

/* A flow as an item of its own. */
void measure_plan_add(struct measure_plan *p, enum measure_probe probe, size_t from, size_t to);
/* One item of several flows: open, add flows, close. */
void measure_plan_group(struct measure_plan *p, const struct measure_flow flows[], size_t count);
void measure_plan_release(struct measure_plan *p);

enum measure_outcome {
    MEASURE_MISSING = 0, /* no answer: proves nothing about the way */
    MEASURE_OK,
    MEASURE_DEAD /* both ends answered, nothing arrived */
};

/* The way that the transport took, from its proof. */
enum measure_way { MEASURE_DIRECT = 0, MEASURE_BOUNCE, MEASURE_SOCKET };

struct measure_result {
    enum measure_outcome outcome;
    enum measure_way way;
    double value; /* in the probe's unit; SELF: share of the nominal */
};

/* results: repeats * item_count values, repeat by repeat.  Returns 0, or -1 with err when nothing
 * could be measured at all; a single item without answer is a result, not an error. */
struct measure_backend {
    int (*run)(void *ctx, const struct measure_plan *plan, struct measure_result results[],
               struct err *err);
    double (*clock)(void *ctx); /* seconds that measuring took so far; for the deadline */
    void *ctx;
};

enum { MEASURE_MAX_ELEMENTS = 2 * FABRIC_MAX_HOPS + 24 };

/* Elements that a flow crosses, those of both ends included; out holds MEASURE_MAX_ELEMENTS. */
size_t measure_elements(const struct fabric_graph *g, const struct measure_flow *flow,
                        uint32_t out[]);

/* Shares of flows that run at the same time: max-min fair over the links, and none above its own
 * limit.  capacity: bit/s per edge (2 * link_count).  limit: bit/s per flow, or NULL.  Flows of
 * SELF and latency probes use no bandwidth; their share is 1.  share: flow_count values. */
void measure_shares(const struct fabric_graph *g, const struct measure_flow flows[],
                    size_t flow_count, const double capacity[], const double limit[],
                    double share[]);
/* Link rates as built. */
double *measure_capacity(const struct fabric_graph *g);
/* Latency of a small message on a healthy way with so many switches, in seconds.  The constants are
 * a model's: 1.7 us for two adapters, 0.15 us per switch. */
double measure_latency(size_t switches);

#endif
