#include "agents/resources/link_info.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/util.h"

static int open_socket(struct err *err)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        err_set_errno(err, ERR_ENV, errno, "cannot open a socket to ask for interfaces");
    return fd;
}

static int ask(int fd, unsigned long request, const char *name, struct ifreq *req)
{
    snprintf(req->ifr_name, sizeof req->ifr_name, "%s", name);
    return ioctl(fd, request, req);
}

static int64_t attribute_u32(const struct rtattr *a)
{
    uint32_t value;
    memcpy(&value, RTA_DATA(a), sizeof value);
    return value;
}

/* The MTU range is only told over netlink; it serves an explanation, so that not getting it is no
 * error. */
static void read_range(unsigned index, struct link_info *out)
{
    struct {
        struct nlmsghdr head;
        struct ifinfomsg info;
    } request = {{.nlmsg_len = sizeof request,
                  .nlmsg_type = RTM_GETLINK,
                  .nlmsg_flags = NLM_F_REQUEST,
                  .nlmsg_seq = 1},
                 {.ifi_family = AF_UNSPEC, .ifi_index = (int)index}};
    _Alignas(struct nlmsghdr) char reply[32768];
    AUTO(close_fd) int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    struct timeval limit = {.tv_sec = 2};
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
        send(fd, &request, sizeof request, 0) < 0)
        return;
    ssize_t n = recv(fd, reply, sizeof reply, 0);
    struct nlmsghdr *head = (struct nlmsghdr *)(void *)reply;
    if (n < (ssize_t)NLMSG_LENGTH(sizeof(struct ifinfomsg)) || !NLMSG_OK(head, (unsigned)n) ||
        head->nlmsg_type != RTM_NEWLINK)
        return;
    struct ifinfomsg *info = NLMSG_DATA(head);
    unsigned left = (unsigned)IFLA_PAYLOAD(head);
    for (struct rtattr *a = IFLA_RTA(info); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
        if (a->rta_type == IFLA_MIN_MTU)
            out->min = attribute_u32(a);
        else if (a->rta_type == IFLA_MAX_MTU)
            out->max = attribute_u32(a);
    }
}

int link_info_read(const char *name, struct link_info *out, struct err *err)
{
    AUTO(close_fd) int fd = open_socket(err);
    struct ifreq req = {0};
    struct link_info info = {0};
    if (fd < 0)
        return -1;
    unsigned index = if_nametoindex(name);
    if (index == 0)
        return err_set(err, ERR_ENV, "there is no interface %s on this node", name);
    if (ask(fd, SIOCGIFMTU, name, &req) != 0)
        return err_set_errno(err, ERR_ENV, errno, "cannot read the MTU of %s", name);
    info.mtu = req.ifr_mtu;
    if (ask(fd, SIOCGIFFLAGS, name, &req) != 0)
        return err_set_errno(err, ERR_ENV, errno, "cannot read the flags of %s", name);
    info.up = (req.ifr_flags & IFF_UP) != 0;
    read_range(index, &info);
    *out = info;
    return 0;
}

int link_info_set_mtu(const char *name, int64_t mtu, struct err *err)
{
    AUTO(close_fd) int fd = open_socket(err);
    struct ifreq req = {.ifr_mtu = (int)mtu};
    if (fd < 0)
        return -1;
    if (ask(fd, SIOCSIFMTU, name, &req) != 0)
        return err_set_errno(err, ERR_ENV, errno, "cannot set the MTU of %s to %lld", name,
                             (long long)mtu);
    return 0;
}

int link_info_set_up(const char *name, bool up, struct err *err)
{
    AUTO(close_fd) int fd = open_socket(err);
    struct ifreq req = {0};
    if (fd < 0)
        return -1;
    if (ask(fd, SIOCGIFFLAGS, name, &req) != 0)
        return err_set_errno(err, ERR_ENV, errno, "cannot read the flags of %s", name);
    int flags = req.ifr_flags;
    req.ifr_flags = (short)(up ? flags | IFF_UP : flags & ~IFF_UP);
    if (ask(fd, SIOCSIFFLAGS, name, &req) != 0)
        return err_set_errno(err, ERR_ENV, errno, "cannot set %s %s", name, up ? "up" : "down");
    return 0;
}

