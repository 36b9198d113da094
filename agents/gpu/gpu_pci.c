#include "agents/gpu/gpu_pci.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/facts/facts_topics.h"
#include "common/util.h"

#define PCI_DIR "/sys/bus/pci/devices/"

enum {
    CONFIG_BYTES = 256,
    CAPABILITY_POINTER = 0x34,
    CAPABILITY_EXPRESS = 0x10,
    MAX_CAPABILITIES = 48,
    TYPE_ROOT_PORT = 4,
    TYPE_DOWNSTREAM = 6,
    UNKNOWN_WIDTH = 255
};

int gpu_pci_generation(double speed_gts)
{
    static const double speeds[] = {2.5, 5, 8, 16, 32, 64};
    for (size_t i = 0; i < ARRAY_LEN(speeds); i++)
        if (speed_gts == speeds[i])
            return (int)i + 1;
    return 0;
}

static double read_speed(const struct fs_root *root, const char *bdf, const char *file)
{
    AUTO(free_str) char *line = facts_line(root, PCI_DIR "%s/%s", bdf, file);
    double speed = 0;
    const char *unit = line ? facts_scan_num(line, &speed) : NULL;
    return unit && str_has_prefix(unit, " GT/s") ? speed : 0;
}

/* Type of the port from the PCI Express capability; -1 when it cannot be read. */
static int port_type(const struct fs_root *root, const char *bdf)
{
    AUTO(free_str) char *path = str_printf(PCI_DIR "%s/config", bdf);
    AUTO(free_str) char *text = NULL;
    size_t len = 0;
    struct err ignored = {0};
    if (fs_read_at(root, path, (size_t)16 * CONFIG_BYTES, &text, &len, &ignored) != 0 ||
        len < CONFIG_BYTES)
        return -1;
    const uint8_t *config = (const uint8_t *)text;
    size_t at = config[CAPABILITY_POINTER] & 0xfcu;
    for (int i = 0; i < MAX_CAPABILITIES && at >= 0x40 && at + 4 <= CONFIG_BYTES; i++) {
        if (config[at] == CAPABILITY_EXPRESS)
            return config[at + 2] >> 4;
        at = config[at + 1] & 0xfcu;
    }
    return -1;
}

bool gpu_pci_read_link(const struct fs_root *root, const char *bdf, struct gpu_pci_link *out)
{
    int type = port_type(root, bdf);
    if (type == TYPE_ROOT_PORT || type == TYPE_DOWNSTREAM)
        return false;
    struct gpu_pci_link link = {
        .speed_gts = read_speed(root, bdf, "current_link_speed"),
        .max_speed_gts = read_speed(root, bdf, "max_link_speed"),
        .width = (int)facts_int(root, 0, PCI_DIR "%s/current_link_width", bdf),
        .max_width = (int)facts_int(root, 0, PCI_DIR "%s/max_link_width", bdf)};
    if (link.speed_gts <= 0 || link.max_speed_gts <= 0 || link.width <= 0 || link.max_width <= 0 ||
        link.max_width == UNKNOWN_WIDTH || link.width == UNKNOWN_WIDTH)
        return false;
    char path[GPU_PCI_MAX_PATH][GPU_PCI_BDF_BYTES];
    if (gpu_pci_path(root, bdf, path) > 1) {
        double above_gts = read_speed(root, path[1], "max_link_speed");
        int above = (int)facts_int(root, 0, PCI_DIR "%s/max_link_width", path[1]);
        if (above_gts > 0 && above_gts < link.max_speed_gts)
            link.max_speed_gts = above_gts;
        if (above > 0 && above < link.max_width)
            link.max_width = above;
    }
    *out = link;
    return true;
}

/* The number behind "TOTAL_ERR_..." in one of the aer_dev files. */
static bool read_total(const struct fs_root *root, const char *bdf, const char *file, double *total)
{
    AUTO(free_str) char *path = str_printf(PCI_DIR "%s/%s", bdf, file);
    AUTO(free_str) char *text = NULL;
    struct err ignored = {0};
    if (fs_read_at(root, path, 4096, &text, NULL, &ignored) != 0)
        return false;
    const char *at = strstr(text, "TOTAL_ERR_");
    at = at ? strchr(at, ' ') : NULL;
    return at && facts_scan_num(at + 1, total) != NULL;
}

bool gpu_pci_read_aer(const struct fs_root *root, const char *bdf, struct gpu_pci_aer *out)
{
    struct gpu_pci_aer aer = {0};
    if (!read_total(root, bdf, "aer_dev_correctable", &aer.correctable) ||
        !read_total(root, bdf, "aer_dev_nonfatal", &aer.nonfatal) ||
        !read_total(root, bdf, "aer_dev_fatal", &aer.fatal))
        return false;
    *out = aer;
    return true;
}

size_t gpu_pci_path(const struct fs_root *root, const char *bdf,
                    char path[GPU_PCI_MAX_PATH][GPU_PCI_BDF_BYTES])
{
    size_t count = 0;
    AUTO(free_str) char *link = str_printf(PCI_DIR "%s", bdf);
    while (count < GPU_PCI_MAX_PATH && facts_link_bdf(root, link, count, path[count]))
        count++;
    return count;
}
