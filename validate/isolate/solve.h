/* From measurements to the smallest set of parts that explains them.
 *
 * Each failed measurement must be explained by a part on its way (or by chance: a straggler).  A
 * part is believed in proportion to its prior times how well it explains what failed and what
 * passed: a pass through a part that would have shown the fault speaks against it, with a stated
 * chance of a miss; a pass that could not have shown it (an edge that was not loaded enough) says
 * nothing.  A part that fails only sometimes is a hypothesis of its own, integrated over its
 * unknown rate. Faults are taken out one after the other, the one that explains most first.  Pure.
 */
#ifndef MUSTER_VALIDATE_ISOLATE_SOLVE_H
#define MUSTER_VALIDATE_ISOLATE_SOLVE_H

#include "validate/isolate/observe.h"

enum solve_part {
    SOLVE_NOTHING = 0,
#define PART(id, on, probes, log_prior, text) SOLVE_##id,
#include "validate/isolate/parts.def"
#undef PART
    SOLVE_PART__COUNT
};
enum solve_on {
    SOLVE_ON_HOST = FABRIC_HOST,
    SOLVE_ON_GPU = FABRIC_GPU,
    SOLVE_ON_PCIE = FABRIC_PCIE,
    SOLVE_ON_NIC = FABRIC_NIC,
    SOLVE_ON_NVSWITCH = FABRIC_NVSWITCH,
    SOLVE_ON_SWITCH = FABRIC_SWITCH,
    SOLVE_ON_LINK,
    SOLVE_ON_EDGE,
    SOLVE_ON_PAIR
};
struct solve_part_row {
    const char *id, *text;
    enum solve_on on;
    uint32_t probes; /* bits of enum measure_probe */
    double log_prior;
};
const struct solve_part_row *solve_part_row(enum solve_part part);

enum {
    SOLVE_MAX_SUSPECTS = 96, /* kept per fault, the most probable ones */
    SOLVE_MAX_FAULTS = 64
};

/* One hypothesis.  element: of the graph; for a link its first edge; for a pair its first endpoint,
 * with the other one in peer. */
struct solve_suspect {
    enum solve_part part;
    uint32_t element, peer;
    double belief;          /* posterior within this fault, chance included */
    unsigned fails, passes; /* measurements through it; passes: those that should have shown it */
    double severity;        /* rate that is left, 0 for dead */
    bool sometimes;         /* explained better as intermittent */
};

struct solve_fault {
    struct solve_suspect suspects[SOLVE_MAX_SUSPECTS]; /* falling belief */
    size_t suspect_count;
    double chance;      /* belief that nothing is at fault: stragglers */
    unsigned rounds;    /* distinct moments (rounds or repeats) in which it showed */
    unsigned quiet;     /* of them in quiet rounds */
    unsigned fails;     /* failed measurements that it explains */
    uint32_t *evidence; /* fails record numbers */
    bool doubtful;      /* rests on pairs, and the answer is doubtful */
};

struct solve_answer {
    struct solve_fault *faults;
    size_t fault_count;
    bool doubtful; /* more separate faults between hosts than a fabric has: the ways are not those
                    * that the graph says, and flows that share links look like faults.  Then
                    * nothing that rests on pairs is convicted. */
};

struct solve_answer *solve_run(const struct observe *o);
void solve_answer_destroy(struct solve_answer *a);

/* A fault is convicted when its belief against chance is at least this, it showed in two moments,
 * and in one of them hardly anything else ran: flows that share a link on ways that the search does
 * not know (wrong tables) look like faults in a full round, not in a quiet one. */
extern const double solve_conviction;
/* Suspects whose belief is at least the first one's times this are named. */
extern const double solve_named_share;

bool solve_is_convicted(const struct solve_fault *f);
/* How many of the suspects are named (at least 1 when there is one). */
size_t solve_named(const struct solve_fault *f);
/* Does this flow cross the suspect, in a measurement in which it shows?  path: its elements. */
bool solve_crosses(const struct fabric_graph *g, const struct solve_suspect *s,
                   const struct measure_flow *flow, const uint32_t path[], size_t length);
/* Two hypotheses that blame the same piece of hardware: a link whatever its direction and symptom,
 * a node of the graph whatever its aspect. */
bool solve_same_part(const struct solve_suspect *a, const struct solve_suspect *b);
/* For a person: "gpu017 mlx5_3 port 1 <-> leaf4 port 22".  The caller frees. */
char *solve_suspect_name(const struct fabric_graph *g, const struct solve_suspect *s);

#endif
