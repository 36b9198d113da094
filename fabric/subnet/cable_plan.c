#include "fabric/subnet/cable_plan.h"

#include <stdlib.h>
#include <string.h>

#include "common/units.h"
#include "common/util.h"
#include "fabric/subnet/cable_parse.h"

struct cable *cable_plan_add(struct cable_plan *plan, const char *a, unsigned a_port, const char *b,
                             unsigned b_port)
{
    if ((plan->count & (plan->count - 1)) == 0)
        plan->cables =
            mem_grow(plan->cables, plan->count ? plan->count * 2 : 1, sizeof *plan->cables);
    struct cable *c = &plan->cables[plan->count++];
    *c = (struct cable){.a = {str_dup(a), NULL, a_port}, .b = {str_dup(b), NULL, b_port}};
    return c;
}

void cable_plan_release(struct cable_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        struct cable *c = &plan->cables[i];
        free(c->a.node);
        free(c->a.also);
        free(c->b.node);
        free(c->b.also);
    }
    free(plan->cables);
    free(plan->source);
    *plan = (struct cable_plan){0};
}

struct used {
    const struct cable_end *end;
    unsigned line;
};

static int by_end(const void *a, const void *b)
{
    const struct used *x = a, *y = b;
    int order = strcmp(x->end->node, y->end->node);
    if (order != 0)
        return order;
    if (x->end->port != y->end->port)
        return x->end->port < y->end->port ? -1 : 1;
    return (x->line > y->line) - (x->line < y->line);
}

int cable_plan_check(const struct cable_plan *plan, struct err *err)
{
    size_t count = plan->count * 2;
    int status = 0;
    if (count == 0)
        return err_set(err, ERR_DATA, "%s: holds no cable", plan->source);
    struct used *all = mem_zero(count, sizeof *all);
    for (size_t i = 0; i < plan->count; i++) {
        all[2 * i] = (struct used){&plan->cables[i].a, plan->cables[i].line};
        all[2 * i + 1] = (struct used){&plan->cables[i].b, plan->cables[i].line};
    }
    qsort(all, count, sizeof *all, by_end);
    for (size_t i = 1; i < count && status == 0; i++)
        if (strcmp(all[i - 1].end->node, all[i].end->node) == 0 &&
            all[i - 1].end->port == all[i].end->port)
            status = err_set(err, ERR_DATA, "%s:%u: %s port %u has a cable already, in line %u",
                             plan->source, all[i].line, all[i].end->node, all[i].end->port,
                             all[i - 1].line);
    free(all);
    return status;
}

/* One field of a CSV line; *at moves behind its comma.  NULL at the end of the line. */
static char *csv_field(char **at)
{
    char *begin = *at, *end;
    if (!begin)
        return NULL;
    begin += strspn(begin, " \t");
    if (*begin == '"') {
        char *close = strchr(++begin, '"');
        end = close ? close : begin + strlen(begin);
        char *comma = close ? strchr(close, ',') : NULL;
        *at = comma ? comma + 1 : NULL;
    } else {
        end = begin + strcspn(begin, ",");
        *at = *end == ',' ? end + 1 : NULL;
        while (end > begin && (end[-1] == ' ' || end[-1] == '\t'))
            end--;
    }
    *end = '\0';
    return begin;
}

static int csv_port(const char *text, const struct cable_plan *plan, unsigned line, unsigned *port,
                    struct err *err)
{
    int64_t value;
    struct err why = {0};
    if (units_parse_int(text, 1, CABLE_PORT_MAX, &value, &why) != 0)
        return err_set(err, ERR_DATA, "%s:%u: port: %s", plan->source, line, why.text);
    *port = (unsigned)value;
    return 0;
}

