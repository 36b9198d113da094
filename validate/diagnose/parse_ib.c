/* Ports as ibstat, ibv_devinfo, ibstatus and rdma(8) show them, and tables of show_gids. */
#include "validate/diagnose/diag.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/util.h"

enum { PORTS_MAX = 4096, MTUS_MAX = 64 };

struct port {
    char host[LINES_HOST_BYTES], device[48], type[24], number[8];
    char state[24], phys[24], phys_text[24], layer[16], sm_lid[12], speed_name[24];
    double rate;
    struct diag_where state_at, rate_at, phys_at;
};

struct mtu {
    char host[LINES_HOST_BYTES], device[48], value[12];
    bool ethernet; /* of the network interface, not of the RDMA port */
    struct diag_where at;
};

struct ib {
    struct port *ports;
    size_t count, mtu_count;
    struct mtu mtus[MTUS_MAX];
    char host[LINES_HOST_BYTES], device[48], type[24];
    bool inside; /* the last port is still open */
    double expected;
    struct diag_where expected_at;
};

/* InfiniBand HCAs by the device number that ibstat prints as MT<n>, and the rate of a 4x port in
 * Gb/s; Ethernet-only cards come in too many speeds to tell. */
static const struct {
    const char *type, *name;
    double rate;
    const char *speed;
} families[] = {
    {"MT4099", "ConnectX-3", 56, "FDR"},  {"MT4103", "ConnectX-3 Pro", 56, "FDR"},
    {"MT4113", "Connect-IB", 56, "FDR"},  {"MT4115", "ConnectX-4", 100, "EDR"},
    {"MT4119", "ConnectX-5", 100, "EDR"}, {"MT4121", "ConnectX-5 Ex", 100, "EDR"},
    {"MT4123", "ConnectX-6", 200, "HDR"}, {"MT41686", "BlueField-2", 200, "HDR"},
    {"MT4129", "ConnectX-7", 400, "NDR"}, {"MT41692", "BlueField-3", 400, "NDR"},
    {"MT4131", "ConnectX-8", 800, "XDR"},
};

static void *create(void)
{
    return mem_zero(1, sizeof(struct ib));
}

static void release(void *state)
{
    struct ib *s = state;
    for (size_t i = 0; i < s->count; i++) {
        diag_where_release(&s->ports[i].state_at);
        diag_where_release(&s->ports[i].rate_at);
        diag_where_release(&s->ports[i].phys_at);
    }
    for (size_t i = 0; i < s->mtu_count; i++)
        diag_where_release(&s->mtus[i].at);
    diag_where_release(&s->expected_at);
    free(s->ports);
    free(s);
}

static struct port *open_port(struct ib *s, const struct diag_line *line, const char *number)
{
    if (s->count == PORTS_MAX)
        return NULL;
    s->ports = mem_grow(s->ports, s->count + 1, sizeof *s->ports);
    struct port *p = &s->ports[s->count++];
    *p = (struct port){.rate = 0};
    snprintf(p->host, sizeof p->host, "%s", line->host);
    snprintf(p->device, sizeof p->device, "%s", s->device);
    snprintf(p->type, sizeof p->type, "%s", s->type);
    snprintf(p->number, sizeof p->number, "%s", number);
    s->inside = true;
    return p;
}

/* The value behind "key:" when the trimmed line begins with it; else NULL. */
static const char *value_of(const char *body, const char *key)
{
    body += strspn(body, " \t");
    size_t len = strlen(key);
    if (strncasecmp(body, key, len) != 0 || body[len] != ':')
        return NULL;
    return body + len + 1 + strspn(body + len + 1, " \t");
}

static void copy_word(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%.*s", (int)strcspn(text, " \t\r'"), text);
}

static bool take_device(struct ib *s, const struct diag_line *line)
{
    struct match_result r;
    const char *b = line->body;
    char device[48] = "", port[8];
    if ((strncmp(b, "CA '", 4) == 0 && match_text("^CA '{dev}'", b, &r)) ||
        (strncmp(b, "hca_id", 6) == 0 && match_text("^hca_id:~{dev}", b, &r)))
        ;
    else if (strncmp(b, "Infiniband device '", 19) == 0 &&
             match_text("^Infiniband device '{dev}' port {port#} status", b, &r))
        ;
    else
        return false;
    match_get(&r, "dev", device, sizeof device);
    snprintf(s->device, sizeof s->device, "%s", device);
    s->type[0] = '\0';
    s->inside = false;
    if (match_get(&r, "port", port, sizeof port))
        open_port(s, line, port);
    return true;
}

