/* Port counters: differences over a stated window, and what they mean.
 *
 * Counters are never reset: that would destroy what others need to see.  The last reading is kept
 * in a file; the difference to it is what happened since.  A counter that stands at its highest
 * value tells nothing more, and one that went down was reset by somebody else: both are said.
 *
 * Symbol errors are held against the errors that the link's bit error rate permits in the window;
 * only a count that chance explains in less than one window of 10000 is a finding, so that a short
 * window raises no false alarm.  Waiting to send is congestion and named so; it breaks no link.
 *
 * Pure: reading is counters_read.h, files are the caller's.  Thread-safe. */
#ifndef MUSTER_FABRIC_SUBNET_COUNTERS_H
#define MUSTER_FABRIC_SUBNET_COUNTERS_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"
#include "fabric/subnet/subnet.h"

/* One per counter: counters.def. */
enum counter {
#define COUNTER(id, name, bits, kind, text) COUNTER_##id,
#include "fabric/subnet/counters.def"
#undef COUNTER
    COUNTER__COUNT
};

enum counter_kind {
    COUNTER_KIND_UNSET = 0,
    COUNTER_KIND_TRAFFIC, /* information */
    COUNTER_KIND_BER,     /* held against the link's bit error rate */
    COUNTER_KIND_EVENT,   /* one is already a finding */
    COUNTER_KIND_NOTE,    /* follows from something else: shown, no finding */
    COUNTER_KIND_WAIT     /* congestion */
};

struct counter_row {
    const char *name; /* as in IBTA's PortCounters */
    unsigned bits;    /* of the narrow form, which stops at its highest value; 64: it wraps */
    enum counter_kind kind;
    const char *text; /* what it means and what to do */
};
const struct counter_row *counter_at(enum counter counter);

struct counters_port {
    uint64_t guid; /* of the node */
    unsigned port;
    bool read; /* false: it did not answer */
    uint64_t value[COUNTER__COUNT];
};
struct counters {
    int64_t time_ms;             /* wall clock of the reading */
    struct counters_port *ports; /* in the order of (guid, port) */
    size_t count;
};

void counters_release(struct counters *c);
/* Port order for bsearch; call after the last port was added. */
void counters_sort(struct counters *c);

/* {"v":1,"time_ms":N,"ports":[{"guid","port","values":{NAME:N}}]}: the state file. */
json_t *counters_to_json(const struct counters *c);
int counters_from_json(const json_t *json, const char *source, struct counters *c, struct err *err);

/* Appends findings for the change from before to now; the causes are ib-symbol-errors,
 * ib-port-errors, ib-link-flapping, ib-congestion (a warning), counters-saturated and not-measured.
 * rates, where not NULL, gets one object per linked port with the rates over the window.
 * ERR_DATA: now is not later than before. */
int counters_judge(const struct counters *before, const struct counters *now,
                   const struct subnet *s, json_t *findings, json_t *rates, struct err *err);

/* Errors that a link at its permitted bit error rate shows in an hour. */
double counters_budget_per_hour(unsigned lanes, enum rate_speed speed);
/* Probability that chance gives `count` or more where `expected` are due (Poisson). */
double counters_chance(double expected, uint64_t count);

#endif
