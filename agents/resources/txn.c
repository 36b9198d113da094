#include "agents/resources/txn.h"

#include <stdlib.h>
#include <string.h>

#include "agents/resources/manifest.h"
#include "common/jsonx.h"

struct txn {
    const struct resources_env *env;
    const char *id;
    const json_t *resources;
    struct txn_item *items;
    size_t count;
    struct journal journal;
    json_t *manifest_before;
};

/* --- the reply ------------------------------------------------------------------------------ */

static json_t *reply(const struct txn *t, const char *state,
                     json_t *(*item)(const struct txn *t, size_t i, void *ctx), void *ctx)
{
    json_t *items = json_array(), *data = json_object();
    for (size_t i = 0; i < t->count; i++)
        jsonx_append(items, item(t, i, ctx));
    jsonx_set(data, "items", items);
    jsonx_set_str(data, "state", state);
    return data;
}

/* Nothing failed: changed, same, skipped. */
static json_t *item_good(const struct txn *t, size_t i, void *ctx)
{
    const struct txn_item *item = &t->items[i];
    const bool *changed = ctx;
    if (item->outcome == TXN_SKIP)
        return txn_reply_item(item, "skipped", item->text);
    return txn_reply_item(item, changed && changed[i] ? "changed" : "same", item->text);
}

struct failure {
    size_t index; /* the resource that failed */
    const char *reason;
    const json_t *texts; /* what undoing did, one per resource; NULL when nothing was changed */
};

static json_t *item_after_failure(const struct txn *t, size_t i, void *ctx)
{
    const struct failure *f = ctx;
    const struct txn_item *item = &t->items[i];
    const char *undo = json_string_value(json_array_get(f->texts, i));
    if (i == f->index) {
        bool lost = undo && str_has_prefix(undo, "failed to restore");
        AUTO(free_str)
        char *text = str_printf("%s%s%s", f->reason, lost ? "; " : "", lost ? undo : "");
        return txn_reply_item(item, "failed", text);
    }
    if (undo && undo[0] != '\0')
        return txn_reply_item(item, str_has_prefix(undo, "restored") ? "undone" : "failed", undo);
    if (item->outcome == TXN_SKIP)
        return txn_reply_item(item, "skipped", item->text);
    if (item->outcome == TXN_ERROR)
        return txn_reply_item(item, "failed", item->text);
    return txn_reply_item(item, item->outcome == TXN_SAME ? "same" : "undone",
                          item->outcome == TXN_SAME ? item->text : "not applied");
}

/* --- applying ------------------------------------------------------------------------------- */

static json_t *build_manifest(const struct txn *t)
{
    json_t *manifest = manifest_empty();
    jsonx_set_str(manifest, "run", t->id);
    for (size_t i = 0; i < t->count; i++) {
        const struct txn_item *item = &t->items[i];
        if (item->outcome != TXN_SKIP)
            manifest_put(manifest, manifest_item(item->kind, &item->item, item->want));
    }
    return manifest;
}

static int verify(struct txn_item *item, struct err *err)
{
    json_t *now = NULL;
    if (kind_read(item->kind, &item->item, &now, err) != 0)
        return err_wrap(err, "it was changed and cannot be read back: ");
    bool equal = kind_state_equal(item->kind, now, item->want);
    AUTO(free_str) char *diff = equal ? NULL : kind_diff(item->kind, &item->item, now, item->want);
    json_decref(now);
    if (!equal)
        return err_set(err, ERR_ENV, "it was changed and does not read back as wanted:\n%.300s",
                       diff);
    return item->kind->verify ? item->kind->verify(&item->item, item->want, err) : 0;
}

static int change_item(struct txn *t, size_t i, struct err *err)
{
    struct txn_item *item = &t->items[i];
    json_t *intent = journal_line_at("intent", i);
    jsonx_set(intent, "before", json_incref(item->before));
    jsonx_set(intent, "want", json_incref(item->want));
    if (journal_append(t->env, &t->journal, intent, err) != 0 ||
        kind_apply(item->kind, &item->item, item->want, err) != 0 || verify(item, err) != 0)
        return -1;
    return journal_append(t->env, &t->journal, journal_line_at("done", i), err);
}

static int apply_item(struct txn *t, size_t i, bool *changed, struct err *err)
{
    struct txn_item *item = &t->items[i];
    if (item->outcome == TXN_SKIP)
        return 0;
    AUTO(free_str) char *text = str_printf("%s %s", item->kind_name, item->item.id);
    if (t->env->progress && t->env->progress(t->env->ctx, i + 1, t->count, text) != 0)
        return err_set(err, ERR_REMOTE, "stopped before this step: the controller is gone");
    if (txn_item_refresh(item, err) != 0)
        return -1;
    if (item->outcome == TXN_SAME)
        return 0;
    *changed = true;
    if (change_item(t, i, err) != 0)
        return -1;
    free(item->text);
    item->text = item->kind->note ? item->kind->note(&item->item, item->want) : NULL;
    return 0;
}

/* Every resource must still hold once all have been applied: two that contradict each other would
 * otherwise change the node at each run. */
static int check_all_hold(struct txn *t, size_t *failed, struct err *err)
{
    for (size_t i = 0; i < t->count; i++) {
        struct txn_item *item = &t->items[i];
        if (item->outcome == TXN_SKIP)
            continue;
        *failed = i;
        if (txn_item_refresh(item, err) != 0)
            return -1;
        if (item->outcome == TXN_CHANGE)
            return err_set(err, ERR_USAGE,
                           "it does not hold once all resources are applied: a later resource "
                           "sets the same thing differently");
    }
    return 0;
}

