/* What a peer of a pair may send on the control connection. */
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util.h"
#include "fabric/transport/tcp_ctl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fds[2];
    struct err err = {.kind = ERR_NONE};
    if (size > TCP_CTL_MAX_BYTES + 16 || socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
        return 0;
    if (tcp_ctl_write(fds[0], data, size, now_ms() + 1000, &err) == 0) {
        shutdown(fds[0], SHUT_WR);
        for (;;) {
            json_t *message = NULL;
            if (tcp_ctl_receive(fds[1], NULL, now_ms() + 1000, &message, &err))
                break;
            json_decref(message);
        }
    }
    close(fds[0]);
    close(fds[1]);
    return 0;
}
