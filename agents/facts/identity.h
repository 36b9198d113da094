/* Which machine this is, from /proc, /sys and /etc alone: quick enough for a job prolog.
 *
 * docs/contracts.md, section 4: machine id, SSH host keys, GPU UUIDs, NIC identifiers, GPU driver
 * and RDMA firmware, all lists sorted.  The report holds it; the gate reads it again and compares.
 */
#ifndef MUSTER_AGENTS_FACTS_IDENTITY_H
#define MUSTER_AGENTS_FACTS_IDENTITY_H

#include <jansson.h>

#include "common/err.h"
#include "common/fs.h"

/* *out: a new reference.  Loads no library, opens no socket, starts no process.
 * ERR_ENV: the root has neither /proc nor /sys, or /etc/machine-id cannot be read. */
int identity_read(const struct fs_root *root, json_t **out, struct err *err);

#endif
