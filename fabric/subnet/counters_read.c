#include "fabric/subnet/counters_read.h"

#include <infiniband/mad.h>
#include <string.h>

#include "common/util.h"

static const struct {
    enum counter counter;
    enum MAD_FIELDS field;
} basic[] =
    {
        {COUNTER_SYMBOL, IB_PC_ERR_SYM_F},
        {COUNTER_RECOVERY, IB_PC_LINK_RECOVERS_F},
        {COUNTER_DOWNED, IB_PC_LINK_DOWNED_F},
        {COUNTER_RCV_ERRORS, IB_PC_ERR_RCV_F},
        {COUNTER_REMOTE, IB_PC_ERR_PHYSRCV_F},
        {COUNTER_SWITCH_RELAY, IB_PC_ERR_SWITCH_REL_F},
        {COUNTER_DISCARDS, IB_PC_XMT_DISCARDS_F},
        {COUNTER_XMIT_CONSTRAINT, IB_PC_ERR_XMTCONSTR_F},
        {COUNTER_RCV_CONSTRAINT, IB_PC_ERR_RCVCONSTR_F},
        {COUNTER_INTEGRITY, IB_PC_ERR_LOCALINTEG_F},
        {COUNTER_OVERRUN, IB_PC_ERR_EXCESS_OVR_F},
        {COUNTER_VL15, IB_PC_VL15_DROPPED_F},
        {COUNTER_WAIT, IB_PC_XMT_WAIT_F},
},
  wide[] = {
      {COUNTER_XMIT_DATA, IB_PC_EXT_XMT_BYTES_F},
      {COUNTER_RCV_DATA, IB_PC_EXT_RCV_BYTES_F},
      {COUNTER_XMIT_PACKETS, IB_PC_EXT_XMT_PKTS_F},
      {COUNTER_RCV_PACKETS, IB_PC_EXT_RCV_PKTS_F},
};

static bool read_port(struct ibmad_port *mads, unsigned lid, struct counters_port *p)
{
    uint8_t data[1024] = {0};
    ib_portid_t to = {0};
    if (lid == 0)
        return false;
    ib_portid_set(&to, (int)lid, 0, 0);
    if (!pma_query_via(data, &to, (int)p->port, 0, IB_GSI_PORT_COUNTERS, mads))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(basic); i++) {
        uint32_t value = 0;
        mad_decode_field(data, basic[i].field, &value);
        p->value[basic[i].counter] = value;
    }
    memset(data, 0, sizeof data);
    if (!pma_query_via(data, &to, (int)p->port, 0, IB_GSI_PORT_COUNTERS_EXT, mads))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(wide); i++)
        mad_decode_field(data, wide[i].field, &p->value[wide[i].counter]);
    return true;
}

void counters_read(struct ibmad_port *mads, const struct subnet *s, struct counters *c)
{
    size_t room = 0;
    for (size_t i = 0; i < s->count; i++)
        room += s->nodes[i].port_count + 1;
    *c = (struct counters){.ports = mem_zero(room + 1, sizeof *c->ports)};
    for (size_t i = 0; i < s->count; i++)
        for (unsigned n = 1; n <= s->nodes[i].port_count; n++) {
            const struct subnet_node *node = &s->nodes[i];
            if (node->ports[n].peer_node < 0)
                continue;
            struct counters_port *p = &c->ports[c->count++];
            *p = (struct counters_port){.guid = node->guid, .port = n};
            p->read =
                read_port(mads, node->type == SUBNET_SWITCH ? node->lid : node->ports[n].lid, p);
        }
    c->time_ms = wall_ms();
    counters_sort(c);
}
