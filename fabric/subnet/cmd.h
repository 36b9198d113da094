/* Subcommands of muster-fabric; one row each in main.c. */
#ifndef MUSTER_FABRIC_SUBNET_CMD_H
#define MUSTER_FABRIC_SUBNET_CMD_H

#include <jansson.h>

#include "common/err.h"
#include "common/opt.h"
#include "fabric/subnet/discover.h"
#include "fabric/subnet/subnet.h"

struct cmd_settings {
    bool json;
    const char *device, *site, *plan, *tree, *counters, *log, *routing, *master, *out, *dir;
    int64_t port, deadline_ms, window_ms;
};
extern const struct opt_row cmd_common_rows[];

extern const struct opt_command cmd_discover, cmd_cables, cmd_counters, cmd_check, cmd_sm_check,
    cmd_sm_config, cmd_sm_explain;

/* Opens the port and reads the subnet under the settings' deadline. */
int cmd_read_subnet(const struct cmd_settings *c, struct ibmad_port **mads, struct subnet *s,
                    struct err *err);
/* The site's fabric section (borrowed from *site), NULL without --site-json. */
int cmd_read_site(const struct cmd_settings *c, json_t **site, const json_t **fabric,
                  struct err *err);
/* Prints findings, for people or as JSON with extra's members; the exit status they mean. */
int cmd_conclude(const struct cmd_settings *c, const json_t *findings, json_t *extra,
                 const char *good);
int cmd_fail(const struct err *err);

#endif
