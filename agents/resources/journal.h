/* The journal of one transaction, STATE_DIR/txn/ID.jsonl, and the link that names the open one.
 *
 * Every line is durable before the step that it announces.  A last line that is torn counts as not
 * written.  docs/contracts.md, section 6, states the lines.  Not thread-safe. */
#ifndef MUSTER_AGENTS_RESOURCES_JOURNAL_H
#define MUSTER_AGENTS_RESOURCES_JOURNAL_H

#include "agents/resources/resources.h"

enum { JOURNAL_MAX_BYTES = 64 * 1024 * 1024, JOURNAL_ID_MAX_BYTES = 64 };

struct journal {
    int fd; /* -1 when closed */
};

struct journal_entry {
    size_t index; /* into the resources of the begin line */
    json_t *before, *want;
    bool done;
};

/* A journal as it reads. */
struct journal_log {
    json_t *begin;                 /* NULL: nothing durable was written */
    struct journal_entry *entries; /* in the order of the intents */
    size_t count;
    json_t *manifest; /* of the commit line; NULL until then */
    bool committed;
    bool rolling_back; /* a roll-back of the committed transaction has begun */
    bool undone;
    size_t good_bytes; /* length without a torn last line */
};

/* A transaction's name: letters, digits, '.', '_', '-', no leading '.', at most 64 bytes.
 * ERR_USAGE. */
int journal_check_id(const char *id, struct err *err);

/* Parse the text of a journal.  source names it in messages.  ERR_DATA names the line. */
int journal_parse(const char *text, size_t len, const char *source, struct journal_log *log,
                  struct err *err);
void journal_log_release(struct journal_log *log);

/* Read a journal; a missing or empty one gives log->begin NULL.  ERR_ENV, ERR_DATA. */
int journal_load(const struct resources_env *env, const char *id, struct journal_log *log,
                 struct err *err);
bool journal_exists(const struct resources_env *env, const char *id);

/* Mark id as the open transaction, create its journal and write the begin line (takes over begin).
 * On failure nothing is left.  ERR_ENV. */
int journal_create(const struct resources_env *env, const char *id, json_t *begin,
                   struct journal *journal, struct err *err);
/* Continue a journal behind its last good line.  ERR_ENV. */
int journal_reopen(const struct resources_env *env, const char *id, size_t good_bytes,
                   struct journal *journal, struct err *err);
/* Append one line (takes over line); a failed append leaves no part of it.  ERR_ENV. */
int journal_append(const struct resources_env *env, struct journal *journal, json_t *line,
                   struct err *err);
void journal_close(struct journal *journal);

/* Lines. */
json_t *journal_line(const char *type);
json_t *journal_line_at(const char *type, size_t index);

/* Name of the open transaction, NULL when none is.  The caller frees. */
int journal_open_id(const struct resources_env *env, char **id, struct err *err);
int journal_mark_open(const struct resources_env *env, const char *id, struct err *err);
int journal_clear_open(const struct resources_env *env, struct err *err);
int journal_remove(const struct resources_env *env, const char *id, struct err *err);

/* Transactions that have a journal here, newest first; the order is the "seq" of their begin lines.
 */
struct journal_list {
    struct journal_list_row {
        char *id;
        int64_t seq;
    } * rows;
    size_t count;
};
int journal_list_read(const struct resources_env *env, struct journal_list *list, struct err *err);
void journal_list_release(struct journal_list *list);

/* Take the lock that lets one process at a time work here; released by close_fd() and by the end of
 * the process.  Makes STATE_DIR/txn.  ERR_ENV: held by another, or cannot be made. */
int journal_lock(const struct resources_env *env, int *fd, struct err *err);

/* Path below STATE_DIR on this machine ("txn/x.jsonl").  The caller frees; NULL and err. */
char *journal_path(const struct resources_env *env, const char *below, struct err *err);

#endif
