#include "fabric/transport/tcp_pair.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "fabric/transport/tcp_ctl.h"
#include "fabric/transport/tcp_pair_steps.h"

/* Number of the control connection in the hello. */
enum { CONTROL_STREAM = 0xffff };

static void set_part(struct tcp_pair_part *p, enum tcp_pair_outcome outcome, enum tcp_cause cause,
                     const char *text)
{
    if (p->outcome != TCP_PAIR_UNSET)
        return; /* the first word on a part stands */
    p->outcome = outcome;
    p->cause = cause;
    snprintf(p->text, sizeof p->text, "%s", text);
}

void tcp_pair_fail(struct tcp_pair_part *p, enum tcp_cause cause, const char *fmt, ...)
{
    char text[sizeof p->text];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    set_part(p, TCP_PAIR_FAILED, cause, text);
}

void tcp_pair_measured(struct tcp_pair_part *p)
{
    set_part(p, TCP_PAIR_MEASURED, TCP_CAUSE_NONE, "");
}

/* ---------------------------------------------------------------------------- connections */

/* Wants: control, then what this side sends on, then what it receives on. */
static void fill_wants(const struct tcp_pair_step *x, struct tcp_want *wants)
{
    const struct tcp_pair_peer *p = x->peer;
    uint64_t self = tcp_name_id(p->self), other = tcp_name_id(p->name);
    for (unsigned i = 0; i <= 2 * x->config->streams; i++) {
        bool active = i == 0 ? p->first : i <= x->config->streams;
        uint32_t stream = i == 0 ? CONTROL_STREAM : (i - 1) % x->config->streams;
        wants[i] = (struct tcp_want){
            .connect = active ? &p->addr : NULL,
            .hello = {.from = active ? self : other, .round = p->round, .stream = stream},
            .small_segments = i == 0,
            .peer = p->name,
            .fd = -1};
    }
}

/* The first failed want that speaks of the direction; NULL when it is whole. */
static const struct tcp_want *find_failed(const struct tcp_want *wants, unsigned count, bool active)
{
    for (unsigned i = 0; i < count; i++)
        if ((wants[i].connect != NULL) == active && wants[i].cause)
            return &wants[i];
    return NULL;
}

static void close_direction(struct tcp_pair_direction *d, const struct tcp_want *failed,
                            const char *peer)
{
    char text[sizeof d->data.text];
    enum tcp_pair_outcome outcome = failed ? TCP_PAIR_FAILED : TCP_PAIR_NOT_MEASURED;
    snprintf(text, sizeof text, "%s",
             failed ? failed->text : "the connections of the other direction were not made");
    if (!failed)
        snprintf(text, sizeof text,
                 "not measured: the connections with %s in the other direction were not made",
                 peer);
    set_part(&d->data, outcome, failed ? failed->cause : TCP_CAUSE_NONE, text);
    set_part(&d->bandwidth, outcome, failed ? failed->cause : TCP_CAUSE_NONE, text);
}

static bool connect_all(struct tcp_pair_step *x, struct tcp *t)
{
    unsigned streams = x->config->streams, count = 2 * streams + 1;
    struct tcp_want *wants = mem_zero(count, sizeof *wants);
    struct err err = {.kind = ERR_NONE}; /* each want carries its own */
    fill_wants(x, wants);
    bool whole = tcp_establish(t, wants, count, x->deadline_ms, &err) == 0;
    x->control = wants[0].fd;
    for (unsigned i = 0; i < streams; i++) {
        x->out_fds[i] = wants[1 + i].fd;
        x->in_fds[i] = wants[1 + streams + i].fd;
    }
    if (!whole) {
        const struct tcp_want *out = find_failed(wants, count, true);
        const struct tcp_want *in = find_failed(wants, count, false);
        close_direction(&x->result->out, out, x->peer->name);
        close_direction(&x->result->in, in, x->peer->name);
        const struct tcp_want *worst = out ? out : in;
        set_part(&x->result->latency, TCP_PAIR_FAILED, worst->cause, worst->text);
    }
    free(wants);
    return whole;
}

static void close_all(struct tcp_pair_step *x)
{
    close_fd(&x->control);
    for (unsigned i = 0; i < x->config->streams; i++) {
        close_fd(&x->out_fds[i]);
        close_fd(&x->in_fds[i]);
    }
}

/* ---------------------------------------------------------------------------- latency */

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t silence_ms(const struct tcp_pair_step *x)
{
    int64_t limit = now_ms() + TCP_PAIR_SILENCE_MS;
    return limit < x->deadline_ms ? limit : x->deadline_ms;
}

