/* Configuration of one node as a transaction: plan, apply, roll back, recover.
 *
 * docs/contracts.md, sections 5 and 6, states resources, states, journal and manifest.  Everything
 * is read and written below env->root.  Each function may be killed at any instruction; the journal
 * then tells resources_recover() what to undo.  Not thread-safe; one process at a time (a lock
 * file). */
#ifndef MUSTER_AGENTS_RESOURCES_RESOURCES_H
#define MUSTER_AGENTS_RESOURCES_RESOURCES_H

#include <jansson.h>
#include <stdbool.h>

#include "common/err.h"
#include "common/fs.h"

struct resources_env {
    const struct fs_root *root;
    const char *state_dir; /* below root: "/var/lib/muster" */
    /* Called before each step of apply (2, 5, "file /etc/nccl.conf": index from 1); a non-zero
     * return (the channel has closed) stops the transaction, which is then undone.  May be NULL. */
    int (*progress)(void *ctx, size_t index, size_t count, const char *text);
    void *ctx;
    /* Called at each named point between two changes of durable state ("journal.intent",
     * "file.rename"
     * ...).  Tests end the process there; elsewhere NULL. */
    void (*step)(void *step_ctx, const char *point);
    void *step_ctx;
};

/* What would change.  *items: array as in plan.json.  A resource that cannot be read or whose
 * parameters are wrong is an item with outcome "error", not a failure of the call.
 * ERR_DATA: resources is not an array of resources. */
int resources_plan(const struct resources_env *env, const json_t *resources, json_t **items,
                   struct err *err);

/* Make it so, or leave it as it was.  *data:
 * {"items":[...],"state":"committed|undone|nothing|open"}; an outcome "failed" in items means the
 * whole transaction was undone ("undone" says that this worked; "open" that an item could not be
 * restored, whose text then says "failed to restore": the transaction stays open and
 * resources_recover() tries again). ERR_USAGE: txn is no name or was used before.  ERR_DATA:
 * resources is not an array of resources. ERR_ENV: another transaction is running or open, or the
 * journal cannot be written (nothing changed). */
int resources_apply(const struct resources_env *env, const char *txn, const json_t *resources,
                    json_t **data, struct err *err);

/* Undo a committed transaction; txn NULL means the newest that is committed and not rolled back.  A
 * resource that was changed by someone else since is left alone and the call changes nothing
 * (ERR_DATA names it) unless force.  *data: {"items":[...],"state":"undone|nothing|open"}.
 * ERR_USAGE: no such transaction, or it is undone already.  ERR_ENV as above. */
int resources_rollback(const struct resources_env *env, const char *txn, bool force, json_t **data,
                       struct err *err);

/* Undo a transaction that was broken off.  *recovery: NULL when there was none, else
 * {"txn":S,"action":"undone|finished|open","text":S}: "finished" when it was committed already and
 * only the manifest was still to be written, "open" when an item could not be restored (text says
 * which and why).  ERR_ENV: another transaction is running.  ERR_DATA: the journal is damaged. */
int resources_recover(const struct resources_env *env, json_t **recovery, struct err *err);

/* The manifest of what is managed here ({"v":1,"run":..,"items":[]} when nothing is), and the
 * digests as they are on this machine now (for the gate: same items, fresh digests). */
int resources_manifest(const struct resources_env *env, json_t **manifest, struct err *err);
int resources_manifest_now(const struct resources_env *env, const json_t *manifest, json_t **now,
                           struct err *err);

#endif