/* "state: 4: ACTIVE", "state: PORT_ACTIVE (4)" and "State: Active" all become "active". */
static void take_state(char *out, size_t size, const char *text)
{
    const char *p = text;
    if (isdigit((unsigned char)*p) && strchr(p, ':'))
        p = strchr(p, ':') + 1 + strspn(strchr(p, ':') + 1, " ");
    if (strncmp(p, "PORT_", 5) == 0)
        p += 5;
    size_t n = 0;
    for (; *p && !isspace((unsigned char)*p) && n + 1 < size; p++)
        if (*p != '_')
            out[n++] = (char)tolower((unsigned char)*p);
    out[n] = '\0';
}

static void take_mtu(struct ib *s, const struct diag_line *line, const char *device,
                     const char *value, bool ethernet)
{
    if (s->mtu_count == MTUS_MAX)
        return;
    struct mtu *m = &s->mtus[s->mtu_count++];
    snprintf(m->host, sizeof m->host, "%s", line->host);
    snprintf(m->device, sizeof m->device, "%s", device);
    m->ethernet = ethernet;
    copy_word(m->value, sizeof m->value, value);
    m->at = diag_where_copy(line);
}

/* "2: ens1f0: <BROADCAST,...> mtu 9000 qdisc ..." of ip(8). */
static void take_interface(struct ib *s, const struct diag_line *line)
{
    struct match_result r;
    char device[48], value[12];
    if (!strstr(line->body, " mtu ") ||
        !match_text("^{n#}: {device}: <*> mtu {mtu#} ", line->body, &r))
        return;
    match_get(&r, "device", device, sizeof device);
    match_get(&r, "mtu", value, sizeof value);
    take_mtu(s, line, device, value, true);
}

static void take_field(struct ib *s, struct port *p, const struct diag_line *line)
{
    const char *v;
    if ((v = value_of(line->body, "State")) != NULL) {
        take_state(p->state, sizeof p->state, v);
        diag_where_release(&p->state_at);
        p->state_at = diag_where_copy(line);
    } else if ((v = value_of(line->body, "Physical state")) != NULL ||
               (v = value_of(line->body, "phys_state")) != NULL ||
               (v = value_of(line->body, "phys state")) != NULL) {
        take_state(p->phys, sizeof p->phys, v);
        copy_word(p->phys_text, sizeof p->phys_text,
                  isdigit((unsigned char)*v) && v[1] == ':' ? v + 2 + strspn(v + 2, " ") : v);
        diag_where_release(&p->phys_at);
        p->phys_at = diag_where_copy(line);
    } else if ((v = value_of(line->body, "Rate")) != NULL) {
        p->rate = diag_number(v, 0);
        const char *name = strchr(v, '(');
        if (name)
            snprintf(p->speed_name, sizeof p->speed_name, "%.*s", (int)strcspn(name + 1, ")"),
                     name + 1);
        diag_where_release(&p->rate_at);
        p->rate_at = diag_where_copy(line);
    } else if ((v = value_of(line->body, "SM lid")) != NULL ||
               (v = value_of(line->body, "sm_lid")) != NULL) {
        copy_word(p->sm_lid, sizeof p->sm_lid, v);
    } else if ((v = value_of(line->body, "Link layer")) != NULL ||
               (v = value_of(line->body, "link_layer")) != NULL) {
        copy_word(p->layer, sizeof p->layer, v);
    } else if ((v = value_of(line->body, "active_width")) != NULL) {
        p->rate = diag_number(v, 4);
        copy_word(p->speed_name, sizeof p->speed_name, v);
    } else if ((v = value_of(line->body, "active_speed")) != NULL) {
        p->rate = (p->rate > 0 ? p->rate : 4) * diag_number(v, 0);
        diag_where_release(&p->rate_at);
        p->rate_at = diag_where_copy(line);
    }
}

/* A rate that somebody wrote down: "expected_ib_rate = 200", "expected rate: 400Gb/s". */
static void take_expected(struct ib *s, const struct diag_line *line)
{
    const char *at = strcasestr(line->text, "expect");
    if (!at || s->expected > 0 || !(strcasestr(at, "rate") || strcasestr(at, "Gb")))
        return;
    double value = diag_number(at, 0);
    if (value >= 10 && value <= 3200) {
        s->expected = value;
        s->expected_at = diag_where_copy(line);
    }
}

