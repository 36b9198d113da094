#include "validate/gate.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "validate/report.h"
#include "validate/slice.h"

/* Every answer that is not "go on" passes here; the first one stands. */
static bool stop(struct gate_result *r, enum gate_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static bool stop(struct gate_result *r, enum gate_status status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(r->why, sizeof r->why, fmt, args);
    va_end(args);
    if (len >= (int)sizeof r->why)
        r->why[sizeof r->why - 2] = '+';
    /* One line, whatever a name or a cause may hold. */
    for (char *p = r->why; *p; p++)
        if ((unsigned char)*p < ' ')
            *p = ' ';
    r->status = status;
    return false;
}

/* --- is the report good for now? ---------------------------------------------------------------
 */

static bool check_report(const struct gate_input *in, const json_t *entry, const json_t *root,
                         struct gate_result *r)
{
    const char *issued = jsonx_str_or(root, "issued", ""),
               *expires = jsonx_str_or(root, "expires", "");
    int64_t issued_ms = 0, expires_ms = 0;
    r->serial = jsonx_int_or(root, "serial", 0);
    snprintf(r->run, sizeof r->run, "%s", jsonx_str_or(root, "run", ""));
    if (jsonx_int_or(root, "v", 0) != 1)
        return stop(r, GATE_CANNOT_TELL, "the root's version is not known to this program");
    if (r->serial <= 0 || r->serial < in->serial_accepted)
        return stop(r, GATE_CANNOT_TELL,
                    "report %lld is older than report %lld, which was accepted here (replayed?)",
                    (long long)r->serial, (long long)in->serial_accepted);
    if (time_parse(issued, &issued_ms) != 0 || time_parse(expires, &expires_ms) != 0)
        return stop(r, GATE_CANNOT_TELL, "the report's times cannot be read");
    if (expires_ms <= in->now_ms)
        return stop(r, GATE_CANNOT_TELL, "report %lld expired on %s; run muster validate",
                    (long long)r->serial, expires);
    if (issued_ms > in->now_ms + REPORT_FUTURE_MS)
        return stop(r, GATE_CANNOT_TELL,
                    "report %lld was issued in the future (%s); check the clock",
                    (long long)r->serial, issued);
    if (jsonx_bool_or(root, "simulated", true))
        return stop(r, GATE_CANNOT_TELL, "report %lld was made with simulated hardware",
                    (long long)r->serial);
    const char *node = jsonx_str_or(entry, "node", "");
    if (strcmp(node, in->node) != 0)
        return stop(r, GATE_CANNOT_TELL, "the slice is for node %.80s, this machine is %.80s", node,
                    in->node);
    return true;
}

/* --- is this the machine? ----------------------------------------------------------------------
 */

static bool has_text(const json_t *list, const char *text)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *other = json_string_value(json_array_get(list, i));
        if (other && strcmp(other, text) == 0)
            return true;
    }
    return false;
}

/* First member of a that b lacks, or NULL. */
static const char *first_missing(const json_t *a, const json_t *b)
{
    for (size_t i = 0; i < json_array_size(a); i++) {
        const char *text = json_string_value(json_array_get(a, i));
        if (text && !has_text(b, text))
            return text;
    }
    return NULL;
}

static bool check_list(const json_t *was, const json_t *is, const char *key, const char *what,
                       struct gate_result *r)
{
    const json_t *a = json_object_get(was, key), *b = json_object_get(is, key);
    if (!json_is_array(a) || !json_is_array(b))
        return stop(r, GATE_CANNOT_TELL, "the identity has no list of %ss (%s)", what, key);
    const char *gone = first_missing(a, b), *new = first_missing(b, a);
    if (gone && new)
        return stop(r, GATE_NOT_READY, "%s %s is gone and %s is new since it was measured", what,
                    gone, new);
    if (gone)
        return stop(r, GATE_NOT_READY, "%s %s is gone (%zu were measured, %zu are here)", what,
                    gone, json_array_size(a), json_array_size(b));
    if (new)
        return stop(r, GATE_NOT_READY, "%s %s is new and was not measured", what, new);
    if (json_array_size(a) != json_array_size(b))
        return stop(r, GATE_NOT_READY, "%zu %ss were measured, %zu are here", json_array_size(a),
                    what, json_array_size(b));
    return true;
}

