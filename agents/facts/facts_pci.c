/* PCI functions: who they are, what they hang on, link speed and width, ACS redirection. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/facts/facts_topics.h"
#include "common/jsonx.h"
#include "common/util.h"

#define PCI_DIR "/sys/bus/pci/devices/"

enum {
    CONFIG_BYTES = 4096,      /* PCI Express configuration space */
    EXTENDED_START = 0x100,   /* first extended capability header */
    CAPABILITY_ACS = 0x000D,  /* Access Control Services */
    ACS_CONTROL = 6,          /* offset of the control register in the capability */
    ACS_REQUEST_REDIRECT = 4, /* peer-to-peer requests go up to the root complex */
    ACS_COMPLETION_REDIRECT = 8,
    MAX_CAPABILITIES = (CONFIG_BYTES - EXTENDED_START) / 8 /* a longer list is a loop */
};

static uint32_t read_le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Offset of an extended capability, 0 if the function has none (or its space cannot be read so far:
 * 64 bytes without privilege, 256 for conventional PCI). */
static size_t find_extended(const uint8_t *config, size_t len, uint16_t id)
{
    size_t at = EXTENDED_START;
    for (int i = 0; i < MAX_CAPABILITIES && at >= EXTENDED_START && at + 8 <= len; i++) {
        uint32_t header = read_le32(config + at);
        if (header == 0 || header == UINT32_MAX)
            return 0;
        if ((header & 0xffff) == id)
            return at;
        at = header >> 20 & 0xffc;
    }
    return 0;
}

static json_t *read_acs(const struct fs_root *root, const char *bdf)
{
    AUTO(free_str) char *path = str_printf(PCI_DIR "%s/config", bdf);
    AUTO(free_str) char *config = NULL;
    size_t len = 0;
    struct err ignored = {0};
    if (fs_read_at(root, path, CONFIG_BYTES, &config, &len, &ignored) != 0)
        return json_null();
    const uint8_t *bytes = (const uint8_t *)config;
    size_t at = find_extended(bytes, len, CAPABILITY_ACS);
    if (!at)
        return json_null();
    unsigned control = bytes[at + ACS_CONTROL] | (unsigned)bytes[at + ACS_CONTROL + 1] << 8;
    json_t *acs = facts_object();
    jsonx_set_int(acs, "control", control);
    jsonx_set_bool(acs, "redirect",
                   (control & (ACS_REQUEST_REDIRECT | ACS_COMPLETION_REDIRECT)) != 0);
    return acs;
}

/* "32.0 GT/s PCIe"; 0 for "Unknown" and missing. */
static double read_speed(const struct fs_root *root, const char *bdf, const char *file)
{
    AUTO(free_str) char *line = facts_line(root, PCI_DIR "%s/%s", bdf, file);
    double speed = 0;
    const char *unit = line ? facts_scan_num(line, &speed) : NULL;
    return unit && str_has_prefix(unit, " GT/s") ? speed : 0;
}

/* null for functions without a link: conventional PCI, integrated endpoints, most virtual ones. */
static json_t *read_link(const struct fs_root *root, const char *bdf)
{
    double max_speed = read_speed(root, bdf, "max_link_speed");
    long long max_width = facts_int(root, 0, PCI_DIR "%s/max_link_width", bdf);
    if (max_speed <= 0 || max_width <= 0 || max_width == 255)
        return json_null();
    json_t *link = facts_object();
    jsonx_set_num(link, "speed_gts", read_speed(root, bdf, "current_link_speed"));
    jsonx_set_int(link, "width", facts_int(root, 0, PCI_DIR "%s/current_link_width", bdf));
    jsonx_set_num(link, "max_speed_gts", max_speed);
    jsonx_set_int(link, "max_width", max_width);
    return link;
}

static json_t *read_function(const struct fs_root *root, const char *bdf)
{
    AUTO(free_str) char *driver = facts_link(root, PCI_DIR "%s/driver", bdf);
    AUTO(free_str) char *path = str_printf(PCI_DIR "%s", bdf);
    char parent[16];
    bool has_parent = facts_link_bdf(root, path, 1, parent);
    json_t *function = facts_object();
    jsonx_set_str(function, "bdf", bdf);
    facts_set_line(function, "class", root, PCI_DIR "%s/class", bdf);
    facts_set_line(function, "vendor", root, PCI_DIR "%s/vendor", bdf);
    facts_set_line(function, "device", root, PCI_DIR "%s/device", bdf);
    jsonx_set_str(function, "driver", driver);
    jsonx_set_int(function, "numa_node", facts_int(root, -1, PCI_DIR "%s/numa_node", bdf));
    jsonx_set_str(function, "parent", has_parent ? parent : NULL);
    jsonx_set(function, "link", read_link(root, bdf));
    jsonx_set(function, "acs", read_acs(root, bdf));
    return function;
}

json_t *facts_pci(const struct fs_root *root)
{
    json_t *functions = facts_array();
    AUTO(facts_names_free) struct facts_names names = facts_list(root, PCI_DIR);
    for (size_t i = 0; i < names.count; i++)
        if (facts_is_bdf(names.names[i]))
            jsonx_append(functions, read_function(root, names.names[i]));
    return functions;
}
