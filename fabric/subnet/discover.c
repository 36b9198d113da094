#include "fabric/subnet/discover.h"

#include <infiniband/ibnetdisc.h>
#include <infiniband/mad.h>
#include <infiniband/umad.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"

enum { DEFAULT_TIMEOUT_MS = 200, DEFAULT_RETRIES = 2, DEFAULT_PARALLEL = 16 };
enum { CAP_IS_SM = 1u << 1, CAP_EXTENDED_SPEEDS = 1u << 14, EXT_FDR = 1, EXT_EDR = 2, EXT_HDR = 4 };
enum { EXT_NDR = 8, EXT_XDR = 16 };

static unsigned field(const uint8_t *data, enum MAD_FIELDS which)
{
    /* libibmad takes a non-const buffer that it only reads. */
    return mad_get_field((void *)(uintptr_t)data, 0, which);
}

/* Bits of LinkSpeed and LinkSpeedExt as one set. */
static unsigned speed_set(unsigned basic, unsigned extended)
{
    static const struct {
        unsigned bit;
        enum rate_speed speed;
    } low[] = {{1, RATE_SDR}, {2, RATE_DDR}, {4, RATE_QDR}}, high[] = {{EXT_FDR, RATE_FDR},
                                                                       {EXT_EDR, RATE_EDR},
                                                                       {EXT_HDR, RATE_HDR},
                                                                       {EXT_NDR, RATE_NDR},
                                                                       {EXT_XDR, RATE_XDR}};
    unsigned set = 0;
    for (size_t i = 0; i < ARRAY_LEN(low); i++)
        if (basic & low[i].bit)
            set |= 1u << low[i].speed;
    for (size_t i = 0; i < ARRAY_LEN(high); i++)
        if (extended & high[i].bit)
            set |= 1u << high[i].speed;
    return set;
}

/* FDR10 is a vendor attribute of its own and shows as QDR here. */
static void read_port(const ibnd_port_t *from, bool has_extended, struct subnet_port *p)
{
    const uint8_t *info = from->info;
    unsigned ext = has_extended ? field(info, IB_PORT_LINK_SPEED_EXT_ACTIVE_F) : 0;
    unsigned ext_enabled = has_extended ? field(info, IB_PORT_LINK_SPEED_EXT_ENABLED_F) : 0;
    unsigned ext_supported = has_extended ? field(info, IB_PORT_LINK_SPEED_EXT_SUPPORTED_F) : 0;
    p->present = true;
    p->guid = from->guid;
    p->lid = from->base_lid;
    p->lmc = from->lmc;
    p->state = (enum subnet_port_state)field(info, IB_PORT_STATE_F);
    p->phys = field(info, IB_PORT_PHYS_STATE_F);
    p->width_active = rate_lanes(field(info, IB_PORT_LINK_WIDTH_ACTIVE_F));
    p->width_enabled = field(info, IB_PORT_LINK_WIDTH_ENABLED_F);
    p->width_supported = field(info, IB_PORT_LINK_WIDTH_SUPPORTED_F);
    p->speed_active =
        rate_speed_most(speed_set(ext ? 0 : field(info, IB_PORT_LINK_SPEED_ACTIVE_F), ext));
    p->speed_enabled = speed_set(field(info, IB_PORT_LINK_SPEED_ENABLED_F), ext_enabled);
    p->speed_supported = speed_set(field(info, IB_PORT_LINK_SPEED_SUPPORTED_F), ext_supported);
    p->mtu = field(info, IB_PORT_NEIGHBOR_MTU_F);
    p->mtu_cap = field(info, IB_PORT_MTU_CAP_F);
    p->vls = field(info, IB_PORT_OPER_VLS_F);
    p->is_sm = (field(info, IB_PORT_CAPMASK_F) & CAP_IS_SM) != 0;
}

static enum subnet_node_type node_type(int type)
{
    return type == IB_NODE_SWITCH   ? SUBNET_SWITCH
           : type == IB_NODE_CA     ? SUBNET_CA
           : type == IB_NODE_ROUTER ? SUBNET_ROUTER
                                    : SUBNET_OTHER;
}

/* The capability mask of a switch stands in port 0 alone. */
static bool extended_speeds(const ibnd_node_t *n, const ibnd_port_t *p)
{
    const ibnd_port_t *from = n->type == IB_NODE_SWITCH ? n->ports[0] : p;
    return from && (field(from->info, IB_PORT_CAPMASK_F) & CAP_EXTENDED_SPEEDS);
}

