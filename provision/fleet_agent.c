#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/fs.h"
#include "common/hash.h"
#include "common/jsonx.h"
#include "provision/fleet_session.h"

enum {
    MAX_IMAGE_BYTES = 256 * 1024 * 1024,
    MAX_NOISE_BYTES = 1024 * 1024,
    MAX_RX_BYTES = CALL_MAX_LINE_BYTES + 4 * 1024 * 1024,
    MAX_ERRS_BYTES = 4096,
    TURN_MS = 100
};

char *agent_printable(const char *data, size_t len, size_t max_bytes)
{
    struct strbuf out = {0};
    strbuf_puts(&out, "");
    while (len > 0 && (data[len - 1] == '\n' || data[len - 1] == '\r'))
        len--;
    for (size_t i = 0; i < len && i < max_bytes; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c >= ' ' && c < 0x7f)
            strbuf_add(&out, &data[i], 1);
        else
            strbuf_printf(&out, "\\x%02x", c);
    }
    return out.data;
}

/* From inside libssh: only stored. */
static void take_data(void *ctx, const char *data, size_t len, bool is_stderr)
{
    struct agent *a = ctx;
    if (is_stderr) {
        strbuf_add(&a->errs, data, len);
        if (a->errs.len > MAX_ERRS_BYTES)
            strbuf_drop_front(&a->errs, a->errs.len - MAX_ERRS_BYTES / 2);
    } else if (a->rx.len + len > MAX_RX_BYTES) {
        a->flooded = true;
    } else {
        strbuf_add(&a->rx, data, len);
    }
}

static void forget_input(struct agent *a)
{
    strbuf_release(&a->rx);
    strbuf_release(&a->errs);
    a->scanned = a->noise = 0;
    a->flooded = false;
}

void agent_stop(struct session *s)
{
    struct agent *a = &s->agent;
    channel_destroy(a->channel);
    a->channel = NULL;
    forget_input(a);
    json_decref(a->hello);
    a->hello = NULL;
    a->phase = AGENT_NONE;
}

static void begin(struct session *s, bool upload_always)
{
    struct agent *a = &s->agent;
    agent_stop(s);
    a->again = upload_always;
    a->starts++;
    a->phase = AGENT_BOOT;
    AUTO(free_str) char *command = boot_command(s->fleet, s->fleet->start, upload_always);
    a->channel = channel_create(s, command, take_data, a);
}

void agent_hello(struct session *s, json_t *data, const struct err *refusal)
{
    struct agent *a = &s->agent;
    if (refusal) {
        session_fail(s, ERR_REMOTE, "agent-start-failed", "the agent refuses hello: %s",
                     refusal->text);
        return;
    }
    const char *want = s->fleet->start->images[a->image].sha256;
    const char *have = jsonx_str_or(data, "sha256", "");
    if (strcmp(have, want) == 0) {
        a->hello = json_incref(data);
        a->phase = AGENT_ANSWERS;
        s->state = FLEET_AGENT;
        fleet_settle(s);
        fleet_note(s, "agent answers");
        return;
    }
    if (!a->again) {
        fleet_note(s, "the stored agent is another one: uploading it again");
        begin(s, true);
        return;
    }
    AUTO(free_str) char *shown = agent_printable(have, strlen(have), AGENT_SHOWN_BYTES);
    session_fail(s, ERR_REMOTE, "agent-hash",
                 "the agent that runs from %s reports sha256 %s instead of %s, also after a second "
                 "upload",
                 s->fleet->agent_dir, shown, want);
}

/* The channel has ended; all lines have been looked at. */
static void ended(struct session *s)
{
    struct agent *a = &s->agent;
    const struct channel *c = a->channel;
    char how[48];
    if (c->signal[0])
        snprintf(how, sizeof how, "was killed by SIG%s", c->signal);
    else
        snprintf(how, sizeof how, "ended with status %d", c->status);
    size_t len = a->errs.len, skip = len > AGENT_WORDS_BYTES ? len - AGENT_WORDS_BYTES : 0;
    AUTO(free_str)
    char *said = agent_printable(len > 0 ? a->errs.data + skip : "", len - skip, AGENT_WORDS_BYTES);
    switch (a->phase) {
    case AGENT_BOOT:
    case AGENT_UPLOAD:
        boot_ended(s);
        break;
    case AGENT_HELLO:
        session_fail(s, ERR_REMOTE, "agent-start-failed",
                     "the agent %s before it answered hello%s%s", how, said[0] ? ": " : "", said);
        break;
    case AGENT_BYE:
        call_node_failed(s);
        agent_stop(s);
        s->state = FLEET_CONNECTED;
        fleet_settle(s);
        break;
    default:
        session_fail(s, ERR_REMOTE, "node-lost", "the agent %s%s%s", how, said[0] ? ": " : "",
                     said);
    }
}

