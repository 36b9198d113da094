#include <stdlib.h>
#include <string.h>

#include "agents/resources/manifest.h"
#include "agents/resources/txn.h"
#include "common/jsonx.h"

/* --- a transaction that was broken off ------------------------------------------------------ */

static json_t *recovery(const char *id, const char *action, const char *text)
{
    json_t *out = json_object();
    jsonx_set_str(out, "txn", id);
    jsonx_set_str(out, "action", action);
    jsonx_set_str(out, "text", text);
    return out;
}

static int finish_committed(const struct resources_env *env, const char *id,
                            const struct journal_log *log, json_t **out, struct err *err)
{
    if (manifest_write(env, log->manifest, err) != 0 || journal_clear_open(env, err) != 0)
        return -1;
    AUTO(free_str)
    char *text =
        str_printf("transaction %s had been committed when it was broken off; its manifest is "
                   "written now",
                   id);
    *out = recovery(id, "finished", text);
    return 0;
}

static int undo_broken(const struct resources_env *env, const char *id, size_t changes,
                       json_t **out, struct err *err)
{
    bool restored = false;
    struct err why = {0};
    if (txn_undo(env, id, NULL, &restored, &why, err) != 0)
        return err_wrap(err, "transaction %s was broken off and cannot be undone: ", id);
    AUTO(free_str)
    char *text =
        restored ? str_printf("transaction %s was broken off; %zu resource%s put back as before",
                              id, changes, changes == 1 ? " was" : "s were")
                 : str_printf("transaction %s was broken off and stays open: %s", id, why.text);
    *out = recovery(id, restored ? "undone" : "open", text);
    return 0;
}

int resources_recover(const struct resources_env *env, json_t **out, struct err *err)
{
    AUTO(free_str) char *id = NULL;
    AUTO(free_str) char *again = NULL;
    AUTO(close_fd) int lock = -1;
    *out = NULL;
    /* A node without a broken-off transaction needs no lock and gets no directory. */
    if (journal_open_id(env, &id, err) != 0)
        return -1;
    if (!id)
        return 0;
    if (journal_lock(env, &lock, err) != 0 || journal_open_id(env, &again, err) != 0)
        return -1;
    if (!again)
        return 0; /* whoever held the lock has finished it in between */
    struct journal_log log;
    if (journal_load(env, again, &log, err) != 0)
        return -1;
    bool stands = log.committed && !log.rolling_back && !log.undone;
    int rc = stands ? finish_committed(env, again, &log, out, err)
                    : undo_broken(env, again, log.count, out, err);
    journal_log_release(&log);
    return rc;
}

/* --- undoing a committed transaction -------------------------------------------------------- */

/* The newest that stands, or NULL. */
static int find_newest(const struct resources_env *env, char **id, struct err *err)
{
    struct journal_list list;
    if (journal_list_read(env, &list, err) != 0)
        return -1;
    int rc = 0;
    for (size_t i = 0; i < list.count && rc == 0 && !*id; i++) {
        struct journal_log log;
        rc = journal_load(env, list.rows[i].id, &log, err);
        if (rc == 0 && log.committed && !log.undone)
            *id = str_dup(list.rows[i].id);
        if (rc == 0)
            journal_log_release(&log);
    }
    journal_list_release(&list);
    return rc;
}

/* Is the resource still as the transaction left it (or already as before)? */
static int check_unchanged(const struct txn_item *t, const struct journal_entry *entry,
                           const char *id, struct err *err)
{
    if (!t->kind)
        return err_set(err, ERR_DATA, "this program does not know the kind '%.40s'", t->kind_name);
    json_t *now = NULL;
    if (kind_read(t->kind, &t->item, &now, err) != 0)
        return err_wrap(err, "%s %s: ", t->kind_name, t->item.id);
    bool ours = kind_state_equal(t->kind, now, entry->want) ||
                kind_state_equal(t->kind, now, entry->before);
    json_decref(now);
    if (ours)
        return 0;
    return err_set(err, ERR_DATA,
                   "%s %s was changed since transaction %s, by hand or by a later transaction; "
                   "nothing was rolled back (force overwrites it)",
                   t->kind_name, t->item.id, id);
}

