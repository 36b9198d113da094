/* One reader per form of a node list.  Internal to provision/inventory*.c. */
#ifndef MUSTER_PROVISION_INVENTORY_FORMS_H
#define MUSTER_PROVISION_INVENTORY_FORMS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

int inventory_ansible(const char *text, size_t len, const char *source, json_t **nodes,
                      const char **become, struct err *err);
int inventory_hosts(const char *text, const char *source, json_t **nodes, struct err *err);

/* A node as in the normalised site; host and user may be NULL, port 0. */
json_t *inventory_node(const char *host, const char *user, int64_t port);

#endif
