/* The man page of one command, in the man(7) macros that every formatter knows. */
#include <ctype.h>
#include <string.h>

#include "common/opt.h"
#include "common/util.h"

/* Text is copied with what roff would take as its own escaped: a backslash, '-' (a hyphen in print,
 * which a copied command line would not survive), the quotes, and a control character at the start.
 */
static void put_text(const char *text, FILE *out)
{
    static const struct {
        char c;
        const char *escape;
    } escapes[] = {{'\\', "\\e"},  {'-', "\\-"},   {'\'', "\\(aq"}, {'`', "\\(ga"},
                   {'^', "\\(ha"}, {'~', "\\(ti"}, {'"', "\\(dq"}};
    if (*text == '.' || *text == '\'')
        fputs("\\&", out);
    for (; *text; text++) {
        const char *escape = NULL;
        for (size_t i = 0; i < ARRAY_LEN(escapes); i++)
            if (escapes[i].c == *text)
                escape = escapes[i].escape;
        if (escape)
            fputs(escape, out);
        else
            fputc(*text == '\n' ? ' ' : *text, out);
    }
}

static void put_line(const char *text, FILE *out)
{
    put_text(text, out);
    fputc('\n', out);
}

/* \fBtext\fR */
static void put_font(char font, const char *text, FILE *out)
{
    fprintf(out, "\\f%c", font);
    put_text(text, out);
    fputs("\\fR", out);
}

static void put_row(const struct opt_row *row, FILE *out)
{
    fputs(".TP\n", out);
    if (row->letter) {
        const char letter[] = {'-', row->letter, '\0'};
        put_font('B', letter, out);
        fputs(", ", out);
    }
    AUTO(free_str) char *name = str_printf("--%s", row->name);
    put_font('B', name, out);
    if (row->type != OPT_FLAG && row->arg) {
        fputc('=', out);
        put_font('I', row->arg, out);
    }
    fputc('\n', out);
    put_line(row->help, out);
}

static void put_rows(const struct opt_row *rows, FILE *out)
{
    for (; rows && rows->type != OPT_END; rows++)
        put_row(rows, out);
}

static void put_synopsis(const struct opt_command *c, const char *program, bool has_name, FILE *out)
{
    fputs(".SH SYNOPSIS\n", out);
    put_font('B', program, out);
    if (has_name) {
        fputc(' ', out);
        put_font('B', c->name, out);
    }
    fputs(" [\\fIOPTION\\fR]...", out);
    if (c->operands && *c->operands) {
        fputc(' ', out);
        put_text(c->operands, out);
    }
    fputc('\n', out);
}

static void put_description(const struct opt_command *c, FILE *out)
{
    fputs(".SH DESCRIPTION\n", out);
    if (!c->about || !c->about[0])
        put_line(c->summary, out);
    for (size_t i = 0; c->about && c->about[i]; i++) {
        if (i > 0)
            fputs(".PP\n", out);
        put_line(c->about[i], out);
    }
}

static void put_examples(const struct opt_command *c, FILE *out)
{
    if (!c->examples || !c->examples->command)
        return;
    fputs(".SH EXAMPLES\n", out);
    for (const struct opt_example *e = c->examples; e->command; e++) {
        fputs(".TP\n", out);
        put_font('B', e->command, out);
        fputc('\n', out);
        put_line(e->meaning ? e->meaning : "", out);
    }
}

void opt_print_man(const struct opt_command *command, const char *program, FILE *out)
{
    static const struct opt_row help_row = {
        .type = OPT_FLAG, .name = "help", .letter = 'h', .help = "show a short help and exit"};
    bool has_name = *command->name && strcmp(command->name, program) != 0;
    AUTO(free_str)
    char *page = has_name ? str_printf("%s-%s", program, command->name) : str_dup(program);
    fputs(".TH \"", out);
    for (const char *p = page; *p; p++)
        fputc(toupper((unsigned char)*p), out);
    fprintf(out, "\" 1 \"\" \"muster %s\" \"User Commands\"\n.SH NAME\n", MUSTER_VERSION);
    put_text(page, out);
    fputs(" \\- ", out);
    put_line(command->summary, out);
    put_synopsis(command, program, has_name, out);
    put_description(command, out);
    fputs(".SH OPTIONS\n", out);
    put_rows(command->rows, out);
    put_rows(command->common, out);
    put_row(&help_row, out);
    put_examples(command, out);
    if (has_name) {
        fputs(".SH SEE ALSO\n", out);
        put_font('B', program, out);
        fputs("(1)\n", out);
    }
}
