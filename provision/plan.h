/* plan.json: what would change where, and its form for people: each difference once, with the
 * nodes.
 *
 * Built node by node from what the playbooks want and what the agents answer to `plan`.  Nodes
 * whose items are the same (canonical bytes) form one group.  Not thread-safe. */
#ifndef MUSTER_PROVISION_PLAN_H
#define MUSTER_PROVISION_PLAN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/err.h"

/* {"v":1,"run":RUN,"nodes":{},"items":{}} */
json_t *plan_create(const char *run);
/* Add one node.  resources and skipped come from playbook_resolve() (skipped become items with
 * outcome "skip"; may be NULL); items from the agent.  Nothing is taken over.  ERR_DATA: items is
 * not what contracts.md says, or answers other resources than were asked. */
int plan_add(json_t *plan, const char *node, const json_t *resources, const json_t *skipped,
             const json_t *items, struct err *err);
/* Add a node that has no plan: unreachable, facts missing, a playbook that cannot be resolved. */
void plan_add_error(json_t *plan, const char *node, const char *text);

struct plan_counts {
    size_t nodes;                     /* all */
    size_t nodes_change;              /* with at least one change, and no error */
    size_t nodes_same;                /* nothing to change */
    size_t nodes_error;               /* with at least one error */
    size_t change, same, skip, error; /* items */
};
struct plan_counts plan_count(const json_t *plan);
/* True when the node has an error item. */
bool plan_node_failed(const json_t *plan, const char *node);
/* True when the node has at least one change. */
bool plan_node_changes(const json_t *plan, const char *node);

/* Text for people: errors first, then each difference with its hostlist, then what is as wanted and
 * a line of counts.  verbose also lists the resources that are as wanted or skipped, with the
 * reason. */
void plan_render(const json_t *plan, bool verbose, FILE *out);

/* Strict readers and writers of the file.  ERR_ENV, ERR_DATA. */
int plan_save(const json_t *plan, const char *path, struct err *err);
int plan_load(const char *path, json_t **plan, struct err *err);

#endif
