/* The pairs stage: small messages, content and goodput over TCP with one peer per round.
 *
 * docs/stages/pairs.md states the talk with the controller. */
#include <stdlib.h>
#include <string.h>

#include "agents/stages/stage.h"
#include "agents/stages/stage_net.h"
#include "common/jsonx.h"
#include "common/util.h"
#include "fabric/transport/tcp_pair.h"

enum { MAX_ROUND = 1 << 30 };

#define STAGE_NAME "pairs"
_Static_assert(TCP_PAIR_MAX_STREAMS == 64 && TCP_PAIR_MAX_ITERATIONS == 100000,
               "common/stage_params.def states these limits");

struct pairs {
    struct stage_ctx *ctx;
    struct tcp *tcp;
    struct tcp_pair_config config;
    int64_t rounds;
};

/* What the controller says for one round. */
struct order {
    int64_t round, deadline_ms;
    const char *peer; /* NULL: this node rests */
    const char *role;
    const json_t *endpoint;
    bool done;
};

/* ---------------------------------------------------------------------------- parameters */

static int read_config(const json_t *params, struct tcp_pair_config *c, struct err *err)
{
    static const char *const keys[] = {"duration_ms", "streams", "content_bytes",
                                       "latency_iterations"};
    int64_t values[ARRAY_LEN(keys)];
    if (stage_net_site_ints(params, STAGE_NAME, keys, ARRAY_LEN(keys), values, err))
        return -1;
    *c = (struct tcp_pair_config){.duration_ms = (int)values[0],
                                  .streams = (unsigned)values[1],
                                  .content_bytes = values[2],
                                  .latency_iterations = (unsigned)values[3]};
    return 0;
}

static int read_order(const json_t *data, struct order *o, struct err *err)
{
    static const char *const keys[] = {"round",       "peer", "role", "endpoint",
                                       "deadline_ms", "done", NULL};
    *o = (struct order){.round = -1};
    if (jsonx_only_keys(data, "go", keys, err) || jsonx_opt_bool(data, "go", "done", &o->done, err))
        return -1;
    if (o->done)
        return 0;
    if (jsonx_get_int(data, "go", "round", &o->round, err) ||
        jsonx_get_int(data, "go", "deadline_ms", &o->deadline_ms, err) ||
        jsonx_opt_str(data, "go", "peer", &o->peer, err))
        return -1;
    if (o->round < 0 || o->round > MAX_ROUND || o->deadline_ms < 1)
        return err_set(err, ERR_DATA, "go: round %lld with deadline_ms %lld is not possible",
                       (long long)o->round, (long long)o->deadline_ms);
    if (!o->peer)
        return 0;
    if (jsonx_get_str(data, "go", "role", &o->role, err) ||
        jsonx_get_obj(data, "go", "endpoint", &o->endpoint, err))
        return -1;
    if (strcmp(o->role, "first") != 0 && strcmp(o->role, "second") != 0)
        return err_set(err, ERR_DATA, "go: role '%.32s' is neither first nor second", o->role);
    return 0;
}

/* ---------------------------------------------------------------------------- evidence */

/* One record about the path from > to. */
struct record {
    const char *from, *to, *quantity, *unit;
    const struct tcp_pair_part *part;
    const double *samples;
    size_t sample_count;
    json_t *conditions, *proof; /* taken over */
};

static int emit(struct pairs *p, struct record r, struct err *err)
{
    static const enum evidence_outcome outcomes[] = {
        [TCP_PAIR_UNSET] = EVIDENCE_NOT_MEASURED,
        [TCP_PAIR_MEASURED] = EVIDENCE_MEASURED,
        [TCP_PAIR_FAILED] = EVIDENCE_FAILED,
        [TCP_PAIR_NOT_MEASURED] = EVIDENCE_NOT_MEASURED,
    };
    json_auto_t *conditions = r.conditions, *proof = r.proof;
    AUTO(free_str) char *subject = str_printf("%s>%s", r.from, r.to);
    bool measured = r.part->outcome == TCP_PAIR_MEASURED;
    struct evidence e = {.stage = STAGE_NAME,
                         .subject = subject,
                         .quantity = r.quantity,
                         .unit = r.unit,
                         .samples = r.samples,
                         .sample_count = measured ? r.sample_count : 0,
                         .conditions = conditions,
                         .proof = proof,
                         .outcome = outcomes[r.part->outcome],
                         .cause = measured ? NULL : tcp_cause_code(r.part->cause),
                         .reason = measured ? NULL : r.part->text};
    return stage_evidence(p->ctx, &e, err);
}

