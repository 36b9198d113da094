/* A stage: one measurement that runs in a forked worker on the node.
 *
 * The main process of the agent forks the worker, relays `go` data to it, signs the evidence that
 * it hands over and kills its process group at the deadline.  A stage measures and never judges.
 * Stages are one line each in stages.def; a stage file ends in its row. */
#ifndef MUSTER_AGENTS_STAGES_STAGE_H
#define MUSTER_AGENTS_STAGES_STAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/evidence.h"
#include "common/fs.h"

struct stage_ctx; /* the worker's connection to the main process */

struct stage {
    const char *name;    /* as in the protocol: "pairs" */
    const char *summary; /* one line for people */
    /* Run it.  params: object from the request, unknown keys are ERR_USAGE.  *data: the reply's
     * data (new reference, set only on success).  Evidence handed over before a failure stays. */
    int (*run)(struct stage_ctx *ctx, const json_t *params, json_t **data, struct err *err);
};

/* NULL for an unknown name. */
const struct stage *stage_find(const char *name);

/* --- what a stage may call ------------------------------------------------------------------ */

const char *stage_node(const struct stage_ctx *ctx);           /* this node's name */
const struct fs_root *stage_root(const struct stage_ctx *ctx); /* where facts are read */
int64_t stage_deadline_ms(const struct stage_ctx *ctx);        /* on the now_ms() clock */

/* Hand over one record.  ERR_DATA if it is malformed, ERR_ENV if the main process is gone. */
int stage_evidence(struct stage_ctx *ctx, const struct evidence *e, struct err *err);
/* The same for a body that evidence_body() made in another process; takes over the reference. */
int stage_evidence_body(struct stage_ctx *ctx, json_t *body, struct err *err);
/* Send an event ("endpoint", "ready", "progress"); takes over the reference to fields (an object
 * whose members are added to the event line; may be NULL). */
int stage_event(struct stage_ctx *ctx, const char *event, json_t *fields, struct err *err);
/* Wait for the next `go`; *data is a new reference.  ERR_TIMEOUT, ERR_ENV when the main process is
 * gone. */
int stage_wait_go(struct stage_ctx *ctx, int timeout_ms, json_t **data, struct err *err);
/* Readable when a `go` or the end of the main process is waiting; for poll(2) beside sockets. */
int stage_go_fd(const struct stage_ctx *ctx);

#endif
