/* Interfaces inside a namespace, by ioctl: no process per node. */
#include "farm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util.h"

static void set_inet(struct sockaddr *to, const char *address)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    inet_pton(AF_INET, address, &in.sin_addr);
    memcpy(to, &in, sizeof in);
}

int farm_link_up(const char *interface, const char *address, struct err *err)
{
    struct ifreq request = {0};
    strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
    AUTO(close_fd) int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_set_errno(err, ERR_ENV, errno, "socket");
    if (address) {
        set_inet(&request.ifr_addr, address);
        if (ioctl(fd, SIOCSIFADDR, &request))
            return err_set_errno(err, ERR_ENV, errno, "%s: cannot take address %s", interface,
                                 address);
        set_inet(&request.ifr_netmask, "255.255.0.0");
        if (ioctl(fd, SIOCSIFNETMASK, &request))
            return err_set_errno(err, ERR_ENV, errno, "%s: cannot set the netmask", interface);
    }
    if (ioctl(fd, SIOCGIFFLAGS, &request))
        return err_set_errno(err, ERR_ENV, errno, "%s: cannot read its flags", interface);
    request.ifr_flags = (short)(request.ifr_flags | IFF_UP);
    if (ioctl(fd, SIOCSIFFLAGS, &request))
        return err_set_errno(err, ERR_ENV, errno, "%s: cannot bring it up", interface);
    return 0;
}

/* The kernel has one neighbour table of 1024 entries for all namespaces; permanent entries do not
 * count against it.  The hub's end of every pair has the same MAC. */
int farm_link_neighbour(const char *interface, const char *address, struct err *err)
{
    struct arpreq request = {.arp_flags = ATF_COM | ATF_PERM,
                             .arp_ha = {ARPHRD_ETHER, {2, 0x4d, 0, 0, 0, 0}}};
    strncpy(request.arp_dev, interface, sizeof request.arp_dev - 1);
    set_inet(&request.arp_pa, address);
    AUTO(close_fd) int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCSARP, &request))
        return err_set_errno(err, ERR_ENV, errno, "%s: cannot add neighbour %s", interface,
                             address);
    return 0;
}
