/* What several subcommands share. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/jsonx.h"
#include "common/log.h"
#include "common/util.h"
#include "provision/cmd.h"
#include "provision/render.h"
#include "provision/steps.h"

bool cmd_confirm(const struct ctl_options *options, const char *question, struct err *err)
{
    if (options->yes)
        return true;
    if (!isatty(STDIN_FILENO)) {
        err_set(err, ERR_USAGE, "%s: not asked, since this is no terminal; say --yes to go on",
                question);
        return false;
    }
    fprintf(stderr, "%s [y/N] ", question);
    char answer[16] = "";
    if (!fgets(answer, sizeof answer, stdin) || (answer[0] != 'y' && answer[0] != 'Y')) {
        err_set(err, ERR_USAGE, "stopped as you wished; nothing was changed");
        return false;
    }
    return true;
}

void cmd_print_json(const json_t *value)
{
    AUTO(free_str) char *text = json_dumps(value, JSON_INDENT(1) | JSON_SORT_KEYS);
    puts(text ? text : "null");
}

static void tell_report(const struct ctl *c)
{
    fprintf(stdout,
            "\nReport: %s/report.dsse.json\nKey:    %s/keys/signing.pub\nCheck:  muster report "
            "verify --state %s   (on a node: muster-gate)\n",
            c->run.dir, c->state.dir, c->state.dir);
}

int cmd_conclude(struct ctl *c, struct err *err)
{
    json_auto_t *verdict = NULL;
    if (step_judge(c, &verdict, err) != 0 || step_report(c, verdict, err) != 0 ||
        step_publish(c, err) != 0)
        return -1;
    ctl_bye(c);
    if (c->options->json) {
        cmd_print_json(verdict);
    } else {
        render_verdict(verdict, c->options->verbose, stdout);
        tell_report(c);
    }
    bool ready = strcmp(jsonx_str_or(verdict, "cluster_state", ""), "ready") == 0;
    return ready && ctl_exit_status(c) == 0 ? 0 : 1;
}
