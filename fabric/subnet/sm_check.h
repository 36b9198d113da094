/* Is the subnet managed, by whom it should be, and by one alone?
 *
 * Judges what SMInfo said (struct subnet) and what opensm's log says.  Pure, thread-safe. */
#ifndef MUSTER_FABRIC_SUBNET_SM_CHECK_H
#define MUSTER_FABRIC_SUBNET_SM_CHECK_H

#include <jansson.h>

#include "fabric/subnet/subnet.h"

struct sm_expect {
    const json_t *managers; /* hosts, master first; NULL: any one master will do */
    const char *routing;    /* engine that must be in force; NULL: any.  Needs the log */
};

/* Appends findings: sm-missing, sm-two-masters, sm-wrong-node, sm-standby-missing, sm-priority-tie
 * (a warning), not-measured for a manager that does not answer. */
void sm_check_subnet(const struct subnet *s, const struct sm_expect *expect, json_t *findings);

/* opensm's log, since the manager in it last became master: sm-not-up (no SUBNET UP after it),
 * sm-routing (another engine than the planned one is in force), sm-partitions, sm-qos,
 * sm-duplicate-guid. */
void sm_check_log(const char *log, const char *path, const struct sm_expect *expect,
                  json_t *findings);

#endif