static json_t *conditions_of(const struct pairs *p)
{
    json_t *c = json_object();
    jsonx_set_str(c, "transport", "tcp");
    jsonx_set_int(c, "streams", p->config.streams);
    return c;
}

static json_t *proof_of(const struct pairs *p, const struct tcp_pair_direction *d)
{
    json_t *proof = json_object();
    jsonx_set_str(proof, "path", "tcp");
    jsonx_set_str(proof, "interface", tcp_local(p->tcp)->interface);
    jsonx_set_int(proof, "tx_bytes", d->moved.tx_bytes);
    jsonx_set_int(proof, "rx_bytes", d->moved.rx_bytes);
    jsonx_set_int(proof, "retransmits", d->retransmits);
    jsonx_set_int(proof, "segment_bytes", d->segment_bytes);
    return proof;
}

static int emit_data(struct pairs *p, const char *from, const char *to,
                     const struct tcp_pair_direction *d, struct err *err)
{
    json_t *proof = json_object();
    double compared = (double)d->content.compared;
    jsonx_set_str(proof, "path", "tcp");
    jsonx_set_str(proof, "interface", tcp_local(p->tcp)->interface);
    jsonx_set_int(proof, "compared", (int64_t)d->content.compared);
    jsonx_set_int(proof, "mismatches", (int64_t)d->content.mismatches);
    if (d->content.mismatches)
        jsonx_set_int(proof, "first_bad", (int64_t)d->content.first_bad);
    return emit(p,
                (struct record){.from = from,
                                .to = to,
                                .quantity = "tcp_data",
                                .unit = "B",
                                .part = &d->data,
                                .samples = &compared,
                                .sample_count = 1,
                                .conditions = conditions_of(p),
                                .proof = proof},
                err);
}

static int emit_bandwidth(struct pairs *p, const char *from, const char *to,
                          const struct tcp_pair_direction *d, struct err *err)
{
    json_t *conditions = conditions_of(p);
    jsonx_set_int(conditions, "duration_ms", p->config.duration_ms);
    jsonx_set_int(conditions, "interval_ms", TCP_PAIR_INTERVAL_MS);
    jsonx_set_int(conditions, "warm_up_ms", TCP_PAIR_WARM_UP_MS);
    return emit(p,
                (struct record){.from = from,
                                .to = to,
                                .quantity = "tcp_bandwidth",
                                .unit = "bit/s",
                                .part = &d->bandwidth,
                                .samples = d->samples_bps,
                                .sample_count = d->sample_count,
                                .conditions = conditions,
                                .proof = proof_of(p, d)},
                err);
}

static int emit_cpu(struct pairs *p, const char *from, const char *to, const char *side,
                    const struct tcp_pair_direction *d, struct err *err)
{
    if (d->bandwidth.outcome != TCP_PAIR_MEASURED)
        return 0; /* the bandwidth's record says why */
    json_t *conditions = conditions_of(p);
    jsonx_set_str(conditions, "side", side);
    return emit(p,
                (struct record){.from = from,
                                .to = to,
                                .quantity = "cpu_share",
                                .unit = "1",
                                .part = &d->bandwidth,
                                .samples = &d->cpu_share,
                                .sample_count = 1,
                                .conditions = conditions,
                                .proof = proof_of(p, d)},
                err);
}

static int emit_latency(struct pairs *p, const char *from, const char *to,
                        const struct tcp_pair_result *r, struct err *err)
{
    const double samples[] = {r->p50_s, r->p99_s, r->min_s};
    json_t *conditions = json_object(), *names = json_array();
    jsonx_append_str(names, "p50");
    jsonx_append_str(names, "p99");
    jsonx_append_str(names, "min");
    jsonx_set(conditions, "samples", names);
    jsonx_set_str(conditions, "transport", "tcp");
    jsonx_set_int(conditions, "bytes", TCP_PAIR_MESSAGE_BYTES);
    jsonx_set_int(conditions, "iterations", p->config.latency_iterations);
    json_t *proof = json_object();
    jsonx_set_str(proof, "path", "tcp");
    jsonx_set_str(proof, "interface", tcp_local(p->tcp)->interface);
    return emit(p,
                (struct record){.from = from,
                                .to = to,
                                .quantity = "tcp_latency",
                                .unit = "s",
                                .part = &r->latency,
                                .samples = samples,
                                .sample_count = ARRAY_LEN(samples),
                                .conditions = conditions,
                                .proof = proof},
                err);
}

