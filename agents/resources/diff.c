#include "agents/resources/diff.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"

enum { CONTEXT_LINES = 3 };

struct line {
    const char *text;
    size_t len; /* without the newline */
    bool newline;
};

struct lines {
    struct line *at;
    size_t count;
};

/* What becomes of a line, in the order of output. */
struct edit {
    char mark; /* ' ', '-', '+' */
    const struct line *line;
};

struct script {
    struct edit *at;
    size_t count;
};

/* Length of the UTF-8 sequence at p, 0 if it is none or a control character. */
static size_t utf8_step(const unsigned char *p, size_t left)
{
    static const struct {
        unsigned char lo, hi, mask;
        size_t len;
        uint32_t min;
    } forms[] = {
        {0xc2, 0xdf, 0x1f, 2, 0x80}, {0xe0, 0xef, 0x0f, 3, 0x800}, {0xf0, 0xf4, 7, 4, 0x10000}};
    if (p[0] < 0x80)
        return p[0] >= 0x20 || p[0] == '\n' || p[0] == '\t' || p[0] == '\r';
    for (size_t f = 0; f < ARRAY_LEN(forms); f++) {
        if (p[0] < forms[f].lo || p[0] > forms[f].hi || left < forms[f].len)
            continue;
        uint32_t c = p[0] & forms[f].mask;
        for (size_t i = 1; i < forms[f].len; i++) {
            if ((p[i] & 0xc0) != 0x80)
                return 0;
            c = c << 6 | (p[i] & 0x3fU);
        }
        bool surrogate = c >= 0xd800 && c <= 0xdfff;
        return c >= forms[f].min && c <= 0x10ffff && !surrogate ? forms[f].len : 0;
    }
    return 0;
}

static bool is_text(const char *data, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t step = utf8_step((const unsigned char *)data + i, len - i);
        if (step == 0)
            return false;
        i += step;
    }
    return true;
}

static struct lines split(const char *data, size_t len)
{
    struct lines out = {0};
    size_t cap = 0;
    for (size_t i = 0; i < len;) {
        const char *nl = memchr(data + i, '\n', len - i);
        size_t n = nl ? (size_t)(nl - data) - i : len - i;
        if (out.count == cap) {
            cap = cap ? cap * 2 : 64;
            out.at = mem_grow(out.at, cap, sizeof *out.at);
        }
        out.at[out.count++] = (struct line){data + i, n, nl != NULL};
        i += n + (nl ? 1 : 0);
    }
    return out;
}

static bool same(const struct line *a, const struct line *b)
{
    return a->len == b->len && a->newline == b->newline && memcmp(a->text, b->text, a->len) == 0;
}

static void push(struct script *s, char mark, const struct line *line)
{
    s->at[s->count++] = (struct edit){mark, line};
}

/* Edits of the middle part, by the longest common subsequence. */
static void edit_middle(struct script *s, const struct line *a, size_t na, const struct line *b,
                        size_t nb)
{
    size_t i = 0, j = 0;
    uint32_t *longest = NULL;
    if (na > 0 && nb > 0 && nb < DIFF_MAX_CELLS / na) {
        longest = mem_zero((na + 1) * (nb + 1), sizeof *longest);
        for (size_t x = na; x-- > 0;) {
            for (size_t y = nb; y-- > 0;) {
                uint32_t down = longest[(x + 1) * (nb + 1) + y];
                uint32_t right = longest[x * (nb + 1) + y + 1];
                longest[x * (nb + 1) + y] = same(&a[x], &b[y])
                                                ? longest[(x + 1) * (nb + 1) + y + 1] + 1
                                                : (down > right ? down : right);
            }
        }
    }
    while (longest && i < na && j < nb) {
        if (same(&a[i], &b[j])) {
            push(s, ' ', &a[i++]);
            j++;
        } else if (longest[(i + 1) * (nb + 1) + j] >= longest[i * (nb + 1) + j + 1]) {
            push(s, '-', &a[i++]);
        } else {
            push(s, '+', &b[j++]);
        }
    }
    while (i < na)
        push(s, '-', &a[i++]);
    while (j < nb)
        push(s, '+', &b[j++]);
    free(longest);
}

static struct script compare(const struct lines *a, const struct lines *b)
{
    struct script s = {.at = mem_zero(a->count + b->count + 1, sizeof(struct edit))};
    size_t head = 0, tail = 0;
    while (head < a->count && head < b->count && same(&a->at[head], &b->at[head]))
        push(&s, ' ', &a->at[head++]);
    size_t na = a->count - head, nb = b->count - head;
    while (tail < na && tail < nb && same(&a->at[a->count - 1 - tail], &b->at[b->count - 1 - tail]))
        tail++;
    edit_middle(&s, a->at + head, na - tail, b->at + head, nb - tail);
    for (size_t i = a->count - tail; i < a->count; i++)
        push(&s, ' ', &a->at[i]);
    return s;
}

