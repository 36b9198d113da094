/* Kernel release and command line, and what the IOMMU does to DMA. */
#include <string.h>

#include "agents/facts/facts_topics.h"
#include "common/jsonx.h"
#include "common/util.h"

json_t *facts_kernel(const struct fs_root *root)
{
    json_t *kernel = facts_object();
    facts_set_line(kernel, "release", root, "/proc/sys/kernel/osrelease");
    facts_set_line(kernel, "cmdline", root, "/proc/cmdline");
    return kernel;
}

/* null: cannot tell.  The type of a group is the kernel's own word; the command line is the
 * request. */
static json_t *passthrough(const struct fs_root *root, const struct facts_names *groups)
{
    if (groups->count == 0)
        return json_null();
    AUTO(free_str)
    char *type = facts_line(root, "/sys/kernel/iommu_groups/%s/type", groups->names[0]);
    if (type && type[0])
        return json_boolean(strcmp(type, "identity") == 0);
    AUTO(free_str) char *cmdline = fs_read_line_at(root, "/proc/cmdline");
    if (cmdline && (strstr(cmdline, "iommu=pt") || strstr(cmdline, "iommu.passthrough=1")))
        return json_true();
    return json_null();
}

json_t *facts_iommu(const struct fs_root *root)
{
    AUTO(facts_names_free) struct facts_names groups = facts_list(root, "/sys/kernel/iommu_groups");
    AUTO(facts_names_free) struct facts_names units = facts_list(root, "/sys/class/iommu");
    json_t *iommu = facts_object();
    jsonx_set_int(iommu, "groups", (int64_t)groups.count);
    jsonx_set_bool(iommu, "enabled", groups.count > 0 || units.count > 0);
    jsonx_set(iommu, "passthrough", passthrough(root, &groups));
    return iommu;
}
