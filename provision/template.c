#include "provision/template.h"

#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "provision/expr.h"

enum { TEXT_SHOWN_BYTES = 60 };

/* Length of the expression behind "${", up to the "}" outside quotes; -1 when it does not close. */
static ssize_t reference_len(const char *s)
{
    char quote = '\0';
    for (ssize_t i = 0; s[i]; i++) {
        if (quote && s[i] == '\\' && s[i + 1])
            i++;
        else if (quote)
            quote = s[i] == quote ? '\0' : quote;
        else if (s[i] == '"' || s[i] == '\'')
            quote = s[i];
        else if (s[i] == '}')
            return i;
    }
    return -1;
}

static int fail(struct err *err, const char *text, size_t len, const char *why)
{
    int shown = len < TEXT_SHOWN_BYTES ? (int)len : TEXT_SHOWN_BYTES;
    return err_set(err, ERR_USAGE, "${%.*s}: %s", shown, text, why);
}

/* Compile what stands at s; *len is the length of the expression. */
static struct expr *compile(const char *s, size_t *len, struct err *err)
{
    ssize_t n = reference_len(s);
    if (n < 0) {
        err_set(err, ERR_USAGE, "'${%.*s' has no closing '}' ('$${' stands for the text '${')",
                TEXT_SHOWN_BYTES, s);
        return NULL;
    }
    *len = (size_t)n;
    AUTO(free_str) char *text = str_printf("%.*s", (int)n, s);
    struct err cause = {0};
    struct expr *e = expr_compile(text, &cause);
    if (!e)
        fail(err, s, *len, cause.text);
    return e;
}

static int evaluate(const char *s, const json_t *scope, size_t *len, json_t **out, struct err *err)
{
    AUTO(expr_release) struct expr *e = compile(s, len, err);
    if (!e)
        return -1;
    json_auto_t *value = NULL;
    struct err cause = {0};
    if (expr_eval(e, scope, &value, &cause) != 0)
        return fail(err, s, *len, cause.text);
    if (json_is_null(value))
        return fail(err, s, *len, "is missing or null");
    *out = STEAL(value);
    return 0;
}

/* A value inside other text. */
static int put_value(struct strbuf *b, const char *s, size_t len, const json_t *value,
                     struct err *err)
{
    if (json_is_object(value) || json_is_array(value))
        return fail(err, s, len, "is a list or a mapping and cannot stand inside text");
    if (json_is_string(value)) {
        strbuf_puts(b, json_string_value(value));
        return 0;
    }
    AUTO(free_str) char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    strbuf_puts(b, text ? text : "");
    return 0;
}

/* scope NULL only checks the form. */
static int expand_text(const char *text, const json_t *scope, json_t **out, struct err *err)
{
    AUTO(strbuf_release) struct strbuf b = {0};
    strbuf_puts(&b, "");
    for (const char *at = text; *at;) {
        if (str_has_prefix(at, "$${")) {
            strbuf_puts(&b, "${");
            at += 3;
            continue;
        }
        if (!str_has_prefix(at, "${")) {
            strbuf_add(&b, at++, 1);
            continue;
        }
        size_t len = 0;
        json_auto_t *value = NULL;
        AUTO(expr_release) struct expr *form = scope ? NULL : compile(at + 2, &len, err);
        if (scope ? evaluate(at + 2, scope, &len, &value, err) != 0 : !form)
            return -1;
        bool whole = at == text && at[len + 3] == '\0';
        if (whole && value) {
            *out = STEAL(value);
            return 0;
        }
        if (value && put_value(&b, at + 2, len, value, err) != 0)
            return -1;
        if (b.len > TEMPLATE_MAX_BYTES)
            return err_set(err, ERR_USAGE, "expands to more than %d bytes", TEMPLATE_MAX_BYTES);
        at += len + 3;
    }
    *out = json_string(b.data);
    return *out ? 0 : err_set(err, ERR_USAGE, "text is not valid UTF-8");
}

static int expand(const json_t *value, const json_t *scope, int depth, json_t **out,
                  struct err *err);

static int expand_object(const json_t *value, const json_t *scope, int depth, json_t **out,
                         struct err *err)
{
    json_auto_t *built = json_object();
    const char *key;
    json_t *member;
    json_object_foreach((json_t *)value, key, member)
    {
        json_t *expanded = NULL;
        if (expand(member, scope, depth + 1, &expanded, err) != 0)
            return err_wrap(err, "%.60s: ", key);
        jsonx_set(built, key, expanded);
    }
    *out = STEAL(built);
    return 0;
}

static int expand_array(const json_t *value, const json_t *scope, int depth, json_t **out,
                        struct err *err)
{
    json_auto_t *built = json_array();
    size_t i;
    json_t *item;
    json_array_foreach(value, i, item)
    {
        json_t *expanded = NULL;
        if (expand(item, scope, depth + 1, &expanded, err) != 0)
            return err_wrap(err, "[%zu]: ", i);
        jsonx_append(built, expanded);
    }
    *out = STEAL(built);
    return 0;
}

static int expand(const json_t *value, const json_t *scope, int depth, json_t **out,
                  struct err *err)
{
    if (depth > TEMPLATE_MAX_DEPTH)
        return err_set(err, ERR_USAGE, "nested more than %d levels deep", TEMPLATE_MAX_DEPTH);
    if (json_is_object(value))
        return expand_object(value, scope, depth, out, err);
    if (json_is_array(value))
        return expand_array(value, scope, depth, out, err);
    if (json_is_string(value))
        return expand_text(json_string_value(value), scope, out, err);
    *out = json_incref((json_t *)value);
    return 0;
}

int template_expand(const json_t *value, const json_t *scope, json_t **out, struct err *err)
{
    return expand(value, scope, 0, out, err);
}

int template_check(const json_t *value, struct err *err)
{
    json_auto_t *ignored = NULL;
    return expand(value, NULL, 0, &ignored, err);
}
