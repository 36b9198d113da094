/* The allreduce-cluster stage: the sum of vectors over all nodes, exact first, then timed.
 *
 * docs/stages/allreduce-cluster.md states the talk with the controller.  When a peer is lost the
 * stage ends in order with a failed record that names it, so that the judge sees who stood in the
 * way. */
#include <stdlib.h>
#include <string.h>

#include "agents/stages/stage.h"
#include "agents/stages/stage_net.h"
#include "common/hash.h"
#include "common/jsonx.h"
#include "common/stage_params.h"
#include "common/util.h"
#include "fabric/collective/allreduce.h"
#include "fabric/collective/pattern.h"
#include "fabric/transport/transport.h"

enum {
    MAX_SIZES = STAGE_PARAMS_MAX_SIZES,
    MAX_ITERATIONS = 1000,
    MAX_SIZE_BYTES = STAGE_PARAMS_MAX_SIZE_BYTES,
    /* Left of the stage's time for the last records and the reply. */
    RESERVE_MS = 1000,
    BUSY_BYTES_PER_MS = 20000 /* checked and hashed, on a busy core */
};

#define STAGE_NAME "allreduce-cluster"
_Static_assert(TRANSPORT_MAX_STREAMS == 16 && MAX_ITERATIONS == 1000,
               "common/stage_params.def states these limits");
#define SUBJECT "cluster"

static const int64_t default_sizes_bytes[] = {4096, 65536, 1048576, 16777216, 67108864};

struct cluster {
    struct stage_ctx *ctx;
    uint32_t rank, ranks;
    const char **nodes; /* names, by rank; borrowed from the parameters */
    size_t sizes_bytes[MAX_SIZES];
    size_t size_count, max_bytes;
    enum reduce_dtype dtype;
    int64_t iterations, min_time_ms, streams, silence_ms;
    int64_t deadline_ms;
    struct transport *transport;
    struct allreduce *allreduce;
    void *in, *out;
    size_t sizes_done;
};

/* ---------------------------------------------------------------------------- parameters */

static int read_nodes(const json_t *params, struct cluster *c, struct err *err)
{
    const struct stage_net_int rows[] = {
        {"rank", -1, 0, ALLREDUCE_MAX_RANKS - 1},
        {"ranks", -1, 2, ALLREDUCE_MAX_RANKS},
    };
    static const char *const keys[] = {"iterations", "min_time_ms", "streams", "silence_ms"};
    int64_t v[ARRAY_LEN(rows)], w[ARRAY_LEN(keys)];
    if (stage_net_ints(params, STAGE_NAME, rows, ARRAY_LEN(rows), v, err) ||
        stage_net_site_ints(params, STAGE_NAME, keys, ARRAY_LEN(keys), w, err))
        return -1;
    c->rank = (uint32_t)v[0];
    c->ranks = (uint32_t)v[1];
    c->iterations = w[0];
    c->min_time_ms = w[1];
    c->streams = w[2];
    c->silence_ms = w[3];
    const json_t *nodes = json_object_get(params, "nodes");
    if (!json_is_array(nodes) || json_array_size(nodes) != c->ranks || c->rank >= c->ranks)
        return err_set(err, ERR_USAGE,
                       "stage " STAGE_NAME ": key 'nodes' must be the list of the %u ranks' names, "
                       "and rank %u one of them",
                       c->ranks, c->rank);
    c->nodes = mem_zero(c->ranks, sizeof *c->nodes);
    for (uint32_t r = 0; r < c->ranks; r++) {
        c->nodes[r] = json_string_value(json_array_get(nodes, r));
        if (!c->nodes[r])
            return err_set(err, ERR_USAGE, "stage " STAGE_NAME ": nodes[%u] is not a string", r);
    }
    if (strcmp(c->nodes[c->rank], stage_node(c->ctx)) != 0)
        return err_set(err, ERR_USAGE, "stage " STAGE_NAME ": rank %u is %s, this node is %s",
                       c->rank, c->nodes[c->rank], stage_node(c->ctx));
    return 0;
}

