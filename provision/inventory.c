#include "provision/inventory.h"

#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "provision/inventory_forms.h"
#include "provision/yaml.h"

enum { LINE_SCANNED_BYTES = 4096 };

/* True when a line opens a YAML mapping or list: "key:", "- item", "---", "%YAML", "{", "&x". */
static bool is_yaml_line(const char *line, size_t len)
{
    if (len == 0 || line[0] == '#')
        return false;
    if (strchr("-%{&*!?\"'", line[0]))
        return true;
    for (size_t i = 0; i < len && i < LINE_SCANNED_BYTES; i++) {
        if (line[i] == '#' && (line[i - 1] == ' ' || line[i - 1] == '\t'))
            return false;
        if (line[i] == ':' && (i + 1 == len || line[i + 1] == ' ' || line[i + 1] == '\t'))
            return true;
    }
    return false;
}

/* The first line that says anything decides. */
static bool is_yaml(const char *text)
{
    while (*text) {
        size_t len = strcspn(text, "\r\n");
        size_t blank = strspn(text, " \t");
        if (blank < len && text[blank] != '#')
            return is_yaml_line(text + blank, len - blank);
        text += len + strspn(text + len, "\r\n");
    }
    return false;
}

static bool is_ansible(const char *text, size_t len)
{
    struct err ignored = {0};
    json_auto_t *value = NULL;
    if (jsonx_parse(text, len, "", &value, &ignored) != 0 || !json_is_object(value))
        return false;
    /* A site file has "nodes"; an inventory has "_meta", or groups with hosts or children. */
    if (json_object_get(value, "nodes") || json_object_get(value, "cluster"))
        return false;
    if (json_object_get(value, "_meta"))
        return true;
    const char *name;
    json_t *group;
    json_object_foreach(value, name,
                        group) if (json_is_array(json_object_get(group, "hosts")) ||
                                   json_is_array(json_object_get(group, "children"))) return true;
    return false;
}

enum inventory_kind inventory_recognise(const char *text, size_t len)
{
    if (text[strspn(text, " \t\r\n")] == '{')
        return is_ansible(text, len) ? INVENTORY_ANSIBLE : INVENTORY_NONE;
    return is_yaml(text) ? INVENTORY_NONE : INVENTORY_HOSTS;
}

int inventory_parse(enum inventory_kind kind, const char *text, size_t len, const char *source,
                    json_t **nodes, const char **become, struct err *err)
{
    if (kind == INVENTORY_ANSIBLE)
        return inventory_ansible(text, len, source, nodes, become, err);
    if (become)
        *become = "none";
    return inventory_hosts(text, source, nodes, err);
}
