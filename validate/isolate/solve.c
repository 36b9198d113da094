#include "validate/isolate/solve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

const double solve_conviction = 0.95;
const double solve_named_share = 0.02;

/* Chances that the scores are made of. */
static const double straggler = 1e-3; /* a healthy item fails, per round */
static const double companion = 0.05; /* another item of a round fails when one straggled */
static const double miss = 0.01;      /* a hard fault does not show in an item that crosses it */
static const double close_call = 0.3; /* the same where the fault is just at the limit */
static const double log_sometimes = -2.3; /* faults that come and go are rarer: one in ten */

struct candidate {
    struct solve_suspect s;
    int32_t next;         /* in the list of its element */
    uint32_t last_record; /* counted already in this record; UINT32_MAX none */
    uint32_t last_test;
    unsigned fails, passes;
    double fail_score, pass_score;
    double score;
};

struct search {
    const struct observe *o;
    const struct fabric_graph *g;
    struct candidate *candidates;
    size_t count;
    int32_t *by_element; /* nodes and edges */
    int32_t *by_link;
    int32_t *by_pair; /* hashed */
    size_t pair_slots;
    uint32_t *fails; /* records */
    bool *explained; /* per entry of fails */
    size_t fail_count;
};

static size_t pair_slot(const struct search *s, uint32_t a, uint32_t b)
{
    uint64_t low = a < b ? a : b, high = a < b ? b : a;
    uint64_t mixed = (low << 32 | high) * 0x9e3779b97f4a7c15U;
    return (size_t)(mixed >> 32) & (s->pair_slots - 1);
}

static bool is_full(size_t count)
{
    return (count & (count - 1)) == 0;
}

static void add_candidate(struct search *s, int32_t *head, enum solve_part part, uint32_t element,
                          uint32_t peer)
{
    for (int32_t i = *head; i >= 0; i = s->candidates[i].next)
        if (s->candidates[i].s.part == part && s->candidates[i].s.element == element &&
            s->candidates[i].s.peer == peer)
            return;
    if (is_full(s->count))
        s->candidates = mem_grow(s->candidates, s->count ? 2 * s->count : 1, sizeof *s->candidates);
    s->candidates[s->count] =
        (struct candidate){.s = {.part = part, .element = element, .peer = peer},
                           .next = *head,
                           .last_record = UINT32_MAX,
                           .last_test = UINT32_MAX};
    *head = (int32_t)s->count++;
}

/* Every part that could explain that this flow failed. */
static void suspect_flow(struct search *s, const struct measure_flow *flow, const uint32_t path[],
                         size_t length)
{
    size_t edges = 2 * s->g->link_count;
    for (int part = SOLVE_NOTHING + 1; part < SOLVE_PART__COUNT; part++) {
        const struct solve_part_row *row = solve_part_row((enum solve_part)part);
        if ((row->probes & measure_bit(flow->probe)) == 0)
            continue;
        if (row->on == SOLVE_ON_PAIR && flow->from != flow->to) {
            uint32_t low = flow->from < flow->to ? flow->from : flow->to;
            add_candidate(s, &s->by_pair[pair_slot(s, flow->from, flow->to)], (enum solve_part)part,
                          low, flow->from ^ flow->to ^ low);
            continue;
        }
        for (size_t k = 0; k < length; k++) {
            uint32_t e = path[k];
            if (e < edges && row->on == SOLVE_ON_LINK)
                add_candidate(s, &s->by_link[e / 2], (enum solve_part)part, e & ~1U, 0);
            else if (e < edges && row->on == SOLVE_ON_EDGE)
                add_candidate(s, &s->by_element[e], (enum solve_part)part, e, 0);
            else if (e >= edges && (int)row->on == (int)s->g->nodes[e - edges].kind)
                add_candidate(s, &s->by_element[e], (enum solve_part)part, e, 0);
        }
    }
}

