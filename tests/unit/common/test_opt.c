/* Option tables: parsing with exact complaints, --help, man page, completion. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/opt.h"
#include "common/util.h"

struct settings {
    const char *site, *key, *state;
    bool check, verbose, quiet;
    int64_t parallel, size, deadline_ms, any;
};

static const struct opt_row rows[] = {
    {OPT_STRING, "site", 's', "FILE", "site file; default site.yaml",
     offsetof(struct settings, site), 0, 0},
    {OPT_STRING, "signing-key", 0, "FILE", "Ed25519 private key in PEM, mode 0600",
     offsetof(struct settings, key), 0, 0},
    {OPT_FLAG, "check", 0, NULL, "show what would change and change nothing",
     offsetof(struct settings, check), 0, 0},
    {OPT_INT, "parallel", 'p', "N", "sessions that are set up at once, 1 to 4096; default 256",
     offsetof(struct settings, parallel), 1, 4096},
    {OPT_INT, "any", 0, "N", "any integer", offsetof(struct settings, any), 0, 0},
    {OPT_BYTES, "size", 0, "SIZE", "bytes of one message; default 64KiB",
     offsetof(struct settings, size), 0, 0},
    {OPT_MS, "a-rather-long-option-name", 0, "DURATION", "deadline of the run; default 10m",
     offsetof(struct settings, deadline_ms), 0, 0},
    {.type = OPT_END},
};
static const struct opt_row common_rows[] = {
    {OPT_STRING, "state", 0, "DIR", "state directory; default $MUSTER_STATE, else ./muster-state",
     offsetof(struct settings, state), 0, 0},
    {OPT_FLAG, "verbose", 'v', NULL, "say more", offsetof(struct settings, verbose), 0, 0},
    {OPT_FLAG, "quiet", 'q', NULL, "say less", offsetof(struct settings, quiet), 0, 0},
    {.type = OPT_END},
};
static const char *const about[] = {
    "Each node is brought to the planned state, and what was changed is read back and checked by "
    "its "
    "effect. A node that fails is put back as it was.",
    ".dots and -dashes and \\backslashes and 'quotes' are text.",
    NULL,
};
static const struct opt_example examples[] = {
    {"muster apply --check", "show the differences of all nodes and change nothing"},
    {"muster apply --parallel=8 'gpu[001-016]'", "only these sixteen, eight at once"},
    {NULL, NULL},
};
static const struct opt_command apply = {
    .name = "apply",
    .summary = "bring nodes to the planned state, or leave them as they were",
    .operands = "[NODES]...",
    .operands_max = 3,
    .about = about,
    .rows = rows,
    .common = common_rows,
    .examples = examples,
    .settings_bytes = sizeof(struct settings),
};
static const struct opt_command exec = {
    .name = "exec",
    .summary = "run a command on nodes",
    .operands = "NODES COMMAND...",
    .operands_min = 2,
    .operands_max = -1,
    .rows = common_rows,
    .settings_bytes = sizeof(struct settings),
};
static const struct opt_command gate = {
    .name = "muster-gate",
    .summary = "say whether this node is ready",
    .operands = "REPORT-FILE",
    .operands_min = 1,
    .operands_max = 1,
    .common = common_rows,
    .settings_bytes = sizeof(struct settings),
};

enum { MAX_ARGS = 16 };

struct line {
    char text[512];
    char *argv[MAX_ARGS];
    int argc, first;
    bool help;
    struct settings settings;
    struct err err;
};

/* Words are separated by '|', so that they may hold blanks or be empty. */
static int parse(const struct opt_command *command, const char *words, struct line *l)
{
    *l = (struct line){.argc = 1, .first = -7, .settings = {.parallel = 256, .state = "preset"}};
    snprintf(l->text, sizeof l->text, "%s", words);
    l->argv[0] = (char *)command->name;
    char *rest = l->text;
    while (*words && rest) {
        assert_true(l->argc < MAX_ARGS);
        l->argv[l->argc++] = strsep(&rest, "|");
    }
    return opt_parse(command, l->argc, l->argv, &l->settings, &l->first, &l->help, &l->err);
}

static void expect_operands(struct line *l, const char *words)
{
    struct strbuf out = {0};
    strbuf_puts(&out, "");
    for (int i = l->first; i < l->argc; i++)
        strbuf_printf(&out, "%s%s", i > l->first ? "|" : "", l->argv[i]);
    assert_string_equal(out.data, words);
    strbuf_release(&out);
}

