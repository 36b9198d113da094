#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "provision/fleet_session.h"

enum { TICK_MS = 100 };

static void fail_protocol(struct session *s, const char *why, const char *line, size_t len)
{
    AUTO(free_str) char *shown = agent_printable(line, len, AGENT_SHOWN_BYTES);
    session_fail(s, ERR_DATA, "protocol", "the agent's answer %s: \"%s\"", why, shown);
}

int64_t call_send(struct session *s, const json_t *request)
{
    struct agent *a = &s->agent;
    json_t *line = json_copy((json_t *)request);
    if (!line)
        abort();
    int64_t id = ++a->next_id;
    jsonx_set_int(line, "v", 1);
    jsonx_set_int(line, "id", id);
    char *text = json_dumps(line, JSON_COMPACT);
    if (!text)
        abort();
    channel_send(a->channel, text, strlen(text));
    channel_send(a->channel, "\n", 1);
    free(text);
    json_decref(line);
    return id;
}

/* The running call has this node's outcome. */
static void answered(struct session *s)
{
    s->agent.waiting = false;
    s->fleet->tick_due = true;
    fleet_settle(s);
}

void call_node_failed(struct session *s)
{
    const struct fleet_call *call = s->fleet->call;
    if (!call || !s->agent.waiting)
        return;
    if (s->err.kind != ERR_NONE)
        call->errors[s->index] = s->err;
    else
        err_set(&call->errors[s->index], ERR_REMOTE, "the agent ended without an answer");
    answered(s);
}

/* The error member of a reply. */
static int read_refusal(const json_t *reply, struct err *refusal)
{
    const json_t *error = NULL;
    const char *kind = NULL, *text = NULL;
    struct err err = {0};
    if (jsonx_get_obj(reply, "reply", "error", &error, &err) < 0 ||
        jsonx_get_str(error, "error", "kind", &kind, &err) < 0 ||
        jsonx_get_str(error, "error", "text", &text, &err) < 0)
        return -1;
    enum err_kind known = err_kind_find(kind);
    err_set(refusal, known == ERR_NONE ? ERR_REMOTE : known, "%s", text);
    return 0;
}

static int read_reply(const json_t *reply, json_t **data, struct err *refusal)
{
    static const char *const keys[] = {"v", "id", "ok", "data", "error", NULL};
    struct err err = {0};
    bool ok = false;
    if (jsonx_only_keys(reply, "reply", keys, &err) < 0 ||
        jsonx_get_bool(reply, "reply", "ok", &ok, &err) < 0)
        return -1;
    if (!ok)
        return read_refusal(reply, refusal);
    *data = json_object_get(reply, "data");
    return json_is_object(*data) ? 0 : -1;
}

static void take_reply(struct session *s, int64_t id, const json_t *reply, const char *line,
                       size_t len)
{
    struct agent *a = &s->agent;
    const struct fleet_call *call = s->fleet->call;
    json_t *data = NULL;
    struct err refusal = {0};
    if (read_reply(reply, &data, &refusal) < 0) {
        fail_protocol(s, "is not a reply of protocol version 1", line, len);
    } else if (a->phase == AGENT_HELLO) {
        agent_hello(s, data, data ? NULL : &refusal);
    } else if (call && a->waiting && id == a->request_id) {
        if (data)
            call->replies[s->index] = json_incref(data);
        else
            call->errors[s->index] = refusal;
        answered(s);
    } else if (!data && a->send_err.kind == ERR_NONE) {
        a->send_err =
            refusal; /* of go or cancel; or too late for its call, which nobody asks for */
    }
}

void call_line(struct session *s, const char *line, size_t len)
{
    const struct fleet_call *call = s->fleet->call;
    struct err err = {0};
    json_t *value = NULL;
    int64_t version = 0, id = 0;
    if (jsonx_parse(line, len, "line", &value, &err) < 0) {
        fail_protocol(s, "is not JSON", line, len);
    } else if (jsonx_get_int(value, "line", "v", &version, &err) < 0 || version != 1 ||
               jsonx_get_int(value, "line", "id", &id, &err) < 0) {
        fail_protocol(s, "is not a line of protocol version 1", line, len);
    } else if (id < 1 || id > s->agent.next_id) {
        fail_protocol(s, "has an id that was never asked", line, len);
    } else if (!json_object_get(value, "event")) {
        take_reply(s, id, value, line, len);
    } else if (call && call->on_event && s->agent.waiting && id == s->agent.request_id) {
        call->on_event(call->ctx, s->fleet, s->index, value);
    }
    json_decref(value);
}

/* --- public --------------------------------------------------------------------------------- */