static void read_node(struct subnet *s, const ibnd_node_t *n)
{
    char description[IB_SMP_DATA_SIZE + 1];
    snprintf(description, sizeof description, "%s", n->nodedesc);
    size_t len = strlen(description);
    while (len > 0 && description[len - 1] == ' ')
        description[--len] = '\0';
    unsigned ports = n->numports > 0 ? (unsigned)n->numports : 0;
    int at = subnet_add(s, node_type(n->type), n->guid, description, ports);
    struct subnet_node *node = &s->nodes[at];
    node->lid = n->type == IB_NODE_SWITCH ? n->smalid : 0;
    node->system_guid = mad_get_field64((void *)(uintptr_t)n->info, 0, IB_NODE_SYSTEM_GUID_F);
    node->vendor_id = field(n->info, IB_NODE_VENDORID_F);
    node->device_id = field(n->info, IB_NODE_DEVID_F);
    for (unsigned p = 0; p <= ports; p++)
        if (n->ports[p])
            read_port(n->ports[p], extended_speeds(n, n->ports[p]), &node->ports[p]);
}

/* GUID of a node in ascending order, for the second pass. */
struct index_row {
    uint64_t guid;
    int node;
};

static int by_guid(const void *a, const void *b)
{
    uint64_t x = ((const struct index_row *)a)->guid, y = ((const struct index_row *)b)->guid;
    return (x > y) - (x < y);
}

static int index_find(const struct index_row *rows, size_t count, uint64_t guid)
{
    const struct index_row key = {guid, 0};
    const struct index_row *row = bsearch(&key, rows, count, sizeof *rows, by_guid);
    return row ? row->node : SUBNET_NO_NODE;
}

/* from[i] became s->nodes[i]. */
static void read_links(struct subnet *s, const ibnd_fabric_t *f, ibnd_node_t *const from[])
{
    struct index_row *rows = mem_zero(s->count + 1, sizeof *rows);
    for (size_t i = 0; i < s->count; i++)
        rows[i] = (struct index_row){s->nodes[i].guid, (int)i};
    qsort(rows, s->count, sizeof *rows, by_guid);
    for (size_t at = 0; at < s->count; at++)
        for (int p = 0; p <= from[at]->numports; p++) {
            const ibnd_port_t *port = from[at]->ports[p];
            if (!port || !port->remoteport)
                continue;
            int peer = index_find(rows, s->count, port->remoteport->node->guid);
            int number = port->remoteport->portnum;
            if (peer < 0 || number < 0 || (unsigned)number > s->nodes[peer].port_count)
                continue;
            s->nodes[at].ports[p].peer_node = peer;
            s->nodes[at].ports[p].peer_port = (unsigned)number;
        }
    s->local_node = index_find(rows, s->count, f->from_node->guid);
    s->local_port = (unsigned)f->from_portnum;
    free(rows);
}

static void unanswered(struct subnet *s, char *text)
{
    jsonx_append_str(s->unanswered, text);
    free(text);
}

/* The library drops what does not answer without a word: a port without PortInfo, and a trained
 * link without a far end, are the traces. */
static void find_gaps(struct subnet *s)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct subnet_node *n = &s->nodes[i];
        for (unsigned p = n->type == SUBNET_SWITCH ? 0 : 1; p <= n->port_count; p++) {
            const struct subnet_port *port = &n->ports[p];
            if (!port->present && n->type == SUBNET_SWITCH)
                unanswered(s, str_printf("%s port %u did not answer for PortInfo", n->name, p));
            if (port->present && p > 0 && port->phys == SUBNET_PHYS_LINK_UP && port->peer_node < 0)
                unanswered(s, str_printf("what is at the other end of %s port %u does not answer, "
                                         "though the link is up",
                                         n->name, p));
        }
    }
}

static void read_sm(struct subnet *s, ib_portid_t *to, int node, unsigned port, unsigned lid,
                    const struct ibmad_port *mads)
{
    uint8_t data[IB_SMP_DATA_SIZE] = {0};
    s->sms = mem_grow(s->sms, s->sm_count + 1, sizeof *s->sms);
    struct subnet_sm *sm = &s->sms[s->sm_count++];
    *sm = (struct subnet_sm){.node = node, .port = port, .lid = lid};
    if (!smp_query_via(data, to, IB_ATTR_SMINFO, 0, 0, mads)) {
        unanswered(s, str_printf("the subnet manager at %s port %u (LID %u) did not answer",
                                 node >= 0 ? s->nodes[node].name : "an unknown node", port, lid));
        return;
    }
    sm->answered = true;
    sm->guid = mad_get_field64(data, 0, IB_SMINFO_GUID_F);
    sm->priority = field(data, IB_SMINFO_PRIO_F);
    sm->state = (enum subnet_sm_state)field(data, IB_SMINFO_STATE_F);
    sm->activity = field(data, IB_SMINFO_ACT_F);
}

/* Every port that says it runs a subnet manager, and whatever has the LID that the local port was
 * told: a manager in a switch, or one that forgot to raise the flag. */
