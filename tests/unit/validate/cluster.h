/* A small cluster in memory: site, facts and signed evidence of healthy nodes, with faults on
 * request. */
#ifndef MUSTER_TESTS_VALIDATE_CLUSTER_H
#define MUSTER_TESTS_VALIDATE_CLUSTER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "validate/evidence_set.h"
#include "validate/judge.h"
#include "validate/merkle.h"
#include "validate/report.h"

#define CLUSTER_RUN "20261130T081500Z-3fa9"
#define CLUSTER_NOW "2026-11-30T08:20:00.000Z"
enum { CLUSTER_MAX = 12 };

struct cluster {
    size_t count;
    char names[CLUSTER_MAX][64];
    struct sign_key *keys[CLUSTER_MAX];
    struct strbuf lines[CLUSTER_MAX];
    int64_t seq[CLUSTER_MAX];
    struct hash leaves[CLUSTER_MAX][512]; /* of the stage that is open */
    size_t leaf_count[CLUSTER_MAX];
    json_t *site, *facts, *steps, *skew, *node_keys;
    int64_t now_ms;
    /* faults, set between open and measure */
    double bandwidth[CLUSTER_MAX][CLUSTER_MAX];   /* bit/s */
    const char *broken[CLUSTER_MAX][CLUSTER_MAX]; /* cause of a path that fails */
    double mismatches[CLUSTER_MAX][CLUSTER_MAX];
    int retransmits[CLUSTER_MAX][CLUSTER_MAX]; /* beyond the three of a healthy path */
    bool absent[CLUSTER_MAX];                  /* takes no part in pairs and allreduce */
    bool unsealed[CLUSTER_MAX];                /* pairs was broken off */
    const char *digest[CLUSTER_MAX];
    double busbw;           /* B/s */
    bool one_sided_latency; /* only the earlier node of a pair measures the round trip */
};

static inline json_t *cluster_facts(const char *name, double speed_bps)
{
    json_error_t e;
    json_t *f = json_pack_ex(
        &e, 0,
        "{s:i,s:s,s:{s:I,s:I},s:{s:{s:I,s:I},s:I},s:[{s:s,s:i,s:s,s:o,s:b}],"
        "s:[],s:[],s:{s:b,s:s,s:[]},"
        "s:{s:s,s:[s],s:[],s:[s],s:n,s:{}}}",
        "v", 1, "hostname", name, "limits", "memlock_soft_bytes", (json_int_t)65536,
        "memlock_hard_bytes", (json_int_t)65536, "memory", "shm", "size_bytes", (json_int_t)1 << 30,
        "free_bytes", (json_int_t)1 << 30, "total_bytes", (json_int_t)1 << 34, "net", "name",
        "eth0", "mtu", 1500, "operstate", "up", "speed_bps",
        speed_bps > 0 ? json_integer((json_int_t)speed_bps) : json_null(), "virtual",
        speed_bps > 0 ? 0 : 1, "rdma", "pci", "gpus", "available", 0, "reason",
        "no NVIDIA PCI device", "devices", "identity", "machine_id", name, "ssh_host_keys",
        "SHA256:abc", "gpus", "nics", "02:00:00:00:00:01", "driver", "firmware");
    if (!f)
        fail_msg("facts: %s", e.text);
    return f;
}

/* names NULL: n1, n2 ... */
static inline void cluster_open_named(struct cluster *c, size_t count, double speed_bps,
                                      const char *const names[])
{
    *c = (struct cluster){.count = count, .busbw = 1e9};
    struct err err = {0};
    json_t *nodes = json_object();
    c->facts = json_object();
    c->skew = json_object();
    c->steps = json_array();
    c->node_keys = json_object();
    for (size_t i = 0; i < count; i++) {
        if (names)
            snprintf(c->names[i], sizeof c->names[i], "%.60s", names[i]);
        else
            snprintf(c->names[i], sizeof c->names[i], "n%zu", i + 1);
        c->keys[i] = sign_key_generate(&err);
        assert_non_null(c->keys[i]);
        struct sign_public public;
        sign_public_raw(c->keys[i], &public);
        AUTO(free_str) char *encoded = sign_public_base64(&public);
        jsonx_set_str(c->node_keys, c->names[i], encoded);
        jsonx_set(nodes, c->names[i], json_pack("{s:n,s:[]}", "hardware", "playbooks"));
        jsonx_set(c->facts, c->names[i], cluster_facts(c->names[i], speed_bps));
        jsonx_set_int(c->skew, c->names[i], 10);
        c->digest[i] = "aa00";
        for (size_t k = 0; k < count; k++)
            c->bandwidth[i][k] = 9e9 + 1e7 * (double)((i * 7 + k * 3) % 5);
    }
    c->site =
        json_pack("{s:i,s:s,s:{s:s,s:n,s:n,s:s},s:o,s:{s:[s,s,s],s:I,s:b,s:I,s:{},s:[]}}", "v", 1,
                  "cluster", "aurora", "fabric", "kind", "ethernet", "rate_bps", "mtu", "interface",
                  "eth0", "nodes", nodes, "policy", "require", "inventory", "pairs",
                  "allreduce-cluster", "max_age_ms", (json_int_t)604800000, "allow_degraded", 0,
                  "max_clock_skew_ms", (json_int_t)5000, "floors", "exclude");
    assert_non_null(c->site);
    assert_int_equal(time_parse(CLUSTER_NOW, &c->now_ms), 0);
}

