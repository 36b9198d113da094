/* The control connection of a pair: exact reads and writes with deadlines, and JSON objects behind
 * a 4-byte length.
 *
 * The peer has proved that it knows the token, but its messages are still checked: size, form, no
 * duplicate keys.  Sockets are non-blocking.  Thread rule: one socket, one thread. */
#ifndef MUSTER_FABRIC_TRANSPORT_TCP_CTL_H
#define MUSTER_FABRIC_TRANSPORT_TCP_CTL_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum { TCP_CTL_MAX_BYTES = 65536 };

/* All of it or -1: ERR_TIMEOUT, ERR_REMOTE the peer has closed.  deadline_ms on the now_ms() clock.
 */
int tcp_ctl_write(int fd, const void *data, size_t bytes, int64_t deadline_ms, struct err *err);
int tcp_ctl_read(int fd, void *data, size_t bytes, int64_t deadline_ms, struct err *err);

/* One message of the kind `kind` (its member "t").  fields: more members, an object whose reference
 * is taken over, or NULL. */
int tcp_ctl_send(int fd, const char *kind, json_t *fields, int64_t deadline_ms, struct err *err);
/* The next message (new reference).  ERR_DATA when it is malformed or not of this kind; kind NULL
 * takes any that has one. */
int tcp_ctl_receive(int fd, const char *kind, int64_t deadline_ms, json_t **out, struct err *err);

#endif
