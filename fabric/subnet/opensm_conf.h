/* opensm's files from the site's fabric section, checked before opensm sees them.
 *
 * opensm takes most mistakes without a word: a bad partition line drops every partition, a bad
 * number becomes the default, and it ends with status 0.  So nothing is written unless everything
 * is right, and each refusal names the key, what was read and what was meant.  Pure: JSON in, texts
 * out; thread-safe. */
#ifndef MUSTER_FABRIC_SUBNET_OPENSM_CONF_H
#define MUSTER_FABRIC_SUBNET_OPENSM_CONF_H

#include <jansson.h>
#include <stddef.h>

#include "common/err.h"

/* One file for one subnet manager's host, or for all ("" as host). */
struct opensm_file {
    char *host;       /* borrowed by no one; released with the set */
    const char *name; /* "opensm.conf", "partitions.conf", ... */
    char *text;
};
struct opensm_files {
    struct opensm_file *files;
    size_t count;
};

/* fabric is the normalised section "fabric" of site.json; its member "subnet" (docs/contracts.md,
 * section 12) holds what concerns the subnet manager alone.  `dir` is where opensm finds the files,
 * normally "/etc/opensm".  files must be zeroed; set only on success.
 *
 * ERR_USAGE: fabric is not InfiniBand, no subnet manager is named, or a value is not what it must
 * be. */
int opensm_conf_make(const json_t *fabric, const char *dir, struct opensm_files *files,
                     struct err *err);
void opensm_files_release(struct opensm_files *files);

/* partitions.conf and qos-policy.conf, in files of their own; the same rules. */
int opensm_partitions_text(const json_t *fabric, const json_t *partitions, char **text,
                           struct err *err);
int opensm_qos_check(const json_t *qos, struct err *err);
/* The policy file, and the lines for opensm.conf. */
char *opensm_qos_policy_text(const json_t *qos);
char *opensm_qos_conf_text(const json_t *qos);

/* ERR_USAGE unless text is "0x" and 1 to 16 hex digits that are not all zero; what names the key.
 */
int opensm_check_guid(const char *text, const char *what, struct err *err);
/* Names of the routing engines, NULL at the end. */
extern const char *const opensm_engines[];

#endif