static void open_search(struct search *s, const struct observe *o)
{
    *s = (struct search){.o = o, .g = o->g};
    s->fails = mem_zero(o->record_count + 1, sizeof *s->fails);
    for (size_t i = 0; i < o->record_count; i++)
        if (o->records[i].verdict == OBSERVE_FAIL)
            s->fails[s->fail_count++] = (uint32_t)i;
    s->explained = mem_zero(s->fail_count + 1, sizeof *s->explained);
    for (s->pair_slots = 64; s->pair_slots < 2 * s->fail_count; s->pair_slots *= 2)
        continue;
    size_t elements = fabric_graph_elements(s->g);
    s->by_element = mem_grow(NULL, elements + 1, sizeof *s->by_element);
    s->by_link = mem_grow(NULL, s->g->link_count + 1, sizeof *s->by_link);
    s->by_pair = mem_grow(NULL, s->pair_slots, sizeof *s->by_pair);
    memset(s->by_element, 0xff, (elements + 1) * sizeof *s->by_element);
    memset(s->by_link, 0xff, (s->g->link_count + 1) * sizeof *s->by_link);
    memset(s->by_pair, 0xff, s->pair_slots * sizeof *s->by_pair);
}

static void close_search(struct search *s)
{
    free(s->fails);
    free(s->explained);
    free(s->candidates);
    free(s->by_element);
    free(s->by_link);
    free(s->by_pair);
}

/* What visit() sees: one candidate that a record crosses, and how full the edge should have been.
 */
struct crossing {
    struct candidate *c;
    uint32_t record;
    enum measure_probe probe;
    double load;
};
typedef void visit_fn(const struct search *s, const struct crossing *x);

static void visit_list(const struct search *s, int32_t head, const struct measure_flow *flow,
                       struct crossing x, visit_fn *visit)
{
    for (int32_t i = head; i >= 0; i = s->candidates[i].next) {
        struct candidate *c = &s->candidates[i];
        const struct solve_part_row *row = solve_part_row(c->s.part);
        if (c->last_record == x.record || (row->probes & measure_bit(flow->probe)) == 0)
            continue;
        if (row->on == SOLVE_ON_PAIR && !((c->s.element == flow->from && c->s.peer == flow->to) ||
                                          (c->s.element == flow->to && c->s.peer == flow->from)))
            continue;
        c->last_record = x.record;
        x.c = c;
        visit(s, &x);
    }
}

static void visit_record(const struct search *s, uint32_t record, visit_fn *visit)
{
    const struct observe_record *r = &s->o->records[record];
    const struct observe_round *round = s->o->rounds[r->round];
    const struct measure_item *item = observe_item(s->o, r);
    uint32_t edges = (uint32_t)(2 * s->g->link_count);
    for (uint32_t f = item->first_flow; f < item->first_flow + item->flow_count; f++) {
        const struct measure_flow *flow = &round->plan.flows[f];
        struct crossing x = {
            .record = record, .probe = flow->probe, .load = (double)round->filled[f]};
        visit_list(s, s->by_pair[pair_slot(s, flow->from, flow->to)], flow, x, visit);
        for (uint32_t k = round->first_path[f]; k < round->first_path[f + 1]; k++) {
            uint32_t e = round->path[k];
            bool loaded = e < edges && flow->probe != MEASURE_SMALL;
            x.load = (double)(loaded ? round->load[e] : round->filled[f]);
            visit_list(s, s->by_element[e], flow, x, visit);
            if (e < edges)
                visit_list(s, s->by_link[e / 2], flow, x, visit);
        }
    }
}

static void note_severity(const struct search *s, const struct crossing *x)
{
    if (x->probe == MEASURE_SMALL)
        return;
    double left = (double)s->o->records[x->record].ratio * x->load;
    if (s->o->records[x->record].way == MEASURE_DIRECT && left > x->c->s.severity)
        x->c->s.severity = left;
}

/* A pass counts only where the edge carried more than the suspected fault would have let through.
 */
static void note_pass(const struct search *s, const struct crossing *x)
{
    double limit = measure_probe_row(x->probe)->limit;
    double shows = limit > 1 ? 1 : limit * x->load;
    struct candidate *c = x->c;
    if (c->s.severity >= shows * 1.01)
        return;
    c->passes++;
    c->pass_score += log(c->s.severity > shows * 0.985 ? close_call : miss);
}

static void note_fail(const struct search *s, const struct crossing *x)
{
    struct candidate *c = x->c;
    uint32_t test = s->o->records[x->record].test;
    c->fails++;
    c->fail_score += log((1 - miss) / (test == c->last_test ? companion : straggler));
    c->last_test = test;
}

