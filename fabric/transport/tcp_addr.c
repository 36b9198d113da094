#include "fabric/transport/tcp_addr.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/util.h"

int tcp_addr_parse(const char *text, uint16_t port, unsigned scope, struct tcp_addr *out,
                   struct err *err)
{
    struct tcp_addr a = {.sockaddr_bytes = 0};
    struct sockaddr_in *in4 = (struct sockaddr_in *)&a.sockaddr;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&a.sockaddr;
    if (strlen(text) >= sizeof a.text)
        return err_set(err, ERR_USAGE, "'%.64s...' is not an IP address", text);
    snprintf(a.text, sizeof a.text, "%s", text);
    if (inet_pton(AF_INET, text, &in4->sin_addr) == 1) {
        in4->sin_family = AF_INET;
        in4->sin_port = htons(port);
        a.sockaddr_bytes = sizeof *in4;
    } else if (inet_pton(AF_INET6, text, &in6->sin6_addr) == 1) {
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(port);
        in6->sin6_scope_id = IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) ? scope : 0;
        a.sockaddr_bytes = sizeof *in6;
    } else {
        return err_set(err, ERR_USAGE,
                       "'%s' is not a numeric IPv4 or IPv6 address (like 10.0.0.1 or fd00::1)",
                       text);
    }
    *out = a;
    return 0;
}

static bool is_global(const struct sockaddr *sa)
{
    if (sa->sa_family == AF_INET) {
        uint32_t a = ntohl(((const struct sockaddr_in *)(const void *)sa)->sin_addr.s_addr);
        return a >> 24 != 127 && a >> 16 != 0xa9fe; /* not loopback, not 169.254 */
    }
    const struct in6_addr *a6 = &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;
    return !IN6_IS_ADDR_LOOPBACK(a6) && !IN6_IS_ADDR_LINKLOCAL(a6);
}

/* What is asked of the addresses of this node; members that are NULL or false do not matter. */
struct wish {
    const struct tcp_addr *equal;
    const char *interface;
    bool global, up;
    int family;
};

static bool same_address(const struct sockaddr *sa, const struct tcp_addr *b)
{
    if (sa->sa_family != b->sockaddr.ss_family)
        return false;
    if (sa->sa_family == AF_INET)
        return ((const struct sockaddr_in *)(const void *)sa)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)&b->sockaddr)->sin_addr.s_addr;
    return IN6_ARE_ADDR_EQUAL(&((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr,
                              &((const struct sockaddr_in6 *)&b->sockaddr)->sin6_addr);
}

static bool grants(const struct ifaddrs *i, const struct wish *w)
{
    if (!i->ifa_addr || i->ifa_addr->sa_family != w->family)
        return false;
    if (w->equal && !same_address(i->ifa_addr, w->equal))
        return false;
    if (w->interface && strcmp(w->interface, i->ifa_name) != 0)
        return false;
    if (w->global && !is_global(i->ifa_addr))
        return false;
    return !w->up || ((i->ifa_flags & IFF_UP) && !(i->ifa_flags & IFF_LOOPBACK));
}

static void take(const struct ifaddrs *i, struct tcp_addr *out)
{
    char text[INET6_ADDRSTRLEN];
    const void *raw = &((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr;
    if (i->ifa_addr->sa_family == AF_INET6)
        raw = &((const struct sockaddr_in6 *)(const void *)i->ifa_addr)->sin6_addr;
    inet_ntop(i->ifa_addr->sa_family, raw, text, sizeof text);
    struct err ignored = {.kind = ERR_NONE}; /* the kernel's own address parses */
    tcp_addr_parse(text, 0, if_nametoindex(i->ifa_name), out, &ignored);
    snprintf(out->interface, sizeof out->interface, "%s", i->ifa_name);
}

static bool search(const struct ifaddrs *list, struct wish w, struct tcp_addr *out)
{
    static const int families[] = {AF_INET, AF_INET6};
    for (size_t f = 0; f < ARRAY_LEN(families); f++) {
        w.family = families[f];
        for (const struct ifaddrs *i = list; i; i = i->ifa_next)
            if (grants(i, &w)) {
                take(i, out);
                return true;
            }
    }
    return false;
}

/* SSH_CONNECTION is "client-address client-port server-address server-port". */
static bool search_ssh(const struct ifaddrs *list, const char *ssh_connection, struct tcp_addr *out)
{
    char local[TCP_ADDR_TEXT_BYTES];
    struct tcp_addr a;
    struct err ignored = {.kind = ERR_NONE}; /* a value that does not parse is no wish */
    if (!ssh_connection || sscanf(ssh_connection, "%*s %*s %63s", local) != 1 ||
        tcp_addr_parse(local, 0, 0, &a, &ignored))
        return false;
    return search(list, (struct wish){.equal = &a}, out);
}

static int choose(const struct ifaddrs *list, const char *address, const char *interface,
                  const char *ssh_connection, struct tcp_addr *out, struct err *err)
{
    if (address) {
        struct tcp_addr a;
        if (tcp_addr_parse(address, 0, 0, &a, err))
            return -1;
        if (search(list, (struct wish){.equal = &a, .interface = interface}, out))
            return 0;
        return err_set(err, ERR_USAGE, "address %s is not on %s%s of this node", address,
                       interface ? "interface " : "any interface", interface ? interface : "");
    }
    if (interface) {
        if (search(list, (struct wish){.interface = interface, .global = true}, out))
            return 0;
        return err_set(err, ERR_ENV, "interface %s %s", interface,
                       if_nametoindex(interface) ? "has no global address" : "does not exist");
    }
    if (search_ssh(list, ssh_connection, out) ||
        search(list, (struct wish){.global = true, .up = true}, out))
        return 0;
    return err_set(err, ERR_ENV,
                   "no interface of this node is up and has a global address; "
                   "set fabric.interface in the site file");
}

int tcp_addr_choose(const char *address, const char *interface, const char *ssh_connection,
                    struct tcp_addr *out, struct err *err)
{
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list))
        return err_set(err, ERR_ENV, "the kernel does not list this node's addresses");
    int rc = choose(list, address, interface, ssh_connection, out, err);
    freeifaddrs(list);
    return rc;
}

struct tcp_addr_counters tcp_addr_counters(const char *interface)
{
    struct tcp_addr_counters c = {.tx_bytes = -1, .rx_bytes = -1};
    struct err ignored = {.kind = ERR_NONE}; /* unreadable is -1 */
    AUTO(free_str) char *text = NULL;
    if (fs_read("/proc/self/net/dev", 1 << 20, &text, NULL, &ignored))
        return c;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        char name[32];
        long long rx, tx;
        /* "  eth0: rx_bytes packets errs drop fifo frame compressed multicast tx_bytes ..." */
        if (sscanf(line, " %31[^:]: %lld %*d %*d %*d %*d %*d %*d %*d %lld", name, &rx, &tx) == 3 &&
            strcmp(name, interface) == 0)
            c = (struct tcp_addr_counters){.tx_bytes = tx, .rx_bytes = rx};
    }
    return c;
}
