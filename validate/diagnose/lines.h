/* Lines of a log as an engineer pastes it: colours, carriage returns and control bytes are taken
 * out, prefixes of timestamps, containers and MPI ranks are told from the text behind them. */
#ifndef MUSTER_VALIDATE_DIAGNOSE_LINES_H
#define MUSTER_VALIDATE_DIAGNOSE_LINES_H

#include <stdbool.h>
#include <stddef.h>

/* A longer line is given in pieces of this size, all with its number. */
enum { LINES_MAX_BYTES = 4096, LINES_HOST_BYTES = 64 };

struct diag_line {
    const char *file;
    size_t number;               /* from 1 */
    char text[LINES_MAX_BYTES];  /* cleaned, NUL-terminated */
    const char *body;            /* in text, behind the prefixes; keeps its indentation */
    char host[LINES_HOST_BYTES]; /* "" when the line does not say where it is from */
    bool command;                /* a shell prompt with what was typed; body is the command */
};

struct lines {
    const char *file, *at, *end;
    size_t number;
    bool inside;                 /* the rest of a long line comes next */
    char host[LINES_HOST_BYTES]; /* of the last prompt; holds until the next one */
};

void lines_open(struct lines *lines, const char *file, const char *text, size_t len);
bool lines_next(struct lines *lines, struct diag_line *line);

#endif
