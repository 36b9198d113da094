/* What one pair of nodes measures over TCP: small messages, content, and goodput in each direction.
 *
 * Each side opens the connections on which it sends; the first side also opens the control
 * connection, whose segments are small enough for any path.  So a path that swallows large segments
 * can be told from a dead peer, and both sides learn how each step ended. Thread rule: one struct
 * tcp, one thread; bulk data move in threads of their own (tcp_pump.h). */
#ifndef MUSTER_FABRIC_TRANSPORT_TCP_PAIR_H
#define MUSTER_FABRIC_TRANSPORT_TCP_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "fabric/collective/pattern.h"
#include "fabric/transport/tcp.h"

enum {
    TCP_PAIR_MAX_STREAMS = 64,
    TCP_PAIR_MAX_SAMPLES = 4096,
    TCP_PAIR_MAX_ITERATIONS = 100000,
    TCP_PAIR_MESSAGE_BYTES = 64,
    TCP_PAIR_INTERVAL_MS = 100, /* of a sample */
    TCP_PAIR_WARM_UP_MS = 200,  /* not counted */
    TCP_PAIR_STALL_MS = 1500,   /* bulk data without progress */
    TCP_PAIR_SILENCE_MS = 5000  /* control connection without an answer */
};

struct tcp_pair_config {
    unsigned streams;            /* in each direction, 1..TCP_PAIR_MAX_STREAMS */
    int duration_ms;             /* of each direction, warm-up included, 500..400000 */
    int64_t content_bytes;       /* in each direction, > 0 */
    unsigned latency_iterations; /* 1..TCP_PAIR_MAX_ITERATIONS */
};

/* The other side, and this side's part; both must use the same config and round. */
struct tcp_pair_peer {
    const char *self, *name; /* node names */
    bool first;              /* opens the control connection and leads */
    uint32_t round;
    struct tcp_addr addr; /* of the peer's listener */
};

enum tcp_pair_outcome {
    TCP_PAIR_UNSET = 0,
    TCP_PAIR_MEASURED,
    TCP_PAIR_FAILED,
    TCP_PAIR_NOT_MEASURED
};

struct tcp_pair_part {
    enum tcp_pair_outcome outcome; /* never TCP_PAIR_UNSET after tcp_pair_run() */
    enum tcp_cause cause;          /* TCP_PAIR_FAILED */
    char text[400];                /* one sentence unless measured */
};

struct tcp_pair_direction {
    struct tcp_pair_part data, bandwidth;
    struct pattern_result content;            /* known on both sides */
    double samples_bps[TCP_PAIR_MAX_SAMPLES]; /* at the receiver only */
    size_t sample_count;
    int64_t retransmits;            /* of the sender, known on both sides; -1 unknown */
    int64_t segment_bytes;          /* largest that the sender sends */
    struct tcp_addr_counters moved; /* own interface, during the bandwidth part */
    double cpu_share;               /* of this process, 1 is one core; -1 when not measured */
};

struct tcp_pair_result {
    struct tcp_pair_direction out, in; /* this side sends, receives */
    struct tcp_pair_part latency;
    double p50_s, p99_s, min_s; /* half a round trip; on the first side only */
};

/* Measure everything with one peer by deadline_ms (now_ms() clock).  *out holds how each part
 * ended; returns whether all of them were measured (content that differs counts as a part that
 * failed).  t is fit for the next pair afterwards in any case. */
bool tcp_pair_run(struct tcp *t, const struct tcp_pair_peer *peer,
                  const struct tcp_pair_config *config, int64_t deadline_ms,
                  struct tcp_pair_result *out);

#endif
