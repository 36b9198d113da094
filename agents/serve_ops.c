#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agents/facts/identity.h"
#include "agents/node_key.h"
#include "agents/publish.h"
#include "agents/resources/resources.h"
#include "agents/serve_state.h"
#include "common/jsonx.h"
#include "common/log.h"

/* An op answers by itself (a reply or a job) or returns -1 with the error to reply. */
typedef int op_fn(struct serve *s, const struct protocol_request *request, struct err *err);

/* --- hello ---------------------------------------------------------------------------------- */

/* Run and node become parts of records and messages: plain names only. */
static int check_name(const char *what, const char *name, struct err *err)
{
    enum { MAX_NAME_BYTES = 253 };
    size_t len = strlen(name);
    bool good = len > 0 && len <= MAX_NAME_BYTES;
    for (size_t i = 0; good && i < len; i++)
        good = isalnum((unsigned char)name[i]) || strchr("-._", name[i]) != NULL;
    if (!good)
        return err_set(err, ERR_DATA,
                       "hello: %s '%.64s' must be 1 to %d letters, digits, '-', '.' and '_'", what,
                       name, MAX_NAME_BYTES);
    return 0;
}

static void set_line(json_t *obj, const char *key, const struct fs_root *root, const char *path)
{
    AUTO(free_str) char *line = fs_read_line_at(root, path);
    json_t *value = line && line[0] ? json_string(line) : NULL;
    jsonx_set(obj, key, value ? value : json_null());
}

static json_t *hello_data(const struct serve *s, const json_t *identity, json_t *manifest,
                          json_t *recovery)
{
    struct sign_public public;
    struct utsname names;
    sign_public_raw(s->key, &public);
    AUTO(free_str) char *key = sign_public_base64(&public);
    json_t *data = json_object();
    jsonx_set_str(data, "version", MUSTER_VERSION);
    jsonx_set_str(data, "sha256", s->sha256);
    jsonx_set_str(data, "node_key", key);
    jsonx_set(data, "machine_id", json_incref(json_object_get(identity, "machine_id")));
    jsonx_set(data, "ssh_host_keys", json_incref(json_object_get(identity, "ssh_host_keys")));
    jsonx_set_int(data, "time_ms", wall_ms());
    set_line(data, "boot_id", &s->options.root, "/proc/sys/kernel/random/boot_id");
    jsonx_set_int(data, "uid", (int64_t)geteuid());
    jsonx_set_str(data, "arch", uname(&names) == 0 ? names.machine : NULL);
    jsonx_set(data, "manifest", manifest);
    jsonx_set(data, "recovery", recovery ? recovery : json_null());
    return data;
}

static int own_digest(struct serve *s, struct err *err)
{
    struct hash digest;
    if (hash_file("/proc/self/exe", &digest, err) != 0)
        return err_wrap(err, "this agent's own binary: ");
    hash_hex(&digest, s->sha256);
    return 0;
}

static void greet(struct serve *s, const char *run, const char *node, int64_t seq,
                  struct sign_key *key)
{
    s->run = str_dup(run);
    s->node = str_dup(node);
    s->tool = str_printf("muster-agent %s sha256:%s", MUSTER_VERSION, s->sha256);
    s->key = key;
    s->evidence = (struct evidence_out){
        .run = s->run, .node = s->node, .tool = s->tool, .key = key, .next_seq = seq};
    s->greeted = true;
}

static int op_hello(struct serve *s, const struct protocol_request *request, struct err *err)
{
    const char *run = jsonx_str_or(request->body, "run", "");
    const char *node = jsonx_str_or(request->body, "node", "");
    int64_t seq = jsonx_int_or(request->body, "seq", 0);
    json_auto_t *identity = NULL;
    if (s->greeted)
        return err_set(err, ERR_USAGE, "hello: was said already, for run %s", s->run);
    if (check_name("run", run, err) != 0 || check_name("node", node, err) != 0)
        return -1;
    if (seq < 0)
        return err_set(err, ERR_DATA, "hello: seq %lld is negative", (long long)seq);
    struct resources_env env = {.root = &s->options.root, .state_dir = s->options.state_dir};
    json_t *recovery = NULL;
    /* Before anything else: nothing may be measured or changed on a half-configured node. */
    if (resources_recover(&env, &recovery, err) != 0)
        return -1;
    json_auto_t *manifest = NULL;
    struct sign_key *key = NULL;
    if (resources_manifest(&env, &manifest, err) != 0 ||
        identity_read(&s->options.root, &identity, err) != 0 || own_digest(s, err) != 0 ||
        !(key = node_key_open(&s->options.root, s->options.state_dir, err))) {
        json_decref(recovery);
        return -1;
    }
    greet(s, run, node, seq, key);
    protocol_reply(&s->out, request->id, hello_data(s, identity, json_incref(manifest), recovery));
    return 0;
}

/* --- work in a worker ----------------------------------------------------------------------- */

static int op_facts(struct serve *s, const struct protocol_request *request, struct err *err)
{
    return serve_job_start(s, request, NULL, SERVE_FACTS_TIMEOUT_MS, err);
}

