#include "fabric/subnet/cables_parts.h"

#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"

/* The places of one chain or ring in order, and which kind of step leads out of the first. */
struct walk {
    int *at;
    size_t count;
    bool planned_first;
};

static const char *node_name(const struct cables *c, int node)
{
    size_t n = (size_t)node;
    return n < c->s->count ? c->s->nodes[n].name : c->lost[n - c->s->count].name;
}

char *cables_place_text(const struct cables *c, int at)
{
    return str_printf("%s port %u", node_name(c, c->places[at].node), c->places[at].port);
}

char *cables_place_state(const struct cables *c, int at)
{
    const struct place *p = &c->places[at];
    if ((size_t)p->node >= c->s->count)
        return str_printf("%s, which is not in the subnet, port %u", node_name(c, p->node),
                          p->port);
    const struct subnet_port *port = &c->s->nodes[p->node].ports[p->port];
    return str_printf("%s port %u (%s)", node_name(c, p->node), p->port,
                      port->present ? subnet_phys_name(port->phys) : "not read");
}

/* ---- nodes that are not there ---- */

static void report_lost(struct cables *c, int node, int near, size_t planned, size_t up)
{
    const char *name = node_name(c, node);
    AUTO(free_str)
    char *state =
        near == NOWHERE ? str_dup("no port of a known node") : cables_place_state(c, near);
    if (up > 0)
        subnet_finding(c->findings, "node-silent", name,
                       "%s does not answer for management, though %zu of its %zu planned links are "
                       "up at their other end (%s): look at its console or firmware, and restart "
                       "it.",
                       name, up, planned, state);
    else if (planned == 1)
        subnet_finding(
            c->findings, "node-missing", name,
            "%s is not in the subnet; by the plan its cable leads to %s: see that it has "
            "power and its port is enabled, then reseat that cable.",
            name, state);
    else
        subnet_finding(c->findings, "node-missing", name,
                       "%s is not in the subnet: none of its %zu planned links is up, the first "
                       "leads to %s: see that it has power.",
                       name, planned, state);
}

/* A lost node's cable whose near end leads elsewhere belongs to a chain, not to this list. */
void cables_lost_nodes(struct cables *c)
{
    for (size_t n = c->s->count; n < c->s->count + c->lost_count; n++) {
        size_t planned = 0, up = 0, elsewhere = 0;
        int near = NOWHERE;
        for (int at = c->base[n]; at < c->base[n + 1]; at++) {
            int far = c->places[at].planned;
            if (far == NOWHERE)
                continue;
            planned++;
            if (c->places[far].found != NOWHERE) {
                elsewhere++;
                continue;
            }
            if (near == NOWHERE)
                near = far;
            const struct place *p = &c->places[far];
            if ((size_t)p->node < c->s->count)
                up += c->s->nodes[p->node].ports[p->port].phys == SUBNET_PHYS_LINK_UP;
            c->places[at].done = c->places[far].done = true;
        }
        if (elsewhere < planned) {
            c->result->to_plug += planned - elsewhere;
            report_lost(c, (int)n, near, planned, up);
        }
    }
}

/* ---- chains and rings ---- */

static void walk_from(struct cables *c, int start, bool planned, struct walk *w)
{
    *w = (struct walk){.planned_first = planned};
    for (int at = start; at != NOWHERE && !c->places[at].done; planned = !planned) {
        if ((w->count & (w->count - 1)) == 0)
            w->at = mem_grow(w->at, w->count ? w->count * 2 : 1, sizeof *w->at);
        w->at[w->count++] = at;
        c->places[at].done = true;
        at = planned ? c->places[at].planned : c->places[at].found;
    }
}

static void walk_reverse(struct walk *w)
{
    for (size_t i = 0; i < w->count / 2; i++) {
        int other = w->at[w->count - 1 - i];
        w->at[w->count - 1 - i] = w->at[i];
        w->at[i] = other;
    }
}

static char *pair_text(const struct cables *c, int a, int b)
{
    AUTO(free_str) char *x = cables_place_text(c, a), *y = cables_place_text(c, b);
    return str_printf("%s <-> %s", x, y);
}

static void report_missing(struct cables *c, int a, int b)
{
    AUTO(free_str) char *link = pair_text(c, a, b);
    AUTO(free_str) char *x = cables_place_state(c, a), *y = cables_place_state(c, b);
    c->result->to_plug++;
    subnet_finding(c->findings, "cable-missing", link,
                   "No link between %s and %s: plug the cable in at both ends; if it is in, swap "
                   "it.",
                   x, y);
}

static void report_extra(struct cables *c, int a, int b)
{
    AUTO(free_str) char *link = pair_text(c, a, b);
    c->result->to_remove++;
    subnet_finding(c->findings, "cable-extra", link,
                   "%s is not in the plan: unplug it, or add it to the plan.", link);
}

