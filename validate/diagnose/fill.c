/* Sentences from rows: placeholders, optional parts. */
#include "validate/diagnose/diag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

enum { JOINED_MAX = 8, DEPTH_MAX = 4 };

struct fill {
    const struct diag *d;
    const enum diag_id *first;
    size_t count;
};

static bool has_value(char *const values[], size_t count, const char *value)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(values[i], value) == 0)
            return true;
    return false;
}

/* All different values of the key among the hits: "a, b and 3 more". */
static bool join(const struct diag_finding *f, const char *key, struct strbuf *out)
{
    char *values[DIAG_KEPT];
    size_t count = 0;
    for (size_t i = 0; i < f->kept; i++) {
        const char *value = diag_value(&f->hits[i], key);
        if (value && !has_value(values, count, value))
            values[count++] = str_dup(value);
    }
    size_t shown = count > JOINED_MAX ? JOINED_MAX - 1 : count;
    for (size_t i = 0; i < shown; i++)
        strbuf_printf(out, "%s%s", i == 0 ? "" : i + 1 == count ? " and " : ", ", values[i]);
    if (count > shown)
        strbuf_printf(out, " and %zu%s more", count - shown, f->kept == DIAG_KEPT ? " or" : "");
    for (size_t i = 0; i < count; i++)
        free(values[i]);
    return count > 0;
}

static bool from_finding(const struct fill *fill, enum diag_id id, const char *key, bool all,
                         struct strbuf *out)
{
    const struct diag_finding *f = &fill->d->found[id];
    if (strcmp(key, "seen") == 0)
        return f->seen > 0;
    if (all)
        return join(f, key, out);
    for (size_t i = 0; i < f->kept; i++) {
        const char *value = diag_value(&f->hits[i], key);
        if (value) {
            strbuf_puts(out, value);
            return true;
        }
    }
    return false;
}

/* name is what stands between the braces. */
static bool put_value(const struct fill *fill, const char *name, size_t len, struct strbuf *out)
{
    const char *bar = memchr(name, '|', len);
    size_t main_len = bar ? (size_t)(bar - name) : len;
    bool all = main_len > 0 && name[main_len - 1] == '+', found = false;
    main_len -= all;
    const char *dot = memchr(name, '.', main_len);
    const char *start = dot ? dot + 1 : name;
    char key[32];
    snprintf(key, sizeof key, "%.*s", (int)(main_len - (size_t)(start - name)), start);
    if (dot) {
        enum diag_id id = diag_id_find(name, (size_t)(dot - name));
        found = id != DIAG_ID__COUNT && from_finding(fill, id, key, all, out);
    }
    for (size_t i = 0; !dot && !found && i < fill->count; i++)
        found = from_finding(fill, fill->first[i], key, all, out);
    if (!found && bar) {
        strbuf_add(out, bar + 1, len - main_len - all - 1);
        return true;
    }
    return found;
}

static const char *put_text(const struct fill *fill, const char *p, int depth, struct strbuf *out,
                            bool *whole);

/* "[[with||without]]"; p stands behind the opening brackets. */
static const char *put_optional(const struct fill *fill, const char *p, int depth,
                                struct strbuf *out)
{
    struct strbuf with = {0}, without = {0};
    bool whole = true, unused = true;
    p = put_text(fill, p, depth + 1, &with, &whole);
    if (strncmp(p, "||", 2) == 0)
        p = put_text(fill, p + 2, depth + 1, &without, &unused);
    const struct strbuf *chosen = whole ? &with : &without;
    if (chosen->len)
        strbuf_add(out, chosen->data, chosen->len);
    strbuf_release(&with);
    strbuf_release(&without);
    return strncmp(p, "]]", 2) == 0 ? p + 2 : p;
}

/* Up to the end of the part; *whole turns false when a value is missing. */
static const char *put_text(const struct fill *fill, const char *p, int depth, struct strbuf *out,
                            bool *whole)
{
    while (*p && !(depth > 0 && (strncmp(p, "]]", 2) == 0 || strncmp(p, "||", 2) == 0))) {
        if (strncmp(p, "[[", 2) == 0 && depth < DEPTH_MAX) {
            p = put_optional(fill, p + 2, depth, out);
            continue;
        }
        const char *end = *p == '{' ? strchr(p, '}') : NULL;
        if (end) {
            if (!put_value(fill, p + 1, (size_t)(end - p - 1), out))
                *whole = false;
            p = end + 1;
            continue;
        }
        strbuf_add(out, p++, 1);
    }
    return p;
}

char *diag_fill(const struct diag *d, const char *form, const enum diag_id *first, size_t count)
{
    struct fill fill = {d, first, count};
    struct strbuf out = {0};
    bool whole = true;
    put_text(&fill, form, 0, &out, &whole);
    if (!out.data)
        strbuf_puts(&out, "");
    return out.data;
}
