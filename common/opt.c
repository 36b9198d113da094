#include "common/opt.h"

#include <stdlib.h>
#include <string.h>

#include "common/units.h"
#include "common/util.h"

enum { MAX_ROWS = 128 };

/* One parse.  Values go to a copy of the settings, so that a failure leaves the caller's alone. */
struct parse {
    const struct opt_command *command;
    int argc;
    char **argv;
    int at;         /* index of the argument that is read */
    char *settings; /* the copy */
    bool help;
    const struct opt_row *rows[MAX_ROWS];
    const char *seen[MAX_ROWS]; /* the value that a row was given */
    size_t row_count;
    struct err *err;
};

static const struct opt_row help_row = {
    .type = OPT_FLAG, .name = "help", .letter = 'h', .help = "show this help and exit"};

static void collect(struct parse *p, const struct opt_row *rows)
{
    for (; rows && rows->type != OPT_END; rows++) {
        if (p->row_count == MAX_ROWS - 1) /* one is kept for --help */
            abort();
        p->rows[p->row_count++] = rows;
    }
}

static size_t find_name(const struct parse *p, const char *name, size_t len)
{
    size_t i = 0;
    while (i < p->row_count &&
           (strncmp(p->rows[i]->name, name, len) != 0 || p->rows[i]->name[len] != '\0'))
        i++;
    return i;
}

static int fail_unknown(struct parse *p, const char *name, size_t len)
{
    const char *names[MAX_ROWS + 1] = {0};
    for (size_t i = 0; i < p->row_count; i++)
        names[i] = p->rows[i]->name;
    AUTO(free_str) char *word = str_printf("%.*s", (int)len, name);
    const char *near = str_nearest(word, names);
    if (near)
        return err_set(p->err, ERR_USAGE, "%s: unknown option '--%s'; did you mean '--%s'?",
                       p->command->name, word, near);
    return err_set(p->err, ERR_USAGE, "%s: unknown option '--%s'; --help lists the options",
                   p->command->name, word);
}

static int store_number(struct parse *p, const struct opt_row *row, const char *value, void *slot)
{
    int64_t number = 0;
    int rc = -1;
    bool limited = row->min != 0 || row->max != 0;
    switch (row->type) {
    case OPT_INT:
        rc = units_parse_int(value, limited ? row->min : INT64_MIN, limited ? row->max : INT64_MAX,
                             &number, p->err);
        break;
    case OPT_BYTES:
        rc = units_parse_bytes(value, &number, p->err);
        break;
    case OPT_MS:
        rc = units_parse_duration_ms(value, &number, p->err);
        break;
    default:
        abort();
    }
    if (rc < 0) {
        p->err->kind = ERR_USAGE;
        return err_wrap(p->err, "%s: option '--%s': ", p->command->name, row->name);
    }
    memcpy(slot, &number, sizeof number);
    return 0;
}

static int store(struct parse *p, size_t index, const char *value)
{
    const struct opt_row *row = p->rows[index];
    const char *name = p->command->name;
    if (*value == '\0')
        return err_set(p->err, ERR_USAGE,
                       "%s: option '--%s' is given an empty %s; is a variable unset?", name,
                       row->name, row->arg);
    /* Taking the last one would silently drop a list of nodes. */
    if (p->seen[index] && strcmp(p->seen[index], value) != 0)
        return err_set(p->err, ERR_USAGE, "%s: option '--%s' is given twice ('%s' and '%s')", name,
                       row->name, p->seen[index], value);
    p->seen[index] = value;
    void *slot = p->settings + row->offset;
    if (row->type != OPT_STRING)
        return store_number(p, row, value, slot);
    memcpy(slot, &value, sizeof value);
    return 0;
}

static void store_flag(struct parse *p, const struct opt_row *row)
{
    const bool on = true;
    if (row == &help_row)
        p->help = true;
    else
        memcpy(p->settings + row->offset, &on, sizeof on);
}

