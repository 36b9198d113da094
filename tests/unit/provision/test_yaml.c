/* YAML as JSON values: what each scalar becomes, what is refused and with which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "provision/yaml.h"
#include "provision/yaml_scalar.h"

static json_t *parse(const char *text, struct source_map *map)
{
    struct err err = {0};
    json_t *value = NULL;
    if (yaml_parse(text, strlen(text), "t.yml", map, &value, &err) != 0)
        fail_msg("'%s': %s", text, err.text);
    return value;
}

static void test_values(void **state)
{
    static const struct {
        const char *yaml, *json;
    } rows[] = {
        {"", "null"},
        {"# nothing\n", "null"},
        {"~", "null"},
        {"[null, Null, NULL, ~, ]", "[null,null,null,null]"},
        {"[true, True, FALSE]", "[true,true,false]"},
        {"[yes, no, on, off, y, n]", "[\"yes\",\"no\",\"on\",\"off\",\"y\",\"n\"]"},
        {"[0, 12, -3, +4, 0x1f]", "[0,12,-3,4,31]"},
        {"[0644, 007, 00, -01, 0o17]", "[\"0644\",\"007\",\"00\",\"-01\",\"0o17\"]"},
        {"[9223372036854775807, -9223372036854775808]",
         "[9223372036854775807,-9223372036854775808]"},
        {"[1.5, .5, 1., 1e3, -2.5E-1]", "[1.5,0.5,1.0,1000.0,-0.25]"},
        {"[1_000, 12:30, 2026-12-31, 1.2.3, 3rd, 0x, -, 1e, .]",
         "[\"1_000\",\"12:30\",\"2026-12-31\",\"1.2.3\",\"3rd\",\"0x\",\"-\",\"1e\",\".\"]"},
        {"['12', \"true\", '', \"~\"]", "[\"12\",\"true\",\"\",\"~\"]"},
        {"a: |\n  x\n  y\nb: >-\n  x\n  y\n", "{\"a\":\"x\\ny\\n\",\"b\":\"x y\"}"},
        {"1: a\nnull: b\n", "{\"1\":\"a\",\"null\":\"b\"}"},
        {"a: &x [1, 2]\nb: *x\n", "{\"a\":[1,2],\"b\":[1,2]}"},
        {"a: &x 1\nb: &x 2\nc: *x\n", "{\"a\":1,\"b\":2,\"c\":2}"},
        {"\"<<\": 1", "{\"<<\":1}"},
        {"--- \na: 1\n...\n", "{\"a\":1}"},
        {"%YAML 1.2\n---\na: 1\n", "{\"a\":1}"},
        {"{\"a\": [1, {\"b\": null}]}", "{\"a\":[1,{\"b\":null}]}"},
        {"\xef\xbb\xbf"
         "a: \"\\u00e9\"",
         "{\"a\":\"\xc3\xa9\"}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_auto_t *value = parse(rows[i].yaml, NULL);
        AUTO(free_str) char *json = jsonx_canonical(value);
        assert_string_equal(json, rows[i].json);
    }
}

static void test_refused(void **state)
{
    static const struct {
        const char *yaml, *text;
    } rows[] = {
        {"a: 1\nb: 2\na: 3\n", "t.yml:3:1: key 'a' is given twice, first in line 1"},
        {"x:\n  - { a: 1,\n      a: 2 }\n", "t.yml:3:7: key 'a' is given twice, first in line 2"},
        {"a: 1\n\"a\": 2\n", "t.yml:2:1: key 'a' is given twice, first in line 1"},
        {"b: &b {x: 1}\na:\n  <<: *b\n",
         "t.yml:3:3: merge keys (<<) are not supported; write the keys out or use groups"},
        {"a: 1\n---\nb: 2\n", "t.yml:2:1: a second document begins here; one file is one document"},
        {"a:\n\t- b\n", "t.yml:2:1: a tab cannot indent YAML; use blanks"},
        {"a: !!int \"3\"\n",
         "t.yml:1:4: tags (!...) are not supported; quote the value to keep it text"},
        {"!x a: 1\n", "t.yml:1:1: tags (!...) are not supported"},
        {"a: *b\n", "t.yml:1:4: alias *b names no anchor before it"},
        {"a: &a [*a]\n", "t.yml:1:8: alias *a names no anchor before it"},
        {"? [a]\n: b\n", "t.yml:1:3: a key must be a word, not a list, a mapping or an alias"},
        {"\"\": b\n", "t.yml:1:1: a key is empty"},
        {"a: 9223372036854775808\n",
         "t.yml:1:4: the integer does not fit 64 bits; quote it if it is text"},
        {"a: 1e999\n", "t.yml:1:4: the number is too large; quote it if it is text"},
        {"a: .inf\n", "t.yml:1:4: infinity and NaN are not values; quote it if it is text"},
        {"a: \"\\0\"\n", "t.yml:1:4: text holds the character U+0000"},
        {"a: [1, 2\n",
         "t.yml:2:1: while parsing a flow sequence did not find expected ',' or ']' (line 1)"},
        {"a: b: c\n", "t.yml:1:5: mapping values are not allowed in this context"},
        {"a: x\n b: y\n", "t.yml:2:3: mapping values are not allowed in this context"},
        {"x: 1\ny: \xff\n", "t.yml:2: invalid leading UTF-8 octet"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        json_t *value = NULL;
        assert_int_equal(
            yaml_parse(rows[i].yaml, strlen(rows[i].yaml), "t.yml", NULL, &value, &err), -1);
        assert_null(value);
        assert_string_equal(err.text, rows[i].text);
        assert_int_equal(err.kind, ERR_USAGE);
    }
}

/* Nine anchors of ten aliases each would be 10^9 values. */
static void test_billion_laughs(void **state)
{
    AUTO(strbuf_release) struct strbuf b = {0};
    strbuf_puts(&b, "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for (int i = 1; i < 10; i++) {
        strbuf_printf(&b, "a%d: &a%d [", i, i);
        for (int k = 0; k < 10; k++)
            strbuf_printf(&b, "%s*a%d", k ? "," : "", i - 1);
        strbuf_puts(&b, "]\n");
    }
    struct err err = {0};
    json_t *value = NULL;
    assert_int_equal(yaml_parse(b.data, b.len, "t.yml", NULL, &value, &err), -1);
    assert_string_equal(
        err.text, "t.yml:6:38: more than 1000000 values (aliases count as often as they are used)");
}

