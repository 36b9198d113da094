/* From stored evidence to the signed report on every node: judge, sign, publish. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/jsonx.h"
#include "common/log.h"
#include "common/util.h"
#include "provision/steps.h"
#include "validate/evidence_set.h"
#include "validate/judge.h"
#include "validate/report.h"
#include "validate/sign.h"

enum { PUBLISH_MS = 30000, DEFAULT_MAX_AGE_MS = 7 * 86400 * 1000 };

static void destroy_set(struct evidence_set **set)
{
    evidence_set_destroy(*set);
}

static void destroy_key(struct sign_key **key)
{
    sign_key_destroy(*key);
}

/* {NODE: evidence key or null}: from this run's hello, else from the pins of an earlier contact. */
static int node_keys(const struct ctl *c, json_t **keys, struct err *err)
{
    json_auto_t *pins = NULL;
    if (state_pins_load(&c->state, &pins, err) != 0)
        return -1;
    const json_t *pinned = json_object_get(pins, "nodes");
    *keys = json_object();
    for (size_t i = 0; i < c->count; i++) {
        const char *key = jsonx_str_or(json_object_get(pinned, c->names[i]), "node_key", NULL);
        jsonx_set_str(*keys, c->names[i], key);
    }
    return 0;
}

static int load_evidence(const struct ctl *c, const json_t *keys, struct evidence_set **set,
                         struct err *err)
{
    AUTO(free_str) char *dir = run_path(&c->run, "evidence");
    AUTO(destroy_set) struct evidence_set *loaded = evidence_set_create(c->run.id);
    if (evidence_set_load(loaded, dir, keys, err) != 0)
        return -1;
    *set = STEAL(loaded);
    return 0;
}

static int judge(struct ctl *c, const struct evidence_set *evidence, json_t **verdict,
                 struct err *err)
{
    struct judge_input input = {
        .site = c->site,
        .facts = c->facts,
        .evidence = evidence,
        .steps = c->outcomes,
        .clock_skew_ms = c->clock_skew_ms,
        .applies = c->applies,
        .now_ms = wall_ms(),
    };
    return judge_run(&input, verdict, err);
}

int step_judge(struct ctl *c, json_t **verdict, struct err *err)
{
    json_auto_t *keys = NULL;
    AUTO(destroy_set) struct evidence_set *evidence = NULL;
    json_auto_t *judged = NULL;
    if (node_keys(c, &keys, err) != 0 || load_evidence(c, keys, &evidence, err) != 0 ||
        judge(c, evidence, &judged, err) != 0)
        return -1;
    AUTO(free_str) char *path = run_path(&c->run, "verdict.json");
    if (jsonx_save(path, judged, 0600, err) != 0)
        return -1;
    *verdict = STEAL(judged);
    return 0;
}

/* The signing key, made at the first report. */
static int signing_key(const struct ctl *c, struct sign_key **key, struct err *err)
{
    AUTO(free_str) char *dir = state_path(&c->state, "keys");
    AUTO(free_str) char *path = state_path(&c->state, "keys/signing.key");
    AUTO(free_str) char *public_path = state_path(&c->state, "keys/signing.pub");
    if (fs_exists(path)) {
        *key = sign_key_load_private(path, err);
        return *key ? 0 : -1;
    }
    AUTO(destroy_key) struct sign_key *fresh = NULL;
    if (fs_mkdirs(dir, 0700, err) != 0 || !(fresh = sign_key_generate(err)) ||
        sign_key_save_private(fresh, path, err) != 0)
        return -1;
    struct sign_public public;
    sign_public_raw(fresh, &public);
    if (sign_public_save(&public, public_path, err) != 0)
        return -1;
    log_info("made the key that signs reports: %s (keep it; give away only signing.pub)", path);
    *key = STEAL(fresh);
    return 0;
}

/* {agent's hash: [nodes]} */
static json_t *agents_used(const struct ctl *c)
{
    json_t *agents = json_object();
    const char *node;
    json_t *hello;
    json_object_foreach(c->hello, node, hello)
    {
        const char *sha = jsonx_str_or(hello, "sha256", "unknown");
        if (!json_object_get(agents, sha))
            jsonx_set(agents, sha, json_array());
        jsonx_append_str(json_object_get(agents, sha), node);
    }
    return agents;
}

/* Manifests: as apply left them, else as hello showed them. */
static json_t *configs_now(const struct ctl *c)
{
    json_t *configs = json_object();
    for (size_t i = 0; i < c->count; i++) {
        json_t *manifest = json_object_get(c->configs, c->names[i]);
        if (!manifest)
            manifest = json_object_get(json_object_get(c->hello, c->names[i]), "manifest");
        jsonx_set(configs, c->names[i], manifest ? json_incref(manifest) : json_null());
    }
    return configs;
}