static int commit(struct txn *t, struct err *err)
{
    json_t *manifest = build_manifest(t);
    json_t *line = journal_line("commit");
    jsonx_set(line, "manifest", json_incref(manifest));
    int rc = journal_append(t->env, &t->journal, line, err);
    json_decref(manifest);
    return rc;
}

static int next_seq(const struct resources_env *env, int64_t *seq, struct err *err)
{
    struct journal_list list;
    if (journal_list_read(env, &list, err) != 0)
        return -1;
    *seq = list.count ? list.rows[0].seq + 1 : 1;
    journal_list_release(&list);
    return 0;
}

static int begin(struct txn *t, struct err *err)
{
    int64_t seq = 0;
    char now[25];
    if (next_seq(t->env, &seq, err) != 0)
        return -1;
    time_format(wall_ms(), now);
    json_t *line = journal_line("begin");
    jsonx_set_int(line, "v", 1);
    jsonx_set_str(line, "txn", t->id);
    jsonx_set_int(line, "seq", seq);
    jsonx_set_str(line, "time", now);
    jsonx_set(line, "resources", json_incref((json_t *)(uintptr_t)t->resources));
    jsonx_set(line, "manifest", json_incref(t->manifest_before));
    return journal_create(t->env, t->id, line, &t->journal, err);
}

/* All steps; *failed is the resource that a failure belongs to. */
static int run(struct txn *t, bool *changed, size_t *failed, struct err *err)
{
    for (size_t i = 0; i < t->count; i++) {
        *failed = i;
        if (apply_item(t, i, &changed[i], err) != 0)
            return -1;
    }
    return check_all_hold(t, failed, err) != 0 ? -1 : commit(t, err);
}

static void undo_failed(struct txn *t, size_t failed, const struct err *cause, json_t **data)
{
    json_t *texts = json_array();
    for (size_t i = 0; i < t->count; i++)
        jsonx_append_str(texts, "");
    bool restored = false;
    struct err why = {0}, err = {0};
    int rc = txn_undo(t->env, t->id, texts, &restored, &why, &err);
    AUTO(free_str)
    char *reason =
        rc == 0 ? str_dup(cause->text)
                : str_printf("%s; %s, and the transaction stays open: %s", cause->text,
                             restored ? "all was restored" : "not all was restored", err.text);
    struct failure f = {failed, reason, texts};
    *data = reply(t, rc == 0 && restored ? "undone" : "open", item_after_failure, &f);
    json_decref(texts);
}

/* After the commit line the change stands, whatever happens to the manifest: the next
 * resources_recover() writes it from the journal. */
static int finish(struct txn *t, const bool *changed, json_t **data, struct err *err)
{
    json_t *manifest = build_manifest(t);
    int rc = manifest_write(t->env, manifest, err);
    json_decref(manifest);
    if (rc != 0 || journal_clear_open(t->env, err) != 0)
        return err_wrap(err, "transaction %s is committed, but: ", t->id);
    *data = reply(t, "committed", item_good, (void *)(uintptr_t)changed);
    return 0;
}

static int change_all(struct txn *t, json_t **data, struct err *err)
{
    if (begin(t, err) != 0)
        return -1;
    bool *changed = mem_zero(t->count + 1, sizeof *changed);
    struct err cause = {0};
    size_t failed = 0;
    int rc = run(t, changed, &failed, &cause);
    journal_close(&t->journal);
    if (rc == 0)
        rc = finish(t, changed, data, err);
    else {
        undo_failed(t, failed, &cause, data);
        rc = 0;
    }
    free(changed);
    return rc;
}

/* All is as wanted.  The manifest may still differ: of a node that was right before its first
 * apply, or after a resource has left the playbooks. */
static int change_nothing(struct txn *t, json_t **data, struct err *err)
{
    json_t *manifest = build_manifest(t);
    int rc =
        json_equal(json_object_get(manifest, "items"), json_object_get(t->manifest_before, "items"))
            ? 0
            : manifest_write(t->env, manifest, err);
    json_decref(manifest);
    if (rc == 0)
        *data = reply(t, "nothing", item_good, NULL);
    return rc;
}

static int apply_locked(struct txn *t, json_t **data, struct err *err)
{
    AUTO(free_str) char *open = NULL;
    if (journal_open_id(t->env, &open, err) != 0)
        return -1;
    if (open)
        return err_set(err, ERR_ENV,
                       "transaction %s was broken off on this node and is not undone yet", open);
    if (resources_manifest(t->env, &t->manifest_before, err) != 0)
        return -1;
    txn_items_evaluate(t->items, t->count);
    size_t changes = 0;
    for (size_t i = 0; i < t->count; i++) {
        if (t->items[i].outcome == TXN_ERROR) {
            struct failure f = {i, t->items[i].text, NULL};
            *data = reply(t, "undone", item_after_failure, &f);
            return 0;
        }
        changes += t->items[i].outcome == TXN_CHANGE;
    }
    if (changes == 0)
        return change_nothing(t, data, err);
    if (journal_exists(t->env, t->id))
        return err_set(err, ERR_USAGE, "transaction %s has been applied here before", t->id);
    return change_all(t, data, err);
}

int resources_apply(const struct resources_env *env, const char *txn, const json_t *resources,
                    json_t **data, struct err *err)
{
    struct txn t = {.env = env, .id = txn, .resources = resources, .journal = {-1}};
    AUTO(close_fd) int lock = -1;
    if (journal_check_id(txn, err) != 0 ||
        txn_items_create(env, resources, &t.items, &t.count, err) != 0)
        return -1;
    int rc = journal_lock(env, &lock, err);
    if (rc == 0)
        rc = apply_locked(&t, data, err);
    json_decref(t.manifest_before);
    txn_items_destroy(t.items, t.count);
    return rc;
}
