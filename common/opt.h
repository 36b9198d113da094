/* Command lines as rows: the parser, --help, the man page and the shell completion come from them.
 *
 * Long options "--name VALUE" and "--name=VALUE", short "-w VALUE" and "-wVALUE", "--" ends
 * options. An unknown option is ERR_USAGE with "did you mean".  A value with trailing junk is
 * refused. */
#ifndef MUSTER_COMMON_OPT_H
#define MUSTER_COMMON_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"

enum opt_type {
    OPT_END = 0, /* ends a table */
    OPT_FLAG,    /* bool */
    OPT_STRING,  /* const char * into argv */
    OPT_INT,     /* int64_t within min..max */
    OPT_BYTES,   /* int64_t, units_parse_bytes */
    OPT_MS       /* int64_t, units_parse_duration_ms */
};

struct opt_row {
    enum opt_type type;
    const char *name; /* long name without dashes */
    char letter;      /* 0 if none */
    const char *arg;  /* placeholder in help: "HOSTLIST", "FILE", "SECONDS" */
    const char *help; /* one sentence, lower case, no full stop; states unit, range and default */
    size_t offset;    /* offsetof() in the settings struct */
    int64_t min, max; /* OPT_INT, both 0 for no limit */
};

struct opt_example {
    const char *command, *meaning;
};

/* One subcommand. */
struct opt_command {
    const char *name;                   /* "apply" */
    const char *summary;                /* one line */
    const char *operands;               /* "[NODE]..." or "" */
    int operands_min, operands_max;     /* -1 for no limit */
    const char *const *about;           /* paragraphs of the man page, ends in NULL; may be NULL */
    const struct opt_row *rows;         /* own rows, OPT_END last */
    const struct opt_row *common;       /* rows that every subcommand shares; may be NULL */
    const struct opt_example *examples; /* ends with {NULL, NULL}; may be NULL */
    size_t settings_bytes;              /* size of the struct that the offsets are in */
    int (*run)(void *settings, int operand_count, char **operands); /* exit status */
};

/* Fill settings (zeroed or preset with defaults) from argv[1..].
 *
 * Options and operands may be mixed: the operands are moved, in order, to the end of argv and stand
 * at *first..argc-1.  Where `operands` names a COMMAND ("NODES COMMAND..."), the first operand ends
 * the options, so that those of the command stay its own.  A value given twice with different texts
 * and an empty value are errors; flags may be repeated.
 *
 * *help is set when -h or --help was read; then settings, *first and argv are as before.
 * Returns -1 with ERR_USAGE; then nothing has changed but err. */
int opt_parse(const struct opt_command *command, int argc, char **argv, void *settings, int *first,
              bool *help, struct err *err);

/* Usage, summary, options and examples, wrapped at the width of the terminal. */
void opt_print_help(const struct opt_command *command, const char *program, FILE *out);
/* mdoc(7)-free man(7) page, section 1, from the same rows. */
void opt_print_man(const struct opt_command *command, const char *program, FILE *out);
/* bash completion for all subcommands: names, long options, and files or directories for an option
 * or operand whose placeholder ends in FILE or DIR.  A single command whose name is the program's
 * has no subcommand word. */
void opt_print_completion(const struct opt_command *const commands[], size_t count,
                          const char *program, FILE *out);

#endif
