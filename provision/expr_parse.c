#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/units.h"
#include "common/util.h"
#include "provision/expr.h"
#include "provision/expr_tree.h"

enum { WORD_SHOWN_BYTES = 40, ARGS_MAX = 256 };

const char *const expr_roots[] = {"facts", "vars", "fabric", "node", NULL};

struct parser {
    const char *text;
    const char *at; /* first character of the current token */
    size_t len;     /* of the current token; 0 at the end */
    int depth;
    struct err *err;
};

int expr_fail(int column, struct err *err, const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int len = vasprintf(&text, fmt, args);
    va_end(args);
    if (len < 0)
        abort();
    AUTO(free_str) char *owned = text;
    return err_set(err, ERR_USAGE, "column %d: %s", column, owned);
}

void expr_destroy(struct expr *e)
{
    if (!e)
        return;
    for (size_t i = 0; i < e->arg_count; i++)
        expr_destroy(e->args[i]);
    free(e->args);
    free(e->name);
    json_decref(e->value);
    free(e);
}

void expr_release(struct expr **e)
{
    expr_destroy(*e);
    *e = NULL;
}

static int column(const struct parser *p)
{
    return (int)(p->at - p->text) + 1;
}

static bool is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Length of the token at s: a quoted text with its quotes, a number, a word or an operator. */
static size_t token_len(const char *s)
{
    if (*s == '"' || *s == '\'') {
        size_t i = 1;
        while (s[i] && s[i] != *s)
            i += s[i] == '\\' && s[i + 1] ? 2 : 1;
        return s[i] ? i + 1 : i;
    }
    if (isdigit((unsigned char)*s) || (*s == '-' && isdigit((unsigned char)s[1]))) {
        size_t i = 1;
        while (is_word_char(s[i]) || s[i] == '.')
            i++;
        return i;
    }
    if (is_word_char(*s)) {
        size_t i = 1;
        while (is_word_char(s[i]))
            i++;
        return i;
    }
    bool two = (strchr("=!<>", *s) && s[1] == '=') || (strchr("&|", *s) && s[1] == *s);
    return two ? 2 : 1;
}

static void advance(struct parser *p)
{
    p->at += p->len;
    p->at += strspn(p->at, " \t\r\n");
    p->len = *p->at ? token_len(p->at) : 0;
}

static bool is(const struct parser *p, const char *token)
{
    return p->len == strlen(token) && strncmp(p->at, token, p->len) == 0;
}

static bool accept(struct parser *p, const char *token)
{
    if (!is(p, token))
        return false;
    advance(p);
    return true;
}

static int fail_token(const struct parser *p, const char *wanted)
{
    if (p->len == 0)
        return expr_fail(column(p), p->err, "%s is missing at the end", wanted);
    if (is(p, "="))
        return expr_fail(column(p), p->err, "'=' is no operator; write '=='");
    if (is(p, "&&") || is(p, "||") || is(p, "!"))
        return expr_fail(column(p), p->err, "write 'and', 'or' and 'not'");
    int shown = p->len < WORD_SHOWN_BYTES ? (int)p->len : WORD_SHOWN_BYTES;
    return expr_fail(column(p), p->err, "%s is meant here, not '%.*s'", wanted, shown, p->at);
}

static struct expr *make(enum expr_type type, int col)
{
    struct expr *e = mem_zero(1, sizeof *e);
    e->type = type;
    e->column = col;
    return e;
}

static void add_arg(struct expr *e, struct expr *arg)
{
    e->args = mem_grow(e->args, e->arg_count + 1, sizeof *e->args);
    e->args[e->arg_count++] = arg;
}

static struct expr *parse_or(struct parser *p);

/* A nested expression, with the depth counted. */
static struct expr *parse_inner(struct parser *p)
{
    if (p->depth >= EXPR_MAX_DEPTH) {
        expr_fail(column(p), p->err, "nested more than %d levels deep", EXPR_MAX_DEPTH);
        return NULL;
    }
    p->depth++;
    struct expr *e = parse_or(p);
    p->depth--;
    return e;
}

static struct expr *parse_number(struct parser *p)
{
    AUTO(free_str) char *text = str_printf("%.*s", (int)p->len, p->at);
    char *rest = NULL;
    int64_t integer = 0;
    struct err ignored = {0};
    struct expr *e = make(EXPR_LITERAL, column(p));
    if (units_parse_int(text, INT64_MIN, INT64_MAX, &integer, &ignored) == 0) {
        e->value = json_integer(integer);
    } else {
        double real = strtod(text, &rest);
        /* json_real() refuses what is not finite. */
        e->value = *rest == '\0' && text[strcspn(text, "xXpPnN")] == '\0' ? json_real(real) : NULL;
    }
    if (!e->value) {
        expr_fail(column(p), p->err, "'%.*s' is not a number; quote text", WORD_SHOWN_BYTES, text);
        expr_destroy(e);
        return NULL;
    }
    advance(p);
    return e;
}

