/* What was measured so far, in the form that the solver reads: per item and repeat a verdict, and
 * per round which elements each flow crossed and how full each edge should have been.
 *
 * Expectations come from the graph (fair shares on the healthy fabric); what this cluster reaches
 * of them is learned from the median of the first round with at least OBSERVE_PEERS items of a
 * probe, so that an efficiency that all nodes share is no fault of one.  One object, one thread. */
#ifndef MUSTER_VALIDATE_ISOLATE_OBSERVE_H
#define MUSTER_VALIDATE_ISOLATE_OBSERVE_H

#include "validate/isolate/measure.h"

enum { OBSERVE_PEERS = 8 };

/* A plan with all that follows from the graph alone; may be shared by many observations. */
struct observe_round {
    struct measure_plan plan;
    uint32_t *first_path; /* per flow, into path; flow_count + 1 values */
    uint32_t *path;
    double *expected; /* per item: bit/s, s, or 1 */
    float *filled;    /* per flow: share of what its way could carry alone */
    float *load;      /* per edge: share of its capacity that a healthy fabric carries here */
};
/* Takes the plan over (it is empty afterwards).  Never NULL. */
struct observe_round *observe_prepare(const struct fabric_graph *g, struct measure_plan *plan);
void observe_round_destroy(struct observe_round *round);

enum observe_verdict { OBSERVE_MISSING = 0, OBSERVE_PASS, OBSERVE_FAIL };

struct observe_record {
    uint32_t round, item;
    uint32_t test; /* number of the round or repeat, from 0: one moment in time */
    enum observe_verdict verdict;
    enum measure_way way;
    float ratio; /* of what was expected; 0 for dead; above 1 is bad for latencies */
};

struct observe {
    const struct fabric_graph *g;
    const struct observe_round **rounds;
    bool *owned;
    size_t round_count;
    struct observe_record *records;
    size_t record_count;
    double efficiency[MEASURE_PROBE__COUNT]; /* 0 until learned */
    size_t tests;                            /* rounds, each repeat counted */
    size_t answers, missing;
};

struct observe *observe_create(const struct fabric_graph *g);
void observe_destroy(struct observe *o);
/* results: plan.repeats * plan.item_count values.  owned: the round is released with o. */
void observe_add(struct observe *o, const struct observe_round *round, bool owned,
                 const struct measure_result results[]);
static inline const struct measure_item *observe_item(const struct observe *o,
                                                      const struct observe_record *r)
{
    return &o->rounds[r->round]->plan.items[r->item];
}
/* "RDMA of GPU memory gpu001 mlx5_0 > gpu017 mlx5_0: 201.3 Gbit/s, 50 % of what is expected".  The
 * caller frees. */
char *observe_describe(const struct observe *o, size_t record);

#endif