static inline void cluster_open(struct cluster *c, size_t count, double speed_bps)
{
    cluster_open_named(c, count, speed_bps, NULL);
}

static inline void cluster_close(struct cluster *c)
{
    for (size_t i = 0; i < c->count; i++) {
        sign_key_destroy(c->keys[i]);
        strbuf_release(&c->lines[i]);
    }
    json_decref(c->site);
    json_decref(c->facts);
    json_decref(c->steps);
    json_decref(c->skew);
    json_decref(c->node_keys);
}

static inline json_t *cluster_policy(struct cluster *c)
{
    return json_object_get(c->site, "policy");
}

/* Append one record as the agent would; takes over conditions and proof. */
static inline void cluster_emit(struct cluster *c, size_t node, struct evidence e)
{
    struct err err = {0};
    json_t *record = evidence_body(&e, &err);
    if (!record)
        fail_msg("%s", err.text);
    json_decref(e.conditions);
    json_decref(e.proof);
    jsonx_set_str(record, "run", CLUSTER_RUN);
    jsonx_set_str(record, "node", c->names[node]);
    jsonx_set_int(record, "seq", c->seq[node]++);
    jsonx_set_str(record, "time", CLUSTER_NOW);
    jsonx_set_str(record, "tool", "muster-agent 0.1.0 sha256:00");
    assert_int_equal(evidence_set_sign(record, c->keys[node], &err), 0);
    AUTO(free_str) char *text = jsonx_canonical(record);
    json_decref(record);
    assert_true(c->leaf_count[node] < ARRAY_LEN(c->leaves[node]));
    c->leaves[node][c->leaf_count[node]++] = merkle_leaf(text, strlen(text));
    strbuf_puts(&c->lines[node], text);
    strbuf_puts(&c->lines[node], "\n");
}

static inline void cluster_value(struct cluster *c, size_t node, const char *stage,
                                 const char *subject, const char *quantity, const char *unit,
                                 double value, json_t *conditions, json_t *proof)
{
    cluster_emit(c, node,
                 (struct evidence){.stage = stage,
                                   .subject = subject,
                                   .quantity = quantity,
                                   .unit = unit,
                                   .samples = &value,
                                   .sample_count = 1,
                                   .conditions = conditions,
                                   .proof = proof,
                                   .outcome = EVIDENCE_MEASURED});
}

static inline void cluster_seal(struct cluster *c, size_t node, const char *stage)
{
    struct hash root = merkle_root(c->leaves[node], c->leaf_count[node]);
    char hex[HASH_HEX_BYTES];
    hash_hex(&root, hex);
    cluster_value(c, node, stage, c->names[node], "seal", "1", (double)c->leaf_count[node], NULL,
                  json_pack("{s:s}", "root", hex));
    c->leaf_count[node] = 0;
}

static inline void cluster_inventory(struct cluster *c, size_t node)
{
    AUTO(free_str) char *net = str_printf("%s/net:eth0", c->names[node]);
    const char *stage = "inventory";
    cluster_value(c, node, stage, c->names[node], "facts_digest", "1", 1, NULL,
                  json_pack("{s:s}", "digest", "00"));
    cluster_value(c, node, stage, c->names[node], "memlock", "B", 65536,
                  json_pack("{s:b}", "unlimited", 0), NULL);
    cluster_value(c, node, stage, c->names[node], "shm_bytes", "B", 1 << 30, NULL, NULL);
    cluster_value(c, node, stage, net, "mtu", "B", 1500, NULL, NULL);
    cluster_seal(c, node, stage);
}

/* What the receiving end `to` says about from>to, and the sender about its latency. */
static inline void cluster_path(struct cluster *c, size_t from, size_t to)
{
    AUTO(free_str) char *subject = str_printf("%s>%s", c->names[from], c->names[to]);
    if (c->broken[from][to]) {
        struct evidence e = {.stage = "pairs",
                             .subject = subject,
                             .quantity = "tcp_bandwidth",
                             .unit = "bit/s",
                             .outcome = EVIDENCE_FAILED,
                             .cause = c->broken[from][to],
                             .reason = "the connection did not come up"};
        cluster_emit(c, to, e);
        e.quantity = "tcp_data";
        e.unit = "B";
        cluster_emit(c, to, e);
        return;
    }
    cluster_value(c, to, "pairs", subject, "tcp_bandwidth", "bit/s", c->bandwidth[from][to], NULL,
                  json_pack("{s:s,s:I,s:I,s:i}", "interface", "eth0", "tx_bytes", (json_int_t)100,
                            "rx_bytes", (json_int_t)1000000000, "retransmits",
                            3 + c->retransmits[from][to]));
    cluster_value(c, to, "pairs", subject, "tcp_data", "B", 1 << 20, NULL,
                  json_pack("{s:f}", "mismatches", c->mismatches[from][to]));
    if (c->one_sided_latency && from > to)
        return;
    const double latency[] = {2e-5, 9e-5, 1e-5};
    cluster_emit(c, from,
                 (struct evidence){.stage = "pairs",
                                   .subject = subject,
                                   .quantity = "tcp_latency",
                                   .unit = "s",
                                   .samples = latency,
                                   .sample_count = 3,
                                   .outcome = EVIDENCE_MEASURED});
}

