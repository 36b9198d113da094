/* JSON: strict parsing, canonical bytes, getters and their complaints. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/jsonx.h"
#include "common/util.h"

static json_t *parse(const char *text)
{
    struct err err = {0};
    json_t *value = NULL;
    if (jsonx_parse(text, strlen(text), "test", &value, &err) != 0)
        fail_msg("%s", err.text);
    return value;
}

/* The place is ours; the words are Jansson's and differ between its versions, so only a part
 * counts. */
static void refuses_malformed_text(void **state)
{
    static const struct {
        const char *text, *place, *words;
    } rows[] = {
        {"{\"a\":1,\"a\":2}", "f:1:10: ", "duplicate object key"},
        {"{\"x\":{\"a\":1,\"b\":2,\"a\":2}}", "f:1:21: ", "duplicate object key"},
        {"{\"a\":1}\n}", "f:2:1: ", "end of file expected near '}'"},
        {"", "f:1:0: ", "'[' or '{' expected"},
        {"7", "f:1:1: ", "'[' or '{' expected"},
        {"{\n\"a\":\n01}", "f:3:1: ", "invalid token near '0'"},
        {"{\"a\":NaN}", "f:1:8: ", "invalid token near 'NaN'"},
        {"{\"a\":1e999}", "f:1:10: ", "real number overflow"},
        {"{\"a\":9223372036854775808}", "f:1:24: ", "too big integer"},
        {"{'a':1}", "f:1:2: ", "string or '}' expected"},
        {"{\"a\":1,}", "f:1:8: ", "string or '}' expected"},
        {"[\"\xff\"]", "f:1:2: ", "unable to decode byte 0xff"},
        {"[\"a\\u0000b\"]", "f:1:11: ", "\\u0000 is not allowed"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        json_t *value = NULL;
        assert_int_equal(jsonx_parse(rows[i].text, strlen(rows[i].text), "f", &value, &err), -1);
        assert_int_equal(err.kind, ERR_DATA);
        if (!str_has_prefix(err.text, rows[i].place) || !strstr(err.text, rows[i].words))
            fail_msg("'%s' gives '%s'", rows[i].text, err.text);
        assert_null(value);
    }
}

static void refuses_deep_nesting(void **state)
{
    char text[100001];
    memset(text, '[', 100000);
    text[100000] = '\0';
    struct err err = {0};
    json_t *value = NULL;
    assert_int_equal(jsonx_parse(text, 100000, "f", &value, &err), -1);
    assert_non_null(strstr(err.text, "maximum parsing depth reached"));
}

static void canonical_bytes(void **state)
{
    static const struct {
        const char *text, *canonical;
    } rows[] = {
        {"{ \"b\" : 1, \"a\" : [ 1, 2.5, \"x\" ] }", "{\"a\":[1,2.5,\"x\"],\"b\":1}"},
        {"{\"z\":{\"y\":null,\"x\":true},\"Z\":false}",
         "{\"Z\":false,\"z\":{\"x\":true,\"y\":null}}"},
        {"[]", "[]"},
        {"{}", "{}"},
        {"[\"\\u00fc\\u20ac\\ud83d\\ude00\"]", "[\"\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80\"]"},
        {"[\"\\/\\n\\u001f\\\"\"]", "[\"/\\n\\u001F\\\"\"]"},
        {"[1.0,1e3,0.1,-0.0,1e22,5e-324]", "[1.0,1000.0,0.1,-0.0,1e+22,4.94065645841247e-324]"},
        {"[-0,9223372036854775807,-9223372036854775808]",
         "[0,9223372036854775807,-9223372036854775808]"},
        {"{\"b\":1,\"\xc3\xa4\":2,\"a\":3,\"\":4}", "{\"\":4,\"a\":3,\"b\":1,\"\xc3\xa4\":2}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_auto_t *value = parse(rows[i].text);
        AUTO(free_str) char *text = jsonx_canonical(value);
        assert_string_equal(text, rows[i].canonical);
        json_auto_t *again = parse(text);
        assert_true(json_equal(value, again));
        AUTO(free_str) char *second = jsonx_canonical(again);
        assert_string_equal(second, text);
    }
}

/* Doubles survive the text bit for bit. */
static void canonical_reals_are_exact(void **state)
{
    static const double values[] = {
        1.0 / 3,  23.4e9, 1.7976931348623157e308, 2.2250738585072014e-308, 123456789.123456789,
        0.1 + 0.2};
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        json_auto_t *array = json_array();
        jsonx_append(array, json_real(values[i]));
        AUTO(free_str) char *text = jsonx_canonical(array);
        json_auto_t *again = parse(text);
        double value = json_real_value(json_array_get(again, 0));
        assert_memory_equal(&value, &values[i], sizeof value);
    }
}

static const char sample[] = "{\"s\":\"gpu\",\"i\":4096,\"n\":2.5,\"b\":true,\"o\":{\"k\":1},"
                             "\"a\":[1],\"null\":null}";

static void getters_read(void **state)
{
    json_auto_t *obj = parse(sample);
    struct err err = {0};
    const char *s = NULL;
    int64_t i = 0;
    double n = 0, whole = 0;
    bool b = false;
    const json_t *o = NULL, *a = NULL;
    assert_int_equal(jsonx_get_str(obj, "w", "s", &s, &err), 0);
    assert_int_equal(jsonx_get_int(obj, "w", "i", &i, &err), 0);
    assert_int_equal(jsonx_get_num(obj, "w", "n", &n, &err), 0);
    assert_int_equal(jsonx_get_num(obj, "w", "i", &whole, &err), 0);
    assert_int_equal(jsonx_get_bool(obj, "w", "b", &b, &err), 0);
    assert_int_equal(jsonx_get_obj(obj, "w", "o", &o, &err), 0);
    assert_int_equal(jsonx_get_arr(obj, "w", "a", &a, &err), 0);
    assert_string_equal(s, "gpu");
    assert_int_equal(i, 4096);
    assert_true(n == 2.5 && whole == 4096 && b);
    assert_int_equal(json_object_size(o), 1);
    assert_int_equal(json_array_size(a), 1);
}

static void getters_complain(void **state)
{
    json_auto_t *obj = parse(sample);
    const char *s = "kept";
    int64_t i = 42;
    double n = 42;
    bool b = true;
    const json_t *kept = obj, *o = kept;
    struct err err = {0};
#define EXPECT(call, message)                                                                      \
    do {                                                                                           \
        err_clear(&err);                                                                           \
        assert_int_equal(call, -1);                                                                \
        assert_int_equal(err.kind, ERR_DATA);                                                      \
        assert_string_equal(err.text, message);                                                    \
    } while (0)
    EXPECT(jsonx_get_int(obj, "gpu001", "s", &i, &err),
           "gpu001: key 's' must be an integer, is a string");
    EXPECT(jsonx_get_int(obj, "gpu001", "n", &i, &err),
           "gpu001: key 'n' must be an integer, is a number");
    EXPECT(jsonx_get_int(obj, "gpu001", "mtu", &i, &err),
           "gpu001: key 'mtu' is missing (must be an integer)");
    EXPECT(jsonx_get_str(obj, "w", "i", &s, &err), "w: key 'i' must be a string, is an integer");
    EXPECT(jsonx_get_str(obj, "w", "null", &s, &err), "w: key 'null' must be a string, is null");
    EXPECT(jsonx_get_num(obj, "w", "b", &n, &err), "w: key 'b' must be a number, is true");
    EXPECT(jsonx_get_bool(obj, "w", "i", &b, &err),
           "w: key 'i' must be true or false, is an integer");
    EXPECT(jsonx_get_obj(obj, "w", "a", &o, &err), "w: key 'a' must be an object, is an array");
    EXPECT(jsonx_get_arr(obj, "w", "o", &o, &err), "w: key 'o' must be an array, is an object");
    EXPECT(jsonx_opt_str(obj, "w", "i", &s, &err), "w: key 'i' must be a string, is an integer");
    EXPECT(jsonx_opt_int(obj, "w", "s", &i, &err), "w: key 's' must be an integer, is a string");
    EXPECT(jsonx_opt_bool(obj, "w", "s", &b, &err),
           "w: key 's' must be true or false, is a string");
    assert_string_equal(s, "kept");
    assert_true(i == 42 && n == 42 && b && o == kept);
}

static void optional_members(void **state)
{
    json_auto_t *obj = parse(sample);
    struct err err = {0};
    const char *s = "kept";
    int64_t i = 42;
    bool b = false;
    assert_int_equal(jsonx_opt_str(obj, "w", "null", &s, &err), 0);
    assert_int_equal(jsonx_opt_str(obj, "w", "missing", &s, &err), 0);
    assert_int_equal(jsonx_opt_int(obj, "w", "missing", &i, &err), 0);
    assert_int_equal(jsonx_opt_bool(obj, "w", "null", &b, &err), 0);
    assert_string_equal(s, "kept");
    assert_true(i == 42 && !b);
    assert_int_equal(jsonx_opt_str(obj, "w", "s", &s, &err), 0);
    assert_int_equal(jsonx_opt_int(obj, "w", "i", &i, &err), 0);
    assert_int_equal(jsonx_opt_bool(obj, "w", "b", &b, &err), 0);
    assert_string_equal(s, "gpu");
    assert_true(i == 4096 && b);
}

static void unknown_keys(void **state)
{
    static const char *const keys[] = {"interface", "mtu", NULL};
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"{}", NULL},
        {"{\"mtu\":1}", NULL},
        {"{\"interfaces\":1}", "site: unknown key 'interfaces'; did you mean 'interface'?"},
        {"{\"nodes\":1}", "site: unknown key 'nodes'"},
        {"[]", "site: must be an object, is an array"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        json_auto_t *obj = parse(rows[i].text);
        assert_int_equal(jsonx_only_keys(obj, "site", keys, &err), rows[i].message ? -1 : 0);
        if (rows[i].message)
            assert_string_equal(err.text, rows[i].message);
    }
}