static bool check_text(const json_t *was, const json_t *is, const char *key, const char *what,
                       struct gate_result *r)
{
    const json_t *a = json_object_get(was, key), *b = json_object_get(is, key);
    if (a && b && json_equal(a, b))
        return true;
    return stop(r, GATE_NOT_READY, "%s is %.80s, %.80s was measured", what,
                jsonx_str_or(is, key, "none"), jsonx_str_or(was, key, "none"));
}

static bool check_firmware(const json_t *was, const json_t *is, struct gate_result *r)
{
    const json_t *a = json_object_get(was, "firmware"), *b = json_object_get(is, "firmware");
    const char *device;
    json_t *version;
    json_object_foreach((json_t *)a, device, version) if (
        !json_equal(version,
                    json_object_get(
                        b, device))) return stop(r, GATE_NOT_READY,
                                                 "firmware of %.40s is %.40s, %.40s was measured",
                                                 device, jsonx_str_or(b, device, "none"),
                                                 jsonx_str_or(a, device, "none"));
    json_object_foreach((json_t *)b, device, version) if (!json_object_get(a, device)) return stop(
        r, GATE_NOT_READY, "RDMA device %.40s is new and was not measured", device);
    return true;
}

static bool check_identity(const json_t *was, const json_t *is, struct gate_result *r)
{
    if (!json_is_object(was))
        return stop(r, GATE_CANNOT_TELL, "the report does not say which machine was measured");
    if (!json_is_object(is))
        return stop(r, GATE_CANNOT_TELL, "the identity of this machine cannot be read");
    if (!check_text(was, is, "machine_id", "machine id", r) ||
        !check_list(was, is, "gpus", "GPU", r) ||
        !check_list(was, is, "nics", "network device", r) ||
        !check_text(was, is, "driver", "GPU driver", r) || !check_firmware(was, is, r) ||
        !check_list(was, is, "ssh_host_keys", "SSH host key", r))
        return false;
    /* Whatever else an identity may come to hold. */
    if (!json_equal(was, is))
        return stop(r, GATE_NOT_READY,
                    "the identity of this machine differs from the measured one");
    return true;
}

/* --- is it configured as it was? ---------------------------------------------------------------
 */

static bool check_items(const json_t *was, const json_t *is, struct gate_result *r)
{
    for (size_t i = 0; i < json_array_size(was); i++) {
        const json_t *a = json_array_get(was, i), *b = json_array_get(is, i);
        if (!json_equal(a, b))
            return stop(r, GATE_NOT_READY, "%.40s %.200s has changed since it was measured",
                        jsonx_str_or(a, "kind", "item"), jsonx_str_or(a, "id", "?"));
    }
    if (json_array_size(was) != json_array_size(is))
        return stop(r, GATE_CANNOT_TELL, "the managed configuration cannot be read in full");
    return true;
}

static bool check_config(const struct gate_input *in, const json_t *entry, struct gate_result *r)
{
    const char *reported = jsonx_str_or(entry, "config_digest", NULL);
    const json_t *items = json_object_get(in->manifest, "items");
    char digest[HASH_HEX_BYTES] = "";
    if (!reported) {
        if (json_array_size(items) == 0)
            return true;
        return stop(r, GATE_NOT_READY, "%zu managed settings are here, the report knows of none",
                    json_array_size(items));
    }
    json_auto_t *empty = json_pack("{s:[]}", "items");
    const json_t *manifest = in->manifest ? in->manifest : empty;
    if (report_config_digest(manifest, digest) != 0)
        return stop(r, GATE_CANNOT_TELL, "the record of the managed configuration is malformed");
    if (strcmp(digest, reported) != 0)
        return stop(r, GATE_NOT_READY,
                    in->manifest
                        ? "the managed configuration is not the reported one (applied or rolled "
                          "back since)"
                        : "the record of the managed configuration is gone");
    if (json_array_size(json_object_get(manifest, "items")) == 0)
        return true;
    if (!in->manifest_now)
        return stop(r, GATE_CANNOT_TELL, "the managed configuration cannot be read");
    return check_items(items, json_object_get(in->manifest_now, "items"), r);
}