static int read_sizes(const json_t *params, struct cluster *c, struct err *err)
{
    const json_t *sizes = json_object_get(params, "sizes_bytes");
    const char *dtype = "f32";
    if (jsonx_opt_str(params, "stage " STAGE_NAME, "dtype", &dtype, err)) {
        err->kind = ERR_USAGE;
        return -1;
    }
    c->dtype = reduce_dtype_find(dtype);
    if (c->dtype == REDUCE_UNSET)
        return err_set(err, ERR_USAGE, "stage " STAGE_NAME ": dtype '%.16s' is not f32 or i32",
                       dtype);
    bool own = json_is_array(sizes);
    c->size_count = own ? json_array_size(sizes) : ARRAY_LEN(default_sizes_bytes);
    if ((sizes && !own && !json_is_null(sizes)) || c->size_count < 1 || c->size_count > MAX_SIZES)
        return err_set(err, ERR_USAGE,
                       "stage " STAGE_NAME ": sizes_bytes must be a list of 1 to %d "
                       "sizes",
                       MAX_SIZES);
    for (size_t i = 0; i < c->size_count; i++) {
        int64_t bytes = own ? json_integer_value(json_array_get(sizes, i)) : default_sizes_bytes[i];
        if (bytes < 4 || bytes > MAX_SIZE_BYTES || bytes % 4 != 0)
            return err_set(err, ERR_USAGE,
                           "stage " STAGE_NAME
                           ": sizes_bytes[%zu] must be a multiple of 4 from 4 to "
                           "%d",
                           i, MAX_SIZE_BYTES);
        c->sizes_bytes[i] = (size_t)bytes;
        c->max_bytes = (size_t)bytes > c->max_bytes ? (size_t)bytes : c->max_bytes;
    }
    return 0;
}

/* ---------------------------------------------------------------------------- evidence */

static json_t *conditions_of(const struct cluster *c, size_t bytes)
{
    json_t *o = json_object();
    jsonx_set_int(o, "bytes", (int64_t)bytes);
    jsonx_set_int(o, "ranks", c->ranks);
    jsonx_set_int(o, "rank", c->rank);
    jsonx_set_int(o, "streams", c->streams);
    jsonx_set_str(o, "algorithm", allreduce_algorithm_name(allreduce_choose(bytes, c->ranks)));
    jsonx_set_str(o, "transport", c->transport->ops->name);
    jsonx_set_str(o, "dtype", reduce_dtype_name(c->dtype));
    return o;
}

static int emit(struct cluster *c, size_t bytes, struct evidence e, json_t *proof, struct err *err)
{
    json_auto_t *conditions = conditions_of(c, bytes), *owned = proof;
    e.stage = STAGE_NAME;
    e.subject = SUBJECT;
    e.conditions = conditions;
    e.proof = owned;
    return stage_evidence(c->ctx, &e, err);
}

/* Which cause a broken collective has.  Only "peer-lost" tells the judge that this node is not the
 * one to blame. */
static const char *cause_of(const struct err *why)
{
    if (why->kind == ERR_DATA)
        return "data-corrupt";
    return why->kind == ERR_REMOTE || why->kind == ERR_TIMEOUT ? "peer-lost" : NULL;
}

static int emit_broken(struct cluster *c, size_t bytes, const struct err *why, struct err *err)
{
    int64_t culprit = c->transport->culprit;
    bool known = culprit >= 0 && culprit < c->ranks;
    AUTO(free_str)
    char *reason =
        known ? str_printf("%s is lost: %s", c->nodes[culprit], why->text) : str_dup(why->text);
    json_t *proof = c->transport->ops->proof(c->transport);
    if (known)
        jsonx_set_str(proof, "culprit", c->nodes[culprit]);
    return emit(c, bytes,
                (struct evidence){.quantity = "allreduce_data",
                                  .unit = "1",
                                  .outcome = EVIDENCE_FAILED,
                                  .cause = cause_of(why),
                                  .reason = reason},
                proof, err);
}

