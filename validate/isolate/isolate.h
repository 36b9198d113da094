/* The whole search: screen, solve, measure what splits best, until one part is left or the limits
 * are reached.  The same for agents and for the simulator. */
#ifndef MUSTER_VALIDATE_ISOLATE_ISOLATE_H
#define MUSTER_VALIDATE_ISOLATE_ISOLATE_H

#include "validate/isolate/next.h"
#include "validate/isolate/screen.h"

struct isolate_result {
    struct observe *observed;
    struct solve_answer *answer;
    size_t screen_tests, follow_tests;
    bool limited;     /* ended by the limits with something still open */
    uint32_t *silent; /* hosts that never answered, though asked in at least two rounds */
    size_t silent_count;
    double cpu_s; /* of the planning and solving, the backend's time left out */
};

/* Returns 0 with *out for isolate_result_destroy(); -1 with the backend's err. */
int isolate_run(const struct fabric_graph *g, const struct screen *screen,
                const struct measure_backend *backend, const struct next_limits *limits,
                uint64_t seed, struct isolate_result **out, struct err *err);
void isolate_result_destroy(struct isolate_result *r);

/* {"faults":[{"state","candidates":[{"part","kind","belief","rate_left","intermittent"}],
 *   "confidence","fails","moments","evidence":[TEXT],"advice"}],"silent":[NODE],
 *  "tests":{"screen","follow_up","measurements"},"limited","routes_doubtful"}.  A new reference. */
json_t *isolate_report(const struct isolate_result *r, const struct next_limits *limits);

#endif