static void test_depth(void **state)
{
    for (int depth = 63; depth <= 65; depth++) {
        AUTO(strbuf_release) struct strbuf b = {0};
        for (int i = 0; i < depth; i++)
            strbuf_puts(&b, "[");
        for (int i = 0; i < depth; i++)
            strbuf_puts(&b, "]");
        struct err err = {0};
        json_auto_t *value = NULL;
        int rc = yaml_parse(b.data, b.len, "t.yml", NULL, &value, &err);
        assert_int_equal(rc, depth <= 64 ? 0 : -1);
        assert_string_equal(err.text,
                            depth <= 64 ? "" : "t.yml:1:65: nested more than 64 levels deep");
    }
}

static void test_size_limit(void **state)
{
    size_t len = YAML_MAX_BYTES + 1;
    AUTO(free_str) char *text = mem_zero(len + 1, 1);
    memset(text, '#', len);
    struct err err = {0};
    json_t *value = NULL;
    assert_int_equal(yaml_parse(text, len, "t.yml", NULL, &value, &err), -1);
    assert_string_equal(err.text, "t.yml: 16777217 bytes, the limit is 16777216");
}

static void test_source_map(void **state)
{
    AUTO(source_map_release) struct source_map *map = source_map_create("t.yml");
    json_auto_t *value =
        parse("a: 1\nb:\n  - x\n  - k/y~: 2\n    z: &q\n      deep: 1\nc: *q\n", map);
    static const struct {
        const char *pointer;
        int line;
        const char *text;
    } rows[] = {
        {"", 1, ""},
        {"/a", 1, "a"},
        {"/b", 2, "b"},
        {"/b/0", 3, "b[0]"},
        {"/b/1", 4, "b[1]"},
        {"/b/1/k~1y~0", 4, "b[1].k/y~"},
        {"/b/1/z/deep", 6, "b[1].z.deep"},
        {"/c/deep", 7, "c.deep"}, /* repeated by an alias: the line of the alias */
        {"/b/7/nothing", 2, "b[7].nothing"},
        {"/none", 1, "none"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(source_map_line(map, rows[i].pointer), rows[i].line);
        AUTO(free_str) char *text = source_pointer_text(rows[i].pointer);
        assert_string_equal(text, rows[i].text);
    }
    struct err err = {0};
    assert_int_equal(source_err(map, "/b/0", &err, "is %d", 3), -1);
    assert_string_equal(err.text, "t.yml:3: b[0]: is 3");
}

static void test_missing_file(void **state)
{
    struct err err = {0};
    json_t *value = NULL;
    assert_int_equal(yaml_load("/nonexistent/t.yml", NULL, &value, &err), -1);
    assert_int_equal(err.kind, ERR_ENV);
}

/* A scalar that is called plain is read back as itself. */
static void test_plain(void **state)
{
    static const struct {
        const char *text;
        bool plain;
    } rows[] = {
        {"aurora", true}, {"gpu-1.x", true}, {"two words", true}, {"12", false},   {"true", false},
        {"", false},      {"a: b", false},   {"- x", false},      {"x #y", false}, {" x", false},
        {"x ", false},    {"a,b", false},    {"0644", true},      {"{x}", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(yaml_scalar_is_plain(rows[i].text), rows[i].plain);
        if (!rows[i].plain)
            continue;
        AUTO(free_str) char *doc = str_printf("{k: %s}", rows[i].text);
        json_auto_t *value = parse(doc, NULL);
        assert_string_equal(jsonx_str_or(value, "k", "?"), rows[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),         cmocka_unit_test(test_refused),
        cmocka_unit_test(test_billion_laughs), cmocka_unit_test(test_depth),
        cmocka_unit_test(test_size_limit),     cmocka_unit_test(test_source_map),
        cmocka_unit_test(test_missing_file),   cmocka_unit_test(test_plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
