/* The parts of the site reader, one file each.  Internal to provision/site*.c.
 *
 * raw is the file's value as written, site the normalised object that is being built. */
#ifndef MUSTER_PROVISION_SITE_PARTS_H
#define MUSTER_PROVISION_SITE_PARTS_H

#include <jansson.h>

#include "common/err.h"
#include "provision/source_map.h"

/* Sets site.nodes from raw.nodes and raw.groups; defaults is the list of playbooks of a node that
 * names none. */
int site_read_nodes(const struct source_map *map, const json_t *raw, const json_t *defaults,
                    json_t *site, struct err *err);
/* Sets site.policy; site.nodes must be there. */
int site_read_policy(const struct source_map *map, const json_t *raw, json_t *site,
                     struct err *err);
/* Fails unless word is a stage's name. */
int site_check_stage(const struct source_map *map, const char *pointer, const char *word,
                     struct err *err);
/* "; did you mean 'gpu001'?" for a node that the site lacks, else "".  The caller frees. */
char *site_node_hint(const json_t *nodes, const char *name);

#endif
