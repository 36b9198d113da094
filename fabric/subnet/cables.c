#include "fabric/subnet/cables.h"

#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "fabric/subnet/cables_parts.h"

/* A name of the plan with the node that it means. */
struct named {
    const struct cable_end *end;
    int node; /* SUBNET_NO_NODE until looked up; s->count and above: not in the subnet */
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->end->node, ((const struct named *)b)->end->node);
}

static int resolve_one(struct cables *c, const struct cable_end *end, int *node, struct err *err)
{
    bool ambiguous = false;
    int found = subnet_find(c->s, end->node, &ambiguous);
    if (found < 0 && !ambiguous && end->also)
        found = subnet_find(c->s, end->also, &ambiguous);
    if (ambiguous)
        return err_set(err, ERR_DATA,
                       "%s: '%s' means several nodes of the subnet; write its GUID (0x...) instead",
                       c->plan->source, end->node);
    if (found < 0) {
        c->lost = mem_grow(c->lost, c->lost_count + 1, sizeof *c->lost);
        c->lost[c->lost_count] = (struct lost){.name = end->also ? end->also : end->node};
        found = (int)(c->s->count + c->lost_count++);
    }
    *node = found;
    return 0;
}

/* Node index of each end of the plan: nodes[2i] and nodes[2i+1] for cable i. */
static int resolve(struct cables *c, int *nodes, struct err *err)
{
    size_t count = c->plan->count * 2;
    struct named *all = mem_zero(count, sizeof *all);
    for (size_t i = 0; i < count; i++) {
        const struct cable *cable = &c->plan->cables[i / 2];
        all[i] = (struct named){i % 2 ? &cable->b : &cable->a, (int)i};
    }
    qsort(all, count, sizeof *all, by_name);
    int status = 0, node = SUBNET_NO_NODE;
    for (size_t i = 0; i < count && status == 0; i++) {
        if (i == 0 || by_name(&all[i - 1], &all[i]) != 0)
            status = resolve_one(c, all[i].end, &node, err);
        nodes[all[i].node] = node;
    }
    free(all);
    return status;
}

static const struct cable_end *plan_end(const struct cables *c, size_t i)
{
    const struct cable *cable = &c->plan->cables[i / 2];
    return i % 2 ? &cable->b : &cable->a;
}

/* Each port gets a place in one flat array; base[node] + port. */
static int lay_out(struct cables *c, const int *nodes, struct err *err)
{
    size_t all = c->s->count + c->lost_count;
    unsigned *ports = mem_zero(all + 1, sizeof *ports);
    int status = 0;
    for (size_t i = 0; i < c->s->count; i++)
        ports[i] = c->s->nodes[i].port_count;
    for (size_t i = 0; i < c->plan->count * 2 && status == 0; i++) {
        unsigned port = plan_end(c, i)->port;
        bool known = (size_t)nodes[i] < c->s->count;
        if (known && port > ports[nodes[i]])
            status = err_set(err, ERR_DATA, "%s:%u: %s has %u ports, not %u", c->plan->source,
                             c->plan->cables[i / 2].line, c->s->nodes[nodes[i]].name,
                             ports[nodes[i]], port);
        else if (port > ports[nodes[i]])
            ports[nodes[i]] = port;
    }
    c->base = mem_zero(all + 1, sizeof *c->base);
    for (size_t i = 0; i < all; i++)
        c->base[i + 1] = c->base[i] + (int)ports[i] + 1;
    free(ports);
    c->place_count = (size_t)c->base[all];
    c->places = mem_zero(c->place_count + 1, sizeof *c->places);
    for (size_t n = 0; n < all; n++)
        for (int at = c->base[n]; at < c->base[n + 1]; at++)
            c->places[at] = (struct place){.node = (int)n,
                                           .port = (unsigned)(at - c->base[n]),
                                           .planned = NOWHERE,
                                           .found = NOWHERE};
    return status;
}

