#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/hostlist.h"
#include "common/jsonx.h"
#include "common/units.h"
#include "common/util.h"
#include "provision/inventory_forms.h"

/* Depth of the group tree; a deeper one is a cycle or a mistake. */
enum { GROUP_DEPTH_MAX = 32, GROUP_VISITS_MAX = 100000 };

struct tree {
    const char *source;
    const json_t *raw;  /* the inventory */
    const json_t *meta; /* hostvars */
    json_t *nodes;
    size_t visits;
    struct err *err;
};

static int fail(struct tree *t, const char *where, const char *text)
{
    return err_set(t->err, ERR_USAGE, "%s: %s: %s", t->source, where, text);
}

/* Names come from a file: they must be host names, not patterns. */
static int check_name(struct tree *t, const char *name)
{
    AUTO(hostlist_release) struct hostlist list = {0};
    struct err cause = {0};
    if (hostlist_parse(name, &list, &cause) != 0)
        return err_set(t->err, ERR_USAGE, "%s: host: %s", t->source, cause.text);
    if (list.count != 1 || strcmp(list.names[0], name) != 0)
        return err_set(t->err, ERR_USAGE, "%s: host '%.60s' is not one host's name", t->source,
                       name);
    return 0;
}

static json_t *node_of(struct tree *t, const char *name)
{
    json_t *node = json_object_get(t->nodes, name);
    if (node)
        return node;
    if (check_name(t, name) != 0)
        return NULL;
    if (json_object_size(t->nodes) >= HOSTLIST_MAX_HOSTS) {
        fail(t, name, "too many hosts");
        return NULL;
    }
    node = inventory_node(NULL, NULL, 0);
    jsonx_set(t->nodes, name, node);
    return node;
}

static void add_group(json_t *node, const char *group)
{
    json_t *groups = json_object_get(node, "groups");
    size_t i;
    json_t *word;
    json_array_foreach(groups, i, word) if (strcmp(json_string_value(word), group) == 0) return;
    jsonx_append_str(groups, group);
}

/* One group above a host: its name and its variables.  "all" and "ungrouped" are Ansible's own. */
static int join(struct tree *t, const json_t *hosts, const char *group, const json_t *vars)
{
    size_t i;
    json_t *host;
    json_array_foreach(hosts, i, host)
    {
        if (!json_is_string(host))
            return fail(t, group, "hosts must be a list of names");
        json_t *node = node_of(t, json_string_value(host));
        if (!node)
            return -1;
        if (strcmp(group, "all") != 0 && strcmp(group, "ungrouped") != 0)
            add_group(node, group);
        if (vars)
            json_object_update_missing(json_object_get(node, "vars"), (json_t *)vars);
    }
    return 0;
}

static int collect(struct tree *t, const char *group, int depth, json_t *hosts);

/* Hosts of a group and of the groups below it.  Variables are taken over on the way up, so that
 * those of a child win over its parent's. */
static int collect_children(struct tree *t, const char *group, const json_t *children, int depth,
                            json_t *hosts)
{
    size_t i;
    json_t *child;
    json_array_foreach(children, i, child)
    {
        if (!json_is_string(child))
            return fail(t, group, "children must be a list of names");
        if (collect(t, json_string_value(child), depth + 1, hosts) != 0)
            return -1;
    }
    return 0;
}

static int collect(struct tree *t, const char *group, int depth, json_t *hosts)
{
    if (depth > GROUP_DEPTH_MAX || ++t->visits > GROUP_VISITS_MAX)
        return fail(t, group, "groups nest too deep; is a group its own child?");
    const json_t *entry = json_object_get(t->raw, group);
    if (!entry)
        return 0; /* ansible-inventory leaves empty groups out */
    if (!json_is_object(entry) && !json_is_array(entry))
        return fail(t, group, "a group must be a mapping or a list of hosts");
    const json_t *list = json_is_array(entry) ? entry : json_object_get(entry, "hosts");
    const json_t *vars = json_object_get(entry, "vars");
    if (list && !json_is_array(list))
        return fail(t, group, "hosts must be a list of names");
    if (vars && !json_is_object(vars))
        return fail(t, group, "vars must be a mapping");
    json_auto_t *own = json_array();
    if (list)
        json_array_extend(own, (json_t *)list);
    if (collect_children(t, group, json_object_get(entry, "children"), depth, own) != 0 ||
        join(t, own, group, vars) != 0)
        return -1;
    json_array_extend(hosts, own);
    return json_array_size(hosts) <= HOSTLIST_MAX_HOSTS * 4 ? 0 : fail(t, group, "too many hosts");
}

/* How hosts are reached: taken out of the variables. */
struct connection {
    const char *host, *user;
    int64_t port;
    bool become;
};

