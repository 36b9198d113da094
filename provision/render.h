/* A verdict for people: counts, causes with remedies, what was measured and what was not. */
#ifndef MUSTER_PROVISION_RENDER_H
#define MUSTER_PROVISION_RENDER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Works on verdict.json and on a report's predicate (both have nodes with state and causes).
 * verbose lists every element of every node. */
void render_verdict(const json_t *verdict, bool verbose, FILE *out);
/* The whole story of one node: each element with value, limit and evidence. */
void render_node(const json_t *verdict, const char *node, FILE *out);
/* verdict.json's shape from a report's predicate (new reference). */
json_t *render_from_predicate(const json_t *predicate);

#endif
