/* muster-fabric: the InfiniBand subnet.  Started by `muster fabric`, usable by itself. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/jsonx.h"
#include "common/log.h"
#include "common/tty.h"
#include "common/util.h"
#include "fabric/subnet/cmd.h"

enum { DEFAULT_DEADLINE_MS = 60000, MAX_SITE_BYTES = 64 * 1024 * 1024 };

static const struct opt_command *const commands[] = {
    &cmd_discover, &cmd_cables,    &cmd_counters,   &cmd_check,
    &cmd_sm_check, &cmd_sm_config, &cmd_sm_explain,
};

const struct opt_row cmd_common_rows[] = {
    {OPT_FLAG, "json", 0, NULL, "print JSON instead of text", offsetof(struct cmd_settings, json),
     0, 0},
    {OPT_STRING, "device", 0, "DEVICE", "local InfiniBand device (default: the first that is up)",
     offsetof(struct cmd_settings, device), 0, 0},
    {OPT_INT, "port", 0, "PORT", "its port, 1 to 254 (default: the first that is up)",
     offsetof(struct cmd_settings, port), 1, 254},
    {OPT_MS, "deadline", 0, "TIME", "end with status 5 after this time (default 60s)",
     offsetof(struct cmd_settings, deadline_ms), 0, 0},
    {OPT_STRING, "site-json", 0, "FILE",
     "the site, normalised; `muster fabric` gives it for the site file",
     offsetof(struct cmd_settings, site), 0, 0},
    {OPT_END, NULL, 0, NULL, NULL, 0, 0, 0},
};

static void on_alarm(int number)
{
    static const char text[] =
        "muster-fabric: the deadline passed: a management packet was never "
        "answered, or the subnet is larger than the time given (--deadline)\n";
    (void)number;
    ssize_t wrote = write(STDERR_FILENO, text, sizeof text - 1);
    _exit(wrote < 0 ? 6 : 5);
}

/* The MAD libraries wait without a limit of their own where a packet is lost for good. */
static void arm_deadline(int64_t ms)
{
    const struct itimerval timer = {.it_value = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000}};
    signal(SIGALRM, on_alarm);
    setitimer(ITIMER_REAL, &timer, NULL);
}

int cmd_read_subnet(const struct cmd_settings *c, struct ibmad_port **mads, struct subnet *s,
                    struct err *err)
{
    const struct discover_options options = {.device = c->device, .port = (int)c->port};
    arm_deadline(c->deadline_ms + c->window_ms);
    return discover_subnet(&options, s, mads, err);
}

int cmd_read_site(const struct cmd_settings *c, json_t **site, const json_t **fabric,
                  struct err *err)
{
    if (!c->site)
        return 0;
    if (jsonx_load(c->site, MAX_SITE_BYTES, site, err) != 0)
        return -1;
    return jsonx_get_obj(*site, "site", "fabric", fabric, err);
}

static void print_findings(const json_t *findings, const char *good)
{
    size_t i;
    json_t *f;
    json_array_foreach(findings, i, f)
    {
        bool warning = strcmp(jsonx_str_or(f, "severity", ""), "warning") == 0;
        printf("%s%s%s %s\n  %s\n", tty_begin(stdout, warning ? TTY_YELLOW : TTY_RED),
               jsonx_str_or(f, "cause", "?"), tty_end(stdout), jsonx_str_or(f, "subject", "?"),
               jsonx_str_or(f, "text", ""));
    }
    if (json_array_size(findings) == 0)
        puts(good);
}

int cmd_conclude(const struct cmd_settings *c, const json_t *findings, json_t *extra,
                 const char *good)
{
    size_t i;
    json_t *f;
    bool fault = false;
    json_array_foreach(findings, i, f) fault |=
        strcmp(jsonx_str_or(f, "severity", ""), "warning") != 0;
    if (c->json) {
        json_auto_t *root = extra ? json_incref(extra) : json_object();
        jsonx_set_int(root, "v", 1);
        jsonx_set_bool(root, "good", !fault);
        jsonx_set(root, "findings", json_incref((json_t *)(uintptr_t)findings));
        json_dumpf(root, stdout, JSON_INDENT(1) | JSON_SORT_KEYS);
        puts("");
    } else {
        print_findings(findings, good);
    }
    json_decref(extra);
    return fault ? 1 : 0;
}

int cmd_fail(const struct err *err)
{
    log_error("%s", err->text);
    return err_exit_status(err->kind);
}

static void usage(FILE *out)
{
    fputs("usage: muster-fabric COMMAND [OPTION]...   (or: muster fabric COMMAND ...)\n\n", out);
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        fprintf(out, "  %-11s %s\n", commands[i]->name, commands[i]->summary);
    fputs(
        "\nmuster-fabric COMMAND --help says more.\n"
        "Exit status: 0 all is well, 1 something is wrong or could not be measured, 2 usage or bad "
        "input,\n3 this machine, 5 deadline.\n",
        out);
}

static int run(const struct opt_command *command, int argc, char **argv)
{
    struct cmd_settings settings = {.deadline_ms = DEFAULT_DEADLINE_MS, .dir = "/etc/opensm"};
    struct err err = {0};
    int first = 0, status;
    bool help = false;
    if (opt_parse(command, argc, argv, &settings, &first, &help, &err) != 0)
        return cmd_fail(&err);
    if (help) {
        opt_print_help(command, "muster fabric", stdout);
        return 0;
    }
    status = command->run(&settings, argc - first, argv + first);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        log_error("standard output: cannot be written");
        return status ? status : err_exit_status(ERR_ENV);
    }
    return status;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    bool help = argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
                             strcmp(argv[1], "help") == 0);
    if (argc < 2 || help) {
        usage(help ? stdout : stderr);
        return help ? 0 : err_exit_status(ERR_USAGE);
    }
    const char *names[ARRAY_LEN(commands) + 1] = {0};
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        names[i] = commands[i]->name;
        if (strcmp(argv[1], names[i]) == 0)
            return run(commands[i], argc - 1, argv + 1);
    }
    const char *near = str_nearest(argv[1], names);
    log_error("no command '%.60s'%s%s%s; muster fabric --help lists them", argv[1],
              near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
    return err_exit_status(ERR_USAGE);
}
