#include "agents/worker_link.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "agents/protocol.h"
#include "common/jsonx.h"
#include "common/util.h"

struct worker_link {
    int fd; /* blocking; the caller's */
    struct strbuf partial;
};

struct worker_link *worker_link_create(int fd)
{
    struct worker_link *link = mem_zero(1, sizeof *link);
    link->fd = fd;
    return link;
}

void worker_link_destroy(struct worker_link *link)
{
    if (!link)
        return;
    strbuf_release(&link->partial);
    free(link);
}

int worker_link_fd(const struct worker_link *link)
{
    return link->fd;
}

bool worker_link_gone(const struct worker_link *link)
{
    struct pollfd p = {.fd = link->fd, .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

int worker_link_send(struct worker_link *link, json_t *line, struct err *err)
{
    struct protocol_writer w = {0};
    protocol_put(&w, line);
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < w.buf.len;) {
        ssize_t put = send(link->fd, w.buf.data + at, w.buf.len - at, MSG_NOSIGNAL);
        if (put >= 0)
            at += (size_t)put;
        else if (errno != EINTR)
            rc = err_set_errno(err, ERR_ENV, errno, "the agent's main process is gone");
    }
    protocol_writer_release(&w);
    return rc;
}

/* Takes bytes up to and with the next newline and leaves the rest in the socket, so that its
 * readiness keeps telling whether a line waits.  1 when the line is complete, 0 when more must
 * come. */
static int take_line(struct worker_link *link, struct err *err)
{
    char chunk[65536];
    ssize_t seen = recv(link->fd, chunk, sizeof chunk, MSG_PEEK | MSG_DONTWAIT);
    if (seen < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (seen <= 0)
        return err_set(err, ERR_ENV, "the agent's main process is gone");
    char *newline = memchr(chunk, '\n', (size_t)seen);
    size_t want = newline ? (size_t)(newline - chunk) + 1 : (size_t)seen;
    ssize_t got = recv(link->fd, chunk, want, 0);
    if (got < 0 || (size_t)got != want)
        return err_set(err, ERR_ENV, "the agent's main process is gone");
    strbuf_add(&link->partial, chunk, want);
    if (link->partial.len > PROTOCOL_MAX_LINE_BYTES + 1)
        return err_set(err, ERR_DATA, "a line is longer than the limit of %d bytes",
                       PROTOCOL_MAX_LINE_BYTES);
    return newline ? 1 : 0;
}

int worker_link_receive(struct worker_link *link, int timeout_ms, json_t **line, struct err *err)
{
    int64_t until = now_ms() + timeout_ms;
    for (;;) {
        int complete = take_line(link, err);
        if (complete < 0)
            return -1;
        if (complete > 0)
            break;
        int64_t left_ms = until - now_ms();
        struct pollfd p = {.fd = link->fd, .events = POLLIN};
        if (left_ms <= 0)
            return err_set(err, ERR_TIMEOUT, "nothing came from the controller within %d ms",
                           timeout_ms);
        (void)poll(&p, 1, (int)left_ms);
    }
    int rc = jsonx_parse(link->partial.data, link->partial.len, "main process", line, err);
    link->partial.len = 0;
    return rc;
}