static int emit_data(struct cluster *c, size_t bytes, const struct pattern_result *r,
                     struct err *err)
{
    char hex[HASH_HEX_BYTES];
    struct hash digest = hash_of(c->out, bytes);
    hash_hex(&digest, hex);
    json_t *proof = json_object();
    jsonx_set_str(proof, "path", c->transport->ops->name);
    jsonx_set_str(proof, "digest", hex);
    jsonx_set_int(proof, "compared", (int64_t)r->compared);
    jsonx_set_int(proof, "mismatches", (int64_t)r->mismatches);
    if (r->mismatches)
        jsonx_set_int(proof, "first_bad", (int64_t)r->first_bad);
    double compared = (double)r->compared;
    AUTO(free_str)
    char *reason =
        r->mismatches
            ? str_printf("%llu of %llu elements of the sum are wrong, the first "
                         "is element %llu",
                         (unsigned long long)r->mismatches, (unsigned long long)r->compared,
                         (unsigned long long)r->first_bad)
            : NULL;
    return emit(c, bytes,
                (struct evidence){.quantity = "allreduce_data",
                                  .unit = "1",
                                  .samples = &compared,
                                  .sample_count = r->mismatches ? 0 : 1,
                                  .outcome = r->mismatches ? EVIDENCE_FAILED : EVIDENCE_MEASURED,
                                  .cause = r->mismatches ? "data-corrupt" : NULL,
                                  .reason = reason},
                proof, err);
}

/* after - before, member by member where both are integers. */
static json_t *proof_between(const json_t *before, const json_t *after)
{
    json_t *d = json_object();
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)after, key, value)
    {
        const json_t *b = json_object_get(before, key);
        if (json_is_integer(value) && json_is_integer(b))
            jsonx_set_int(d, key, json_integer_value(value) - json_integer_value(b));
        else
            jsonx_set(d, key, json_incref(value));
    }
    return d;
}

static int emit_times(struct cluster *c, size_t bytes, const double *times_s, size_t count,
                      const json_t *before, struct err *err)
{
    json_auto_t *now = c->transport->ops->proof(c->transport);
    double factor = 2.0 * (c->ranks - 1) / c->ranks;
    double *rates = mem_zero(count, sizeof *rates);
    for (size_t i = 0; i < count; i++)
        rates[i] = factor * (double)bytes / times_s[i];
    int rc = emit(c, bytes,
                  (struct evidence){.quantity = "allreduce_time",
                                    .unit = "s",
                                    .samples = times_s,
                                    .sample_count = count,
                                    .outcome = EVIDENCE_MEASURED},
                  proof_between(before, now), err);
    if (rc == 0)
        rc = emit(c, bytes,
                  (struct evidence){.quantity = "allreduce_busbw",
                                    .unit = "B/s",
                                    .samples = rates,
                                    .sample_count = count,
                                    .outcome = EVIDENCE_MEASURED},
                  proof_between(before, now), err);
    free(rates);
    return rc;
}

/* ---------------------------------------------------------------------------- measurement */

static int sum_once(struct cluster *c, size_t bytes, struct err *err)
{
    return allreduce_run(c->allreduce, ALLREDUCE_AUTO, c->dtype, c->in, c->out,
                         bytes / reduce_dtype_bytes(c->dtype), c->deadline_ms, err);
}

