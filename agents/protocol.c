#include "agents/protocol.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/jsonx.h"

/* --- lines in ------------------------------------------------------------------------------- */

int protocol_fill(struct protocol_reader *r, int fd, struct err *err)
{
    char chunk[65536];
    ssize_t got = read(fd, chunk, sizeof chunk);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    /* A socket whose other end died with unread data reports that instead of its end. */
    if (got == 0 || (got < 0 && errno == ECONNRESET)) {
        r->ended = true;
        return 0;
    }
    if (got < 0)
        return err_set_errno(err, ERR_REMOTE, errno, "read from the channel");
    strbuf_add(&r->buf, chunk, (size_t)got);
    return 1;
}

int protocol_next(struct protocol_reader *r, char **line, size_t *len, struct err *err)
{
    strbuf_drop_front(&r->buf, r->consumed);
    r->consumed = 0;
    if (r->buf.len == 0)
        return 0;
    char *newline = memchr(r->buf.data + r->scanned, '\n', r->buf.len - r->scanned);
    size_t line_len = newline ? (size_t)(newline - r->buf.data) : r->buf.len;
    if (line_len > PROTOCOL_MAX_LINE_BYTES)
        return err_set(err, ERR_DATA, "a line is longer than the limit of %d bytes",
                       PROTOCOL_MAX_LINE_BYTES);
    r->scanned = newline ? 0 : r->buf.len;
    if (!newline)
        return 0;
    *newline = '\0';
    r->consumed = line_len + 1;
    *line = r->buf.data;
    *len = line_len;
    return 1;
}

void protocol_reader_release(struct protocol_reader *r)
{
    strbuf_release(&r->buf);
    *r = (struct protocol_reader){0};
}

/* --- lines out ------------------------------------------------------------------------------ */

static void put_text(struct protocol_writer *w, const char *text, size_t len)
{
    enum { COMPACT_BYTES = 1024 * 1024 };
    if (w->broken)
        return;
    if (w->done >= COMPACT_BYTES) {
        strbuf_drop_front(&w->buf, w->done);
        w->done = 0;
    }
    strbuf_add(&w->buf, text, len);
    strbuf_add(&w->buf, "\n", 1);
}

/* Compact text; objects here are built from valid strings, so only memory can fail. */
static char *dump(const json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT);
    if (!text)
        abort();
    return text;
}

void protocol_put(struct protocol_writer *w, json_t *object)
{
    AUTO(free_str) char *text = dump(object);
    json_decref(object);
    put_text(w, text, strlen(text));
}

size_t protocol_pending_bytes(const struct protocol_writer *w)
{
    return w->buf.len - w->done;
}

/* Sockets can be told not to wait.  A pipe shared with others must keep its flags; one that polls
 * as writable takes PIPE_BUF bytes at once. */
static ssize_t write_some(int fd, const char *data, size_t len)
{
    ssize_t put = send(fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put >= 0 || errno != ENOTSOCK)
        return put;
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    if (poll(&p, 1, 0) <= 0) {
        errno = EAGAIN;
        return -1;
    }
    return write(fd, data, len < PIPE_BUF ? len : PIPE_BUF);
}

void protocol_flush(struct protocol_writer *w, int fd)
{
    while (!w->broken && protocol_pending_bytes(w) > 0) {
        ssize_t put = write_some(fd, w->buf.data + w->done, protocol_pending_bytes(w));
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && errno == EAGAIN)
            return;
        if (put < 0)
            w->broken = true;
        else
            w->done += (size_t)put;
    }
    w->buf.len = 0;
    w->done = 0;
}

void protocol_writer_release(struct protocol_writer *w)
{
    strbuf_release(&w->buf);
    *w = (struct protocol_writer){0};
}

/* An object with v and id, in the order in which people read it. */
static json_t *message(int64_t id)
{
    json_t *object = json_object();
    if (!object)
        abort();
    jsonx_set_int(object, "v", PROTOCOL_VERSION);
    jsonx_set(object, "id", id == PROTOCOL_NO_ID ? json_null() : json_integer(id));
    return object;
}

void protocol_reply(struct protocol_writer *w, int64_t id, json_t *data)
{
    json_auto_t *reply = message(id);
    jsonx_set_bool(reply, "ok", true);
    jsonx_set(reply, "data", data ? data : json_object());
    AUTO(free_str) char *text = dump(reply);
    size_t len = strlen(text);
    if (len <= PROTOCOL_MAX_LINE_BYTES) {
        put_text(w, text, len);
        return;
    }
    struct err err = {0};
    err_set(&err, ERR_DATA, "the reply has %zu bytes, over the limit of %d", len,
            PROTOCOL_MAX_LINE_BYTES);
    protocol_reply_error(w, id, &err);
}

void protocol_reply_error(struct protocol_writer *w, int64_t id, const struct err *err)
{
    json_t *reply = message(id);
    json_t *error = json_object();
    /* A cause that quotes bytes from outside may hold what is not UTF-8. */
    json_t *text = json_string(err->text);
    jsonx_set_str(error, "kind", err_kind_name(err->kind));
    jsonx_set(error, "text", text ? text : json_string("an error whose text is not UTF-8"));
    jsonx_set_bool(reply, "ok", false);
    jsonx_set(reply, "error", error);
    protocol_put(w, reply);
}

void protocol_event(struct protocol_writer *w, int64_t id, const char *event, json_t *fields)
{
    json_t *line = message(id);
    jsonx_set_str(line, "event", event);
    if (fields)
        (void)json_object_update_missing(line, fields);
    json_decref(fields);
    protocol_put(w, line);
}

/* --- requests ------------------------------------------------------------------------------- */

