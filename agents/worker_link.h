/* The worker's end of the socket to the agent's main process: blocking, one line at a time.
 *
 * One object, one thread. */
#ifndef MUSTER_AGENTS_WORKER_LINK_H
#define MUSTER_AGENTS_WORKER_LINK_H

#include <jansson.h>
#include <stdbool.h>

#include "common/err.h"

struct worker_link;

/* fd: a connected stream socket in blocking mode; stays the caller's. */
struct worker_link *worker_link_create(int fd);
void worker_link_destroy(struct worker_link *link);

/* Send one line, waiting for room; takes over the reference.  ERR_ENV when the main process is
 * gone. */
int worker_link_send(struct worker_link *link, json_t *line, struct err *err);
/* Next line from the main process (new reference).  ERR_TIMEOUT; ERR_ENV when it is gone. */
int worker_link_receive(struct worker_link *link, int timeout_ms, json_t **line, struct err *err);
/* Readable when a line or the end of the main process is waiting. */
int worker_link_fd(const struct worker_link *link);
/* The main process is gone or has hung up. */
bool worker_link_gone(const struct worker_link *link);

#endif