/* Half round trips, sorted; the first tenth is warm-up. */
static int ping(const struct tcp_pair_step *x, int64_t *half_ns, unsigned count, struct err *err)
{
    uint8_t message[TCP_PAIR_MESSAGE_BYTES] = {0}, answer[TCP_PAIR_MESSAGE_BYTES];
    unsigned warm_up = count / 10 + 1;
    for (unsigned i = 0; i < warm_up + count; i++) {
        pattern_bytes_fill(i, 0, message, sizeof message);
        int64_t begin = now_ns();
        if (tcp_ctl_write(x->control, message, sizeof message, silence_ms(x), err) ||
            tcp_ctl_read(x->control, answer, sizeof answer, silence_ms(x), err))
            return -1;
        if (i >= warm_up)
            half_ns[i - warm_up] = (now_ns() - begin) / 2;
        if (memcmp(message, answer, sizeof answer) != 0)
            return err_set(err, ERR_DATA, "message %u of %d bytes came back altered", i,
                           TCP_PAIR_MESSAGE_BYTES);
    }
    qsort(half_ns, count, sizeof *half_ns, by_value);
    return 0;
}

static int pong(const struct tcp_pair_step *x, unsigned count, struct err *err)
{
    uint8_t message[TCP_PAIR_MESSAGE_BYTES];
    for (unsigned i = 0; i < count / 10 + 1 + count; i++)
        if (tcp_ctl_read(x->control, message, sizeof message, silence_ms(x), err) ||
            tcp_ctl_write(x->control, message, sizeof message, silence_ms(x), err))
            return -1;
    return 0;
}

static bool measure_latency(struct tcp_pair_step *x)
{
    unsigned n = x->config->latency_iterations;
    struct err err = {.kind = ERR_NONE};
    int64_t *half_ns = mem_zero(n, sizeof *half_ns);
    int rc = x->peer->first ? ping(x, half_ns, n, &err) : pong(x, n, &err);
    if (rc == 0) {
        x->result->p50_s = (double)half_ns[n / 2] * 1e-9;
        x->result->p99_s = (double)half_ns[(n * 99 + 99) / 100 - 1] * 1e-9;
        x->result->min_s = (double)half_ns[0] * 1e-9;
        tcp_pair_measured(&x->result->latency);
    } else {
        enum tcp_cause cause = err.kind == ERR_DATA ? TCP_CAUSE_CORRUPT : TCP_CAUSE_PEER_LOST;
        tcp_pair_fail(&x->result->latency, cause, "small messages with %s: %s", x->peer->name,
                      err.text);
    }
    free(half_ns);
    return rc == 0;
}

/* ---------------------------------------------------------------------------- all of it */

/* What is left after a step that broke off: the peer is lost for it. */
static void fail_rest(struct tcp_pair_step *x, const char *text, enum tcp_cause cause)
{
    struct tcp_pair_part *parts[] = {&x->result->latency, &x->result->out.data,
                                     &x->result->out.bandwidth, &x->result->in.data,
                                     &x->result->in.bandwidth};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        set_part(parts[i], TCP_PAIR_FAILED, cause, text);
}

static void measure_all(struct tcp_pair_step *x)
{
    if (!measure_latency(x)) {
        fail_rest(x, x->result->latency.text, x->result->latency.cause);
        return;
    }
    struct err err = {.kind = ERR_NONE};
    bool first = x->peer->first;
    int rc = first ? tcp_pair_send(x, &err) : tcp_pair_receive(x, &err);
    if (rc == 0)
        rc = first ? tcp_pair_receive(x, &err) : tcp_pair_send(x, &err);
    if (rc) {
        char text[400];
        snprintf(text, sizeof text, "%s: %.300s", x->peer->name, err.text);
        fail_rest(x, text, err.kind == ERR_ENV ? TCP_CAUSE_LOCAL : TCP_CAUSE_PEER_LOST);
    }
}

bool tcp_pair_run(struct tcp *t, const struct tcp_pair_peer *peer,
                  const struct tcp_pair_config *config, int64_t deadline_ms,
                  struct tcp_pair_result *out)
{
    struct tcp_pair_step x = {.tcp = t,
                              .peer = peer,
                              .config = config,
                              .deadline_ms = deadline_ms,
                              .result = out,
                              .control = -1};
    memset(out, 0, sizeof *out);
    out->out.cpu_share = out->in.cpu_share = -1;
    out->out.retransmits = out->in.retransmits = -1;
    pattern_result_clear(&out->out.content);
    pattern_result_clear(&out->in.content);
    for (unsigned i = 0; i < TCP_PAIR_MAX_STREAMS; i++)
        x.out_fds[i] = x.in_fds[i] = -1;
    if (connect_all(&x, t))
        measure_all(&x);
    close_all(&x);
    const struct tcp_pair_part *parts[] = {&out->latency, &out->out.data, &out->out.bandwidth,
                                           &out->in.data, &out->in.bandwidth};
    bool ok = true;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        ok = ok && parts[i]->outcome == TCP_PAIR_MEASURED;
    return ok;
}
