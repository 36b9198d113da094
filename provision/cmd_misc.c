/* Subcommands without nodes: site, playbook, explain, completion, man. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/jsonx.h"
#include "common/log.h"
#include "common/tty.h"
#include "common/util.h"
#include "provision/cmd.h"
#include "provision/playbook.h"
#include "provision/site.h"
#include "validate/causes.h"

struct settings {
    struct ctl_options common;
    bool markdown;
};

static const struct opt_row no_rows[] = {{OPT_END, NULL, 0, NULL, NULL, 0, 0, 0}};
static const struct opt_row markdown_rows[] = {
    {OPT_FLAG, "markdown", 0, NULL, "as a page for the documentation",
     offsetof(struct settings, markdown), 0, 0},
    {OPT_END, NULL, 0, NULL, NULL, 0, 0, 0},
};

static int bad_verb(const char *command, const char *verb, const char *known)
{
    struct err err = {0};
    err_set(&err, ERR_USAGE, "%s %s: there are %s", command, verb, known);
    return ctl_fail(&err);
}

static int run_site(void *settings, int count, char **operands)
{
    (void)count;
    const struct settings *s = settings;
    struct err err = {0};
    if (strcmp(operands[0], "keys") == 0) {
        if (s->markdown)
            site_keys_print_markdown(stdout);
        else
            site_keys_print(stdout);
        return 0;
    }
    if (strcmp(operands[0], "check") != 0)
        return bad_verb("site", operands[0], "check and keys");
    struct ctl c;
    if (ctl_open(&c, &s->common, CTL_SITE, &err) != 0)
        return ctl_fail(&err);
    if (s->common.json)
        cmd_print_json(c.site);
    else
        printf("cluster %s, %zu nodes selected: the site file is well-formed\n",
               jsonx_str_or(c.site, "cluster", "?"), c.count);
    ctl_close(&c);
    return 0;
}

static int list_playbooks(const struct settings *s, struct err *err)
{
    json_auto_t *list = NULL, *site = NULL;
    const char *path = s->common.site ? s->common.site : "site.yaml";
    if ((s->common.site || fs_exists(path)) && site_load(path, &site, err) != 0)
        return -1;
    if (playbook_list(site, &list, err) != 0)
        return -1;
    if (s->common.json) {
        cmd_print_json(list);
        return 0;
    }
    struct tty_table *table =
        tty_table_create((const char *const[]){"PLAYBOOK", "SUMMARY", "FILE"}, 3);
    size_t i;
    json_t *row;
    json_array_foreach(list, i, row)
    {
        const char *error = jsonx_str_or(row, "error", NULL);
        tty_table_row(table, error ? TTY_RED : TTY_PLAIN,
                      (const char *const[]){jsonx_str_or(row, "name", "?"),
                                            error ? error : jsonx_str_or(row, "summary", ""),
                                            jsonx_str_or(row, "path", "")});
    }
    tty_table_print(table, stdout);
    tty_table_destroy(table);
    return 0;
}

static int check_playbook(const char *path, struct err *err)
{
    json_auto_t *playbook = NULL;
    if (playbook_load(path, &playbook, err) != 0)
        return -1;
    printf("%s: %zu resources, well-formed\n", path,
           json_array_size(json_object_get(playbook, "resources")));
    return 0;
}

static void print_kinds(void)
{
    size_t count = 0;
    const struct playbook_kind_row *kinds = playbook_kinds(&count);
    struct tty_table *table =
        tty_table_create((const char *const[]){"KIND", "ID", "PARAMETERS"}, 3);
    for (size_t i = 0; i < count; i++)
        tty_table_row(table, TTY_PLAIN,
                      (const char *const[]){kinds[i].kind, kinds[i].id, kinds[i].params});
    tty_table_print(table, stdout);
    tty_table_destroy(table);
}

static int run_playbook(void *settings, int count, char **operands)
{
    const struct settings *s = settings;
    struct err err = {0};
    int status = 0;
    if (strcmp(operands[0], "list") == 0)
        status = list_playbooks(s, &err);
    else if (strcmp(operands[0], "kinds") == 0)
        print_kinds();
    else if (strcmp(operands[0], "check") == 0 && count > 1)
        for (int i = 1; i < count && status == 0; i++)
            status = check_playbook(operands[i], &err);
    else
        return bad_verb("playbook", operands[0], "list, kinds and check FILE...");
    return status == 0 ? 0 : ctl_fail(&err);
}

static int run_explain(void *settings, int count, char **operands)
{
    const struct settings *s = settings;
    if (s->markdown) {
        causes_print_markdown(stdout);
        return 0;
    }
    if (count == 0) {
        for (size_t i = 0; i < causes_count(); i++)
            printf("%-26s %s\n", causes_at(i)->code, causes_at(i)->title);
        return 0;
    }
    const struct cause *cause = causes_find(operands[0]);
    if (!cause) {
        const char **codes = mem_zero(causes_count() + 1, sizeof *codes);
        for (size_t i = 0; i < causes_count(); i++)
            codes[i] = causes_at(i)->code;
        const char *near = str_nearest(operands[0], codes);
        free(codes);
        log_error("no cause '%s'%s%s%s; muster explain lists them", operands[0],
                  near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
        return err_exit_status(ERR_USAGE);
    }
    printf("%s (%s): %s\n\n%s\n\ndo: %s\n", cause->code, causes_severity_name(cause->severity),
           cause->title, cause->meaning, cause->remedy);
    return 0;
}

static int run_completion(void *settings, int count, char **operands)
{
    (void)settings;
    (void)count;
    if (strcmp(operands[0], "bash") != 0)
        return bad_verb("completion", operands[0], "bash");
    opt_print_completion(cmd_all, cmd_count, "muster", stdout);
    return 0;
}

static int write_page(const char *dir, const struct opt_command *command, struct err *err)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (!out)
        return err_set(err, ERR_NOMEM, "man page of %s: no memory", command->name);
    opt_print_man(command, "muster", out);
    fclose(out);
    AUTO(free_str) char *owned = text;
    AUTO(free_str) char *path = str_printf("%s/muster-%s.1", dir, command->name);
    return fs_write_atomic(path, owned, len, 0644, err);
}

static int run_man(void *settings, int count, char **operands)
{
    (void)settings;
    struct err err = {0};
    if (count == 1 && fs_mkdirs(operands[0], 0755, &err) != 0)
        return ctl_fail(&err);
    for (size_t i = 0; i < cmd_count; i++) {
        if (count == 0)
            opt_print_man(cmd_all[i], "muster", stdout);
        else if (write_page(operands[0], cmd_all[i], &err) != 0)
            return ctl_fail(&err);
    }
    return 0;
}

static const struct opt_example site_examples[] = {
    {"muster site check -s aurora.yaml", "is it well-formed, and how many nodes are in it"},
    {"muster site keys", "every key with type, default and meaning"},
    {NULL, NULL},
};
const struct opt_command cmd_site = {
    .name = "site",
    .summary = "check the site file; list every key it may have",
    .operands = "check|keys",
    .operands_min = 1,
    .operands_max = 1,
    .rows = markdown_rows,
    .common = ctl_common_rows,
    .examples = site_examples,
    .settings_bytes = sizeof(struct settings),
    .run = run_site,
};

static const struct opt_example playbook_examples[] = {
    {"muster playbook list", "what is shipped and what the site adds"},
    {"muster playbook check my.yml", "before it meets a node"},
    {NULL, NULL},
};
const struct opt_command cmd_playbook = {
    .name = "playbook",
    .summary = "list playbooks and resource kinds, check a playbook",
    .operands = "list|kinds|check [FILE]...",
    .operands_min = 1,
    .operands_max = -1,
    .rows = no_rows,
    .common = ctl_common_rows,
    .examples = playbook_examples,
    .settings_bytes = sizeof(struct settings),
    .run = run_playbook,
};

static const struct opt_example explain_examples[] = {
    {"muster explain path-mtu", "what it means and what to do"},
    {"muster explain", "every cause that a report may name"},
    {NULL, NULL},
};
const struct opt_command cmd_explain = {
    .name = "explain",
    .summary = "what a cause in a report means and what to do",
    .operands = "[CAUSE]",
    .operands_max = 1,
    .rows = markdown_rows,
    .common = ctl_common_rows,
    .examples = explain_examples,
    .settings_bytes = sizeof(struct settings),
    .run = run_explain,
};

static const struct opt_example completion_examples[] = {
    {"muster completion bash > /etc/bash_completion.d/muster", "for every user"},
    {NULL, NULL},
};
const struct opt_command cmd_completion = {
    .name = "completion",
    .summary = "print the completion script for bash",
    .operands = "bash",
    .operands_min = 1,
    .operands_max = 1,
    .rows = no_rows,
    .examples = completion_examples,
    .settings_bytes = sizeof(struct settings),
    .run = run_completion,
};

static const struct opt_example man_examples[] = {
    {"muster man /usr/local/share/man/man1", "write one page per command"},
    {NULL, NULL},
};
const struct opt_command cmd_man = {
    .name = "man",
    .summary = "print or write the manual pages",
    .operands = "[DIR]",
    .operands_max = 1,
    .rows = no_rows,
    .examples = man_examples,
    .settings_bytes = sizeof(struct settings),
    .run = run_man,
};