/* --- the operator's session ----------------------------------------------------------------- */

static void address_text(const struct sockaddr *address, char out[static INET6_ADDRSTRLEN])
{
    out[0] = '\0';
    if (!address)
        return;
    if (address->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof in);
        inet_ntop(AF_INET, &in.sin_addr, out, INET6_ADDRSTRLEN);
    } else if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, address, sizeof in6);
        inet_ntop(AF_INET6, &in6.sin6_addr, out, INET6_ADDRSTRLEN);
    }
}

bool link_info_has_server_address(const char *name, const char *ssh_connection)
{
    char server[128] = "";
    struct ifaddrs *all = NULL;
    bool found = false;
    if (sscanf(ssh_connection, "%*s %*s %127s", server) != 1 || getifaddrs(&all) != 0)
        return false;
    server[strcspn(server, "%")] = '\0'; /* the zone of a link-local address */
    for (const struct ifaddrs *a = all; a && !found; a = a->ifa_next) {
        char text[INET6_ADDRSTRLEN];
        address_text(a->ifa_addr, text);
        found = text[0] && strcmp(a->ifa_name, name) == 0 && strcmp(text, server) == 0;
    }
    freeifaddrs(all);
    return found;
}

/* SSH_CONNECTION of this process or of the nearest ancestor that has it: sudo drops it.  The caller
 * frees; NULL when there is none. */
static char *find_ssh_connection(void)
{
    static const char key[] = "SSH_CONNECTION=";
    const char *own = getenv("SSH_CONNECTION");
    if (own)
        return str_dup(own);
    pid_t pid = getppid();
    for (int depth = 0; depth < 16 && pid > 1; depth++) {
        AUTO(free_str) char *environ_path = str_printf("/proc/%d/environ", (int)pid);
        AUTO(free_str) char *stat_path = str_printf("/proc/%d/stat", (int)pid);
        AUTO(free_str) char *text = NULL;
        AUTO(free_str) char *stat = NULL;
        size_t len = 0;
        struct err ignored = {0};
        if (fs_read(environ_path, (size_t)1024 * 1024, &text, &len, &ignored) != 0)
            len = 0;
        for (size_t at = 0; at < len; at += strlen(text + at) + 1) {
            if (str_has_prefix(text + at, key))
                return str_dup(text + at + strlen(key));
        }
        if (fs_read(stat_path, 4096, &stat, NULL, &ignored) != 0)
            return NULL;
        const char *name_end = strrchr(stat, ')'); /* "PID (name) STATE PPID ..." */
        if (!name_end || strlen(name_end) < 5)
            return NULL;
        pid = (pid_t)strtol(name_end + 4, NULL, 10);
    }
    return NULL;
}

static bool has_default_route(const char *name)
{
    AUTO(free_str) char *text = NULL;
    struct err ignored = {0};
    if (fs_read("/proc/net/route", (size_t)1024 * 1024, &text, NULL, &ignored) != 0)
        return false;
    char *rest = text;
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
        /* Name, destination, gateway, flags, three counts, mask. */
        char interface[IFNAMSIZ] = "", destination[16] = "", mask[16] = "";
        if (sscanf(line, "%15s %15s %*s %*s %*s %*s %*s %15s", interface, destination, mask) == 3 &&
            strcmp(destination, "00000000") == 0 && strcmp(mask, "00000000") == 0 &&
            strcmp(interface, name) == 0)
            return true;
    }
    return false;
}

bool link_info_carries_session(const char *name, const char **why)
{
    AUTO(free_str) char *connection = find_ssh_connection();
    if (connection && link_info_has_server_address(name, connection)) {
        *why = "it carries the SSH session through which the node is configured";
        return true;
    }
    if (!connection && has_default_route(name)) {
        *why = "it carries the default route, and which interface carries the session cannot be "
               "told";
        return true;
    }
    return false;
}
