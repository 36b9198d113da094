/* Xid and SXid lines of the kernel's log: what the NVIDIA driver has reported since boot. */
#ifndef MUSTER_AGENTS_GPU_GPU_KLOG_H
#define MUSTER_AGENTS_GPU_GPU_KLOG_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/fs.h"

enum { GPU_KLOG_TEXT_BYTES = 200, GPU_KLOG_MAX_LINES = 256 };

struct gpu_klog_line {
    bool is_switch; /* SXid: of an NVSwitch */
    int number;
    unsigned domain, bus, device;
    char text[GPU_KLOG_TEXT_BYTES]; /* without the record's prefix */
};

struct gpu_klog {
    struct gpu_klog_line lines[GPU_KLOG_MAX_LINES]; /* the newest, when there are more */
    size_t count;                                   /* of all such lines */
    bool complete; /* the log still holds the boot's first record */
};

/* One record of /dev/kmsg ("4,1203,8812,-;NVRM: Xid (PCI:0000:1b:00): 79, ...") or one line without
 * its prefix.  False when it is neither Xid nor SXid. */
bool gpu_klog_parse(const char *record, struct gpu_klog_line *out);
/* The whole log of the running kernel, through /dev/kmsg of root.  ERR_ENV: it cannot be read
 * (not root, or a container without it). */
int gpu_klog_read(const struct fs_root *root, struct gpu_klog *out, struct err *err);

#endif
