/* ${...}: types, text, escapes, errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "provision/template.h"

static json_t *make_scope(void)
{
    json_t *scope = json_loads("{\"vars\":{\"n\":3,\"s\":\"a}b\",\"t\":true,\"l\":[1,2],\"f\":0.1,"
                               "\"nil\":null,\"tpl\":\"${vars.n}\"},\"facts\":{\"net\":[{\"name\":"
                               "\"eth0\"}]}}",
                               0, NULL);
    assert_non_null(scope);
    return scope;
}

static void test_expand(void **state)
{
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"\"plain $ text $x {y}\"", "\"plain $ text $x {y}\""},
        {"\"${vars.n}\"", "3"},
        {"\"${vars.l}\"", "[1,2]"},
        {"\"${vars.t}\"", "true"},
        {"\"x${vars.n}\"", "\"x3\""},
        {"\"${vars.n}${vars.n}\"", "\"33\""},
        {"\"${vars.t} ${vars.f}\"", "\"true 0.1\""},
        {"\"=${facts.net[0].name}\"", "\"=eth0\""},
        {"\"${vars.s}!\"", "\"a}b!\""},
        {"\"${'}'}-\"", "\"}-\""},
        {"\"$${vars.n} $$ $${\"", "\"${vars.n} $$ ${\""},
        {"\"${vars.tpl}\"", "\"${vars.n}\""}, /* a value is not expanded again */
        {"{\"a\":[\"${vars.n}\",5,null],\"${vars.n}\":\"k\"}",
         "{\"${vars.n}\":\"k\",\"a\":[3,5,null]}"},
    };
    json_auto_t *scope = make_scope();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        json_auto_t *in = json_loads(rows[i].in, JSON_DECODE_ANY, NULL);
        json_auto_t *out = NULL;
        if (template_expand(in, scope, &out, &err) != 0)
            fail_msg("%s: %s", rows[i].in, err.text);
        AUTO(free_str) char *json = jsonx_canonical(out);
        assert_string_equal(json, rows[i].out);
        assert_int_equal(template_check(in, &err), 0);
    }
}

static void test_errors(void **state)
{
    static const struct {
        const char *in, *text;
        bool form; /* found without a scope */
    } rows[] = {
        {"${vars.nope}", "${vars.nope}: is missing or null", false},
        {"x ${vars.nil}", "${vars.nil}: is missing or null", false},
        {"x ${vars.l}", "${vars.l}: is a list or a mapping and cannot stand inside text", false},
        {"${vars.n < 'a'}",
         "${vars.n < 'a'}: column 8: cannot order a number and text (a missing path "
         "is null)",
         false},
        {"${}", "${}: column 1: a value is missing at the end", true},
        {"${var.n}", "${var.n}: column 1: unknown word 'var'; did you mean 'vars'?", true},
        {"a ${vars.n", "'${vars.n' has no closing '}' ('$${' stands for the text '${')", true},
        {"${'}", "'${'}' has no closing '}' ('$${' stands for the text '${')", true},
    };
    json_auto_t *scope = make_scope();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0}, form = {0};
        json_auto_t *in = json_string(rows[i].in);
        json_t *out = NULL;
        assert_int_equal(template_expand(in, scope, &out, &err), -1);
        assert_null(out);
        assert_string_equal(err.text, rows[i].text);
        assert_int_equal(template_check(in, &form), rows[i].form ? -1 : 0);
        assert_string_equal(form.text, rows[i].form ? rows[i].text : "");
    }
    struct err err = {0};
    json_auto_t *nested = json_loads("{\"set\":{\"A\":[\"${vars.nope}\"]}}", 0, NULL);
    json_t *out = NULL;
    assert_int_equal(template_expand(nested, scope, &out, &err), -1);
    assert_string_equal(err.text, "set: A: [0]: ${vars.nope}: is missing or null");
}

static void test_limits(void **state)
{
    json_auto_t *scope = json_object();
    json_t *vars = json_object();
    jsonx_set(scope, "vars", vars);
    AUTO(free_str) char *big = mem_zero(TEMPLATE_MAX_BYTES / 2 + 2, 1);
    memset(big, 'x', TEMPLATE_MAX_BYTES / 2 + 1);
    jsonx_set_str(vars, "big", big);
    json_auto_t *in = json_string("${vars.big}${vars.big}");
    json_t *out = NULL;
    struct err err = {0};
    assert_int_equal(template_expand(in, scope, &out, &err), -1);
    assert_string_equal(err.text, "expands to more than 1048576 bytes");

    json_auto_t *deep = json_string("x");
    for (int i = 0; i < TEMPLATE_MAX_DEPTH + 1; i++) {
        json_t *outer = json_array();
        json_array_append_new(outer, STEAL(deep));
        deep = outer;
    }
    err_clear(&err);
    assert_int_equal(template_expand(deep, scope, &out, &err), -1);
    assert_true(str_has_suffix(err.text, "nested more than 32 levels deep"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expand),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
