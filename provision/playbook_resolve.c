#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "provision/expr.h"
#include "provision/playbook_parts.h"
#include "provision/template.h"

/* The node that is being resolved. */
struct resolver {
    const json_t *site;
    const char *node;
    const json_t *entry; /* of the node in the site */
    const json_t *facts;
    const json_t *book; /* current playbook */
    json_t *resources, *skipped;
};

static int fail(const struct resolver *r, const json_t *resource, const char *param,
                const struct err *cause, struct err *err)
{
    return err_set(err, ERR_USAGE, "%s:%lld: %s %s on %s: %s%s%s",
                   jsonx_str_or(r->book, "path", ""), (long long)jsonx_int_or(resource, "line", 0),
                   jsonx_str_or(resource, "kind", ""), jsonx_str_or(resource, "id", ""), r->node,
                   param, *param ? ": " : "", cause->text);
}

/* What expressions see: playbook's variables under the site's under the node's. */
static json_t *make_scope(const struct resolver *r)
{
    json_t *scope = json_object();
    json_t *vars = json_copy(json_object_get(r->book, "vars"));
    json_object_update(vars, json_object_get(r->site, "vars"));
    json_object_update(vars, json_object_get(r->entry, "vars"));
    json_t *node = json_object();
    jsonx_set_str(node, "name", r->node);
    jsonx_set(node, "hardware", json_incref(json_object_get(r->entry, "hardware")));
    jsonx_set(node, "groups", json_incref(json_object_get(r->entry, "groups")));
    jsonx_set(scope, "vars", vars);
    jsonx_set(scope, "node", node);
    jsonx_set(scope, "facts", json_incref((json_t *)r->facts));
    jsonx_set(scope, "fabric", json_incref(json_object_get(r->site, "fabric")));
    return scope;
}

static json_t *make_row(const struct resolver *r, const json_t *resource, json_t *id)
{
    json_t *row = json_object();
    jsonx_set(row, "kind", json_incref(json_object_get(resource, "kind")));
    jsonx_set(row, "id", json_incref(id));
    jsonx_set(row, "playbook", json_incref(json_object_get(r->book, "name")));
    return row;
}

static void skip(struct resolver *r, const json_t *resource)
{
    json_t *row = make_row(r, resource, json_object_get(resource, "id"));
    AUTO(free_str)
    char *reason = str_printf("when: %s is false here", jsonx_str_or(resource, "when", ""));
    jsonx_set_str(row, "reason", reason);
    jsonx_append(r->skipped, row);
}

/* Parameters that are sets of lines in one file: two playbooks may each bring their own. */
static const struct {
    const char *kind, *param;
} unions[] = {{"env_file", "set"}, {"modprobe_options", "options"}};

static const char *union_param(const char *kind)
{
    for (size_t i = 0; i < ARRAY_LEN(unions); i++)
        if (strcmp(unions[i].kind, kind) == 0)
            return unions[i].param;
    return NULL;
}

/* Add the lines of `from` to `into`.  Returns the name that both have with another value, or NULL.
 */
static const char *merge(json_t *into, const json_t *from)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)from, key, value)
    {
        const json_t *other = json_object_get(into, key);
        if (other && !json_equal(other, value))
            return key;
        jsonx_set(into, key, json_incref(value));
    }
    return NULL;
}

static int conflict(const struct resolver *r, const json_t *resource, const json_t *other,
                    const char *what, struct err *err)
{
    struct err cause = {0};
    err_set(&cause, ERR_USAGE, "playbooks '%s' and '%s' want %s differently",
            jsonx_str_or(other, "playbook", ""), jsonx_str_or(r->book, "name", ""),
            what ? what : "it");
    return fail(r, resource, "", &cause, err);
}

/* The same thing twice is one resource; with other parameters it has no answer, unless both only
 * add lines to one file. */
