#include "fabric/subnet/subnet.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/units.h"
#include "common/util.h"

static const char *const type_names[] = {"other", "host", "switch", "router"};
static const char *const state_names[] = {"unset", "Down", "Initializing", "Armed", "Active"};
static const char *const phys_names[] = {"unset",
                                         "Sleep",
                                         "Polling",
                                         "Disabled",
                                         "PortConfigurationTraining",
                                         "LinkUp",
                                         "LinkErrorRecovery",
                                         "PhyTest"};
static const char *const sm_names[] = {"NOT-ACTIVE", "DISCOVERING", "STANDBY", "MASTER"};

static const char *name_at(const char *const names[], size_t count, unsigned at)
{
    return at < count ? names[at] : "unknown";
}

const char *subnet_type_name(enum subnet_node_type type)
{
    return name_at(type_names, ARRAY_LEN(type_names), type);
}

const char *subnet_state_name(enum subnet_port_state state)
{
    return name_at(state_names, ARRAY_LEN(state_names), state);
}

const char *subnet_phys_name(unsigned phys)
{
    return name_at(phys_names, ARRAY_LEN(phys_names), phys);
}

const char *subnet_sm_state_name(enum subnet_sm_state state)
{
    return name_at(sm_names, ARRAY_LEN(sm_names), state);
}

void subnet_init(struct subnet *s)
{
    *s = (struct subnet){.local_node = SUBNET_NO_NODE, .unanswered = json_array()};
}

void subnet_release(struct subnet *s)
{
    for (size_t i = 0; i < s->count; i++) {
        free(s->nodes[i].name);
        free(s->nodes[i].description);
        free(s->nodes[i].ports);
    }
    free(s->nodes);
    free(s->sms);
    json_decref(s->unanswered);
    *s = (struct subnet){0};
}

int subnet_add(struct subnet *s, enum subnet_node_type type, uint64_t guid, const char *description,
               unsigned port_count)
{
    if ((s->count & (s->count - 1)) == 0)
        s->nodes = mem_grow(s->nodes, s->count ? s->count * 2 : 1, sizeof *s->nodes);
    struct subnet_node *n = &s->nodes[s->count];
    *n = (struct subnet_node){.guid = guid, .type = type, .port_count = port_count};
    snprintf(n->id, sizeof n->id, "%c-%016" PRIx64, type == SUBNET_SWITCH ? 'S' : 'H', guid);
    n->description = str_dup(description);
    n->name = str_dup(*description ? description : n->id);
    n->ports = mem_zero(port_count + 1, sizeof *n->ports);
    for (unsigned p = 0; p <= port_count; p++)
        n->ports[p].peer_node = SUBNET_NO_NODE;
    return (int)s->count++;
}

struct named {
    const char *description;
    int node;
};

static int by_description(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->description, ((const struct named *)b)->description);
}

void subnet_name(struct subnet *s)
{
    struct named *all = mem_zero(s->count + 1, sizeof *all);
    for (size_t i = 0; i < s->count; i++)
        all[i] = (struct named){s->nodes[i].description, (int)i};
    qsort(all, s->count, sizeof *all, by_description);
    for (size_t i = 0; i < s->count; i++) {
        bool shared = (i > 0 && by_description(&all[i - 1], &all[i]) == 0) ||
                      (i + 1 < s->count && by_description(&all[i], &all[i + 1]) == 0);
        struct subnet_node *n = &s->nodes[all[i].node];
        free(n->name);
        n->name = str_dup(shared || !*n->description ? n->id : n->description);
    }
    free(all);
}

static bool has_first_word(const char *description, const char *word)
{
    size_t len = strlen(word);
    return strncmp(description, word, len) == 0 && description[len] == ' ';
}

int subnet_find(const struct subnet *s, const char *name, bool *ambiguous)
{
    int found = SUBNET_NO_NODE, by_word = SUBNET_NO_NODE;
    size_t described = 0, worded = 0;
    *ambiguous = false;
    bool is_guid = str_has_prefix(name, "0x");
    uint64_t guid = is_guid ? strtoull(name, NULL, 16) : 0;
    for (size_t i = 0; i < s->count; i++) {
        const struct subnet_node *n = &s->nodes[i];
        if (strcmp(n->id, name) == 0 || (is_guid && n->guid == guid))
            return (int)i;
        if (strcmp(n->description, name) == 0) {
            found = (int)i;
            described++;
        }
        if (has_first_word(n->description, name)) {
            by_word = (int)i;
            worded++;
        }
    }
    *ambiguous = described > 1 || (described == 0 && worded > 1);
    if (*ambiguous)
        return SUBNET_NO_NODE;
    return described ? found : by_word;
}

char *subnet_port_text(const struct subnet *s, int node, unsigned port)
{
    return str_printf("%s port %u", s->nodes[node].name, port);
}

char *subnet_link_text(const struct subnet *s, int node, unsigned port)
{
    const struct subnet_port *p = &s->nodes[node].ports[port];
    if (p->peer_node < 0)
        return subnet_port_text(s, node, port);
    if (p->peer_node < node || (p->peer_node == node && p->peer_port < port))
        return subnet_link_text(s, p->peer_node, p->peer_port);
    return str_printf("%s port %u <-> %s port %u", s->nodes[node].name, port,
                      s->nodes[p->peer_node].name, p->peer_port);
}

void subnet_each_link(const struct subnet *s,
                      void (*fn)(const struct subnet *s, int node, unsigned port, void *ctx),
                      void *ctx)
{
    for (size_t i = 0; i < s->count; i++)
        for (unsigned p = 0; p <= s->nodes[i].port_count; p++) {
            const struct subnet_port *port = &s->nodes[i].ports[p];
            if (port->peer_node < 0)
                continue;
            if ((size_t)port->peer_node > i ||
                ((size_t)port->peer_node == i && port->peer_port > p))
                fn(s, (int)i, p, ctx);
        }
}

void subnet_link_able(const struct subnet *s, int node, unsigned port, unsigned *lanes,
                      enum rate_speed *speed)
{
    const struct subnet_port *a = &s->nodes[node].ports[port];
    const struct subnet_port *b = &s->nodes[a->peer_node].ports[a->peer_port];
    bool ganged = false;
    for (size_t i = 0; i < s->count && !ganged; i++)
        for (unsigned p = 0; p <= s->nodes[i].port_count; p++)
            ganged |= s->nodes[i].ports[p].width_active > 4;
    *lanes = rate_lanes_most(a->width_supported & b->width_supported, ganged);
    *speed = rate_speed_most(a->speed_supported & b->speed_supported);
}

void subnet_finding(json_t *findings, const char *cause, const char *subject, const char *fmt, ...)
{
    va_list args;
    char *text = NULL;
    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0)
        abort();
    va_end(args);
    json_t *f = json_object();
    jsonx_set_str(f, "cause", cause);
    jsonx_set_str(f, "subject", subject);
    jsonx_set_str(f, "text", text);
    jsonx_append(findings, f);
    free(text);
}
