/* The steps of a run after facts, each on all active nodes.  They return 0 even when nodes failed
 * (those have outcomes); -1 with err means that the controller itself cannot go on. */
#ifndef MUSTER_PROVISION_STEPS_H
#define MUSTER_PROVISION_STEPS_H

#include <jansson.h>

#include "common/err.h"
#include "provision/ctl.h"

/* Resolve playbooks, ask the agents what would change; *plan as in contracts.md, stored in the run.
 */
int step_plan(struct ctl *c, json_t **plan, struct err *err);
/* Apply what the plan asked for on nodes without plan errors. */
int step_apply(struct ctl *c, const json_t *plan, struct err *err);
int step_rollback(struct ctl *c, const char *txn, bool force, struct err *err);

/* Run these stages (NULL: all that this version can run), each skipped for a run that has it. */
int step_stages(struct ctl *c, const char *only, struct err *err);
/* Names of the stages that can be run, NULL-terminated, in order. */
extern const char *const step_stage_names[];

/* Judge what is stored in the run; verdict.json. */
int step_judge(struct ctl *c, json_t **verdict, struct err *err);
/* Sign the report and the slices. */
int step_report(struct ctl *c, const json_t *verdict, struct err *err);
/* Hand each active node its slice. */
int step_publish(struct ctl *c, struct err *err);

/* --- shared by the stage steps ------------------------------------------------------------ */

/* Append the evidence line of an event to the node's file; other events are ignored.  A node that
 * sends more than a run can need is dropped. */
void step_take_evidence(struct ctl *c, size_t node, const json_t *event);
/* Put what an endpoint event says into *endpoint (own reference); other events are ignored.  A node
 * whose endpoint its peers could not use is dropped, so that the fault stays its own. */
void step_take_endpoint(struct ctl *c, size_t node, const json_t *event, json_t **endpoint);
/* Tell the node to end the stage that the running call has asked for; it then answers an error. */
void step_cancel(struct ctl *c, size_t node);
/* Parameters of a stage from the site ("stages": {STAGE: {...}}), or an empty object. */
json_t *step_stage_params(const struct ctl *c, const char *stage);
/* {"op":"stage","stage":STAGE,"params":params,"deadline_ms":N}; takes over params. */
json_t *step_stage_request(const char *stage, json_t *params, unsigned deadline_ms);
/* 64 hex digits that only the nodes of this stage know. */
void step_token(char token[static 65]);

int step_pairs(struct ctl *c, struct err *err);
int step_allreduce(struct ctl *c, struct err *err);

#endif
