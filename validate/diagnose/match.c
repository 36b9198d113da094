#include "validate/diagnose/match.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

enum {
    BUCKET_BITS = 12,
    BUCKETS = 1 << BUCKET_BITS,
    STEPS_PER_TRY = 60000,
    STEPS_IN_ALL = 600000000
};

struct slot {
    char *anchor; /* in lower case */
    size_t anchor_len, next;
    uint64_t tried; /* serial of the last line that it was tried on */
};

struct match_set {
    const char *const *patterns;
    struct slot *slots;
    size_t *buckets; /* index of a slot plus one, 0 for none */
    size_t count;
    char *lowered; /* the line at hand */
    size_t lowered_size;
    uint64_t serial, steps_left;
    bool gave_up;
};

struct state {
    const char *text; /* whole line */
    struct match_result *result;
    size_t steps;
    bool cut; /* nothing can match any more */
};

static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_word(char c)
{
    return isgraph((unsigned char)c) && !strchr(",;()[]<>{}\"'`|", c);
}

static bool is_special(char c)
{
    return c && strchr(" ~*({^$\\", c) != NULL;
}

const char *match_anchor(const char *pattern, size_t *len)
{
    const char *best = pattern;
    *len = 0;
    for (const char *p = pattern; *p;) {
        const char *start = p;
        while (*p && !is_special(*p))
            p++;
        if ((size_t)(p - start) > *len) {
            best = start;
            *len = (size_t)(p - start);
        }
        if (*p == '(' || *p == '{') {
            const char *end = strchr(p, *p == '(' ? ')' : '}');
            p = end ? end + 1 : p + strlen(p);
        } else if (*p == '\\' && p[1]) {
            p += 2;
        } else if (*p) {
            p++;
        }
    }
    return best;
}

static size_t bucket_of(const char *p)
{
    uint32_t word;
    _Static_assert(sizeof word == MATCH_ANCHOR_BYTES, "one word is hashed");
    memcpy(&word, p, sizeof word);
    return (word * 2654435761u) >> (32 - BUCKET_BITS);
}

struct match_set *match_create(const char *const patterns[], size_t count)
{
    struct match_set *set = mem_zero(1, sizeof *set);
    set->patterns = patterns;
    set->count = count;
    set->slots = mem_zero(count ? count : 1, sizeof *set->slots);
    set->buckets = mem_zero(BUCKETS, sizeof *set->buckets);
    set->steps_left = STEPS_IN_ALL;
    for (size_t i = count; i-- > 0;) {
        struct slot *slot = &set->slots[i];
        const char *anchor = match_anchor(patterns[i], &slot->anchor_len);
        if (slot->anchor_len < MATCH_ANCHOR_BYTES)
            continue;
        slot->anchor = mem_zero(slot->anchor_len + 1, 1);
        for (size_t k = 0; k < slot->anchor_len; k++)
            slot->anchor[k] = (char)lower(anchor[k]);
        size_t bucket = bucket_of(slot->anchor);
        slot->next = set->buckets[bucket];
        set->buckets[bucket] = i + 1;
    }
    return set;
}

void match_destroy(struct match_set *set)
{
    if (!set)
        return;
    for (size_t i = 0; i < set->count; i++)
        free(set->slots[i].anchor);
    free(set->slots);
    free(set->buckets);
    free(set->lowered);
    free(set);
}

static bool match_here(struct state *s, const char *p, const char *t);

static void capture(struct state *s, size_t at, const char *key, size_t key_len, const char *text,
                    size_t len)
{
    if (at >= MATCH_CAPTURES)
        return;
    while (len > 1 && strchr(".:,", text[len - 1]))
        len--;
    s->result->captures[at] = (struct match_capture){key, key_len, text, len};
    if (s->result->count <= at)
        s->result->count = at + 1;
}

/* Any text, then the rest.  The leftmost place where the rest fits is as good as any other, so a
 * failure here is final: that keeps the time linear in the number of stars. */
static bool match_star(struct state *s, const char *rest, const char *t, const char *key,
                       size_t key_len)
{
    size_t at = s->result->count;
    if (key)
        s->result->count++;
    if (!*rest) {
        if (key)
            capture(s, at, key, key_len, t, strlen(t));
        return true;
    }
    for (const char *u = t;; u++) {
        s->result->count = at + (key ? 1 : 0);
        if (match_here(s, rest, u)) {
            if (key)
                capture(s, at, key, key_len, t, (size_t)(u - t));
            return true;
        }
        if (!*u || s->cut)
            break;
    }
    s->cut = true;
    return false;
}

static size_t number_len(const char *t)
{
    const char *p = t;
    if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X') && isxdigit((unsigned char)p[2])) {
        p += 2;
        while (isxdigit((unsigned char)*p))
            p++;
        return (size_t)(p - t);
    }
    while (isdigit((unsigned char)*p))
        p++;
    if (p > t && *p == '.' && isdigit((unsigned char)p[1]))
        for (p++; isdigit((unsigned char)*p);)
            p++;
    return (size_t)(p - t);
}

