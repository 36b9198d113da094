/* Reads the whole subnet through libibnetdisc, and SMInfo through libibmad.
 *
 * Only reads: no attribute is set.  Needs the ib_umad device of one local port and no subnet
 * manager.  Blocks until each MAD was answered or timed out; the caller bounds the whole with a
 * deadline of its own, because a lost MAD never times out under a simulator.  Not thread-safe: the
 * MAD libraries keep state of their own.  The one part of fabric/ that links them. */
#ifndef MUSTER_FABRIC_SUBNET_DISCOVER_H
#define MUSTER_FABRIC_SUBNET_DISCOVER_H

#include "common/err.h"
#include "fabric/subnet/subnet.h"

struct ibmad_port;

struct discover_options {
    const char *device;                     /* NULL: the first one with a port that is up */
    int port;                               /* 0: any */
    unsigned timeout_ms, retries, parallel; /* of one MAD; MADs in flight; 0: defaults */
};

/* Fills s, which must be uninitialised or released, and opens *mads for further reads (counters);
 * close it with discover_close().  Release s also after a failure; *mads is then NULL.
 *
 * A part that does not answer is no failure: it is listed in s->unanswered, and what is known of
 * its surroundings is there.  ERR_ENV: no device, no permission, or nothing could be read. */
int discover_subnet(const struct discover_options *options, struct subnet *s,
                    struct ibmad_port **mads, struct err *err);
void discover_close(struct ibmad_port *mads);

#endif
