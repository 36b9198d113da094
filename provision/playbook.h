/* Playbooks: typed resources with conditions, loaded once, resolved for each node.
 *
 * A name is looked up as NAME.yml in the site's "playbook_path" (relative to the site file), the
 * site file's directory/playbooks, MUSTER_DATA_DIR/playbooks and the source tree's playbooks/, in
 * this order.  Loading checks form, kinds, parameters and their types; the node's agent checks
 * deeper. Errors are ERR_USAGE and name file, line and key.  A loaded set is read-only and may be
 * shared. */
#ifndef MUSTER_PROVISION_PLAYBOOK_H
#define MUSTER_PROVISION_PLAYBOOK_H

#include <jansson.h>
#include <stddef.h>

#include "common/err.h"

struct playbook_set;

/* Every playbook that a node of the (normalised) site names.  NULL with err on failure. */
struct playbook_set *playbook_set_load(const json_t *site, struct err *err);
void playbook_set_destroy(struct playbook_set *set);  /* NULL accepted */
void playbook_set_release(struct playbook_set **set); /* for AUTO() */

/* One file or text: {"name","summary","vars":{},"resources":[{"kind","id","when":S|null,
 * "params":{},"line":N}],"path":S}.  Nothing is expanded yet. */
int playbook_load(const char *path, json_t **out, struct err *err);
int playbook_parse(const char *text, size_t len, const char *source, json_t **out, struct err *err);

/* What one node is to be.
 *
 * facts      of this node (contracts.md section 4); json_object() where there are none yet
 * resources  [{"kind","id","playbook","params"}] in the order of the node's playbooks
 * skipped    [{"kind","id","playbook","reason"}] whose `when` is false; may be NULL
 *
 * Variables: playbook < site < node (groups are already in the node's).  The same kind and id twice
 * with other parameters is an error that names both playbooks; twice the same is one resource.
 * New references, set only on success. */
int playbook_resolve(const struct playbook_set *set, const json_t *site, const char *node,
                     const json_t *facts, json_t **resources, json_t **skipped, struct err *err);

/* Playbooks that can be found, for `muster playbook list`: [{"name","summary","path",
 * "resources":N}] or, for a file that does not load, {"name","path","error":S}.  site may be NULL.
 */
int playbook_list(const json_t *site, json_t **out, struct err *err);

/* Kinds and their parameters, one row each, as text. */
struct playbook_kind_row {
    const char *kind, *id, *params;
};
const struct playbook_kind_row *playbook_kinds(size_t *count);

#endif
