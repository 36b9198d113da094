/* A bash completion script from the same rows as the parser. */
#include <string.h>

#include "common/opt.h"
#include "common/util.h"

enum expects { EXPECTS_OTHER = 0, EXPECTS_FILE, EXPECTS_DIR };

/* What the word after a placeholder ("SITE-FILE", "DIR", "[FILE]...") is. */
static enum expects expects_of(const char *placeholder)
{
    AUTO(free_str) char *word = str_dup(placeholder ? placeholder : "");
    for (size_t len = strlen(word); len > 0 && strchr(".]", word[len - 1]); len--)
        word[len - 1] = '\0';
    if (str_has_suffix(word, "FILE"))
        return EXPECTS_FILE;
    return str_has_suffix(word, "DIR") ? EXPECTS_DIR : EXPECTS_OTHER;
}

static void put_words(const struct opt_row *rows, FILE *out)
{
    for (; rows && rows->type != OPT_END; rows++)
        fprintf(out, "--%s ", rows->name);
}

/* Which option's value comes next: one case line per option that takes one. */
static void put_value_cases(const struct opt_command *c, const struct opt_row *rows, FILE *out)
{
    static const char *const kinds[] = {
        [EXPECTS_OTHER] = "none", [EXPECTS_FILE] = "file", [EXPECTS_DIR] = "directory"};
    for (; rows && rows->type != OPT_END; rows++) {
        if (rows->type == OPT_FLAG)
            continue;
        fprintf(out, "        '%s:--%s'", c->name, rows->name);
        if (rows->letter)
            fprintf(out, " | '%s:-%c'", c->name, rows->letter);
        fprintf(out, ") kind=%s ;;\n", kinds[expects_of(rows->arg)]);
    }
}

static void put_command_case(const struct opt_command *c, FILE *out)
{
    enum expects operand = expects_of(c->operands);
    fprintf(out, "        '%s') words='", c->name);
    put_words(c->rows, out);
    put_words(c->common, out);
    fprintf(out, "--help' operand=%s ;;\n",
            operand == EXPECTS_FILE  ? "file"
            : operand == EXPECTS_DIR ? "directory"
                                     : "none");
}

static void put_function_head(const char *function, FILE *out)
{
    fprintf(out,
            "%s()\n"
            "{\n"
            "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
            "    local command kind=word words='' operand=none\n"
            "    COMPREPLY=()\n"
            "    # bash splits --name=VALUE at the equals sign\n"
            "    if [[ $current == = ]]; then\n"
            "        current=''\n"
            "    elif [[ $previous == = ]] && ((COMP_CWORD >= 2)); then\n"
            "        previous=${COMP_WORDS[COMP_CWORD-2]}\n"
            "    fi\n",
            function);
}

static void put_subcommands(const struct opt_command *const commands[], size_t count, FILE *out)
{
    fputs("    command=${COMP_WORDS[1]}\n"
          "    if ((COMP_CWORD == 1)); then\n"
          "        mapfile -t COMPREPLY < <(compgen -W '",
          out);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s%s", i ? " " : "", commands[i]->name);
    fputs("' -- \"$current\")\n"
          "        return\n"
          "    fi\n",
          out);
}

static void put_function_tail(const char *function, const char *program, FILE *out)
{
    fprintf(out,
            "    [[ $kind == word && $current != -* ]] && kind=$operand\n"
            "    case $kind in\n"
            "        word) mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\") ;;\n"
            "        file) compopt -o filenames 2>/dev/null\n"
            "            mapfile -t COMPREPLY < <(compgen -f -- \"$current\") ;;\n"
            "        directory) compopt -o filenames 2>/dev/null\n"
            "            mapfile -t COMPREPLY < <(compgen -d -- \"$current\") ;;\n"
            "    esac\n"
            "}\n"
            "complete -F %s %s\n",
            function, program);
}

void opt_print_completion(const struct opt_command *const commands[], size_t count,
                          const char *program, FILE *out)
{
    AUTO(free_str) char *function = str_printf("_%s", program);
    for (char *p = function; *p; p++)
        if (*p == '-')
            *p = '_';
    bool has_names = !(count == 1 && strcmp(commands[0]->name, program) == 0);
    fprintf(out, "# bash completion for %s\n", program);
    put_function_head(function, out);
    if (has_names)
        put_subcommands(commands, count, out);
    else
        fprintf(out, "    command=%s\n", program);
    fputs("    case $command:$previous in\n", out);
    for (size_t i = 0; i < count; i++) {
        put_value_cases(commands[i], commands[i]->rows, out);
        put_value_cases(commands[i], commands[i]->common, out);
    }
    fputs("    esac\n"
          "    case $command in\n",
          out);
    for (size_t i = 0; i < count; i++)
        put_command_case(commands[i], out);
    fputs("    esac\n", out);
    put_function_tail(function, program, out);
}
