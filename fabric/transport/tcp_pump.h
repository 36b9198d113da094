/* Threads that move bulk data over a set of connections, in one direction.
 *
 * The streams are dealt out to min(streams, half of the processors) threads, at least one: a fast
 * link needs more than one core on each side, a small machine is slower with more.
 * Thread rule: the caller's thread starts, asks and ends; the counters are atomic.  The sockets and
 * the stream array belong to the pump between start and end. */
#ifndef MUSTER_FABRIC_TRANSPORT_TCP_PUMP_H
#define MUSTER_FABRIC_TRANSPORT_TCP_PUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "fabric/collective/pattern.h"

enum tcp_pump_mode {
    TCP_PUMP_SEND = 1,   /* anything, until tcp_pump_stop() */
    TCP_PUMP_RECEIVE,    /* and throw away, until the peer ends */
    TCP_PUMP_SEND_EXACT, /* each stream its piece of the pattern */
    TCP_PUMP_CHECK       /* receive the piece and compare it */
};

struct tcp_pump_stream {
    int fd;
    uint64_t offset, end; /* piece of the pattern, the exact modes */
    /* Answers, after the end: */
    bool finished; /* all was moved, or the peer ended in order */
    int error;     /* errno that ended it, 0 for none */
    struct pattern_result check;
};

struct tcp_pump;

/* ERR_ENV when no thread can be made. */
int tcp_pump_start(enum tcp_pump_mode mode, struct tcp_pump_stream streams[], size_t count,
                   uint64_t seed, struct tcp_pump **out, struct err *err);
uint64_t tcp_pump_bytes(const struct tcp_pump *p); /* moved so far */
bool tcp_pump_finished(const struct tcp_pump *p);  /* every stream came to its end */
/* Ask the threads to stop, wait for them (at most about 50 ms), release. */
void tcp_pump_end(struct tcp_pump *p);

#endif