/* The value stands in the next argument. */
static int store_next(struct parse *p, size_t index)
{
    const struct opt_row *row = p->rows[index];
    if (p->at + 1 >= p->argc)
        return err_set(p->err, ERR_USAGE, "%s: option '--%s' needs a value (%s)", p->command->name,
                       row->name, row->arg);
    const char *value = p->argv[++p->at];
    if (str_has_prefix(value, "--") &&
        find_name(p, value + 2, strcspn(value + 2, "=")) < p->row_count)
        return err_set(p->err, ERR_USAGE,
                       "%s: option '--%s' needs a value (%s) but '%s' follows; if that is the "
                       "value, write '--%s=%s'",
                       p->command->name, row->name, row->arg, value, row->name, value);
    return store(p, index, value);
}

static int read_long(struct parse *p, const char *text)
{
    size_t len = strcspn(text, "=");
    size_t index = find_name(p, text, len);
    if (index == p->row_count)
        return fail_unknown(p, text, len);
    const struct opt_row *row = p->rows[index];
    if (row->type == OPT_FLAG && text[len] == '=')
        return err_set(p->err, ERR_USAGE, "%s: option '--%s' takes no value", p->command->name,
                       row->name);
    if (row->type == OPT_FLAG) {
        store_flag(p, row);
        return 0;
    }
    return text[len] == '=' ? store(p, index, text + len + 1) : store_next(p, index);
}

/* "-v", "-vq", "-wVALUE", "-w VALUE". */
static int read_short(struct parse *p, const char *letters)
{
    for (; *letters; letters++) {
        size_t index = 0;
        while (index < p->row_count && p->rows[index]->letter != *letters)
            index++;
        if (index == p->row_count)
            return err_set(p->err, ERR_USAGE, "%s: unknown option '-%c'; --help lists the options",
                           p->command->name, *letters);
        if (p->rows[index]->type == OPT_FLAG) {
            store_flag(p, p->rows[index]);
            continue;
        }
        return letters[1] ? store(p, index, letters + 1) : store_next(p, index);
    }
    return 0;
}

/* Reads options and gathers operands; *count of them, in order. */
static int read_all(struct parse *p, char **operands, int *count)
{
    bool takes_command = p->command->operands && strstr(p->command->operands, "COMMAND");
    bool options_ended = false;
    for (p->at = 1; p->at < p->argc && !p->help; p->at++) {
        char *text = p->argv[p->at];
        int rc = 0;
        if (options_ended || text[0] != '-' || text[1] == '\0') {
            operands[(*count)++] = text;
            options_ended = options_ended || takes_command;
        } else if (strcmp(text, "--") == 0) {
            options_ended = true;
        } else {
            rc = text[1] == '-' ? read_long(p, text + 2) : read_short(p, text + 1);
        }
        if (rc < 0)
            return -1;
    }
    return 0;
}

static int check_operands(struct parse *p, char **operands, int count)
{
    const struct opt_command *c = p->command;
    const char *form = c->operands && *c->operands ? c->operands : "none";
    if (count < c->operands_min)
        return err_set(p->err, ERR_USAGE, "%s: %d operand%s given, at least %d needed: %s", c->name,
                       count, count == 1 ? "" : "s", c->operands_min, form);
    if (c->operands_max >= 0 && count > c->operands_max)
        return err_set(p->err, ERR_USAGE, "%s: operand '%s' is one too many; the operands are: %s",
                       c->name, operands[c->operands_max], form);
    return 0;
}

int opt_parse(const struct opt_command *command, int argc, char **argv, void *settings, int *first,
              bool *help, struct err *err)
{
    struct parse p = {.command = command, .argc = argc, .argv = argv, .err = err};
    collect(&p, command->rows);
    collect(&p, command->common);
    p.rows[p.row_count++] = &help_row;
    AUTO(free_str) char *copy = mem_zero(command->settings_bytes, 1);
    memcpy(copy, settings, command->settings_bytes);
    p.settings = copy;
    char **operands = mem_zero((size_t)argc, sizeof *operands);
    int count = 0;
    int rc = read_all(&p, operands, &count);
    if (rc == 0 && !p.help)
        rc = check_operands(&p, operands, count);
    if (rc == 0 && !p.help) {
        /* Every option has been read: what remains of interest are the operands, moved to the end.
         */
        for (int i = 0; i < count; i++)
            argv[argc - count + i] = operands[i];
        *first = argc - count;
        memcpy(settings, copy, command->settings_bytes);
    }
    if (rc == 0)
        *help = p.help;
    free(operands);
    return rc;
}
