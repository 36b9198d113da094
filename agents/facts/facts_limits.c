/* Limits that a process of this session gets: locked memory (RDMA registers it) and open files. */
#include <stdlib.h>
#include <string.h>

#include "agents/facts/facts_topics.h"
#include "common/jsonx.h"
#include "common/util.h"

static const struct {
    const char *title, *soft, *hard;
} rows[] = {
    {"Max locked memory", "memlock_soft_bytes", "memlock_hard_bytes"},
    {"Max open files", "nofile_soft", "nofile_hard"},
};

/* -1: unlimited; null: not a number. */
static json_t *limit_value(const char **text)
{
    *text += strspn(*text, " ");
    static const char unlimited[] = "unlimited";
    if (str_has_prefix(*text, unlimited)) {
        *text += strlen(unlimited);
        return json_integer(-1);
    }
    char *end = NULL;
    long long value = strtoll(*text, &end, 10);
    bool good = end != *text;
    *text = end;
    return good ? json_integer(value) : json_null();
}

json_t *facts_limits(const struct fs_root *root)
{
    AUTO(free_str) char *text = NULL;
    struct err ignored = {0};
    if (fs_read_at(root, "/proc/self/limits", 65536, &text, NULL, &ignored) != 0)
        text = str_dup("");
    json_t *limits = facts_object();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *line = strstr(text, rows[i].title);
        const char *at = line ? line + strlen(rows[i].title) : "";
        jsonx_set(limits, rows[i].soft, limit_value(&at));
        jsonx_set(limits, rows[i].hard, limit_value(&at));
    }
    return limits;
}
