/* What is wrong with the subnet as it is, without a plan beside it. */
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "fabric/subnet/subnet.h"

static void judge_state(const struct subnet *s, int node, unsigned port, void *ctx)
{
    json_t *findings = ctx;
    const struct subnet_port *p = &s->nodes[node].ports[port];
    AUTO(free_str) char *link = subnet_link_text(s, node, port);
    if (p->state != SUBNET_INIT && p->state != SUBNET_ARMED)
        return;
    subnet_finding(findings, p->state == SUBNET_INIT ? "ib-port-init" : "ib-port-armed", link,
                   "%s is %s: the cable is good, but no subnet manager has brought the link to "
                   "Active; see whether one runs (`muster fabric sm-check`) and what its log says.",
                   link, subnet_state_name(p->state));
}

static void judge_rate(const struct subnet *s, int node, unsigned port, json_t *findings)
{
    const struct subnet_port *p = &s->nodes[node].ports[port];
    unsigned lanes;
    enum rate_speed able;
    subnet_link_able(s, node, port, &lanes, &able);
    AUTO(free_str) char *link = subnet_link_text(s, node, port);
    const struct rate_speed_row *is = rate_speed_at(p->speed_active), *best = rate_speed_at(able);
    if (p->width_active < lanes)
        subnet_finding(findings, "ib-link-narrow", link,
                       "%s runs %ux, both ends can %ux: reseat the cable at both ends, then swap "
                       "it; if it stays narrow, the port of one end has dead lanes.",
                       link, p->width_active, lanes);
    if (p->speed_active < able)
        subnet_finding(findings, "ib-link-slow", link,
                       "%s runs at %s, both ends can %s: use a cable that is made for %s, and see "
                       "that neither end has the speed forced down.",
                       link, is ? is->name : "an unknown speed", best->name, best->name);
}

static void judge_mtu(const struct subnet *s, int node, unsigned port, json_t *findings)
{
    const struct subnet_port *a = &s->nodes[node].ports[port];
    const struct subnet_port *b = &s->nodes[a->peer_node].ports[a->peer_port];
    unsigned able = a->mtu_cap < b->mtu_cap ? a->mtu_cap : b->mtu_cap;
    unsigned low = a->mtu < b->mtu ? a->mtu : b->mtu;
    if (a->state != SUBNET_ACTIVE || low >= able)
        return;
    AUTO(free_str) char *link = subnet_link_text(s, node, port);
    subnet_finding(findings, "ib-link-mtu", link,
                   "%s carries packets of %lld bytes, both ends can %lld: the subnet manager set "
                   "the smaller one.",
                   link, (long long)rate_mtu_bytes(low), (long long)rate_mtu_bytes(able));
}

static void judge_link(const struct subnet *s, int node, unsigned port, void *ctx)
{
    judge_rate(s, node, port, ctx);
    judge_mtu(s, node, port, ctx);
}

void subnet_judge(const struct subnet *s, json_t *findings)
{
    size_t i;
    json_t *text;
    json_array_foreach(s->unanswered, i, text)
        subnet_finding(findings, "not-measured", "subnet", "%s", json_string_value(text));
    subnet_each_link(s, judge_link, findings);
    /* Without a master every link waits; that is one fault, and sm_check_subnet() names it. */
    bool managed = false;
    for (i = 0; i < s->sm_count; i++)
        managed |= s->sms[i].answered && s->sms[i].state == SUBNET_SM_MASTER;
    if (managed)
        subnet_each_link(s, judge_state, findings);
}
