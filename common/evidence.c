#include "common/evidence.h"

#include <math.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"

static const char *const outcomes[] = {
    [EVIDENCE_UNSET] = "unset",
    [EVIDENCE_MEASURED] = "measured",
    [EVIDENCE_FAILED] = "failed",
    [EVIDENCE_NOT_MEASURED] = "not_measured",
};
_Static_assert(ARRAY_LEN(outcomes) == EVIDENCE_OUTCOME__COUNT, "one name per outcome");

static const char *const record_keys[] = {
    "v",       "run",        "node",  "seq",     "time",  "stage",  "subject", "quantity", "unit",
    "samples", "conditions", "proof", "outcome", "cause", "reason", "tool",    "sig",      NULL,
};

const char *evidence_outcome_name(enum evidence_outcome outcome)
{
    return outcome < EVIDENCE_OUTCOME__COUNT ? outcomes[outcome] : outcomes[EVIDENCE_UNSET];
}

enum evidence_outcome evidence_outcome_find(const char *name)
{
    for (int i = EVIDENCE_MEASURED; i < EVIDENCE_OUTCOME__COUNT; i++)
        if (strcmp(outcomes[i], name) == 0)
            return (enum evidence_outcome)i;
    return EVIDENCE_UNSET;
}

static int check_source(const struct evidence *e, struct err *err)
{
    const char *const names[] = {"stage", "subject", "quantity", "unit"};
    const char *const values[] = {e->stage, e->subject, e->quantity, e->unit};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (!values[i] || !values[i][0])
            return err_set(err, ERR_DATA, "evidence: %s is missing", names[i]);
    if (e->outcome <= EVIDENCE_UNSET || e->outcome >= EVIDENCE_OUTCOME__COUNT)
        return err_set(err, ERR_DATA, "evidence %s %s: outcome is not set", e->stage, e->quantity);
    bool measured = e->outcome == EVIDENCE_MEASURED;
    if (measured != (e->sample_count > 0) || e->sample_count > EVIDENCE_MAX_SAMPLES)
        return err_set(err, ERR_DATA, "evidence %s %s: %zu samples do not go with outcome %s",
                       e->stage, e->quantity, e->sample_count, evidence_outcome_name(e->outcome));
    if (!measured && (!e->reason || !e->reason[0]))
        return err_set(err, ERR_DATA, "evidence %s %s: outcome %s needs a reason", e->stage,
                       e->quantity, evidence_outcome_name(e->outcome));
    return 0;
}

static json_t *object_or_empty(json_t *value)
{
    return value ? json_incref(value) : json_object();
}

json_t *evidence_body(const struct evidence *e, struct err *err)
{
    if (check_source(e, err) != 0)
        return NULL;
    json_auto_t *samples = json_array();
    for (size_t i = 0; i < e->sample_count; i++) {
        if (!isfinite(e->samples[i])) {
            err_set(err, ERR_DATA, "evidence %s %s: sample %zu is not a number", e->stage,
                    e->quantity, i);
            return NULL;
        }
        jsonx_append(samples, json_real(e->samples[i]));
    }
    json_t *body = json_object();
    jsonx_set_int(body, "v", EVIDENCE_VERSION);
    jsonx_set_str(body, "stage", e->stage);
    jsonx_set_str(body, "subject", e->subject);
    jsonx_set_str(body, "quantity", e->quantity);
    jsonx_set_str(body, "unit", e->unit);
    jsonx_set(body, "samples", json_incref(samples));
    jsonx_set(body, "conditions", object_or_empty(e->conditions));
    jsonx_set(body, "proof", object_or_empty(e->proof));
    jsonx_set_str(body, "outcome", evidence_outcome_name(e->outcome));
    jsonx_set_str(body, "cause", e->cause);
    jsonx_set_str(body, "reason", e->reason);
    return body;
}

static int check_strings(const json_t *record, struct err *err)
{
    static const char *const keys[] = {"run",      "node", "time", "stage", "subject",
                                       "quantity", "unit", "tool", "sig"};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const char *text = NULL;
        if (jsonx_get_str(record, "evidence", keys[i], &text, err) != 0)
            return -1;
        if (!text[0])
            return err_set(err, ERR_DATA, "evidence: key '%s' is empty", keys[i]);
    }
    int64_t unix_ms;
    const char *when = jsonx_str_or(record, "time", "");
    if (time_parse(when, &unix_ms) != 0)
        return err_set(err, ERR_DATA, "evidence: time '%.40s' is not RFC 3339 in UTC", when);
    const char *unused = NULL;
    if (jsonx_opt_str(record, "evidence", "cause", &unused, err) != 0)
        return -1;
    return jsonx_opt_str(record, "evidence", "reason", &unused, err);
}

static int check_samples(const json_t *record, struct err *err)
{
    const char *name = NULL;
    const json_t *samples = NULL;
    if (jsonx_get_str(record, "evidence", "outcome", &name, err) != 0 ||
        jsonx_get_arr(record, "evidence", "samples", &samples, err) != 0)
        return -1;
    enum evidence_outcome outcome = evidence_outcome_find(name);
    if (outcome == EVIDENCE_UNSET)
        return err_set(err, ERR_DATA, "evidence: unknown outcome '%.40s'", name);
    size_t count = json_array_size(samples);
    if ((outcome == EVIDENCE_MEASURED) != (count > 0) || count > EVIDENCE_MAX_SAMPLES)
        return err_set(err, ERR_DATA, "evidence: %zu samples do not go with outcome %s", count,
                       name);
    if (outcome != EVIDENCE_MEASURED && !json_is_string(json_object_get(record, "reason")))
        return err_set(err, ERR_DATA, "evidence: outcome %s needs a reason", name);
    for (size_t i = 0; i < count; i++)
        if (!json_is_number(json_array_get(samples, i)))
            return err_set(err, ERR_DATA, "evidence: sample %zu is not a number", i);
    return 0;
}

int evidence_check(const json_t *record, struct err *err)
{
    int64_t version = 0, seq = -1;
    const json_t *unused = NULL;
    if (jsonx_only_keys(record, "evidence", record_keys, err) != 0 ||
        jsonx_get_int(record, "evidence", "v", &version, err) != 0 ||
        jsonx_get_int(record, "evidence", "seq", &seq, err) != 0 ||
        jsonx_get_obj(record, "evidence", "conditions", &unused, err) != 0 ||
        jsonx_get_obj(record, "evidence", "proof", &unused, err) != 0)
        return -1;
    if (version != EVIDENCE_VERSION)
        return err_set(err, ERR_DATA, "evidence: version %lld is not known (this program knows %d)",
                       (long long)version, EVIDENCE_VERSION);
    if (seq < 0)
        return err_set(err, ERR_DATA, "evidence: seq %lld is negative", (long long)seq);
    if (check_strings(record, err) != 0)
        return -1;
    return check_samples(record, err);
}
