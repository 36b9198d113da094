/* --help: made to be read late at night.  What it does first, then each option on its own line. */
#include <stdlib.h>
#include <string.h>

#include "common/opt.h"
#include "common/tty.h"
#include "common/util.h"

enum {
    MIN_WIDTH = 50,
    MAX_WIDTH = 100,
    NAME_INDENT = 2,
    MAX_HELP_COLUMN = 30, /* longer names get a line of their own */
    EXAMPLE_INDENT = 6,
};

static const struct opt_row help_rows[] = {
    {.type = OPT_FLAG, .name = "help", .letter = 'h', .help = "show this help and exit"},
    {.type = OPT_END},
};

/* Words of text, broken before column width; the cursor is at column `at`, later lines begin at
 * `indent`.  Ends with a newline. */
static void print_wrapped(const char *text, size_t at, size_t indent, size_t width, FILE *out)
{
    bool first = true;
    for (text += strspn(text, " \n"); *text; text += strspn(text, " \n")) {
        size_t len = strcspn(text, " \n");
        if (!first && at + 1 + len > width) {
            fprintf(out, "\n%*s", (int)indent, "");
            at = indent;
        } else if (!first) {
            fputc(' ', out);
            at++;
        }
        fwrite(text, 1, len, out);
        at += len;
        text += len;
        first = false;
    }
    fputc('\n', out);
}

static void print_heading(const char *text, FILE *out)
{
    fprintf(out, "%s%s%s\n", tty_begin(out, TTY_BOLD), text, tty_end(out));
}

/* "-s, --site FILE"; options without a letter line up with those that have one. */
static char *row_names(const struct opt_row *row)
{
    AUTO(free_str) char *letter = row->letter ? str_printf("-%c, ", row->letter) : str_dup("    ");
    bool has_value = row->type != OPT_FLAG && row->arg;
    return str_printf("%s--%s%s%s", letter, row->name, has_value ? " " : "",
                      has_value ? row->arg : "");
}

static size_t help_column(const struct opt_row *const tables[], size_t count)
{
    size_t column = 0;
    for (size_t i = 0; i < count; i++)
        for (const struct opt_row *row = tables[i]; row && row->type != OPT_END; row++) {
            AUTO(free_str) char *names = row_names(row);
            size_t need = NAME_INDENT + strlen(names) + 2;
            if (need <= MAX_HELP_COLUMN && need > column)
                column = need;
        }
    return column ? column : MAX_HELP_COLUMN;
}

static void print_rows(const struct opt_row *rows, size_t column, size_t width, FILE *out)
{
    for (const struct opt_row *row = rows; row->type != OPT_END; row++) {
        AUTO(free_str) char *names = row_names(row);
        size_t used = NAME_INDENT + strlen(names);
        fprintf(out, "%*s%s", NAME_INDENT, "", names);
        if (used + 2 > column) {
            fputc('\n', out);
            used = 0;
        }
        fprintf(out, "%*s", (int)(column - used), "");
        print_wrapped(row->help, column, column, width, out);
    }
}

static bool has_rows(const struct opt_row *rows)
{
    return rows && rows->type != OPT_END;
}

static void print_examples(const struct opt_command *c, size_t width, FILE *out)
{
    if (!c->examples || !c->examples->command)
        return;
    fputc('\n', out);
    print_heading("Examples:", out);
    for (const struct opt_example *e = c->examples; e->command; e++) {
        fprintf(out, "  %s\n", e->command);
        if (e->meaning) {
            fprintf(out, "%*s", EXAMPLE_INDENT, "");
            print_wrapped(e->meaning, EXAMPLE_INDENT, EXAMPLE_INDENT, width, out);
        }
    }
}

void opt_print_help(const struct opt_command *command, const char *program, FILE *out)
{
    size_t width = (size_t)tty_width(out);
    width = width < MIN_WIDTH ? MIN_WIDTH : width > MAX_WIDTH ? MAX_WIDTH : width;
    bool has_name = *command->name && strcmp(command->name, program) != 0;
    bool has_operands = command->operands && *command->operands;
    fprintf(out, "%sUsage:%s %s%s%s [OPTION]...%s%s\n\n", tty_begin(out, TTY_BOLD), tty_end(out),
            program, has_name ? " " : "", has_name ? command->name : "", has_operands ? " " : "",
            has_operands ? command->operands : "");
    print_wrapped(command->summary, 0, 0, width, out);
    if (command->about && command->about[0]) {
        fputc('\n', out);
        print_wrapped(command->about[0], 0, 0, width, out);
    }
    const struct opt_row *const tables[] = {help_rows, command->rows, command->common};
    size_t column = help_column(tables, 3);
    if (has_rows(command->rows)) {
        fputc('\n', out);
        print_heading("Options:", out);
        print_rows(command->rows, column, width, out);
    }
    fputc('\n', out);
    print_heading(has_rows(command->rows) ? "Common options:" : "Options:", out);
    if (has_rows(command->common))
        print_rows(command->common, column, width, out);
    print_rows(help_rows, column, width, out);
    print_examples(command, width, out);
}
