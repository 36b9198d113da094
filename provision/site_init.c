#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/units.h"
#include "common/util.h"
#include "provision/site.h"
#include "provision/yaml_scalar.h"
#include "validate/ledger.h"

enum { GPU_NAME_SHOWN_BYTES = 60 };

/* A value of a flow mapping: plain where YAML reads it back as this text, else quoted.  JSON's
 * quoting is YAML's double-quoted form. */
static char *scalar(const char *text)
{
    if (yaml_scalar_is_plain(text))
        return str_dup(text);
    json_auto_t *value = json_string(text);
    char *quoted = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    return quoted ? quoted : str_dup("\"\"");
}

/* The interface that carries traffic between nodes: up, physical and fastest before the others; one
 * with an address before one without. */
static int64_t interface_rank(const json_t *net)
{
    if (strcmp(jsonx_str_or(net, "name", "lo"), "lo") == 0 ||
        strcmp(jsonx_str_or(net, "operstate", "down"), "down") == 0 ||
        json_array_size(json_object_get(net, "addresses")) == 0)
        return 0;
    int64_t gbps = jsonx_int_or(net, "speed_bps", 0) / 1000000000;
    return 1 + gbps + (jsonx_bool_or(net, "virtual", true) ? 0 : 1000000);
}

static const json_t *choose_interface(const json_t *facts, const char *name)
{
    const json_t *best = NULL;
    int64_t best_rank = 0;
    size_t i;
    json_t *net;
    json_array_foreach(json_object_get(facts, "net"), i, net)
    {
        if (name && strcmp(jsonx_str_or(net, "name", ""), name) == 0)
            return net;
        if (name || interface_rank(net) <= best_rank)
            continue;
        best = net;
        best_rank = interface_rank(net);
    }
    return best;
}

/* "400Gb/s" in a unit that the reader takes exactly; NULL for an unknown speed. */
static char *rate_text(int64_t bps)
{
    static const struct {
        int64_t factor;
        const char *suffix;
    } units[] = {{1000000000, "Gb/s"}, {1000000, "Mb/s"}, {1, "b/s"}};
    for (size_t i = 0; bps > 0 && i < ARRAY_LEN(units); i++)
        if (bps % units[i].factor == 0)
            return str_printf("%lld%s", (long long)(bps / units[i].factor), units[i].suffix);
    return NULL;
}

static void put_ssh(struct strbuf *b, const struct site_init *init)
{
    AUTO(free_str) char *user = init->user ? scalar(init->user) : NULL;
    strbuf_puts(b,
                "# How nodes are reached.  ~/.ssh/config, agents and jump hosts are honoured; host "
                "keys are always\n# checked.\n");
    strbuf_printf(b, "ssh: { %s%s%sbecome: %s }\n\n", user ? "user: " : "", user ? user : "",
                  user ? ", " : "", init->sudo ? "sudo" : "none");
}

static void put_fabric(struct strbuf *b, const struct site_init *init, const json_t *net)
{
    const char *name = init->interface ? init->interface : jsonx_str_or(net, "name", NULL);
    const char *kind =
        json_array_size(json_object_get(init->facts, "rdma")) > 0 ? "roce" : "ethernet";
    size_t i;
    json_t *device, *port;
    json_array_foreach(json_object_get(init->facts, "rdma"), i, device)
    {
        port = json_array_get(json_object_get(device, "ports"), 0);
        if (strcmp(jsonx_str_or(device, "driver", ""), "efa") == 0)
            kind = "efa";
        else if (strcmp(jsonx_str_or(port, "link_layer", ""), "InfiniBand") == 0)
            kind = "infiniband";
    }
    strbuf_puts(b, "# The network between the nodes: ethernet, infiniband, roce or efa.\n");
    strbuf_printf(b, "fabric:\n  kind: %s\n", kind);
    if (name) {
        AUTO(free_str) char *text = scalar(name);
        strbuf_printf(b, "  interface: %s # the same name on every node\n", text);
    } else {
        strbuf_puts(b, "  # interface: eth0 # the same name on every node\n");
    }
    AUTO(free_str) char *rate = rate_text(jsonx_int_or(net, "speed_bps", 0));
    int64_t mtu = jsonx_int_or(net, "mtu", 0);
    bool ethernet = strcmp(kind, "ethernet") == 0;
    strbuf_printf(b, "  %srate: %s # planned rate of every port\n", rate && ethernet ? "" : "# ",
                  rate ? rate : "100Gb/s");
    if (mtu >= 256 && ethernet)
        strbuf_printf(b, "  mtu: %lld\n\n", (long long)mtu);
    else
        strbuf_puts(b, "  # mtu: 4096\n\n");
}

