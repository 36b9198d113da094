#include "validate/isolate/sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

const struct sim_conditions sim_usual = {.straggler = 2e-4, .missing = 2e-4, .noise = 1};
const double sim_setup_s = 2.0, sim_repeat_s = 1.5;

struct noise_row {
    double quantile[4];
    const char *source;
};
static const struct noise_row noise[] = {
#define NOISE(probe, p01, p25, p75, p99, source_)                                                  \
    [MEASURE_##probe] = {.quantile = {p01, p25, p75, p99}, .source = (source_)},
#include "validate/isolate/noise.def"
#undef NOISE
};
_Static_assert(ARRAY_LEN(noise) == MEASURE_PROBE__COUNT, "a row per probe");

const char *sim_noise_source(enum measure_probe probe)
{
    return noise[probe].source;
}

void sim_open(struct sim *s, const struct fabric_graph *g, const struct sim_conditions *conditions,
              uint64_t seed)
{
    *s = (struct sim){.g = g, .conditions = *conditions, .rng = {seed}};
}

void sim_plant(struct sim *s, const struct sim_fault *fault)
{
    s->faults = mem_grow(s->faults, s->fault_count + 1, sizeof *s->faults);
    s->faults[s->fault_count++] = *fault;
}

void sim_close(struct sim *s)
{
    free(s->faults);
    *s = (struct sim){0};
}

/* Packets in flight at 400 Gbit/s, 4 KiB and 5 us; each loss sends them again. */
double sim_rate_at_loss(double loss)
{
    const double in_flight = 61;
    return 1 / (1 + in_flight * loss);
}

static double draw(struct rng *r, const struct noise_row *row, double factor)
{
    static const double at[] = {0.01, 0.25, 0.75, 0.99};
    const double *q = row->quantile;
    double u = rng_unit(r), value;
    if (u < at[0])
        value = q[0] - (q[1] - q[0]) * rng_unit(r);
    else if (u >= at[3])
        value = q[3] + (q[3] - q[2]) * rng_unit(r);
    else {
        size_t i = u < at[1] ? 0 : u < at[2] ? 1 : 2;
        value = q[i] + (q[i + 1] - q[i]) * (u - at[i]) / (at[i + 1] - at[i]);
    }
    return 1 + (value - 1) * factor;
}

/* State of one moment: every flow of the plan, once. */
struct moment {
    struct sim *s;
    const struct measure_plan *plan;
    double *capacity, *limit, *share, *latency;
    bool *dead;
    enum measure_way *way;
    signed char *host; /* 0 not looked at, 1 well, 2 slow, 3 silent */
    double *host_factor;
};

static bool is_line(enum solve_part part)
{
    enum solve_on on = solve_part_row(part)->on;
    return on == SOLVE_ON_EDGE || on == SOLVE_ON_LINK;
}

static double left_now(struct sim *s, const struct sim_fault *f)
{
    double left = f->left * sim_rate_at_loss(f->loss);
    return left * (1 + f->spread * (2 * rng_unit(&s->rng) - 1));
}

/* A lasting fault of a line narrows it for all flows together; every other one acts on each flow.
 */
static bool narrows(const struct sim_fault *f)
{
    return is_line(f->where.part) && f->probability >= 1 && f->left > 0;
}

static void narrow(struct moment *m)
{
    for (size_t i = 0; i < m->s->fault_count; i++) {
        const struct sim_fault *f = &m->s->faults[i];
        if (!narrows(f))
            continue;
        double left = left_now(m->s, f);
        m->capacity[f->where.element] *= left;
        if (solve_part_row(f->where.part)->on == SOLVE_ON_LINK)
            m->capacity[f->where.element ^ 1U] *= left;
    }
}

static double narrowest(const struct fabric_graph *g, const uint32_t path[], size_t length)
{
    double least = INFINITY;
    for (size_t k = 0; k < length; k++)
        if (path[k] < 2 * g->link_count)
            least = fmin(least, g->links[path[k] / 2].bps);
    return isfinite(least) ? least : 1;
}

static void suffer(struct moment *m, size_t flow, const struct sim_fault *f, const uint32_t path[],
                   size_t length)
{
    struct sim *s = m->s;
    if (f->probability < 1 && rng_unit(&s->rng) >= f->probability)
        return;
    if (f->way != MEASURE_DIRECT)
        m->way[flow] = f->way;
    bool small = m->plan->flows[flow].probe == MEASURE_SMALL;
    if (small && f->latency > 0)
        m->latency[flow] *= f->latency;
    else if (small ? f->latency <= 0 : f->left <= 0)
        m->dead[flow] = true;
    else if (!narrows(f))
        m->limit[flow] = fmin(m->limit[flow], left_now(s, f) * narrowest(s->g, path, length));
}

static void begin_flow(struct moment *m, size_t flow)
{
    const struct fabric_graph *g = m->s->g;
    uint32_t path[MEASURE_MAX_ELEMENTS];
    const struct measure_flow *f = &m->plan->flows[flow];
    m->limit[flow] = INFINITY;
    m->latency[flow] = 1;
    m->dead[flow] = false;
    m->way[flow] = MEASURE_DIRECT;
    if (m->s->fault_count == 0 && f->probe != MEASURE_SMALL)
        return;
    size_t length = measure_elements(g, f, path), switches = 0;
    for (size_t k = 0; k < length; k++)
        if (path[k] >= 2 * g->link_count &&
            g->nodes[path[k] - 2 * g->link_count].kind == FABRIC_SWITCH)
            switches++;
    m->latency[flow] = measure_latency(switches);
    for (size_t i = 0; i < m->s->fault_count; i++)
        if (solve_crosses(g, &m->s->faults[i].where, f, path, length))
            suffer(m, flow, &m->s->faults[i], path, length);
    if (m->dead[flow])
        m->limit[flow] = 0; /* what does not arrive leaves the links to others */
}

/* What a host does in this moment is drawn once, whatever it takes part in. */
static signed char host_mood(struct moment *m, size_t host)
{
    struct sim *s = m->s;
    if (m->host[host])
        return m->host[host];
    m->host[host] = 1;
    m->host_factor[host] = 1;
    if (rng_unit(&s->rng) < s->conditions.straggler) {
        m->host[host] = 2;
        m->host_factor[host] = 0.3 + 0.6 * rng_unit(&s->rng);
    }
    bool silent = rng_unit(&s->rng) < s->conditions.missing;
    for (size_t i = 0; i < s->fault_count; i++) {
        const struct sim_fault *f = &s->faults[i];
        if (f->mute && f->where.element == fabric_graph_node_element(s->g, s->g->host_node[host]))
            silent = silent || rng_unit(&s->rng) < f->probability;
    }
    if (silent)
        m->host[host] = 3;
    return m->host[host];
}

static double value_of(struct moment *m, size_t flow)
{
    struct sim *s = m->s;
    const struct measure_flow *f = &m->plan->flows[flow];
    size_t from = f->from / s->g->rails, to = f->to / s->g->rails;
    double factor = draw(&s->rng, &noise[f->probe], s->conditions.noise);
    if (f->probe != MEASURE_SM_COUNT && (m->host[from] == 2 || m->host[to] == 2)) {
        double slow = fmin(m->host_factor[from], m->host_factor[to]);
        factor *= f->probe == MEASURE_SMALL ? 1 / slow : slow;
    }
    if (f->probe == MEASURE_SMALL)
        return m->latency[flow] * factor;
    double share = fmin(m->share[flow], m->limit[flow]);
    return share * factor;
}

static struct measure_result answer(struct moment *m, const struct measure_item *item)
{
    struct sim *s = m->s;
    struct measure_result r = {.outcome = MEASURE_OK, .value = INFINITY};
    bool latency = m->plan->flows[item->first_flow].probe == MEASURE_SMALL;
    if (latency)
        r.value = 0;
    bool missing = false;
    for (uint32_t f = item->first_flow; f < item->first_flow + item->flow_count; f++) {
        const struct measure_flow *flow = &m->plan->flows[f];
        missing = host_mood(m, flow->from / s->g->rails) == 3 || missing;
        missing = host_mood(m, flow->to / s->g->rails) == 3 || missing;
        double value = value_of(m, f);
        r.value = latency ? fmax(r.value, value) : fmin(r.value, value);
        if (m->dead[f])
            r.outcome = MEASURE_DEAD;
        if (m->way[f] != MEASURE_DIRECT)
            r.way = m->way[f];
    }
    if (r.outcome == MEASURE_DEAD)
        r.value = 0;
    return missing ? (struct measure_result){0} : r;
}

static void run_once(struct moment *m, struct measure_result results[])
{
    const struct measure_plan *p = m->plan;
    const struct fabric_graph *g = m->s->g;
    for (size_t e = 0; e < 2 * g->link_count; e++)
        m->capacity[e] = g->links[e / 2].bps;
    memset(m->host, 0, g->hosts);
    narrow(m);
    for (size_t f = 0; f < p->flow_count; f++)
        begin_flow(m, f);
    measure_shares(g, p->flows, p->flow_count, m->capacity, m->limit, m->share);
    for (size_t i = 0; i < p->item_count; i++)
        results[i] = answer(m, &p->items[i]);
}

static int run(void *ctx, const struct measure_plan *plan, struct measure_result results[],
               struct err *err)
{
    struct sim *s = ctx;
    (void)err;
    size_t flows = plan->flow_count + 1;
    struct moment m = {.s = s, .plan = plan};
    m.capacity = mem_zero(2 * s->g->link_count + 1, sizeof *m.capacity);
    m.limit = mem_zero(flows, sizeof *m.limit);
    m.share = mem_zero(flows, sizeof *m.share);
    m.latency = mem_zero(flows, sizeof *m.latency);
    m.dead = mem_zero(flows, sizeof *m.dead);
    m.way = mem_zero(flows, sizeof *m.way);
    m.host = mem_zero(s->g->hosts, sizeof *m.host);
    m.host_factor = mem_zero(s->g->hosts, sizeof *m.host_factor);
    for (unsigned k = 0; k < plan->repeats; k++)
        run_once(&m, results + k * plan->item_count);
    s->tests += plan->repeats;
    s->flows += plan->repeats * plan->flow_count;
    s->seconds += sim_setup_s + sim_repeat_s * plan->repeats;
    void *const owned[] = {m.capacity, m.limit, m.share, m.latency,
                           m.dead,     m.way,   m.host,  m.host_factor};
    for (size_t i = 0; i < ARRAY_LEN(owned); i++)
        free(owned[i]);
    return 0;
}

static double clock_of(void *ctx)
{
    const struct sim *s = ctx;
    return s->seconds;
}

struct measure_backend sim_backend(struct sim *s)
{
    return (struct measure_backend){.run = run, .clock = clock_of, .ctx = s};
}
