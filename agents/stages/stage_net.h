/* What the stages over the network share: token, own address, integer parameters, the endpoint
 * event. */
#ifndef MUSTER_AGENTS_STAGES_STAGE_NET_H
#define MUSTER_AGENTS_STAGES_STAGE_NET_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "agents/stages/stage.h"
#include "common/err.h"
#include "common/hash.h"
#include "fabric/transport/tcp_addr.h"

struct stage_net {
    struct hash token;    /* wipe it at the end */
    struct tcp_addr addr; /* local address to listen on */
};

/* Check the keys and read "token" (64 hex digits), "address" and "interface" (strings or absent).
 * ERR_USAGE for anything that the request must change, ERR_ENV when this node has no such address.
 */
int stage_net_params(const json_t *params, const char *stage, const char *const keys[],
                     struct stage_net *out, struct err *err);

struct stage_net_int {
    const char *key;
    int64_t value; /* when absent */
    int64_t min, max;
};
/* values[i] belongs to rows[i].  ERR_USAGE outside of min..max. */
int stage_net_ints(const json_t *params, const char *stage, const struct stage_net_int rows[],
                   size_t count, int64_t values[], struct err *err);

/* The same for parameters that a site file may set: default and range are those of
 * common/stage_params.def. */
int stage_net_site_ints(const json_t *params, const char *stage, const char *const keys[],
                        size_t count, int64_t values[], struct err *err);

/* Send the event "endpoint"; takes over the reference. */
int stage_net_endpoint(struct stage_ctx *ctx, json_t *endpoint, struct err *err);

#endif
