#include "agents/facts/facts.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agents/facts/facts_topics.h"
#include "agents/facts/identity.h"
#include "common/jsonx.h"
#include "common/util.h"

static const struct {
    const char *key;
    json_t *(*read)(const struct fs_root *root);
} topics[] = {
    {"kernel", facts_kernel},   {"cpu", facts_cpu},           {"memory", facts_memory},
    {"limits", facts_limits},   {"iommu", facts_iommu},       {"pci", facts_pci},
    {"net", facts_net},         {"rdma", facts_rdma},         {"gpus", facts_gpu},
    {"modules", facts_modules}, {"ssh_host_keys", facts_ssh},
};

int facts_read(const struct fs_root *root, json_t **out, struct err *err)
{
    if (!fs_exists_at(root, "/proc") && !fs_exists_at(root, "/sys"))
        return err_set(err, ERR_ENV, "%s has neither /proc nor /sys: not a node's tree",
                       root->path[0] ? root->path : "/");
    json_t *facts = facts_object();
    char time[25];
    time_format(wall_ms(), time);
    jsonx_set_int(facts, "v", FACTS_VERSION);
    jsonx_set_str(facts, "time", time);
    facts_host(root, facts);
    for (size_t i = 0; i < ARRAY_LEN(topics); i++)
        jsonx_set(facts, topics[i].key, topics[i].read(root));
    /* What stand-ins for hardware have answered says nothing about this machine. */
    json_t *gpus = json_object_get(facts, "gpus");
    if (jsonx_bool_or(gpus, "simulated", false))
        jsonx_set_bool(facts, "simulated", true);
    json_object_del(gpus, "simulated");
    /* A tree without machine id has facts, but no identity that a report could hold. */
    json_t *identity = NULL;
    struct err ignored = {0};
    if (identity_read(root, &identity, &ignored) != 0)
        identity = json_null();
    jsonx_set(facts, "identity", identity);
    *out = facts;
    return 0;
}

bool facts_root_is_real(const struct fs_root *root)
{
    return root->path[0] == '\0';
}

json_t *facts_object(void)
{
    json_t *obj = json_object();
    if (!obj)
        abort();
    return obj;
}

json_t *facts_array(void)
{
    json_t *arr = json_array();
    if (!arr)
        abort();
    return arr;
}

/* Firmware and administrators write what they like; json_string() is NULL unless it is UTF-8. */
void facts_set_text(json_t *obj, const char *key, const char *text)
{
    json_t *value = text && text[0] ? json_string(text) : NULL;
    jsonx_set(obj, key, value ? value : json_null());
}

void facts_append_text(json_t *arr, const char *text)
{
    json_t *value = text && text[0] ? json_string(text) : NULL;
    if (value)
        jsonx_append(arr, value);
}

enum { PATH_BYTES = 4096 };

/* A path that does not fit names no file. */
static void __attribute__((format(printf, 2, 0)))
compose(char path[static PATH_BYTES], const char *fmt, va_list args)
{
    int len = vsnprintf(path, PATH_BYTES, fmt, args);
    if (len < 0 || len >= PATH_BYTES)
        path[0] = '\0';
}

void facts_set_line(json_t *obj, const char *key, const struct fs_root *root, const char *fmt, ...)
{
    char path[PATH_BYTES];
    va_list args;
    va_start(args, fmt);
    compose(path, fmt, args);
    va_end(args);
    AUTO(free_str) char *line = fs_read_line_at(root, path);
    facts_set_text(obj, key, line);
}

char *facts_line(const struct fs_root *root, const char *fmt, ...)
{
    char path[PATH_BYTES];
    va_list args;
    va_start(args, fmt);
    compose(path, fmt, args);
    va_end(args);
    return fs_read_line_at(root, path);
}

long long facts_int(const struct fs_root *root, long long fallback, const char *fmt, ...)
{
    char path[PATH_BYTES];
    va_list args;
    va_start(args, fmt);
    compose(path, fmt, args);
    va_end(args);
    return fs_read_int_at(root, path, fallback);
}

char *facts_link(const struct fs_root *root, const char *fmt, ...)
{
    char path[PATH_BYTES];
    va_list args;
    va_start(args, fmt);
    compose(path, fmt, args);
    va_end(args);
    return fs_link_name_at(root, path);
}

bool facts_exists(const struct fs_root *root, const char *fmt, ...)
{
    char path[PATH_BYTES];
    va_list args;
    va_start(args, fmt);
    compose(path, fmt, args);
    va_end(args);
    return fs_exists_at(root, path);
}

struct facts_names facts_list(const struct fs_root *root, const char *fmt, ...)
{
    char path[PATH_BYTES];
    va_list args;
    va_start(args, fmt);
    compose(path, fmt, args);
    va_end(args);
    struct facts_names n = {0};
    struct err ignored = {0};
    if (fs_list_at(root, path, &n.names, &n.count, &ignored) != 0)
        n = (struct facts_names){0};
    return n;
}

void facts_names_free(struct facts_names *n)
{
    fs_list_free(n->names, n->count);
    *n = (struct facts_names){0};
}

const char *facts_scan_int(const char *text, long long *value)
{
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno != 0 || end == text)
        return NULL;
    *value = number;
    return end;
}

const char *facts_scan_num(const char *text, double *value)
{
    char *end = NULL;
    errno = 0;
    double number = strtod(text, &end);
    if (errno != 0 || end == text || !isfinite(number))
        return NULL;
    *value = number;
    return end;
}

bool facts_is_bdf(const char *text)
{
    static const char shape[] = "xxxx:xx:xx.x";
    size_t i = 0;
    for (; shape[i]; i++)
        if (shape[i] == 'x' ? !isxdigit((unsigned char)text[i]) : text[i] != shape[i])
            return false;
    return text[i] == '\0';
}

/* Target text of a symlink below root; false if it is none. */
static bool link_target(const struct fs_root *root, const char *path, char out[static 4096])
{
    char full[4096];
    struct err ignored = {0};
    if (fs_join(root, path, full, &ignored) != 0)
        return false;
    ssize_t len = readlink(full, out, 4095);
    if (len <= 0)
        return false;
    out[len] = '\0';
    return true;
}

bool facts_link_bdf(const struct fs_root *root, const char *path, size_t nth_from_end,
                    char out[static 16])
{
    char target[4096], *save = NULL;
    if (!link_target(root, path, target))
        return false;
    const char *found[64];
    size_t count = 0;
    for (char *part = strtok_r(target, "/", &save); part; part = strtok_r(NULL, "/", &save))
        if (facts_is_bdf(part) && count < ARRAY_LEN(found))
            found[count++] = part;
    if (nth_from_end >= count)
        return false;
    snprintf(out, 16, "%s", found[count - 1 - nth_from_end]);
    return true;
}

bool facts_link_is_virtual(const struct fs_root *root, const char *path)
{
    char target[4096];
    return link_target(root, path, target) && strstr(target, "/devices/virtual/") != NULL;
}