static struct expr *parse_text(struct parser *p)
{
    char quote = *p->at;
    if (p->len < 2 || p->at[p->len - 1] != quote) {
        expr_fail(column(p), p->err, "the quote that opens here is not closed");
        return NULL;
    }
    AUTO(strbuf_release) struct strbuf b = {0};
    strbuf_puts(&b, "");
    for (size_t i = 1; i + 1 < p->len; i++) {
        if (p->at[i] == '\\')
            i++;
        strbuf_add(&b, &p->at[i], 1);
    }
    struct expr *e = make(EXPR_LITERAL, column(p));
    e->value = json_string(b.data);
    if (!e->value) {
        expr_fail(column(p), p->err, "text is not valid UTF-8");
        expr_destroy(e);
        return NULL;
    }
    advance(p);
    return e;
}

/* Expressions up to the closing token. */
static int parse_args(struct parser *p, struct expr *e, const char *close)
{
    if (accept(p, close))
        return 0;
    for (;;) {
        struct expr *arg = parse_inner(p);
        if (!arg)
            return -1;
        add_arg(e, arg);
        if (e->arg_count > ARGS_MAX)
            return expr_fail(column(p), p->err, "more than %d items", ARGS_MAX);
        if (accept(p, close))
            return 0;
        if (!accept(p, ","))
            return fail_token(p, strcmp(close, "]") == 0 ? "',' or ']'" : "',' or ')'");
    }
}

static struct expr *parse_list(struct parser *p)
{
    struct expr *e = make(EXPR_LIST, column(p));
    advance(p);
    if (parse_args(p, e, "]") == 0)
        return e;
    expr_destroy(e);
    return NULL;
}

static struct expr *parse_group(struct parser *p)
{
    advance(p);
    struct expr *e = parse_inner(p);
    if (!e || accept(p, ")"))
        return e;
    fail_token(p, "')'");
    expr_destroy(e);
    return NULL;
}

static struct expr *parse_call(struct parser *p, const char *word, int col)
{
    struct expr *e = make(EXPR_CALL, col);
    e->function = expr_function_find(word);
    advance(p);
    if (!e->function) {
        const char *near = str_nearest(word, expr_function_names());
        expr_fail(col, p->err, "no function '%.40s'%s%s%s", word, near ? "; did you mean '" : "",
                  near ? near : "", near ? "'?" : "");
    } else if (parse_args(p, e, ")") == 0) {
        if (e->arg_count == e->function->args)
            return e;
        expr_fail(col, p->err, "%s takes %zu, not %zu", e->function->form, e->function->args,
                  e->arg_count);
    }
    expr_destroy(e);
    return NULL;
}

static struct expr *make_literal(int col, json_t *value)
{
    struct expr *e = make(EXPR_LITERAL, col);
    e->value = value;
    return e;
}

static struct expr *parse_word(struct parser *p)
{
    int col = column(p);
    AUTO(free_str) char *word = str_printf("%.*s", (int)p->len, p->at);
    advance(p);
    if (is(p, "("))
        return parse_call(p, word, col);
    if (strcmp(word, "true") == 0)
        return make_literal(col, json_true());
    if (strcmp(word, "false") == 0)
        return make_literal(col, json_false());
    if (strcmp(word, "null") == 0)
        return make_literal(col, json_null());
    for (size_t i = 0; expr_roots[i]; i++) {
        if (strcmp(word, expr_roots[i]) != 0)
            continue;
        struct expr *e = make(EXPR_ROOT, col);
        e->name = STEAL(word);
        return e;
    }
    const char *near = str_nearest(word, expr_roots);
    if (near)
        expr_fail(col, p->err, "unknown word '%.40s'; did you mean '%s'?", word, near);
    else
        expr_fail(col, p->err,
                  "unknown word '%.40s'; a path begins with facts, vars, fabric or "
                  "node, and text is quoted",
                  word);
    return NULL;
}

static struct expr *parse_primary(struct parser *p)
{
    char c = p->len ? *p->at : '\0';
    if (c == '"' || c == '\'')
        return parse_text(p);
    if (isdigit((unsigned char)c) || (c == '-' && p->len > 1))
        return parse_number(p);
    if (c == '[')
        return parse_list(p);
    if (c == '(')
        return parse_group(p);
    bool keyword = is(p, "and") || is(p, "or") || is(p, "in") || is(p, "not");
    if (is_word_char(c) && !keyword)
        return parse_word(p);
    fail_token(p, "a value");
    return NULL;
}

