#include "agents/stages/stage_net.h"

#include <stdlib.h>

#include "common/jsonx.h"
#include "common/stage_params.h"
#include "common/util.h"

/* A parameter that is wrong is the request's fault, whatever the reader called it. */
static int as_usage(struct err *err)
{
    err->kind = ERR_USAGE;
    return -1;
}

int stage_net_params(const json_t *params, const char *stage, const char *const keys[],
                     struct stage_net *out, struct err *err)
{
    AUTO(free_str) char *what = str_printf("stage %s", stage);
    const char *token, *address = NULL, *interface = NULL;
    struct stage_net net;
    if (jsonx_only_keys(params, what, keys, err) ||
        jsonx_get_str(params, what, "token", &token, err) ||
        jsonx_opt_str(params, what, "address", &address, err) ||
        jsonx_opt_str(params, what, "interface", &interface, err))
        return as_usage(err);
    if (hash_from_hex(token, &net.token))
        return err_set(err, ERR_USAGE, "%s: key 'token' must be 64 hex digits", what);
    if (tcp_addr_choose(address, interface, getenv("SSH_CONNECTION"), &net.addr, err))
        return err_wrap(err, "%s: ", what);
    *out = net;
    return 0;
}

int stage_net_ints(const json_t *params, const char *stage, const struct stage_net_int rows[],
                   size_t count, int64_t values[], struct err *err)
{
    AUTO(free_str) char *what = str_printf("stage %s", stage);
    for (size_t i = 0; i < count; i++) {
        values[i] = rows[i].value;
        if (jsonx_opt_int(params, what, rows[i].key, &values[i], err))
            return as_usage(err);
        if (values[i] < rows[i].min || values[i] > rows[i].max)
            return err_set(err, ERR_USAGE, "%s: %s is %lld, must be %lld to %lld", what,
                           rows[i].key, (long long)values[i], (long long)rows[i].min,
                           (long long)rows[i].max);
    }
    return 0;
}

int stage_net_site_ints(const json_t *params, const char *stage, const char *const keys[],
                        size_t count, int64_t values[], struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct stage_param *row = stage_params_find(stage, keys[i]);
        if (!row)
            return err_set(err, ERR_USAGE, "stage %s: '%s' has no row", stage, keys[i]);
        const struct stage_net_int one = {row->key, row->fallback, row->min, row->max};
        if (stage_net_ints(params, stage, &one, 1, &values[i], err))
            return -1;
    }
    return 0;
}

int stage_net_endpoint(struct stage_ctx *ctx, json_t *endpoint, struct err *err)
{
    json_t *fields = json_object();
    jsonx_set(fields, "endpoint", endpoint);
    return stage_event(ctx, "endpoint", fields, err);
}
