/* Other forms of a report: counts agree and hostile text is escaped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "validate/export.h"

static const char text[] =
    "{\"_type\":\"https://in-toto.io/Statement/v1\",\"subject\":[{\"name\":\"n1\"}],\"predicate\":{"
    "\"cluster\":\"aur\\\"ora\\\\\",\"serial\":7,\"issued\":\"2026-11-30T08:20:00.000Z\","
    "\"expires\":\"2026-12-07T08:20:00.000Z\",\"site_digest\":\"00\",\"result\":{\"state\":\"not_"
    "ready\"},"
    "\"nodes\":{\"n1\":{\"state\":\"not_ready\",\"elements\":["
    "{\"subject\":\"n1\",\"stage\":\"pairs\",\"check\":\"paths\",\"required\":true,\"verdict\":"
    "\"FAIL\",\"value\":1.5,\"unit\":\"1\",\"limit\":{\"value\":2.0,\"kind\":\"exact\"},\"cause\":"
    "\"peer-lost\",\"reason\":\"a <b> & \\\"c\\\", d\\ne\\u0001\"},"
    "{\"subject\":\"n1\",\"stage\":\"inventory\",\"check\":\"facts\",\"required\":true,\"verdict\":"
    "\"PASS\",\"reason\":\"ok\"},"
    "{\"subject\":\"n1/gpu:0\",\"stage\":\"gpu\",\"check\":\"exercised\",\"required\":false,"
    "\"verdict\":\"NOT_MEASURED\",\"cause\":\"gpu-not-measured\",\"reason\":\"no\"},"
    "{\"subject\":\"n1\",\"stage\":\"link\",\"check\":\"coverage\",\"required\":true,\"verdict\":"
    "\"NOT_MEASURED\",\"cause\":\"not-run\",\"reason\":\"no\"}]}},"
    "\"cluster_elements\":[{\"subject\":\"n1>n2\",\"stage\":\"pairs\",\"check\":\"path_data\","
    "\"required\":true,\"verdict\":\"EXCLUDED\",\"reason\":\"RMA\"}]}}";

static json_t *statement(void)
{
    json_t *s = json_loads(text, 0, NULL);
    assert_non_null(s);
    return s;
}

static void has(const char *haystack, const char *needle)
{
    if (!strstr(haystack, needle))
        fail_msg("'%s' is not in:\n%s", needle, haystack);
}

static void junit_escapes_and_counts(void **state)
{
    struct err err = {0};
    json_auto_t *s = statement();
    AUTO(free_str) char *xml = export_junit(s, &err);
    assert_non_null(xml);
    has(xml, "<testsuites name=\"aur&quot;ora\\\">");
    has(xml, "<testsuite name=\"n1\" tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\" "
             "timestamp=\"2026-11-30T08:20:00\">");
    has(xml, "<failure message=\"a &lt;b&gt; &amp; &quot;c&quot;, d&#10;e?\" type=\"peer-lost\"/>");
    has(xml, "<testsuite name=\"cluster\" tests=\"1\" failures=\"0\" errors=\"0\" skipped=\"1\"");
    has(xml, "classname=\"n1&gt;n2\"");
}

static void csv_quotes(void **state)
{
    struct err err = {0};
    json_auto_t *s = statement();
    AUTO(free_str) char *csv = export_csv(s, &err);
    has(csv,
        "node,subject,stage,check,required,verdict,value,unit,limit,limit_kind,cause,reason\r\n");
    has(csv,
        "n1,n1,pairs,paths,yes,FAIL,1.5,1,2,exact,peer-lost,\"a <b> & \"\"c\"\", d\ne\x01\"\r\n");
    has(csv, "n1,n1/gpu:0,gpu,exercised,no,NOT_MEASURED,,,,,gpu-not-measured,no\r\n");
    has(csv, "cluster,n1>n2,pairs,path_data,yes,EXCLUDED,,,,,,RMA\r\n");
}

static void prometheus_escapes(void **state)
{
    struct err err = {0};
    json_auto_t *s = statement();
    AUTO(free_str) char *prom = export_prometheus(s, &err);
    has(prom, "muster_node_state{cluster=\"aur\\\"ora\\\\\",node=\"n1\",state=\"not_ready\"} 1\n");
    has(prom, "muster_node_state{cluster=\"aur\\\"ora\\\\\",node=\"n1\",state=\"ready\"} 0\n");
    has(prom, "muster_report_expires_seconds{cluster=\"aur\\\"ora\\\\\"} 1796631600.000\n");
    has(prom, "muster_report_serial{cluster=\"aur\\\"ora\\\\\"} 7\n");
    has(prom,
        "muster_element_value{owner=\"n1\",subject=\"n1\",stage=\"pairs\",check=\"paths\",unit="
        "\"1\",verdict=\"FAIL\"} 1.5\n");
}

static void unmeasured_is_a_failed_test(void **state)
{
    struct err err = {0};
    json_auto_t *s = statement();
    AUTO(free_str) char *out = export_test_result(s, &err);
    json_auto_t *parsed = json_loads(out, 0, NULL);
    const json_t *p = json_object_get(parsed, "predicate");
    assert_string_equal(jsonx_str_or(parsed, "predicateType", ""),
                        "https://in-toto.io/attestation/test-result/v0.1");
    assert_string_equal(jsonx_str_or(p, "result", ""), "FAILED");
    assert_int_equal(json_array_size(json_object_get(p, "passedTests")), 1);
    assert_int_equal(json_array_size(json_object_get(p, "failedTests")), 2);
    assert_int_equal(json_array_size(json_object_get(p, "warnedTests")), 2);
    assert_string_equal(json_string_value(json_array_get(json_object_get(p, "failedTests"), 1)),
                        "n1 link coverage");
}

static void incomplete_statements_are_refused(void **state)
{
    char *(*const exports[])(const json_t *, struct err *) = {export_test_result, export_junit,
                                                              export_csv, export_prometheus};
    json_auto_t *empty = json_object();
    for (size_t i = 0; i < ARRAY_LEN(exports); i++) {
        struct err err = {0};
        assert_null(exports[i](empty, &err));
        assert_string_equal(err.text, "report: key 'predicate' is missing (must be an object)");
    }
    struct err err = {0};
    json_auto_t *s = statement();
    jsonx_set_str(json_object_get(s, "predicate"), "issued", "<x>");
    assert_null(export_junit(s, &err));
    assert_string_equal(err.text, "report: issued is not an RFC 3339 time in UTC");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(junit_escapes_and_counts),
        cmocka_unit_test(csv_quotes),
        cmocka_unit_test(prometheus_escapes),
        cmocka_unit_test(unmeasured_is_a_failed_test),
        cmocka_unit_test(incomplete_statements_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
