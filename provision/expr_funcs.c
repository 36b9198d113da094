#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "provision/expr.h"
#include "provision/expr_tree.h"

static int wrong(const struct expr_call *call, size_t arg, const char *wanted, struct err *err)
{
    return expr_fail(call->at->column, err, "%s: argument %zu must be %s, is %s",
                     call->at->function->form, arg + 1, wanted, expr_type_text(call->args[arg]));
}

static int run_len(const struct expr_call *call, json_t **out, struct err *err)
{
    const json_t *v = call->args[0];
    if (json_is_null(v))
        *out = json_integer(0);
    else if (json_is_array(v))
        *out = json_integer((json_int_t)json_array_size(v));
    else if (json_is_object(v))
        *out = json_integer((json_int_t)json_object_size(v));
    else if (json_is_string(v))
        *out = json_integer((json_int_t)json_string_length(v));
    else
        return wrong(call, 0, "a list, a mapping or text", err);
    return 0;
}

static int run_defined(const struct expr_call *call, json_t **out, struct err *err)
{
    *out = json_boolean(!json_is_null(call->args[0]));
    return 0;
}

static int run_default(const struct expr_call *call, json_t **out, struct err *err)
{
    *out = json_incref(call->args[json_is_null(call->args[0]) ? 1 : 0]);
    return 0;
}

/* Numbers of a version, one after the other; words between them only separate. */
static bool next_number(const char **s, unsigned long *n)
{
    while (**s && !isdigit((unsigned char)**s))
        (*s)++;
    if (!**s)
        return false;
    char *rest = NULL;
    *n = strtoul(*s, &rest, 10);
    *s = rest;
    return true;
}

static bool version_at_least(const char *a, const char *b)
{
    for (;;) {
        unsigned long x = 0, y = 0;
        bool more = next_number(&b, &y);
        if (!more)
            return true;
        next_number(&a, &x); /* a shorter version goes on with zeros */
        if (x != y)
            return x > y;
    }
}

static int run_version(const struct expr_call *call, json_t **out, struct err *err)
{
    if (json_is_null(call->args[0])) {
        *out = json_false(); /* not known is not enough */
        return 0;
    }
    for (size_t i = 0; i < 2; i++)
        if (!json_is_string(call->args[i]))
            return wrong(call, i, "text like \"5.12\" (quote it)", err);
    *out = json_boolean(
        version_at_least(json_string_value(call->args[0]), json_string_value(call->args[1])));
    return 0;
}

/* Items of a list that are mappings with this value under the key. */
static int select_items(const struct expr_call *call, json_t *found, struct err *err)
{
    if (json_is_null(call->args[0]))
        return 0;
    if (!json_is_array(call->args[0]))
        return wrong(call, 0, "a list", err);
    if (!json_is_string(call->args[1]))
        return wrong(call, 1, "a key in quotes", err);
    size_t i;
    json_t *item;
    json_array_foreach(call->args[0], i, item)
    {
        const json_t *value = json_object_get(item, json_string_value(call->args[1]));
        if (value && expr_equal(value, call->args[2]))
            jsonx_append(found, json_incref(item));
    }
    return 0;
}

static int run_where(const struct expr_call *call, json_t **out, struct err *err)
{
    json_auto_t *found = json_array();
    if (select_items(call, found, err) != 0)
        return -1;
    *out = STEAL(found);
    return 0;
}

static int run_any(const struct expr_call *call, json_t **out, struct err *err)
{
    json_auto_t *found = json_array();
    if (select_items(call, found, err) != 0)
        return -1;
    *out = json_boolean(json_array_size(found) > 0);
    return 0;
}

static int run_pluck(const struct expr_call *call, json_t **out, struct err *err)
{
    if (!json_is_array(call->args[0]) && !json_is_null(call->args[0]))
        return wrong(call, 0, "a list", err);
    if (!json_is_string(call->args[1]))
        return wrong(call, 1, "a key in quotes", err);
    json_auto_t *list = json_array();
    size_t i;
    json_t *item;
    json_array_foreach(call->args[0], i, item)
    {
        json_t *value = json_object_get(item, json_string_value(call->args[1]));
        if (value && !json_is_null(value))
            jsonx_append(list, json_incref(value));
    }
    *out = STEAL(list);
    return 0;
}

static int run_join(const struct expr_call *call, json_t **out, struct err *err)
{
    if (!json_is_array(call->args[0]))
        return wrong(call, 0, "a list", err);
    if (!json_is_string(call->args[1]))
        return wrong(call, 1, "text", err);
    AUTO(strbuf_release) struct strbuf b = {0};
    strbuf_puts(&b, "");
    size_t i;
    json_t *item;
    json_array_foreach(call->args[0], i, item)
    {
        if (i > 0)
            strbuf_puts(&b, json_string_value(call->args[1]));
        if (json_is_string(item)) {
            strbuf_puts(&b, json_string_value(item));
        } else if (json_is_integer(item)) {
            strbuf_printf(&b, "%" JSON_INTEGER_FORMAT, json_integer_value(item));
        } else {
            return wrong(call, 0, "a list of texts or integers", err);
        }
    }
    *out = json_string(b.data);
    return 0;
}

/* Name, then the row; the names alone are kept for "did you mean". */
#define FUNCTIONS(ROW)                                                                             \
    ROW("len", 1, "len(x)", run_len)                                                               \
    ROW("defined", 1, "defined(path)", run_defined)                                                \
    ROW("default", 2, "default(x, y)", run_default)                                                \
    ROW("version_at_least", 2, "version_at_least(a, b)", run_version)                              \
    ROW("any", 3, "any(list, \"key\", value)", run_any)                                            \
    ROW("where", 3, "where(list, \"key\", value)", run_where)                                      \
    ROW("pluck", 2, "pluck(list, \"key\")", run_pluck)                                             \
    ROW("join", 2, "join(list, \",\")", run_join)
#define AS_ROW(name, args, form, run) {name, args, form, run},
#define AS_NAME(name, args, form, run) name,

static const struct expr_function functions[] = {FUNCTIONS(AS_ROW)};
static const char *const names[] = {FUNCTIONS(AS_NAME) NULL};

const struct expr_function *expr_function_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(functions); i++)
        if (strcmp(functions[i].name, name) == 0)
            return &functions[i];
    return NULL;
}

const char *const *expr_function_names(void)
{
    return names;
}
