#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "provision/expr.h"
#include "provision/expr_tree.h"

typedef int eval_fn(const struct expr *e, const json_t *scope, json_t **out, struct err *err);

bool expr_truthy(const json_t *value)
{
    switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_OBJECT:
        return json_object_size(value) > 0;
    case JSON_ARRAY:
        return json_array_size(value) > 0;
    case JSON_STRING:
        return json_string_length(value) > 0;
    case JSON_INTEGER:
        return json_integer_value(value) != 0;
    case JSON_REAL:
        return json_real_value(value) < 0 || json_real_value(value) > 0;
    case JSON_TRUE:
        return true;
    default:
        return false;
    }
}

const char *expr_type_text(const json_t *value)
{
    switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_OBJECT:
        return "a mapping";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "text";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    default:
        return "null";
    }
}

static json_t *or_null(const json_t *value)
{
    return value ? json_incref((json_t *)value) : json_null();
}

static int eval_literal(const struct expr *e, const json_t *scope, json_t **out, struct err *err)
{
    *out = json_incref(e->value);
    return 0;
}

static int eval_list(const struct expr *e, const json_t *scope, json_t **out, struct err *err)
{
    json_auto_t *list = json_array();
    for (size_t i = 0; i < e->arg_count; i++) {
        json_t *item = NULL;
        if (expr_eval(e->args[i], scope, &item, err) != 0)
            return -1;
        jsonx_append(list, item);
    }
    *out = STEAL(list);
    return 0;
}

static int eval_root(const struct expr *e, const json_t *scope, json_t **out, struct err *err)
{
    *out = or_null(json_object_get(scope, e->name));
    return 0;
}

static int eval_member(const struct expr *e, const json_t *scope, json_t **out, struct err *err)
{
    json_auto_t *of = NULL;
    if (expr_eval(e->args[0], scope, &of, err) != 0)
        return -1;
    *out = or_null(json_object_get(of, e->name));
    return 0;
}

static int eval_index(const struct expr *e, const json_t *scope, json_t **out, struct err *err)
{
    json_auto_t *of = NULL;
    json_auto_t *index = NULL;
    if (expr_eval(e->args[0], scope, &of, err) != 0 ||
        expr_eval(e->args[1], scope, &index, err) != 0)
        return -1;
    if (json_is_string(index)) {
        *out = or_null(json_object_get(of, json_string_value(index)));
        return 0;
    }
    if (!json_is_integer(index))
        return expr_fail(e->args[1]->column, err, "an index must be an integer or text, is %s",
                         expr_type_text(index));
    json_int_t i = json_integer_value(index);
    if (i < 0)
        return expr_fail(e->args[1]->column, err, "an index must not be negative");
    *out = or_null(json_array_get(of, (size_t)i));
    return 0;
}

static int eval_call(const struct expr *e, const json_t *scope, json_t **out, struct err *err)
{
    json_auto_t *list = NULL;
    if (eval_list(e, scope, &list, err) != 0)
        return -1;
    json_t **args = mem_zero(e->arg_count + 1, sizeof(json_t *));
    for (size_t i = 0; i < e->arg_count; i++)
        args[i] = json_array_get(list, i);
    const struct expr_call call = {e, args, e->arg_count};
    int rc = e->function->run(&call, out, err);
    free(args);
    return rc;
}

static int eval_not(const struct expr *e, const json_t *scope, json_t **out, struct err *err)
{
    json_auto_t *value = NULL;
    if (expr_eval(e->args[0], scope, &value, err) != 0)
        return -1;
    *out = json_boolean(!expr_truthy(value));
    return 0;
}

/* and: stops at the first false operand; or: at the first true one. */
static int eval_chain(const struct expr *e, const json_t *scope, json_t **out, struct err *err)
{
    bool stop_at = e->type == EXPR_OR;
    for (size_t i = 0; i < e->arg_count; i++) {
        json_auto_t *value = NULL;
        if (expr_eval(e->args[i], scope, &value, err) != 0)
            return -1;
        if (expr_truthy(value) == stop_at) {
            *out = json_boolean(stop_at);
            return 0;
        }
    }
    *out = json_boolean(!stop_at);
    return 0;
}

