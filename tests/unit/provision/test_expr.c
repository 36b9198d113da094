/* Conditions: values, precedence, functions, and errors with their column. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "provision/expr.h"

static json_t *make_scope(void)
{
    static const char text[] =
        "{\"facts\":{\"rdma\":[{\"name\":\"mlx5_0\",\"port\":1},{\"name\":\"mlx5_1\",\"port\":2}],"
        "\"net\":[{\"name\":\"lo\",\"virtual\":true,\"mtu\":65536},"
        "{\"name\":\"eth0\",\"virtual\":false,\"mtu\":1500}],"
        "\"gpus\":{\"available\":false,\"devices\":[]},\"kernel\":{\"release\":\"6.1.0-28-amd64\"},"
        "\"modules\":{\"ib_core\":{}},\"none\":null,\"big\":9007199254740993},"
        "\"vars\":{\"x\":3,\"name\":\"eth0\",\"empty\":\"\",\"x-y\":1,\"half\":0.5},"
        "\"fabric\":{\"kind\":\"ethernet\",\"interface\":null}}";
    json_t *scope = json_loads(text, 0, NULL);
    assert_non_null(scope);
    return scope;
}

static void test_values(void **state)
{
    static const struct {
        const char *text, *json;
    } rows[] = {
        {"true", "true"},
        {"null", "null"},
        {"-12", "-12"},
        {"1.5", "1.5"},
        {"'it''", NULL},
        {"\"a \\\"b\\\" \\\\\"", "\"a \\\"b\\\" \\\\\""},
        {"'a'", "\"a\""},
        {"[1, 'x', []]", "[1,\"x\",[]]"},
        {"vars.x", "3"},
        {"vars[\"x-y\"]", "1"},
        {"facts.net[1].mtu", "1500"},
        {"facts.net[9].mtu", "null"},
        {"facts.a.b.c", "null"},
        {"node.name", "null"},
        {"vars.x == 3.0", "true"},
        {"facts.big == 9007199254740993", "true"},
        {"facts.big == 9007199254740992", "false"},
        {"vars.x == '3'", "false"},
        {"null == facts.none", "true"},
        {"vars.x < 4 and vars.x >= 3", "true"},
        {"'a' < 'b'", "true"},
        {"not vars.x == 3", "false"},
        {"not not vars.x", "true"},
        {"not vars.empty", "true"},
        {"false or true and false", "false"},
        {"(true or true) and false", "false"},
        {"true or vars.x < 'a'", "true"}, /* stops before the error */
        {"false and vars.x < 'a'", "false"},
        {"3 in [1, 2, 3.0]", "true"},
        {"'ib_core' in facts.modules", "true"},
        {"'mlx5' not in facts.modules", "true"},
        {"'th' in 'eth0'", "true"},
        {"'x' in facts.none", "false"},
        {"len(facts.rdma)", "2"},
        {"len(facts.none)", "0"},
        {"len('abc')", "3"},
        {"defined(facts.none)", "false"},
        {"defined(facts.rdma)", "true"},
        {"default(fabric.interface, vars.name)", "\"eth0\""},
        {"default(vars.x, 9)", "3"},
        {"version_at_least(facts.kernel.release, '5.12')", "true"},
        {"version_at_least(facts.kernel.release, '6.2')", "false"},
        {"version_at_least('5.12', '5.12.0')", "true"},
        {"version_at_least('5.9', '5.12')", "false"},
        {"version_at_least(null, '1')", "false"},
        {"any(facts.net, 'virtual', false)", "true"},
        {"any(facts.net, 'name', 'eth1')", "false"},
        {"any(facts.none, 'name', 'x')", "false"},
        {"len(where(facts.net, 'name', vars.name))", "1"},
        {"join(pluck(facts.rdma, 'name'), ',')", "\"mlx5_0,mlx5_1\""},
        {"join(pluck(facts.rdma, 'port'), '-')", "\"1-2\""},
        {"pluck(facts.none, 'x')", "[]"},
    };
    json_auto_t *scope = make_scope();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        AUTO(expr_release) struct expr *e = expr_compile(rows[i].text, &err);
        if (!rows[i].json) {
            assert_null(e);
            continue;
        }
        json_auto_t *value = NULL;
        if (!e || expr_eval(e, scope, &value, &err) != 0)
            fail_msg("'%s': %s", rows[i].text, err.text);
        AUTO(free_str) char *json = jsonx_canonical(value);
        if (strcmp(json, rows[i].json) != 0)
            fail_msg("'%s' is %s, not %s", rows[i].text, json, rows[i].json);
    }
}

