#include <stdlib.h>
#include <string.h>

#include "agents/resources/manifest.h"
#include "agents/resources/txn.h"
#include "common/jsonx.h"

struct undo {
    const struct resources_env *env;
    const char *id;
    struct journal_log log;
    struct journal journal;
    json_t *texts; /* may be NULL */
};

static void set_text(struct undo *u, size_t index, const char *text)
{
    if (u->texts && index < json_array_size(u->texts))
        json_array_set_new(u->texts, index, json_string(text));
}

/* Put one resource back and look whether it took. */
static int restore(struct undo *u, const struct journal_entry *entry, struct err *err)
{
    const json_t *resources = json_object_get(u->log.begin, "resources");
    struct txn_item *items;
    size_t count;
    if (txn_items_create(u->env, resources, &items, &count, err) != 0)
        return -1;
    struct txn_item *t = &items[entry->index];
    int rc = -1;
    json_t *now = NULL;
    if (!t->kind)
        err_set(err, ERR_DATA, "this program does not know the kind");
    else if (kind_apply(t->kind, &t->item, entry->before, err) == 0 &&
             kind_read(t->kind, &t->item, &now, err) == 0)
        rc = kind_state_equal(t->kind, now, entry->before)
                 ? 0
                 : err_set(err, ERR_ENV, "it does not read as before");
    json_decref(now);
    if (rc != 0)
        err_wrap(err, "failed to restore %s %s: ", t->kind_name, t->item.id);
    txn_items_destroy(items, count);
    return rc;
}

/* Lines of the undoing itself are for people: undoing starts over each time, so that a disk that is
 * full must not keep a resource from being put back. */
static void trace(struct undo *u, json_t *line, const char *text)
{
    struct err ignored = {0};
    if (text)
        jsonx_set_str(line, "text", text);
    journal_append(u->env, &u->journal, line, &ignored);
}

static bool restore_all(struct undo *u, struct err *why)
{
    bool all = true;
    for (size_t i = u->log.count; i-- > 0;) {
        const struct journal_entry *entry = &u->log.entries[i];
        struct err err = {0};
        trace(u, journal_line_at("undo", entry->index), NULL);
        if (restore(u, entry, &err) == 0) {
            set_text(u, entry->index, "restored");
        } else {
            trace(u, journal_line_at("failed", entry->index), err.text);
            set_text(u, entry->index, err.text);
            err_set(why, err.kind, "%s", err.text);
            all = false;
        }
    }
    return all;
}

/* The manifest as it was before the transaction, as far as later ones have not changed it. */
static int restore_manifest(struct undo *u, struct err *err)
{
    const json_t *old = json_object_get(u->log.begin, "manifest");
    json_t *now = NULL;
    if (resources_manifest(u->env, &now, err) != 0)
        return -1;
    json_t *result;
    if (strcmp(jsonx_str_or(now, "run", ""), u->id) == 0) {
        result = json_deep_copy(old);
    } else {
        result = json_deep_copy(now);
        const json_t *resources = json_object_get(u->log.begin, "resources");
        for (size_t i = 0; i < u->log.count; i++) {
            const json_t *r = json_array_get(resources, u->log.entries[i].index);
            const char *kind = jsonx_str_or(r, "kind", ""), *id = jsonx_str_or(r, "id", "");
            const json_t *item = manifest_get(old, kind, id);
            if (item)
                manifest_put(result, json_deep_copy(item));
            else
                manifest_drop(result, kind, id);
        }
    }
    int rc = manifest_write(u->env, result, err);
    json_decref(now);
    json_decref(result);
    return rc;
}

static int close_undone(struct undo *u, struct err *err)
{
    if (u->log.rolling_back && restore_manifest(u, err) != 0)
        return -1;
    if (!u->log.undone && journal_append(u->env, &u->journal, journal_line("undone"), err) != 0)
        return -1;
    return journal_clear_open(u->env, err);
}

int txn_undo(const struct resources_env *env, const char *id, json_t *texts, bool *restored,
             struct err *why, struct err *err)
{
    struct undo u = {.env = env, .id = id, .texts = texts, .journal = {-1}};
    *restored = false;
    if (journal_load(env, id, &u.log, err) != 0)
        return -1;
    int rc;
    if (!u.log.begin) {
        *restored = true;
        rc = journal_remove(env, id, err);
        if (rc == 0)
            rc = journal_clear_open(env, err);
    } else if ((rc = journal_reopen(env, id, u.log.good_bytes, &u.journal, err)) == 0) {
        *restored = u.log.undone || restore_all(&u, why);
        if (*restored)
            rc = close_undone(&u, err);
    }
    journal_close(&u.journal);
    journal_log_release(&u.log);
    return rc;
}
