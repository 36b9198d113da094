/* The manifest of what is managed on this node, STATE_DIR/config.json. */
#ifndef MUSTER_AGENTS_RESOURCES_MANIFEST_H
#define MUSTER_AGENTS_RESOURCES_MANIFEST_H

#include "agents/resources/kind.h"

/* An item {"kind","id","digest"} for a state; "params" is added where the id alone does not say
 * where the state lives. */
json_t *manifest_item(const struct resource_kind *kind, const struct kind_item *item,
                      const json_t *state);
json_t *manifest_empty(void);
/* Add an item in the order of kind and id; one with the same kind and id is replaced.  Takes it
 * over. */
void manifest_put(json_t *manifest, json_t *item);
void manifest_drop(json_t *manifest, const char *kind, const char *id);
/* Borrowed; NULL when it is not there. */
json_t *manifest_get(const json_t *manifest, const char *kind, const char *id);
/* Replace the file, atomically.  Writes nothing when it reads like that already. */
int manifest_write(const struct resources_env *env, const json_t *manifest, struct err *err);

#endif
