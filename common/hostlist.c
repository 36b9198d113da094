#include "common/hostlist.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

enum {
    MAX_NAME_BYTES = 253,  /* of a DNS name */
    MAX_RANGE_DIGITS = 15, /* fits 63 bits with room to spare */
    MAX_PARTS = 32,        /* texts and groups of one name */
    MAX_TEXT_SHOWN = 128,  /* of a bad list in a message */
};

/* One piece of a name: a text, or a bracket group as the list of its alternatives. */
struct part {
    struct hostlist choices; /* one for a text */
};

struct parser {
    const char *text, *at;
    struct part parts[MAX_PARTS]; /* of the name that is being read */
    size_t part_count;
    size_t total; /* product of the choices so far */
    struct err *err;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_char(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '.' || c == '_';
}

static bool is_separator(char c)
{
    return c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void add_owned(struct hostlist *list, char *name)
{
    /* The array doubles whenever the count reaches a power of two. */
    if ((list->count & (list->count - 1)) == 0)
        list->names = mem_grow(list->names, list->count ? list->count * 2 : 1, sizeof(char *));
    list->names[list->count++] = name;
}

void hostlist_add(struct hostlist *list, const char *name)
{
    add_owned(list, str_dup(name));
}

void hostlist_release(struct hostlist *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->names[i]);
    free(list->names);
    *list = (struct hostlist){0};
}

static int fail(struct parser *p, const char *at, const char *what)
{
    return err_set(p->err, ERR_DATA, "host list '%.*s': %s at character %zu", MAX_TEXT_SHOWN,
                   p->text, what, (size_t)(at - p->text) + 1);
}

static int fail_char(struct parser *p, const char *where)
{
    unsigned char c = (unsigned char)*p->at;
    char what[64];
    if (c < 0x20 || c > 0x7e)
        snprintf(what, sizeof what, "byte 0x%02x is not allowed %s", c, where);
    else
        snprintf(what, sizeof what, "'%c' is not allowed %s", c, where);
    return fail(p, p->at, what);
}

static int fail_limit(struct parser *p, const char *at)
{
    char what[64];
    snprintf(what, sizeof what, "more than %d hosts", HOSTLIST_MAX_HOSTS);
    return fail(p, at, what);
}

/* A run of digits.  Width is its length, so that 001 is told from 1. */
struct number {
    int64_t value;
    int width;
};

static int read_number(struct parser *p, struct number *n)
{
    const char *start = p->at;
    *n = (struct number){0};
    for (; is_digit(*p->at); p->at++, n->width++) {
        if (n->width == MAX_RANGE_DIGITS)
            return fail(p, start, "number of more than 15 digits");
        n->value = n->value * 10 + (*p->at - '0');
    }
    if (n->width > 0)
        return 0;
    switch (*p->at) {
    case '\0':
        return fail(p, p->at, "unclosed '['");
    case '[':
        return fail(p, p->at, "'[' inside '[...]'");
    case ',':
    case ']':
    case '-':
        return fail(p, p->at, "empty range");
    default:
        return fail_char(p, "inside '[...]'");
    }
}

/* "7" or "001-004". */
static int read_range(struct parser *p, struct hostlist *choices)
{
    const char *start = p->at;
    struct number low, high;
    if (read_number(p, &low) < 0)
        return -1;
    high = low;
    if (*p->at == '-') {
        p->at++;
        const char *second = p->at;
        if (read_number(p, &high) < 0)
            return -1;
        if (high.value < low.value)
            return fail(p, start, "descending range");
        /* Tools read [1-010] differently; nobody writes it on purpose. */
        if (*second == '0' && high.width > 1 && high.width != low.width)
            return fail(p, start, "range whose ends are padded differently");
    }
    if (high.value - low.value >= HOSTLIST_MAX_HOSTS - (int64_t)choices->count)
        return fail_limit(p, start);
    for (int64_t i = low.value; i <= high.value; i++)
        add_owned(choices, str_printf("%0*lld", low.width, (long long)i));
    return 0;
}

/* p->at is behind the '['. */
static int read_group(struct parser *p, struct hostlist *choices)
{
    const char *open = p->at - 1;
    for (;;) {
        if (read_range(p, choices) < 0)
            return -1;
        char c = *p->at;
        if (c == '\0')
            return fail(p, open, "unclosed '['");
        if (c == '[')
            return fail(p, p->at, "'[' inside '[...]'");
        if (c != ',' && c != ']')
            return fail_char(p, "inside '[...]'");
        p->at++;
        if (c == ']')
            return 0;
    }
}

static int read_part(struct parser *p)
{
    if (p->part_count == MAX_PARTS)
        return fail(p, p->at, "too many '[...]' in one name");
    struct hostlist *choices = &p->parts[p->part_count++].choices;
    if (*p->at == '[') {
        p->at++;
        return read_group(p, choices);
    }
    const char *start = p->at;
    while (is_name_char(*p->at))
        p->at++;
    if (p->at == start) {
        if (*p->at == ']')
            return fail(p, p->at, "']' without '['");
        return fail_char(p, "in a host name");
    }
    add_owned(choices, str_printf("%.*s", (int)(p->at - start), start));
    return 0;
}

/* Names become file names and arguments of ssh: "..", "-oProxyCommand=x" must never come out. */
static const char *name_fault(const char *name)
{
    if (strlen(name) > MAX_NAME_BYTES)
        return "host name of more than 253 characters";
    if (name[0] == '-')
        return "host name that begins with '-'";
    if (name[0] == '.' || strstr(name, "..") || str_has_suffix(name, "."))
        return "host name with an empty label (a '.' too many)";
    return NULL;
}

/* Appends the cross product of the parts; the last part runs fastest. */
static int expand(struct parser *p, const char *start, struct hostlist *list)
{
    size_t index[MAX_PARTS] = {0};
    for (size_t n = 0; n < p->total; n++) {
        struct strbuf name = {0};
        strbuf_puts(&name, "");
        for (size_t i = 0; i < p->part_count; i++)
            strbuf_puts(&name, p->parts[i].choices.names[index[i]]);
        add_owned(list, name.data);
        const char *fault = name_fault(name.data);
        if (fault)
            return fail(p, start, fault);
        for (size_t i = p->part_count; i-- > 0;) {
            if (++index[i] < p->parts[i].choices.count)
                break;
            index[i] = 0;
        }
    }
    return 0;
}

static int read_name(struct parser *p, struct hostlist *list)
{
    const char *start = p->at;
    int rc = 0;
    p->total = 1;
    while (rc == 0 && *p->at != '\0' && !is_separator(*p->at)) {
        rc = read_part(p);
        /* Checked with each group, so that a hostile list cannot take much memory. */
        if (rc == 0) {
            p->total *= p->parts[p->part_count - 1].choices.count;
            if (p->total > HOSTLIST_MAX_HOSTS - list->count)
                rc = fail_limit(p, start);
        }
    }
    if (rc == 0)
        rc = expand(p, start, list);
    for (size_t i = 0; i < p->part_count; i++)
        hostlist_release(&p->parts[i].choices);
    p->part_count = 0;
    return rc;
}

int hostlist_parse(const char *text, struct hostlist *list, struct err *err)
{
    struct parser p = {.text = text, .at = text, .err = err};
    for (;;) {
        while (is_separator(*p.at))
            p.at++;
        if (*p.at == '\0')
            return 0;
        if (read_name(&p, list) < 0) {
            hostlist_release(list);
            return -1;
        }
    }
}

/* Pointers into list->names: order by name, then by place. */
static int by_name(const void *a, const void *b)
{
    char *const *x = *(char *const *const *)a, *const *y = *(char *const *const *)b;
    int order = strcmp(*x, *y);
    return order ? order : (x > y) - (x < y);
}

const char *hostlist_duplicate(const struct hostlist *list)
{
    if (list->count < 2)
        return NULL;
    char *const **sorted = mem_zero(list->count, sizeof *sorted);
    for (size_t i = 0; i < list->count; i++)
        sorted[i] = &list->names[i];
    qsort(sorted, list->count, sizeof *sorted, by_name);
    char *const *first = NULL;
    for (size_t i = 1; i < list->count; i++)
        if (strcmp(*sorted[i - 1], *sorted[i]) == 0 && (!first || sorted[i] < first))
            first = sorted[i];
    free(sorted);
    return first ? *first : NULL;
}

int hostlist_has(const struct hostlist *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->names[i], name) == 0)
            return 1;
    return 0;
}
