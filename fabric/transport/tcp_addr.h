/* Local addresses, the interfaces that carry them, and the kernel's counters of an interface.
 *
 * Thread rule: no state; everything is read anew at each call. */
#ifndef MUSTER_FABRIC_TRANSPORT_TCP_ADDR_H
#define MUSTER_FABRIC_TRANSPORT_TCP_ADDR_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/err.h"

enum { TCP_ADDR_TEXT_BYTES = 64 };

struct tcp_addr {
    struct sockaddr_storage sockaddr; /* port 0 unless it was asked for */
    socklen_t sockaddr_bytes;
    char text[TCP_ADDR_TEXT_BYTES]; /* numeric, without scope */
    char interface[IFNAMSIZ];       /* that carries it, "" for an address of another node */
};

/* A numeric IPv4 or IPv6 address with a port (host order).  scope: interface index for a link-local
 * address, else ignored.  ERR_USAGE. */
int tcp_addr_parse(const char *text, uint16_t port, unsigned scope, struct tcp_addr *out,
                   struct err *err);

/* Pick the local address of a stage: `address` if given (ERR_USAGE unless this node has it), else
 * the first global address of `interface` if given, else the node's side of the SSH connection
 * (`ssh_connection`: the value of SSH_CONNECTION, may be NULL), else the first global address of an
 * interface that is up and not loopback.  IPv4 goes before IPv6.  ERR_ENV when none is left. */
int tcp_addr_choose(const char *address, const char *interface, const char *ssh_connection,
                    struct tcp_addr *out, struct err *err);

/* The interface's byte counters, those of /sys/class/net/IF/statistics, read from
 * /proc/self/net/dev: that file is always of the caller's own network namespace, a /sys mounted
 * elsewhere is not. -1 in a member that cannot be read. */
struct tcp_addr_counters {
    int64_t tx_bytes, rx_bytes;
};
struct tcp_addr_counters tcp_addr_counters(const char *interface);

#endif