/* By the facts, or by a single record. */
static bool any_simulated(const struct ctl *c, const struct evidence_set *evidence)
{
    for (size_t i = 0; i < evidence_set_count(evidence); i++) {
        const json_t *record = evidence_set_at(evidence, i)->json;
        if (jsonx_bool_or(json_object_get(record, "conditions"), "simulated", false))
            return true;
    }
    const char *node;
    json_t *facts;
    json_object_foreach(c->facts, node,
                        facts) if (jsonx_bool_or(facts, "simulated", false)) return true;
    return false;
}

static char *parent_hash(const struct ctl *c)
{
    AUTO(free_str) char *path = state_path(&c->state, "parent");
    struct fs_root root = {""};
    return fs_read_line_at(&root, path);
}

static int save_report(struct ctl *c, const json_t *envelope, const json_t *slices, struct err *err)
{
    AUTO(free_str) char *path = run_path(&c->run, "report.dsse.json");
    if (report_save(path, envelope, err) != 0)
        return -1;
    const char *node;
    json_t *slice;
    json_object_foreach((json_t *)slices, node, slice)
    {
        AUTO(free_str) char *slice_path = run_node_path(&c->run, "slices", node, ".json");
        if (report_save(slice_path, slice, err) != 0)
            return -1;
    }
    char hash[HASH_HEX_BYTES];
    AUTO(free_str) char *parent = state_path(&c->state, "parent");
    if (report_payload_hash(envelope, hash, err) != 0)
        return -1;
    return fs_write_atomic(parent, hash, strlen(hash), 0600, err);
}

static int build(struct ctl *c, const json_t *verdict, const struct evidence_set *evidence,
                 const json_t *keys, struct sign_key *key, struct err *err)
{
    json_auto_t *agents = agents_used(c);
    json_auto_t *configs = configs_now(c);
    AUTO(free_str) char *parent = parent_hash(c);
    int64_t serial = 0, now = wall_ms();
    if (state_next_serial(&c->state, &serial, err) != 0)
        return -1;
    struct report_input input = {
        .verdict = verdict,
        .site = c->site,
        .facts = c->facts,
        .configs = configs,
        .node_keys = keys,
        .evidence = evidence,
        .agents = agents,
        .muster_version = "muster " MUSTER_VERSION,
        .serial = serial,
        .parent = parent,
        .issued_ms = now,
        .expires_ms = now + jsonx_int_or(json_object_get(c->site, "policy"), "max_age_ms",
                                         DEFAULT_MAX_AGE_MS),
        .simulated = any_simulated(c, evidence),
    };
    json_auto_t *envelope = NULL, *slices = NULL;

    if (report_build(&input, &key, 1, &envelope, &slices, err) != 0)
        return -1;
    return save_report(c, envelope, slices, err);
}

int step_report(struct ctl *c, const json_t *verdict, struct err *err)
{
    json_auto_t *keys = NULL;
    AUTO(destroy_set) struct evidence_set *evidence = NULL;
    AUTO(destroy_key) struct sign_key *key = NULL;
    if (signing_key(c, &key, err) != 0 || node_keys(c, &keys, err) != 0 ||
        load_evidence(c, keys, &evidence, err) != 0 ||
        build(c, verdict, evidence, keys, key, err) != 0)
        return -1;
    return run_note(&c->run, "report", "done", NULL, err);
}

struct publish_step {
    char *public_pem;
};

static json_t *make_publish(struct ctl *c, size_t node, void *ctx)
{
    struct publish_step *step = ctx;
    struct err err = {0};
    json_t *slice = NULL;
    AUTO(free_str) char *path = run_node_path(&c->run, "slices", c->names[node], ".json");
    if (jsonx_load(path, SIZE_MAX / 2, &slice, &err) != 0) {
        ctl_outcome(c, node, "publish", "publish-failed", err.text);
        return NULL;
    }
    json_t *request = json_object();
    jsonx_set_str(request, "op", "publish");
    jsonx_set(request, "slice", slice);
    jsonx_set_str(request, "public_key", step->public_pem);
    return request;
}

int step_publish(struct ctl *c, struct err *err)
{
    AUTO(free_str) char *path = state_path(&c->state, "keys/signing.pub");
    AUTO(free_str) char *pem = NULL;
    if (fs_read(path, SIGN_PEM_MAX_BYTES, &pem, NULL, err) != 0)
        return -1;
    struct publish_step step = {.public_pem = pem};
    struct ctl_request request = {
        .step = "publish", .make = make_publish, .timeout_ms = PUBLISH_MS, .ctx = &step};
    ctl_call(c, &request);
    return run_note(&c->run, "publish", "done", NULL, err);
}
