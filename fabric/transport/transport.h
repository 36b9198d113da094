/* What moves messages between the ranks of one stage.
 *
 * A transport has one local endpoint and a duplex link to each peer it was connected with.  On a
 * link, messages arrive in the order in which they were sent; both sides know beforehand how long
 * each one is, so a receive is posted for exactly the length of the next message and the data go
 * straight to its memory.  Nothing blocks but connect() and poll(), and these have deadlines.
 *
 * Thread rule: one transport, one thread.  A transport that this machine cannot use says why in
 * available(); every slot of the table is filled. */
#ifndef MUSTER_FABRIC_TRANSPORT_TRANSPORT_H
#define MUSTER_FABRIC_TRANSPORT_TRANSPORT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum {
    TRANSPORT_TOKEN_BYTES = 32,
    TRANSPORT_MAX_POSTED = 64, /* sends, and receives, in flight on one link */
    TRANSPORT_MAX_STREAMS = 16
};

/* For abort(): nobody in particular is to blame. */
#define TRANSPORT_NO_RANK UINT32_MAX

struct transport;

/* One rank of the stage as the others see it; strings are borrowed. */
struct transport_peer {
    uint32_t rank;
    const char *name;       /* node name, for messages */
    const json_t *endpoint; /* what its endpoint() returned */
};

struct transport_config {
    uint32_t rank;        /* own rank */
    const char *address;  /* numeric local address to use */
    const uint8_t *token; /* TRANSPORT_TOKEN_BYTES, the same on all ranks */
    unsigned streams;     /* 1..TRANSPORT_MAX_STREAMS connections a link */
    int silence_ms;       /* a peer that owes data and answers nothing for this long is lost; > 0 */
};

/* Counts of messages, in order; posted - done are in flight.  Owned by the transport. */
struct transport_link {
    struct transport *transport;
    uint32_t rank; /* the peer's */
    const char *name;
    uint64_t sends_posted, sends_done; /* done: the memory may be reused */
    uint64_t recvs_posted, recvs_done; /* done: the data are in memory */
};

struct transport_ops {
    const char *name;    /* as in evidence: "tcp" */
    const char *summary; /* one line for people */
    /* 0, or -1 and ERR_ENV with the reason why this machine cannot use it. */
    int (*available)(struct err *err);
    /* Open the local endpoint.  ERR_USAGE address, ERR_ENV. */
    int (*open)(const struct transport_config *config, struct transport **out, struct err *err);
    /* What a peer needs to connect, an object (new reference). */
    json_t *(*endpoint)(const struct transport *t);
    /* Connect with count peers; each of them calls this with this rank among its own.  links[i]
     * belongs to peers[i].  deadline_ms on the now_ms() clock.  ERR_REMOTE a peer refused or is not
     * reachable, ERR_TIMEOUT. */
    int (*connect)(struct transport *t, const struct transport_peer peers[], size_t count,
                   int64_t deadline_ms, struct transport_link *links[], struct err *err);
    /* Memory that messages will use, until close(); a transport that registers memory does it here.
     */
    int (*attach)(struct transport *t, void *memory, size_t bytes, struct err *err);
    /* The memory belongs to the transport until the message is done.  bytes may be 0.  ERR_DATA
     * when TRANSPORT_MAX_POSTED are in flight already. */
    int (*post_send)(struct transport_link *link, const void *data, size_t bytes, struct err *err);
    int (*post_recv)(struct transport_link *link, void *data, size_t bytes, struct err *err);
    /* Move bytes; returns when some message was done, or at the deadline with ERR_TIMEOUT.
     * ERR_REMOTE a peer is lost (the text names it, culprit below is its rank), ERR_DATA a
     * message is not the one that was expected. */
    int (*poll)(struct transport *t, int64_t deadline_ms, struct err *err);
    /* Tell every linked peer that this rank gives up because of rank `culprit`, or
     * TRANSPORT_NO_RANK. */
    void (*abort)(struct transport *t, uint32_t culprit);
    /* Path and counters since open(), an object for evidence (new reference). */
    json_t *(*proof)(const struct transport *t);
    void (*close)(struct transport *t); /* NULL accepted */
};

struct transport {
    const struct transport_ops *ops;
    int64_t culprit; /* rank that is lost, -1 when none is known */
};

/* Table of the transports of this build; NULL for an unknown name. */
const struct transport_ops *transport_find(const char *name);

#endif