static int join(struct resolver *r, const json_t *resource, const json_t *other, const json_t *row,
                struct err *err)
{
    json_t *had = json_object_get(other, "params");
    const json_t *asked = json_object_get(row, "params");
    if (json_equal(had, asked))
        return 0;
    const char *param = union_param(jsonx_str_or(row, "kind", ""));
    if (!param)
        return conflict(r, resource, other, NULL, err);
    json_auto_t *rest_had = json_copy(had);
    json_auto_t *rest_asked = json_copy((json_t *)asked);
    json_object_del(rest_had, param);
    json_object_del(rest_asked, param);
    if (!json_equal(rest_had, rest_asked))
        return conflict(r, resource, other, NULL, err);
    const char *key = merge(json_object_get(had, param), json_object_get(asked, param));
    return key ? conflict(r, resource, other, key, err) : 0;
}

static int add(struct resolver *r, const json_t *resource, const json_t *row, struct err *err)
{
    size_t i;
    json_t *other;
    json_array_foreach(
        r->resources, i,
        other) if (json_equal(json_object_get(other, "kind"), json_object_get(row, "kind")) &&
                   json_equal(json_object_get(other, "id"),
                              json_object_get(row, "id"))) return join(r, resource, other, row,
                                                                       err);
    jsonx_append(r->resources, json_incref((json_t *)row));
    return 0;
}

static int expand_id(const struct resolver *r, const json_t *resource, const json_t *scope,
                     json_t **id, struct err *err)
{
    struct err cause = {0};
    json_auto_t *expanded = NULL;
    if (template_expand(json_object_get(resource, "id"), scope, &expanded, &cause) != 0)
        return fail(r, resource, "", &cause, err);
    if (!json_is_string(expanded) || !*json_string_value(expanded)) {
        err_set(&cause, ERR_USAGE, "the id expands to something that is not text");
        return fail(r, resource, "", &cause, err);
    }
    *id = STEAL(expanded);
    return 0;
}

static int resolve_one(struct resolver *r, const json_t *resource, const json_t *scope,
                       struct err *err)
{
    struct err cause = {0};
    const char *when = jsonx_str_or(resource, "when", NULL), *param = "";
    bool wanted = true;
    if (when && expr_test(when, scope, &wanted, &cause) != 0)
        return fail(r, resource, "when", &cause, err);
    if (!wanted) {
        skip(r, resource);
        return 0;
    }
    json_auto_t *id = NULL;
    json_auto_t *expanded = NULL;
    json_auto_t *params = NULL;
    if (expand_id(r, resource, scope, &id, err) != 0)
        return -1;
    if (template_expand(json_object_get(resource, "params"), scope, &expanded, &cause) != 0)
        return fail(r, resource, "", &cause, err);
    if (playbook_params(jsonx_str_or(resource, "kind", ""), expanded, false, &params, &param,
                        &cause) != 0)
        return fail(r, resource, param, &cause, err);
    json_auto_t *row = make_row(r, resource, id);
    jsonx_set(row, "params", STEAL(params));
    return add(r, resource, row, err);
}

static int resolve_book(struct resolver *r, struct err *err)
{
    json_auto_t *scope = make_scope(r);
    size_t i;
    json_t *resource;
    json_array_foreach(json_object_get(r->book, "resources"), i,
                       resource) if (resolve_one(r, resource, scope, err) != 0) return -1;
    return 0;
}

int playbook_resolve(const struct playbook_set *set, const json_t *site, const char *node,
                     const json_t *facts, json_t **resources, json_t **skipped, struct err *err)
{
    json_auto_t *wanted = json_array();
    json_auto_t *left_out = json_array();
    struct resolver r = {.site = site,
                         .node = node,
                         .entry = json_object_get(json_object_get(site, "nodes"), node),
                         .facts = facts,
                         .resources = wanted,
                         .skipped = left_out};
    if (!r.entry)
        return err_set(err, ERR_USAGE, "'%s' is not a node of this site", node);
    size_t i;
    json_t *name;
    json_array_foreach(json_object_get(r.entry, "playbooks"), i, name)
    {
        r.book = json_object_get(set->books, json_string_value(name));
        if (!r.book)
            return err_set(err, ERR_USAGE, "playbook '%s' of node '%s' was not loaded",
                           json_string_value(name), node);
        if (resolve_book(&r, err) != 0)
            return -1;
    }
    *resources = STEAL(wanted);
    if (skipped)
        *skipped = STEAL(left_out);
    return 0;
}
