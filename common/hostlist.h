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

/* Appends to list, which must be zeroed or from an earlier parse; a text without names adds none.
 *
 * Separators are commas and blanks outside brackets.  A range is padded as its first number is; one
 * whose ends are padded differently ([1-010]) is refused, because tools disagree on it.  A name
 * that begins with '-', has an empty label or more than 253 characters is refused: names become
 * arguments and file names.
 *
 * Returns -1 with ERR_DATA and the position: unclosed bracket, empty or descending range, bad
 * character, more than HOSTLIST_MAX_HOSTS in list.  Then list is released and empty. */
int hostlist_parse(const char *text, struct hostlist *list, struct err *err);
void hostlist_add(struct hostlist *list, const char *name);
void hostlist_release(struct hostlist *list);

/* Bracket form of the names (sorted naturally, duplicates dropped): "gpu[001-004],login".  Names
 * that differ in one number are folded, from the last number to the first, so that r[1-2]n[1-4]
 * comes back as such.  "" for none.  The caller frees. */
char *hostlist_format(const char *const names[], size_t count);
/* First name that occurs twice, or NULL. */
const char *hostlist_duplicate(const struct hostlist *list);
int hostlist_has(const struct hostlist *list, const char *name);

#endif
