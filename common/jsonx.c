#include "common/jsonx.h"

#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/util.h"

int jsonx_parse(const char *text, size_t len, const char *source, json_t **out, struct err *err)
{
    json_error_t e;
    json_t *value = json_loadb(text, len, JSON_REJECT_DUPLICATES, &e);
    if (!value)
        return err_set(err, ERR_DATA, "%s:%d:%d: %s", source, e.line, e.column, e.text);
    *out = value;
    return 0;
}

int jsonx_load(const char *path, size_t max_bytes, json_t **out, struct err *err)
{
    AUTO(free_str) char *text = NULL;
    size_t len = 0;
    if (fs_read(path, max_bytes, &text, &len, err) != 0)
        return -1;
    return jsonx_parse(text, len, path, out, err);
}

int jsonx_save(const char *path, const json_t *value, mode_t mode, struct err *err)
{
    AUTO(free_str) char *text = json_dumps(value, JSON_INDENT(1) | JSON_SORT_KEYS);
    if (!text)
        return err_set(err, ERR_DATA, "write %s: the value has no JSON form", path);
    AUTO(strbuf_release) struct strbuf buf = {0};
    strbuf_puts(&buf, text);
    strbuf_puts(&buf, "\n");
    return fs_write_atomic(path, buf.data, buf.len, mode, err);
}

static const char *type_name(const json_t *value)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
        [JSON_INTEGER] = "an integer", [JSON_REAL] = "a number",  [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",        [JSON_NULL] = "null",
    };
    return value ? names[json_typeof(value)] : "missing";
}

static int type_error(const json_t *value, const char *what, const char *key, const char *wanted,
                      struct err *err)
{
    if (!value)
        return err_set(err, ERR_DATA, "%s: key '%s' is missing (must be %s)", what, key, wanted);
    return err_set(err, ERR_DATA, "%s: key '%s' must be %s, is %s", what, key, wanted,
                   type_name(value));
}

int jsonx_get_str(const json_t *obj, const char *what, const char *key, const char **out,
                  struct err *err)
{
    const json_t *value = json_object_get(obj, key);
    if (!json_is_string(value))
        return type_error(value, what, key, "a string", err);
    *out = json_string_value(value);
    return 0;
}

int jsonx_get_int(const json_t *obj, const char *what, const char *key, int64_t *out,
                  struct err *err)
{
    const json_t *value = json_object_get(obj, key);
    if (!json_is_integer(value))
        return type_error(value, what, key, "an integer", err);
    *out = json_integer_value(value);
    return 0;
}

int jsonx_get_num(const json_t *obj, const char *what, const char *key, double *out,
                  struct err *err)
{
    const json_t *value = json_object_get(obj, key);
    if (!json_is_number(value))
        return type_error(value, what, key, "a number", err);
    *out = json_number_value(value);
    return 0;
}

int jsonx_get_bool(const json_t *obj, const char *what, const char *key, bool *out, struct err *err)
{
    const json_t *value = json_object_get(obj, key);
    if (!json_is_boolean(value))
        return type_error(value, what, key, "true or false", err);
    *out = json_is_true(value);
    return 0;
}

int jsonx_get_obj(const json_t *obj, const char *what, const char *key, const json_t **out,
                  struct err *err)
{
    const json_t *value = json_object_get(obj, key);
    if (!json_is_object(value))
        return type_error(value, what, key, "an object", err);
    *out = value;
    return 0;
}

int jsonx_get_arr(const json_t *obj, const char *what, const char *key, const json_t **out,
                  struct err *err)
{
    const json_t *value = json_object_get(obj, key);
    if (!json_is_array(value))
        return type_error(value, what, key, "an array", err);
    *out = value;
    return 0;
}

static bool absent(const json_t *obj, const char *key)
{
    const json_t *value = json_object_get(obj, key);
    return !value || json_is_null(value);
}

int jsonx_opt_str(const json_t *obj, const char *what, const char *key, const char **out,
                  struct err *err)
{
    return absent(obj, key) ? 0 : jsonx_get_str(obj, what, key, out, err);
}

int jsonx_opt_int(const json_t *obj, const char *what, const char *key, int64_t *out,
                  struct err *err)
{
    return absent(obj, key) ? 0 : jsonx_get_int(obj, what, key, out, err);
}

int jsonx_opt_bool(const json_t *obj, const char *what, const char *key, bool *out, struct err *err)
{
    return absent(obj, key) ? 0 : jsonx_get_bool(obj, what, key, out, err);
}

int jsonx_only_keys(const json_t *obj, const char *what, const char *const keys[], struct err *err)
{
    if (!json_is_object(obj))
        return err_set(err, ERR_DATA, "%s: must be an object, is %s", what, type_name(obj));
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)obj, key, value)
    {
        size_t i = 0;
        while (keys[i] && strcmp(keys[i], key) != 0)
            i++;
        if (keys[i])
            continue;
        const char *near = str_nearest(key, keys);
        if (near)
            return err_set(err, ERR_DATA, "%s: unknown key '%s'; did you mean '%s'?", what, key,
                           near);
        return err_set(err, ERR_DATA, "%s: unknown key '%s'", what, key);
    }
    return 0;
}

const char *jsonx_str_or(const json_t *obj, const char *key, const char *fallback)
{
    const json_t *value = json_object_get(obj, key);
    return json_is_string(value) ? json_string_value(value) : fallback;
}

int64_t jsonx_int_or(const json_t *obj, const char *key, int64_t fallback)
{
    const json_t *value = json_object_get(obj, key);
    return json_is_integer(value) ? json_integer_value(value) : fallback;
}

bool jsonx_bool_or(const json_t *obj, const char *key, bool fallback)
{
    const json_t *value = json_object_get(obj, key);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

void jsonx_set(json_t *obj, const char *key, json_t *value)
{
    if (!value || json_object_set_new(obj, key, value) != 0)
        abort();
}

/* Length of the valid UTF-8 sequence at text, 0 if there is none; Jansson's own rules decide. */
static size_t sequence_len(const char *text)
{
    size_t most = strnlen(text, 4);
    for (size_t len = 1; len <= most; len++) {
        json_auto_t *value = json_stringn(text, len);
        if (value)
            return len;
    }
    return 0;
}

/* Bytes that are not UTF-8 become '?': a field of the firmware, a file name or a message that was
 * cut inside a character must not stop an agent. */
static json_t *text_value(const char *text)
{
    json_t *value = json_string(text);
    if (value)
        return value;
    AUTO(free_str) char *copy = str_dup(text);
    for (char *p = copy; *p;) {
        size_t len = sequence_len(p);
        if (len == 0)
            *p = '?';
        p += len ? len : 1;
    }
    return json_string(copy);
}

void jsonx_set_str(json_t *obj, const char *key, const char *value)
{
    jsonx_set(obj, key, value ? text_value(value) : json_null());
}

void jsonx_set_int(json_t *obj, const char *key, int64_t value)
{
    jsonx_set(obj, key, json_integer(value));
}

void jsonx_set_num(json_t *obj, const char *key, double value)
{
    jsonx_set(obj, key, json_real(value));
}

void jsonx_set_bool(json_t *obj, const char *key, bool value)
{
    jsonx_set(obj, key, json_boolean(value));
}

void jsonx_append(json_t *arr, json_t *value)
{
    if (!value || json_array_append_new(arr, value) != 0)
        abort();
}

void jsonx_append_str(json_t *arr, const char *value)
{
    jsonx_append(arr, text_value(value));
}
