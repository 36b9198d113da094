#include "common/tty.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/util.h"

enum { DEFAULT_WIDTH = 80, GAP = 2, MIN_LAST_WIDTH = 20 };

bool tty_is_terminal(FILE *stream)
{
    const char *term = getenv("TERM");
    return isatty(fileno(stream)) == 1 && !(term && strcmp(term, "dumb") == 0);
}

bool tty_has_color(FILE *stream)
{
    const char *no_color = getenv("NO_COLOR");
    return !(no_color && *no_color) && tty_is_terminal(stream);
}

int tty_width(FILE *stream)
{
    struct winsize size = {0};
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return DEFAULT_WIDTH;
}

const char *tty_begin(FILE *stream, enum tty_color color)
{
    static const char *const sequences[] = {
        [TTY_PLAIN] = "",         [TTY_GREEN] = "\033[32m", [TTY_YELLOW] = "\033[33m",
        [TTY_RED] = "\033[1;31m", [TTY_BOLD] = "\033[1m",   [TTY_DIM] = "\033[2m",
    };
    return color < ARRAY_LEN(sequences) && tty_has_color(stream) ? sequences[color] : "";
}

const char *tty_end(FILE *stream)
{
    return tty_has_color(stream) ? "\033[0m" : "";
}

/* Bytes of the UTF-8 sequence at s, 0 if there is no valid one. */
static size_t sequence_len(const unsigned char *s)
{
    if (s[0] < 0x80)
        return 1;
    size_t len = s[0] >= 0xf0 && s[0] <= 0xf4   ? 4
                 : s[0] >= 0xe0 && s[0] <= 0xef ? 3
                 : s[0] >= 0xc2 && s[0] <= 0xdf ? 2
                                                : 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

/* U+0080..U+009F are control characters too. */
char *tty_text(const char *text)
{
    struct strbuf out = {0};
    strbuf_puts(&out, "");
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        size_t len = sequence_len(s);
        bool control = len == 1 ? *s < 0x20 || *s == 0x7f : len == 2 && s[0] == 0xc2 && s[1] < 0xa0;
        if (*s == '\n' || *s == '\t')
            strbuf_puts(&out, " ");
        else if (len == 0 || control)
            strbuf_puts(&out, "?");
        else
            strbuf_add(&out, s, len);
        s += len ? len : 1;
    }
    return out.data;
}

/* Code points of valid UTF-8. */
static size_t points(const char *text, size_t len)
{
    size_t count = 0;
    for (size_t i = 0; i < len; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

struct row {
    enum tty_color color;
    char **cells;
};

struct tty_table {
    size_t columns;
    struct row *rows; /* the headings, if any, come first */
    size_t count;
};

void tty_table_row(struct tty_table *t, enum tty_color color, const char *const cells[])
{
    t->rows = mem_grow(t->rows, t->count + 1, sizeof *t->rows);
    struct row *row = &t->rows[t->count++];
    *row = (struct row){color, mem_zero(t->columns, sizeof(char *))};
    for (size_t i = 0; i < t->columns; i++)
        row->cells[i] = tty_text(cells[i] ? cells[i] : "");
}

struct tty_table *tty_table_create(const char *const headings[], size_t columns)
{
    struct tty_table *t = mem_zero(1, sizeof *t);
    t->columns = columns;
    if (headings)
        tty_table_row(t, TTY_BOLD, headings);
    return t;
}

void tty_table_destroy(struct tty_table *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->count; i++) {
        for (size_t j = 0; j < t->columns; j++)
            free(t->rows[i].cells[j]);
        free(t->rows[i].cells);
    }
    free(t->rows);
    free(t);
}

static void pad(size_t count, FILE *out)
{
    fprintf(out, "%*s", (int)count, "");
}

/* Bytes of text that fit width columns, cut behind a word where there is one; the blank that is cut
 * at belongs to neither line. */
static size_t line_len(const char *text, size_t width)
{
    size_t used = 0, len = 0, blank = 0;
    for (const char *p = text; *p; p++) {
        if (((unsigned char)*p & 0xc0) != 0x80 && used++ == width) {
            len = (size_t)(p - text);
            if (*p == ' ')
                return len;
            return blank ? blank : len;
        }
        if (*p == ' ' && p > text)
            blank = (size_t)(p - text);
    }
    return strlen(text);
}

/* width 0: unlimited. */
static void print_wrapped(const char *text, size_t indent, size_t width, FILE *out)
{
    for (bool first = true; first || *text; first = false) {
        size_t len = width ? line_len(text, width) : strlen(text);
        if (!first) {
            fputc('\n', out);
            pad(indent, out);
        }
        fwrite(text, 1, len, out);
        text += len;
        while (width && *text == ' ')
            text++;
    }
}

/* The last column that has text; cells behind it print nothing, so that no line ends in blanks. */
static size_t last_filled(const struct tty_table *t, const struct row *row)
{
    size_t last = 0;
    for (size_t i = 0; i < t->columns; i++)
        if (row->cells[i][0])
            last = i;
    return last;
}

static void print_row(const struct tty_table *t, const struct row *row, const size_t widths[],
                      size_t last_width, FILE *out)
{
    size_t indent = 0, last = last_filled(t, row);
    fputs(tty_begin(out, row->color), out);
    for (size_t i = 0; i <= last; i++) {
        const char *cell = row->cells[i];
        if (i == t->columns - 1) {
            print_wrapped(cell, indent, last_width, out);
        } else {
            fputs(cell, out);
            if (i < last)
                pad(widths[i] - points(cell, strlen(cell)) + GAP, out);
        }
        indent += widths[i] + GAP;
    }
    fputs(row->color == TTY_PLAIN ? "" : tty_end(out), out);
    fputc('\n', out);
}

void tty_table_print(const struct tty_table *t, FILE *out)
{
    if (t->columns == 0)
        return;
    size_t *widths = mem_zero(t->columns, sizeof *widths), before_last = 0, last_width = 0;
    for (size_t i = 0; i < t->count; i++)
        for (size_t j = 0; j < t->columns; j++) {
            size_t width = points(t->rows[i].cells[j], strlen(t->rows[i].cells[j]));
            widths[j] = width > widths[j] ? width : widths[j];
        }
    for (size_t j = 0; j + 1 < t->columns; j++)
        before_last += widths[j] + GAP;
    if (tty_is_terminal(out)) {
        size_t total = (size_t)tty_width(out);
        last_width = total > before_last + MIN_LAST_WIDTH ? total - before_last : MIN_LAST_WIDTH;
    }
    for (size_t i = 0; i < t->count; i++)
        print_row(t, &t->rows[i], widths, last_width, out);
    free(widths);
}
