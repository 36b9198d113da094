/* muster: the controller.  Finds the subcommand, reads its options, runs it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"
#include "provision/cmd.h"

#define COMMAND(name) &cmd_##name,
const struct opt_command *const cmd_all[] = {
#include "provision/commands.def"
};
#undef COMMAND
const size_t cmd_count = ARRAY_LEN(cmd_all);

static void usage(FILE *out)
{
    fputs("muster makes bare GPU nodes ready for jobs and signs which of them are.\n\n"
          "usage: muster COMMAND [OPTION]...\n\n",
          out);
    for (size_t i = 0; i < cmd_count; i++)
        fprintf(out, "  %-11s %s\n", cmd_all[i]->name, cmd_all[i]->summary);
    fputs("\nmuster COMMAND --help says more; muster up does everything from configuration to the "
          "signed report.\n"
          "Exit status: 0 done and yes, 1 done and the answer is no, 2 usage or bad input, 3 this "
          "machine,\n4 no node could be reached, 5 deadline, 6 memory.\n",
          out);
}

static const struct opt_command *find(const char *name)
{
    for (size_t i = 0; i < cmd_count; i++)
        if (strcmp(cmd_all[i]->name, name) == 0)
            return cmd_all[i];
    return NULL;
}

static int unknown(const char *name)
{
    const char **names = mem_zero(cmd_count + 1, sizeof *names);
    for (size_t i = 0; i < cmd_count; i++)
        names[i] = cmd_all[i]->name;
    const char *near = str_nearest(name, names);
    free(names);
    if (near)
        log_error("unknown command '%s'; did you mean '%s'?", name, near);
    else
        log_error("unknown command '%s'; muster --help lists them", name);
    return err_exit_status(ERR_USAGE);
}

static int run(const struct opt_command *command, int argc, char **argv)
{
    struct err err = {0};
    void *settings = mem_zero(1, command->settings_bytes);
    int first = 0, status;
    bool help = false;
    if (opt_parse(command, argc, argv, settings, &first, &help, &err) != 0) {
        status = ctl_fail(&err);
    } else if (help) {
        opt_print_help(command, "muster", stdout);
        status = 0;
    } else {
        status = command->run(settings, argc - first, argv + first);
    }
    free(settings);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        log_error("standard output: cannot be written");
        return status ? status : err_exit_status(ERR_ENV);
    }
    return status;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        usage(stderr);
        return err_exit_status(ERR_USAGE);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        const struct opt_command *about = argc > 2 ? find(argv[2]) : NULL;
        if (about)
            opt_print_help(about, "muster", stdout);
        else
            usage(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("muster " MUSTER_VERSION);
        return 0;
    }
    const struct opt_command *command = find(argv[1]);
    return command ? run(command, argc - 1, argv + 1) : unknown(argv[1]);
}
