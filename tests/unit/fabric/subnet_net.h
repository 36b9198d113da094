/* A small subnet for tests: two hosts on each of two leaves, one spine, one cable to it. */
#ifndef MUSTER_TESTS_SUBNET_NET_H
#define MUSTER_TESTS_SUBNET_NET_H

#include <stdlib.h>

#include "fabric/subnet/subnet.h"

enum { N1, N2, N3, N4, LEAF1, LEAF2, SPINE, NET_NODES };

static inline void net_up(struct subnet *s, int a, unsigned ap, int b, unsigned bp)
{
    struct subnet_port *ends[] = {&s->nodes[a].ports[ap], &s->nodes[b].ports[bp]};
    for (int i = 0; i < 2; i++) {
        ends[i]->state = SUBNET_ACTIVE;
        ends[i]->phys = SUBNET_PHYS_LINK_UP;
        ends[i]->width_active = 4;
        ends[i]->speed_active = RATE_HDR;
    }
    ends[0]->peer_node = b;
    ends[0]->peer_port = bp;
    ends[1]->peer_node = a;
    ends[1]->peer_port = ap;
}

static inline void net_down(struct subnet *s, int a, unsigned ap)
{
    struct subnet_port *p = &s->nodes[a].ports[ap];
    struct subnet_port *ends[] = {p, &s->nodes[p->peer_node].ports[p->peer_port]};
    for (int i = 0; i < 2; i++) {
        ends[i]->state = SUBNET_DOWN;
        ends[i]->phys = 2; /* Polling */
        ends[i]->peer_node = SUBNET_NO_NODE;
    }
}

/* Hosts 1 and 2 at leaf 1 ports 1 and 2, hosts 3 and 4 at leaf 2; leaf port 3 to the spine. */
static inline void net_make(struct subnet *s)
{
    static const char *const names[] = {"n1 mlx5_0", "n2 mlx5_0", "n3 mlx5_0", "n4 mlx5_0",
                                        "leaf1",     "leaf2",     "spine1"};
    subnet_init(s);
    for (int i = 0; i < NET_NODES; i++) {
        subnet_add(s, i < LEAF1 ? SUBNET_CA : SUBNET_SWITCH, 0x100u + (unsigned)i, names[i],
                   i < LEAF1 ? 1 : 4);
        for (unsigned p = 0; p <= s->nodes[i].port_count; p++) {
            struct subnet_port *port = &s->nodes[i].ports[p];
            port->present = true;
            port->phys = 2;
            port->state = SUBNET_DOWN;
            port->width_supported = 1 | 2 | 8; /* 1x, 4x, and 12x as switches announce it */
            port->speed_supported = 1u << RATE_SDR | 1u << RATE_EDR | 1u << RATE_HDR;
            port->mtu = port->mtu_cap = 5;
        }
    }
    subnet_name(s);
    for (int h = 0; h < 4; h++)
        net_up(s, h, 1, h < 2 ? LEAF1 : LEAF2, (unsigned)h % 2 + 1);
    net_up(s, LEAF1, 3, SPINE, 1);
    net_up(s, LEAF2, 3, SPINE, 2);
}

#endif
