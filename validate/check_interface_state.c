#include "validate/check.h"

#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"

static void judge_net(const json_t *fabric, const json_t *net, struct ledger_row *row)
{
    const char *state = jsonx_str_or(net, "operstate", "unknown");
    int64_t mtu = jsonx_int_or(net, "mtu", 0), want_mtu = jsonx_int_or(fabric, "mtu", 0);
    int64_t rate = jsonx_int_or(net, "speed_bps", 0),
            want_rate = jsonx_int_or(fabric, "rate_bps", 0);
    /* Some drivers never say "up". */
    if (strcmp(state, "up") != 0 && strcmp(state, "unknown") != 0)
        ledger_set(row, VERDICT_FAIL, "interface-missing", "the interface is %s", state);
    if (want_mtu > 0 && mtu != want_mtu)
        ledger_set(row, VERDICT_FAIL, "mtu-mismatch", "MTU is %lld, the site states %lld",
                   (long long)mtu, (long long)want_mtu);
    if (want_rate > 0 && rate > 0 && rate < want_rate)
        ledger_set(row, VERDICT_FAIL, "link-slow",
                   "the link runs at %lld Mbit/s, the site states %lld",
                   (long long)(rate / 1000000), (long long)(want_rate / 1000000));
    if (want_rate > 0 && rate == 0)
        ledger_set(row, VERDICT_NOT_MEASURED, "limit-missing",
                   "the site states a rate, but the interface does not tell its speed");
    ledger_set(row, VERDICT_PASS, NULL, "%s, MTU %lld", state, (long long)mtu);
}

/* The site's MTU of an InfiniBand fabric is that of the ports, not of an IP interface. */
static bool is_ip_fabric(const json_t *fabric)
{
    const char *kind = jsonx_str_or(fabric, "kind", "ethernet");
    return strcmp(kind, "ethernet") == 0 || strcmp(kind, "roce") == 0;
}

static int judge(const struct check *check, struct check_env *env, struct err *err)
{
    const json_t *fabric = json_object_get(env->input->site, "fabric");
    const char *named = jsonx_str_or(fabric, "interface", NULL);
    for (size_t i = 0; i < env->count; i++) {
        const char *node = env->names[i];
        const char *interface = check_interface(env, node);
        if (!interface || !check_facts(env, node))
            continue; /* the facts check, or the stage that needs the interface, says so */
        AUTO(free_str) char *subject = str_printf("%s/net:%s", node, interface);
        struct ledger_row *row = ledger_row(env->ledger, subject, node, check->stage, check->name,
                                            check_is_required(env, check->stage));
        const json_t *net = check_net(env, node, interface);
        if (!net)
            ledger_set(row, VERDICT_FAIL, "interface-missing", "%s has no interface %s%s", node,
                       interface, named ? ", which the site names" : "");
        else
            judge_net(is_ip_fabric(fabric) ? fabric : NULL, net, row);
    }
    return 0;
}

const struct check check_interface_state = {
    .name = "interface",
    .summary = "the interface between nodes is up, with the planned MTU and rate",
    .stage = "inventory",
    .judge = judge,
};
