/* Processors: model, sockets, cores, threads, frequency governor, NUMA nodes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/facts/facts_topics.h"
#include "common/jsonx.h"
#include "common/util.h"

enum { CPUINFO_MAX_BYTES = 8 * 1024 * 1024 };

/* Value of "key<blanks>: value" in one line; NULL if the line has another key. */
static const char *line_value(const char *line, const char *key)
{
    size_t len = strlen(key);
    if (strncmp(line, key, len) != 0)
        return NULL;
    line += len;
    line += strspn(line, " \t");
    return *line == ':' ? line + 1 + strspn(line + 1, " \t") : NULL;
}

/* Arm cores that GPU servers have; the kernel prints only their numbers. */
static const struct {
    const char *implementer, *part, *name;
} arm_cores[] = {
    {"0x41", "0xd4f", "Arm Neoverse-V2"}, {"0x41", "0xd40", "Arm Neoverse-V1"},
    {"0x41", "0xd0c", "Arm Neoverse-N1"}, {"0x41", "0xd49", "Arm Neoverse-N2"},
    {"0x41", "0xd83", "Arm Neoverse-V3"}, {"0xc0", "0xac3", "Ampere-1"},
};

static char *arm_model(const char *implementer, const char *part)
{
    for (size_t i = 0; i < ARRAY_LEN(arm_cores); i++)
        if (strcmp(arm_cores[i].implementer, implementer) == 0 &&
            strcmp(arm_cores[i].part, part) == 0)
            return str_dup(arm_cores[i].name);
    return str_printf("implementer %s part %s", implementer, part);
}

struct cpu_count {
    int sockets, cores, threads;
    char *model, *implementer, *part;
};

struct core_id {
    long long package, core;
};

static int compare_core_ids(const void *a, const void *b)
{
    const struct core_id *x = a, *y = b;
    if (x->package != y->package)
        return x->package < y->package ? -1 : 1;
    return x->core < y->core ? -1 : x->core > y->core;
}

static void count_distinct(struct core_id *ids, size_t count, struct cpu_count *out)
{
    if (count)
        qsort(ids, count, sizeof *ids, compare_core_ids);
    for (size_t i = 0; i < count; i++) {
        out->sockets += i == 0 || ids[i].package != ids[i - 1].package;
        out->cores += i == 0 || compare_core_ids(&ids[i], &ids[i - 1]) != 0;
    }
}

static void keep_first(char **slot, const char *value)
{
    if (value && !*slot)
        *slot = str_dup(value);
}

/* x86 prints "physical id" and "core id" per processor; aarch64 prints neither. */
static void read_cpuinfo(const struct fs_root *root, struct cpu_count *out)
{
    AUTO(free_str) char *text = NULL;
    struct err ignored = {0};
    if (fs_read_at(root, "/proc/cpuinfo", CPUINFO_MAX_BYTES, &text, NULL, &ignored) != 0)
        return;
    struct core_id *ids = NULL;
    size_t count = 0;
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        const char *value = NULL;
        if (line_value(line, "processor")) {
            ids = mem_grow(ids, count + 1, sizeof *ids);
            ids[count] = (struct core_id){0, (long long)count};
            count++;
        } else if (count && (value = line_value(line, "physical id"))) {
            ids[count - 1].package = strtoll(value, NULL, 10);
        } else if (count && (value = line_value(line, "core id"))) {
            ids[count - 1].core = strtoll(value, NULL, 10);
        }
        keep_first(&out->model, line_value(line, "model name"));
        keep_first(&out->implementer, line_value(line, "CPU implementer"));
        keep_first(&out->part, line_value(line, "CPU part"));
    }
    out->threads = (int)count;
    count_distinct(ids, count, out);
    free(ids);
}

/* sysfs knows the topology on every architecture; false when this tree has none. */
static bool read_topology(const struct fs_root *root, struct cpu_count *out)
{
    AUTO(facts_names_free) struct facts_names cpus = facts_list(root, "/sys/devices/system/cpu");
    struct core_id *ids = mem_zero(cpus.count, sizeof *ids);
    size_t count = 0;
    for (size_t i = 0; i < cpus.count; i++) {
        long long core =
            facts_int(root, -1, "/sys/devices/system/cpu/%s/topology/core_id", cpus.names[i]);
        if (core < 0)
            continue;
        ids[count++] = (struct core_id){
            facts_int(root, 0, "/sys/devices/system/cpu/%s/topology/physical_package_id",
                      cpus.names[i]),
            core};
    }
    if (count) {
        out->sockets = out->cores = 0;
        out->threads = (int)count;
        count_distinct(ids, count, out);
    }
    free(ids);
    return count > 0;
}

static json_t *numa_memory(const struct fs_root *root, const char *node)
{
    AUTO(free_str) char *path = str_printf("/sys/devices/system/node/%s/meminfo", node);
    AUTO(free_str) char *text = NULL;
    struct err ignored = {0};
    if (fs_read_at(root, path, 65536, &text, NULL, &ignored) != 0)
        return json_null();
    const char *total = strstr(text, "MemTotal:");
    long long kib = 0;
    if (!total || !facts_scan_int(total + strlen("MemTotal:"), &kib))
        return json_null();
    return json_integer(kib * 1024);
}

static json_t *read_numa(const struct fs_root *root)
{
    json_t *nodes = facts_array();
    AUTO(facts_names_free) struct facts_names names = facts_list(root, "/sys/devices/system/node");
    for (size_t i = 0; i < names.count; i++) {
        long long number = 0;
        if (!str_has_prefix(names.names[i], "node"))
            continue;
        const char *end = facts_scan_int(names.names[i] + strlen("node"), &number);
        if (!end || *end)
            continue;
        json_t *node = facts_object();
        jsonx_set_int(node, "node", number);
        facts_set_line(node, "cpus", root, "/sys/devices/system/node/%s/cpulist", names.names[i]);
        jsonx_set(node, "memory_bytes", numa_memory(root, names.names[i]));
        jsonx_append(nodes, node);
    }
    return nodes;
}

json_t *facts_cpu(const struct fs_root *root)
{
    struct cpu_count count = {0};
    read_cpuinfo(root, &count);
    (void)read_topology(root, &count); /* cpuinfo's counts stand where there is none */
    if (!count.model && count.implementer && count.part)
        count.model = arm_model(count.implementer, count.part);
    json_t *cpu = facts_object();
    facts_set_text(cpu, "model", count.model);
    jsonx_set_int(cpu, "sockets", count.sockets);
    jsonx_set_int(cpu, "cores", count.cores);
    jsonx_set_int(cpu, "threads", count.threads);
    facts_set_line(cpu, "governor", root, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    jsonx_set(cpu, "numa", read_numa(root));
    free(count.model);
    free(count.implementer);
    free(count.part);
    return cpu;
}
