/* muster diagnose: what is wrong in these logs? */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/err.h"
#include "common/fs.h"
#include "common/jsonx.h"
#include "common/log.h"
#include "common/tty.h"
#include "common/util.h"
#include "provision/cmd.h"
#include "validate/diagnose/diagnose.h"

enum { MAX_FILE_BYTES = 256 * 1024 * 1024, BAD_INPUT_STATUS = 2 };

struct settings {
    struct ctl_options common;
};

static const struct opt_row no_rows[] = {{OPT_END, NULL, 0, NULL, NULL, 0, 0, 0}};

static int read_stdin(char **text, size_t *len, struct err *err)
{
    struct strbuf all = {0};
    char chunk[65536];
    for (;;) {
        ssize_t got = read(STDIN_FILENO, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 || all.len + (size_t)got > MAX_FILE_BYTES) {
            int errnum = errno;
            strbuf_release(&all);
            return got < 0 ? err_set_errno(err, ERR_ENV, errnum, "standard input: cannot be read")
                           : err_set(err, ERR_DATA,
                                     "standard input: longer than %d MiB; give the part around the "
                                     "first error",
                                     MAX_FILE_BYTES / 1024 / 1024);
        }
        if (got == 0)
            break;
        strbuf_add(&all, chunk, (size_t)got);
    }
    *len = all.len;
    *text = all.data ? all.data : str_dup("");
    return 0;
}

static int read_inputs(int count, char **names, struct diagnose_input *inputs, struct err *err)
{
    for (int i = 0; i < count; i++) {
        char *text = NULL;
        bool from_stdin = strcmp(names[i], "-") == 0;
        int status = from_stdin ? read_stdin(&text, &inputs[i].len, err)
                                : fs_read(names[i], MAX_FILE_BYTES, &text, &inputs[i].len, err);
        if (status != 0)
            return -1;
        inputs[i].name = from_stdin ? "stdin" : names[i];
        inputs[i].text = text;
    }
    return 0;
}

static void print_lines(const char *heading, const json_t *lines)
{
    size_t i;
    json_t *entry;
    if (json_array_size(lines) > 0)
        printf("\n%s\n", heading);
    json_array_foreach(lines, i, entry)
    {
        const char *why = jsonx_str_or(entry, "why", NULL);
        int64_t times = jsonx_int_or(entry, "times", 1);
        printf("  %s:%lld: %.200s", jsonx_str_or(entry, "file", "?"),
               (long long)jsonx_int_or(entry, "line", 0), jsonx_str_or(entry, "text", ""));
        if (times > 1)
            printf("  (%lld times)", (long long)times);
        printf("\n%s%s%s", why ? "      " : "", why ? why : "", why ? "\n" : "");
    }
}

static void print_others(const json_t *others)
{
    size_t i;
    json_t *entry;
    json_array_foreach(others, i, entry)
    {
        bool follows = strcmp(jsonx_str_or(entry, "relation", ""), "consequence") == 0;
        printf("\n%s %s (%s): %s\n",
               follows ? "follows from it:" : "also:", jsonx_str_or(entry, "cause_code", "?"),
               jsonx_str_or(entry, "severity", "?"), jsonx_str_or(entry, "diagnosis", ""));
        if (!follows)
            printf("  do: %s\n", jsonx_str_or(entry, "remedy", ""));
    }
}

static void print_answer(const json_t *answer)
{
    static const enum tty_color colors[] = {TTY_GREEN, TTY_RED, TTY_YELLOW};
    int status = diagnose_exit_status(answer);
    printf("input: %s\n", jsonx_str_or(answer, "input_tool", "?"));
    printf("%s%s (%s)%s\n%s\n", tty_begin(stdout, colors[status]),
           jsonx_str_or(answer, "cause_code", "?"), jsonx_str_or(answer, "severity", "?"),
           tty_end(stdout), jsonx_str_or(answer, "diagnosis", ""));
    printf("\ndo: %s\n", jsonx_str_or(answer, "remedy", ""));
    print_lines(status == 0 ? "it shows in:" : "it is convicted by:",
                json_object_get(answer, "evidence"));
    print_others(json_object_get(answer, "others"));
    print_lines("not a fault, though it looks like one:", json_object_get(answer, "benign"));
}

static int run_diagnose(void *settings, int count, char **operands)
{
    const struct settings *s = settings;
    char dash[] = "-";
    char *only[] = {dash};
    char **names = count > 0 ? operands : only;
    int files = count > 0 ? count : 1, status = BAD_INPUT_STATUS;
    struct diagnose_input *inputs = mem_zero((size_t)files, sizeof *inputs);
    struct err err = {0};
    if (read_inputs(files, names, inputs, &err) != 0) {
        log_error("%s", err.text);
    } else {
        json_auto_t *answer = diagnose(inputs, (size_t)files);
        if (s->common.json)
            cmd_print_json(answer);
        else
            print_answer(answer);
        status = diagnose_exit_status(answer);
    }
    for (int i = 0; i < files; i++)
        free((void *)(uintptr_t)inputs[i].text);
    free(inputs);
    return status;
}

static const char *const about[] = {
    "Reads what is at hand - NCCL's debug log, dmesg, lspci -vvv, ibstat, nvidia-smi, perftest, "
    "fi_info, a pod's "
    "description, opensm, modprobe, AWS, MPI or Slurm messages - and answers what is wrong, which "
    "part it is, what to "
    "do, and which lines say so. Several files are judged together.",
    "Exit status: 0 nothing is wrong, 1 a fault was found, 2 it cannot tell or a file cannot be "
    "read.",
    NULL,
};
static const struct opt_example examples[] = {
    {"muster diagnose nccl.log", "one file"},
    {"ssh gpu017 'dmesg; lspci -vvv; ibstat' | muster diagnose", "standard input"},
    {"muster diagnose --json rank0.log rank8.log", "several, as JSON"},
    {NULL, NULL},
};
const struct opt_command cmd_diagnose = {
    .name = "diagnose",
    .summary = "say what is wrong in a log or a tool's output",
    .operands = "[FILE]...",
    .operands_max = -1,
    .about = about,
    .rows = no_rows,
    .common = ctl_common_rows,
    .examples = examples,
    .settings_bytes = sizeof(struct settings),
    .run = run_diagnose,
};
