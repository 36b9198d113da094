/* muster fabric: hands over to muster-fabric, which alone needs the InfiniBand libraries. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/err.h"
#include "common/fs.h"
#include "common/jsonx.h"
#include "common/util.h"
#include "provision/cmd.h"
#include "provision/site.h"

struct settings {
    const char *site;
    bool json;
};

static const struct opt_row rows[] = {
    {OPT_STRING, "site", 's', "FILE", "site file (default site.yaml, where there is one)",
     offsetof(struct settings, site), 0, 0},
    {OPT_FLAG, "json", 'j', NULL, "print the result as JSON on standard output",
     offsetof(struct settings, json), 0, 0},
    {OPT_END, NULL, 0, NULL, NULL, 0, 0, 0},
};

/* muster-fabric beside this program. */
static char *program_path(void)
{
    char path[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    path[len > 0 ? len : 0] = '\0';
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = '\0';
    return str_printf("%s/muster-fabric", len > 0 ? path : ".");
}

/* The normalised site in memory, as a path that the next program can open; NULL without a site. */
static int hand_over_site(const struct settings *s, char **path, struct err *err)
{
    const char *file = s->site ? s->site : "site.yaml";
    if (!s->site && !fs_exists(file))
        return 0;
    json_auto_t *site = NULL;
    if (site_load(file, &site, err) != 0)
        return -1;
    AUTO(free_str) char *text = jsonx_canonical(site);
    int fd = memfd_create("site.json", 0);
    size_t len = strlen(text), done = 0;
    while (fd >= 0 && done < len) {
        ssize_t wrote = write(fd, text + done, len - done);
        if (wrote < 0 && errno != EINTR)
            break;
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    if (fd < 0 || done < len)
        return err_set_errno(err, ERR_ENV, errno, "the site cannot be handed to muster-fabric");
    *path = str_printf("/proc/self/fd/%d", fd);
    return 0;
}

static int run_fabric(void *settings, int count, char **operands)
{
    const struct settings *s = settings;
    struct err err = {0};
    AUTO(free_str) char *program = program_path();
    AUTO(free_str) char *site = NULL;
    if (access(program, X_OK) != 0) {
        err_set(&err, ERR_ENV,
                "%s is missing: it is built where libibnetdisc, libibmad and libibumad have their "
                "headers; run muster fabric where it is installed",
                program);
        return ctl_fail(&err);
    }
    if (hand_over_site(s, &site, &err) != 0)
        return ctl_fail(&err);
    char **argv = mem_zero((size_t)count + 5, sizeof *argv);
    int n = 0;
    argv[n++] = program;
    argv[n++] = operands[0];
    if (site) {
        argv[n++] = (char[]){"--site-json"};
        argv[n++] = site;
    }
    if (s->json)
        argv[n++] = (char[]){"--json"};
    for (int i = 1; i < count; i++)
        argv[n++] = operands[i];
    execv(program, argv);
    err_set_errno(&err, ERR_ENV, errno, "%s: cannot be run", program);
    free(argv);
    return ctl_fail(&err);
}

static const char *const about[] = {
    "Works on the InfiniBand subnet that a port of this machine is in: `discover` reads it, "
    "`cables` "
    "compares it with the plan and says which plug goes where, `counters` finds links that err or "
    "are "
    "congested, `sm-check` proves that the planned subnet manager is master and no other, `check` "
    "does "
    "all of these. `sm-config` writes opensm's files from the site's fabric section, `sm-explain` "
    "says "
    "what is wrong with an opensm command line.",
    "Options of the command follow it: `muster fabric COMMAND --help` lists them. Nothing on the "
    "subnet "
    "is changed and no counter is reset.",
    "Exit status: 0 all is well, 1 something is wrong or could not be measured, 2 usage or bad "
    "input, "
    "3 this machine, 5 the deadline passed.",
    NULL,
};
static const struct opt_example examples[] = {
    {"muster fabric discover", "the whole subnet as tables"},
    {"muster fabric check --plan cables.csv --counters /var/lib/muster/ib.json", "what is wrong"},
    {"muster fabric --site site.yaml sm-config --out out", "opensm.conf and its companions"},
    {"muster fabric sm-explain -- opensm -g 0x7fe -F", "each mistake of a command line"},
    {NULL, NULL},
};
const struct opt_command cmd_fabric = {
    .name = "fabric",
    .summary = "InfiniBand: subnet, cables, subnet manager, counters",
    .operands = "COMMAND [ARGUMENT]...",
    .operands_min = 1,
    .operands_max = -1,
    .about = about,
    .rows = rows,
    .examples = examples,
    .settings_bytes = sizeof(struct settings),
    .run = run_fabric,
};
