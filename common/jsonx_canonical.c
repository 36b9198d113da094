/* The canonical bytes of a JSON value, written here and not by Jansson: its form of real numbers
 * differs between versions, and agent, gate and controller may be built against different ones. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"

static void put(struct strbuf *out, const json_t *value);

static void put_string(struct strbuf *out, const char *text, size_t len)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    strbuf_puts(out, "\"");
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        const char *special = c ? strchr(plain, c) : NULL;
        if (special) {
            char pair[2] = {'\\', letters[special - plain]};
            strbuf_add(out, pair, 2);
        } else if (c < 0x20) {
            strbuf_printf(out, "\\u%04X", c);
        } else {
            strbuf_add(out, text + i, 1);
        }
    }
    strbuf_puts(out, "\"");
}

/* Least digits, from 15 on, that read back as the same double; a fraction or exponent keeps it a
 * real. */
static void put_real(struct strbuf *out, double value)
{
    char text[40];
    int precision = 15;
    do
        snprintf(text, sizeof text, "%.*g", precision, value);
    while (strtod(text, NULL) != value && precision++ < 17);
    strbuf_puts(out, text);
    if (!strpbrk(text, ".e"))
        strbuf_puts(out, ".0");
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void put_object(struct strbuf *out, const json_t *obj)
{
    size_t count = 0;
    const char **keys = mem_zero(json_object_size(obj) + 1, sizeof *keys), *key;
    json_t *member;
    json_object_foreach((json_t *)obj, key, member) keys[count++] = key;
    qsort(keys, count, sizeof *keys, compare_keys);
    strbuf_puts(out, "{");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            strbuf_puts(out, ",");
        put_string(out, keys[i], strlen(keys[i]));
        strbuf_puts(out, ":");
        put(out, json_object_get(obj, keys[i]));
    }
    strbuf_puts(out, "}");
    free(keys);
}

static void put_array(struct strbuf *out, const json_t *arr)
{
    strbuf_puts(out, "[");
    for (size_t i = 0; i < json_array_size(arr); i++) {
        if (i > 0)
            strbuf_puts(out, ",");
        put(out, json_array_get(arr, i));
    }
    strbuf_puts(out, "]");
}

/* Depth is bounded by the parser's limit, and values made here are flat. */
static void put(struct strbuf *out, const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        put_object(out, value);
        break;
    case JSON_ARRAY:
        put_array(out, value);
        break;
    case JSON_STRING:
        put_string(out, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        strbuf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        break;
    case JSON_REAL:
        put_real(out, json_real_value(value));
        break;
    case JSON_TRUE:
        strbuf_puts(out, "true");
        break;
    case JSON_FALSE:
        strbuf_puts(out, "false");
        break;
    default:
        strbuf_puts(out, "null");
    }
}

char *jsonx_canonical(const json_t *value)
{
    struct strbuf out = {0};
    put(&out, value);
    return out.data;
}
