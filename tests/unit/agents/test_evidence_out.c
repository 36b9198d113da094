/* Evidence lines: complete, signed, numbered without gaps, sealed; what a worker may not bring. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "agents/evidence_out.h"
#include "common/evidence.h"
#include "common/jsonx.h"
#include "common/util.h"
#include "validate/merkle.h"

static struct sign_key *key;

static int set_up(void **state)
{
    struct err err = {0};
    key = sign_key_generate(&err);
    return key ? 0 : -1;
}

static int tear_down(void **state)
{
    sign_key_destroy(key);
    return 0;
}

static struct evidence_out make_out(void)
{
    return (struct evidence_out){
        .run = "r1", .node = "n1", .tool = "muster-agent 0 sha256:00", .key = key, .next_seq = 5};
}

static json_t *make_body(void)
{
    double sample = 1500;
    struct err err = {0};
    struct evidence e = {.stage = "inventory",
                         .subject = "n1/net:eth0",
                         .quantity = "mtu",
                         .unit = "B",
                         .samples = &sample,
                         .sample_count = 1,
                         .outcome = EVIDENCE_MEASURED};
    return evidence_body(&e, &err);
}

static void completes_and_signs(void **state)
{
    struct evidence_out out = make_out();
    struct evidence_stage stage = {.name = "inventory"};
    struct sign_public public;
    struct err err = {0};
    json_t *body = make_body(), *record = NULL;
    AUTO(free_str) char *line = NULL;
    assert_int_equal(evidence_out_line(&out, &stage, body, &line, &err), 0);
    assert_null(json_object_get(body, "run")); /* the body stays the worker's */
    json_decref(body);
    assert_int_equal(out.next_seq, 6);
    assert_int_equal(jsonx_parse(line, strlen(line), "line", &record, &err), 0);
    assert_int_equal(evidence_check(record, &err), 0);
    size_t len = 0;
    uint8_t *sig = base64_decode(jsonx_str_or(record, "sig", ""), &len);
    assert_int_equal(len, SIGN_SIGNATURE_BYTES);
    json_object_del(record, "sig");
    json_object_del(record, "time");
    AUTO(free_str) char *rest = jsonx_canonical(record);
    assert_string_equal(rest, "{\"cause\":null,\"conditions\":{},\"node\":\"n1\",\"outcome\":"
                              "\"measured\",\"proof\":{},\"quantity\":\"mtu\",\"reason\":null,"
                              "\"run\":\"r1\",\"samples\":[1500.0],\"seq\":5,\"stage\":"
                              "\"inventory\",\"subject\":\"n1/net:eth0\",\"tool\":"
                              "\"muster-agent 0 sha256:00\",\"unit\":\"B\",\"v\":1}");
    json_decref(record);
    /* The signed bytes are the line's own without the signature. */
    char *at = strstr(line, "\"sig\":\"");
    char *end = strchr(at + 7, '"') + 2;
    AUTO(free_str) char *signed_text = str_printf("%.*s%s", (int)(at - line), line, end);
    sign_public_raw(key, &public);
    assert_true(
        sign_verify_bytes(&public, EVIDENCE_CONTEXT, signed_text, strlen(signed_text), sig));
    free(sig);
    evidence_stage_release(&stage);
}

static void seals(void **state)
{
    for (size_t records = 0; records <= 3; records++) {
        struct evidence_out out = make_out();
        struct evidence_stage stage = {.name = "inventory"};
        struct err err = {0};
        struct hash leaves[3];
        for (size_t i = 0; i < records; i++) {
            AUTO(free_str) char *line = NULL;
            json_auto_t *body = make_body();
            assert_int_equal(evidence_out_line(&out, &stage, body, &line, &err), 0);
            leaves[i] = merkle_leaf(line, strlen(line));
        }
        AUTO(free_str) char *seal = NULL;
        assert_int_equal(evidence_out_seal(&out, &stage, &seal, &err), 0);
        struct hash root = merkle_root(leaves, records);
        char hex[HASH_HEX_BYTES];
        hash_hex(&root, hex);
        AUTO(free_str) char *proof = str_printf("\"proof\":{\"root\":\"%s\"}", hex);
        AUTO(free_str)
        char *samples = str_printf("\"samples\":[%zu.0],\"seq\":%zu", records, records + 5);
        assert_non_null(strstr(seal, proof));
        assert_non_null(strstr(seal, samples));
        assert_non_null(strstr(seal, "\"subject\":\"n1\""));
        evidence_stage_release(&stage);
    }
}

static const struct {
    const char *key, *json, *text;
} foreign[] = {
    {"run", "\"r2\"", "evidence of stage inventory brings its own 'run'"},
    {"node", "\"n2\"", "evidence of stage inventory brings its own 'node'"},
    {"seq", "1", "evidence of stage inventory brings its own 'seq'"},
    {"time", "\"2026-11-30T08:00:00.000Z\"", "evidence of stage inventory brings its own 'time'"},
    {"tool", "\"mine\"", "evidence of stage inventory brings its own 'tool'"},
    {"sig", "\"AAAA\"", "evidence of stage inventory brings its own 'sig'"},
    {"stage", "\"pairs\"", "evidence of stage 'pairs' came from stage inventory"},
    {"stage", "7", "evidence of stage '' came from stage inventory"},
    {"samples", "[\"x\"]", "evidence: sample 0 is not a number"},
    {"outcome", "\"fine\"", "evidence: unknown outcome 'fine'"},
    {"verdict", "\"PASS\"", "evidence: unknown key 'verdict'"},
};

static void refuses_what_a_worker_may_not_say(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(foreign); i++) {
        struct evidence_out out = make_out();
        struct evidence_stage stage = {.name = "inventory"};
        struct err err = {0};
        char *line = NULL;
        json_auto_t *body = make_body();
        json_t *value = json_loads(foreign[i].json, JSON_DECODE_ANY, NULL);
        assert_non_null(value);
        jsonx_set(body, foreign[i].key, value);
        assert_int_equal(evidence_out_line(&out, &stage, body, &line, &err), -1);
        assert_string_equal(err.text, foreign[i].text);
        assert_int_equal(err.kind, ERR_DATA);
        assert_null(line);
        assert_int_equal(out.next_seq, 5);
        assert_int_equal(stage.count, 0);
        evidence_stage_release(&stage);
    }
}

static void refuses_other_shapes(void **state)
{
    struct evidence_out out = make_out();
    struct evidence_stage stage = {.name = "inventory"};
    struct err err = {0};
    char *line = NULL;
    assert_int_equal(evidence_out_line(&out, &stage, NULL, &line, &err), -1);
    assert_string_equal(err.text, "evidence of stage inventory is not an object");
    AUTO(free_str) char *big = mem_zero(1, EVIDENCE_MAX_LINE_BYTES + 1);
    memset(big, 'x', EVIDENCE_MAX_LINE_BYTES);
    json_auto_t *body = make_body();
    jsonx_set_str(body, "reason", big);
    err_clear(&err);
    assert_int_equal(evidence_out_line(&out, &stage, body, &line, &err), -1);
    assert_true(str_has_prefix(err.text, "evidence of stage inventory has 1048"));
    assert_true(str_has_suffix(err.text, " bytes, over the limit of 1048576"));
    assert_int_equal(out.next_seq, 5);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(completes_and_signs),
        TEST(seals),
        TEST(refuses_what_a_worker_may_not_say),
        TEST(refuses_other_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
