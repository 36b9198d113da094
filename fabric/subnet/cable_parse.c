#include "fabric/subnet/cable_parse.h"

#include <stdlib.h>
#include <string.h>

#include "common/util.h"

/* The text between the next pair of double quotes, a copy; *at moves behind it.  NULL without. */
static char *quoted(const char **at)
{
    const char *open = strchr(*at, '"');
    const char *close = open ? strchr(open + 1, '"') : NULL;
    if (!close)
        return NULL;
    *at = close + 1;
    return str_printf("%.*s", (int)(close - open - 1), open + 1);
}

/* "[17]", then what may follow: "[ext 3]" or "(guid)". */
static bool bracketed(const char **at, unsigned *port)
{
    const char *s = *at + strspn(*at, " \t");
    char *end = NULL;
    if (*s != '[' || s[1] < '0' || s[1] > '9')
        return false;
    unsigned long value = strtoul(s + 1, &end, 10);
    if (*end != ']' || value < 1 || value > CABLE_PORT_MAX)
        return false;
    *port = (unsigned)value;
    *at = end + 1;
    return true;
}

/* The rate is the last word of a link's line ("4xHDR"); older versions write none. */
static void trailing_rate(const char *text, struct cable *c)
{
    const char *word = text + strlen(text);
    while (word > text && word[-1] != ' ' && word[-1] != '\t')
        word--;
    rate_parse(word, &c->lanes, &c->speed);
}

static int begin_node(struct cable_parse *p, const char *text, unsigned line, const char *source,
                      struct err *err)
{
    const char *at = text;
    char *id = quoted(&at);
    if (!id || !*id) {
        free(id);
        return err_set(err, ERR_DATA, "%s:%u: a node's line needs its id in quotes", source, line);
    }
    free(p->node);
    p->node = id;
    if ((p->name_count & (p->name_count - 1)) == 0)
        p->names = mem_grow(p->names, p->name_count ? p->name_count * 2 : 1, sizeof *p->names);
    p->names[p->name_count].id = str_dup(id);
    p->names[p->name_count++].description = quoted(&at);
    return 0;
}

static int add_link(struct cable_parse *p, const char *text, unsigned line, const char *source,
                    struct err *err)
{
    const char *at = text;
    unsigned port, peer_port;
    if (!p->node)
        return err_set(err, ERR_DATA, "%s:%u: a port without a node's line before it", source,
                       line);
    bool good = bracketed(&at, &port);
    AUTO(free_str) char *peer = good ? quoted(&at) : NULL;
    if (!peer || !*peer || !bracketed(&at, &peer_port))
        return err_set(err, ERR_DATA,
                       "%s:%u: a link is [PORT] \"NODE\"[PORT] with ports of 1 to %d", source, line,
                       CABLE_PORT_MAX);
    if ((p->count & (p->count - 1)) == 0)
        p->seen = mem_grow(p->seen, p->count ? p->count * 2 : 1, sizeof *p->seen);
    int order = strcmp(p->node, peer);
    bool forward = order < 0 || (order == 0 && port <= peer_port);
    struct cable_end own = {str_dup(p->node), NULL, port}, far = {STEAL(peer), NULL, peer_port};
    p->seen[p->count] =
        (struct cable){.a = forward ? own : far, .b = forward ? far : own, .line = line};
    trailing_rate(text, &p->seen[p->count++]);
    return 0;
}

int cable_parse_line(struct cable_parse *p, const char *text, unsigned line, const char *source,
                     struct err *err)
{
    static const char *const nodes[] = {"Switch", "Ca", "Hca", "Rt", "Router"};
    if (*text == '[')
        return add_link(p, text, line, source, err);
    for (size_t i = 0; i < ARRAY_LEN(nodes); i++)
        if (str_has_prefix(text, nodes[i]) && strchr(" \t", text[strlen(nodes[i])]) &&
            text[strlen(nodes[i])])
            return begin_node(p, text, line, source, err);
    return 0;
}

static int by_ends(const void *a, const void *b)
{
    const struct cable *x = a, *y = b;
    int order = strcmp(x->a.node, y->a.node);
    if (order == 0)
        order = (x->a.port > y->a.port) - (x->a.port < y->a.port);
    if (order == 0)
        order = strcmp(x->b.node, y->b.node);
    if (order == 0)
        order = (x->b.port > y->b.port) - (x->b.port < y->b.port);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

static bool same_ends(const struct cable *x, const struct cable *y)
{
    return x->a.port == y->a.port && x->b.port == y->b.port && strcmp(x->a.node, y->a.node) == 0 &&
           strcmp(x->b.node, y->b.node) == 0;
}

static int by_id(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *description_of(const struct cable_parse *p, const char *id)
{
    const void *row = bsearch(&id, p->names, p->name_count, sizeof *p->names, by_id);
    const char *const *pair = row;
    return pair && pair[1] && *pair[1] ? str_dup(pair[1]) : NULL;
}

int cable_parse_end(struct cable_parse *p, struct cable_plan *plan, struct err *err)
{
    (void)err;
    if (p->count == 0)
        return 0; /* cable_plan_check() says so */
    qsort(p->seen, p->count, sizeof *p->seen, by_ends);
    if (p->name_count)
        qsort(p->names, p->name_count, sizeof *p->names, by_id);
    for (size_t i = 0; i < p->count; i++) {
        const struct cable *c = &p->seen[i];
        if (i > 0 && same_ends(&p->seen[i - 1], c))
            continue;
        struct cable *to = cable_plan_add(plan, c->a.node, c->a.port, c->b.node, c->b.port);
        to->a.also = description_of(p, c->a.node);
        to->b.also = description_of(p, c->b.node);
        to->lanes = c->lanes;
        to->speed = c->speed;
        to->line = c->line;
    }
    return 0;
}

void cable_parse_release(struct cable_parse *p)
{
    for (size_t i = 0; i < p->count; i++) {
        free(p->seen[i].a.node);
        free(p->seen[i].b.node);
    }
    for (size_t i = 0; i < p->name_count; i++) {
        free(p->names[i].id);
        free(p->names[i].description);
    }
    free(p->seen);
    free(p->names);
    free(p->node);
    *p = (struct cable_parse){0};
}
