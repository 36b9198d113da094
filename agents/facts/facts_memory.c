/* Memory, huge pages, and /dev/shm, which NCCL and CUDA IPC live on. */
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "agents/facts/facts_topics.h"
#include "common/jsonx.h"
#include "common/util.h"

/* linux/magic.h; the header is not on every build machine. */
#define TMPFS_SUPER_MAGIC 0x01021994

static json_t *meminfo_bytes(const char *text, const char *key)
{
    const char *found = text ? strstr(text, key) : NULL;
    long long kib = 0;
    if (!found || !facts_scan_int(found + strlen(key), &kib))
        return json_null();
    return json_integer(kib * 1024);
}

static json_t *read_hugepages(const struct fs_root *root)
{
    json_t *sizes = facts_array();
    AUTO(facts_names_free) struct facts_names names = facts_list(root, "/sys/kernel/mm/hugepages");
    for (size_t i = 0; i < names.count; i++) {
        long long kib = 0;
        static const char prefix[] = "hugepages-";
        if (!str_has_prefix(names.names[i], prefix) ||
            !facts_scan_int(names.names[i] + strlen(prefix), &kib))
            continue;
        const char *dir = names.names[i];
        json_t *size = facts_object();
        jsonx_set_int(size, "size_bytes", kib * 1024);
        jsonx_set_int(size, "total",
                      facts_int(root, 0, "/sys/kernel/mm/hugepages/%s/nr_hugepages", dir));
        jsonx_set_int(size, "free",
                      facts_int(root, 0, "/sys/kernel/mm/hugepages/%s/free_hugepages", dir));
        jsonx_append(sizes, size);
    }
    return sizes;
}

/* null: no tmpfs there, or a captured tree, which has no mounts. */
static json_t *read_shm(const struct fs_root *root)
{
    struct statfs fs;
    struct statvfs size;
    if (!facts_root_is_real(root) || statfs("/dev/shm", &fs) != 0 ||
        fs.f_type != TMPFS_SUPER_MAGIC || statvfs("/dev/shm", &size) != 0)
        return json_null();
    json_t *shm = facts_object();
    jsonx_set_int(shm, "size_bytes", (int64_t)(size.f_blocks * size.f_frsize));
    jsonx_set_int(shm, "free_bytes", (int64_t)(size.f_bavail * size.f_frsize));
    return shm;
}

json_t *facts_memory(const struct fs_root *root)
{
    AUTO(free_str) char *text = NULL;
    struct err ignored = {0};
    if (fs_read_at(root, "/proc/meminfo", 65536, &text, NULL, &ignored) != 0)
        text = NULL;
    json_t *memory = facts_object();
    jsonx_set(memory, "total_bytes", meminfo_bytes(text, "MemTotal:"));
    jsonx_set(memory, "available_bytes", meminfo_bytes(text, "MemAvailable:"));
    jsonx_set(memory, "hugepages", read_hugepages(root));
    jsonx_set(memory, "shm", read_shm(root));
    return memory;
}
