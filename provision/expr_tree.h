/* The tree of a compiled expression.  Internal to provision/expr*.c. */
#ifndef MUSTER_PROVISION_EXPR_TREE_H
#define MUSTER_PROVISION_EXPR_TREE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

enum expr_type {
    EXPR_LITERAL = 1, /* value */
    EXPR_LIST,        /* [args] */
    EXPR_ROOT,        /* name: member of the scope */
    EXPR_MEMBER,      /* args[0].name */
    EXPR_INDEX,       /* args[0][args[1]] */
    EXPR_CALL,        /* function(args) */
    EXPR_NOT,
    EXPR_AND,
    EXPR_OR,
    EXPR_EQ,
    EXPR_NE,
    EXPR_LT,
    EXPR_LE,
    EXPR_GT,
    EXPR_GE,
    EXPR_IN,
    EXPR_NOT_IN
};

struct expr_function;

struct expr {
    enum expr_type type;
    int column; /* from 1 */
    json_t *value;
    char *name;
    const struct expr_function *function;
    struct expr **args;
    size_t arg_count;
};

/* What a function gets: the call, for the column in messages, and its evaluated arguments. */
struct expr_call {
    const struct expr *at;
    json_t *const *args;
    size_t count;
};

struct expr_function {
    const char *name;
    size_t args;
    const char *form; /* "any(list, \"key\", value)" */
    int (*run)(const struct expr_call *call, json_t **out, struct err *err);
};

const struct expr_function *expr_function_find(const char *name);
/* Names of all functions, ends in NULL. */
const char *const *expr_function_names(void);

extern const char *const expr_roots[]; /* ends in NULL */

/* ERR_USAGE "column N: text"; always returns -1. */
int expr_fail(int column, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* == of the language: numbers by value. */
bool expr_equal(const json_t *a, const json_t *b);
/* "text", "a list", "null", ... */
const char *expr_type_text(const json_t *value);

#endif
