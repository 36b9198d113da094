/* What is to be plugged where: a cable plan from CSV, from ibnetdiscover's output, or generated.
 *
 * Pure: text in, plan out.  Thread rule: one plan, one thread. */
#ifndef MUSTER_FABRIC_SUBNET_CABLE_PLAN_H
#define MUSTER_FABRIC_SUBNET_CABLE_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "fabric/subnet/rate.h"

enum { CABLE_PORT_MAX = 254, CABLE_PLAN_MAX = 1 << 20, CABLE_PLAN_MAX_BYTES = 64 * 1024 * 1024 };

struct cable_end {
    char *node; /* description, id ("S-...") or GUID ("0x...") */
    char *also; /* a second name to look for when the first is not found; NULL if none */
    unsigned port;
};

struct cable {
    struct cable_end a, b;
    unsigned lanes; /* planned width and speed; 0 and RATE_UNSET: not stated */
    enum rate_speed speed;
    unsigned line; /* of the file; 0 for a generated plan */
};

struct cable_plan {
    char *source; /* file name or description, for messages */
    struct cable *cables;
    size_t count;
};

/* Read a plan; the form is told by the content.  *plan must be zeroed or released.
 *
 * CSV: "node,port,node,port" and optionally ",4xHDR" per line; '#' begins a comment; a first line
 * whose second field is "port" is a heading; a field may stand in double quotes.  ibnetdiscover:
 * its text output, where each link stands once or at both ends.
 *
 * ERR_DATA names the line: a field that is missing or not a port (1..254), a port that is used
 * twice, two ends that contradict each other, no cable at all. */
int cable_plan_parse(const char *text, size_t len, const char *source, struct cable_plan *plan,
                     struct err *err);

/* A fat tree from one line of KEY=VALUE words; node lists are hostlists:
 *
 *   hosts=node[0001-0008] hcas=mlx5_[0-1] leaves=leaf[001-004] spines=spine[001-002] trunk=2
 *   ... aggregation=pod[1-4]agg[1-2] pods=4 ...      three levels; leaves stand pod by pod
 *   ... rate=4xHDR                                   planned width and speed of every link
 *
 * With R HCAs per host (rails) leaf number g * R + r has rail r of host group g.  Hosts take the
 * ports 1, 2, ... of a leaf, uplinks follow, `trunk` cables to each switch above; the ports of a
 * switch above follow the order of those below.  ERR_USAGE: unknown or missing key, numbers that do
 * not divide. */
int cable_plan_generate(const char *description, struct cable_plan *plan, struct err *err);

/* Appends a cable; names are copied.  For readers and generators. */
struct cable *cable_plan_add(struct cable_plan *plan, const char *a, unsigned a_port, const char *b,
                             unsigned b_port);
/* ERR_DATA when a port has two cables. */
int cable_plan_check(const struct cable_plan *plan, struct err *err);
void cable_plan_release(struct cable_plan *plan);

#endif