static void take_gid_row(struct diag *d, const struct diag_line *line)
{
    struct match_result r;
    const char *b = line->body;
    if (!isalpha((unsigned char)b[0]) ||
        !match_text("^{dev} {port#} {index#} {gid}:{rest} ", b, &r))
        return;
    char dev[48], index[8], gid[64], rest[64], ip[48] = "";
    match_get(&r, "dev", dev, sizeof dev);
    match_get(&r, "index", index, sizeof index);
    match_get(&r, "gid", gid, sizeof gid);
    match_get(&r, "rest", rest, sizeof rest);
    const char *v2 = strstr(b, "v2"), *v1 = strstr(b, "v1");
    if (match_text(" {a#}.{b} ", b, &r)) {
        char a[16], c[32];
        match_get(&r, "a", a, sizeof a);
        match_get(&r, "b", c, sizeof c);
        snprintf(ip, sizeof ip, "%s.%s", a, c);
    }
    bool local = strncmp(gid, "fe80", 4) == 0;
    if (v2 && ip[0])
        diag_find(d, DIAG_gid_v2_ipv4, line, "dev", dev, "index", index, "ip", ip, NULL);
    else if (v1 || local)
        diag_find(d, DIAG_gid_row_unroutable, line, "dev", dev, "index", index, "gid", gid, NULL);
}

static void feed(void *state, struct diag *d, const struct diag_line *line)
{
    struct ib *s = state;
    const char *v;
    take_expected(s, line);
    if (line->command) {
        s->inside = false;
        s->device[0] = '\0';
        return;
    }
    if (strcmp(line->host, s->host) != 0) {
        snprintf(s->host, sizeof s->host, "%s", line->host);
        s->inside = false;
    }
    if (take_device(s, line))
        return;
    if ((v = value_of(line->body, "active_mtu")) != NULL)
        take_mtu(s, line, s->inside ? s->device : "", v, false);
    take_interface(s, line);
    if (strstr(line->body, "v1") || strstr(line->body, "v2"))
        take_gid_row(d, line);
    if (!s->device[0])
        return;
    if (((v = value_of(line->body, "CA type")) != NULL && !s->inside) ||
        ((v = value_of(line->body, "vendor_part_id")) != NULL && isdigit((unsigned char)*v))) {
        if (isdigit((unsigned char)*v))
            snprintf(s->type, sizeof s->type, "MT%.*s", (int)strcspn(v, " \t"), v);
        else
            copy_word(s->type, sizeof s->type, v);
        return;
    }
    struct match_result r;
    char number[8];
    if ((match_text("^~Port {n#}:$", line->body, &r) ||
         match_text("^~port:~{n#}$", line->body, &r)) &&
        match_get(&r, "n", number, sizeof number)) {
        open_port(s, line, number);
        return;
    }
    if (s->inside && s->count)
        take_field(s, &s->ports[s->count - 1], line);
}

/* others: another port works, so that an Ethernet port without a link may just be a spare one. */
static void judge_state(const struct port *p, bool others, struct diag *d)
{
    enum diag_id id = DIAG_ID__COUNT;
    bool ethernet = strcasecmp(p->layer, "Ethernet") == 0;
    if (strncmp(p->state, "act", 3) == 0)
        id = DIAG_port_active;
    else if (strncmp(p->state, "init", 4) == 0 || strncmp(p->state, "armed", 5) == 0)
        id = ethernet ? DIAG_port_down : DIAG_port_no_sm;
    else if (strncmp(p->phys, "disabled", 8) == 0)
        id = ethernet && others ? DIAG_port_unused : DIAG_port_disabled;
    else if (strncmp(p->state, "down", 4) == 0)
        id = ethernet && others ? DIAG_port_unused : DIAG_port_down;
    if (id == DIAG_ID__COUNT)
        return;
    char rate[16];
    snprintf(rate, sizeof rate, "%g", p->rate);
    diag_find_where(d, id, &p->state_at, "device", p->device, "port", p->number, "state", p->state,
                    "phys", p->phys, "layer", p->layer, "rate", p->rate > 0 ? rate : NULL, "sm_lid",
                    p->sm_lid, NULL);
    if (id != DIAG_port_active && id != DIAG_port_unused)
        diag_find_where(d, DIAG_port_phys, &p->phys_at, "device", p->device, "phys", p->phys_text,
                        NULL);
}

static bool is_infiniband(const struct port *p)
{
    return strcasecmp(p->layer, "InfiniBand") == 0;
}

/* What the other ports of the same kind have.  ibstatus does not tell the kind: there two thirds of
 * the InfiniBand ports must agree. */