static void put_nodes(struct strbuf *b, const struct site_init *init, const char *hosts)
{
    const json_t *gpus = json_object_get(json_object_get(init->facts, "gpus"), "devices");
    AUTO(free_str) char *quoted = NULL;
    json_auto_t *value = json_string(hosts);
    quoted = json_dumps(value, JSON_ENCODE_ANY);
    strbuf_puts(
        b,
        "# Each entry: names (a hostlist) and what these nodes share.  A node with an address of "
        "its own:\n#   - { names: gpu001, host: 10.0.0.1, port: 22, user: ops }\n");
    if (json_array_size(gpus) > 0)
        strbuf_printf(b,
                      "# The first node has %zu x %.*s; \"hardware: NAME\" holds every node to a "
                      "profile.\n",
                      json_array_size(gpus), GPU_NAME_SHOWN_BYTES,
                      jsonx_str_or(json_array_get(gpus, 0), "name", "GPU"));
    strbuf_printf(b, "nodes:\n  - { names: %s, playbooks: [base, nccl%s] }\n\n",
                  quoted ? quoted : "\"\"", json_array_size(gpus) > 0 ? ", gpudirect" : "");
}

/* Required is what this version can measure on what the first node shows: a policy of "all" would
 * leave every node unknown where a stage has no hardware or no program. */
static void put_required(struct strbuf *b, const struct site_init *init, size_t node_count)
{
    json_auto_t *stages = ledger_measurable(init->facts, node_count);
    strbuf_puts(b, "policy:\n  # What a node must pass to be ready.  all: every stage there is; a "
                   "stage that cannot run is not a pass.\n  require: [");
    size_t i;
    json_t *stage;
    json_array_foreach(stages, i, stage)
    {
        strbuf_printf(b, "%s%s", i ? ", " : "", json_string_value(stage));
    }
    strbuf_puts(b, "]\n  max_age: 7d # a report opens the gate for this long\n");
}

static void put_policy(struct strbuf *b, const struct site_init *init, const json_t *net,
                       size_t node_count)
{
    put_required(b, init, node_count);
    const char *kind = jsonx_str_or(init->facts, "virtual", "none");
    bool virtual = strcmp(kind, "none") != 0 || jsonx_bool_or(net, "virtual", false);
    if (virtual && init->facts)
        strbuf_puts(
            b, "  # This is a virtual interface: the speed that it states is not what it carries, "
               "so the limits\n  # are stated here.\n  floors:\n    tcp_bandwidth: { value: 1Gb/s, "
               "reason: virtual interface }\n    allreduce_busbw: { value: 20MB/s, reason: virtual "
               "interface }\n");
    else
        strbuf_puts(b, "  # Limits of your own, instead of those derived from the hardware:\n"
                       "  # floors: { tcp_bandwidth: { value: 9Gb/s, reason: shared uplink } }\n");
    strbuf_puts(
        b, "  # Elements that are not judged until a date, for instance during a repair:\n"
           "  # exclude:\n"
           "  #   - { subject: \"gpu017/hca:mlx5_3\", reason: RMA 4711, until: 2030-12-31 }\n");
}

int site_init_text(const struct site_init *init, char **text, struct err *err)
{
    AUTO(hostlist_release) struct hostlist list = {0};
    struct err cause = {0};
    if (hostlist_parse(init->hosts, &list, &cause) != 0)
        return err_set(err, ERR_USAGE, "%s", cause.text);
    const char *twice = hostlist_duplicate(&list);
    if (list.count == 0 || twice)
        return err_set(err, ERR_USAGE, "host list '%.80s' %s%s", init->hosts,
                       twice ? "names twice: " : "names no host", twice ? twice : "");
    AUTO(free_str) char *hosts = hostlist_format((const char *const *)list.names, list.count);
    AUTO(free_str) char *cluster = scalar(init->cluster ? init->cluster : "cluster");
    const json_t *net = choose_interface(init->facts, init->interface);
    struct strbuf b = {0};
    strbuf_puts(&b,
                "# Site file of muster: what this cluster is meant to be.  Every key: muster site "
                "keys\n");
    strbuf_printf(&b, "cluster: %s # goes into every report\n\n", cluster);
    put_ssh(&b, init);
    put_fabric(&b, init, net);
    put_nodes(&b, init, hosts);
    put_policy(&b, init, net, list.count);
    *text = b.data;
    return 0;
}
