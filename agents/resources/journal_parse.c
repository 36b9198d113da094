#include <stdlib.h>
#include <string.h>

#include "agents/resources/journal.h"
#include "common/jsonx.h"
#include "common/util.h"

struct parser {
    struct journal_log *log;
    const char *what; /* "journal x.jsonl line 3" */
    size_t resources;
};

static int order(const struct parser *p, bool right, const char *type, struct err *err)
{
    if (right)
        return 0;
    return err_set(err, ERR_DATA, "%s: a line '%s' cannot stand here", p->what, type);
}

static int get_index(const struct parser *p, const json_t *line, size_t *out, struct err *err)
{
    int64_t i;
    if (jsonx_get_int(line, p->what, "i", &i, err) != 0)
        return -1;
    if (i < 0 || (uint64_t)i >= p->resources)
        return err_set(err, ERR_DATA, "%s: resource %lld of %zu", p->what, (long long)i,
                       p->resources);
    *out = (size_t)i;
    return 0;
}

static int on_begin(struct parser *p, const json_t *line, struct err *err)
{
    static const char *const keys[] = {"v",    "t",         "txn",      "seq",
                                       "time", "resources", "manifest", NULL};
    int64_t version;
    const char *text;
    const json_t *resources, *manifest;
    if (order(p, !p->log->begin, "begin", err) != 0 ||
        jsonx_only_keys(line, p->what, keys, err) != 0 ||
        jsonx_get_int(line, p->what, "v", &version, err) != 0 ||
        jsonx_get_str(line, p->what, "txn", &text, err) != 0 ||
        jsonx_get_arr(line, p->what, "resources", &resources, err) != 0 ||
        jsonx_get_obj(line, p->what, "manifest", &manifest, err) != 0)
        return -1;
    if (version != 1)
        return err_set(err, ERR_DATA, "%s: version %lld is unknown; this program reads 1", p->what,
                       (long long)version);
    p->resources = json_array_size(resources);
    p->log->begin = json_incref((json_t *)(uintptr_t)line);
    return 0;
}

static int on_intent(struct parser *p, const json_t *line, struct err *err)
{
    static const char *const keys[] = {"t", "i", "before", "want", NULL};
    struct journal_log *log = p->log;
    const json_t *before = NULL, *want = NULL;
    size_t i = 0;
    if (jsonx_only_keys(line, p->what, keys, err) != 0 || get_index(p, line, &i, err) != 0 ||
        jsonx_get_obj(line, p->what, "before", &before, err) != 0 ||
        jsonx_get_obj(line, p->what, "want", &want, err) != 0)
        return -1;
    struct journal_entry *last = log->count ? &log->entries[log->count - 1] : NULL;
    if (order(p, !log->committed && (!last || (last->done && last->index < i)), "intent", err) != 0)
        return -1;
    log->entries = mem_grow(log->entries, log->count + 1, sizeof *log->entries);
    log->entries[log->count++] = (struct journal_entry){
        i, json_incref((json_t *)(uintptr_t)before), json_incref((json_t *)(uintptr_t)want), false};
    return 0;
}

static int on_done(struct parser *p, const json_t *line, struct err *err)
{
    static const char *const keys[] = {"t", "i", NULL};
    struct journal_log *log = p->log;
    size_t i = 0;
    if (jsonx_only_keys(line, p->what, keys, err) != 0 || get_index(p, line, &i, err) != 0)
        return -1;
    struct journal_entry *last = log->count ? &log->entries[log->count - 1] : NULL;
    bool right = last && !last->done && last->index == i;
    if (right)
        last->done = true;
    return order(p, right, "done", err);
}

static int on_commit(struct parser *p, const json_t *line, struct err *err)
{
    static const char *const keys[] = {"t", "manifest", NULL};
    const json_t *manifest;
    if (order(p, !p->log->committed, "commit", err) != 0 ||
        jsonx_only_keys(line, p->what, keys, err) != 0 ||
        jsonx_get_obj(line, p->what, "manifest", &manifest, err) != 0)
        return -1;
    p->log->manifest = json_incref((json_t *)(uintptr_t)manifest);
    p->log->committed = true;
    return 0;
}

static int on_rollback(struct parser *p, const json_t *line, struct err *err)
{
    static const char *const keys[] = {"t", "force", NULL};
    if (order(p, p->log->committed, "rollback", err) != 0 ||
        jsonx_only_keys(line, p->what, keys, err) != 0)
        return -1;
    p->log->rolling_back = true;
    return 0;
}

/* What was tried while undoing is a record for people: undoing starts over each time. */
static int on_trace(struct parser *p, const json_t *line, struct err *err)
{
    static const char *const keys[] = {"t", "i", "text", NULL};
    size_t i;
    if (jsonx_only_keys(line, p->what, keys, err) != 0)
        return -1;
    return get_index(p, line, &i, err);
}

static int on_undone(struct parser *p, const json_t *line, struct err *err)
{
    static const char *const keys[] = {"t", NULL};
    p->log->undone = true;
    return jsonx_only_keys(line, p->what, keys, err);
}

static int parse_line(struct parser *p, const char *text, size_t len, struct err *err)
{
    static const struct {
        const char *type;
        int (*on)(struct parser *p, const json_t *line, struct err *err);
    } types[] = {{"begin", on_begin},       {"intent", on_intent}, {"done", on_done},
                 {"commit", on_commit},     {"undo", on_trace},    {"failed", on_trace},
                 {"rollback", on_rollback}, {"undone", on_undone}};
    json_t *line = NULL;
    const char *type;
    if (jsonx_parse(text, len, p->what, &line, err) != 0)
        return -1;
    int rc = jsonx_get_str(line, p->what, "t", &type, err);
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(types); i++) {
        if (strcmp(types[i].type, type) != 0)
            continue;
        rc = order(p, !p->log->undone && (i == 0 || p->log->begin), type, err);
        if (rc == 0)
            rc = types[i].on(p, line, err);
        json_decref(line);
        return rc;
    }
    if (rc == 0)
        rc = err_set(err, ERR_DATA, "%s: unknown line '%.40s'", p->what, type);
    json_decref(line);
    return rc;
}

static bool is_json(const char *text, size_t len)
{
    struct err ignored = {0};
    json_t *value = NULL;
    int rc = jsonx_parse(text, len, "", &value, &ignored);
    json_decref(value);
    return rc == 0;
}

int journal_parse(const char *text, size_t len, const char *source, struct journal_log *log,
                  struct err *err)
{
    struct parser p = {.log = log};
    *log = (struct journal_log){0};
    int rc = 0;
    size_t number = 1;
    for (size_t at = 0; at < len && rc == 0; number++) {
        const char *nl = memchr(text + at, '\n', len - at);
        size_t n = nl ? (size_t)(nl - text) - at : len - at;
        bool last = !nl || at + n + 1 == len;
        if (!nl || (last && !is_json(text + at, n)))
            break; /* torn: the machine stopped while it was written */
        AUTO(free_str) char *what = str_printf("journal %s line %zu", source, number);
        p.what = what;
        rc = parse_line(&p, text + at, n, err);
        at += n + 1;
        if (rc == 0)
            log->good_bytes = at;
    }
    if (rc != 0)
        journal_log_release(log);
    return rc;
}

void journal_log_release(struct journal_log *log)
{
    json_decref(log->begin);
    json_decref(log->manifest);
    for (size_t i = 0; i < log->count; i++) {
        json_decref(log->entries[i].before);
        json_decref(log->entries[i].want);
    }
    free(log->entries);
    *log = (struct journal_log){0};
}
