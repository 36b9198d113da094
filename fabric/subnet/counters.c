#include "fabric/subnet/counters.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"

static const struct counter_row rows[] = {
#define COUNTER(id, name, bits, kind, text)                                                        \
    [COUNTER_##id] = {name, bits, COUNTER_KIND_##kind, text},
#include "fabric/subnet/counters.def"
#undef COUNTER
};
_Static_assert(ARRAY_LEN(rows) == COUNTER__COUNT, "a row per counter");

enum { MAX_PORTS = 1 << 20, MS_PER_HOUR = 3600 * 1000 };
static const double chance_limit = 1e-4;
/* From a tenth of the time spent waiting on, and not for a handful of ticks. */
static const double wait_share_limit = 0.1, wait_ticks_least = 1000;

const struct counter_row *counter_at(enum counter counter)
{
    return counter < COUNTER__COUNT ? &rows[counter] : NULL;
}

void counters_release(struct counters *c)
{
    free(c->ports);
    *c = (struct counters){0};
}

static int by_port(const void *a, const void *b)
{
    const struct counters_port *x = a, *y = b;
    if (x->guid != y->guid)
        return x->guid < y->guid ? -1 : 1;
    return (x->port > y->port) - (x->port < y->port);
}

void counters_sort(struct counters *c)
{
    if (c->count > 0)
        qsort(c->ports, c->count, sizeof *c->ports, by_port);
}

json_t *counters_to_json(const struct counters *c)
{
    json_t *root = json_object(), *ports = json_array();
    for (size_t i = 0; i < c->count; i++) {
        if (!c->ports[i].read)
            continue;
        json_t *p = json_object(), *values = json_object();
        AUTO(free_str) char *guid = str_printf("0x%016" PRIx64, c->ports[i].guid);
        jsonx_set_str(p, "guid", guid);
        jsonx_set_int(p, "port", c->ports[i].port);
        for (int k = 0; k < COUNTER__COUNT; k++)
            jsonx_set_int(values, rows[k].name, (int64_t)c->ports[i].value[k]);
        jsonx_set(p, "values", values);
        jsonx_append(ports, p);
    }
    jsonx_set_int(root, "v", 1);
    jsonx_set_int(root, "time_ms", c->time_ms);
    jsonx_set(root, "ports", ports);
    return root;
}

static int port_from_json(const json_t *json, const char *source, struct counters_port *p,
                          struct err *err)
{
    const char *guid;
    const json_t *values;
    int64_t port, value;
    char *end;
    if (jsonx_get_str(json, source, "guid", &guid, err) != 0 ||
        jsonx_get_int(json, source, "port", &port, err) != 0 ||
        jsonx_get_obj(json, source, "values", &values, err) != 0)
        return -1;
    p->guid = str_has_prefix(guid, "0x") ? strtoull(guid + 2, &end, 16) : 0;
    if (p->guid == 0 || *end || port < 0 || port > 255)
        return err_set(err, ERR_DATA, "%s: '%.40s' port %lld is no port", source, guid,
                       (long long)port);
    p->port = (unsigned)port;
    p->read = true;
    for (int k = 0; k < COUNTER__COUNT; k++) {
        if (jsonx_get_int(values, source, rows[k].name, &value, err) != 0)
            return -1;
        p->value[k] = (uint64_t)value;
    }
    return 0;
}

int counters_from_json(const json_t *json, const char *source, struct counters *c, struct err *err)
{
    const json_t *ports;
    int64_t version;
    struct counters read = {0};
    if (jsonx_get_int(json, source, "v", &version, err) != 0 ||
        jsonx_get_int(json, source, "time_ms", &read.time_ms, err) != 0 ||
        jsonx_get_arr(json, source, "ports", &ports, err) != 0)
        return -1;
    if (version != 1 || json_array_size(ports) > MAX_PORTS)
        return err_set(err, ERR_DATA, "%s: is not a counter state of version 1", source);
    read.count = json_array_size(ports);
    read.ports = mem_zero(read.count + 1, sizeof *read.ports);
    for (size_t i = 0; i < read.count; i++)
        if (port_from_json(json_array_get(ports, i), source, &read.ports[i], err) != 0) {
            counters_release(&read);
            return -1;
        }
    counters_sort(&read);
    *c = read;
    return 0;
}

double counters_budget_per_hour(unsigned lanes, enum rate_speed speed)
{
    const struct rate_speed_row *row = rate_speed_at(speed);
    return row ? rate_signal_bps(lanes, speed) * 3600 * row->ber : 0;
}

double counters_chance(double expected, uint64_t count)
{
    if (count == 0)
        return 1;
    if (expected <= 0)
        return 0;
    /* Far above what is due the sum below would only lose digits. */
    if ((double)count > expected * 10 + 100)
        return 0;
    /* exp() underflows for thousands of errors due: then the normal approximation is exact enough.
     */
    if (expected > 700)
        return erfc(((double)count - 0.5 - expected) / sqrt(2 * expected)) / 2;
    double term = exp(-expected), below = term;
    for (uint64_t k = 1; k < count; k++) {
        term *= expected / (double)k;
        below += term;
    }
    return below >= 1 ? 0 : 1 - below;
}

struct judge {
    const struct subnet *s;
    const struct counters *before, *now;
    double hours;
    json_t *findings, *rates;
};

/* What a counter gained, and what must be said about the figure. */
struct gain {
    uint64_t value;
    bool saturated, reset;
};

static struct gain gain_of(enum counter k, uint64_t before, uint64_t now)
{
    struct gain g = {0};
    uint64_t top = rows[k].bits < 64 ? (UINT64_C(1) << rows[k].bits) - 1 : UINT64_MAX;
    g.reset = now < before;
    g.value = g.reset ? now : now - before;
    g.saturated = rows[k].bits < 64 && now == top;
    return g;
}

static void judge_counter(const struct judge *j, int node, unsigned port, enum counter k,
                          struct gain g)
{
    const struct subnet_port *p = &j->s->nodes[node].ports[port];
    AUTO(free_str) char *link = subnet_link_text(j->s, node, port);
    AUTO(free_str) char *at = subnet_port_text(j->s, node, port);
    const char *least = g.saturated || g.reset ? "at least " : "";
    double budget = counters_budget_per_hour(p->width_active, p->speed_active);
    if (rows[k].kind == COUNTER_KIND_BER &&
        counters_chance(budget * j->hours, g.value) < chance_limit) {
        subnet_finding(
            j->findings, "ib-symbol-errors", link,
            "%s: %s%" PRIu64 " %s in %.1f s are %.4g an hour; %ux%s may show %.3g an hour "
            "(%s). %s.",
            at, least, g.value, rows[k].name, j->hours * 3600, (double)g.value / j->hours,
            p->width_active, rate_speed_at(p->speed_active)->name, budget,
            rate_speed_at(p->speed_active)->ber_source, rows[k].text);
    } else if (rows[k].kind == COUNTER_KIND_EVENT && g.value > 0) {
        bool flap = k == COUNTER_RECOVERY || k == COUNTER_DOWNED;
        subnet_finding(j->findings, flap ? "ib-link-flapping" : "ib-port-errors", link,
                       "%s: %s grew by %s%" PRIu64 " in %.1f s: %s.", at, rows[k].name, least,
                       g.value, j->hours * 3600, rows[k].text);
    }
    if (g.saturated && rows[k].kind != COUNTER_KIND_NOTE && rows[k].kind != COUNTER_KIND_WAIT)
        subnet_finding(
            j->findings, "counters-saturated", link,
            "%s: %s stands at its highest value, %" PRIu64 ": further errors are not "
            "counted. Note it, then have the counters cleared by hand (`perfquery -R` for "
            "this port).",
            at, rows[k].name, (UINT64_C(1) << rows[k].bits) - 1);
}

/* Ticks of waiting against the words sent: about the share of time without credits. */
static void judge_wait(const struct judge *j, int node, unsigned port, uint64_t ticks,
                       uint64_t words)
{
    double share = (double)ticks / ((double)ticks + (double)words);
    if ((double)ticks < wait_ticks_least || share < wait_share_limit)
        return;
    AUTO(free_str) char *link = subnet_link_text(j->s, node, port);
    AUTO(free_str) char *at = subnet_port_text(j->s, node, port);
    subnet_finding(j->findings, "ib-congestion", link,
                   "%s: waited %" PRIu64 " ticks in %.1f s, %.0f %% against what it sent: %s.", at,
                   ticks, j->hours * 3600, share * 100, rows[COUNTER_WAIT].text);
    jsonx_set_str(json_array_get(j->findings, json_array_size(j->findings) - 1), "severity",
                  "warning");
}

static void add_rates(const struct judge *j, int node, unsigned port, const struct gain *gains)
{
    json_t *o = json_object(), *values = json_object();
    jsonx_set_str(o, "node", j->s->nodes[node].name);
    jsonx_set_int(o, "port", port);
    jsonx_set_num(o, "xmit_bps", (double)gains[COUNTER_XMIT_DATA].value * 32 / (j->hours * 3600));
    jsonx_set_num(o, "rcv_bps", (double)gains[COUNTER_RCV_DATA].value * 32 / (j->hours * 3600));
    for (int k = 0; k < COUNTER__COUNT; k++)
        if (gains[k].value > 0)
            jsonx_set_int(values, rows[k].name, (int64_t)gains[k].value);
    jsonx_set(o, "gains", values);
    jsonx_append(j->rates, o);
}

static const struct counters_port *find(const struct counters *c, uint64_t guid, unsigned port)
{
    const struct counters_port key = {.guid = guid, .port = port};
    return c->count ? bsearch(&key, c->ports, c->count, sizeof key, by_port) : NULL;
}

static void judge_port(const struct judge *j, int node, unsigned port)
{
    uint64_t guid = j->s->nodes[node].guid;
    const struct counters_port *a = find(j->before, guid, port), *b = find(j->now, guid, port);
    struct gain gains[COUNTER__COUNT];
    if (!b || !b->read || !a || !a->read) {
        AUTO(free_str) char *at = subnet_port_text(j->s, node, port);
        subnet_finding(j->findings, "not-measured", at,
                       b && b->read
                           ? "%s: was not read before: its counters are known from now on."
                           : "%s: its counters could not be read: it has no LID or did not "
                             "answer.",
                       at);
        return;
    }
    for (int k = 0; k < COUNTER__COUNT; k++) {
        gains[k] = gain_of((enum counter)k, a->value[k], b->value[k]);
        judge_counter(j, node, port, (enum counter)k, gains[k]);
    }
    judge_wait(j, node, port, gains[COUNTER_WAIT].value, gains[COUNTER_XMIT_DATA].value);
    if (j->rates)
        add_rates(j, node, port, gains);
}

static void judge_link(const struct subnet *s, int node, unsigned port, void *ctx)
{
    const struct subnet_port *p = &s->nodes[node].ports[port];
    judge_port(ctx, node, port);
    judge_port(ctx, p->peer_node, p->peer_port);
}

int counters_judge(const struct counters *before, const struct counters *now,
                   const struct subnet *s, json_t *findings, json_t *rates, struct err *err)
{
    int64_t window_ms = now->time_ms - before->time_ms;
    if (window_ms <= 0)
        return err_set(err, ERR_DATA,
                       "the kept counters are from %lld ms later than now: the clock was set back; "
                       "remove the state file",
                       (long long)-window_ms);
    struct judge j = {s, before, now, (double)window_ms / MS_PER_HOUR, findings, rates};
    subnet_each_link(s, judge_link, &j);
    return 0;
}
