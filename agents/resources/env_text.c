#include "agents/resources/env_text.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

static const char *const format_names[ENV_FORMAT__COUNT] = {[ENV_FORMAT_UNSET] = "",
                                                            [ENV_FORMAT_NCCL] = "nccl",
                                                            [ENV_FORMAT_PROFILE] = "profile",
                                                            [ENV_FORMAT_SYSTEMD] = "systemd"};

enum env_format env_text_format_find(const char *name)
{
    for (int f = ENV_FORMAT_UNSET + 1; f < ENV_FORMAT__COUNT; f++) {
        if (strcmp(format_names[f], name) == 0)
            return (enum env_format)f;
    }
    return ENV_FORMAT_UNSET;
}

static bool is_variable(const char *name)
{
    if (!isalpha((unsigned char)name[0]) && name[0] != '_')
        return false;
    for (const char *p = name; *p; p++) {
        if (!isalnum((unsigned char)*p) && *p != '_')
            return false;
    }
    return strlen(name) <= 128;
}

/* "15.": a number that the next heading's dot has stuck to. */
static bool is_number_and_dot(const char *value)
{
    size_t digits = strspn(value, "0123456789");
    return digits > 0 && strcmp(value + digits, ".") == 0;
}

int env_text_check(enum env_format format, const char *name, const char *value, struct err *err)
{
    if (!is_variable(name))
        return err_set(err, ERR_USAGE,
                       "'%.60s' is not the name of a variable: letters, digits and '_', no digit "
                       "first",
                       name);
    size_t len = strlen(value);
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)value[i] < 0x20 || value[i] == 0x7f)
            return err_set(err, ERR_USAGE,
                           "the value of %s holds a newline or a control character; two settings "
                           "run together?",
                           name);
    }
    if (is_number_and_dot(value))
        return err_set(err, ERR_USAGE,
                       "the value '%.60s' of %s has a trailing '.'; two settings run together?",
                       value, name);
    if (format != ENV_FORMAT_NCCL)
        return 0;
    if (strpbrk(value, "\"'"))
        return err_set(err, ERR_USAGE,
                       "the value of %s holds a quote, which NCCL would take as a part of it",
                       name);
    if (len > 0 && (isspace((unsigned char)value[0]) || isspace((unsigned char)value[len - 1])))
        return err_set(err, ERR_USAGE,
                       "the value of %s begins or ends with a blank, which NCCL would take as a "
                       "part of it",
                       name);
    return 0;
}

static void put_escaped(struct strbuf *out, const char *value, const char *special,
                        const char *before, const char *after)
{
    for (; *value; value++) {
        bool escape = strchr(special, *value) != NULL;
        strbuf_puts(out, escape ? before : "");
        strbuf_add(out, value, 1);
        strbuf_puts(out, escape ? after : "");
    }
}

static void put_variable(struct strbuf *out, enum env_format format, const char *name,
                         const char *value)
{
    if (format == ENV_FORMAT_NCCL) {
        strbuf_printf(out, "%s=%s\n", name, value);
        return;
    }
    if (format == ENV_FORMAT_PROFILE) {
        strbuf_printf(out, "export %s='", name);
        put_escaped(out, value, "'", "'\\", "'"); /* a quote ends, is escaped, and begins again */
        strbuf_puts(out, "'\n");
        return;
    }
    strbuf_printf(out, "%s=\"", name);
    put_escaped(out, value, "\"\\`$", "\\", "");
    strbuf_puts(out, "\"\n");
}

/* Name that a line assigns to; "" for a comment, a blank line or anything else.  Blanks around the
 * name are forgiven: such a line sets nothing in NCCL, but it was meant to. */
static char *assigned_name(enum env_format format, const char *line, size_t len)
{
    const char *end = line + len, *p = line;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    if (format == ENV_FORMAT_PROFILE && (size_t)(end - p) > 7 && memcmp(p, "export", 6) == 0 &&
        (p[6] == ' ' || p[6] == '\t')) {
        p += 7;
        while (p < end && (*p == ' ' || *p == '\t'))
            p++;
    }
    const char *start = p;
    while (p < end && (isalnum((unsigned char)*p) || *p == '_'))
        p++;
    size_t n = (size_t)(p - start);
    while (p < end && format == ENV_FORMAT_NCCL && (*p == ' ' || *p == '\t'))
        p++;
    bool assigns = n > 0 && p < end && *p == '=';
    return str_printf("%.*s", assigns && n <= 128 ? (int)n : 0, start);
}

char *env_text_merge(enum env_format format, const char *text, const json_t *set)
{
    struct strbuf out = {0};
    strbuf_puts(&out, "");
    json_t *written = json_object();
    while (*text) {
        size_t len = strcspn(text, "\n");
        bool newline = text[len] == '\n';
        AUTO(free_str) char *name = assigned_name(format, text, len);
        const json_t *value = name[0] ? json_object_get(set, name) : NULL;
        if (!value) {
            strbuf_add(&out, text, len);
            strbuf_puts(&out, "\n");
        } else if (!json_object_get(written, name)) {
            json_object_set_new(written, name, json_true());
            if (json_is_string(value))
                put_variable(&out, format, name, json_string_value(value));
        }
        text += len + (newline ? 1 : 0);
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)set, key, value)
    {
        if (json_is_string(value) && !json_object_get(written, key))
            put_variable(&out, format, key, json_string_value(value));
    }
    json_decref(written);
    return out.data;
}