static void test_truth(void **state)
{
    static const struct {
        const char *text;
        bool truth;
    } rows[] = {
        {"null", false},
        {"0", false},
        {"0.0", false},
        {"''", false},
        {"[]", false},
        {"false", false},
        {"1", true},
        {"-1", true},
        {"'0'", true},
        {"[0]", true},
        {"vars.half", true},
        {"facts.gpus.devices", false},
        {"facts.rdma", true},
        {"facts.modules.ib_core", false}, /* an empty mapping: ask with defined() */
    };
    json_auto_t *scope = make_scope();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        bool truth = !rows[i].truth;
        assert_int_equal(expr_test(rows[i].text, scope, &truth, &err), 0);
        assert_int_equal(truth, rows[i].truth);
    }
}

static void test_errors(void **state)
{
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"", "column 1: a value is missing at the end"},
        {"   ", "column 4: a value is missing at the end"},
        {"vars.x ==", "column 10: a value is missing at the end"},
        {"vars.x = 3", "column 8: '=' is no operator; write '=='"},
        {"vars.x && true", "column 8: write 'and', 'or' and 'not'"},
        {"!vars.x", "column 1: write 'and', 'or' and 'not'"},
        {"vars.x vars.y", "column 8: an operator or the end is meant here, not 'vars'"},
        {"(vars.x", "column 8: ')' is missing at the end"},
        {"vars.x)", "column 7: an operator or the end is meant here, not ')'"},
        {"fact.rdma", "column 1: unknown word 'fact'; did you mean 'facts'?"},
        {"eth0",
         "column 1: unknown word 'eth0'; a path begins with facts, vars, fabric or node, and "
         "text is quoted"},
        {"vars.", "column 6: a name after '.' is missing at the end"},
        {"vars.1", "column 6: a name after '.' is meant here, not '1'"},
        {"vars[0", "column 7: ']' is missing at the end"},
        {"vars[true]", "column 6: an index must be an integer or text, is true"},
        {"facts.net[-1]", "column 11: an index must not be negative"},
        {"1 < 2 < 3", "column 7: comparisons cannot be chained; join them with 'and'"},
        {"facts.nix < 5", "column 11: cannot order null and a number (a missing path is null)"},
        {"vars.name < 5", "column 11: cannot order text and a number (a missing path is null)"},
        {"5 in 'abc'", "column 3: 'in' cannot look for a number in text"},
        {"length(vars.x)", "column 1: no function 'length'"},
        {"defned(vars.x)", "column 1: no function 'defned'; did you mean 'defined'?"},
        {"len()", "column 1: len(x) takes 1, not 0"},
        {"len(1, 2)", "column 1: len(x) takes 1, not 2"},
        {"len(true)", "column 1: len(x): argument 1 must be a list, a mapping or text, is true"},
        {"len(1", "column 6: ',' or ')' is missing at the end"},
        {"version_at_least(5.12, '5')",
         "column 1: version_at_least(a, b): argument 1 must be text like \"5.12\" (quote it), is a "
         "number"},
        {"any(vars.x, 'a', 1)",
         "column 1: any(list, \"key\", value): argument 1 must be a list, is a "
         "number"},
        {"join(facts.net, ',')",
         "column 1: join(list, \",\"): argument 1 must be a list of texts or "
         "integers, is a list"},
        {"'abc", "column 1: the quote that opens here is not closed"},
        {"12abc", "column 1: '12abc' is not a number; quote text"},
        {"99999999999999999999999999 == 1e999", "column 31: '1e999' is not a number; quote text"},
        {"vars.x @ 3", "column 8: an operator or the end is meant here, not '@'"},
        {"and", "column 1: a value is meant here, not 'and'"},
    };
    json_auto_t *scope = make_scope();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        bool truth = false;
        assert_int_equal(expr_test(rows[i].text, scope, &truth, &err), -1);
        assert_string_equal(err.text, rows[i].error);
        assert_int_equal(err.kind, ERR_USAGE);
    }
}

static void test_limits(void **state)
{
    struct err err = {0};
    AUTO(strbuf_release) struct strbuf deep = {0};
    for (int i = 0; i < 64; i++)
        strbuf_puts(&deep, "(");
    assert_null(expr_compile(deep.data, &err));
    assert_string_equal(err.text, "column 65: nested more than 64 levels deep");

    AUTO(strbuf_release) struct strbuf wide = {0};
    strbuf_puts(&wide, "true");
    while (wide.len + strlen(" and true") <= EXPR_MAX_BYTES)
        strbuf_puts(&wide, " and true");
    json_auto_t *scope = make_scope();
    bool truth = false;
    assert_int_equal(expr_test(wide.data, scope, &truth, &err), 0);
    assert_true(truth);
    strbuf_puts(&wide, "         ");
    err_clear(&err);
    assert_null(expr_compile(wide.data, &err));
    assert_string_equal(err.text, "column 1: an expression has at most 4096 characters");

    AUTO(strbuf_release) struct strbuf nots = {0};
    for (int i = 0; i < 1000; i++)
        strbuf_puts(&nots, "not ");
    strbuf_puts(&nots, "1");
    assert_int_equal(expr_test(nots.data, scope, &truth, &err), 0);
    assert_true(truth);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_truth),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
