/* Evidence records: what a stage may state, and which lines are refused when they are read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/evidence.h"
#include "common/jsonx.h"
#include "common/util.h"

static const double samples[] = {23.4e9, 23.5e9};

static struct evidence sample(void)
{
    return (struct evidence){
        .stage = "pairs",
        .subject = "gpu001>gpu002",
        .quantity = "tcp_bandwidth",
        .unit = "bit/s",
        .samples = samples,
        .sample_count = 2,
        .outcome = EVIDENCE_MEASURED,
    };
}

static void builds_a_measured_body(void **state)
{
    struct evidence e = sample();
    struct err err = {0};
    json_auto_t *conditions = json_object(), *proof = json_object();
    jsonx_set_int(conditions, "streams", 4);
    jsonx_set_str(proof, "path", "tcp");
    e.conditions = conditions;
    e.proof = proof;
    json_auto_t *body = evidence_body(&e, &err);
    assert_non_null(body);
    AUTO(free_str) char *text = jsonx_canonical(body);
    assert_string_equal(
        text, "{\"cause\":null,\"conditions\":{\"streams\":4},\"outcome\":\"measured\","
              "\"proof\":{\"path\":\"tcp\"},\"quantity\":\"tcp_bandwidth\",\"reason\":null,"
              "\"samples\":[23400000000.0,23500000000.0],\"stage\":\"pairs\","
              "\"subject\":\"gpu001>gpu002\",\"unit\":\"bit/s\",\"v\":1}");
}

static void builds_a_body_without_samples(void **state)
{
    struct evidence e = sample();
    struct err err = {0};
    e.samples = NULL;
    e.sample_count = 0;
    e.outcome = EVIDENCE_NOT_MEASURED;
    e.reason = "no RDMA device";
    e.cause = "rdma-missing";
    json_auto_t *body = evidence_body(&e, &err);
    assert_non_null(body);
    AUTO(free_str) char *text = jsonx_canonical(body);
    assert_string_equal(text, "{\"cause\":\"rdma-missing\",\"conditions\":{},"
                              "\"outcome\":\"not_measured\",\"proof\":{},"
                              "\"quantity\":\"tcp_bandwidth\",\"reason\":\"no RDMA device\","
                              "\"samples\":[],\"stage\":\"pairs\",\"subject\":\"gpu001>gpu002\","
                              "\"unit\":\"bit/s\",\"v\":1}");
}

static void expect_no_body(const struct evidence *e, const char *message)
{
    struct err err = {0};
    assert_null(evidence_body(e, &err));
    assert_int_equal(err.kind, ERR_DATA);
    assert_string_equal(err.text, message);
}

static void refuses_incomplete_statements(void **state)
{
    static const double bad[] = {1, NAN}, endless[] = {INFINITY};
    struct evidence e = sample();
    e.stage = NULL;
    expect_no_body(&e, "evidence: stage is missing");
    e = sample();
    e.subject = "";
    expect_no_body(&e, "evidence: subject is missing");
    e = sample();
    e.quantity = NULL;
    expect_no_body(&e, "evidence: quantity is missing");
    e = sample();
    e.unit = NULL;
    expect_no_body(&e, "evidence: unit is missing");
    e = sample();
    e.outcome = EVIDENCE_UNSET;
    expect_no_body(&e, "evidence pairs tcp_bandwidth: outcome is not set");
    e.outcome = EVIDENCE_OUTCOME__COUNT;
    expect_no_body(&e, "evidence pairs tcp_bandwidth: outcome is not set");
    e = sample();
    e.sample_count = 0;
    expect_no_body(&e, "evidence pairs tcp_bandwidth: 0 samples do not go with outcome measured");
    e = sample();
    e.sample_count = EVIDENCE_MAX_SAMPLES + 1;
    expect_no_body(&e,
                   "evidence pairs tcp_bandwidth: 4097 samples do not go with outcome measured");
    e = sample();
    e.outcome = EVIDENCE_FAILED;
    expect_no_body(&e, "evidence pairs tcp_bandwidth: 2 samples do not go with outcome failed");
    e.sample_count = 0;
    expect_no_body(&e, "evidence pairs tcp_bandwidth: outcome failed needs a reason");
    e.reason = "";
    expect_no_body(&e, "evidence pairs tcp_bandwidth: outcome failed needs a reason");
    e = sample();
    e.samples = bad;
    expect_no_body(&e, "evidence pairs tcp_bandwidth: sample 1 is not a number");
    e.samples = endless;
    e.sample_count = 1;
    expect_no_body(&e, "evidence pairs tcp_bandwidth: sample 0 is not a number");
}

static json_t *record(void)
{
    static const char text[] =
        "{\"v\":1,\"run\":\"20261130T081500Z-3fa9\",\"node\":\"gpu001\",\"seq\":0,"
        "\"time\":\"2026-11-30T08:15:01.000Z\",\"stage\":\"pairs\",\"subject\":\"gpu001>gpu002\","
        "\"quantity\":\"tcp_bandwidth\",\"unit\":\"bit/s\",\"samples\":[1.5,2],\"conditions\":{},"
        "\"proof\":{},\"outcome\":\"measured\",\"cause\":null,\"reason\":null,"
        "\"tool\":\"muster-agent 0.1.0\",\"sig\":\"QQ==\"}";
    struct err err = {0};
    json_t *value = NULL;
    if (jsonx_parse(text, strlen(text), "record", &value, &err) != 0)
        fail_msg("%s", err.text);
    return value;
}

static void accepts_a_complete_record(void **state)
{
    struct err err = {0};
    json_auto_t *good = record();
    if (evidence_check(good, &err) != 0)
        fail_msg("%s", err.text);
}

static void every_member_is_needed(void **state)
{
    static const char *const optional[] = {"cause", "reason"};
    json_auto_t *good = record();
    const char *key;
    json_t *member;
    json_object_foreach(good, key, member)
    {
        struct err err = {0};
        json_auto_t *less = record();
        json_object_del(less, key);
        bool may_miss = strcmp(key, optional[0]) == 0 || strcmp(key, optional[1]) == 0;
        AUTO(free_str) char *part = str_printf("evidence: key '%s' is missing", key);
        assert_int_equal(evidence_check(less, &err), may_miss ? 0 : -1);
        if (!may_miss)
            assert_true(str_has_prefix(err.text, part));
    }
}

static void refuses_bad_records(void **state)
{
    static const struct {
        const char *patch, *message;
    } rows[] = {
        {"{\"v\":2}", "evidence: version 2 is not known (this program knows 1)"},
        {"{\"v\":\"1\"}", "evidence: key 'v' must be an integer, is a string"},
        {"{\"seq\":-1}", "evidence: seq -1 is negative"},
        {"{\"seq\":1.5}", "evidence: key 'seq' must be an integer, is a number"},
        {"{\"node\":\"\"}", "evidence: key 'node' is empty"},
        {"{\"node\":null}", "evidence: key 'node' must be a string, is null"},
        {"{\"time\":\"yesterday\"}", "evidence: time 'yesterday' is not RFC 3339 in UTC"},
        {"{\"time\":\"2026-02-30T00:00:00Z\"}",
         "evidence: time '2026-02-30T00:00:00Z' is not RFC 3339 in UTC"},
        {"{\"outcome\":\"passed\"}", "evidence: unknown outcome 'passed'"},
        {"{\"outcome\":\"unset\"}", "evidence: unknown outcome 'unset'"},
        {"{\"outcome\":\"failed\"}", "evidence: 2 samples do not go with outcome failed"},
        {"{\"outcome\":\"failed\",\"samples\":[]}", "evidence: outcome failed needs a reason"},
        {"{\"samples\":[]}", "evidence: 0 samples do not go with outcome measured"},
        {"{\"samples\":[1,\"2\"]}", "evidence: sample 1 is not a number"},
        {"{\"samples\":{}}", "evidence: key 'samples' must be an array, is an object"},
        {"{\"conditions\":[]}", "evidence: key 'conditions' must be an object, is an array"},
        {"{\"proof\":null}", "evidence: key 'proof' must be an object, is null"},
        {"{\"cause\":7}", "evidence: key 'cause' must be a string, is an integer"},
        {"{\"reason\":[]}", "evidence: key 'reason' must be a string, is an array"},
        {"{\"verdict\":\"PASS\"}", "evidence: unknown key 'verdict'"},
        {"{\"reasons\":\"x\"}", "evidence: unknown key 'reasons'; did you mean 'reason'?"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        json_auto_t *bad = record(), *patch = NULL;
        assert_int_equal(jsonx_parse(rows[i].patch, strlen(rows[i].patch), "patch", &patch, &err),
                         0);
        assert_int_equal(json_object_update(bad, patch), 0);
        if (evidence_check(bad, &err) != -1)
            fail_msg("taken with %s", rows[i].patch);
        assert_int_equal(err.kind, ERR_DATA);
        assert_string_equal(err.text, rows[i].message);
    }
    struct err err = {0};
    json_auto_t *array = json_array();
    assert_int_equal(evidence_check(array, &err), -1);
    assert_string_equal(err.text, "evidence: must be an object, is an array");
}

static void too_many_samples(void **state)
{
    struct err err = {0};
    json_auto_t *full = record();
    json_t *list = json_array();
    for (int i = 0; i < EVIDENCE_MAX_SAMPLES; i++)
        jsonx_append(list, json_integer(i));
    jsonx_set(full, "samples", list);
    assert_int_equal(evidence_check(full, &err), 0);
    jsonx_append(list, json_integer(0));
    assert_int_equal(evidence_check(full, &err), -1);
    assert_string_equal(err.text, "evidence: 4097 samples do not go with outcome measured");
}

static void outcomes_and_names(void **state)
{
    static const char *const names[] = {NULL, "measured", "failed", "not_measured"};
    assert_int_equal(ARRAY_LEN(names), EVIDENCE_OUTCOME__COUNT);
    for (int i = EVIDENCE_MEASURED; i < EVIDENCE_OUTCOME__COUNT; i++) {
        assert_string_equal(evidence_outcome_name((enum evidence_outcome)i), names[i]);
        assert_int_equal(evidence_outcome_find(names[i]), i);
    }
    assert_int_equal(evidence_outcome_find("unset"), EVIDENCE_UNSET);
    assert_int_equal(evidence_outcome_find("MEASURED"), EVIDENCE_UNSET);
    assert_string_equal(evidence_outcome_name(EVIDENCE_OUTCOME__COUNT), "unset");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(builds_a_measured_body),
        cmocka_unit_test(builds_a_body_without_samples),
        cmocka_unit_test(refuses_incomplete_statements),
        cmocka_unit_test(accepts_a_complete_record),
        cmocka_unit_test(every_member_is_needed),
        cmocka_unit_test(refuses_bad_records),
        cmocka_unit_test(too_many_samples),
        cmocka_unit_test(outcomes_and_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