static void fallbacks_and_setters(void **state)
{
    json_auto_t *obj = json_object();
    jsonx_set_str(obj, "s", "x");
    jsonx_set_str(obj, "null", NULL);
    jsonx_set_int(obj, "i", INT64_MIN);
    jsonx_set_num(obj, "n", 0.5);
    jsonx_set_bool(obj, "b", true);
    json_t *array = json_array();
    jsonx_append_str(array, "y");
    jsonx_append(array, json_integer(1));
    jsonx_set(obj, "a", array);
    AUTO(free_str) char *text = jsonx_canonical(obj);
    assert_string_equal(text, "{\"a\":[\"y\",1],\"b\":true,\"i\":-9223372036854775808,\"n\":0.5,"
                              "\"null\":null,\"s\":\"x\"}");
    assert_string_equal(jsonx_str_or(obj, "s", "f"), "x");
    assert_string_equal(jsonx_str_or(obj, "i", "f"), "f");
    assert_string_equal(jsonx_str_or(obj, "missing", "f"), "f");
    assert_true(jsonx_int_or(obj, "i", 1) == INT64_MIN);
    assert_true(jsonx_int_or(obj, "s", 1) == 1);
    assert_true(jsonx_bool_or(obj, "b", false));
    assert_true(jsonx_bool_or(obj, "s", true));
}

