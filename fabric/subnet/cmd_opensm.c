/* muster fabric sm-config, sm-explain: opensm's files and command lines; needs no device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/jsonx.h"
#include "common/util.h"
#include "fabric/subnet/cmd.h"
#include "fabric/subnet/opensm_argv.h"
#include "fabric/subnet/opensm_conf.h"

static int write_file(const char *dir, const struct opensm_file *f, struct err *err)
{
    AUTO(free_str) char *where = *f->host ? str_printf("%s/%s", dir, f->host) : str_dup(dir);
    AUTO(free_str) char *path = str_printf("%s/%s", where, f->name);
    if (fs_mkdirs(where, 0755, err) != 0 ||
        fs_write_atomic(path, f->text, strlen(f->text), 0644, err) != 0)
        return -1;
    printf("%s\n", path);
    return 0;
}

static int run_sm_config(void *settings, int count, char **operands)
{
    const struct cmd_settings *c = settings;
    (void)count;
    (void)operands;
    struct err err = {0};
    json_auto_t *site = NULL;
    const json_t *fabric = NULL;
    struct opensm_files files = {0};
    int status = cmd_read_site(c, &site, &fabric, &err);
    if (status == 0 && !fabric)
        status = err_set(&err, ERR_USAGE,
                         "sm-config: needs the site: muster fabric --site site.yaml sm-config");
    if (status == 0)
        status = opensm_conf_make(fabric, c->dir, &files, &err);
    for (size_t i = 0; i < files.count && status == 0; i++) {
        const struct opensm_file *f = &files.files[i];
        if (c->out)
            status = write_file(c->out, f, &err);
        else
            printf("==> %s%s%s <==\n%s\n", f->host, *f->host ? "/" : "", f->name, f->text);
    }
    opensm_files_release(&files);
    return status == 0 ? 0 : cmd_fail(&err);
}

static int run_sm_explain(void *settings, int count, char **operands)
{
    const struct cmd_settings *c = settings;
    if (count > 0 &&
        (strcmp(operands[0], "opensm") == 0 || str_has_suffix(operands[0], "/opensm"))) {
        operands++;
        count--;
    }
    json_auto_t *findings = json_array();
    AUTO(free_str)
    char *right = opensm_argv_explain((const char *const *)operands, (size_t)count, findings);
    json_t *extra = json_object();
    jsonx_set_str(extra, "right_form", right);
    int status = cmd_conclude(c, findings, extra, "nothing is wrong with this command line");
    if (!c->json)
        printf("right form: %s\n", right);
    return status;
}

static const struct opt_row config_rows[] = {
    {OPT_STRING, "out", 0, "DIR", "write below DIR, a directory per manager (default: show)",
     offsetof(struct cmd_settings, out), 0, 0},
    {OPT_STRING, "dir", 0, "DIR", "where opensm will find the shared files (default /etc/opensm)",
     offsetof(struct cmd_settings, dir), 0, 0},
    {OPT_END, NULL, 0, NULL, NULL, 0, 0, 0},
};
static const struct opt_row no_rows[] = {{OPT_END, NULL, 0, NULL, NULL, 0, 0, 0}};

const struct opt_command cmd_sm_config = {.name = "sm-config",
                                          .summary = "opensm's files from the site, checked",
                                          .operands = "",
                                          .rows = config_rows,
                                          .common = cmd_common_rows,
                                          .settings_bytes = sizeof(struct cmd_settings),
                                          .run = run_sm_config};
const struct opt_command cmd_sm_explain = {.name = "sm-explain",
                                           .summary = "what is wrong with an opensm command line",
                                           .operands = "-- COMMAND [OPTION]...",
                                           .operands_min = 1,
                                           .operands_max = -1,
                                           .rows = no_rows,
                                           .common = cmd_common_rows,
                                           .settings_bytes = sizeof(struct cmd_settings),
                                           .run = run_sm_explain};
