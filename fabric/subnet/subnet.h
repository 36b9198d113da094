/* One InfiniBand subnet as it was found: nodes, ports, links, subnet managers.
 *
 * A plain model that discover.c fills and everything else reads; it does no I/O.  Names: a node is
 * called by its description ("leaf001", "node0001 mlx5_0"), by its id ("S-" or "H-" and the GUID in
 * hex) where two nodes share a description.  Thread rule: one subnet, one thread. */
#ifndef MUSTER_FABRIC_SUBNET_SUBNET_H
#define MUSTER_FABRIC_SUBNET_SUBNET_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"
#include "fabric/subnet/rate.h"

enum subnet_node_type { SUBNET_OTHER = 0, SUBNET_CA, SUBNET_SWITCH, SUBNET_ROUTER };
enum subnet_port_state {
    SUBNET_PORT_UNSET = 0,
    SUBNET_DOWN,
    SUBNET_INIT,
    SUBNET_ARMED,
    SUBNET_ACTIVE
};
enum { SUBNET_PHYS_LINK_UP = 5, SUBNET_NO_NODE = -1 };

struct subnet_port {
    bool present;      /* its PortInfo was read */
    uint64_t guid;     /* 0 for a switch's external port */
    unsigned lid, lmc; /* LID 0: none was assigned */
    enum subnet_port_state state;
    unsigned phys;                           /* IBTA PortPhysicalState */
    unsigned width_active;                   /* lanes */
    unsigned width_enabled, width_supported; /* LinkWidth masks */
    enum rate_speed speed_active;
    unsigned speed_enabled, speed_supported; /* sets of enum rate_speed */
    unsigned mtu, mtu_cap; /* IBTA codes; mtu is that in force towards the neighbour */
    unsigned vls;          /* operational data VLs, as a code */
    bool is_sm;            /* a subnet manager runs here, the port says */
    int peer_node;         /* index, SUBNET_NO_NODE without a link */
    unsigned peer_port;
};

struct subnet_node {
    uint64_t guid, system_guid;
    enum subnet_node_type type;
    char *name; /* description, or id where the description is not unique */
    char *description;
    char id[20]; /* "S-b8599f0300a00000" */
    unsigned device_id, vendor_id;
    unsigned lid;              /* of a switch: port 0 */
    unsigned port_count;       /* highest port number */
    struct subnet_port *ports; /* 0..port_count; 0 only for switches */
};

enum subnet_sm_state {
    SUBNET_SM_NOT_ACTIVE = 0,
    SUBNET_SM_DISCOVERING,
    SUBNET_SM_STANDBY,
    SUBNET_SM_MASTER
};
struct subnet_sm {
    int node;
    unsigned port, lid, priority;
    uint64_t guid;
    bool answered; /* its SMInfo was read; else state and priority mean nothing */
    enum subnet_sm_state state;
    unsigned activity;
};

struct subnet {
    struct subnet_node *nodes;
    size_t count;
    struct subnet_sm *sms;
    size_t sm_count;
    unsigned local_sm_lid; /* the SM that the local port knows, 0 none */
    int local_node;
    unsigned local_port;
    json_t *unanswered; /* texts: what did not answer; the subnet is incomplete unless empty */
};

void subnet_init(struct subnet *s);
void subnet_release(struct subnet *s);
/* Adds a node with its ports 0..port_count, all absent and without links; returns its index. */
int subnet_add(struct subnet *s, enum subnet_node_type type, uint64_t guid, const char *description,
               unsigned port_count);
/* Gives each node its name; after the last subnet_add(). */
void subnet_name(struct subnet *s);
/* By name, description, id, GUID ("0x..."), or the first word of a description that no other node
 * shares.  SUBNET_NO_NODE when there is none, or when *ambiguous is set. */
int subnet_find(const struct subnet *s, const char *name, bool *ambiguous);

const char *subnet_type_name(enum subnet_node_type type);
const char *subnet_state_name(enum subnet_port_state state);
const char *subnet_phys_name(unsigned phys);
const char *subnet_sm_state_name(enum subnet_sm_state state);

/* "leaf001 port 3"; "leaf001 port 3 <-> spine001 port 1", the same text from either end.  The
 * caller frees. */
char *subnet_port_text(const struct subnet *s, int node, unsigned port);
char *subnet_link_text(const struct subnet *s, int node, unsigned port);

/* The best that both ends of a link can do.  Ganged widths (8x, 12x), which switches announce
 * though their cables have four lanes, count only when a link of the subnet runs so wide. */
void subnet_link_able(const struct subnet *s, int node, unsigned port, unsigned *lanes,
                      enum rate_speed *speed);
/* Each link once: calls fn for the end with the lower (node, port). */
void subnet_each_link(const struct subnet *s,
                      void (*fn)(const struct subnet *s, int node, unsigned port, void *ctx),
                      void *ctx);

/* {"v":1,"nodes":[],"links":[],"sms":[],"unanswered":[]}: docs/contracts.md, section 12. */
json_t *subnet_to_json(const struct subnet *s);
/* Nodes, links and subnet managers as tables. */
void subnet_print(const struct subnet *s, FILE *out);

/* Appends findings about ports, links and managers: unanswered, init, narrow, slow, mtu. */
void subnet_judge(const struct subnet *s, json_t *findings);
/* Appends one finding {"cause","subject","text"}. */
void subnet_finding(json_t *findings, const char *cause, const char *subject, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