static inline void cluster_allreduce(struct cluster *c, size_t node)
{
    const char *stage = "allreduce-cluster";
    cluster_value(c, node, stage, "cluster", "allreduce_data", "1", 1,
                  json_pack("{s:i,s:s,s:s}", "bytes", 1048576, "dtype", "f32", "algorithm", "ring"),
                  json_pack("{s:s,s:i}", "digest", c->digest[node], "mismatches", 0));
    cluster_value(c, node, stage, "cluster", "allreduce_busbw", "B/s", c->busbw,
                  json_pack("{s:i,s:s,s:s}", "bytes", 1048576, "dtype", "f32", "algorithm", "ring"),
                  json_pack("{s:s}", "interface", "eth0"));
    cluster_seal(c, node, stage);
}

static inline void cluster_measure(struct cluster *c)
{
    for (size_t i = 0; i < c->count; i++)
        cluster_inventory(c, i);
    for (size_t a = 0; a < c->count; a++)
        for (size_t b = 0; b < c->count; b++)
            if (a != b && !c->absent[a] && !c->absent[b])
                cluster_path(c, a, b);
    for (size_t i = 0; i < c->count; i++) {
        if (c->absent[i])
            continue;
        if (!c->unsealed[i])
            cluster_seal(c, i, "pairs");
        c->leaf_count[i] = 0;
        cluster_allreduce(c, i);
    }
}

static inline struct evidence_set *cluster_evidence(const struct cluster *c)
{
    struct err err = {0};
    struct evidence_set *set = evidence_set_create(CLUSTER_RUN);
    for (size_t i = 0; i < c->count; i++) {
        struct sign_public key;
        sign_public_raw(c->keys[i], &key);
        const struct strbuf *b = &c->lines[i];
        assert_int_equal(
            evidence_set_add(set, c->names[i], &key, b->data ? b->data : "", b->len, &err), 0);
    }
    return set;
}

static inline json_t *cluster_judge_set(const struct cluster *c, const struct evidence_set *set)
{
    struct err err = {0};
    struct judge_input input = {.site = c->site,
                                .facts = c->facts,
                                .evidence = set,
                                .steps = c->steps,
                                .clock_skew_ms = c->skew,
                                .now_ms = c->now_ms};
    json_t *verdict = NULL;
    if (judge_run(&input, &verdict, &err) != 0)
        fail_msg("%s", err.text);
    return verdict;
}

static inline json_t *cluster_judge(const struct cluster *c)
{
    struct evidence_set *set = cluster_evidence(c);
    json_t *verdict = cluster_judge_set(c, set);
    evidence_set_destroy(set);
    return verdict;
}

static inline const char *cluster_state(const json_t *verdict, const char *node)
{
    const json_t *nodes = json_object_get(verdict, "nodes");
    return jsonx_str_or(json_object_get(nodes, node), "state", "(no node)");
}

/* The element, or NULL. */
static inline const json_t *cluster_element(const json_t *verdict, const char *subject,
                                            const char *check)
{
    const json_t *elements = json_object_get(verdict, "elements");
    for (size_t i = 0; i < json_array_size(elements); i++) {
        const json_t *e = json_array_get(elements, i);
        if (strcmp(jsonx_str_or(e, "subject", ""), subject) == 0 &&
            strcmp(jsonx_str_or(e, "check", ""), check) == 0)
            return e;
    }
    return NULL;
}

/* Signed report and slices of the cluster as it is. */
static inline void cluster_report(const struct cluster *c, struct sign_key *key, int64_t serial,
                                  bool simulated, json_t **envelope, json_t **slices)
{
    struct err err = {0};
    struct evidence_set *set = cluster_evidence(c);
    json_auto_t *verdict = cluster_judge_set(c, set);
    struct report_input in = {.verdict = verdict,
                              .site = c->site,
                              .facts = c->facts,
                              .node_keys = c->node_keys,
                              .evidence = set,
                              .muster_version = "muster 0.1.0",
                              .serial = serial,
                              .issued_ms = c->now_ms,
                              .expires_ms = c->now_ms + 604800000,
                              .simulated = simulated};
    if (report_build(&in, &key, 1, envelope, slices, &err) != 0)
        fail_msg("%s", err.text);
    evidence_set_destroy(set);
}

#endif
