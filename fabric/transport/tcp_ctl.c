#include "fabric/transport/tcp_ctl.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/jsonx.h"
#include "common/util.h"

static int wait_for(int fd, short events, int64_t deadline_ms, struct err *err)
{
    int64_t left_ms = deadline_ms - now_ms();
    struct pollfd p = {.fd = fd, .events = events};
    int rc = left_ms > 0 ? poll(&p, 1, (int)left_ms) : 0;
    if (rc == 0)
        return err_set(err, ERR_TIMEOUT, "the peer does not answer");
    return 0; /* an error shows at the next call */
}

static bool may_retry(int errnum)
{
    return errnum == EAGAIN || errnum == EINTR;
}

int tcp_ctl_write(int fd, const void *data, size_t bytes, int64_t deadline_ms, struct err *err)
{
    const uint8_t *p = data;
    while (bytes) {
        ssize_t n = send(fd, p, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && !may_retry(errno))
            return err_set_errno(err, ERR_REMOTE, errno, "the peer has closed the connection");
        if (n < 0 && wait_for(fd, POLLOUT, deadline_ms, err))
            return -1;
        p += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int tcp_ctl_read(int fd, void *data, size_t bytes, int64_t deadline_ms, struct err *err)
{
    uint8_t *p = data;
    while (bytes) {
        ssize_t n = recv(fd, p, bytes, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && !may_retry(errno)))
            return err_set(err, ERR_REMOTE, "the peer has closed the connection");
        if (n < 0 && wait_for(fd, POLLIN, deadline_ms, err))
            return -1;
        p += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int tcp_ctl_send(int fd, const char *kind, json_t *fields, int64_t deadline_ms, struct err *err)
{
    json_auto_t *message = fields ? fields : json_object();
    jsonx_set_str(message, "t", kind);
    AUTO(free_str) char *text = jsonx_canonical(message);
    size_t len = strlen(text);
    uint8_t head[4] = {(uint8_t)(len >> 24), (uint8_t)(len >> 16), (uint8_t)(len >> 8),
                       (uint8_t)len};
    struct strbuf frame = {0};
    strbuf_add(&frame, head, sizeof head);
    strbuf_add(&frame, text, len);
    int rc = tcp_ctl_write(fd, frame.data, frame.len, deadline_ms, err);
    strbuf_release(&frame);
    return rc;
}

int tcp_ctl_receive(int fd, const char *kind, int64_t deadline_ms, json_t **out, struct err *err)
{
    uint8_t head[4];
    if (tcp_ctl_read(fd, head, sizeof head, deadline_ms, err))
        return -1;
    size_t len = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
    if (len == 0 || len > TCP_CTL_MAX_BYTES)
        return err_set(err, ERR_DATA,
                       "the peer sent a message of %zu bytes, at most %d are allowed", len,
                       TCP_CTL_MAX_BYTES);
    AUTO(free_str) char *text = mem_zero(len + 1, 1);
    json_auto_t *message = NULL;
    const char *got;
    if (tcp_ctl_read(fd, text, len, deadline_ms, err) ||
        jsonx_parse(text, len, "the peer's message", &message, err) ||
        jsonx_get_str(message, "the peer's message", "t", &got, err))
        return -1;
    if (kind && strcmp(kind, got) != 0)
        return err_set(err, ERR_DATA, "the peer sent '%.32s', '%s' was expected", got, kind);
    *out = json_incref(message);
    return 0;
}
