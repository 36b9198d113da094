/* TCP sockets between the nodes of one stage: a listener with a port of the kernel's choice, and
 * connections that prove that they know the stage's token.
 *
 * Who connects sends a hello: what the connection is for (struct tcp_hello) and a SHA-256 over the
 * token and that.  Who accepts answers with another SHA-256 over both.  The token itself never
 * travels.  A connection that does not prove itself within TCP_HELLO_MS is closed; it takes no
 * place that a peer needs and changes nothing else.
 *
 * Thread rule: one struct tcp, one thread.  All sockets are non-blocking, TCP_NODELAY, with the
 * kernel's own buffer sizing. */
#ifndef MUSTER_FABRIC_TRANSPORT_TCP_H
#define MUSTER_FABRIC_TRANSPORT_TCP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "fabric/transport/tcp_addr.h"

enum {
    TCP_TOKEN_BYTES = 32,
    TCP_HELLO_BYTES = 64,
    TCP_ACK_BYTES = 32,
    TCP_HELLO_MS = 3000,
    TCP_GRACE_MS = 500,
    TCP_MAX_PENDING = 128, /* accepted connections that are not claimed yet */
    /* A segment that fits every path: what a connection uses that must work where large ones do
       not. */
    TCP_SMALL_SEGMENT = 536
};

/* Why a connection is not there, in the words of the cause table. */
enum tcp_cause {
    TCP_CAUSE_NONE = 0,
    TCP_CAUSE_REFUSED,   /* "tcp-connect-refused" */
    TCP_CAUSE_TIMEOUT,   /* "tcp-connect-timeout": no answer, or no route */
    TCP_CAUSE_PEER_LOST, /* "peer-lost": it was there and went silent, or never came */
    TCP_CAUSE_CORRUPT,   /* "data-corrupt" */
    TCP_CAUSE_MTU,       /* "path-mtu" */
    TCP_CAUSE_LOCAL,     /* NULL: this node's own trouble, the text says which */
    TCP_CAUSE__COUNT
};
const char *tcp_cause_code(enum tcp_cause cause);

/* What a connection is for; the accepting side must expect exactly this. */
struct tcp_hello {
    uint64_t from; /* who connects: rank, or tcp_name_id() of a node's name */
    uint32_t
        round; /* of the stage; a connection for a later round waits, for an earlier is closed */
    uint32_t stream; /* index, or a purpose that both sides know */
};
/* Number for a node's name: the first 8 bytes of its SHA-256. */
uint64_t tcp_name_id(const char *name);

struct tcp;

/* Listen on addr with an ephemeral port.  token is copied.  ERR_ENV. */
int tcp_open(const struct tcp_addr *addr, const uint8_t token[static TCP_TOKEN_BYTES],
             struct tcp **out, struct err *err);
void tcp_close(struct tcp *t); /* NULL accepted; closes what was not claimed, wipes the token */

const struct tcp_addr *tcp_local(const struct tcp *t);
uint16_t tcp_port(const struct tcp *t);
/* {"address":S,"port":N,"interface":S}, a new reference. */
json_t *tcp_endpoint(const struct tcp *t);
/* Read a peer's endpoint.  ERR_USAGE. */
int tcp_endpoint_parse(const struct tcp *t, const json_t *endpoint, struct tcp_addr *out,
                       struct err *err);

/* One connection that is wanted; fill in the first part, the second is the answer. */
struct tcp_want {
    const struct tcp_addr *connect; /* where to, NULL to accept */
    struct tcp_hello hello;         /* what is said, or expected */
    bool small_segments;            /* TCP_SMALL_SEGMENT both ways (the connecting side decides) */
    const char *peer;               /* name for messages */

    int fd; /* the caller's from then on, -1 when it failed */
    enum tcp_cause cause;
    char text[320]; /* one sentence when it failed */

    unsigned state; /* internal */
    unsigned bytes; /* of the hello sent or the answer read so far */
    uint8_t buffer[TCP_HELLO_BYTES];
};

/* Make all of them, at the same time.  A failed one leaves the others TCP_GRACE_MS (or the
 * deadline). Returns 0 when all are there; else -1 and err tells of the first that failed:
 * ERR_REMOTE, ERR_TIMEOUT, ERR_ENV.  Those with fd >= 0 are usable even then.  deadline_ms on the
 * now_ms() clock. */
int tcp_establish(struct tcp *t, struct tcp_want wants[], size_t count, int64_t deadline_ms,
                  struct err *err);

/* Of TCP_INFO, summed over sockets; -1 when the kernel does not tell. */
struct tcp_counters {
    int64_t retransmits;    /* segments sent again */
    int64_t bytes_acked;    /* that the peer has */
    int64_t bytes_received; /* that this side got */
    int64_t segment_bytes;  /* of the first socket: largest segment that is sent */
    int64_t unanswered;     /* retransmissions in a row that nothing has come back for */
};
struct tcp_counters tcp_counters(const int fds[], size_t count);

#endif
