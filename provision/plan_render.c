#include <stdlib.h>
#include <string.h>

#include "common/hostlist.h"
#include "common/jsonx.h"
#include "common/tty.h"
#include "common/util.h"
#include "provision/plan.h"

/* Nodes whose items of one outcome are the same: canonical items -> list of nodes. */
struct grouping {
    json_t *nodes; /* KEY -> [NODE] */
    json_t *items; /* KEY -> [item] */
};

static json_t *items_with(const json_t *items, const char *outcome)
{
    json_t *list = json_array();
    size_t i;
    json_t *item;
    json_array_foreach(items, i, item) if (strcmp(jsonx_str_or(item, "outcome", ""), outcome) == 0)
        jsonx_append(list, json_incref(item));
    return list;
}

static void group_add(struct grouping *g, const char *node, json_t *items)
{
    AUTO(free_str) char *key = jsonx_canonical(items);
    json_t *list = json_object_get(g->nodes, key);
    if (!list) {
        list = json_array();
        jsonx_set(g->nodes, key, list);
        jsonx_set(g->items, key, json_incref(items));
    }
    jsonx_append_str(list, node);
}

/* "gpu[001-004]" of a list of names; the caller frees. */
static char *hosts_text(const json_t *list)
{
    size_t count = json_array_size(list);
    const char **names = mem_zero(count + 1, sizeof *names);
    for (size_t i = 0; i < count; i++)
        names[i] = json_string_value(json_array_get(list, i));
    char *text = hostlist_format(names, count);
    free(names);
    return text;
}

static const char *plural(size_t n)
{
    return n == 1 ? "" : "s";
}

static void print_heading(FILE *out, enum tty_color color, const json_t *nodes, const char *what)
{
    AUTO(free_str) char *hosts = hosts_text(nodes);
    size_t count = json_array_size(nodes);
    fprintf(out, "%s%s (%zu node%s)%s: %s\n", tty_begin(out, color), hosts, count, plural(count),
            tty_end(out), what);
}

/* A difference, indented; lines of a unified diff keep their signs. */
static void print_diff(FILE *out, const char *diff)
{
    while (*diff) {
        size_t len = strcspn(diff, "\n");
        enum tty_color color = *diff == '+' ? TTY_GREEN : *diff == '-' ? TTY_RED : TTY_PLAIN;
        AUTO(free_str) char *line = str_printf("%.*s", (int)len, diff);
        AUTO(free_str) char *shown = tty_text(line);
        fprintf(out, "      %s%s%s\n", tty_begin(out, color), shown, tty_end(out));
        diff += len + (diff[len] == '\n');
    }
}

static void print_item(FILE *out, const json_t *item)
{
    const char *kind = jsonx_str_or(item, "kind", "");
    AUTO(free_str) char *reason = tty_text(jsonx_str_or(item, "reason", ""));
    AUTO(free_str) char *id = tty_text(jsonx_str_or(item, "id", ""));
    if (strcmp(kind, "node") == 0)
        fprintf(out, "    %s\n", reason); /* the node itself: its name stands above */
    else
        fprintf(out, "    %s %s%s%s\n", kind, id, *reason ? ": " : "", reason);
    print_diff(out, jsonx_str_or(item, "diff", ""));
}

static void print_groups(FILE *out, const struct grouping *g, enum tty_color color,
                         const char *word, const char *tail)
{
    const char *key;
    json_t *nodes;
    json_object_foreach(g->nodes, key, nodes)
    {
        const json_t *items = json_object_get(g->items, key);
        size_t i, count = json_array_size(items);
        json_t *item;
        AUTO(free_str) char *what = str_printf("%zu %s%s%s", count, word, plural(count), tail);
        print_heading(out, color, nodes, what);
        json_array_foreach(items, i, item) print_item(out, item);
        fputs("\n", out);
    }
}

/* Every group of one outcome. */
static void print_outcome(FILE *out, const json_t *plan, const char *outcome, enum tty_color color,
                          const char *word, const char *tail)
{
    json_auto_t *by_key = json_object();
    json_auto_t *samples = json_object();
    struct grouping g = {by_key, samples};
    const char *node;
    json_t *items;
    json_object_foreach(json_object_get(plan, "items"), node, items)
    {
        json_auto_t *chosen = items_with(items, outcome);
        if (json_array_size(chosen) > 0)
            group_add(&g, node, chosen);
    }
    print_groups(out, &g, color, word, tail);
}

/* Nodes that are as wanted, in one line. */
static void print_same(FILE *out, const json_t *plan)
{
    json_auto_t *same = json_array();
    const char *node;
    json_t *items;
    json_object_foreach(json_object_get(plan, "items"), node,
                        items) if (!plan_node_failed(plan, node) && !plan_node_changes(plan, node))
        jsonx_append_str(same, node);
    if (json_array_size(same) == 0)
        return;
    print_heading(out, TTY_GREEN, same, "nothing to change");
    fputs("\n", out);
}

void plan_render(const json_t *plan, bool verbose, FILE *out)
{
    print_outcome(out, plan, "error", TTY_RED, "error", "");
    print_outcome(out, plan, "change", TTY_YELLOW, "change", "");
    print_same(out, plan);
    if (verbose) {
        print_outcome(out, plan, "same", TTY_DIM, "resource", " as wanted");
        print_outcome(out, plan, "skip", TTY_DIM, "resource", " skipped");
    }
    struct plan_counts c = plan_count(plan);
    fprintf(out,
            "plan: %zu node%s: %zu to change, %zu as wanted, %zu with errors; resources: %zu to "
            "change, %zu as wanted, %zu skipped, %zu with errors\n",
            c.nodes, plural(c.nodes), c.nodes_change, c.nodes_same, c.nodes_error, c.change, c.same,
            c.skip, c.error);
}
