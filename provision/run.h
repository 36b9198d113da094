/* One run: its directory below runs/, its journal, and what of it is already done.
 *
 * Every step is written to journal.jsonl and synced before the next begins, so a run that was
 * broken off can be resumed: steps that are done for a node are not repeated for it. */
#ifndef MUSTER_PROVISION_RUN_H
#define MUSTER_PROVISION_RUN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "provision/state.h"

struct run {
    char id[32];
    char *dir;
    int journal_fd;
    json_t *begun; /* {STEP: how often it was begun} */
    json_t *steps; /* {STEP:{NODE:"ok"|TEXT}} of finished steps; "" is the step as a whole */
};

/* A new run. */
int run_create(const struct state *s, struct run *run, struct err *err);
/* Let runs/latest point to it: the newest run that measures, which is what resume means. */
int run_point_latest(const struct state *s, const struct run *run, struct err *err);
/* Id of the newest run with a report, NULL when none has one.  The caller frees. */
char *run_newest_report(const struct state *s);
/* Take away what a broken write has left of a line at the end of the node's evidence. */
int run_cut_evidence(const struct run *run, const char *node, struct err *err);
/* An existing one; id NULL or "latest" means the newest.  ERR_USAGE: no such run (names the
 * newest). */
int run_open(const struct state *s, const char *id, bool append, struct run *run, struct err *err);
void run_close(struct run *run);
char *run_path(const struct run *run, const char *relative); /* the caller frees */
char *run_node_path(const struct run *run, const char *folder, const char *node,
                    const char *suffix); /* "facts", "gpu001", ".json" */

/* nodes: {NODE:"ok"|TEXT}, or NULL.  Takes over no reference. */
int run_note(struct run *run, const char *step, const char *state, const json_t *nodes,
             struct err *err);
/* How often a step was begun in this run, resumed attempts included. */
int64_t run_attempts(const struct run *run, const char *step);
bool run_has(const struct run *run, const char *step, const char *node); /* done and "ok" */

#endif
