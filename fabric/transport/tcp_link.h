/* Internal to the TCP row of the transport table: what a link is made of, and its moving parts. */
#ifndef MUSTER_FABRIC_TRANSPORT_TCP_LINK_H
#define MUSTER_FABRIC_TRANSPORT_TCP_LINK_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "fabric/transport/tcp.h"
#include "fabric/transport/transport.h"

extern const struct transport_ops tcp_transport;

enum {
    CONTROL_STREAM = 0xffff, /* number of the control connection in the hello */
    FAREWELL_MS = 200,
    BATCH_MESSAGES = 8, /* one system call moves at most this many */
    QUEUE_MESSAGES = TRANSPORT_MAX_POSTED
};
struct header {
    uint32_t magic; /* both little-endian, as every machine this runs on */
    uint32_t number;
    uint64_t bytes;
};

enum frame_kind { FRAME_PING = 1, FRAME_PONG, FRAME_ABORT, FRAME_BYE };
struct frame {
    uint32_t kind;
    uint32_t rank; /* FRAME_ABORT: who is lost */
};

struct item {
    struct header header; /* to send, or as it came */
    uint8_t *data;
    uint64_t bytes;
    uint64_t number;
};

/* Messages in flight in one direction of one connection. */
struct queue {
    struct item items[QUEUE_MESSAGES];
    size_t head, count;
    size_t moved;  /* bytes of the head item, header included */
    uint64_t done; /* messages */
    bool ready;    /* the last try was not cut short, or poll(2) says so */
};

struct stream {
    int fd;
    struct queue out, in;
};

struct tcp_link {
    struct transport_link base;
    struct stream *streams;
    unsigned stream_count;
    int control;
    struct frame partial; /* control frame being read */
    size_t partial_bytes;
    int64_t heard_ms;  /* last time that anything came */
    int64_t pinged_ms; /* 0 when no answer is due */
    bool bye;          /* the peer said that it is through */
    bool gone;         /* and its control connection is at its end */
};

struct tcp_transport {
    struct transport base;
    struct transport_config config;
    struct tcp *tcp;
    struct tcp_link *links;
    size_t link_count;
    struct pollfd *fds; /* one per stream and control connection */
    struct tcp_addr_counters before;
};

static inline struct tcp_transport *tcp_transport_of(struct transport *t)
{
    return (struct tcp_transport *)(void *)t;
}

static inline struct tcp_link *tcp_link_of(struct transport_link *l)
{
    return (struct tcp_link *)(void *)l;
}

/* Record that a rank is lost; returns -1. */
int tcp_link_lost(struct tcp_transport *t, uint32_t rank, const char *name, const char *how,
                  struct err *err);

/* Control frames: send one, take in those that have come (-1 when one ends the work), tell all. */
void tcp_link_say(const struct tcp_link *l, enum frame_kind kind, uint32_t rank);
int tcp_link_hear(struct tcp_transport *t, struct tcp_link *l, struct err *err);
void tcp_link_abort(struct transport *base, uint32_t culprit);
/* -1 when the peer owes data and has answered nothing for too long. */
int tcp_link_check_silence(struct tcp_transport *t, struct tcp_link *l, struct err *err);

/* The slots of the table. */
int tcp_link_post_send(struct transport_link *base, const void *data, size_t bytes,
                       struct err *err);
int tcp_link_post_recv(struct transport_link *base, void *data, size_t bytes, struct err *err);
/* Move what the sockets take and have; returns the messages done, -1 on failure. */
int tcp_link_move_all(struct tcp_transport *t, struct err *err);

#endif