/* --- what the report says ----------------------------------------------------------------------
 */

static bool has_stage(const json_t *entry, const char *stage)
{
    const json_t *elements = json_object_get(entry, "elements");
    for (size_t i = 0; i < json_array_size(elements); i++) {
        const json_t *e = json_array_get(elements, i);
        if (strcmp(jsonx_str_or(e, "stage", ""), stage) == 0)
            return true;
    }
    return false;
}

/* The state must follow from the elements, and every required stage must be among them. */
static bool check_coverage(const json_t *entry, const json_t *root, struct gate_result *r)
{
    const json_t *required = json_object_get(root, "required");
    if (!json_is_array(required) || json_array_size(required) == 0)
        return stop(r, GATE_CANNOT_TELL, "the report requires no stage, so it shows nothing");
    const char *sum = verdict_state_name(slice_entry_state(entry));
    if (strcmp(r->state, sum) != 0)
        return stop(r, GATE_CANNOT_TELL, "the entry says %s, its elements add up to %s", r->state,
                    sum);
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *stage = json_string_value(json_array_get(required, i));
        if (!stage || !has_stage(entry, stage))
            return stop(r, GATE_CANNOT_TELL,
                        "stage %.40s is required, the report has nothing of it",
                        stage ? stage : "?");
    }
    return true;
}

static void decide(const json_t *entry, const json_t *root, struct gate_result *r)
{
    const json_t *cause = json_array_get(json_object_get(entry, "causes"), 0);
    const char *code = jsonx_str_or(cause, "code", "no cause is given");
    const char *text = jsonx_str_or(cause, "text", "");
    const char *expires = jsonx_str_or(root, "expires", "?");
    bool degraded_is_ok = jsonx_bool_or(json_object_get(root, "policy"), "allow_degraded", false);
    switch (verdict_state_find(r->state)) {
    case VERDICT_STATE_READY:
        stop(r, GATE_READY, "ready until %s (report %lld)", expires, (long long)r->serial);
        return;
    case VERDICT_STATE_DEGRADED:
        stop(r, degraded_is_ok ? GATE_READY : GATE_NOT_READY, "degraded: %s: %s", code, text);
        return;
    case VERDICT_STATE_NOT_READY:
        stop(r, GATE_NOT_READY, "not ready: %s: %s", code, text);
        return;
    default:
        stop(r, GATE_CANNOT_TELL, "not everything that is required was measured: %s: %s", code,
             text);
    }
}

void gate_check(const struct gate_input *in, struct gate_result *result)
{
    *result = (struct gate_result){.status = GATE_CANNOT_TELL};
    json_auto_t *entry = NULL, *root = NULL;
    struct err err = {0};
    if (slice_verify(in->slice, in->slice_len, in->trusted, in->trusted_count, &entry, &root,
                     &err) != 0) {
        stop(result, GATE_CANNOT_TELL, "%s", err.text);
        return;
    }
    if (!check_report(in, entry, root, result))
        return;
    snprintf(result->state, sizeof result->state, "%s", jsonx_str_or(entry, "state", "unknown"));
    if (check_identity(json_object_get(entry, "identity"), in->identity, result) &&
        check_config(in, entry, result) && check_coverage(entry, root, result))
        decide(entry, root, result);
}