/* "start,count" as unified diffs write it: the line before for an empty range, no ",1". */
static void put_range(struct strbuf *out, char mark, size_t before, size_t count)
{
    strbuf_printf(out, "%c%zu", mark, count ? before + 1 : before);
    if (count != 1)
        strbuf_printf(out, ",%zu", count);
}

static void put_hunk(struct strbuf *out, const struct script *s, size_t from, size_t to,
                     const size_t start[2])
{
    size_t count[2] = {0, 0};
    for (size_t i = from; i < to; i++) {
        count[0] += s->at[i].mark != '+';
        count[1] += s->at[i].mark != '-';
    }
    strbuf_puts(out, "@@ ");
    put_range(out, '-', start[0], count[0]);
    strbuf_puts(out, " ");
    put_range(out, '+', start[1], count[1]);
    strbuf_puts(out, " @@\n");
    for (size_t i = from; i < to; i++) {
        strbuf_add(out, &s->at[i].mark, 1);
        strbuf_add(out, s->at[i].line->text, s->at[i].line->len);
        strbuf_puts(out, s->at[i].line->newline ? "\n" : "\n\\ No newline at end of file\n");
    }
}

/* End of the hunk whose first change is at `change`: changes closer than twice the context join. */
static size_t hunk_end(const struct script *s, size_t change)
{
    size_t last = change;
    for (size_t i = change; i < s->count && i <= last + 2 * (size_t)CONTEXT_LINES; i++) {
        if (s->at[i].mark != ' ')
            last = i;
    }
    size_t end = last + 1 + CONTEXT_LINES;
    return end < s->count ? end : s->count;
}

static void put_hunks(struct strbuf *out, const struct script *s)
{
    size_t done[2] = {0, 0}; /* lines of each side before `at` */
    size_t at = 0;
    for (size_t i = 0; i < s->count;) {
        if (s->at[i].mark == ' ') {
            i++;
            continue;
        }
        size_t from = i > CONTEXT_LINES && i - CONTEXT_LINES > at ? i - CONTEXT_LINES : at;
        for (; at < from; at++) {
            done[0]++;
            done[1]++;
        }
        size_t end = hunk_end(s, i);
        put_hunk(out, s, from, end, done);
        for (; at < end; at++) {
            done[0] += s->at[at].mark != '+';
            done[1] += s->at[at].mark != '-';
        }
        i = end;
    }
}

static void describe(struct strbuf *out, const char *path, const char *data, size_t len)
{
    struct hash h = hash_of(data, len);
    char hex[HASH_HEX_BYTES];
    hash_hex(&h, hex);
    if (path)
        strbuf_printf(out, "%zu bytes (sha256 %.12s)", len, hex);
    else
        strbuf_puts(out, "absent");
}

/* Cut behind the last whole line that fits. */
static void limit(struct strbuf *out, size_t start)
{
    if (out->len - start <= DIFF_MAX_BYTES)
        return;
    size_t total = out->len - start, keep = start + DIFF_MAX_BYTES;
    while (keep > start && out->data[keep - 1] != '\n')
        keep--;
    out->len = keep;
    out->data[keep] = '\0';
    strbuf_printf(out, "... cut: the whole difference has %zu bytes\n", total);
}

void diff_files(struct strbuf *out, const char *old_path, const char *old_data, size_t old_len,
                const char *new_path, const char *new_data, size_t new_len)
{
    size_t start = out->len;
    if (old_len == new_len && (old_len == 0 || memcmp(old_data, new_data, old_len) == 0))
        return;
    if (!is_text(old_data, old_len) || !is_text(new_data, new_len)) {
        strbuf_printf(out, "%s: binary content: ", old_path ? old_path : new_path);
        describe(out, old_path, old_data, old_len);
        strbuf_puts(out, " -> ");
        describe(out, new_path, new_data, new_len);
        strbuf_puts(out, "\n");
        return;
    }
    struct lines a = split(old_data, old_len), b = split(new_data, new_len);
    struct script s = compare(&a, &b);
    strbuf_printf(out, "--- %s\n+++ %s\n", old_path ? old_path : "/dev/null",
                  new_path ? new_path : "/dev/null");
    put_hunks(out, &s);
    limit(out, start);
    free(s.at);
    free(a.at);
    free(b.at);
}
