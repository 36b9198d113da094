/* Blocks of `lspci -vv`: link width and speed of GPUs and NICs, access control of the bridges above
 * them. */
#include "validate/diagnose/diag.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

enum { DEVICES_MAX = 4096 };
enum kind { KIND_OTHER, KIND_BRIDGE, KIND_GPU, KIND_NIC };

struct device {
    char address[16], name[96];
    enum kind kind;
    unsigned domain, bus, secondary, subordinate;
    bool has_range, acs, redirect, valid_only;
    char flags[96];
    double cap_speed, speed;
    unsigned cap_width, width;
    struct diag_where acs_at, link_at;
};

struct lspci {
    struct device *devices;
    size_t count;
    bool inside;
};

static void *create(void)
{
    return mem_zero(1, sizeof(struct lspci));
}

static void release(void *state)
{
    struct lspci *s = state;
    for (size_t i = 0; i < s->count; i++) {
        diag_where_release(&s->devices[i].acs_at);
        diag_where_release(&s->devices[i].link_at);
    }
    free(s->devices);
    free(s);
}

/* "0000:3b:00.0 " or "3b:00.0 " at the beginning: its length, else 0. */
static size_t address_len(const char *p, unsigned *domain, unsigned *bus)
{
    unsigned dev = 0, fn = 0;
    int len = 0;
    *domain = 0;
    if (!isxdigit((unsigned char)p[0]) || !isxdigit((unsigned char)p[1]))
        return 0;
    if (sscanf(p, "%4x:%2x:%2x.%1x%n", domain, bus, &dev, &fn, &len) == 4 && len >= 12)
        return (size_t)len;
    len = 0;
    *domain = 0;
    if (sscanf(p, "%2x:%2x.%1x%n", bus, &dev, &fn, &len) == 3 && len == 7)
        return (size_t)len;
    return 0;
}

static const struct {
    const char *text;
    enum kind kind;
} kinds[] = {
    {"PCI bridge", KIND_BRIDGE},
    {"Audio device", KIND_OTHER},
    {"USB controller", KIND_OTHER},
    {"Serial bus", KIND_OTHER},
    {"Non-Volatile memory", KIND_OTHER},
    {"3D controller", KIND_GPU},
    {"VGA compatible controller: NVIDIA", KIND_GPU},
    {"VGA compatible controller [0300]: NVIDIA", KIND_GPU},
    {"Processing accelerators", KIND_GPU},
    {"Display controller", KIND_GPU},
    {"Infiniband controller", KIND_NIC},
    {"Ethernet controller", KIND_NIC},
    {"Network controller", KIND_NIC},
    {"Elastic Fabric Adapter", KIND_NIC},
};

static void begin(struct lspci *s, const char *body, size_t len, unsigned domain, unsigned bus)
{
    if (s->count == DEVICES_MAX)
        return;
    s->devices = mem_grow(s->devices, s->count + 1, sizeof *s->devices);
    struct device *dev = &s->devices[s->count++];
    *dev = (struct device){.domain = domain, .bus = bus};
    snprintf(dev->address, sizeof dev->address, "%.*s", (int)len, body);
    const char *name = strstr(body, ": ");
    snprintf(dev->name, sizeof dev->name, "%s", name ? name + 2 : "");
    char *revision = strstr(dev->name, " (rev");
    if (revision)
        *revision = '\0';
    for (size_t i = 0; i < ARRAY_LEN(kinds) && dev->kind == KIND_OTHER; i++)
        if (strstr(body, kinds[i].text)) {
            dev->kind = kinds[i].kind;
            break;
        }
    s->inside = true;
}

static void take_acs(struct device *dev, const struct diag_line *line, const char *flags)
{
    snprintf(dev->flags, sizeof dev->flags, "%s", flags + strspn(flags, " \t"));
    dev->acs = true;
    dev->redirect = strstr(flags, "ReqRedir+") || strstr(flags, "CmpltRedir+");
    dev->valid_only = !dev->redirect && strstr(flags, "SrcValid+");
    diag_where_release(&dev->acs_at);
    dev->acs_at = diag_where_copy(line);
}

static void take_link(struct device *dev, const struct diag_line *line, const char *text, bool cap)
{
    double speed = diag_number(strstr(text, "Speed "), 0);
    double width = diag_number(strstr(text, "Width x"), 0);
    if (cap) {
        dev->cap_speed = speed;
        dev->cap_width = (unsigned)width;
        return;
    }
    dev->speed = speed;
    dev->width = (unsigned)width;
    diag_where_release(&dev->link_at);
    dev->link_at = diag_where_copy(line);
}

