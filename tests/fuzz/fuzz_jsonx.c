/* Whatever parses has canonical bytes that parse to the same value and are their own canonical
 * form. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_fixpoint(const json_t *value)
{
    struct err err = {0};
    json_t *again = NULL;
    AUTO(free_str) char *text = jsonx_canonical(value);
    require(jsonx_parse(text, strlen(text), "canonical", &again, &err) == 0);
    require(json_equal(value, again));
    AUTO(free_str) char *second = jsonx_canonical(again);
    require(strcmp(text, second) == 0);
    json_decref(again);
}

struct bytes {
    const uint8_t *data;
    size_t left;
};

static void take(struct bytes *b, void *out, size_t len)
{
    size_t got = b->left < len ? b->left : len;
    memset(out, 0, len);
    if (got)
        memcpy(out, b->data, got);
    b->data += got;
    b->left -= got;
}

/* A string of the next few bytes; what is not UTF-8 or holds a zero is no JSON string. */
static json_t *build_string(struct bytes *b)
{
    char text[8];
    uint8_t len = 0;
    take(b, &len, 1);
    len %= sizeof text;
    take(b, text, len);
    json_t *value = memchr(text, 0, len) ? NULL : json_stringn(text, len);
    return value ? value : json_string("");
}

static json_t *build(struct bytes *b, int depth);

/* The depth is limited in build(). */
// NOLINTNEXTLINE(misc-no-recursion)
static json_t *build_container(struct bytes *b, bool object, int depth)
{
    uint8_t count = 0;
    take(b, &count, 1);
    json_t *value = object ? json_object() : json_array();
    for (int i = 0; i < count % 8; i++) {
        json_t *key = object ? build_string(b) : NULL;
        if (object)
            jsonx_set(value, json_string_value(key), build(b, depth + 1));
        else
            jsonx_append(value, build(b, depth + 1));
        json_decref(key);
    }
    return value;
}

/* The parser of Jansson is not instrumented, so random text seldom parses: values are also made
 * from the input. */
// NOLINTNEXTLINE(misc-no-recursion)
static json_t *build(struct bytes *b, int depth)
{
    uint8_t kind = 0;
    int64_t integer = 0;
    double real = 0;
    take(b, &kind, 1);
    switch (depth < 6 ? kind % 8 : kind % 6) {
    case 0:
        return json_null();
    case 1:
        return json_boolean(kind & 8);
    case 2:
    case 3:
        take(b, &integer, sizeof integer);
        return json_integer(integer);
    case 4:
        take(b, &real, sizeof real);
        return isfinite(real) ? json_real(real) : json_real(0);
    case 5:
        return build_string(b);
    default:
        return build_container(b, kind & 1, depth);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    json_t *value = NULL;
    if (jsonx_parse((const char *)data, size, "input", &value, &err) == 0)
        check_fixpoint(value);
    else
        require(err.kind == ERR_DATA && str_has_prefix(err.text, "input:") && !value);
    json_decref(value);
    struct bytes bytes = {data, size};
    json_t *built = build_container(&bytes, true, 0);
    check_fixpoint(built);
    json_decref(built);
    return 0;
}
