#include <stdlib.h>
#include <string.h>

#include "common/hostlist.h"
#include "common/jsonx.h"
#include "common/units.h"
#include "common/util.h"
#include "provision/inventory_forms.h"
#include "provision/source_map.h"

enum { WORD_SHOWN_BYTES = 60 };

struct list_reader {
    const char *source;
    int line;
    json_t *nodes, *lines;
};

json_t *inventory_node(const char *host, const char *user, int64_t port)
{
    json_t *node = json_object();
    jsonx_set_str(node, "host", host);
    jsonx_set_str(node, "user", user);
    jsonx_set(node, "port", port > 0 ? json_integer(port) : json_null());
    jsonx_set_str(node, "hardware", NULL);
    jsonx_set(node, "playbooks", json_null());
    jsonx_set(node, "vars", json_object());
    jsonx_set(node, "groups", json_array());
    return node;
}

static int fail(const struct list_reader *r, struct err *err, const char *text)
{
    return err_set(err, ERR_USAGE, "%s:%d: %s", r->source, r->line, text);
}

static int add(struct list_reader *r, const char *name, const char *user, int64_t port,
               struct err *err)
{
    if (json_object_get(r->nodes, name))
        return err_set(err, ERR_USAGE, "%s:%d: node '%s' is given twice, first in line %lld",
                       r->source, r->line, name, (long long)jsonx_int_or(r->lines, name, 0));
    if (json_object_size(r->nodes) >= HOSTLIST_MAX_HOSTS)
        return fail(r, err, "too many hosts");
    jsonx_set(r->nodes, name, inventory_node(NULL, user, port));
    jsonx_set_int(r->lines, name, r->line);
    return 0;
}

/* "/etc/hosts" and Ansible's INI form look like lists of hosts, and are not. */
static int check_form(const struct list_reader *r, const char *line, struct err *err)
{
    if (*line == '[')
        return fail(r, err,
                    "this looks like an Ansible INI inventory; give muster the output of "
                    "'ansible-inventory --list'");
    if (strstr(line, ": ") || str_has_suffix(line, ":"))
        return fail(r, err,
                    "this looks like YAML, but the first line of the file is not 'KEY: VALUE', "
                    "so it is read as a list of hosts");
    if (strchr(line, '='))
        return fail(r, err, "a host list has no key=value; write USER@HOST:PORT, or a site file");
    size_t first = strspn(line, "0123456789.");
    bool address = first > 6 && (line[first] == ' ' || line[first] == '\t');
    if (address && line[first + strspn(line + first, " \t")] != '\0')
        return fail(r, err,
                    "this looks like /etc/hosts (ADDRESS NAME); write one host a line, or "
                    "a site file with host: ADDRESS");
    return 0;
}

static char *word_at(const char *line, size_t *len)
{
    int depth = 0;
    size_t i = 0;
    for (; line[i]; i++) {
        depth += line[i] == '[';
        depth -= line[i] == ']';
        if (depth <= 0 && strchr(", \t", line[i]))
            break;
    }
    *len = i;
    return str_printf("%.*s", (int)i, line);
}

/* USER@HOSTS:PORT, both ends optional. */
static int add_word(struct list_reader *r, char *word, struct err *err)
{
    char *hosts = word;
    const char *user = NULL;
    int64_t port = 0;
    char *at = strchr(word, '@');
    if (at) {
        *at = '\0';
        user = word;
        hosts = at + 1;
        if (!*user || user[strspn(user, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                        "0123456789-_.")])
            return fail(r, err, "the part before '@' is not a user name");
    }
    char *colon = strrchr(hosts, ':');
    struct err cause = {0};
    if (colon) {
        *colon = '\0';
        if (units_parse_int(colon + 1, 1, 65535, &port, &cause) != 0)
            return err_set(err, ERR_USAGE, "%s:%d: port: %s", r->source, r->line, cause.text);
    }
    AUTO(hostlist_release) struct hostlist list = {0};
    if (hostlist_parse(hosts, &list, &cause) != 0)
        return fail(r, err, cause.text);
    if (list.count == 0)
        return fail(r, err, "a host name is missing");
    for (size_t i = 0; i < list.count; i++)
        if (add(r, list.names[i], user, port, err) != 0)
            return -1;
    return 0;
}

static int add_line(struct list_reader *r, char *line, struct err *err)
{
    for (char *c = line; *c; c++)
        if (*c == '#' && (c == line || c[-1] == ' ' || c[-1] == '\t'))
            *c-- = '\0';
    line += strspn(line, " \t");
    if (check_form(r, line, err) != 0)
        return -1;
    while (*line) {
        line += strspn(line, ", \t");
        if (!*line)
            break;
        size_t len = 0;
        AUTO(free_str) char *word = word_at(line, &len);
        if (add_word(r, word, err) != 0)
            return -1;
        line += len;
    }
    return 0;
}

int inventory_hosts(const char *text, const char *source, json_t **nodes, struct err *err)
{
    json_auto_t *built = json_object();
    json_auto_t *lines = json_object();
    struct list_reader r = {source, 0, built, lines};
    while (*text) {
        size_t len = strcspn(text, "\n");
        AUTO(free_str) char *line = str_printf("%.*s", (int)len, text);
        if (len > 0 && line[len - 1] == '\r')
            line[len - 1] = '\0';
        r.line++;
        if (add_line(&r, line, err) != 0)
            return -1;
        text += len + (text[len] == '\n');
    }
    if (json_object_size(built) == 0)
        return err_set(err, ERR_USAGE, "%s: names no host", source);
    *nodes = STEAL(built);
    return 0;
}
