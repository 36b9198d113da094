/* Lists of nodes in other tools' forms, turned into the same raw nodes as the site file gives.
 *
 * Recognised by content: a JSON object with "_meta" or with groups of "hosts" is Ansible's
 * `ansible-inventory --list`; anything that is not a YAML mapping is a plain list: one host or
 * hostlist a line (or one Slurm node list), "#" comments, optionally USER@HOST:PORT and, in braces
 * of /etc/hosts, "ADDRESS NAME" is refused with the right form.  ERR_USAGE with file and line. */
#ifndef MUSTER_PROVISION_INVENTORY_H
#define MUSTER_PROVISION_INVENTORY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

enum inventory_kind {
    INVENTORY_NONE = 0, /* a site file of muster's own */
    INVENTORY_ANSIBLE,
    INVENTORY_HOSTS
};

/* text is NUL-terminated at len. */
enum inventory_kind inventory_recognise(const char *text, size_t len);

/* Nodes as in the normalised site: {NODE:{"host","user","port","hardware":null,"playbooks":null,
 * "vars":{},"groups":[...]}}; *become (may be NULL) is "sudo" when ansible_become is true for every
 * host, else "none".  New reference, set only on success. */
int inventory_parse(enum inventory_kind kind, const char *text, size_t len, const char *source,
                    json_t **nodes, const char **become, struct err *err);

#endif