static int plug_planned(struct cables *c, const int *nodes, struct err *err)
{
    for (size_t i = 0; i < c->plan->count; i++) {
        const struct cable *cable = &c->plan->cables[i];
        int a = c->base[nodes[2 * i]] + (int)cable->a.port;
        int b = c->base[nodes[2 * i + 1]] + (int)cable->b.port;
        if (c->places[a].planned != NOWHERE || c->places[b].planned != NOWHERE || a == b)
            return err_set(err, ERR_DATA,
                           "%s:%u: two names of the plan mean one port: that of this cable",
                           c->plan->source, cable->line);
        c->places[a].planned = b;
        c->places[b].planned = a;
        c->places[a].cable = c->places[b].cable = cable;
    }
    return 0;
}

static void plug_found(const struct subnet *s, int node, unsigned port, void *ctx)
{
    struct cables *c = ctx;
    const struct subnet_port *p = &s->nodes[node].ports[port];
    int a = c->base[node] + (int)port, b = c->base[p->peer_node] + (int)p->peer_port;
    c->places[a].found = b;
    c->places[b].found = a;
}

/* A cable in its place: is it as wide and fast as planned? */
static void check_rate(struct cables *c, int at)
{
    const struct place *p = &c->places[at];
    const struct subnet_port *port = &c->s->nodes[p->node].ports[p->port];
    const struct rate_speed_row *is = rate_speed_at(port->speed_active);
    const struct rate_speed_row *want = rate_speed_at(p->cable->speed);
    AUTO(free_str) char *link = subnet_link_text(c->s, p->node, p->port);
    if (p->cable->lanes && port->width_active < p->cable->lanes)
        subnet_finding(
            c->findings, "cable-narrow", link,
            "%s runs %ux, the plan says %ux: reseat the cable at both ends, then swap it.", link,
            port->width_active, p->cable->lanes);
    if (want && port->speed_active < p->cable->speed)
        subnet_finding(
            c->findings, "cable-slow", link,
            "%s runs at %s, the plan says %s: see that the cable is made for %s and that "
            "neither end has its speed forced down.",
            link, is ? is->name : "an unknown speed", want->name, want->name);
}

static void compare(struct cables *c)
{
    for (size_t i = 0; i < c->place_count; i++) {
        struct place *p = &c->places[i];
        if (p->planned == NOWHERE || p->planned != p->found)
            continue;
        p->done = true;
        if ((size_t)p->planned > i) {
            c->result->in_place++;
            check_rate(c, (int)i);
        }
    }
    cables_lost_nodes(c);
    /* Chains first: what is left of them afterwards is rings. */
    for (size_t i = 0; i < c->place_count; i++)
        if (!c->places[i].done &&
            (c->places[i].planned == NOWHERE) != (c->places[i].found == NOWHERE))
            cables_chain(c, (int)i);
    for (size_t i = 0; i < c->place_count; i++)
        if (!c->places[i].done && c->places[i].planned != NOWHERE)
            cables_ring(c, (int)i);
}

int cables_compare(const struct cable_plan *plan, const struct subnet *s, json_t *findings,
                   struct cables_result *result, struct err *err)
{
    struct cables_result r = {.planned = plan->count};
    struct cables c = {.plan = plan, .s = s, .findings = json_array(), .result = &r};
    int *nodes = mem_zero(plan->count * 2 + 1, sizeof *nodes);
    int status = resolve(&c, nodes, err);
    if (status == 0)
        status = lay_out(&c, nodes, err);
    if (status == 0)
        status = plug_planned(&c, nodes, err);
    if (status == 0) {
        subnet_each_link(s, plug_found, &c);
        compare(&c);
        json_array_extend(findings, c.findings);
        *result = r;
    }
    json_decref(c.findings);
    free(c.lost);
    free(c.base);
    free(c.places);
    free(nodes);
    return status;
}
