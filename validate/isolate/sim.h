/* A simulated fabric behind the measuring interface.  Nothing that it returns was measured.
 *
 * Flows that run at the same time share links max-min fairly after the planted faults have taken
 * their part; noise, stragglers and missing answers come on top, all from one seed.  What it leaves
 * out: congestion that spreads (PFC, credits), adaptive routing, queueing delay. */
#ifndef MUSTER_VALIDATE_ISOLATE_SIM_H
#define MUSTER_VALIDATE_ISOLATE_SIM_H

#include "validate/isolate/rng.h"
#include "validate/isolate/solve.h"

/* One planted fault, at a part of the solver's own kinds. */
struct sim_fault {
    struct solve_suspect where; /* part, element, peer */
    double left;                /* rate that is left; 0 dead; 1 unchanged */
    double latency;             /* factor on the latency of small messages; 1 unchanged, 0 dead */
    double loss;                /* share of packets lost */
    double spread;              /* left varies evenly by this share of itself per measurement */
    double probability;         /* per measurement; 1 always */
    enum measure_way way;       /* MEASURE_DIRECT: unchanged */
    bool mute;                  /* the host does not answer at all */
};

struct sim_conditions {
    double straggler; /* chance that a host is slow for one measurement */
    double missing;   /* chance that a host does not answer one measurement */
    double noise;     /* factor on the spread of noise.def; 0 none */
};
extern const struct sim_conditions sim_usual; /* what muster prove uses */

struct sim {
    const struct fabric_graph *g;
    struct sim_conditions conditions;
    struct sim_fault *faults;
    size_t fault_count;
    struct rng rng;
    size_t tests, flows; /* used so far */
    double seconds;      /* simulated wall time */
};

void sim_open(struct sim *s, const struct fabric_graph *g, const struct sim_conditions *conditions,
              uint64_t seed);
void sim_plant(struct sim *s, const struct sim_fault *fault);
void sim_close(struct sim *s);
/* Valid until sim_close(). */
struct measure_backend sim_backend(struct sim *s);

/* Rate that is left when a share of packets is lost and all that follows one is sent again. */
double sim_rate_at_loss(double loss);
/* One row of noise.def for the documentation. */
const char *sim_noise_source(enum measure_probe probe);
/* Model of what a round costs, in seconds: set-up, then so much per repeat. */
extern const double sim_setup_s, sim_repeat_s;

#endif