static struct expr *parse_member(struct parser *p, struct expr *of)
{
    struct expr *e = make(EXPR_MEMBER, column(p));
    add_arg(e, of);
    advance(p);
    if (p->len && is_word_char(*p->at) && !isdigit((unsigned char)*p->at)) {
        e->name = str_printf("%.*s", (int)p->len, p->at);
        advance(p);
        return e;
    }
    fail_token(p, "a name after '.'");
    expr_destroy(e);
    return NULL;
}

static struct expr *parse_index(struct parser *p, struct expr *of)
{
    struct expr *e = make(EXPR_INDEX, column(p));
    add_arg(e, of);
    advance(p);
    struct expr *index = parse_inner(p);
    if (index) {
        add_arg(e, index);
        if (accept(p, "]"))
            return e;
        fail_token(p, "']'");
    }
    expr_destroy(e);
    return NULL;
}

/* A value with the members and indexes behind it. */
static struct expr *parse_path(struct parser *p)
{
    struct expr *e = parse_primary(p);
    for (int steps = 0; e && (is(p, ".") || is(p, "[")); steps++) {
        if (steps >= EXPR_MAX_DEPTH) {
            expr_fail(column(p), p->err, "a path of more than %d steps", EXPR_MAX_DEPTH);
            expr_destroy(e);
            return NULL;
        }
        e = is(p, ".") ? parse_member(p, e) : parse_index(p, e);
    }
    return e;
}

/* The comparison at the current token, 0 if there is none; the token is taken. */
static enum expr_type comparison(struct parser *p)
{
    static const struct {
        const char *token;
        enum expr_type type;
    } rows[] = {{"==", EXPR_EQ}, {"!=", EXPR_NE}, {"<", EXPR_LT}, {"<=", EXPR_LE},
                {">", EXPR_GT},  {">=", EXPR_GE}, {"in", EXPR_IN}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (accept(p, rows[i].token))
            return rows[i].type;
    struct parser ahead = *p;
    if (accept(&ahead, "not") && accept(&ahead, "in")) {
        *p = ahead;
        return EXPR_NOT_IN;
    }
    return 0;
}

static struct expr *parse_comparison(struct parser *p)
{
    struct expr *left = parse_path(p);
    int col = column(p);
    enum expr_type type = left ? comparison(p) : 0;
    if (!type)
        return left;
    struct expr *e = make(type, col);
    add_arg(e, left);
    struct expr *right = parse_path(p);
    if (right) {
        add_arg(e, right);
        col = column(p);
        if (!comparison(p))
            return e;
        expr_fail(col, p->err, "comparisons cannot be chained; join them with 'and'");
    }
    expr_destroy(e);
    return NULL;
}

static struct expr *parse_not(struct parser *p)
{
    int col = column(p);
    bool negate = false, any = false;
    while (accept(p, "not")) {
        negate = !negate;
        any = true;
    }
    struct expr *e = parse_comparison(p);
    /* An even number of "not" still makes a truth value of its operand. */
    for (int i = 0; e && any && i < (negate ? 1 : 2); i++) {
        struct expr *outer = make(EXPR_NOT, col);
        add_arg(outer, e);
        e = outer;
    }
    return e;
}

/* Operands joined by one word, as one node with many arguments: no depth for a long chain. */
static struct expr *parse_chain(struct parser *p, const char *word, enum expr_type type,
                                struct expr *(*operand)(struct parser *p))
{
    struct expr *first = operand(p);
    if (!first || !is(p, word))
        return first;
    struct expr *e = make(type, column(p));
    add_arg(e, first);
    while (accept(p, word)) {
        struct expr *next = operand(p);
        if (!next) {
            expr_destroy(e);
            return NULL;
        }
        add_arg(e, next);
    }
    return e;
}

static struct expr *parse_and(struct parser *p)
{
    return parse_chain(p, "and", EXPR_AND, parse_not);
}

static struct expr *parse_or(struct parser *p)
{
    return parse_chain(p, "or", EXPR_OR, parse_and);
}

struct expr *expr_compile(const char *text, struct err *err)
{
    if (strlen(text) > EXPR_MAX_BYTES) {
        expr_fail(1, err, "an expression has at most %d characters", EXPR_MAX_BYTES);
        return NULL;
    }
    struct parser p = {.text = text, .at = text, .err = err};
    advance(&p);
    struct expr *e = parse_inner(&p);
    if (!e || p.len == 0)
        return e;
    fail_token(&p, "an operator or the end");
    expr_destroy(e);
    return NULL;
}