static void feed(void *state, struct diag *d, const struct diag_line *line)
{
    struct lspci *s = state;
    unsigned domain = 0, bus = 0;
    const char *body = line->body;
    size_t len = line->command ? 0 : address_len(body, &domain, &bus);
    if (len && body[len] == ' ' && strstr(body, ": ")) {
        begin(s, body, len, domain, bus);
        return;
    }
    if (line->command) {
        s->inside = false;
        return;
    }
    const char *found = NULL;
    if ((found = strstr(body, "ACSCtl:")) != NULL && !s->inside)
        begin(s, "?", 1, 0, 0); /* `lspci -vvv | grep ACSCtl` does not say whose they are */
    if (!s->inside || s->count == 0)
        return;
    struct device *dev = &s->devices[s->count - 1];
    if (found && dev->acs && dev->address[0] == '?') {
        begin(s, "?", 1, 0, 0);
        dev = &s->devices[s->count - 1];
    }
    if (found)
        take_acs(dev, line, found + 7);
    else if ((found = strstr(body, "LnkCap:")) != NULL)
        take_link(dev, line, found, true);
    else if ((found = strstr(body, "LnkSta:")) != NULL)
        take_link(dev, line, found, false);
    else if ((found = strstr(body, "secondary=")) != NULL)
        dev->has_range = sscanf(found, "secondary=%2x, subordinate=%2x", &dev->secondary,
                                &dev->subordinate) == 2;
    if (dev->address[0] == '?')
        s->inside = false;
}

static bool above(const struct device *bridge, const struct device *dev)
{
    return bridge->has_range && bridge->domain == dev->domain && dev->bus >= bridge->secondary &&
           dev->bus <= bridge->subordinate;
}

/* The first GPU or NIC below a bridge; without bus numbers the next device in the listing. */
static const struct device *below(const struct lspci *s, size_t bridge)
{
    const struct device *b = &s->devices[bridge];
    for (size_t i = 0; i < s->count; i++) {
        const struct device *dev = &s->devices[i];
        bool wanted = dev->kind == KIND_GPU || dev->kind == KIND_NIC;
        if (wanted && (above(b, dev) || (!b->has_range && i == bridge + 1)))
            return dev;
    }
    return NULL;
}

static void judge_acs(const struct lspci *s, struct diag *d)
{
    bool ends = false;
    for (size_t i = 0; i < s->count; i++)
        ends |= s->devices[i].kind == KIND_GPU || s->devices[i].kind == KIND_NIC;
    for (size_t i = 0; i < s->count; i++) {
        const struct device *dev = &s->devices[i];
        bool bridge = dev->kind == KIND_BRIDGE, nameless = dev->address[0] == '?';
        if (!dev->acs || !(bridge || nameless))
            continue;
        const struct device *end = below(s, i);
        if (dev->redirect && bridge && (end || !ends))
            diag_find_where(d, DIAG_acs_redirect, &dev->acs_at, "bridge", dev->address, "flags",
                            dev->flags, "below", end ? end->address : NULL, NULL);
        else if (dev->redirect && nameless)
            diag_find_where(d, DIAG_acs_redirect_nameless, &dev->acs_at, "flags", dev->flags, NULL);
        else if (dev->redirect)
            diag_find_where(d, DIAG_acs_elsewhere, &dev->acs_at, "bridge", dev->address, NULL);
        else if (dev->valid_only)
            diag_find_where(d, DIAG_acs_source_only, &dev->acs_at, "bridge", dev->address, NULL);
        else
            diag_find_where(d, DIAG_acs_off, &dev->acs_at, "bridge", dev->address, NULL);
    }
}

/* Gb/s that the link carries in one direction. */
static double link_gbps(double gts, unsigned width)
{
    double coding = gts >= 8 ? 128.0 / 130.0 : 0.8;
    return gts * width * coding;
}

static void judge_link(const struct device *dev, struct diag *d)
{
    char has[48], can[48], rate[32];
    snprintf(has, sizeof has, "%g GT/s x%u", dev->speed, dev->width);
    snprintf(can, sizeof can, "%g GT/s x%u", dev->cap_speed, dev->cap_width);
    snprintf(rate, sizeof rate, "%.0f", link_gbps(dev->speed, dev->width));
    char width[16], cap_width[16], speed[32], cap_speed[32];
    snprintf(width, sizeof width, "x%u", dev->width);
    snprintf(cap_width, sizeof cap_width, "x%u", dev->cap_width);
    snprintf(speed, sizeof speed, "%gGT/s", dev->speed);
    snprintf(cap_speed, sizeof cap_speed, "%gGT/s", dev->cap_speed);
    enum diag_id id = DIAG_pcie_link_ok;
    if (dev->width == 0)
        id = DIAG_pcie_link_absent;
    else if (dev->width < dev->cap_width)
        id = DIAG_pcie_narrow;
    else if (dev->speed < dev->cap_speed)
        id = dev->kind == KIND_GPU ? DIAG_pcie_gpu_slow : DIAG_pcie_slow;
    diag_find_where(d, id, &dev->link_at, "address", dev->address, "device", dev->name, "has", has,
                    "can", can, "rate", rate, "width", width, "cap_width", cap_width, "speed",
                    speed, "cap_speed", cap_speed, NULL);
}

static void finish(void *state, struct diag *d)
{
    struct lspci *s = state;
    judge_acs(s, d);
    for (size_t i = 0; i < s->count; i++) {
        const struct device *dev = &s->devices[i];
        if ((dev->kind == KIND_GPU || dev->kind == KIND_NIC) && dev->link_at.file &&
            dev->cap_width > 0)
            judge_link(dev, d);
    }
}

const struct diag_parser diag_lspci_parser = {create, feed, finish, release};
