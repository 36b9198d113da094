/* What planning, applying and undoing share inside agents/resources. */
#ifndef MUSTER_AGENTS_RESOURCES_TXN_H
#define MUSTER_AGENTS_RESOURCES_TXN_H

#include "agents/resources/journal.h"
#include "agents/resources/kind.h"

enum txn_outcome { TXN_UNSET = 0, TXN_ERROR, TXN_SKIP, TXN_SAME, TXN_CHANGE };

/* One resource of a request and what is known about it. */
struct txn_item {
    struct kind_item item;
    const char *kind_name;
    const struct resource_kind *kind; /* NULL: unknown */
    enum txn_outcome outcome;
    json_t *before, *want;
    char *text; /* reason of an error or a skip, or a note; NULL for none */
};

/* Items for the resources of a request, not yet looked at.  ERR_DATA: not an array of resources. */
int txn_items_create(const struct resources_env *env, const json_t *resources,
                     struct txn_item **items, size_t *count, struct err *err);
void txn_items_destroy(struct txn_item *items, size_t count);
/* Check, read and compare each; fills outcome, before, want and text. */
void txn_items_evaluate(struct txn_item *items, size_t count);
/* Read before and compute want once more (an earlier item may have changed it). */
int txn_item_refresh(struct txn_item *item, struct err *err);

/* An item of a reply; text may be NULL. */
json_t *txn_reply_item(const struct txn_item *item, const char *outcome, const char *text);

/* Undo what the journal of `id` says, from its last intent backwards, and close it.
 *
 * texts     array with one text per resource of the journal; an undone one gets "restored", one
 * that could not be restored its reason; may be NULL restored  false: an item could not be
 * restored; the transaction stays open and why holds the first reason
 *
 * Returns -1 when the journal cannot be read or written; what could be restored has been. */
int txn_undo(const struct resources_env *env, const char *id, json_t *texts, bool *restored,
             struct err *why, struct err *err);

#endif
