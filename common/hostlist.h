/* Host names in the bracket form of Slurm, pdsh and ClusterShell: "gpu[001-004,7],login".
 *
 * Zero padding is kept: [001-010] gives 001..010, [1-10] gives 1..10.  Several bracket groups in
 * one name are the cross product.  A host name is a DNS label sequence: letters, digits, '-', '.',
 * '_'. */
#ifndef MUSTER_COMMON_HOSTLIST_H
#define MUSTER_COMMON_HOSTLIST_H

#include <stddef.h>

#include "common/err.h"

enum { HOSTLIST_MAX_HOSTS = 65536 };

struct hostlist {
    char **names; /* in the order written; may hold duplicates */
    size_t count;
};

/* Separators are commas and blanks outside brackets.  ERR_DATA with the position: unclosed bracket,
 * empty or descending range, bad character, more than HOSTLIST_MAX_HOSTS.  list must be zeroed. */
int hostlist_parse(const char *text, struct hostlist *list, struct err *err);
void hostlist_add(struct hostlist *list, const char *name);
void hostlist_release(struct hostlist *list);

/* Shortest bracket form of the names (sorted naturally, duplicates dropped): "gpu[001-004],login".
 * "" for none.  The caller frees. */
char *hostlist_format(const char *const names[], size_t count);
/* First name that occurs twice, or NULL. */
const char *hostlist_duplicate(const struct hostlist *list);
int hostlist_has(const struct hostlist *list, const char *name);

#endif
