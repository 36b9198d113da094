/* RDMA devices, their ports and GIDs, from /sys/class/infiniband. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/facts/facts_topics.h"
#include "common/jsonx.h"
#include "common/util.h"

#define RDMA_DIR "/sys/class/infiniband/"

enum { MAX_GIDS = 256 };

/* "4: ACTIVE" is state ACTIVE. */
static void set_state(json_t *port, const char *key, const struct fs_root *root, const char *path)
{
    AUTO(free_str) char *line = facts_line(root, "%s/%s", path, key);
    const char *name = line ? line : "";
    const char *colon = strchr(name, ':');
    if (colon)
        name = colon + 1 + strspn(colon + 1, " ");
    facts_set_text(port, key, name);
}

/* "400 Gb/sec (4X NDR)"; null when it says no number. */
static json_t *rate_bps(const char *rate)
{
    double gbit = 0;
    const char *unit = rate ? facts_scan_num(rate, &gbit) : NULL;
    enum { MAX_GBIT = 1000000 }; /* beyond any port: not a rate */
    if (!unit || !str_has_prefix(unit, " Gb/sec") || gbit < 0 || gbit > MAX_GBIT)
        return json_null();
    return json_integer((json_int_t)(gbit * 1e9 + 0.5));
}

static bool is_zero_gid(const char *gid)
{
    return strspn(gid, "0:") == strlen(gid);
}

static json_t *read_gids(const struct fs_root *root, const char *path)
{
    json_t *gids = facts_array();
    for (int i = 0; i < MAX_GIDS; i++) {
        AUTO(free_str) char *gid = facts_line(root, "%s/gids/%d", path, i);
        if (!gid)
            break;
        if (is_zero_gid(gid))
            continue;
        json_t *entry = facts_object();
        jsonx_set_int(entry, "index", i);
        facts_set_text(entry, "gid", gid);
        facts_set_line(entry, "type", root, "%s/gid_attrs/types/%d", path, i);
        jsonx_append(gids, entry);
    }
    return gids;
}

/* The interface of a port: the owner of its first GID (RoCE, EFA), else the one interface of the
 * device with the port's number (IPoIB).  NULL if none.  The caller frees. */
static char *port_interface(const struct fs_root *root, const char *device, int port)
{
    char *owner = facts_line(root, RDMA_DIR "%s/ports/%d/gid_attrs/ndevs/0", device, port);
    if (owner && owner[0])
        return owner;
    free(owner);
    AUTO(facts_names_free)
    struct facts_names nets = facts_list(root, RDMA_DIR "%s/device/net", device);
    for (size_t i = 0; i < nets.count; i++) {
        long long dev_port = facts_int(root, 0, "/sys/class/net/%s/dev_port", nets.names[i]);
        if (dev_port == port - 1 || nets.count == 1)
            return str_dup(nets.names[i]);
    }
    return NULL;
}

static json_t *read_port(const struct fs_root *root, const char *device, int number)
{
    AUTO(free_str) char *path = str_printf(RDMA_DIR "%s/ports/%d", device, number);
    AUTO(free_str) char *rate = facts_line(root, "%s/rate", path);
    AUTO(free_str) char *net = port_interface(root, device, number);
    json_t *port = facts_object();
    jsonx_set_int(port, "port", number);
    set_state(port, "state", root, path);
    set_state(port, "phys_state", root, path);
    facts_set_text(port, "rate", rate);
    jsonx_set(port, "rate_bps", rate_bps(rate));
    facts_set_line(port, "link_layer", root, "%s/link_layer", path);
    jsonx_set_int(port, "lid", facts_int(root, 0, "%s/lid", path));
    jsonx_set_int(port, "sm_lid", facts_int(root, 0, "%s/sm_lid", path));
    facts_set_text(port, "net", net);
    jsonx_set(port, "gids", read_gids(root, path));
    return port;
}

static json_t *read_device(const struct fs_root *root, const char *name)
{
    AUTO(free_str) char *path = str_printf(RDMA_DIR "%s", name);
    AUTO(free_str) char *driver = facts_link(root, "%s/device/driver", path);
    char bdf[16];
    bool has_pci = facts_link_bdf(root, path, 0, bdf);
    json_t *device = facts_object();
    facts_set_text(device, "name", name);
    facts_set_line(device, "node_guid", root, "%s/node_guid", path);
    facts_set_line(device, "firmware", root, "%s/fw_ver", path);
    jsonx_set_str(device, "pci", has_pci ? bdf : NULL);
    facts_set_text(device, "driver", driver);
    json_t *ports = facts_array();
    for (int number = 1; facts_exists(root, "%s/ports/%d", path, number); number++)
        jsonx_append(ports, read_port(root, name, number));
    jsonx_set(device, "ports", ports);
    return device;
}

json_t *facts_rdma(const struct fs_root *root)
{
    json_t *devices = facts_array();
    AUTO(facts_names_free) struct facts_names names = facts_list(root, RDMA_DIR);
    for (size_t i = 0; i < names.count; i++)
        jsonx_append(devices, read_device(root, names.names[i]));
    return devices;
}