static int compare_doubles(double a, double b)
{
    return (a > b) - (a < b);
}

static int compare_numbers(const json_t *a, const json_t *b)
{
    if (json_is_integer(a) && json_is_integer(b)) {
        json_int_t x = json_integer_value(a), y = json_integer_value(b);
        return (x > y) - (x < y);
    }
    return compare_doubles(json_number_value(a), json_number_value(b));
}

bool expr_equal(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return compare_numbers(a, b) == 0;
    return json_equal(a, b);
}

static int eval_order(const struct expr *e, const json_t *a, const json_t *b, bool *out,
                      struct err *err)
{
    int order = 0;
    if (json_is_number(a) && json_is_number(b))
        order = compare_numbers(a, b);
    else if (json_is_string(a) && json_is_string(b))
        order = strcmp(json_string_value(a), json_string_value(b));
    else
        return expr_fail(e->column, err, "cannot order %s and %s (a missing path is null)",
                         expr_type_text(a), expr_type_text(b));
    switch (e->type) {
    case EXPR_LT:
        *out = order < 0;
        break;
    case EXPR_LE:
        *out = order <= 0;
        break;
    case EXPR_GT:
        *out = order > 0;
        break;
    default:
        *out = order >= 0;
        break;
    }
    return 0;
}

static int eval_in(const struct expr *e, const json_t *a, const json_t *b, bool *out,
                   struct err *err)
{
    size_t i;
    json_t *item;
    *out = false;
    if (json_is_array(b)) {
        json_array_foreach(b, i, item) *out = *out || expr_equal(a, item);
        return 0;
    }
    if (json_is_null(b))
        return 0;
    if (!json_is_string(a) || (!json_is_object(b) && !json_is_string(b)))
        return expr_fail(e->column, err, "'in' cannot look for %s in %s", expr_type_text(a),
                         expr_type_text(b));
    if (json_is_object(b))
        *out = json_object_get(b, json_string_value(a)) != NULL;
    else
        *out = strstr(json_string_value(b), json_string_value(a)) != NULL;
    return 0;
}

static int eval_comparison(const struct expr *e, const json_t *scope, json_t **out, struct err *err)
{
    json_auto_t *a = NULL;
    json_auto_t *b = NULL;
    if (expr_eval(e->args[0], scope, &a, err) != 0 || expr_eval(e->args[1], scope, &b, err) != 0)
        return -1;
    bool result = false;
    int rc = 0;
    if (e->type == EXPR_EQ || e->type == EXPR_NE)
        result = expr_equal(a, b) == (e->type == EXPR_EQ);
    else if (e->type == EXPR_IN || e->type == EXPR_NOT_IN)
        rc = eval_in(e, a, b, &result, err);
    else
        rc = eval_order(e, a, b, &result, err);
    if (rc != 0)
        return -1;
    *out = json_boolean(e->type == EXPR_NOT_IN ? !result : result);
    return 0;
}

static eval_fn *const evaluators[] = {
    [EXPR_LITERAL] = eval_literal, [EXPR_LIST] = eval_list,         [EXPR_ROOT] = eval_root,
    [EXPR_MEMBER] = eval_member,   [EXPR_INDEX] = eval_index,       [EXPR_CALL] = eval_call,
    [EXPR_NOT] = eval_not,         [EXPR_AND] = eval_chain,         [EXPR_OR] = eval_chain,
    [EXPR_EQ] = eval_comparison,   [EXPR_NE] = eval_comparison,     [EXPR_LT] = eval_comparison,
    [EXPR_LE] = eval_comparison,   [EXPR_GT] = eval_comparison,     [EXPR_GE] = eval_comparison,
    [EXPR_IN] = eval_comparison,   [EXPR_NOT_IN] = eval_comparison,
};

int expr_eval(const struct expr *e, const json_t *scope, json_t **out, struct err *err)
{
    return evaluators[e->type](e, scope, out, err);
}

int expr_test(const char *text, const json_t *scope, bool *out, struct err *err)
{
    AUTO(expr_release) struct expr *e = expr_compile(text, err);
    json_auto_t *value = NULL;
    if (!e || expr_eval(e, scope, &value, err) != 0)
        return -1;
    *out = expr_truthy(value);
    return 0;
}