/* Rank 0 decides how often, and all learn it by the barrier. */
static int agree(struct cluster *c, size_t bytes, int32_t *iterations, struct err *err)
{
    int32_t wish = 0;
    int64_t begin_ns = now_ns();
    if (sum_once(c, bytes, err))
        return -1;
    int64_t once_ns = now_ns() - begin_ns + 1;
    if (c->rank == 0) {
        int64_t share_ns =
            (c->deadline_ms - now_ms()) * 1000000 / (2 * (int64_t)(c->size_count - c->sizes_done));
        int64_t n = c->min_time_ms * 1000000 / once_ns;
        n = n < c->iterations ? c->iterations : n;
        n = n > MAX_ITERATIONS ? MAX_ITERATIONS : n;
        n = n > share_ns / once_ns ? share_ns / once_ns : n;
        wish = n < 1 ? 1 : (int32_t)n;
    }
    if (allreduce_barrier(c->allreduce, wish, iterations, c->deadline_ms, err))
        return -1;
    if (*iterations < 1 || *iterations > MAX_ITERATIONS)
        return err_set(err, ERR_DATA, "the ranks agreed on %d iterations, 1 to %d are possible",
                       *iterations, MAX_ITERATIONS);
    return 0;
}

/* *why: the collective broke; err: this process cannot go on. */
static int time_size(struct cluster *c, size_t bytes, const struct pattern *p, struct err *why,
                     struct err *err)
{
    int32_t iterations;
    if (agree(c, bytes, &iterations, why))
        return -1;
    double *times_s = mem_zero((size_t)iterations, sizeof *times_s);
    json_auto_t *before = c->transport->ops->proof(c->transport);
    int rc = 0;
    for (int32_t i = 0; i < iterations && rc == 0; i++) {
        int64_t begin_ns = now_ns();
        rc = sum_once(c, bytes, why);
        times_s[i] = (double)(now_ns() - begin_ns) * 1e-9;
    }
    struct pattern_result r;
    if (rc == 0) {
        rc = emit_times(c, bytes, times_s, (size_t)iterations, before, err);
        /* The timed runs must have summed as well as the one that was checked. */
        pattern_check(p, c->out, bytes / reduce_dtype_bytes(c->dtype), &r);
    }
    free(times_s);
    return rc == 0 ? emit_data(c, bytes, &r, err) : -1;
}

static int measure_size(struct cluster *c, size_t bytes, struct err *why, struct err *err)
{
    struct pattern p;
    struct pattern_result r;
    int32_t present;
    size_t count = bytes / reduce_dtype_bytes(c->dtype);
    pattern_init(&p, bytes + c->sizes_done, c->ranks, c->dtype);
    pattern_fill(&p, c->rank, c->in, count);
    memset(c->out, 0xa5, bytes);
    if (allreduce_barrier(c->allreduce, 1, &present, c->deadline_ms, why) ||
        sum_once(c, bytes, why))
        return -1;
    pattern_check(&p, c->out, count, &r);
    /* A wrong sum is told and not timed; the ranks that have a right one are waiting for this one.
     */
    if (r.mismatches && emit_data(c, bytes, &r, err))
        return -1;
    return time_size(c, bytes, &p, why, err);
}

static int measure_all(struct cluster *c, struct err *why, struct err *err)
{
    for (; c->sizes_done < c->size_count; c->sizes_done++)
        if (measure_size(c, c->sizes_bytes[c->sizes_done], why, err))
            return -1;
    int32_t present; /* nobody leaves while another one still needs an answer */
    return allreduce_barrier(c->allreduce, 1, &present, c->deadline_ms, why);
}

/* ---------------------------------------------------------------------------- the stage */

static int wait_endpoints(struct cluster *c, json_t **data, struct transport_peer peers[],
                          struct err *err)
{
    static const char *const keys[] = {"endpoints", NULL};
    const json_t *endpoints;
    int64_t left_ms = c->deadline_ms - now_ms();
    if (stage_wait_go(c->ctx, left_ms > 0 ? (int)left_ms : 0, data, err) ||
        jsonx_only_keys(*data, "go", keys, err) ||
        jsonx_get_arr(*data, "go", "endpoints", &endpoints, err))
        return -1;
    if (json_array_size(endpoints) != c->ranks)
        return err_set(err, ERR_DATA, "go: %zu endpoints for %u ranks", json_array_size(endpoints),
                       c->ranks);
    for (uint32_t r = 0; r < c->ranks; r++)
        peers[r] = (struct transport_peer){
            .rank = r, .name = c->nodes[r], .endpoint = json_array_get(endpoints, r)};
    return 0;
}