/* The receiver speaks for a path; the sender adds its own share, and speaks for the path when it
 * failed (the other end may be unable to). */
static int emit_round(struct pairs *p, const struct tcp_pair_peer *peer,
                      const struct tcp_pair_result *r, struct err *err)
{
    const char *self = peer->self, *name = peer->name;
    if (emit_data(p, name, self, &r->in, err) || emit_bandwidth(p, name, self, &r->in, err) ||
        emit_cpu(p, name, self, "rx", &r->in, err) || emit_cpu(p, self, name, "tx", &r->out, err))
        return -1;
    if (r->out.data.outcome != TCP_PAIR_MEASURED && emit_data(p, self, name, &r->out, err))
        return -1;
    if (r->out.bandwidth.outcome != TCP_PAIR_MEASURED &&
        emit_bandwidth(p, self, name, &r->out, err))
        return -1;
    return peer->first ? emit_latency(p, self, name, r, err) : 0;
}

/* ---------------------------------------------------------------------------- rounds */

/* What went wrong, for the controller's progress line. */
static const char *first_text(const struct tcp_pair_result *r)
{
    const struct tcp_pair_part *parts[] = {&r->out.data, &r->in.data, &r->out.bandwidth,
                                           &r->in.bandwidth, &r->latency};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (parts[i]->outcome == TCP_PAIR_FAILED)
            return parts[i]->text;
    return "not everything was measured";
}

static int ready(struct pairs *p, int64_t round, bool ok, const char *text, struct err *err)
{
    json_t *fields = json_object();
    jsonx_set_int(fields, "round", round);
    jsonx_set_bool(fields, "ok", ok);
    jsonx_set_str(fields, "text", text);
    return stage_event(p->ctx, "ready", fields, err);
}

static int run_round(struct pairs *p, const struct order *o, struct err *err)
{
    p->rounds++;
    if (!o->peer)
        return ready(p, o->round, true, "rested", err);
    struct tcp_pair_peer peer = {.self = stage_node(p->ctx),
                                 .name = o->peer,
                                 .first = strcmp(o->role, "first") == 0,
                                 .round = (uint32_t)o->round};
    if (tcp_endpoint_parse(p->tcp, o->endpoint, &peer.addr, err))
        return err_wrap(err, "%s: ", o->peer);
    int64_t deadline_ms = now_ms() + o->deadline_ms, end_ms = stage_deadline_ms(p->ctx);
    deadline_ms = deadline_ms < end_ms ? deadline_ms : end_ms;
    struct tcp_pair_result *r = mem_zero(1, sizeof *r);
    bool ok = tcp_pair_run(p->tcp, &peer, &p->config, deadline_ms, r);
    int rc = emit_round(p, &peer, r, err);
    if (rc == 0)
        rc = ready(p, o->round, ok, ok ? "measured" : first_text(r), err);
    free(r);
    return rc;
}

static int run_rounds(struct pairs *p, struct err *err)
{
    for (;;) {
        json_auto_t *data = NULL;
        struct order o;
        int64_t left_ms = stage_deadline_ms(p->ctx) - now_ms();
        if (stage_wait_go(p->ctx, left_ms > 0 ? (int)left_ms : 0, &data, err) ||
            read_order(data, &o, err))
            return -1;
        if (o.done)
            return 0;
        if (run_round(p, &o, err))
            return -1;
    }
}

static int run(struct stage_ctx *ctx, const json_t *params, json_t **data, struct err *err)
{
    static const char *const keys[] = {
        "token",   "address",       "interface",          "duration_ms",
        "streams", "content_bytes", "latency_iterations", NULL};
    struct pairs p = {.ctx = ctx};
    struct stage_net net;
    if (stage_net_params(params, STAGE_NAME, keys, &net, err) ||
        read_config(params, &p.config, err) || tcp_open(&net.addr, net.token.bytes, &p.tcp, err))
        return -1;
    int rc = stage_net_endpoint(ctx, tcp_endpoint(p.tcp), err);
    if (rc == 0)
        rc = run_rounds(&p, err);
    tcp_close(p.tcp);
    explicit_bzero(&net, sizeof net);
    if (rc)
        return -1;
    *data = json_object();
    jsonx_set_int(*data, "rounds", p.rounds);
    return 0;
}

const struct stage stage_pairs = {
    .name = STAGE_NAME,
    .summary = "TCP between each two nodes: content, goodput both ways, latency",
    .run = run,
};