static void text_that_is_not_utf8(void **state)
{
    static const struct {
        const char *text, *stored;
    } rows[] = {
        {"Super\xffMicro", "Super?Micro"}, {"cut \xc3", "cut ?"},
        {"cut \xe2\x82", "cut ??"},        {"\xc3\xa4\xed\xa0\x80", "\xc3\xa4???"},
        {"\xe2\x82\xac", "\xe2\x82\xac"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_auto_t *obj = json_object(), *array = json_array();
        jsonx_set_str(obj, "s", rows[i].text);
        jsonx_append_str(array, rows[i].text);
        assert_string_equal(jsonx_str_or(obj, "s", ""), rows[i].stored);
        assert_string_equal(json_string_value(json_array_get(array, 0)), rows[i].stored);
    }
}

static void saves_and_loads(void **state)
{
    char dir[] = "/tmp/test_jsonx-XXXXXX";
    assert_non_null(mkdtemp(dir));
    AUTO(free_str) char *path = str_printf("%s/x.json", dir);
    struct err err = {0};
    struct stat st;
    json_auto_t *obj = parse("{\"b\":[1],\"a\":2}");
    assert_int_equal(jsonx_save(path, obj, 0600, &err), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    AUTO(free_str) char *text = NULL;
    assert_int_equal(fs_read(path, 100, &text, NULL, &err), 0);
    assert_string_equal(text, "{\n \"a\": 2,\n \"b\": [\n  1\n ]\n}\n");
    json_auto_t *back = NULL;
    assert_int_equal(jsonx_load(path, 100, &back, &err), 0);
    assert_true(json_equal(obj, back));
    json_t *none = NULL;
    assert_int_equal(jsonx_load(path, 5, &none, &err), -1);
    assert_int_equal(err.kind, ERR_DATA);
    err_clear(&err);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(jsonx_load(path, 100, &none, &err), -1);
    assert_int_equal(err.kind, ERR_ENV);
    assert_int_equal(err.native, ENOENT);
    assert_null(none);
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_malformed_text), cmocka_unit_test(refuses_deep_nesting),
        cmocka_unit_test(canonical_bytes),        cmocka_unit_test(canonical_reals_are_exact),
        cmocka_unit_test(getters_read),           cmocka_unit_test(getters_complain),
        cmocka_unit_test(optional_members),       cmocka_unit_test(unknown_keys),
        cmocka_unit_test(fallbacks_and_setters),  cmocka_unit_test(saves_and_loads),
        cmocka_unit_test(text_that_is_not_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