static double best_of_type(const struct ib *s, const char *type)
{
    double best = 0;
    size_t same = 0, all = 0;
    for (size_t i = 0; i < s->count; i++)
        if (s->ports[i].rate > best && is_infiniband(&s->ports[i]))
            best = s->ports[i].rate;
    for (size_t i = 0; i < s->count; i++) {
        all += is_infiniband(&s->ports[i]);
        same += s->ports[i].rate >= best && is_infiniband(&s->ports[i]);
    }
    if (!type[0])
        return all >= 3 && same * 3 >= all * 2 ? best : 0;
    best = 0;
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->ports[i].type, type) == 0 && s->ports[i].rate > best &&
            strncmp(s->ports[i].state, "act", 3) == 0)
            best = s->ports[i].rate;
    return best;
}

static void judge_rate(const struct ib *s, const struct port *p, struct diag *d)
{
    if (strncmp(p->state, "act", 3) != 0 || p->rate <= 0)
        return;
    const char *name = "", *speed = "";
    double should = s->expected;
    bool ethernet = strcasecmp(p->layer, "Ethernet") == 0;
    for (size_t i = 0; i < ARRAY_LEN(families); i++) {
        if (strcmp(families[i].type, p->type) != 0)
            continue;
        name = families[i].name;
        speed = families[i].speed;
        /* 2X HDR and 2X NDR are a split cable's intended form. */
        if (should <= 0 && !ethernet && strncmp(p->speed_name, "2X", 2) != 0)
            should = families[i].rate;
    }
    if (should <= 0 && !ethernet)
        should = best_of_type(s, p->type);
    if (should <= 0 || p->rate >= should * 0.95)
        return;
    char rate[16], want[16];
    snprintf(rate, sizeof rate, "%g", p->rate);
    snprintf(want, sizeof want, "%g", should);
    diag_find_where(d, DIAG_port_slow, &p->rate_at, "device", p->device, "port", p->number, "rate",
                    rate, "want", want, "family", name, "speed", should == 200 ? "HDR" : speed,
                    "type", p->type, NULL);
    if (s->expected > 0)
        diag_find_where(d, DIAG_rate_expected, &s->expected_at, "want", want, NULL);
}

static void judge_mtus(const struct ib *s, struct diag *d)
{
    for (size_t i = 0; i < s->mtu_count; i++) {
        for (size_t k = 0; k < i; k++) {
            const struct mtu *a = &s->mtus[k], *b = &s->mtus[i];
            if (strcmp(a->value, b->value) == 0 || !a->host[0] || !b->host[0] ||
                strcmp(a->host, b->host) == 0 || strcmp(a->device, b->device) != 0 ||
                a->ethernet != b->ethernet)
                continue;
            enum diag_id id = a->ethernet ? DIAG_eth_mtu_differs : DIAG_mtu_differs;
            diag_find_where(d, id, &a->at, "mtu", a->value, "host", a->host, "device", a->device,
                            NULL);
            diag_find_where(d, id, &b->at, "mtu", b->value, "host", b->host, "device", b->device,
                            NULL);
            return;
        }
    }
    if (s->mtu_count && !s->mtus[0].ethernet)
        diag_find_where(d, DIAG_mtu_seen, &s->mtus[0].at, "mtu", s->mtus[0].value, NULL);
}

/* The index that NCCL was told to use, when the table shows it to be link-local or RoCE v1. */
static void judge_index(struct diag *d)
{
    const struct diag_finding *set = &d->found[DIAG_gid_index_set];
    const struct diag_finding *bad = &d->found[DIAG_gid_row_unroutable];
    const char *index = set->kept ? diag_value(&set->hits[0], "index") : NULL;
    for (size_t i = 0; index && i < bad->kept; i++) {
        const struct diag_hit *hit = &bad->hits[i];
        if (strcmp(diag_value(hit, "index"), index) != 0)
            continue;
        struct diag_where where = {.file = hit->file, .text = hit->text, .line = hit->line};
        diag_find_where(d, DIAG_gid_index_bad, &where, "index", index, NULL);
        return;
    }
}

static void finish(void *state, struct diag *d)
{
    struct ib *s = state;
    bool works = false;
    for (size_t i = 0; i < s->count; i++)
        works |= strncmp(s->ports[i].state, "act", 3) == 0;
    for (size_t i = 0; i < s->count; i++) {
        judge_state(&s->ports[i], works, d);
        judge_rate(s, &s->ports[i], d);
    }
    judge_mtus(s, d);
    judge_index(d);
}

const struct diag_parser diag_ib_parser = {create, feed, finish, release};
