#include "common/util.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void free_str(char **s)
{
    free(*s);
    *s = NULL;
}

void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static int64_t clock_read_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t now_ns(void)
{
    return clock_read_ns(CLOCK_MONOTONIC);
}

int64_t now_ms(void)
{
    return now_ns() / 1000000;
}

int64_t wall_ms(void)
{
    return clock_read_ns(CLOCK_REALTIME) / 1000000;
}

void time_format(int64_t unix_ms, char out[static 25])
{
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    char date[20];
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out, 25, "%.19s.%03uZ", date, (unsigned)(unix_ms % 1000) % 1000U);
}

int time_parse(const char *text, int64_t *unix_ms)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!rest)
        return -1;
    int64_t ms = 0;
    if (*rest == '.') {
        int digits = 0;
        for (rest++; *rest >= '0' && *rest <= '9'; rest++, digits++)
            if (digits < 3)
                ms = ms * 10 + (*rest - '0');
        if (digits == 0)
            return -1;
        for (; digits < 3; digits++)
            ms *= 10;
    }
    if (strcmp(rest, "Z") != 0)
        return -1;
    /* strptime() takes "2026-02-30", single digits and leading blanks; what it read must be what is
     * written. */
    int64_t value = (int64_t)timegm(&tm) * 1000 + ms;
    char written[25];
    time_format(value, written);
    if (strncmp(written, text, strlen("2026-11-30T08:00:00")) != 0)
        return -1;
    *unix_ms = value;
    return 0;
}

char *str_printf(const char *fmt, ...)
{
    char *s = NULL;
    va_list args;
    va_start(args, fmt);
    int len = vasprintf(&s, fmt, args);
    va_end(args);
    if (len < 0)
        abort();
    return s;
}

char *str_dup(const char *s)
{
    char *copy = strdup(s);
    if (!copy)
        abort();
    return copy;
}

bool str_has_prefix(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_has_suffix(const char *s, const char *suffix)
{
    size_t len = strlen(s), tail = strlen(suffix);
    return len >= tail && strcmp(s + len - tail, suffix) == 0;
}

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Edits that turn a into b, where two neighbours that changed places count as one (the usual slip
 * of the fingers); at most 63 characters, longer words count as far apart. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b), rows[3][64];
    if (na > 63 || nb > 63)
        return 64;
    for (size_t j = 0; j <= nb; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            row[j] = min3(row[j - 1] + 1, above[j] + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && above2[j - 2] + 1 < row[j])
                row[j] = above2[j - 2] + 1;
        }
    }
    return rows[na % 3][nb];
}

const char *str_nearest(const char *word, const char *const candidates[])
{
    size_t limit = strlen(word) / 3;
    if (limit < 1)
        limit = 1;
    const char *best = NULL;
    for (size_t i = 0; candidates[i]; i++) {
        size_t distance = edit_distance(word, candidates[i]);
        if (distance <= limit) {
            limit = distance > 0 ? distance - 1 : 0;
            best = candidates[i];
            if (distance == 0)
                break;
        }
    }
    return best;
}

void *mem_grow(void *p, size_t count, size_t size)
{
    void *grown = reallocarray(p, count ? count : 1, size);
    if (!grown)
        abort();
    return grown;
}

void *mem_zero(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    if (!p)
        abort();
    return p;
}

void strbuf_add(struct strbuf *b, const void *data, size_t len)
{
    if (b->len + len + 1 > b->cap) {
        size_t cap = b->cap ? b->cap : 256;
        while (cap < b->len + len + 1)
            cap *= 2;
        b->data = mem_grow(b->data, cap, 1);
        b->cap = cap;
    }
    if (len)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void strbuf_puts(struct strbuf *b, const char *s)
{
    strbuf_add(b, s, strlen(s));
}

void strbuf_printf(struct strbuf *b, const char *fmt, ...)
{
    char *s = NULL;
    va_list args;
    va_start(args, fmt);
    int len = vasprintf(&s, fmt, args);
    va_end(args);
    if (len < 0)
        abort();
    strbuf_add(b, s, (size_t)len);
    free(s);
}

void strbuf_drop_front(struct strbuf *b, size_t len)
{
    if (len >= b->len) {
        b->len = 0;
        if (b->data)
            b->data[0] = '\0';
        return;
    }
    memmove(b->data, b->data + len, b->len - len + 1);
    b->len -= len;
}

void strbuf_release(struct strbuf *b)
{
    free(b->data);
    *b = (struct strbuf){0};
}
