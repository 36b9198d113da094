/* Fabrics made from a few numbers: for planning before a fabric was discovered, and for proofs.
 *
 * Each host has, per rail, a GPU, a PCIe switch and a NIC, and one NVSwitch when there are at least
 * two rails.  Rates: NIC and fabric links 400 Gbit/s, PCIe 512 Gbit/s (Gen5 x16), NVLink
 * 3.6 Tbit/s (18 links of fourth generation), each way. */
#ifndef MUSTER_VALIDATE_ISOLATE_FABRIC_BUILD_H
#define MUSTER_VALIDATE_ISOLATE_FABRIC_BUILD_H

#include "validate/isolate/fabric_graph.h"

/* Full-bisection fat-tree of switches with 2 * down ports; two levels where they suffice, else
 * three.  down 0: the smaller of 16 and 32 that needs two levels, else 32.  With several rails it
 * is rail-optimised: a leaf serves one rail of a group of hosts, the upper levels are shared.
 * ERR_USAGE: no host, no rail, more than three levels can hold. */
int fabric_build_fat_tree(size_t hosts, size_t rails, size_t down, struct fabric_graph **out,
                          struct err *err);
/* x * y * z hosts with one rail, each on its own switch, dimension-order routes.
 * ERR_USAGE: a side of 0, or more hops than FABRIC_MAX_HOPS. */
int fabric_build_torus(size_t x, size_t y, size_t z, struct fabric_graph **out, struct err *err);

/* Other forwarding tables on the same fabric: destinations are numbered in another order.  For
 * proofs of what it costs when the tables are not those that the search assumes. */
void fabric_build_renumber(struct fabric_graph *g, uint64_t seed);

#endif
