/* Subcommands: one file each, one line each in commands.def. */
#ifndef MUSTER_PROVISION_CMD_H
#define MUSTER_PROVISION_CMD_H

#include "common/opt.h"
#include "provision/ctl.h"

#define COMMAND(name) extern const struct opt_command cmd_##name;
#include "provision/commands.def"
#undef COMMAND

extern const struct opt_command *const cmd_all[];
extern const size_t cmd_count;

/* Ask on the terminal; true without asking with --yes.  Without a terminal and without --yes:
 * false, and err says that --yes is needed. */
bool cmd_confirm(const struct ctl_options *options, const char *question, struct err *err);
/* Print JSON (sorted, indented) on stdout. */
void cmd_print_json(const json_t *value);
/* Judge, print the summary, sign and publish; the exit status of the verdict.  Ends the agents. */
int cmd_conclude(struct ctl *c, struct err *err);

#endif
