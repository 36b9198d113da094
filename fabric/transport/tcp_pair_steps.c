/* One direction of a pair.  The talk on the control connection, sender S and receiver R:
 *
 *   R ready   S ... content on the streams ...   R content {compared, mismatches, first_bad}
 *   R go      S ... until duration_ms, then ends the streams, sent {retransmits, segment_bytes}
 *
 * When no byte has been acknowledged for TCP_PAIR_STALL_MS, S says `stalled` and sends TRIAL_BYTES
 * on the control connection, in small segments.  If R answers `trial`, small segments pass where
 * large ones do not, and both call the direction's end path-mtu; the pair goes on without its
 * streams. */
#include "fabric/transport/tcp_pair_steps.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "fabric/transport/tcp_ctl.h"
#include "fabric/transport/tcp_pump.h"

enum {
    TRIAL_BYTES = 32768,
    TRIAL_MS = 2000,
    TICK_MS = 20,
    /* The sender goes on this long after the receiver's last sample. */
    TAIL_MS = 100
};

enum bulk_end { BULK_DONE = 0, BULK_STALLED, BULK_BROKEN };

static int64_t within(const struct tcp_pair_step *x, int64_t ms)
{
    int64_t limit = now_ms() + ms;
    return limit < x->deadline_ms ? limit : x->deadline_ms;
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

/* What one side uses while a bandwidth is measured. */
struct usage {
    double cpu_s;
    int64_t at_ns;
    struct tcp_addr_counters counters;
};

static struct usage usage_begin(const struct tcp_pair_step *x)
{
    return (struct usage){.cpu_s = cpu_seconds(),
                          .at_ns = now_ns(),
                          .counters = tcp_addr_counters(tcp_local(x->tcp)->interface)};
}

static void usage_end(const struct tcp_pair_step *x, const struct usage *u,
                      struct tcp_pair_direction *d)
{
    struct tcp_addr_counters now = tcp_addr_counters(tcp_local(x->tcp)->interface);
    d->cpu_share = (cpu_seconds() - u->cpu_s) / ((double)(now_ns() - u->at_ns) * 1e-9);
    d->moved.tx_bytes = now.tx_bytes - u->counters.tx_bytes;
    d->moved.rx_bytes = now.rx_bytes - u->counters.rx_bytes;
}

/* Each stream's piece of the content. */
static void deal(const struct tcp_pair_step *x, const int fds[], struct tcp_pump_stream streams[])
{
    uint64_t total = (uint64_t)x->config->content_bytes, n = x->config->streams;
    for (uint64_t i = 0; i < n; i++)
        streams[i] = (struct tcp_pump_stream){
            .fd = fds[i], .offset = total / n * i, .end = i + 1 == n ? total : total / n * (i + 1)};
}

static void nap(int ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

static bool readable(int fd, int timeout_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, timeout_ms) > 0;
}

static void fail_both(struct tcp_pair_direction *d, enum tcp_cause cause, const char *text)
{
    tcp_pair_fail(&d->data, cause, "%s", text);
    tcp_pair_fail(&d->bandwidth, cause, "%s", text);
}

/* The seed differs by round and direction, so that what is left over from another one shows. */
static uint64_t seed_of(const struct tcp_pair_step *x, bool sending)
{
    return tcp_name_id(sending ? x->peer->self : x->peer->name) + x->peer->round;
}

/* ---------------------------------------------------------------------------- sender */

/* Progress is what the peer has acknowledged, not what fits the kernel's buffer. */
static enum bulk_end watch_acks(const struct tcp_pair_step *x, const struct tcp_pump *pump,
                                int64_t until_ms)
{
    int64_t acked = -1, moved_ms = now_ms();
    while (now_ms() < until_ms) {
        struct tcp_counters c = tcp_counters(x->out_fds, x->config->streams);
        if (c.bytes_acked != acked) {
            acked = c.bytes_acked;
            moved_ms = now_ms();
        }
        /* The receiver speaks when it has everything, or when it has given up. */
        if (readable(x->control, TICK_MS))
            return BULK_DONE;
        if (now_ms() - moved_ms >= TCP_PAIR_STALL_MS)
            return BULK_STALLED;
    }
    return pump && !tcp_pump_finished(pump) ? BULK_STALLED : BULK_DONE;
}

/* Small segments pass and large ones do not.  Who retransmits in vain has lost segments on the
 * path; who does not is waiting for room at the peer. */
static void judge_stall(struct tcp_pair_direction *d, const char *from, const char *to,
                        int64_t unanswered)
{
    AUTO(free_str) char *text = NULL;
    if (unanswered > 0)
        text = str_printf("segments of %lld bytes from %s to %s do not arrive, segments of at most "
                          "%d bytes do: an MTU on the path is smaller than the sender's",
                          (long long)d->segment_bytes, from, to, TCP_SMALL_SEGMENT);
    else
        text = str_printf("data from %s to %s stopped for %d ms although %s answers", from, to,
                          TCP_PAIR_STALL_MS, to);
    fail_both(d, unanswered > 0 ? TCP_CAUSE_MTU : TCP_CAUSE_PEER_LOST, text);
}

/* Do small segments still pass? */
static int sender_trial(struct tcp_pair_step *x, struct err *err)
{
    json_auto_t *answer = NULL;
    AUTO(free_str) char *trial = mem_zero(TRIAL_BYTES, 1);
    struct tcp_counters c = tcp_counters(x->out_fds, x->config->streams);
    struct tcp_pair_direction *d = &x->result->out;
    json_t *fields = json_object();
    jsonx_set_int(fields, "segment_bytes", c.segment_bytes);
    jsonx_set_int(fields, "retransmits", c.retransmits);
    jsonx_set_int(fields, "unanswered", c.unanswered);
    int64_t limit_ms = within(x, TRIAL_MS);
    if (tcp_ctl_send(x->control, "stalled", fields, limit_ms, err) ||
        tcp_ctl_write(x->control, trial, TRIAL_BYTES, limit_ms, err) ||
        tcp_ctl_receive(x->control, "trial", limit_ms, &answer, err))
        return -1;
    d->segment_bytes = c.segment_bytes;
    d->retransmits = c.retransmits;
    judge_stall(d, x->peer->self, x->peer->name, c.unanswered);
    return 0;
}

static int send_content(struct tcp_pair_step *x, struct err *err)
{
    struct tcp_pair_direction *d = &x->result->out;
    struct tcp_pump_stream streams[TCP_PAIR_MAX_STREAMS];
    struct tcp_pump *pump;
    json_auto_t *message = NULL;
    if (tcp_ctl_receive(x->control, "ready", within(x, TCP_PAIR_SILENCE_MS), &message, err))
        return -1;
    deal(x, x->out_fds, streams);
    if (tcp_pump_start(TCP_PUMP_SEND_EXACT, streams, x->config->streams, seed_of(x, true), &pump,
                       err))
        return -1;
    enum bulk_end end = watch_acks(x, pump, x->deadline_ms);
    tcp_pump_end(pump);
    if (end == BULK_STALLED)
        return sender_trial(x, err);
    json_decref(message);
    message = NULL;
    int64_t mismatches, compared, first_bad;
    if (tcp_ctl_receive(x->control, "content", within(x, TCP_PAIR_SILENCE_MS), &message, err) ||
        jsonx_get_int(message, "content", "compared", &compared, err) ||
        jsonx_get_int(message, "content", "mismatches", &mismatches, err) ||
        jsonx_get_int(message, "content", "first_bad", &first_bad, err))
        return -1;
    d->content = (struct pattern_result){.compared = (uint64_t)compared,
                                         .mismatches = (uint64_t)mismatches,
                                         .first_bad = (uint64_t)first_bad};
    if (mismatches)
        tcp_pair_fail(&d->data, TCP_CAUSE_CORRUPT, "%s received %lld of %lld bytes altered",
                      x->peer->name, (long long)mismatches, (long long)compared);
    tcp_pair_measured(&d->data);
    return 0;
}

static int send_bulk(struct tcp_pair_step *x, struct err *err)
{
    struct tcp_pair_direction *d = &x->result->out;
    struct tcp_pump_stream streams[TCP_PAIR_MAX_STREAMS];
    struct tcp_pump *pump;
    json_auto_t *message = NULL;
    if (tcp_ctl_receive(x->control, "go", within(x, TCP_PAIR_SILENCE_MS), &message, err))
        return -1;
    deal(x, x->out_fds, streams);
    struct tcp_counters before = tcp_counters(x->out_fds, x->config->streams);
    struct usage usage = usage_begin(x);
    if (tcp_pump_start(TCP_PUMP_SEND, streams, x->config->streams, 0, &pump, err))
        return -1;
    int64_t left_ms = x->deadline_ms - now_ms(), run_ms = x->config->duration_ms + TAIL_MS;
    nap((int)(left_ms < 0 ? 0 : left_ms < run_ms ? left_ms : run_ms));
    tcp_pump_end(pump);
    usage_end(x, &usage, d);
    struct tcp_counters after = tcp_counters(x->out_fds, x->config->streams);
    for (unsigned i = 0; i < x->config->streams; i++)
        shutdown(x->out_fds[i], SHUT_WR);
    d->retransmits = after.retransmits - before.retransmits;
    d->segment_bytes = after.segment_bytes;
    json_t *fields = json_object();
    jsonx_set_int(fields, "retransmits", d->retransmits);
    jsonx_set_int(fields, "segment_bytes", d->segment_bytes);
    json_auto_t *done = NULL;
    if (tcp_ctl_send(x->control, "sent", fields, within(x, TCP_PAIR_SILENCE_MS), err) ||
        tcp_ctl_receive(x->control, "end", within(x, TCP_PAIR_SILENCE_MS), &done, err))
        return -1;
    tcp_pair_measured(&d->bandwidth);
    return 0;
}

int tcp_pair_send(struct tcp_pair_step *x, struct err *err)
{
    if (send_content(x, err))
        return -1;
    return x->result->out.bandwidth.outcome ? 0 : send_bulk(x, err);
}

/* ---------------------------------------------------------------------------- receiver */

/* The sender says that nothing arrives: take its trial and answer. */
static int receiver_trial(struct tcp_pair_step *x, struct err *err)
{
    struct tcp_pair_direction *d = &x->result->in;
    json_auto_t *message = NULL;
    AUTO(free_str) char *trial = mem_zero(TRIAL_BYTES, 1);
    int64_t limit_ms = within(x, TRIAL_MS), unanswered;
    if (tcp_ctl_receive(x->control, "stalled", limit_ms, &message, err) ||
        tcp_ctl_read(x->control, trial, TRIAL_BYTES, limit_ms, err) ||
        tcp_ctl_send(x->control, "trial", NULL, limit_ms, err) ||
        jsonx_get_int(message, "stalled", "segment_bytes", &d->segment_bytes, err) ||
        jsonx_get_int(message, "stalled", "retransmits", &d->retransmits, err) ||
        jsonx_get_int(message, "stalled", "unanswered", &unanswered, err))
        return -1;
    judge_stall(d, x->peer->name, x->peer->self, unanswered);
    return 0;
}

/* Until all has come, the sender speaks, or nothing has come for so long that it must be dead. */
static enum bulk_end watch_arrival(const struct tcp_pair_step *x, const struct tcp_pump *pump)
{
    uint64_t bytes = 0;
    int64_t moved_ms = now_ms();
    while (now_ms() < x->deadline_ms && now_ms() - moved_ms < TCP_PAIR_SILENCE_MS) {
        if (tcp_pump_finished(pump))
            return BULK_DONE;
        uint64_t now = tcp_pump_bytes(pump);
        if (now != bytes) {
            bytes = now;
            moved_ms = now_ms();
        }
        if (readable(x->control, TICK_MS))
            return BULK_STALLED;
    }
    return BULK_BROKEN;
}

static struct pattern_result add_up(const struct tcp_pump_stream streams[], unsigned count)
{
    struct pattern_result sum;
    pattern_result_clear(&sum);
    for (unsigned i = 0; i < count; i++) {
        const struct pattern_result *r = &streams[i].check;
        sum.compared += r->compared;
        sum.mismatches += r->mismatches;
        sum.first_bad = r->first_bad < sum.first_bad ? r->first_bad : sum.first_bad;
    }
    return sum;
}

static int report_content(struct tcp_pair_step *x, struct err *err)
{
    struct tcp_pair_direction *d = &x->result->in;
    json_t *fields = json_object();
    jsonx_set_int(fields, "compared", (int64_t)d->content.compared);
    jsonx_set_int(fields, "mismatches", (int64_t)d->content.mismatches);
    jsonx_set_int(fields, "first_bad", (int64_t)d->content.first_bad);
    if (tcp_ctl_send(x->control, "content", fields, within(x, TCP_PAIR_SILENCE_MS), err))
        return -1;
    if (d->content.mismatches)
        tcp_pair_fail(&d->data, TCP_CAUSE_CORRUPT,
                      "%llu of %llu bytes from %s arrived altered, the first at offset %llu",
                      (unsigned long long)d->content.mismatches,
                      (unsigned long long)d->content.compared, x->peer->name,
                      (unsigned long long)d->content.first_bad);
    tcp_pair_measured(&d->data);
    return 0;
}

static int receive_content(struct tcp_pair_step *x, struct err *err)
{
    struct tcp_pump_stream streams[TCP_PAIR_MAX_STREAMS];
    struct tcp_pump *pump;
    deal(x, x->in_fds, streams);
    if (tcp_pump_start(TCP_PUMP_CHECK, streams, x->config->streams, seed_of(x, false), &pump, err))
        return -1;
    int rc = tcp_ctl_send(x->control, "ready", NULL, within(x, TCP_PAIR_SILENCE_MS), err);
    enum bulk_end end = rc ? BULK_BROKEN : watch_arrival(x, pump);
    tcp_pump_end(pump);
    if (rc)
        return -1;
    if (end == BULK_STALLED)
        return receiver_trial(x, err);
    for (unsigned i = 0; i < x->config->streams; i++)
        if (end == BULK_DONE && streams[i].error)
            end = BULK_BROKEN;
    if (end == BULK_BROKEN)
        return err_set(err, ERR_REMOTE, "its data stopped coming");
    x->result->in.content = add_up(streams, x->config->streams);
    return report_content(x, err);
}

/* One sample per interval, with its true length; those of the warm-up are dropped. */
static void sample(const struct tcp_pair_step *x, const struct tcp_pump *pump)
{
    struct tcp_pair_direction *d = &x->result->in;
    int64_t begin_ns = now_ns(), last_ns = begin_ns;
    uint64_t last_bytes = tcp_pump_bytes(pump);
    int64_t end_ns = begin_ns + (int64_t)x->config->duration_ms * 1000000;
    const int64_t interval_ns = (int64_t)TCP_PAIR_INTERVAL_MS * 1000000;
    for (int64_t at_ns = begin_ns + interval_ns; at_ns <= end_ns && now_ms() < x->deadline_ms;
         at_ns += interval_ns) {
        struct timespec until = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        uint64_t bytes = tcp_pump_bytes(pump);
        int64_t now = now_ns();
        bool counts = last_ns - begin_ns >= (int64_t)TCP_PAIR_WARM_UP_MS * 1000000;
        if (counts && d->sample_count < TCP_PAIR_MAX_SAMPLES)
            d->samples_bps[d->sample_count++] =
                (double)(bytes - last_bytes) * 8e9 / (double)(now - last_ns);
        last_bytes = bytes;
        last_ns = now;
    }
}

static int receive_bulk(struct tcp_pair_step *x, struct err *err)
{
    struct tcp_pair_direction *d = &x->result->in;
    struct tcp_pump_stream streams[TCP_PAIR_MAX_STREAMS];
    struct tcp_pump *pump;
    json_auto_t *sent = NULL;
    deal(x, x->in_fds, streams);
    if (tcp_pump_start(TCP_PUMP_RECEIVE, streams, x->config->streams, 0, &pump, err))
        return -1;
    int rc = tcp_ctl_send(x->control, "go", NULL, within(x, TCP_PAIR_SILENCE_MS), err);
    if (rc == 0) {
        struct usage usage = usage_begin(x);
        sample(x, pump);
        usage_end(x, &usage, d);
        int64_t until_ms = within(x, TCP_PAIR_SILENCE_MS);
        while (!tcp_pump_finished(pump) && now_ms() < until_ms)
            nap(TICK_MS);
    }
    bool whole = tcp_pump_finished(pump);
    tcp_pump_end(pump);
    for (unsigned i = 0; i < x->config->streams; i++)
        whole = whole && !streams[i].error;
    if (rc)
        return -1;
    if (!whole)
        return err_set(err, ERR_REMOTE, "its data stopped coming");
    if (tcp_ctl_receive(x->control, "sent", within(x, TCP_PAIR_SILENCE_MS), &sent, err) ||
        jsonx_get_int(sent, "sent", "retransmits", &d->retransmits, err) ||
        jsonx_get_int(sent, "sent", "segment_bytes", &d->segment_bytes, err) ||
        tcp_ctl_send(x->control, "end", NULL, within(x, TCP_PAIR_SILENCE_MS), err))
        return -1;
    if (d->sample_count == 0)
        return err_set(err, ERR_TIMEOUT, "the deadline left no time to measure");
    tcp_pair_measured(&d->bandwidth);
    return 0;
}

int tcp_pair_receive(struct tcp_pair_step *x, struct err *err)
{
    if (receive_content(x, err))
        return -1;
    return x->result->in.bandwidth.outcome ? 0 : receive_bulk(x, err);
}
