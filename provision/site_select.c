#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "provision/site.h"
#include "provision/site_parts.h"

static int by_version(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    int order = strverscmp(*x, *y);
    return order ? order : strcmp(*x, *y);
}

void site_node_names(const json_t *site, struct hostlist *list)
{
    const char *name;
    json_t *node;
    json_object_foreach(json_object_get(site, "nodes"), name, node) hostlist_add(list, name);
    if (list->count > 1)
        qsort(list->names, list->count, sizeof *list->names, by_version);
}

/* Set of names as an object, so that the same node twice is one. */
static void mark(json_t *set, const char *name, bool take)
{
    if (take)
        jsonx_set_bool(set, name, true);
    else
        json_object_del(set, name);
}

static int mark_group(const json_t *nodes, const char *group, bool take, json_t *set,
                      struct err *err)
{
    bool found = false;
    const char *name;
    json_t *node;
    json_object_foreach((json_t *)nodes, name, node)
    {
        size_t i;
        json_t *word;
        json_array_foreach(json_object_get(node, "groups"), i, word)
        {
            if (strcmp(json_string_value(word), group) != 0)
                continue;
            found = true;
            mark(set, name, take);
        }
    }
    return found ? 0 : err_set(err, ERR_USAGE, "the site has no group '%.60s'", group);
}

static int mark_hosts(const json_t *nodes, const char *text, bool take, json_t *set,
                      struct err *err)
{
    AUTO(hostlist_release) struct hostlist hosts = {0};
    struct err cause = {0};
    if (hostlist_parse(text, &hosts, &cause) != 0)
        return err_set(err, ERR_USAGE, "%s", cause.text);
    for (size_t i = 0; i < hosts.count; i++) {
        if (!json_object_get(nodes, hosts.names[i])) {
            AUTO(free_str) char *hint = site_node_hint(nodes, hosts.names[i]);
            return err_set(err, ERR_USAGE, "'%s' is not a node of this site%s", hosts.names[i],
                           hint);
        }
        mark(set, hosts.names[i], take);
    }
    return 0;
}

static int mark_word(const json_t *nodes, const char *word, json_t *set, struct err *err)
{
    bool take = *word != '-';
    word += !take;
    if (*word == '@')
        return mark_group(nodes, word + 1, take, set, err);
    if (strcmp(word, "all") != 0)
        return mark_hosts(nodes, word, take, set, err);
    const char *name;
    json_t *node;
    json_object_foreach((json_t *)nodes, name, node) mark(set, name, take);
    return 0;
}

/* Length of the word at text: up to a separator outside brackets. */
static size_t word_len(const char *text)
{
    int depth = 0;
    size_t i = 0;
    for (; text[i]; i++) {
        if (text[i] == '[')
            depth++;
        else if (text[i] == ']')
            depth--;
        else if (depth <= 0 && strchr(", \t\n", text[i]))
            break;
    }
    return i;
}

int site_select(const json_t *site, const char *text, struct hostlist *list, struct err *err)
{
    const json_t *nodes = json_object_get(site, "nodes");
    json_auto_t *set = json_object();
    for (const char *at = text; *at;) {
        at += strspn(at, ", \t\n");
        size_t len = word_len(at);
        if (len == 0)
            break;
        AUTO(free_str) char *word = str_printf("%.*s", (int)len, at);
        if (mark_word(nodes, word, set, err) != 0)
            return -1;
        at += len;
    }
    if (json_object_size(set) == 0)
        return err_set(err, ERR_USAGE, "'%.60s' selects no node", text);
    json_auto_t *chosen = json_pack("{s:O}", "nodes", set);
    site_node_names(chosen, list);
    return 0;
}
