/* What this machine is: hardware, kernel, network, limits, keys, as one JSON object.
 *
 * docs/contracts.md, section 4, states the members.  Everything is read below the root, so that a
 * captured tree gives the same answers as the node did.  What only a running system can tell (NVML,
 * interface addresses, the size of /dev/shm) is read when the root is the real one.  One unreadable
 * file never fails the whole: its member is null, or holds the reason.  Reentrant; no state kept.
 */
#ifndef MUSTER_AGENTS_FACTS_FACTS_H
#define MUSTER_AGENTS_FACTS_FACTS_H

#include <jansson.h>

#include "common/err.h"
#include "common/fs.h"

enum { FACTS_VERSION = 1, FACTS_GPU_TIMEOUT_MS = 20000 };

/* *out: a new reference.  May take FACTS_GPU_TIMEOUT_MS when the GPU driver hangs; forks a child
 * for NVML, so the caller must be single-threaded.  ERR_ENV: the root has neither /proc nor /sys.
 */
int facts_read(const struct fs_root *root, json_t **out, struct err *err);

#endif
