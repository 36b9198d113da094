/* The parts of the playbook reader.  Internal to provision/playbook*.c. */
#ifndef MUSTER_PROVISION_PLAYBOOK_PARTS_H
#define MUSTER_PROVISION_PLAYBOOK_PARTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/hostlist.h"
#include "provision/playbook.h"

struct playbook_set {
    json_t *books; /* NAME -> what playbook_load() gives */
};

/* Names of all kinds, ends in NULL. */
const char *const *playbook_kind_names(void);
/* Check and normalise the parameters of one resource.
 *
 * Values that are written into files as text (sysctl, module options, variables) become strings.
 * templates  true before expansion: a string that holds "${" is taken for what it may become, and
 *            nothing is converted (out may be NULL)
 * param      set to the parameter at fault, "" for the resource as a whole */
int playbook_params(const char *kind, const json_t *params, bool templates, json_t **out,
                    const char **param, struct err *err);

/* Directories that are searched, in order.  site may be NULL.  dirs must be zeroed. */
void playbook_dirs(const json_t *site, struct hostlist *dirs);

#endif
