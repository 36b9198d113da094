/* What a terminal shows: colours (never without a terminal, nor with NO_COLOR), tables, a bar. */
#ifndef MUSTER_COMMON_TTY_H
#define MUSTER_COMMON_TTY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum tty_color { TTY_PLAIN = 0, TTY_GREEN, TTY_YELLOW, TTY_RED, TTY_BOLD, TTY_DIM };

bool tty_is_terminal(FILE *stream); /* and TERM is not "dumb" */
bool tty_has_color(FILE *stream);   /* a terminal, and NO_COLOR unset or empty */
int tty_width(FILE *stream);        /* columns, 80 when unknown */
/* Escape sequence to begin a colour, "" without colour; tty_end() closes it. */
const char *tty_begin(FILE *stream, enum tty_color color);
const char *tty_end(FILE *stream);

/* A copy for one line of output, for text that came from elsewhere (a node, a file): what could
 * move the cursor, hide text or begin a line of its own becomes '?' or a blank.  The caller frees.
 */
char *tty_text(const char *text);

/* A table: cells are copied; the last column is not padded and is wrapped on a terminal. */
struct tty_table;
struct tty_table *tty_table_create(const char *const headings[], size_t columns);
void tty_table_row(struct tty_table *t, enum tty_color color, const char *const cells[]);
void tty_table_print(const struct tty_table *t, FILE *out);
void tty_table_destroy(struct tty_table *t);

#endif
