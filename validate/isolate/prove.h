/* How good the search is: faults planted into simulated fabrics, and what it made of them.
 *
 * Every figure is of a SIMULATED fabric.  A trial is
 *   right   every planted part is convicted, and all that is named is a planted part or cannot be
 *           told from it by any measurement over this fabric (checked against the routes)
 *   wide    something planted is among the named, but not all is found or more is named
 *   wrong   a conviction that names no planted part
 *   missed  no conviction
 * "found" below means convicted.  The search knows the routes of its graph; with settings.real the
 * simulated traffic takes other ones, which shows what wrong or missing forwarding tables cost.
 * The number of tests counts every round and every repeat. */
#ifndef MUSTER_VALIDATE_ISOLATE_PROVE_H
#define MUSTER_VALIDATE_ISOLATE_PROVE_H

#include "validate/isolate/faults.h"
#include "validate/isolate/isolate.h"

struct prove_settings {
    size_t trials; /* per kind of fault, and of healthy fabrics */
    uint64_t seed;
    const char *only; /* one kind of fault ("healthy" for none), or NULL for all */
    struct next_limits limits;
    struct sim_conditions conditions;
    const struct fabric_graph *real; /* whose routes traffic takes; NULL: those the search knows */
    void (*progress)(void *ctx, const char *kind); /* may be NULL */
    void *ctx;
};

struct prove_tally {
    const char *kind;
    size_t trials, detected, right, wide, wrong, wrong_node;
    size_t *tests;                                  /* per trial */
    double measurements, seconds, cpu_s, cpu_max_s; /* sums, and the slowest trial */
};

/* Wilson's interval for k of n at 95 %. */
void prove_interval(size_t k, size_t n, double *low, double *high);

/* True when some measurement over this fabric crosses one of them and not the other. */
bool prove_told_apart(const struct fabric_graph *g, const struct solve_suspect *a,
                      const struct solve_suspect *b);

/* {"simulated":true,"fabric":S,"hosts":N,"rails":N,"seed":N,"trials":N,"screen":{...},
 *  "healthy":ROW,"kinds":[ROW]}.  A new reference in *out.  ERR_USAGE: no such kind of fault. */
int prove_run(const struct fabric_graph *g, const struct prove_settings *settings, json_t **out,
              struct err *err);

#endif
