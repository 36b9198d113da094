/* limits: what a login may lock and open, in a file of its own in /etc/security/limits.d. */
#include <stdlib.h>
#include <string.h>

#include "agents/resources/file_state.h"
#include "agents/resources/kind.h"
#include "common/jsonx.h"
#include "common/units.h"

static int check_domain(const char *id, struct err *err)
{
    const char *name = id[0] == '@' || id[0] == '%' ? id + 1 : id;
    if (strcmp(id, "*") == 0 || (kind_is_name(name, ".-") && name[0] != '-' && name[0] != '.'))
        return 0;
    return err_set(err, ERR_USAGE,
                   "'%.60s' is not a domain of limits.conf: '*', a user or '@group'", id);
}

/* memlock as limits.conf wants it: "unlimited" or KiB. */
static int parse_memlock(const json_t *params, char **out, struct err *err)
{
    const json_t *value = json_object_get(params, "memlock");
    int64_t bytes = 0;
    if (!value || (json_is_string(value) && strcmp(json_string_value(value), "unlimited") == 0)) {
        *out = str_dup("unlimited");
        return 0;
    }
    if (json_is_integer(value))
        bytes = json_integer_value(value);
    else if (!json_is_string(value))
        return err_set(
            err, ERR_USAGE,
            "memlock must be \"unlimited\", a size as in \"64GiB\" or a number of bytes");
    else if (units_parse_bytes(json_string_value(value), &bytes, err) != 0)
        return err_wrap(err, "memlock: ");
    if (bytes < 65536 || bytes % 1024 != 0)
        return err_set(err, ERR_USAGE,
                       "memlock is %lld bytes; it must be \"unlimited\" or a multiple of 1024 "
                       "bytes from 64 KiB",
                       (long long)bytes);
    *out = str_printf("%lld", (long long)(bytes / 1024));
    return 0;
}

static int parse_nofile(const struct kind_item *item, int64_t *out, struct err *err)
{
    const json_t *value = json_object_get(item->params, "nofile");
    int64_t most = fs_read_int_at(item->env->root, "/proc/sys/fs/nr_open", 1048576);
    int64_t n = 0;
    *out = 0;
    if (!value)
        return 0;
    if (json_is_string(value) && strcmp(json_string_value(value), "unlimited") == 0)
        return err_set(err, ERR_USAGE,
                       "nofile cannot be unlimited: the kernel allows at most fs.nr_open = %lld, "
                       "and a login with more fails",
                       (long long)most);
    if (json_is_integer(value))
        n = json_integer_value(value);
    else if (!json_is_string(value))
        return err_set(err, ERR_USAGE, "nofile must be an integer");
    else if (units_parse_int(json_string_value(value), INT64_MIN, INT64_MAX, &n, err) != 0)
        return err_wrap(err, "nofile: ");
    if (n < 256 || n > most)
        return err_set(err, ERR_USAGE,
                       "nofile must be 256..%lld (fs.nr_open of this node), is %lld",
                       (long long)most, (long long)n);
    *out = n;
    return 0;
}

static int check(const struct kind_item *item, char **skip, struct err *err)
{
    static const char *const keys[] = {"memlock", "nofile", NULL};
    AUTO(free_str) char *memlock = NULL;
    int64_t nofile;
    if (check_domain(item->id, err) != 0 ||
        jsonx_only_keys(item->params, "limits", keys, err) != 0 ||
        parse_memlock(item->params, &memlock, err) != 0)
        return -1;
    return parse_nofile(item, &nofile, err);
}

static char *path(const struct kind_item *item)
{
    if (strcmp(item->id, "*") == 0)
        return str_dup("/etc/security/limits.d/90-muster-all.conf");
    bool mark = item->id[0] == '@' || item->id[0] == '%';
    return str_printf("/etc/security/limits.d/90-muster-%s%s.conf", mark ? "group-" : "user-",
                      item->id + (mark ? 1 : 0));
}

static int want(const struct kind_item *item, const json_t *before, json_t **out, struct err *err)
{
    AUTO(free_str) char *memlock = NULL;
    int64_t nofile;
    if (parse_memlock(item->params, &memlock, err) != 0 || parse_nofile(item, &nofile, err) != 0)
        return -1;
    /* The wildcard does not reach root, and jobs of root's daemons need the limits too. */
    const char *const domains[] = {item->id, strcmp(item->id, "*") == 0 ? "root" : NULL};
    struct strbuf text = {0};
    strbuf_puts(&text, "# Written by muster; what is changed here is overwritten.\n");
    for (size_t i = 0; i < ARRAY_LEN(domains) && domains[i]; i++) {
        strbuf_printf(&text, "%s soft memlock %s\n%s hard memlock %s\n", domains[i], memlock,
                      domains[i], memlock);
        if (nofile > 0)
            strbuf_printf(&text, "%s soft nofile %lld\n%s hard nofile %lld\n", domains[i],
                          (long long)nofile, domains[i], (long long)nofile);
    }
    *out = file_state_own(text.data);
    strbuf_release(&text);
    return 0;
}

static char *note(const struct kind_item *item, const json_t *state)
{
    return str_dup("holds for new logins; a systemd service needs LimitMEMLOCK= and LimitNOFILE= "
                   "in its unit");
}

const struct resource_kind resource_kind_limits = {
    .name = "limits",
    .check = check,
    .path = path,
    .want = want,
    .note = note,
};