static void reads_every_type(void **state)
{
    struct line l;
    if (parse(&apply,
              "--site=a.yaml|--check|-p|8|--size|1MiB|--a-rather-long-option-name=30s|--any|-5|-vq|"
              "gpu[1-2]",
              &l) != 0)
        fail_msg("%s", l.err.text);
    assert_string_equal(l.settings.site, "a.yaml");
    assert_true(l.settings.check && l.settings.verbose && l.settings.quiet);
    assert_int_equal(l.settings.parallel, 8);
    assert_int_equal(l.settings.size, 1048576);
    assert_int_equal(l.settings.deadline_ms, 30000);
    assert_int_equal(l.settings.any, -5);
    assert_string_equal(l.settings.state, "preset");
    assert_false(l.help);
    expect_operands(&l, "gpu[1-2]");
}

static void forms_of_options_and_operands(void **state)
{
    static const struct {
        const struct opt_command *command;
        const char *words, *operands, *site;
    } forms[] = {
        {&apply, "", "", NULL},
        {&apply, "-sx", "", "x"},
        {&apply, "-s|x", "", "x"},
        {&apply, "-vsx", "", "x"},
        {&apply, "-s=x", "", "=x"},
        {&apply, "--site=a=b", "", "a=b"},
        {&apply, "--site=--check", "", "--check"},
        {&apply, "--site|-", "", "-"},
        {&apply, "--site=x|--site=x|-v|-v", "", "x"},
        {&apply, "a|--check|b|-s|x|c", "a|b|c", "x"},
        {&apply, "a|--|--check|-v", "a|--check|-v", NULL},
        {&apply, "-|a", "-|a", NULL},
        {&exec, "-v|gpu1|ls|-l|--all", "gpu1|ls|-l|--all", NULL},
        {&exec, "gpu1|--|ls", "gpu1|--|ls", NULL},
        {&exec, "--|gpu1|ls", "gpu1|ls", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        struct line l;
        if (parse(forms[i].command, forms[i].words, &l) != 0)
            fail_msg("%s: %s", forms[i].words, l.err.text);
        expect_operands(&l, forms[i].operands);
        if (forms[i].site)
            assert_string_equal(l.settings.site, forms[i].site);
        else
            assert_null(l.settings.site);
    }
}

static void complains_exactly(void **state)
{
    static const struct {
        const struct opt_command *command;
        const char *words, *message;
    } bad[] = {
        {&apply, "--chekc", "apply: unknown option '--chekc'; did you mean '--check'?"},
        {&apply, "--chek", "apply: unknown option '--chek'; did you mean '--check'?"},
        {&apply, "--paralel=8", "apply: unknown option '--paralel'; did you mean '--parallel'?"},
        {&apply, "-x", "apply: unknown option '-x'; --help lists the options"},
        {&apply, "-vx", "apply: unknown option '-x'; --help lists the options"},
        {&apply, "--check=yes", "apply: option '--check' takes no value"},
        {&apply, "--site", "apply: option '--site' needs a value (FILE)"},
        {&apply, "-s", "apply: option '--site' needs a value (FILE)"},
        {&apply, "--site|--check",
         "apply: option '--site' needs a value (FILE) but '--check' follows; if that is the value, "
         "write '--site=--check'"},
        {&apply, "--site=", "apply: option '--site' is given an empty FILE; is a variable unset?"},
        {&apply, "--site||x",
         "apply: option '--site' is given an empty FILE; is a variable unset?"},
        {&apply, "-s|a|--site=b", "apply: option '--site' is given twice ('a' and 'b')"},
        {&apply, "--parallel=8x",
         "apply: option '--parallel': '8x' is not an integer (trailing 'x')"},
        {&apply, "-p0", "apply: option '--parallel': '0' is out of range (1 to 4096)"},
        {&apply, "--size=64K",
         "apply: option '--size': '64K' is not a size: unit 'K' is refused, it is used for 1000 "
         "and "
         "for 1024: write kB, MB, GB, TB or KiB, MiB, GiB, TiB"},
        {&apply, "--a-rather-long-option-name=30",
         "apply: option '--a-rather-long-option-name': '30' has no unit: write 500ms, 30s, 10m, "
         "24h "
         "or 7d"},
        {&apply, "a|b|c|d", "apply: operand 'd' is one too many; the operands are: [NODES]..."},
        {&exec, "gpu1", "exec: 1 operand given, at least 2 needed: NODES COMMAND..."},
        {&exec, "", "exec: 0 operands given, at least 2 needed: NODES COMMAND..."},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct line l;
        if (parse(bad[i].command, bad[i].words, &l) != -1)
            fail_msg("'%s' was taken", bad[i].words);
        assert_int_equal(l.err.kind, ERR_USAGE);
        assert_string_equal(l.err.text, bad[i].message);
    }
}

static void failure_changes_nothing(void **state)
{
    struct line l;
    assert_int_equal(parse(&apply, "a|--check|-p|9|--site=x|--nonsense", &l), -1);
    assert_false(l.settings.check);
    assert_int_equal(l.settings.parallel, 256);
    assert_null(l.settings.site);
    assert_int_equal(l.first, -7);
    assert_string_equal(l.argv[1], "a");
    assert_string_equal(l.argv[6], "--nonsense");
}

static void help_wins_over_missing_operands(void **state)
{
    struct line l;
    assert_int_equal(parse(&exec, "-v|--help", &l), 0);
    assert_true(l.help);
    assert_false(l.settings.verbose);
    assert_int_equal(parse(&exec, "-h|--nonsense", &l), 0);
    assert_true(l.help);
    assert_int_equal(parse(&exec, "gpu1|ls|-h", &l), 0);
    assert_false(l.help);
}

enum page { PAGE_HELP, PAGE_MAN, PAGE_COMPLETION };

/* Through a file, as a user redirects it: no terminal, so width 80 and no colours. */
static char *print(enum page page, const struct opt_command *const commands[], size_t count,
                   const char *program)
{
    FILE *f = tmpfile();
    assert_non_null(f);
    if (page == PAGE_HELP)
        opt_print_help(commands[0], program, f);
    else if (page == PAGE_MAN)
        opt_print_man(commands[0], program, f);
    else
        opt_print_completion(commands, count, program, f);
    long len = ftell(f);
    char *text = mem_zero((size_t)len + 1, 1);
    rewind(f);
    assert_int_equal(fread(text, 1, (size_t)len, f), len);
    fclose(f);
    return text;
}

static void help_text(void **state)
{
    const struct opt_command *const commands[] = {&apply};
    AUTO(free_str) char *text = print(PAGE_HELP, commands, 1, "muster");
    assert_string_equal(
        text, "Usage: muster apply [OPTION]... [NODES]...\n"
              "\n"
              "bring nodes to the planned state, or leave them as they were\n"
              "\n"
              "Each node is brought to the planned state, and what was changed is read back and\n"
              "checked by its effect. A node that fails is put back as it was.\n"
              "\n"
              "Options:\n"
              "  -s, --site FILE         site file; default site.yaml\n"
              "      --signing-key FILE  Ed25519 private key in PEM, mode 0600\n"
              "      --check             show what would change and change nothing\n"
              "  -p, --parallel N        sessions that are set up at once, 1 to 4096; default\n"
              "                          256\n"
              "      --any N             any integer\n"
              "      --size SIZE         bytes of one message; default 64KiB\n"
              "      --a-rather-long-option-name DURATION\n"
              "                          deadline of the run; default 10m\n"
              "\n"
              "Common options:\n"
              "      --state DIR         state directory; default $MUSTER_STATE, else\n"
              "                          ./muster-state\n"
              "  -v, --verbose           say more\n"
              "  -q, --quiet             say less\n"
              "  -h, --help              show this help and exit\n"
              "\n"
              "Examples:\n"
              "  muster apply --check\n"
              "      show the differences of all nodes and change nothing\n"
              "  muster apply --parallel=8 'gpu[001-016]'\n"
              "      only these sixteen, eight at once\n");
}

static void help_of_a_program_without_subcommands(void **state)
{
    const struct opt_command *const commands[] = {&gate};
    AUTO(free_str) char *text = print(PAGE_HELP, commands, 1, "muster-gate");
    assert_true(str_has_prefix(text, "Usage: muster-gate [OPTION]... REPORT-FILE\n\nsay whether"));
    assert_null(strstr(text, "Common options"));
    assert_non_null(strstr(text, "\nOptions:\n      --state DIR"));
}

static void man_page(void **state)
{
    const struct opt_command *const commands[] = {&apply};
    AUTO(free_str) char *text = print(PAGE_MAN, commands, 1, "muster");
    static const char *const parts[] = {
        (".TH \"MUSTER-APPLY\" 1 \"\" \"muster " MUSTER_VERSION "\" \"User Commands\"\n"),
        ".SH NAME\nmuster\\-apply \\- bring nodes",
        ".SH SYNOPSIS\n\\fBmuster\\fR \\fBapply\\fR [\\fIOPTION\\fR]... [NODES]...\n",
        ".PP\n\\&.dots and \\-dashes and \\ebackslashes and \\(aqquotes\\(aq are text.\n",
        ".TP\n\\fB\\-s\\fR, \\fB\\-\\-site\\fR=\\fIFILE\\fR\nsite file; default site.yaml\n",
        ".TP\n\\fB\\-\\-check\\fR\nshow",
        ".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\n",
        ".SH EXAMPLES\n.TP\n\\fBmuster apply \\-\\-check\\fR\n",
        ".SH SEE ALSO\n\\fBmuster\\fR(1)\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (!strstr(text, parts[i]))
            fail_msg("not in the man page: %s", parts[i]);
}

/* What bash offers for a command line in the directory of the script; each candidate on a line. */
static char *complete(const char *dir, const char *words)
{
    AUTO(free_str)
    char *command = str_printf(
        "cd %s && . ./script && COMP_WORDS=(%s) && COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) && "
        "_muster 2>/dev/null; printf '%%s\\n' \"${COMPREPLY[@]}\"",
        dir, words);
    int ends[2], status = -1;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execlp("bash", "bash", "-c", command, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    char *text = mem_zero(4096, 1);
    size_t len = 0;
    for (ssize_t got; (got = read(ends[0], text + len, 4095 - len)) > 0;)
        len += (size_t)got;
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    return text;
}

static void completion_works_in_bash(void **state)
{
    static const struct {
        const char *words, *offers;
    } lines[] = {
        {"muster \"\"", "apply\nexec\n"},
        {"muster ap", "apply\n"},
        {"muster apply --si", "--site\n--signing-key\n--size\n"},
        {"muster exec --", "--state\n--verbose\n--quiet\n--help\n"},
        {"muster apply --site file", "file one\n"},
        {"muster apply -s file", "file one\n"},
        {"muster apply --site = file", "file one\n"},
        {"muster apply --site =", "dir\nfile one\nscript\n"},
        {"muster apply --state \"\"", "dir\n"},
        {"muster apply --parallel \"\"", "\n"},
        {"muster apply gpu", "\n"},
        {"muster nonsense --", "\n"},
    };
    const struct opt_command *const commands[] = {&apply, &exec};
    AUTO(free_str) char *text = print(PAGE_COMPLETION, commands, 2, "muster");
    char dir[] = "/tmp/test_opt-XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct err err = {0};
    AUTO(free_str) char *script = str_printf("%s/script", dir);
    AUTO(free_str) char *file = str_printf("%s/file one", dir);
    AUTO(free_str) char *subdir = str_printf("%s/dir", dir);
    assert_int_equal(fs_write_atomic(script, text, strlen(text), 0644, &err), 0);
    assert_int_equal(fs_write_atomic(file, "", 0, 0644, &err), 0);
    assert_int_equal(fs_mkdirs(subdir, 0755, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        AUTO(free_str) char *offers = complete(dir, lines[i].words);
        AUTO(free_str) char *want = str_printf("%s: %s", lines[i].words, lines[i].offers);
        AUTO(free_str) char *got = str_printf("%s: %s", lines[i].words, offers);
        assert_string_equal(got, want);
    }
    assert_int_equal(fs_remove_tree(dir, &err), 0);
}

static void completion_of_a_program_without_subcommands(void **state)
{
    const struct opt_command *const commands[] = {&gate};
    AUTO(free_str) char *text = print(PAGE_COMPLETION, commands, 1, "muster-gate");
    assert_non_null(strstr(text, "_muster_gate()\n"));
    assert_non_null(strstr(text, "    command=muster-gate\n"));
    assert_non_null(strstr(text, "'muster-gate') words='--state --verbose --quiet --help' "
                                 "operand=file ;;\n"));
    assert_non_null(strstr(text, "complete -F _muster_gate muster-gate\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_type),
        cmocka_unit_test(forms_of_options_and_operands),
        cmocka_unit_test(complains_exactly),
        cmocka_unit_test(failure_changes_nothing),
        cmocka_unit_test(help_wins_over_missing_operands),
        cmocka_unit_test(help_text),
        cmocka_unit_test(help_of_a_program_without_subcommands),
        cmocka_unit_test(man_page),
        cmocka_unit_test(completion_works_in_bash),
        cmocka_unit_test(completion_of_a_program_without_subcommands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