enum key_type { KEY_END = 0, KEY_STRING, KEY_INTEGER, KEY_BOOL, KEY_OBJECT, KEY_ARRAY };

enum { MAX_OWN_KEYS = 4, COMMON_KEYS = 3 };

static const struct op_row {
    const char *name;
    struct {
        const char *name;
        enum key_type type;
        bool optional;
    } keys[MAX_OWN_KEYS];
} ops[] = {
    [PROTOCOL_UNSET] = {"unset", {{0}}},
    [PROTOCOL_HELLO] = {"hello",
                        {{"run", KEY_STRING, false},
                         {"node", KEY_STRING, false},
                         {"seq", KEY_INTEGER, true}}},
    [PROTOCOL_FACTS] = {"facts", {{0}}},
    [PROTOCOL_PLAN] = {"plan", {{"resources", KEY_ARRAY, false}}},
    [PROTOCOL_APPLY] = {"apply", {{"txn", KEY_STRING, false}, {"resources", KEY_ARRAY, false}}},
    [PROTOCOL_ROLLBACK] = {"rollback", {{"txn", KEY_STRING, false}, {"force", KEY_BOOL, true}}},
    [PROTOCOL_STAGE] = {"stage",
                        {{"stage", KEY_STRING, false},
                         {"params", KEY_OBJECT, true},
                         {"deadline_ms", KEY_INTEGER, false}}},
    [PROTOCOL_GO] = {"go", {{"stage_id", KEY_INTEGER, false}, {"data", KEY_OBJECT, false}}},
    [PROTOCOL_CANCEL] = {"cancel", {{"stage_id", KEY_INTEGER, false}}},
    [PROTOCOL_PUBLISH] = {"publish",
                          {{"slice", KEY_OBJECT, false}, {"public_key", KEY_STRING, false}}},
    [PROTOCOL_BYE] = {"bye", {{0}}},
};
_Static_assert(ARRAY_LEN(ops) == PROTOCOL_OP__COUNT, "one row per op");

const char *protocol_op_name(enum protocol_op op)
{
    return op < PROTOCOL_OP__COUNT ? ops[op].name : ops[PROTOCOL_UNSET].name;
}

static int find_op(const char *name, enum protocol_op *op, struct err *err)
{
    const char *names[PROTOCOL_OP__COUNT] = {0};
    for (int i = PROTOCOL_UNSET + 1; i < PROTOCOL_OP__COUNT; i++) {
        names[i - 1] = ops[i].name;
        if (strcmp(name, ops[i].name) == 0) {
            *op = (enum protocol_op)i;
            return 0;
        }
    }
    const char *near = str_nearest(name, names);
    return err_set(err, ERR_USAGE, "unknown op '%.40s'%s%s%s", name, near ? "; did you mean '" : "",
                   near ? near : "", near ? "'?" : "");
}

static int check_key(const json_t *body, const char *what, const char *key, enum key_type type,
                     struct err *err)
{
    const char *text;
    int64_t number;
    bool flag;
    const json_t *inner;
    switch (type) {
    case KEY_STRING:
        return jsonx_get_str(body, what, key, &text, err);
    case KEY_INTEGER:
        return jsonx_get_int(body, what, key, &number, err);
    case KEY_BOOL:
        return jsonx_get_bool(body, what, key, &flag, err);
    case KEY_OBJECT:
        return jsonx_get_obj(body, what, key, &inner, err);
    case KEY_ARRAY:
        return jsonx_get_arr(body, what, key, &inner, err);
    case KEY_END:
        break;
    }
    return 0;
}

static int check_keys(const json_t *body, const struct op_row *row, struct err *err)
{
    const char *names[COMMON_KEYS + MAX_OWN_KEYS + 1] = {"v", "id", "op"};
    for (size_t i = 0; i < MAX_OWN_KEYS && row->keys[i].name; i++)
        names[COMMON_KEYS + i] = row->keys[i].name;
    if (jsonx_only_keys(body, row->name, names, err) != 0) {
        err->kind = ERR_USAGE;
        return -1;
    }
    for (size_t i = 0; i < MAX_OWN_KEYS && row->keys[i].name; i++) {
        bool absent = !json_object_get(body, row->keys[i].name);
        if (absent && row->keys[i].optional)
            continue;
        if (check_key(body, row->name, row->keys[i].name, row->keys[i].type, err) != 0)
            return -1;
    }
    return 0;
}

int protocol_parse(const char *line, size_t len, struct protocol_request *request, bool *garbage,
                   struct err *err)
{
    *request = (struct protocol_request){.id = PROTOCOL_NO_ID};
    *garbage = true;
    if (jsonx_parse(line, len, "request", &request->body, err) != 0)
        return -1;
    if (!json_is_object(request->body))
        return err_set(err, ERR_DATA, "request: not a JSON object");
    *garbage = false;
    int64_t version = 0, id = PROTOCOL_NO_ID;
    const char *op = NULL;
    if (jsonx_get_int(request->body, "request", "id", &id, err) != 0)
        return -1;
    if (id < 0)
        return err_set(err, ERR_DATA, "request: id %lld is negative", (long long)id);
    request->id = id;
    if (jsonx_get_int(request->body, "request", "v", &version, err) != 0)
        return -1;
    if (version != PROTOCOL_VERSION)
        return err_set(err, ERR_DATA, "request: version %lld is not known (this agent knows %d)",
                       (long long)version, PROTOCOL_VERSION);
    if (jsonx_get_str(request->body, "request", "op", &op, err) != 0 ||
        find_op(op, &request->op, err) != 0)
        return -1;
    return check_keys(request->body, &ops[request->op], err);
}

void protocol_request_release(struct protocol_request *request)
{
    json_decref(request->body);
    *request = (struct protocol_request){.id = PROTOCOL_NO_ID};
}
