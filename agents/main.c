/* muster-agent: what runs on a node.  `serve` speaks the protocol with the controller, `facts`
 * prints what this machine is. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agents/facts/facts.h"
#include "agents/gate/gate_main.h"
#include "agents/serve.h"
#include "common/jsonx.h"
#include "common/log.h"
#include "common/opt.h"
#include "common/util.h"

#define STATE_DIR "/var/lib/muster"

struct settings {
    const char *root, *state;
};

static const struct opt_row root_row[] = {
    {OPT_STRING, "root", 0, "DIR", "directory that stands for / (default /)",
     offsetof(struct settings, root), 0, 0},
    {.type = OPT_END},
};

static const struct opt_row state_row[] = {
    {OPT_STRING, "state", 0, "DIR",
     "directory of keys and journals below the root (default " STATE_DIR ")",
     offsetof(struct settings, state), 0, 0},
    {.type = OPT_END},
};

static const struct opt_row no_rows[] = {{.type = OPT_END}};

static int fail(const struct err *err)
{
    log_error("%s", err->text);
    return err_exit_status(err->kind);
}

static int run_serve(void *settings, int operand_count, char **operands)
{
    const struct settings *set = settings;
    struct err err = {0};
    struct serve_options options = {
        .state_dir = set->state ? set->state : STATE_DIR,
        .in_fd = STDIN_FILENO,
        .out_fd = STDOUT_FILENO,
    };
    int status = 0;
    if (fs_root_open(&options.root, set->root, &err) != 0 ||
        serve_run(&options, &status, &err) != 0)
        return fail(&err);
    return status;
}

static int run_facts(void *settings, int operand_count, char **operands)
{
    const struct settings *set = settings;
    struct err err = {0};
    struct fs_root root;
    json_auto_t *facts = NULL;
    if (fs_root_open(&root, set->root, &err) != 0 || facts_read(&root, &facts, &err) != 0)
        return fail(&err);
    if (json_dumpf(facts, stdout, JSON_INDENT(1)) != 0 || putchar('\n') == EOF ||
        fflush(stdout) != 0) {
        err_set(&err, ERR_ENV, "stdout cannot be written");
        return fail(&err);
    }
    return 0;
}

static int run_version(void *settings, int operand_count, char **operands)
{
    return puts("muster-agent " MUSTER_VERSION) >= 0 && fflush(stdout) == 0
               ? 0
               : err_exit_status(ERR_ENV);
}

static const struct opt_command commands[] = {
    {.name = "serve",
     .summary = "speak the protocol on stdin and stdout; muster starts this over SSH",
     .operands = "",
     .rows = state_row,
     .common = root_row,
     .settings_bytes = sizeof(struct settings),
     .run = run_serve},
    {.name = "facts",
     .summary = "print what this machine is, as JSON",
     .operands = "",
     .rows = no_rows,
     .common = root_row,
     .settings_bytes = sizeof(struct settings),
     .run = run_facts},
    {.name = "version",
     .summary = "print the version",
     .operands = "",
     .rows = no_rows,
     .settings_bytes = sizeof(struct settings),
     .run = run_version},
};

static void print_usage(FILE *out)
{
    fputs("usage: muster-agent COMMAND [OPTION]...\n\n", out);
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].summary);
    fputs("\nmuster-agent COMMAND --help lists the options of a command.\n", out);
}

static int run_command(const struct opt_command *command, int argc, char **argv)
{
    struct settings settings = {0};
    struct err err = {0};
    int first = 0;
    bool help = false;
    if (opt_parse(command, argc, argv, &settings, &first, &help, &err) != 0)
        return fail(&err);
    if (help) {
        opt_print_help(command, "muster-agent", stdout);
        return 0;
    }
    return command->run(&settings, argc - first, argv + first);
}

int main(int argc, char **argv)
{
    const char *slash = strrchr(argc > 0 ? argv[0] : "", '/');
    if (argc > 0 && strcmp(slash ? slash + 1 : argv[0], "muster-gate") == 0)
        return gate_main(argc, argv);
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_usage(stdout);
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (strcmp(name, commands[i].name) == 0)
            return run_command(&commands[i], argc - 1, argv + 1);
    if (name[0])
        log_error("unknown command '%s'", name);
    print_usage(stderr);
    return err_exit_status(ERR_USAGE);
}
