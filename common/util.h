/* Small things every layer uses: scope-bound release, time, strings. */
#ifndef MUSTER_COMMON_UTIL_H
#define MUSTER_COMMON_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof *(a))

/* `AUTO(free_str) char *s = ...;` releases s when the scope ends; STEAL() hands it out. */
#define AUTO(fn) __attribute__((cleanup(fn)))
#define STEAL(p)                                                                                   \
    __extension__({                                                                                \
        __typeof__(p) stolen_ = (p);                                                               \
        (p) = NULL;                                                                                \
        stolen_;                                                                                   \
    })

void free_str(char **s);
void close_fd(int *fd); /* closes if >= 0, sets to -1 */

/* Monotonic clock, for deadlines and durations. */
int64_t now_ms(void);
int64_t now_ns(void);
/* Wall clock, Unix time in milliseconds. */
int64_t wall_ms(void);

/* RFC 3339 in UTC with milliseconds: "2026-11-30T08:00:00.123Z"; out holds 25 bytes. */
void time_format(int64_t unix_ms, char out[static 25]);
/* Returns 0, or -1 when text is not such a time (milliseconds may be missing). */
int time_parse(const char *text, int64_t *unix_ms);

/* printf into a fresh string; never NULL (aborts when memory is gone: nothing sensible is left). */
char *str_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
char *str_dup(const char *s);
bool str_has_prefix(const char *s, const char *prefix);
bool str_has_suffix(const char *s, const char *suffix);

/* The candidate nearest to word (edit distance at most a third of its length, at least 1), for
 * "did you mean"; NULL when none is near.  candidates ends in NULL. */
const char *str_nearest(const char *word, const char *const candidates[]);

/* realloc that aborts when memory is gone; count * size is checked for overflow. */
void *mem_grow(void *p, size_t count, size_t size);
void *mem_zero(size_t count, size_t size);

/* A growing byte buffer; always NUL-terminated once it holds anything. */
struct strbuf {
    char *data;
    size_t len, cap;
};
void strbuf_add(struct strbuf *b, const void *data, size_t len);
void strbuf_puts(struct strbuf *b, const char *s);
void strbuf_printf(struct strbuf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void strbuf_drop_front(struct strbuf *b, size_t len);
void strbuf_release(struct strbuf *b);

#endif
