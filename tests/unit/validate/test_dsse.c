/* Envelopes: several signers, an allow-list, strict form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "validate/dsse.h"

struct fixture {
    struct sign_key *keys[3];
    struct sign_public publics[3];
};

static int setup(void **state)
{
    struct fixture *f = mem_zero(1, sizeof *f);
    struct err err = {0};
    for (int i = 0; i < 3; i++) {
        f->keys[i] = sign_key_generate(&err);
        sign_public_raw(f->keys[i], &f->publics[i]);
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 3; i++)
        sign_key_destroy(f->keys[i]);
    free(f);
    return 0;
}

static int verify(const json_t *envelope, const char *type, const struct sign_public keys[],
                  size_t count, struct err *err)
{
    struct strbuf payload = {0};
    int result = dsse_verify(envelope, "report", type, keys, count, &payload, err);
    if (result == 0) {
        assert_int_equal(payload.len, 5);
        assert_string_equal(payload.data, "hello");
    } else {
        assert_null(payload.data);
    }
    strbuf_release(&payload);
    return result;
}

static void signers_and_trust(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    json_auto_t *envelope = dsse_sign("t", "hello", 5, f->keys, 2, &err);
    assert_non_null(envelope);
    assert_int_equal(verify(envelope, "t", &f->publics[0], 1, &err), 0);
    assert_int_equal(verify(envelope, "t", &f->publics[1], 1, &err), 0);
    assert_int_equal(verify(envelope, "t", f->publics, 3, &err), 0);
    assert_int_equal(verify(envelope, "t", &f->publics[2], 1, &err), -1);
    char id[HASH_HEX_BYTES];
    sign_keyid(&f->publics[0], id);
    AUTO(free_str)
    char *want = str_printf("report: not signed by a trusted key (it names key %.16s)", id);
    assert_string_equal(err.text, want);
    err_clear(&err);
    assert_int_equal(verify(envelope, "u", f->publics, 3, &err), -1);
    assert_string_equal(err.text, "report: payload type is 't', must be 'u'");
    err_clear(&err);
    assert_null(dsse_sign("t", "hello", 5, f->keys, 0, &err));
    assert_string_equal(err.text, "an envelope needs 1 to 16 signing keys, not 0");
}

static void type_and_payload_cannot_be_traded(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    json_auto_t *a = dsse_sign("t", "hello", 5, f->keys, 1, &err);
    jsonx_set_str(a, "payloadType", "t 5");
    assert_int_equal(verify(a, "t 5", f->publics, 1, &err), -1);
    assert_non_null(strstr(err.text, "does not fit the content"));
}

static void forms_are_strict(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *key, *value, *error;
    } rows[] = {
        {"extra", "1", "report: unknown key 'extra'"},
        {"payload", "\"aGVsbG8\"", "report: the payload is not strict base64"},
        {"payload", "\"aGVsbG9=\"", "report: the payload is not strict base64"},
        {"payload", "\"aGVs bG8=\"", "report: the payload is not strict base64"},
        {"payload", "7", "report: key 'payload' must be a string, is an integer"},
        {"signatures", "[]", "report: must hold 1 to 16 signatures, holds 0"},
        {"signatures", "[{\"keyid\":\"x\",\"sig\":\"AAAA\"}]",
         "report: a signature is not 64 bytes in strict base64"},
        {"signatures", "[{\"keyid\":\"x\",\"sig\":\"\",\"alg\":1}]", "report: unknown key 'alg'"},
        {"signatures", "{}", "report: key 'signatures' must be an array, is an object"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        json_auto_t *e = dsse_sign("t", "hello", 5, f->keys, 1, &err);
        jsonx_set(e, rows[i].key, json_loads(rows[i].value, JSON_DECODE_ANY, NULL));
        assert_int_equal(verify(e, "t", f->publics, 1, &err), -1);
        assert_string_equal(err.text, rows[i].error);
    }
    struct err err = {0};
    json_auto_t *twice = dsse_sign("t", "hello", 5, f->keys, 1, &err);
    json_t *signatures = json_object_get(twice, "signatures");
    jsonx_append(signatures, json_incref(json_array_get(signatures, 0)));
    assert_int_equal(verify(twice, "t", f->publics, 1, &err), -1);
    assert_non_null(strstr(err.text, "signs twice"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(signers_and_trust, setup, teardown),
        cmocka_unit_test_setup_teardown(type_and_payload_cannot_be_traded, setup, teardown),
        cmocka_unit_test_setup_teardown(forms_are_strict, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
