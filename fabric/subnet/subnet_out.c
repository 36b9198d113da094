/* The subnet as JSON and as tables. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/tty.h"
#include "common/units.h"
#include "common/util.h"
#include "fabric/subnet/subnet.h"

static void set_hex(json_t *obj, const char *key, uint64_t value)
{
    AUTO(free_str) char *text = str_printf("0x%016" PRIx64, value);
    jsonx_set_str(obj, key, text);
}

static json_t *width_list(unsigned mask)
{
    json_t *list = json_array();
    for (unsigned bit = 1; bit <= 16; bit <<= 1)
        if (mask & bit) {
            AUTO(free_str) char *text = str_printf("%ux", rate_lanes(bit));
            jsonx_append_str(list, text);
        }
    return list;
}

static json_t *speed_list(unsigned set)
{
    json_t *list = json_array();
    for (int s = 1; s < RATE_SPEED__COUNT; s++)
        if (set & (1u << s))
            jsonx_append_str(list, rate_speed_at((enum rate_speed)s)->name);
    return list;
}

static const char *speed_name(enum rate_speed speed)
{
    const struct rate_speed_row *row = rate_speed_at(speed);
    return row ? row->name : NULL;
}

static json_t *ability(json_t *widths, json_t *speeds)
{
    json_t *o = json_object();
    jsonx_set(o, "width", widths);
    jsonx_set(o, "speed", speeds);
    return o;
}

static json_t *end_json(const struct subnet *s, int node, unsigned number)
{
    const struct subnet_port *p = &s->nodes[node].ports[number];
    json_t *o = json_object();
    jsonx_set_str(o, "node", s->nodes[node].name);
    set_hex(o, "guid", s->nodes[node].guid);
    jsonx_set_int(o, "port", number);
    jsonx_set_int(o, "lid", s->nodes[node].type == SUBNET_SWITCH ? s->nodes[node].lid : p->lid);
    jsonx_set_str(o, "state", subnet_state_name(p->state));
    jsonx_set_str(o, "phys_state", subnet_phys_name(p->phys));
    jsonx_set(o, "enabled", ability(width_list(p->width_enabled), speed_list(p->speed_enabled)));
    jsonx_set(o, "supported",
              ability(width_list(p->width_supported), speed_list(p->speed_supported)));
    jsonx_set_int(o, "mtu_cap", rate_mtu_bytes(p->mtu_cap));
    return o;
}

static void link_json(const struct subnet *s, int node, unsigned number, void *ctx)
{
    const struct subnet_port *p = &s->nodes[node].ports[number];
    unsigned lanes;
    enum rate_speed speed;
    subnet_link_able(s, node, number, &lanes, &speed);
    json_t *o = json_object();
    AUTO(free_str) char *width = str_printf("%ux", p->width_active);
    AUTO(free_str) char *able = str_printf("%ux", lanes);
    jsonx_set(o, "a", end_json(s, node, number));
    jsonx_set(o, "b", end_json(s, p->peer_node, p->peer_port));
    jsonx_set_str(o, "state", subnet_state_name(p->state));
    jsonx_set_str(o, "width", width);
    jsonx_set_str(o, "speed", speed_name(p->speed_active));
    jsonx_set_int(o, "rate_bps", rate_bps(p->width_active, p->speed_active));
    jsonx_set_str(o, "able_width", able);
    jsonx_set_str(o, "able_speed", speed_name(speed));
    jsonx_set_int(o, "mtu", rate_mtu_bytes(p->mtu));
    jsonx_set_bool(o, "degraded", p->width_active < lanes || p->speed_active < speed);
    jsonx_append(ctx, o);
}

static json_t *node_json(const struct subnet_node *n)
{
    json_t *o = json_object();
    unsigned up = 0;
    for (unsigned p = 0; p <= n->port_count; p++)
        up += n->ports[p].peer_node >= 0;
    jsonx_set_str(o, "name", n->name);
    jsonx_set_str(o, "description", n->description);
    jsonx_set_str(o, "id", n->id);
    jsonx_set_str(o, "type", subnet_type_name(n->type));
    set_hex(o, "guid", n->guid);
    set_hex(o, "system_guid", n->system_guid);
    jsonx_set_int(o, "vendor_id", n->vendor_id);
    jsonx_set_int(o, "device_id", n->device_id);
    jsonx_set_int(o, "lid", n->lid);
    jsonx_set_int(o, "ports", n->port_count);
    jsonx_set_int(o, "links", up);
    return o;
}

static json_t *sm_json(const struct subnet *s, const struct subnet_sm *sm)
{
    json_t *o = json_object();
    jsonx_set_str(o, "node", sm->node >= 0 ? s->nodes[sm->node].name : NULL);
    jsonx_set_int(o, "port", sm->port);
    jsonx_set_int(o, "lid", sm->lid);
    jsonx_set_bool(o, "answered", sm->answered);
    jsonx_set(o, "state",
              sm->answered ? json_string(subnet_sm_state_name(sm->state)) : json_null());
    jsonx_set(o, "priority", sm->answered ? json_integer(sm->priority) : json_null());
    set_hex(o, "guid", sm->guid);
    return o;
}

json_t *subnet_to_json(const struct subnet *s)
{
    json_t *root = json_object();
    json_t *nodes = json_array(), *links = json_array(), *sms = json_array();
    for (size_t i = 0; i < s->count; i++)
        jsonx_append(nodes, node_json(&s->nodes[i]));
    subnet_each_link(s, link_json, links);
    for (size_t i = 0; i < s->sm_count; i++)
        jsonx_append(sms, sm_json(s, &s->sms[i]));
    jsonx_set_int(root, "v", 1);
    jsonx_set_bool(root, "complete", json_array_size(s->unanswered) == 0);
    jsonx_set(root, "nodes", nodes);
    jsonx_set(root, "links", links);
    jsonx_set(root, "sms", sms);
    jsonx_set(root, "unanswered", json_deep_copy(s->unanswered));
    return root;
}

static void link_row(const struct subnet *s, int node, unsigned number, void *ctx)
{
    const struct subnet_port *p = &s->nodes[node].ports[number];
    unsigned lanes;
    enum rate_speed speed;
    subnet_link_able(s, node, number, &lanes, &speed);
    bool slow = p->width_active < lanes || p->speed_active < speed;
    AUTO(free_str) char *link = subnet_link_text(s, node, number);
    const char *is = speed_name(p->speed_active), *could = speed_name(speed);
    AUTO(free_str) char *rate = str_printf("%ux%s", p->width_active, is ? is : "?");
    AUTO(free_str) char *able = str_printf("%ux%s", lanes, could ? could : "?");
    AUTO(free_str) char *mtu = str_printf("%lld", (long long)rate_mtu_bytes(p->mtu));
    tty_table_row(ctx,
                  p->state != SUBNET_ACTIVE ? TTY_RED
                  : slow                    ? TTY_YELLOW
                                            : TTY_PLAIN,
                  (const char *const[]){link, subnet_state_name(p->state), rate, able, mtu});
}

static void print_sms(const struct subnet *s, FILE *out)
{
    if (s->sm_count == 0) {
        fputs("\nno subnet manager\n", out);
        return;
    }
    fputs("\n", out);
    struct tty_table *t =
        tty_table_create((const char *const[]){"SUBNET MANAGER AT", "LID", "STATE", "PRIORITY"}, 4);
    for (size_t i = 0; i < s->sm_count; i++) {
        const struct subnet_sm *sm = &s->sms[i];
        AUTO(free_str)
        char *at =
            sm->node >= 0 ? subnet_port_text(s, sm->node, sm->port) : str_dup("unknown node");
        AUTO(free_str) char *lid = str_printf("%u", sm->lid);
        AUTO(free_str) char *priority = str_printf("%u", sm->priority);
        tty_table_row(t, sm->answered ? TTY_PLAIN : TTY_RED,
                      (const char *const[]){at, lid,
                                            sm->answered ? subnet_sm_state_name(sm->state)
                                                         : "does not answer",
                                            sm->answered ? priority : "-"});
    }
    tty_table_print(t, out);
    tty_table_destroy(t);
}

void subnet_print(const struct subnet *s, FILE *out)
{
    size_t switches = 0, i;
    json_t *text;
    for (i = 0; i < s->count; i++)
        switches += s->nodes[i].type == SUBNET_SWITCH;
    struct tty_table *t =
        tty_table_create((const char *const[]){"LINK", "STATE", "RATE", "ABLE", "MTU"}, 5);
    subnet_each_link(s, link_row, t);
    tty_table_print(t, out);
    tty_table_destroy(t);
    print_sms(s, out);
    fprintf(out, "\n%zu nodes, %zu of them switches\n", s->count, switches);
    json_array_foreach(s->unanswered, i, text)
        fprintf(out, "INCOMPLETE: %s\n", json_string_value(text));
}
