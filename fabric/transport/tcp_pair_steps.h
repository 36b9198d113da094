/* Internal to tcp_pair: one direction, from either side. */
#ifndef MUSTER_FABRIC_TRANSPORT_TCP_PAIR_STEPS_H
#define MUSTER_FABRIC_TRANSPORT_TCP_PAIR_STEPS_H

#include "fabric/transport/tcp_pair.h"

struct tcp_pair_step {
    struct tcp *tcp;
    const struct tcp_pair_peer *peer;
    const struct tcp_pair_config *config;
    int64_t deadline_ms;
    struct tcp_pair_result *result;
    int control;
    int out_fds[TCP_PAIR_MAX_STREAMS], in_fds[TCP_PAIR_MAX_STREAMS];
};

/* Set how a part ended, unless it is known already. */
void tcp_pair_fail(struct tcp_pair_part *p, enum tcp_cause cause, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void tcp_pair_measured(struct tcp_pair_part *p);

/* Content, then goodput: as the sender, as the receiver.  Returns 0 when the pair can go on, even
 * if the direction failed; -1 when the peer is lost or answers nonsense. */
int tcp_pair_send(struct tcp_pair_step *x, struct err *err);
int tcp_pair_receive(struct tcp_pair_step *x, struct err *err);

#endif
