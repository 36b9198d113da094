/* Chains and rings of misplaced cables.  Internal to cables*.c. */
#ifndef MUSTER_FABRIC_SUBNET_CABLES_PARTS_H
#define MUSTER_FABRIC_SUBNET_CABLES_PARTS_H

#include "fabric/subnet/cables.h"

enum { NOWHERE = -1 };

/* A port, and where the cable in it leads by the plan and in truth. */
struct place {
    int node;
    unsigned port;
    int planned, found;        /* places, NOWHERE */
    const struct cable *cable; /* of the plan */
    bool done;
};

/* A node of the plan that the subnet does not have. */
struct lost {
    const char *name;
};

struct cables {
    const struct cable_plan *plan;
    const struct subnet *s;
    json_t *findings;
    struct cables_result *result;
    struct lost *lost;
    size_t lost_count;
    int *base;
    struct place *places;
    size_t place_count;
};

/* "leaf001 port 3"; "spine001 port 2 (Polling)".  The caller frees. */
char *cables_place_text(const struct cables *c, int at);
char *cables_place_state(const struct cables *c, int at);

/* Reports nodes of which no planned cable is there, and takes their places out. */
void cables_lost_nodes(struct cables *c);
/* Reports the chain that ends at a place, the ring through a place. */
void cables_chain(struct cables *c, int at);
void cables_ring(struct cables *c, int at);

#endif
