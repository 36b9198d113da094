/* The key with which this node signs its evidence: Ed25519, made at first contact, kept for good.
 */
#ifndef MUSTER_AGENTS_NODE_KEY_H
#define MUSTER_AGENTS_NODE_KEY_H

#include "common/err.h"
#include "common/fs.h"
#include "validate/sign.h"

/* Load state_dir/node.key below root, or make it (0600, and node.pub beside it) when there is none.
 * Of two processes that make it at once, both end up with the same key.  NULL and err: ERR_ENV the
 * state directory cannot be written, or the key is no regular file, is not the caller's own, or may
 * be read by others; ERR_DATA it is not an Ed25519 key. */
struct sign_key *node_key_open(const struct fs_root *root, const char *state_dir, struct err *err);

#endif
