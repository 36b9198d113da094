/* sysctl: a value of the running kernel, and its line in /etc/sysctl.d. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agents/resources/file_state.h"
#include "agents/resources/kind.h"
#include "common/jsonx.h"

/* Runs of blanks are one blank: the kernel prints tabs where people write spaces. */
static char *squeeze(const char *text)
{
    struct strbuf out = {0};
    strbuf_puts(&out, "");
    while (*text) {
        size_t blanks = strspn(text, " \t\r\n");
        text += blanks;
        size_t n = strcspn(text, " \t\r\n");
        if (n > 0 && out.len > 0)
            strbuf_puts(&out, " ");
        strbuf_add(&out, text, n);
        text += n;
    }
    return out.data;
}

static int check_key(const char *key, struct err *err)
{
    if (!kind_is_name(key, ".-/:@") || key[0] == '.' || key[0] == '/' || key[0] == '-')
        return err_set(err, ERR_USAGE,
                       "'%.80s' is not a sysctl key; write it as in net.core.rmem_max", key);
    size_t len = strlen(key);
    if (strstr(key, "..") || strstr(key, "//") || strstr(key, "/./") || key[len - 1] == '.' ||
        key[len - 1] == '/')
        return err_set(err, ERR_USAGE,
                       "the sysctl key '%.80s' has an empty part; write it as in "
                       "net.core.rmem_max",
                       key);
    return 0;
}

/* As sysctl(8) reads keys: the separator that comes first separates, the other one is swapped, so
 * that net/ipv4/conf/eth0.100/forwarding and net.ipv4.conf.eth0/100.forwarding are the same. */
static char *knob_path(const char *key)
{
    size_t first = strcspn(key, "./");
    bool dots = key[first] == '.';
    char *path = str_printf("/proc/sys/%s", key);
    for (char *p = path + strlen("/proc/sys/"); dots && *p; p++) {
        if (*p == '.')
            *p = '/';
        else if (*p == '/')
            *p = '.';
    }
    return path;
}

static int parse_value(const json_t *params, char **out, struct err *err)
{
    const json_t *value = json_object_get(params, "value");
    if (json_is_integer(value)) {
        *out = str_printf("%lld", (long long)json_integer_value(value));
        return 0;
    }
    if (!json_is_string(value))
        return err_set(err, ERR_USAGE, "'value' must be given, as a text or an integer%s",
                       json_is_real(value) ? "; two settings run together?" : "");
    const char *text = json_string_value(value);
    for (const char *p = text; *p; p++) {
        if (*p != '\t' && (unsigned char)*p < 0x20)
            return err_set(err, ERR_USAGE, "the value holds a newline or a control character");
    }
    char *squeezed = squeeze(text);
    if (squeezed[0] == '\0') {
        free(squeezed);
        return err_set(err, ERR_USAGE, "the value is empty");
    }
    *out = squeezed;
    return 0;
}

static int check(const struct kind_item *item, char **skip, struct err *err)
{
    static const char *const keys[] = {"value", "persist", NULL};
    AUTO(free_str) char *value = NULL;
    bool persist = true;
    if (check_key(item->id, err) != 0 || jsonx_only_keys(item->params, "sysctl", keys, err) != 0 ||
        jsonx_opt_bool(item->params, "sysctl", "persist", &persist, err) != 0)
        return -1;
    return parse_value(item->params, &value, err);
}

static char *path(const struct kind_item *item)
{
    char *file = str_printf("/etc/sysctl.d/90-muster-%s.conf", item->id);
    for (char *p = file + strlen("/etc/sysctl.d/"); *p; p++) {
        if (*p == '/')
            *p = '.';
    }
    return file;
}

static int read_value(const struct kind_item *item, char **out, struct err *err)
{
    AUTO(free_str) char *knob = knob_path(item->id);
    AUTO(free_str) char *text = NULL;
    if (!fs_exists_at(item->env->root, knob))
        return err_set(err, ERR_ENV,
                       "the kernel has no sysctl %s (%s does not exist); is its module loaded?",
                       item->id, knob);
    if (fs_read_at(item->env->root, knob, 65536, &text, NULL, err) != 0)
        return -1;
    *out = squeeze(text);
    return 0;
}

static int read_state(const struct kind_item *item, json_t **state, struct err *err)
{
    AUTO(free_str) char *value = NULL;
    AUTO(free_str) char *file = path(item);
    json_t *kept = NULL;
    if (check_key(item->id, err) != 0 || read_value(item, &value, err) != 0 ||
        file_state_read(item->env, file, &kept, err) != 0)
        return -1;
    *state = json_object();
    jsonx_set_str(*state, "value", value);
    jsonx_set(*state, "file", kept);
    return 0;
}

static int want(const struct kind_item *item, const json_t *before, json_t **out, struct err *err)
{
    AUTO(free_str) char *value = NULL;
    if (parse_value(item->params, &value, err) != 0)
        return -1;
    AUTO(free_str)
    char *text = str_printf("# Written by muster; what is changed here is overwritten.\n%s = %s\n",
                            item->id, value);
    bool persist = jsonx_bool_or(item->params, "persist", true);
    *out = json_object();
    jsonx_set_str(*out, "value", value);
    jsonx_set(*out, "file", persist ? file_state_own(text) : file_state_absent());
    return 0;
}

/* In one write(2).  /proc does not mind O_TRUNC, and a captured tree needs it. */
static int write_knob(const char *path, const char *value, struct err *err)
{
    AUTO(close_fd) int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (fd < 0)
        return err_set_errno(err, ERR_ENV, errno, "cannot open %s", path);
    size_t len = strlen(value);
    ssize_t n = write(fd, value, len);
    if (n < 0)
        return err_set_errno(err, ERR_ENV, errno, "cannot write %s", path);
    if ((size_t)n != len)
        return err_set(err, ERR_ENV, "%s took %zd of %zu bytes", path, n, len);
    return 0;
}

/* The kernel may take a write and keep another value; only reading back tells. */
static int write_value(const struct kind_item *item, const char *value, struct err *err)
{
    AUTO(free_str) char *knob = knob_path(item->id);
    AUTO(free_str) char *now = NULL;
    AUTO(free_str) char *after = NULL;
    char joined[4096];
    if (read_value(item, &now, err) != 0 || !now)
        return -1;
    if (strcmp(now, value) == 0)
        return 0;
    if (fs_join(item->env->root, knob, joined, err) != 0 || write_knob(joined, value, err) != 0)
        return err_wrap(err, "the kernel refused %s = %.80s: ", item->id, value);
    kind_step(item->env, "sysctl.write");
    if (read_value(item, &after, err) != 0 || !after)
        return -1;
    if (strcmp(after, value) != 0)
        return err_set(err, ERR_ENV, "%s was set to '%.80s' and reads back as '%.80s'", item->id,
                       value, after);
    return 0;
}

static int apply(const struct kind_item *item, const json_t *state, struct err *err)
{
    AUTO(free_str) char *file = path(item);
    const char *value;
    const json_t *kept;
    if (check_key(item->id, err) != 0 ||
        jsonx_get_str(state, "sysctl", "value", &value, err) != 0 ||
        jsonx_get_obj(state, "sysctl", "file", &kept, err) != 0 ||
        write_value(item, value, err) != 0)
        return -1;
    return file_state_apply(item->env, file, kept, err);
}

const struct resource_kind resource_kind_sysctl = {
    .name = "sysctl",
    .check = check,
    .path = path,
    .read = read_state,
    .want = want,
    .apply = apply,
};
