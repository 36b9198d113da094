/* Network interfaces with their addresses. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

#include "agents/facts/facts_topics.h"
#include "common/jsonx.h"
#include "common/util.h"

static int prefix_length(const uint8_t *mask, size_t len)
{
    int bits = 0;
    for (size_t i = 0; i < len; i++)
        bits += __builtin_popcount(mask[i]);
    return bits;
}

static json_t *read_address(const struct ifaddrs *entry)
{
    int family = entry->ifa_addr->sa_family;
    const void *address = NULL, *mask = NULL;
    size_t mask_len = 0;
    if (family == AF_INET) {
        address = &((const struct sockaddr_in *)(const void *)entry->ifa_addr)->sin_addr;
        mask = &((const struct sockaddr_in *)(const void *)entry->ifa_netmask)->sin_addr;
        mask_len = sizeof(struct in_addr);
    } else {
        address = &((const struct sockaddr_in6 *)(const void *)entry->ifa_addr)->sin6_addr;
        mask = &((const struct sockaddr_in6 *)(const void *)entry->ifa_netmask)->sin6_addr;
        mask_len = sizeof(struct in6_addr);
    }
    char text[INET6_ADDRSTRLEN];
    if (!inet_ntop(family, address, text, sizeof text))
        return NULL;
    json_t *out = facts_object();
    jsonx_set_str(out, "family", family == AF_INET ? "ipv4" : "ipv6");
    jsonx_set_str(out, "address", text);
    jsonx_set_int(out, "prefix", entry->ifa_netmask ? prefix_length(mask, mask_len) : 0);
    return out;
}

static json_t *addresses_of(const struct ifaddrs *list, const char *name)
{
    json_t *out = facts_array();
    for (const struct ifaddrs *e = list; e; e = e->ifa_next) {
        if (!e->ifa_addr || strcmp(e->ifa_name, name) != 0 ||
            (e->ifa_addr->sa_family != AF_INET && e->ifa_addr->sa_family != AF_INET6))
            continue;
        json_t *address = read_address(e);
        if (address)
            jsonx_append(out, address);
    }
    return out;
}

static json_t *read_interface(const struct fs_root *root, const char *name,
                              const struct ifaddrs *addresses)
{
    AUTO(free_str) char *path = str_printf("/sys/class/net/%s", name);
    AUTO(free_str) char *driver = facts_link(root, "%s/device/driver", path);
    long long mbit = facts_int(root, -1, "%s/speed", path);
    char bdf[16];
    bool has_pci = facts_link_bdf(root, path, 0, bdf);
    json_t *net = facts_object();
    facts_set_text(net, "name", name);
    facts_set_line(net, "mac", root, "%s/address", path);
    jsonx_set_int(net, "mtu", facts_int(root, 0, "%s/mtu", path));
    facts_set_line(net, "operstate", root, "%s/operstate", path);
    jsonx_set_str(net, "driver", driver);
    /* -1 and 2^32-1 are both the kernel's "unknown". */
    bool known = mbit > 0 && mbit != UINT32_MAX;
    jsonx_set(net, "speed_bps", known ? json_integer(mbit * 1000000) : json_null());
    jsonx_set_bool(net, "virtual", facts_link_is_virtual(root, path));
    jsonx_set_str(net, "pci", has_pci ? bdf : NULL);
    jsonx_set(net, "addresses", addresses_of(addresses, name));
    return net;
}

json_t *facts_net(const struct fs_root *root)
{
    json_t *interfaces = facts_array();
    struct ifaddrs *addresses = NULL;
    if (facts_root_is_real(root) && getifaddrs(&addresses) != 0)
        addresses = NULL;
    AUTO(facts_names_free) struct facts_names names = facts_list(root, "/sys/class/net");
    for (size_t i = 0; i < names.count; i++) /* bonding_masters is a file there */
        if (facts_exists(root, "/sys/class/net/%s/ifindex", names.names[i]))
            jsonx_append(interfaces, read_interface(root, names.names[i], addresses));
    freeifaddrs(addresses);
    return interfaces;
}
