/* Network interfaces: what the kernel says, and which one carries the operator's session. */
#ifndef MUSTER_AGENTS_RESOURCES_LINK_INFO_H
#define MUSTER_AGENTS_RESOURCES_LINK_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

struct link_info {
    int64_t mtu;
    bool up;          /* administratively */
    int64_t min, max; /* MTUs that the driver takes; 0 when it does not say */
};

/* ERR_ENV: there is no such interface, or the kernel cannot be asked. */
int link_info_read(const char *name, struct link_info *out, struct err *err);
int link_info_set_mtu(const char *name, int64_t mtu, struct err *err); /* native: errno */
int link_info_set_up(const char *name, bool up, struct err *err);

/* Does the interface carry the SSH session of this process (or, when none can be told, the default
 * route)?  why: set to a sentence fragment when it does. */
bool link_info_carries_session(const char *name, const char **why);

/* Has the interface the address that SSH_CONNECTION's text names as the server's? */
bool link_info_has_server_address(const char *name, const char *ssh_connection);

#endif