static int csv_line(char *text, unsigned line, struct cable_plan *plan, struct err *err)
{
    enum { FIELDS = 4 };
    char *at = text, *field[FIELDS];
    unsigned port[2];
    for (size_t i = 0; i < FIELDS; i++) {
        field[i] = csv_field(&at);
        if (!field[i] || !*field[i])
            return err_set(err, ERR_DATA,
                           "%s:%u: a cable is NODE,PORT,NODE,PORT[,RATE]; field %zu is missing",
                           plan->source, line, i + 1);
    }
    if (plan->count == 0 && strcmp(field[1], "port") == 0)
        return 0;
    if (csv_port(field[1], plan, line, &port[0], err) != 0 ||
        csv_port(field[3], plan, line, &port[1], err) != 0)
        return -1;
    if (plan->count >= CABLE_PLAN_MAX)
        return err_set(err, ERR_DATA, "%s:%u: more than %d cables", plan->source, line,
                       CABLE_PLAN_MAX);
    struct cable *c = cable_plan_add(plan, field[0], port[0], field[2], port[1]);
    c->line = line;
    const char *rate = csv_field(&at);
    if (rate && *rate && !rate_parse(rate, &c->lanes, &c->speed))
        return err_set(err, ERR_DATA, "%s:%u: '%.20s' is not a rate such as 4xHDR", plan->source,
                       line, rate);
    if (at)
        return err_set(err, ERR_DATA, "%s:%u: more than five fields", plan->source, line);
    return 0;
}

typedef int line_fn(char *text, unsigned line, struct cable_plan *plan, void *ctx, struct err *err);

static int read_csv(char *text, unsigned line, struct cable_plan *plan, void *ctx, struct err *err)
{
    (void)ctx;
    const char *first = text + strspn(text, " \t");
    return *first == '\0' || *first == '#' ? 0 : csv_line(text, line, plan, err);
}

static int read_ibnetdiscover(char *text, unsigned line, struct cable_plan *plan, void *ctx,
                              struct err *err)
{
    return cable_parse_line(ctx, text, line, plan->source, err);
}

/* ibnetdiscover's node records begin with a word and a count of ports. */
static bool is_ibnetdiscover(const char *text)
{
    static const char *const words[] = {"Switch\t", "Ca\t", "Switch ", "Ca ", "vendid="};
    for (const char *at = text; at && *at; at = strchr(at, '\n'), at = at ? at + 1 : NULL)
        for (size_t i = 0; i < ARRAY_LEN(words); i++)
            if (str_has_prefix(at, words[i]))
                return true;
    return false;
}

static int each_line(char *text, line_fn *fn, struct cable_plan *plan, void *ctx, struct err *err)
{
    unsigned number = 0;
    for (char *at = text; at && *at;) {
        char *end = strchr(at, '\n');
        if (end)
            *end = '\0';
        size_t len = strlen(at);
        if (len > 0 && at[len - 1] == '\r')
            at[len - 1] = '\0';
        if (fn(at, ++number, plan, ctx, err) != 0)
            return -1;
        at = end ? end + 1 : NULL;
    }
    return 0;
}

int cable_plan_parse(const char *text, size_t len, const char *source, struct cable_plan *plan,
                     struct err *err)
{
    struct cable_plan p = {.source = str_dup(source)};
    struct cable_parse parse = {0};
    AUTO(free_str) char *copy = mem_zero(len + 1, 1);
    if (len > 0)
        memcpy(copy, text, len);
    int status = 0;
    if (strlen(copy) != len)
        status = err_set(err, ERR_DATA, "%s: holds a NUL byte: not a text", source);
    else if (is_ibnetdiscover(copy))
        status = each_line(copy, read_ibnetdiscover, &p, &parse, err) == 0
                     ? cable_parse_end(&parse, &p, err)
                     : -1;
    else
        status = each_line(copy, read_csv, &p, NULL, err);
    cable_parse_release(&parse);
    if (status != 0 || cable_plan_check(&p, err) != 0) {
        cable_plan_release(&p);
        return -1;
    }
    *plan = p;
    return 0;
}