static void forget_stamps(struct search *s)
{
    for (size_t i = 0; i < s->count; i++) {
        s->candidates[i].last_record = UINT32_MAX;
        s->candidates[i].last_test = UINT32_MAX;
    }
}

static void score(struct candidate *c)
{
    double f = c->fails, n = c->passes;
    double hard = c->fail_score + c->pass_score;
    double sometimes =
        c->fail_score + log_sometimes + lgamma(f + 1) + lgamma(n + 1) - lgamma(f + n + 2);
    double high = fmax(hard, sometimes);
    c->score =
        solve_part_row(c->s.part)->log_prior + high + log(exp(hard - high) + exp(sometimes - high));
    c->s.sometimes = sometimes > hard;
    c->s.fails = c->fails;
    c->s.passes = c->passes;
}

static void score_all(struct search *s)
{
    forget_stamps(s);
    for (size_t i = 0; i < s->count; i++) {
        s->candidates[i].fails = 0;
        s->candidates[i].fail_score = 0;
    }
    for (size_t i = 0; i < s->fail_count; i++)
        if (!s->explained[i])
            visit_record(s, s->fails[i], note_fail);
    for (size_t i = 0; i < s->count; i++)
        if (s->candidates[i].fails > 0)
            score(&s->candidates[i]);
}

static void gather(struct search *s)
{
    for (size_t i = 0; i < s->fail_count; i++) {
        const struct observe_record *r = &s->o->records[s->fails[i]];
        const struct observe_round *round = s->o->rounds[r->round];
        const struct measure_item *item = observe_item(s->o, r);
        for (uint32_t f = item->first_flow; f < item->first_flow + item->flow_count; f++)
            suspect_flow(s, &round->plan.flows[f], round->path + round->first_path[f],
                         round->first_path[f + 1] - round->first_path[f]);
    }
    for (size_t i = 0; i < s->fail_count; i++)
        visit_record(s, s->fails[i], note_severity);
    forget_stamps(s);
    for (size_t i = 0; i < s->o->record_count; i++)
        if (s->o->records[i].verdict == OBSERVE_PASS)
            visit_record(s, (uint32_t)i, note_pass);
}

static bool record_crosses(const struct search *s, uint32_t record, const struct solve_suspect *u)
{
    const struct observe_record *r = &s->o->records[record];
    const struct observe_round *round = s->o->rounds[r->round];
    const struct measure_item *item = observe_item(s->o, r);
    for (uint32_t f = item->first_flow; f < item->first_flow + item->flow_count; f++)
        if (solve_crosses(s->g, u, &round->plan.flows[f], round->path + round->first_path[f],
                          round->first_path[f + 1] - round->first_path[f]))
            return true;
    return false;
}

static int by_belief(const void *a, const void *b)
{
    const struct solve_suspect *x = a, *y = b;
    if (x->belief != y->belief)
        return x->belief < y->belief ? 1 : -1;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    return (x->element > y->element) - (x->element < y->element);
}

/* The rivals of the best candidate: those that cross at least one failure that it explains. */
static void weigh(struct search *s, struct solve_fault *fault, const struct candidate *best)
{
    double high = fmax(best->score, 0), sum = exp(-high);
    struct solve_suspect *rivals = mem_zero(s->count + 1, sizeof *rivals);
    size_t count = 0;
    for (size_t i = 0; i < s->count; i++) {
        const struct candidate *c = &s->candidates[i];
        if (c->fails == 0 || c->score < best->score - 12)
            continue;
        bool rival = false;
        for (size_t k = 0; k < fault->fails && !rival; k++)
            rival = record_crosses(s, fault->evidence[k], &c->s);
        if (!rival)
            continue;
        rivals[count] = c->s;
        rivals[count].belief = exp(c->score - high);
        sum += rivals[count++].belief;
    }
    qsort(rivals, count, sizeof *rivals, by_belief);
    fault->chance = exp(-high) / sum;
    fault->suspect_count = count < SOLVE_MAX_SUSPECTS ? count : SOLVE_MAX_SUSPECTS;
    for (size_t i = 0; i < fault->suspect_count; i++) {
        fault->suspects[i] = rivals[i];
        fault->suspects[i].belief /= sum;
    }
    free(rivals);
}

