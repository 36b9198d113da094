/* One kind of resource: how its state is read, wanted, made and verified on a node.
 *
 * A kind is one row in its own file kind_NAME.c and one line in kinds.def.  A state is a JSON
 * object (docs/contracts.md, section 5).  Undo is apply() of the state that was there before, so
 * apply() must accept every state that read() returns, and may be repeated after it was broken off
 * anywhere. Thread rule: none of these functions keeps anything between calls. */
#ifndef MUSTER_AGENTS_RESOURCES_KIND_H
#define MUSTER_AGENTS_RESOURCES_KIND_H

#include "agents/resources/resources.h"
#include "common/util.h"

/* One resource on one node; everything is borrowed. */
struct kind_item {
    const struct resources_env *env;
    const char *id;
    const json_t *params; /* object */
};

struct resource_kind {
    const char *name;
    bool shared;      /* several resources may name the same id (each owns a part of it) */
    const char *info; /* member of the state that is information: not compared, not in digests */
    const char
        *locator; /* parameter that decides where the state lives; NULL if the id alone does */

    /* Are id and parameters right?  ERR_USAGE says what was meant.  *skip (caller frees) is set
     * when the resource would be inert on this node. */
    int (*check)(const struct kind_item *item, char **skip, struct err *err);
    /* Path of the file that belongs to the resource, NULL for a kind without one.  Caller frees. */
    char *(*path)(const struct kind_item *item);
    /* The state as it is.  NULL: the state of the file at path(). */
    int (*read)(const struct kind_item *item, json_t **state, struct err *err);
    /* The state that the parameters ask for, given the one that is there. */
    int (*want)(const struct kind_item *item, const json_t *before, json_t **want, struct err *err);
    /* Make a state so.  NULL: put the file at path() into that state. */
    int (*apply)(const struct kind_item *item, const json_t *state, struct err *err);
    /* The effect, beyond the state that reads back as wanted.  May be NULL. */
    int (*verify)(const struct kind_item *item, const json_t *want, struct err *err);
    /* A sentence that people should know about this difference, NULL for none.  May be NULL. */
    char *(*note)(const struct kind_item *item, const json_t *state);
};

/* NULL for an unknown name. */
const struct resource_kind *kind_find(const char *name);
/* All names, NULL-terminated, for "did you mean". */
const char *const *kind_names(void);

int kind_read(const struct resource_kind *kind, const struct kind_item *item, json_t **state,
              struct err *err);
int kind_apply(const struct resource_kind *kind, const struct kind_item *item, const json_t *state,
               struct err *err);

/* The part of a state that is compared and digested.  New reference. */
json_t *kind_managed(const struct resource_kind *kind, const json_t *state);
bool kind_state_equal(const struct resource_kind *kind, const json_t *a, const json_t *b);
/* What changes: unified diff for files, "key: old -> new" otherwise; "" when equal.  Caller frees.
 */
char *kind_diff(const struct resource_kind *kind, const struct kind_item *item,
                const json_t *before, const json_t *want);

/* Announce a point at which a test may end the process. */
void kind_step(const struct resources_env *env, const char *point);
bool kind_root_is_real(const struct resources_env *env);
/* Letters, digits, '_' and the characters of `more`; not empty, at most 128 bytes. */
bool kind_is_name(const char *text, const char *more);

#endif