/* From the endpoints on, trouble with others is a result and not an error of the stage. */
static int measure(struct cluster *c, const struct transport_peer peers[], json_t **data,
                   struct err *err)
{
    struct err why = {.kind = ERR_NONE};
    int rc = allreduce_open(c->transport, peers, c->rank, c->ranks, c->max_bytes, c->deadline_ms,
                            &c->allreduce, &why);
    if (rc == 0)
        rc = measure_all(c, &why, err);
    if (rc && err->kind != ERR_NONE)
        return -1;
    size_t at = c->sizes_done < c->size_count ? c->sizes_done : c->size_count - 1;
    if (rc) {
        int64_t culprit = c->transport->culprit;
        c->transport->ops->abort(c->transport, culprit < 0 ? TRANSPORT_NO_RANK : (uint32_t)culprit);
        if (emit_broken(c, c->sizes_bytes[at], &why, err))
            return -1;
    }
    *data = json_object();
    jsonx_set_int(*data, "sizes", (int64_t)c->sizes_done);
    jsonx_set_bool(*data, "ok", rc == 0);
    jsonx_set_str(*data, "text", rc ? why.text : "measured");
    return 0;
}

static int open_transport(struct cluster *c, const struct stage_net *net, struct err *err)
{
    const struct transport_ops *tcp = transport_find("tcp");
    /* A rank that checks and hashes a large vector does not answer meanwhile. */
    int64_t busy_ms = (int64_t)c->max_bytes / BUSY_BYTES_PER_MS;
    struct transport_config config = {.rank = c->rank,
                                      .address = net->addr.text,
                                      .token = net->token.bytes,
                                      .streams = (unsigned)c->streams,
                                      .silence_ms = (int)(c->silence_ms + busy_ms)};
    if (tcp->available(err) || tcp->open(&config, &c->transport, err))
        return -1;
    c->in = malloc(c->max_bytes);
    c->out = malloc(c->max_bytes);
    if (!c->in || !c->out)
        return err_set(err, ERR_NOMEM, "no memory for two vectors of %zu bytes", c->max_bytes);
    if (c->transport->ops->attach(c->transport, c->in, c->max_bytes, err) ||
        c->transport->ops->attach(c->transport, c->out, c->max_bytes, err))
        return -1;
    return stage_net_endpoint(c->ctx, c->transport->ops->endpoint(c->transport), err);
}

static int run(struct stage_ctx *ctx, const json_t *params, json_t **data, struct err *err)
{
    static const char *const keys[] = {
        "token",       "address",    "interface",   "rank",    "ranks",      "nodes", "dtype",
        "sizes_bytes", "iterations", "min_time_ms", "streams", "silence_ms", NULL};
    struct cluster c = {.ctx = ctx, .deadline_ms = stage_deadline_ms(ctx) - RESERVE_MS};
    struct stage_net net;
    if (stage_net_params(params, STAGE_NAME, keys, &net, err))
        return -1;
    struct transport_peer *peers = NULL;
    json_t *go = NULL;
    int rc =
        read_nodes(params, &c, err) || read_sizes(params, &c, err) || open_transport(&c, &net, err)
            ? -1
            : 0;
    explicit_bzero(&net, sizeof net);
    if (rc == 0) {
        peers = mem_zero(c.ranks, sizeof *peers);
        rc = wait_endpoints(&c, &go, peers, err);
    }
    if (rc == 0)
        rc = measure(&c, peers, data, err);
    allreduce_close(c.allreduce);
    if (c.transport)
        c.transport->ops->close(c.transport);
    json_decref(go);
    free(peers);
    free(c.in);
    free(c.out);
    free(c.nodes);
    return rc;
}

const struct stage stage_allreduce_cluster = {
    .name = STAGE_NAME,
    .summary = "the sum of vectors over all nodes by TCP: exact, then timed",
    .run = run,
};