static void take_out(struct search *s, struct solve_answer *a)
{
    const struct candidate *best = NULL;
    for (size_t i = 0; i < s->count; i++)
        if (s->candidates[i].fails > 0 && (!best || s->candidates[i].score > best->score))
            best = &s->candidates[i];
    a->faults = mem_grow(a->faults, a->fault_count + 1, sizeof *a->faults);
    struct solve_fault *fault = &a->faults[a->fault_count++];
    *fault = (struct solve_fault){.evidence = mem_zero(s->fail_count + 1, sizeof(uint32_t))};
    uint32_t last_test = UINT32_MAX;
    bool *mine = mem_zero(s->fail_count + 1, sizeof *mine);
    for (size_t i = 0; i < s->fail_count; i++) {
        if (s->explained[i] || !record_crosses(s, s->fails[i], &best->s))
            continue;
        mine[i] = true;
        fault->evidence[fault->fails++] = s->fails[i];
        fault->rounds += s->o->records[s->fails[i]].test != last_test;
        last_test = s->o->records[s->fails[i]].test;
        fault->quiet += s->o->rounds[s->o->records[s->fails[i]].round]->plan.quiet;
    }
    weigh(s, fault, best);
    for (size_t i = 0; i < s->fail_count; i++)
        s->explained[i] = s->explained[i] || mine[i];
    free(mine);
}

static bool all_explained(const struct search *s)
{
    for (size_t i = 0; i < s->fail_count; i++)
        if (!s->explained[i])
            return false;
    return true;
}

/* The first rate between two hosts that this fault rests on, NULL when there is none. */
static const struct measure_flow *pair_of(const struct observe *o, const struct solve_fault *f)
{
    for (size_t i = 0; i < f->fails; i++) {
        const struct observe_record *r = &o->records[f->evidence[i]];
        const struct measure_flow *flow =
            &o->rounds[r->round]->plan.flows[observe_item(o, r)->first_flow];
        if (measure_probe_row(flow->probe)->scope == MEASURE_NET && flow->probe != MEASURE_SMALL)
            return flow;
    }
    return NULL;
}

/* A host that straggles fails with all its rails at once: faults between the same hosts are one. */
static bool is_counted(const struct observe *o, const struct solve_answer *a, size_t fault)
{
    size_t rails = o->g->rails;
    const struct measure_flow *x = pair_of(o, &a->faults[fault]);
    for (size_t i = 0; i < fault; i++) {
        const struct measure_flow *y = pair_of(o, &a->faults[i]);
        if (y && ((x->from / rails == y->from / rails && x->to / rails == y->to / rails) ||
                  (x->from / rails == y->to / rails && x->to / rails == y->from / rails)))
            return true;
    }
    return false;
}

static void doubt(const struct observe *o, struct solve_answer *a)
{
    size_t endpoints = o->g->hosts * o->g->rails, count = 0;
    size_t believable = endpoints / 50 < 4 ? 4 : endpoints / 50 > 16 ? 16 : endpoints / 50;
    for (size_t i = 0; i < a->fault_count; i++)
        count += pair_of(o, &a->faults[i]) && !is_counted(o, a, i);
    a->doubtful = count > believable || a->fault_count == SOLVE_MAX_FAULTS;
    for (size_t i = 0; i < a->fault_count && a->doubtful; i++)
        a->faults[i].doubtful = pair_of(o, &a->faults[i]) != NULL;
}

struct solve_answer *solve_run(const struct observe *o)
{
    struct solve_answer *a = mem_zero(1, sizeof *a);
    struct search s;
    open_search(&s, o);
    if (s.fail_count > 0)
        gather(&s);
    while (a->fault_count < SOLVE_MAX_FAULTS && !all_explained(&s)) {
        score_all(&s);
        take_out(&s, a);
    }
    close_search(&s);
    doubt(o, a);
    return a;
}

void solve_answer_destroy(struct solve_answer *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < a->fault_count; i++)
        free(a->faults[i].evidence);
    free(a->faults);
    free(a);
}

bool solve_is_convicted(const struct solve_fault *f)
{
    return f->suspect_count > 0 && 1 - f->chance >= solve_conviction && f->rounds >= 2 &&
           f->quiet > 0 && !f->doubtful;
}

size_t solve_named(const struct solve_fault *f)
{
    size_t count = 0;
    while (count < f->suspect_count &&
           f->suspects[count].belief >= solve_named_share * f->suspects[0].belief)
        count++;
    return count;
}
