/* Reads PortCounters and PortCountersExtended of every linked port.  Links libibmad; see discover.h
 * for its rules.  Never resets a counter. */
#ifndef MUSTER_FABRIC_SUBNET_COUNTERS_READ_H
#define MUSTER_FABRIC_SUBNET_COUNTERS_READ_H

#include "fabric/subnet/counters.h"

struct ibmad_port;

/* c must be zeroed or released.  A port that does not answer is in c with read = false; without a
 * LID (no subnet manager yet) none can be read. */
void counters_read(struct ibmad_port *port, const struct subnet *s, struct counters *c);

#endif
