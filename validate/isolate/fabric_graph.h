/* The fabric as a graph: GPU - PCIe switch - NIC - leaf - spine ..., with what each link can carry
 * and the way that traffic takes.
 *
 * A link is two directed edges: 2*l runs from a to b, 2*l+1 from b to a.  An "element" is whatever
 * can be at fault: an edge e is element e, a node v is element 2*link_count + v.  An endpoint is
 * one rail of one host: host * rails + rail.  Build with fabric_graph_add_*(), then
 * fabric_graph_finish(); after that the graph is constant and may be read by any thread. */
#ifndef MUSTER_VALIDATE_ISOLATE_FABRIC_GRAPH_H
#define MUSTER_VALIDATE_ISOLATE_FABRIC_GRAPH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum {
    FABRIC_MAX_NODES = 4000000, /* of any kind: 65536 hosts with eight rails fit */
    FABRIC_MAX_HOPS = 128,      /* switches on one route; a torus of 32 x 32 x 32 needs 49 */
    FABRIC_NONE = -1
};

enum fabric_kind {
    FABRIC_UNSET = 0,
    FABRIC_HOST,     /* CPU, its memory and the node's software */
    FABRIC_GPU,      /* one per rail */
    FABRIC_PCIE,     /* PCIe switch that joins a GPU, its NIC and the host */
    FABRIC_NIC,      /* one port of an adapter */
    FABRIC_NVSWITCH, /* joins the GPUs of one host; stands for all its NVSwitch chips */
    FABRIC_SWITCH,
    FABRIC_KIND__COUNT
};

/* How a switch picks among several shortest ways to a destination. */
enum fabric_rule {
    FABRIC_SPREAD = 0, /* by the destination's number: what ftree and D-mod-K tables do */
    FABRIC_FIRST_PORT  /* lowest port: dimension order on a torus */
};

struct fabric_node {
    char *name;
    enum fabric_kind kind;
    int level;    /* switches: 1 for a leaf, counted upwards; else 0 */
    int32_t host; /* number of the host it is part of, FABRIC_NONE for a switch */
    int32_t rail; /* of a GPU, PCIe switch or NIC, else FABRIC_NONE */
};

struct fabric_link {
    uint32_t a, b;
    unsigned port_a, port_b; /* as printed on the device; 0 where there is none */
    double bps;              /* each way */
};

struct fabric_hop {
    uint32_t edge, to;
};

struct fabric_graph {
    char *name;
    enum fabric_rule rule;
    struct fabric_node *nodes;
    size_t node_count;
    struct fabric_link *links;
    size_t link_count;
    size_t hosts, rails;
    /* set by fabric_graph_finish() */
    uint32_t *host_node, *nvswitch; /* per host; nvswitch UINT32_MAX where there is none */
    uint32_t *gpu, *pcie, *nic;     /* per endpoint */
    uint32_t *first_hop;            /* per node, into hops; node_count + 1 values */
    struct fabric_hop *hops;        /* by port number within a node */
    uint32_t *leaf_of;              /* per endpoint: the leaf's number among leaves */
    uint32_t *place_of;             /* per endpoint: destination number used by FABRIC_SPREAD */
    uint32_t *leaf_node;            /* per leaf */
    size_t leaf_count, switch_count;
    uint32_t *switch_index;  /* per node, UINT32_MAX for what is no switch */
    unsigned char *distance; /* leaf_count x switch_count, in links; 255 unreachable */
};

struct fabric_graph *fabric_graph_create(const char *name, size_t hosts, size_t rails);
void fabric_graph_destroy(struct fabric_graph *g);
void fabric_graph_drop(struct fabric_graph **g); /* for AUTO() */

uint32_t fabric_graph_add_node(struct fabric_graph *g, enum fabric_kind kind, int level,
                               int32_t host, int32_t rail, const char *name);
uint32_t fabric_graph_add_link(struct fabric_graph *g, uint32_t a, unsigned port_a, uint32_t b,
                               unsigned port_b, double bps);
/* Index and check.  ERR_DATA: an endpoint without GPU, PCIe switch, NIC or leaf, two links on one
 * NIC, a network in which an endpoint cannot reach another. */
int fabric_graph_finish(struct fabric_graph *g, struct err *err);

size_t fabric_graph_elements(const struct fabric_graph *g);
uint32_t fabric_graph_node_element(const struct fabric_graph *g, uint32_t node);
/* The edge from one node to a neighbour, FABRIC_NONE when they are not joined. */
int64_t fabric_graph_edge(const struct fabric_graph *g, uint32_t from, uint32_t to);
uint32_t fabric_graph_edge_from(const struct fabric_graph *g, uint32_t edge);
uint32_t fabric_graph_edge_to(const struct fabric_graph *g, uint32_t edge);

/* Elements between two NICs, both ends left out: edge, switch, edge, switch ... edge.  out holds
 * 2 * FABRIC_MAX_HOPS + 1 values.  Returns how many; 0 when from == to. */
size_t fabric_graph_route(const struct fabric_graph *g, size_t from, size_t to, uint32_t out[]);

/* "gpu017 mlx5_3 port 1 <-> leaf4 port 22"; arrow is "<->" or "->" (one direction).  The caller
 * frees. */
char *fabric_graph_link_name(const struct fabric_graph *g, uint32_t link);
char *fabric_graph_edge_name(const struct fabric_graph *g, uint32_t edge);
/* "gpu017 GPU 3", "leaf4", "gpu017 mlx5_3". */
char *fabric_graph_node_name(const struct fabric_graph *g, uint32_t node);

/* {"v":1,"name":S,"rule":"spread|first_port","hosts":N,"rails":N,
 *  "nodes":[{"name","kind","level","host","rail"}],
 *  "links":[{"a":INDEX,"port_a":N,"b":INDEX,"port_b":N,"bps":X}]}.  A new reference. */
json_t *fabric_graph_save(const struct fabric_graph *g);
/* ERR_DATA names what, where and what was meant. */
int fabric_graph_load(const json_t *value, const char *what, struct fabric_graph **out,
                      struct err *err);

#endif
