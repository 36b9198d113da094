/* The cable plan against the subnet that was found: each difference as a sentence for an engineer
 * with the cable in the hand, and the fewest moves of plugs that put everything right.
 *
 * Ports whose planned and found partners differ hang together in chains and rings; in each of them
 * every misplaced cable keeps one plug where it is and moves the other, so the moves are as many as
 * the misplaced cables, which is the least.  Pure; one call, one thread. */
#ifndef MUSTER_FABRIC_SUBNET_CABLES_H
#define MUSTER_FABRIC_SUBNET_CABLES_H

#include <jansson.h>

#include "common/err.h"
#include "fabric/subnet/cable_plan.h"
#include "fabric/subnet/subnet.h"

struct cables_result {
    size_t planned, in_place; /* cables */
    size_t moves, to_plug, to_remove;
};

/* Appends findings {"cause","subject","text","moves":[{"from","to","other_end"}]} with the causes
 * cable-swapped, cable-wrong-port, cable-missing, cable-extra, cable-narrow, cable-slow,
 * node-missing (nothing of it is seen) and node-silent (links to it are up, it does not answer).
 *
 * ERR_DATA: a name of the plan means two nodes, or a node has fewer ports than the plan says; then
 * findings is as before. */
int cables_compare(const struct cable_plan *plan, const struct subnet *s, json_t *findings,
                   struct cables_result *result, struct err *err);

#endif