static bool too_much(struct session *s)
{
    struct agent *a = &s->agent;
    bool boot = a->phase == AGENT_BOOT || a->phase == AGENT_UPLOAD;
    size_t limit = boot ? (size_t)MAX_NOISE_BYTES : (size_t)CALL_MAX_LINE_BYTES;
    if (!a->flooded && a->rx.len + a->noise <= limit)
        return false;
    AUTO(free_str)
    char *shown = agent_printable(a->rx.data ? a->rx.data : "", a->rx.len, AGENT_SHOWN_BYTES);
    session_fail(s, ERR_DATA, "protocol", "%s, beginning with \"%s\"",
                 boot ? "more than 1 MiB was printed before the start script's first word"
                      : "the agent sent a line of more than 8 MiB",
                 shown);
    return true;
}

void agent_process(struct session *s)
{
    struct agent *a = &s->agent;
    size_t start = 0;
    unsigned starts = a->starts;
    while (a->channel && a->rx.len > a->scanned) {
        char *newline = memchr(a->rx.data + a->scanned, '\n', a->rx.len - a->scanned);
        if (!newline) {
            a->scanned = a->rx.len;
            break;
        }
        char *line = a->rx.data + start;
        size_t len = (size_t)(newline - line);
        *newline = '\0';
        a->scanned = start += len + 1;
        if (a->phase == AGENT_BOOT || a->phase == AGENT_UPLOAD)
            boot_line(s, line);
        else
            call_line(s, line, len);
        if (s->state == FLEET_FAILED || a->starts != starts)
            return;
    }
    strbuf_drop_front(&a->rx, start);
    a->scanned -= start;
    if (!a->channel || too_much(s))
        return;
    if (a->channel->phase == CHANNEL_ENDED)
        ended(s);
}

/* --- fleet_start_agents --------------------------------------------------------------------- */

static int load_image(struct start_image *out, const struct fleet_agent_image *image,
                      struct err *err)
{
    char *data = NULL;
    if (fs_read(image->path, MAX_IMAGE_BYTES, &data, &out->len, err) < 0)
        return err_wrap(err, "agent for %s: ", image->arch);
    out->arch = image->arch;
    out->path = image->path;
    out->data = (uint8_t *)data;
    struct hash h = hash_of(data, out->len);
    hash_hex(&h, out->sha256);
    return 0;
}

static void fail_late(struct session *s, unsigned timeout_ms)
{
    static const char *const where[] = {
        [AGENT_NONE] = "has not begun",
        [AGENT_BOOT] = "is still before the start script's first word",
        [AGENT_UPLOAD] = "is still being uploaded",
        [AGENT_HELLO] = "runs, but has not answered hello",
        [AGENT_ANSWERS] = "",
        [AGENT_BYE] = "",
    };
    session_fail(s, ERR_TIMEOUT, "timeout", "after %.1f s the agent %s", (double)timeout_ms / 1000,
                 where[s->agent.phase]);
}

static void start_all(struct fleet *f, unsigned timeout_ms)
{
    fleet_mark_all_alive(f);
    int64_t deadline = now_ms() + timeout_ms;
    for (size_t i = 0; i < f->count; i++) {
        struct session *s = &f->sessions[i];
        if (s->state != FLEET_CONNECTED)
            continue;
        s->busy = true;
        f->pending++;
        begin(s, false);
    }
    while (f->pending > 0 && now_ms() < deadline)
        fleet_turn(f, deadline - now_ms() < TURN_MS ? deadline - now_ms() : TURN_MS);
    for (size_t i = 0; i < f->count; i++)
        if (f->sessions[i].busy)
            fail_late(&f->sessions[i], timeout_ms);
}

size_t fleet_start_agents(struct fleet *f, const struct fleet_agent_image images[],
                          size_t image_count, const char *run, const int64_t *seqs,
                          unsigned timeout_ms, json_t *replies[])
{
    struct err err = {0};
    struct start start = {.run = run, .seqs = seqs};
    start.images = mem_zero(image_count + 1, sizeof *start.images);
    size_t answering = 0;
    int rc = 0;
    for (; rc == 0 && start.count < image_count; start.count += rc == 0)
        rc = load_image(&start.images[start.count], &images[start.count], &err);
    f->start = &start;
    if (rc == 0)
        start_all(f, timeout_ms);
    for (size_t i = 0; i < f->count; i++) {
        struct session *s = &f->sessions[i];
        if (rc < 0 && s->state == FLEET_CONNECTED)
            session_fail(s, err.kind, "agent-start-failed", "%s", err.text);
        replies[i] = s->state == FLEET_AGENT ? STEAL(s->agent.hello) : NULL;
        answering += s->state == FLEET_AGENT;
    }
    f->start = NULL;
    for (size_t i = 0; i < start.count; i++)
        free(start.images[i].data);
    free(start.images);
    return answering;
}