/* Only the last of several changes of one thing is what the transaction left. */
static bool is_last_change(const struct txn_item *items, const struct journal_log *log, size_t i)
{
    const struct txn_item *t = &items[log->entries[i].index];
    for (size_t j = i + 1; j < log->count; j++) {
        const struct txn_item *later = &items[log->entries[j].index];
        if (later->kind == t->kind && strcmp(later->item.id, t->item.id) == 0)
            return false;
    }
    return true;
}

static int check_all_unchanged(const struct txn_item *items, const struct journal_log *log,
                               const char *id, struct err *err)
{
    for (size_t i = 0; i < log->count; i++) {
        const struct journal_entry *entry = &log->entries[i];
        if (is_last_change(items, log, i) &&
            check_unchanged(&items[entry->index], entry, id, err) != 0)
            return -1;
    }
    return 0;
}

static json_t *rollback_reply(const struct txn_item *items, const struct journal_log *log,
                              const json_t *texts, bool restored)
{
    json_t *list = json_array(), *data = json_object();
    for (size_t i = 0; i < log->count; i++) {
        size_t index = log->entries[i].index;
        const char *text = json_string_value(json_array_get(texts, index));
        bool good = text && strcmp(text, "restored") == 0;
        jsonx_append(list, txn_reply_item(&items[index], good ? "undone" : "failed", text));
    }
    jsonx_set(data, "items", list);
    jsonx_set_str(data, "state", restored ? "undone" : "open");
    return data;
}

static int mark(const struct resources_env *env, const char *id, const struct journal_log *log,
                bool force, struct err *err)
{
    struct journal journal = {-1};
    json_t *line = journal_line("rollback");
    jsonx_set_bool(line, "force", force);
    int rc = journal_reopen(env, id, log->good_bytes, &journal, err);
    if (rc == 0)
        rc = journal_append(env, &journal, json_incref(line), err);
    json_decref(line);
    journal_close(&journal);
    return rc == 0 ? journal_mark_open(env, id, err) : rc;
}

static int roll_back(const struct resources_env *env, const char *id, struct journal_log *log,
                     bool force, json_t **data, struct err *err)
{
    struct txn_item *items;
    size_t count;
    if (txn_items_create(env, json_object_get(log->begin, "resources"), &items, &count, err) != 0)
        return -1;
    /* An interrupted roll-back has put some back already; its check was made when it began. */
    int rc = force || log->rolling_back ? 0 : check_all_unchanged(items, log, id, err);
    json_t *texts = json_array();
    for (size_t i = 0; i < count; i++)
        jsonx_append_str(texts, "");
    bool restored = false;
    struct err why = {0};
    if (rc == 0)
        rc = mark(env, id, log, force, err);
    if (rc == 0)
        rc = txn_undo(env, id, texts, &restored, &why, err);
    if (rc == 0)
        *data = rollback_reply(items, log, texts, restored);
    json_decref(texts);
    txn_items_destroy(items, count);
    return rc;
}

static int rollback_locked(const struct resources_env *env, const char *txn, bool force,
                           json_t **data, struct err *err)
{
    AUTO(free_str) char *open = NULL;
    AUTO(free_str) char *id = txn ? str_dup(txn) : NULL;
    if (journal_open_id(env, &open, err) != 0)
        return -1;
    if (open)
        return err_set(err, ERR_ENV,
                       "transaction %s was broken off on this node and is not undone yet", open);
    if (!id && find_newest(env, &id, err) != 0)
        return -1;
    if (!id) {
        *data = json_pack("{s:[],s:s}", "items", "state", "nothing");
        return 0;
    }
    struct journal_log log;
    if (journal_load(env, id, &log, err) != 0)
        return -1;
    int rc;
    if (!log.begin)
        rc = err_set(err, ERR_USAGE, "no transaction %s was applied on this node", id);
    else if (log.undone || !log.committed)
        rc = err_set(err, ERR_USAGE, "transaction %s is undone already", id);
    else
        rc = roll_back(env, id, &log, force, data, err);
    journal_log_release(&log);
    return rc;
}

int resources_rollback(const struct resources_env *env, const char *txn, bool force, json_t **data,
                       struct err *err)
{
    AUTO(close_fd) int lock = -1;
    if (txn && journal_check_id(txn, err) != 0)
        return -1;
    if (journal_lock(env, &lock, err) != 0)
        return -1;
    return rollback_locked(env, txn, force, data, err);
}