/* One plug: it is in `from`, belongs in `to`; the cable's other plug stays in `stays`. */
static void add_move(struct cables *c, json_t *moves, int from, int to, int stays)
{
    json_t *m = json_object();
    AUTO(free_str) char *f = cables_place_text(c, from), *t = cables_place_text(c, to);
    AUTO(free_str) char *s = cables_place_text(c, stays);
    jsonx_set_str(m, "from", f);
    jsonx_set_str(m, "to", t);
    jsonx_set_str(m, "other_end", s);
    jsonx_append(moves, m);
    c->result->moves++;
}

static void attach_moves(struct cables *c, json_t *moves)
{
    json_t *last = json_array_get(c->findings, json_array_size(c->findings) - 1);
    jsonx_set(last, "moves", moves);
}

/* places at[0] =planned= at[1] -found- at[2] =planned= ...: the plug in at[2] belongs in at[0]. */
static void report_moves(struct cables *c, json_t *moves)
{
    struct strbuf text = {0}, subject = {0};
    size_t i;
    json_t *m;
    strbuf_puts(&text, json_array_size(moves) == 1 ? "Cable in the wrong port:"
                                                   : "Cables in each other's ports:");
    json_array_foreach(moves, i, m)
    {
        strbuf_printf(&text, "%s move the plug in %s to %s (the cable's other end stays in %s)",
                      i ? ";" : "", jsonx_str_or(m, "from", "?"), jsonx_str_or(m, "to", "?"),
                      jsonx_str_or(m, "other_end", "?"));
        strbuf_printf(&subject, "%s%s", i ? ", " : "", jsonx_str_or(m, "from", "?"));
    }
    strbuf_puts(&text, ".");
    subnet_finding(c->findings, "cable-wrong-port", subject.data, "%s", text.data);
    attach_moves(c, moves);
    strbuf_release(&text);
    strbuf_release(&subject);
}

static bool is_lost(const struct cables *c, int at)
{
    return (size_t)c->places[at].node >= c->s->count;
}

void cables_chain(struct cables *c, int start)
{
    struct walk w;
    walk_from(c, start, c->places[start].planned != NOWHERE, &w);
    /* An even number of places means an odd number of steps: both outer steps are of one kind. */
    bool same = w.count % 2 == 0;
    if (!same && !w.planned_first) {
        walk_reverse(&w);
        w.planned_first = true;
    }
    /* No plug can go into a node that is not there. */
    if (same && w.planned_first && is_lost(c, w.at[0]))
        walk_reverse(&w);
    size_t first = 0, last = w.count;
    if (!w.planned_first) {
        report_extra(c, w.at[0], w.at[1]);
        first = 1;
    }
    json_t *moves = json_array();
    for (size_t i = first; i + 2 < last; i += 2)
        add_move(c, moves, w.at[i + 2], w.at[i], w.at[i + 1]);
    if (json_array_size(moves) > 0)
        report_moves(c, moves);
    else
        json_decref(moves);
    if ((last - first) % 2 == 0)
        report_missing(c, w.at[last - 2], w.at[last - 1]);
    free(w.at);
}

/* The same plugs stay on their switch where one of the two ways round allows it: the engineer then
 * exchanges plugs within reach. */
static size_t moves_within_a_node(const struct cables *c, const struct walk *w)
{
    size_t within = 0;
    for (size_t i = 0; i < w->count; i += 2)
        within += c->places[w->at[i]].node == c->places[w->at[(i + 2) % w->count]].node;
    return within;
}

static void report_swap(struct cables *c, const struct walk *w, json_t *moves)
{
    AUTO(free_str) char *p = cables_place_text(c, w->at[0]), *q = cables_place_text(c, w->at[2]);
    AUTO(free_str) char *a = cables_place_text(c, w->at[1]), *b = cables_place_text(c, w->at[3]);
    AUTO(free_str) char *subject = str_printf("%s, %s", p, q);
    subnet_finding(
        c->findings, "cable-swapped", subject,
        "Two cables are swapped: exchange the plugs in %s and %s; then %s leads to %s and "
        "%s to %s.",
        p, q, a, p, b, q);
    attach_moves(c, moves);
}

void cables_ring(struct cables *c, int start)
{
    struct walk w;
    walk_from(c, start, true, &w);
    struct walk back = {.at = mem_zero(w.count, sizeof *w.at), .count = w.count};
    for (size_t i = 0; i < w.count; i++)
        back.at[i] = w.at[(w.count + 1 - i) % w.count];
    const struct walk *best =
        moves_within_a_node(c, &back) > moves_within_a_node(c, &w) ? &back : &w;
    json_t *moves = json_array();
    for (size_t i = 0; i < best->count; i += 2)
        add_move(c, moves, best->at[(i + 2) % best->count], best->at[i], best->at[i + 1]);
    if (best->count == 4)
        report_swap(c, best, moves);
    else
        report_moves(c, moves);
    free(back.at);
    free(w.at);
}
