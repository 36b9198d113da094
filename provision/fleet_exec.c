#include <stdlib.h>
#include <string.h>

#include "provision/fleet_session.h"
#include "provision/quote.h"

enum { TURN_MS = 100 };

struct sink {
    struct fleet_output *output;
    struct strbuf out, errs;
    size_t max_bytes;
};

static void take_data(void *ctx, const char *data, size_t len, bool is_stderr)
{
    struct sink *sink = ctx;
    struct strbuf *b = is_stderr ? &sink->errs : &sink->out;
    size_t left = sink->max_bytes - b->len;
    if (len > left) {
        sink->output->cut = true;
        len = left;
    }
    strbuf_add(b, data, len);
}

/* The channel's end, or the deadline. */
static void collect(struct session *s, struct sink *sink)
{
    struct fleet_output *o = sink->output;
    const struct channel *c = s->exec;
    if (c && c->phase == CHANNEL_ENDED) {
        o->done = true;
        o->status = c->status;
        memcpy(o->signal, c->signal, sizeof o->signal);
    } else if (c) {
        ssh_channel_request_send_signal(c->ssh, "TERM");
        fleet_touch(s); /* the next turn flushes it */
    }
    channel_destroy(s->exec);
    s->exec = NULL;
    fleet_settle(s);
    strbuf_puts(&sink->out, "");
    strbuf_puts(&sink->errs, "");
    o->out = sink->out.data;
    o->out_len = sink->out.len;
    o->errs = sink->errs.data;
    o->errs_len = sink->errs.len;
}

static bool is_usable(const struct session *s)
{
    return s->state == FLEET_CONNECTED || s->state == FLEET_AGENT;
}

int fleet_exec(struct fleet *f, const char *const argv[], unsigned timeout_ms,
               size_t max_output_bytes, struct fleet_output outputs[], struct err *err)
{
    if (!argv[0] || !argv[0][0])
        return err_set(err, ERR_USAGE, "there is no command to run");
    fleet_mark_all_alive(f);
    AUTO(free_str) char *command = quote_argv(argv);
    struct sink *sinks = mem_zero(f->count + 1, sizeof *sinks);
    for (size_t i = 0; i < f->count; i++) {
        struct session *s = &f->sessions[i];
        outputs[i] = (struct fleet_output){.status = -1};
        sinks[i] = (struct sink){.output = &outputs[i], .max_bytes = max_output_bytes};
        if (!is_usable(s))
            continue;
        s->exec = channel_create(s, command, take_data, &sinks[i]);
        s->exec->end_input = true;
        s->busy = true;
        f->pending++;
    }
    int64_t deadline = timeout_ms ? now_ms() + timeout_ms : INT64_MAX;
    while (f->pending > 0 && now_ms() < deadline) {
        int64_t left = deadline - now_ms();
        fleet_turn(f, left < TURN_MS ? left : TURN_MS);
    }
    for (size_t i = 0; i < f->count; i++)
        collect(&f->sessions[i], &sinks[i]);
    free(sinks);
    return 0;
}

void fleet_output_release(struct fleet_output *o)
{
    free(o->out);
    free(o->errs);
    *o = (struct fleet_output){0};
}
