/* A small matcher for log lines: many patterns, one pass, bounded time.
 *
 * Pattern: text matches itself in either case; a blank matches blanks and tabs, `~` none or more of
 * them; `*` any text; `(a|b)` one of the texts; `{key}` a word, `{key#}` a number (decimal, with a
 * fraction, or 0x...), `{key*}` any text up to what follows; `^` first: at the beginning; `$` last:
 * at the end; `\` takes the next character as it is.  Every pattern needs a literal of at least
 * four characters outside of groups: lines that lack it are passed over.
 *
 * A set belongs to one thread. */
#ifndef MUSTER_VALIDATE_DIAGNOSE_MATCH_H
#define MUSTER_VALIDATE_DIAGNOSE_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MATCH_CAPTURES = 8, MATCH_ANCHOR_BYTES = 4 };

struct match_capture {
    const char *key; /* points into the pattern */
    size_t key_len;
    const char *text; /* points into the line */
    size_t len;
};

struct match_result {
    struct match_capture captures[MATCH_CAPTURES];
    size_t count;
};

struct match_set;

/* patterns stay the caller's and must outlive the set. */
struct match_set *match_create(const char *const patterns[], size_t count);
void match_destroy(struct match_set *set);

/* Calls hit for every pattern that the line holds, in the order of their anchors in the line.  The
 * text is NUL-terminated. */
void match_line(struct match_set *set, const char *text,
                void (*hit)(size_t pattern, const struct match_result *result, void *ctx),
                void *ctx);
/* One pattern against one text, without a set. */
bool match_text(const char *pattern, const char *text, struct match_result *result);
/* True when a line was given up because it needed too many steps. */
bool match_gave_up(const struct match_set *set);

/* The literal that a line must hold for the pattern to match; *len 0 when there is none. */
const char *match_anchor(const char *pattern, size_t *len);
/* Copy a capture; false when there is no such key. */
bool match_get(const struct match_result *result, const char *key, char *out, size_t size);

#endif