static void read_sms(struct subnet *s, ibnd_node_t *const from[], const struct ibmad_port *mads)
{
    bool local_seen = s->local_sm_lid == 0;
    for (size_t i = 0; i < s->count; i++)
        for (unsigned p = 0; p <= s->nodes[i].port_count; p++) {
            const struct subnet_port *port = &s->nodes[i].ports[p];
            unsigned lid = s->nodes[i].type == SUBNET_SWITCH ? s->nodes[i].lid : port->lid;
            if (!port->present || (s->nodes[i].type == SUBNET_SWITCH && p > 0))
                continue;
            bool is_local = lid > 0 && lid == s->local_sm_lid;
            if (!port->is_sm && !is_local)
                continue;
            local_seen |= is_local;
            ib_portid_t to = from[i]->path_portid;
            read_sm(s, &to, (int)i, p, lid, mads);
            if (!port->is_sm && !s->sms[s->sm_count - 1].answered) {
                /* A stale LID of a manager that is gone; no port claims to run one. */
                s->sm_count--;
                json_array_remove(s->unanswered, json_array_size(s->unanswered) - 1);
            }
        }
    if (!local_seen)
        s->local_sm_lid = 0;
}

static int open_port(const struct discover_options *o, struct ibmad_port **port, struct err *err)
{
    int classes[] = {IB_SMI_CLASS, IB_SMI_DIRECT_CLASS, IB_PERFORMANCE_CLASS};
    AUTO(free_str) char *device = o->device ? str_dup(o->device) : NULL;
    struct ibmad_port *opened = mad_rpc_open_port(device, o->port, classes, ARRAY_LEN(classes));
    if (!opened)
        return err_set(err, ERR_ENV,
                       "no InfiniBand port could be opened for management (%s): load ib_umad, run "
                       "as root, and see `ibstat` for a port that is up",
                       o->device ? o->device : "any device");
    mad_rpc_set_timeout(opened, o->timeout_ms ? (int)o->timeout_ms : DEFAULT_TIMEOUT_MS);
    mad_rpc_set_retries(opened, o->retries ? (int)o->retries : DEFAULT_RETRIES);
    *port = opened;
    return 0;
}

void discover_close(struct ibmad_port *mads)
{
    if (mads)
        mad_rpc_close_port(mads);
}

static unsigned local_sm_lid(const struct discover_options *o)
{
    umad_port_t port;
    if (umad_get_port(o->device, o->port, &port) != 0)
        return 0;
    unsigned lid = port.sm_lid;
    umad_release_port(&port);
    return lid;
}

/* Hosts before switches, then by description: the same subnet reads the same each time. */
static int by_place(const void *a, const void *b)
{
    const ibnd_node_t *x = *(ibnd_node_t *const *)a, *y = *(ibnd_node_t *const *)b;
    if ((x->type == IB_NODE_SWITCH) != (y->type == IB_NODE_SWITCH))
        return x->type == IB_NODE_SWITCH ? 1 : -1;
    int order = strverscmp(x->nodedesc, y->nodedesc);
    return order ? order : (x->guid > y->guid) - (x->guid < y->guid);
}

static void read_all(struct subnet *s, const struct discover_options *o, ibnd_fabric_t *f,
                     const struct ibmad_port *mads)
{
    size_t count = 0, i = 0;
    for (const ibnd_node_t *n = f->nodes; n; n = n->next)
        count++;
    ibnd_node_t **from = mem_zero(count + 1, sizeof(void *));
    for (ibnd_node_t *n = f->nodes; n; n = n->next)
        from[i++] = n;
    qsort(from, count, sizeof(void *), by_place);
    for (i = 0; i < count; i++)
        read_node(s, from[i]);
    subnet_name(s);
    read_links(s, f, from);
    find_gaps(s);
    s->local_sm_lid = local_sm_lid(o);
    read_sms(s, from, mads);
    free(from);
}

int discover_subnet(const struct discover_options *o, struct subnet *s, struct ibmad_port **mads,
                    struct err *err)
{
    struct ibnd_config config = {
        .max_smps = o->parallel ? o->parallel : DEFAULT_PARALLEL,
        .timeout_ms = o->timeout_ms ? o->timeout_ms : DEFAULT_TIMEOUT_MS,
        .retries = o->retries ? o->retries : DEFAULT_RETRIES,
    };
    *mads = NULL;
    subnet_init(s);
    AUTO(free_str) char *device = o->device ? str_dup(o->device) : NULL;
    ibnd_fabric_t *f = ibnd_discover_fabric(device, o->port, NULL, &config);
    if (!f)
        return err_set(err, ERR_ENV,
                       "the subnet could not be read from %s: load ib_umad, run as root, and see "
                       "`ibstat` for a port that is up",
                       o->device ? o->device : "the first InfiniBand port that is up");
    /* Only now: the simulator gives a management class to one open port of a process. */
    int status = open_port(o, mads, err);
    if (status == 0)
        read_all(s, o, f, *mads);
    ibnd_destroy_fabric(f);
    return status;
}