static int op_plan(struct serve *s, const struct protocol_request *request, struct err *err)
{
    return serve_job_start(s, request, NULL, SERVE_CONFIG_TIMEOUT_MS, err);
}

static int op_config(struct serve *s, const struct protocol_request *request, struct err *err)
{
    const struct serve_job *running = serve_job_config(s);
    if (running)
        return err_set(err, ERR_ENV, "%s: %s (id %lld) is still running",
                       protocol_op_name(request->op), running->what, (long long)running->id);
    return serve_job_start(s, request, NULL, SERVE_CONFIG_TIMEOUT_MS, err);
}

static int op_stage(struct serve *s, const struct protocol_request *request, struct err *err)
{
    const char *name = jsonx_str_or(request->body, "stage", "");
    int64_t deadline_ms = jsonx_int_or(request->body, "deadline_ms", 0);
    const struct stage *stage = stage_find(name);
    if (!stage)
        return err_set(err, ERR_USAGE, "unknown stage '%.64s'", name);
    if (deadline_ms < 1 || deadline_ms > SERVE_MAX_STAGE_MS)
        return err_set(err, ERR_DATA, "stage: deadline_ms %lld must be 1 to %d",
                       (long long)deadline_ms, SERVE_MAX_STAGE_MS);
    return serve_job_start(s, request, stage, deadline_ms, err);
}

/* --- words to a running stage --------------------------------------------------------------- */

static struct serve_job *find_stage(struct serve *s, const struct protocol_request *request,
                                    struct err *err)
{
    int64_t id = jsonx_int_or(request->body, "stage_id", PROTOCOL_NO_ID);
    struct serve_job *job = serve_job_find(s, id);
    if (job && job->op == PROTOCOL_STAGE && !job->give_up_ms)
        return job;
    err_set(err, ERR_DATA, "%s: no stage with id %lld is running", protocol_op_name(request->op),
            (long long)id);
    return NULL;
}

static int op_go(struct serve *s, const struct protocol_request *request, struct err *err)
{
    struct serve_job *job = find_stage(s, request, err);
    if (!job)
        return -1;
    if (protocol_pending_bytes(&job->worker.out) > SERVE_MAX_PENDING_BYTES)
        return err_set(err, ERR_ENV, "go: %s does not take what was sent before", job->what);
    json_t *line = json_object();
    jsonx_set(line, "data", json_incref(json_object_get(request->body, "data")));
    worker_send(&job->worker, line);
    protocol_reply(&s->out, request->id, NULL);
    return 0;
}

static int op_cancel(struct serve *s, const struct protocol_request *request, struct err *err)
{
    struct serve_job *job = find_stage(s, request, err);
    if (!job)
        return -1;
    serve_job_kill(job, SERVE_END_CANCEL);
    protocol_reply(&s->out, request->id, NULL);
    return 0;
}

/* --- the rest ------------------------------------------------------------------------------- */

static int op_publish(struct serve *s, const struct protocol_request *request, struct err *err)
{
    AUTO(free_str) char *path = NULL;
    if (publish_slice(&s->options.root, s->options.state_dir, s->node,
                      json_object_get(request->body, "slice"),
                      jsonx_str_or(request->body, "public_key", ""), &path, err) != 0)
        return -1;
    json_t *data = json_object();
    jsonx_set_str(data, "path", path);
    protocol_reply(&s->out, request->id, data);
    return 0;
}

static int op_bye(struct serve *s, const struct protocol_request *request, struct err *err)
{
    s->bye_id = request->id; /* the loop closes and replies */
    return 0;
}

static op_fn *const ops[PROTOCOL_OP__COUNT] = {
    [PROTOCOL_HELLO] = op_hello,  [PROTOCOL_FACTS] = op_facts,     [PROTOCOL_PLAN] = op_plan,
    [PROTOCOL_APPLY] = op_config, [PROTOCOL_ROLLBACK] = op_config, [PROTOCOL_STAGE] = op_stage,
    [PROTOCOL_GO] = op_go,        [PROTOCOL_CANCEL] = op_cancel,   [PROTOCOL_PUBLISH] = op_publish,
    [PROTOCOL_BYE] = op_bye,
};

static int dispatch(struct serve *s, struct protocol_request *request, struct err *err)
{
    if (serve_job_find(s, request->id)) {
        long long id = (long long)request->id;
        request->id = PROTOCOL_NO_ID; /* a reply to that id would pass for the running one's */
        return err_set(err, ERR_USAGE, "request id %lld is still in use", id);
    }
    if (!s->greeted && request->op != PROTOCOL_HELLO)
        return err_set(err, ERR_USAGE, "%s: the first request must be hello",
                       protocol_op_name(request->op));
    return ops[request->op](s, request, err);
}

int serve_handle_line(struct serve *s, const char *line, size_t len)
{
    struct protocol_request request;
    struct err err = {0};
    bool garbage = false;
    int rc = 0;
    if (protocol_parse(line, len, &request, &garbage, &err) != 0 ||
        dispatch(s, &request, &err) != 0) {
        protocol_reply_error(&s->out, request.id, &err);
        if (garbage) {
            log_error("%s", err.text);
            rc = -1;
        }
    }
    protocol_request_release(&request);
    return rc;
}