static bool match_brace(struct state *s, const char *p, const char *t)
{
    const char *key = p + 1, *end = strchr(p, '}');
    if (!end || end == key)
        return false;
    char kind = end[-1];
    size_t key_len = (size_t)(end - key) - (kind == '*' || kind == '#');
    if (kind == '*')
        return match_star(s, end + 1, t, key, key_len);
    size_t at = s->result->count, len = 0;
    if (kind == '#')
        len = number_len(t);
    else
        while (len < 256 && is_word(t[len]))
            len++;
    for (; len > 0 && !s->cut; len--) {
        s->result->count = at;
        capture(s, at, key, key_len, t, len);
        if (match_here(s, end + 1, t + len))
            return true;
        if (kind == '#')
            break;
    }
    s->result->count = at;
    return false;
}

static bool match_group(struct state *s, const char *p, const char *t)
{
    const char *end = strchr(p, ')');
    if (!end)
        return false;
    size_t count = s->result->count;
    for (const char *choice = p + 1; choice <= end;) {
        size_t len = strcspn(choice, "|)");
        size_t i = 0;
        while (i < len && t[i] && lower(choice[i]) == lower(t[i]))
            i++;
        s->result->count = count;
        if (i == len && match_here(s, end + 1, t + len))
            return true;
        if (s->cut)
            return false;
        choice += len + 1;
    }
    return false;
}

static bool match_here(struct state *s, const char *p, const char *t)
{
    for (;;) {
        if (++s->steps > STEPS_PER_TRY)
            s->cut = true;
        if (s->cut)
            return false;
        if (!*p)
            return true;
        if (*p == '*')
            return match_star(s, p + 1, t, NULL, 0);
        if (*p == '{')
            return match_brace(s, p, t);
        if (*p == '(')
            return match_group(s, p, t);
        if (*p == '$' && !p[1])
            return t[strspn(t, " \t")] == '\0';
        if (*p == ' ' || *p == '~') {
            if (*p == ' ' && !is_blank(*t))
                return false;
            while (is_blank(*t))
                t++;
            p++;
            continue;
        }
        if (*p == '\\' && p[1])
            p++;
        if (!*t || lower(*p) != lower(*t))
            return false;
        p++;
        t++;
    }
}

static bool search(const char *pattern, const char *text, struct match_result *result,
                   size_t *steps)
{
    struct state s = {.text = text, .result = result};
    bool found = false;
    if (pattern[0] == '^') {
        result->count = 0;
        found = match_here(&s, pattern + 1, text);
    } else {
        bool plain = *pattern && !is_special(*pattern);
        for (const char *t = text; !found && !s.cut; t++) {
            while (plain && *t && lower(*t) != lower(*pattern))
                t++;
            result->count = 0;
            found = match_here(&s, pattern, t);
            if (!*t)
                break;
        }
    }
    *steps = s.steps;
    return found;
}

bool match_text(const char *pattern, const char *text, struct match_result *result)
{
    struct match_result unused;
    size_t steps;
    return search(pattern, text, result ? result : &unused, &steps);
}

static void take_lowered(struct match_set *set, const char *text, size_t len)
{
    if (len + 1 > set->lowered_size) {
        set->lowered_size = len + 1;
        set->lowered = mem_grow(set->lowered, set->lowered_size, 1);
    }
    for (size_t i = 0; i <= len; i++)
        set->lowered[i] = (char)lower(text[i]);
}

void match_line(struct match_set *set, const char *text,
                void (*hit)(size_t pattern, const struct match_result *result, void *ctx),
                void *ctx)
{
    size_t len = strlen(text);
    set->serial++;
    take_lowered(set, text, len);
    const char *low = set->lowered;
    for (size_t i = 0; i + MATCH_ANCHOR_BYTES <= len; i++) {
        for (size_t at = set->buckets[bucket_of(low + i)]; at != 0;) {
            struct slot *slot = &set->slots[at - 1];
            size_t index = at - 1;
            at = slot->next;
            if (slot->tried == set->serial || slot->anchor_len > len - i ||
                memcmp(slot->anchor, low + i, slot->anchor_len) != 0)
                continue;
            slot->tried = set->serial;
            struct match_result result = {.count = 0};
            size_t steps = 0;
            if (set->steps_left == 0) {
                set->gave_up = true;
                return;
            }
            bool found = search(set->patterns[index], text, &result, &steps);
            if (steps > STEPS_PER_TRY)
                set->gave_up = true;
            set->steps_left -= steps < set->steps_left ? steps : set->steps_left;
            if (found)
                hit(index, &result, ctx);
        }
    }
}

bool match_gave_up(const struct match_set *set)
{
    return set->gave_up;
}

bool match_get(const struct match_result *result, const char *key, char *out, size_t size)
{
    for (size_t i = 0; i < result->count; i++) {
        const struct match_capture *c = &result->captures[i];
        if (c->key_len == strlen(key) && strncmp(c->key, key, c->key_len) == 0) {
            snprintf(out, size, "%.*s", (int)c->len, c->text);
            return true;
        }
    }
    return false;
}
