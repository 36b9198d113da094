/* The first rounds, the same for every fabric of this shape: each GPU by itself, the copies inside
 * each host, then perfect matchings of all hosts, chosen so that few of them load every edge.
 *
 * In a fat-tree with tables by destination a matching of leaf against leaf with one common offset
 * meets no contention; among such matchings and random ones the one is taken that fills most edges
 * that no round has filled yet.  Where switches with hosts are neighbours (a torus), matchings of
 * neighbours are tried too: across a torus distant pairs share links and show little.  Constant
 * after creation: may be shared by many runs. */
#ifndef MUSTER_VALIDATE_ISOLATE_SCREEN_H
#define MUSTER_VALIDATE_ISOLATE_SCREEN_H

#include "validate/isolate/observe.h"

enum { SCREEN_MATCHINGS_MAX = 8, SCREEN_ROUNDS_MAX = 5 + SCREEN_MATCHINGS_MAX };

struct screen {
    struct observe_round *rounds[SCREEN_ROUNDS_MAX];
    size_t count;
    size_t edges, exercised; /* directed edges; those that a round fills to at least 90 % */
};

struct screen *screen_create(const struct fabric_graph *g, uint64_t seed);
void screen_destroy(struct screen *s);

#endif