static bool is_true(const json_t *value)
{
    static const char *const words[] = {"yes", "true", "True", "on", "1"};
    if (json_is_boolean(value))
        return json_is_true(value);
    for (size_t i = 0; json_is_string(value) && i < ARRAY_LEN(words); i++)
        if (strcmp(json_string_value(value), words[i]) == 0)
            return true;
    return json_is_integer(value) && json_integer_value(value) == 1;
}

static int read_port(struct tree *t, const char *name, const json_t *value, int64_t *port)
{
    if (!value || json_is_null(value))
        return 0;
    AUTO(free_str)
    char *text = json_is_string(value) ? str_dup(json_string_value(value))
                                       : json_dumps(value, JSON_ENCODE_ANY);
    struct err cause = {0};
    if (units_parse_int(text ? text : "", 1, 65535, port, &cause) != 0)
        return err_set(t->err, ERR_USAGE, "%s: %s: ansible_port: %s", t->source, name, cause.text);
    return 0;
}

static int take_connection(struct tree *t, const char *name, json_t *vars, struct connection *c)
{
    static const char *const taken[] = {"ansible_host",     "ansible_ssh_host", "ansible_user",
                                        "ansible_ssh_user", "ansible_port",     "ansible_ssh_port",
                                        "ansible_become"};
    c->host = jsonx_str_or(vars, "ansible_host", jsonx_str_or(vars, "ansible_ssh_host", NULL));
    c->user = jsonx_str_or(vars, "ansible_user", jsonx_str_or(vars, "ansible_ssh_user", NULL));
    const json_t *port = json_object_get(vars, "ansible_port");
    if (read_port(t, name, port ? port : json_object_get(vars, "ansible_ssh_port"), &c->port) != 0)
        return -1;
    c->become = is_true(json_object_get(vars, "ansible_become"));
    if ((c->host && !*c->host) || (c->user && !*c->user))
        return fail(t, name, "ansible_host or ansible_user is empty");
    /* Strings are borrowed from vars: copy them out before they are deleted there. */
    json_t *node = json_object_get(t->nodes, name);
    jsonx_set_str(node, "host", c->host && strcmp(c->host, name) != 0 ? c->host : NULL);
    jsonx_set_str(node, "user", c->user);
    if (c->port > 0)
        jsonx_set_int(node, "port", c->port);
    for (size_t i = 0; i < ARRAY_LEN(taken); i++)
        json_object_del(vars, taken[i]);
    return 0;
}

static int finish_node(struct tree *t, const char *name, json_t *node, bool *all_become)
{
    const json_t *own = json_object_get(t->meta, name);
    if (own && !json_is_object(own))
        return fail(t, name, "hostvars must be a mapping");
    json_auto_t *vars = json_deep_copy(json_object_get(node, "vars"));
    if (own)
        json_object_update(vars, (json_t *)own);
    struct connection c = {0};
    if (take_connection(t, name, vars, &c) != 0)
        return -1;
    *all_become = *all_become && c.become;
    jsonx_set(node, "vars", STEAL(vars));
    return 0;
}

static int collect_all(struct tree *t)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)t->raw, name, value)
    {
        json_auto_t *hosts = json_array();
        if (strcmp(name, "_meta") != 0 && strcmp(name, "all") != 0 &&
            collect(t, name, 0, hosts) != 0)
            return -1;
    }
    /* The variables of "all" are the weakest: last. */
    json_auto_t *hosts = json_array();
    if (collect(t, "all", 0, hosts) != 0)
        return -1;
    json_object_foreach((json_t *)t->meta, name, value) if (!node_of(t, name)) return -1;
    return 0;
}

int inventory_ansible(const char *text, size_t len, const char *source, json_t **nodes,
                      const char **become, struct err *err)
{
    json_auto_t *raw = NULL;
    struct err cause = {0};
    if (jsonx_parse(text, len, source, &raw, &cause) != 0)
        return err_set(err, ERR_USAGE, "%s", cause.text);
    json_auto_t *built = json_object();
    struct tree t = {.source = source, .raw = raw, .nodes = built, .err = err};
    t.meta = json_object_get(json_object_get(raw, "_meta"), "hostvars");
    if (t.meta && !json_is_object(t.meta))
        return fail(&t, "_meta.hostvars", "must be a mapping of hosts");
    if (collect_all(&t) != 0)
        return -1;
    if (json_object_size(built) == 0)
        return err_set(err, ERR_USAGE, "%s: the inventory has no hosts", source);
    bool all_become = true;
    const char *name;
    json_t *node;
    json_object_foreach(built, name,
                        node) if (finish_node(&t, name, node, &all_become) != 0) return -1;
    if (become)
        *become = all_become ? "sudo" : "none";
    *nodes = STEAL(built);
    return 0;
}