static void begin(struct fleet *f, size_t node)
{
    struct session *s = &f->sessions[node];
    struct agent *a = &s->agent;
    struct err *err = &f->call->errors[node];
    if (!a->channel || s->state != FLEET_AGENT) {
        if (s->err.kind != ERR_NONE)
            *err = s->err;
        else
            err_set(err, ERR_REMOTE, "no agent runs on this node");
        return;
    }
    err_clear(&a->send_err);
    a->late = false;
    a->request_id = call_send(s, f->call->requests[node]);
    a->waiting = s->busy = true;
    f->pending++;
}

static void end_late(struct session *s)
{
    const struct fleet_call *call = s->fleet->call;
    const json_t *request = call->requests[s->index];
    const struct err *refused = &s->agent.send_err;
    err_set(&call->errors[s->index], ERR_TIMEOUT, "no answer to %s in %.1f s%s%s",
            jsonx_str_or(request, "op", "the request"), (double)call->timeout_ms / 1000,
            refused->kind != ERR_NONE ? "; before that: " : "", refused->text);
    s->agent.waiting = false;
    s->agent.late = true;
    fleet_settle(s);
}

static void tick(struct fleet *f, int64_t *next_ms)
{
    int64_t now = now_ms();
    if (!f->tick_due && now < *next_ms)
        return;
    f->tick_due = false;
    *next_ms = now + TICK_MS;
    if (f->call->on_tick)
        f->call->on_tick(f->call->ctx, f, f->pending);
}

void fleet_call(struct fleet *f, const struct fleet_call *call)
{
    fleet_mark_all_alive(f);
    f->call = call;
    for (size_t i = 0; i < f->count; i++) {
        call->replies[i] = NULL;
        err_clear(&call->errors[i]);
        if (call->requests[i])
            begin(f, i);
    }
    int64_t deadline = now_ms() + call->timeout_ms, next_tick = now_ms() + TICK_MS;
    while (f->pending > 0 && now_ms() < deadline) {
        int64_t left = deadline - now_ms();
        fleet_turn(f, left < TICK_MS ? left : TICK_MS);
        tick(f, &next_tick);
    }
    for (size_t i = 0; i < f->count; i++)
        if (f->sessions[i].agent.waiting)
            end_late(&f->sessions[i]);
    f->call = NULL;
}

int64_t fleet_request_id(const struct fleet *f, size_t node)
{
    return f->sessions[node].agent.request_id;
}

void fleet_send(struct fleet *f, size_t node, const json_t *request)
{
    struct session *s = &f->sessions[node];
    if (s->state == FLEET_AGENT && s->agent.channel)
        call_send(s, request);
}

bool fleet_is_late(const struct fleet *f, size_t node)
{
    return f->sessions[node].agent.late;
}

void fleet_drop(struct fleet *f, size_t node, enum err_kind kind, const char *cause,
                const char *text)
{
    session_fail(&f->sessions[node], kind, cause, "%s", text);
}

/* An agent that has said bye closes its channel; wait a moment for that, so that it is gone from
 * the node when this returns. */
static void await_ends(struct fleet *f, unsigned timeout_ms)
{
    int64_t deadline = now_ms() + (timeout_ms < 2000 ? timeout_ms : 2000);
    for (size_t i = 0; i < f->count; i++) {
        struct session *s = &f->sessions[i];
        if (s->agent.phase == AGENT_BYE && s->agent.channel) {
            s->busy = true;
            f->pending++;
        }
    }
    while (f->pending > 0 && now_ms() < deadline)
        fleet_turn(f, TICK_MS);
    for (size_t i = 0; i < f->count; i++) {
        struct session *s = &f->sessions[i];
        fleet_settle(s);
        if (s->agent.phase != AGENT_BYE)
            continue;
        agent_stop(s);
        if (s->state == FLEET_AGENT)
            s->state = FLEET_CONNECTED;
    }
}

void fleet_bye(struct fleet *f, unsigned timeout_ms, json_t *replies[])
{
    json_t *bye = json_pack("{s:s}", "op", "bye");
    json_t **requests = mem_zero(f->count + 1, sizeof *requests);
    json_t **answers = mem_zero(f->count + 1, sizeof *answers);
    struct err *errors = mem_zero(f->count + 1, sizeof *errors);
    for (size_t i = 0; i < f->count; i++) {
        struct session *s = &f->sessions[i];
        if (s->state != FLEET_AGENT)
            continue;
        requests[i] = bye;
        s->agent.phase = AGENT_BYE;
    }
    fleet_call(f, &(struct fleet_call){.requests = requests,
                                       .replies = answers,
                                       .errors = errors,
                                       .timeout_ms = timeout_ms});
    await_ends(f, timeout_ms);
    for (size_t i = 0; i < f->count; i++) {
        if (replies)
            replies[i] = answers[i];
        else
            json_decref(answers[i]);
    }
    free(errors);
    free(answers);
    free(requests);
    json_decref(bye);
}
