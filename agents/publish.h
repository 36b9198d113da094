/* Put this node's part of a new report where the gate reads it. */
#ifndef MUSTER_AGENTS_PUBLISH_H
#define MUSTER_AGENTS_PUBLISH_H

#include <jansson.h>

#include "common/err.h"
#include "common/fs.h"

/* Verify the slice with the key (PEM) that came with it, then replace state_dir/slice.json and
 * report.pub below root, raise `serial`, and point state_dir/bin/muster-gate to this program (which
 * is the gate when it is called by that name).  The serial counts per signing key.  node: the name
 * by which the controller greeted this machine.
 *
 * *path: where the slice now is (without root); the caller frees.  Returns -1 with err, nothing
 * changed: ERR_DATA not a slice, a wrong signature, a slice of another node, or a report older than
 * one that was accepted here; ERR_ENV the files cannot be read or written. */
int publish_slice(const struct fs_root *root, const char *state_dir, const char *node,
                  const json_t *slice, const char *public_key, char **path, struct err *err);

#endif
