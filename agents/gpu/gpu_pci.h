/* PCI Express links and their error counters, from sysfs.  Reads only; no driver is called. */
#ifndef MUSTER_AGENTS_GPU_GPU_PCI_H
#define MUSTER_AGENTS_GPU_GPU_PCI_H

#include <stdbool.h>
#include <stddef.h>

#include "common/fs.h"

enum { GPU_PCI_BDF_BYTES = 16, GPU_PCI_MAX_PATH = 8 };

/* A link as its lower end (the device, or a switch's upstream port) and the port above see it. */
struct gpu_pci_link {
    double speed_gts, max_speed_gts; /* GT/s; the maximum is the lower of both ends' */
    int width, max_width;
};
/* False: this function is not the lower end of a link that sysfs describes (a root or downstream
 * port, an integrated or virtual function). */
bool gpu_pci_read_link(const struct fs_root *root, const char *bdf, struct gpu_pci_link *link);

/* Totals of one function since boot. */
struct gpu_pci_aer {
    double correctable, nonfatal, fatal;
};
bool gpu_pci_read_aer(const struct fs_root *root, const char *bdf, struct gpu_pci_aer *aer);

/* The function and its bridges up to the root port; returns how many. */
size_t gpu_pci_path(const struct fs_root *root, const char *bdf,
                    char path[GPU_PCI_MAX_PATH][GPU_PCI_BDF_BYTES]);
/* Generation of a speed in GT/s, 0 when it is none. */
int gpu_pci_generation(double speed_gts);

#endif
