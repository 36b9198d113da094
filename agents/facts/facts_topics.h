/* The topics of facts.h, one function and one file each, and what they share.
 *
 * A topic never fails: a member that cannot be read is null or absent as docs/contracts.md allows.
 * Each returns a new reference, never NULL (memory that is gone aborts). */
#ifndef MUSTER_AGENTS_FACTS_FACTS_TOPICS_H
#define MUSTER_AGENTS_FACTS_FACTS_TOPICS_H

#include <jansson.h>
#include <stdbool.h>

#include "common/fs.h"

void facts_host(const struct fs_root *root,
                json_t *facts); /* hostname .. product: members of facts */
json_t *facts_kernel(const struct fs_root *root);
json_t *facts_iommu(const struct fs_root *root);
json_t *facts_cpu(const struct fs_root *root);
json_t *facts_memory(const struct fs_root *root);
json_t *facts_limits(const struct fs_root *root);
json_t *facts_pci(const struct fs_root *root);
json_t *facts_net(const struct fs_root *root);
json_t *facts_rdma(const struct fs_root *root);
json_t *facts_gpu(const struct fs_root *root);
json_t *facts_modules(const struct fs_root *root);
json_t *facts_ssh(const struct fs_root *root);

/* --- shared by topics ----------------------------------------------------------------------- */

bool facts_root_is_real(const struct fs_root *root); /* "/" of the running system */
/* Object or array that takes ownership of nothing yet; aborts when memory is gone. */
json_t *facts_object(void);
json_t *facts_array(void);
/* Set obj[key] to the first line of a file below root, null when it cannot be read or is empty. */
void facts_set_line(json_t *obj, const char *key, const struct fs_root *root, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Set or append text from outside: null, or nothing, when it is NULL, empty or not UTF-8. */
void facts_set_text(json_t *obj, const char *key, const char *text);
void facts_append_text(json_t *arr, const char *text);
/* First line of a file whose path is composed; NULL when it cannot be read.  The caller frees. */
char *facts_line(const struct fs_root *root, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Integer of a file whose path is composed. */
long long facts_int(const struct fs_root *root, long long fallback, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Last component of a symlink whose path is composed; NULL if none.  The caller frees. */
char *facts_link(const struct fs_root *root, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
bool facts_exists(const struct fs_root *root, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Sorted names in a directory; an unreadable one is empty.  Release with fs_list_free(). */
struct facts_names {
    char **names;
    size_t count;
};
struct facts_names facts_list(const struct fs_root *root, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void facts_names_free(struct facts_names *n);

/* Number at the start of text, blanks before it skipped; returns what follows, or NULL when there
 * is none or it does not fit.  On NULL *value is left alone. */
const char *facts_scan_int(const char *text, long long *value);
const char *facts_scan_num(const char *text, double *value);

/* "0000:01:00.0" */
bool facts_is_bdf(const char *text);
/* PCI functions in the target of a device's symlink under /sys, outermost first
 * ("../../devices/pci0000:00/0000:00:01.0/0000:01:00.0/net/eth0"): copies the nth from the end (0
 * is the last) into out, false when there are fewer. */
bool facts_link_bdf(const struct fs_root *root, const char *path, size_t nth_from_end,
                    char out[static 16]);
/* "../../devices/virtual/net/lo": nothing of this machine's hardware. */
bool facts_link_is_virtual(const struct fs_root *root, const char *path);

#endif
