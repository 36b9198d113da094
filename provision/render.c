#include "provision/render.h"

#include <stdlib.h>
#include <string.h>

#include "common/hostlist.h"
#include "common/jsonx.h"
#include "common/tty.h"
#include "common/units.h"
#include "common/util.h"
#include "validate/verdict.h"

static const struct {
    const char *state, *label;
    enum tty_color color;
} states[] = {
    {"ready", "ready", TTY_GREEN},
    {"degraded", "degraded", TTY_YELLOW},
    {"not_ready", "not ready", TTY_RED},
    {"unknown", "unknown", TTY_YELLOW},
};

static const char *label_of(const char *state)
{
    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        if (strcmp(states[i].state, state) == 0)
            return states[i].label;
    return "unset";
}

static enum tty_color color_of(const char *state)
{
    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        if (strcmp(states[i].state, state) == 0)
            return states[i].color;
    return TTY_RED;
}

/* Hostlist of the nodes in a state; *count says how many.  The caller frees. */
static char *names_in_state(const json_t *nodes, const char *state, size_t *count)
{
    const char **names = mem_zero(json_object_size(nodes) + 1, sizeof *names);
    *count = 0;
    const char *name;
    json_t *node;
    json_object_foreach((json_t *)nodes, name,
                        node) if (strcmp(jsonx_str_or(node, "state", ""), state) == 0)
        names[(*count)++] = name;
    char *text = hostlist_format(names, *count);
    free(names);
    return text;
}

static void render_states(const json_t *nodes, FILE *out)
{
    struct tty_table *table = tty_table_create((const char *const[]){"STATE", "COUNT", "NODES"}, 3);
    for (size_t i = 0; i < ARRAY_LEN(states); i++) {
        size_t count = 0;
        AUTO(free_str) char *names = names_in_state(nodes, states[i].state, &count);
        if (count == 0)
            continue;
        AUTO(free_str) char *number = str_printf("%zu", count);
        tty_table_row(table, states[i].color,
                      (const char *const[]){states[i].label, number, names});
    }
    tty_table_print(table, out);
    tty_table_destroy(table);
}

static void render_causes(const json_t *nodes, FILE *out)
{
    const char *name;
    json_t *node;
    json_object_foreach((json_t *)nodes, name, node)
    {
        const json_t *causes = json_object_get(node, "causes");
        const char *state = jsonx_str_or(node, "state", "");
        if (json_array_size(causes) == 0)
            continue;
        fprintf(out, "\n%s%s%s  %s\n", tty_begin(out, color_of(state)), name, tty_end(out),
                label_of(state));
        size_t i;
        json_t *cause;
        json_array_foreach(causes, i, cause)
        {
            AUTO(free_str) char *text = tty_text(jsonx_str_or(cause, "text", ""));
            fprintf(out, "  %s%s%s  %s\n", tty_begin(out, TTY_BOLD),
                    jsonx_str_or(cause, "code", "?"), tty_end(out), text);
            const char *remedy = jsonx_str_or(cause, "remedy", "");
            if (remedy[0])
                fprintf(out, "      do: %s\n", remedy);
        }
    }
}

struct stage_row {
    const char *stage, *reason;
    unsigned counts[VERDICT__COUNT];
    bool required, seen;
};

static struct stage_row *stage_row(struct stage_row rows[], size_t *used, const char *stage)
{
    for (size_t i = 0; i < *used; i++)
        if (strcmp(rows[i].stage, stage) == 0)
            return &rows[i];
    rows[*used] = (struct stage_row){.stage = stage};
    return &rows[(*used)++];
}

static void print_stage_row(struct tty_table *table, const struct stage_row *row)
{
    static const enum verdict columns[] = {VERDICT_PASS, VERDICT_WARN, VERDICT_FAIL,
                                           VERDICT_NOT_MEASURED, VERDICT_EXCLUDED};
    const char *cells[8] = {row->stage, row->required ? "yes" : "no"};
    char *owned[ARRAY_LEN(columns)];
    for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
        unsigned count = row->counts[columns[i]];
        owned[i] = count ? str_printf("%u", count) : str_dup("-");
        cells[2 + i] = owned[i];
    }
    cells[7] = row->reason ? row->reason : "";
    enum tty_color color = row->counts[VERDICT_FAIL]                            ? TTY_RED
                           : row->required && row->counts[VERDICT_NOT_MEASURED] ? TTY_YELLOW
                           : row->counts[VERDICT_PASS]                          ? TTY_PLAIN
                                                                                : TTY_DIM;
    tty_table_row(table, color, cells);
    for (size_t i = 0; i < ARRAY_LEN(columns); i++)
        free(owned[i]);
}

/* The order in which stages build on each other; others follow as they come. */
static const char *const stage_order[] = {
    "run",   "inventory",         "pcie",   "gpu", "shm", "p2p", "nvlink", "allreduce-node", "link",
    "pairs", "allreduce-cluster", "fabric",
};

/* The coverage ledger, one line per stage: nothing that was not measured may stay out of sight. */
static void render_ledger(const json_t *elements, FILE *out)
{
    struct stage_row *rows =
        mem_zero(json_array_size(elements) + ARRAY_LEN(stage_order), sizeof *rows);
    size_t used = 0, i;
    for (i = 0; i < ARRAY_LEN(stage_order); i++)
        stage_row(rows, &used, stage_order[i]);
    json_t *element;
    json_array_foreach((json_t *)elements, i, element)
    {
        struct stage_row *row = stage_row(rows, &used, jsonx_str_or(element, "stage", "?"));
        enum verdict v = verdict_find(jsonx_str_or(element, "verdict", ""));
        row->counts[v]++;
        row->seen = true;
        row->required = row->required || jsonx_bool_or(element, "required", false);
        if (v == VERDICT_NOT_MEASURED && !row->reason)
            row->reason = jsonx_str_or(element, "reason", NULL);
    }
    struct tty_table *table =
        tty_table_create((const char *const[]){"STAGE", "REQUIRED", "PASS", "WARN", "FAIL",
                                               "NOT MEASURED", "EXCLUDED", "WHY NOT"},
                         8);
    for (i = 0; i < used; i++)
        if (rows[i].seen)
            print_stage_row(table, &rows[i]);
    fputc('\n', out);
    tty_table_print(table, out);
    tty_table_destroy(table);
    free(rows);
}

static char *limit_text(const json_t *element)
{
    const json_t *limit = json_object_get(element, "limit");
    if (!json_is_object(limit))
        return str_dup("");
    AUTO(free_str)
    char *value = units_format(json_number_value(json_object_get(limit, "value")),
                               jsonx_str_or(limit, "unit", ""));
    return str_printf("%s %s", jsonx_str_or(limit, "kind", ""), value);
}

static void element_row(struct tty_table *table, const json_t *element)
{
    const json_t *value = json_object_get(element, "value");
    AUTO(free_str)
    char *shown = json_is_number(value)
                      ? units_format(json_number_value(value), jsonx_str_or(element, "unit", ""))
                      : str_dup("-");
    AUTO(free_str) char *limit = limit_text(element);
    enum verdict v = verdict_find(jsonx_str_or(element, "verdict", ""));
    enum tty_color color = v == VERDICT_FAIL ? TTY_RED : v == VERDICT_PASS ? TTY_PLAIN : TTY_YELLOW;
    tty_table_row(table, color,
                  (const char *const[]){jsonx_str_or(element, "subject", "?"),
                                        jsonx_str_or(element, "check", "?"), verdict_name(v), shown,
                                        limit, jsonx_str_or(element, "reason", "")});
}

static bool about_node(const char *subject, const char *node)
{
    size_t len = strlen(node);
    const char *arrow = strchr(subject, '>');
    bool from = strncmp(subject, node, len) == 0 &&
                (subject[len] == '\0' || subject[len] == '/' || subject[len] == '>');
    return from || (arrow && strcmp(arrow + 1, node) == 0) || strcmp(subject, "cluster") == 0;
}

static void render_elements(const json_t *verdict, const char *node, FILE *out)
{
    struct tty_table *table = tty_table_create(
        (const char *const[]){"SUBJECT", "CHECK", "VERDICT", "VALUE", "LIMIT", "REASON"}, 6);
    size_t i;
    json_t *element;
    json_array_foreach(json_object_get(verdict, "elements"), i,
                       element) if (!node || about_node(jsonx_str_or(element, "subject", ""), node))
        element_row(table, element);
    fputc('\n', out);
    tty_table_print(table, out);
    tty_table_destroy(table);
}

void render_verdict(const json_t *verdict, bool verbose, FILE *out)
{
    const json_t *nodes = json_object_get(verdict, "nodes");
    const char *state = jsonx_str_or(verdict, "cluster_state", "unknown");
    fprintf(out, "\nCluster %s is %s%s%s (run %s)\n\n", jsonx_str_or(verdict, "cluster", "?"),
            tty_begin(out, color_of(state)), label_of(state), tty_end(out),
            jsonx_str_or(verdict, "run", "?"));
    render_states(nodes, out);
    render_causes(nodes, out);
    render_ledger(json_object_get(verdict, "elements"), out);
    if (verbose)
        render_elements(verdict, NULL, out);
}

void render_node(const json_t *verdict, const char *node, FILE *out)
{
    const json_t *entry = json_object_get(json_object_get(verdict, "nodes"), node);
    const char *state = jsonx_str_or(entry, "state", "unknown");
    fprintf(out, "%s is %s%s%s\n", node, tty_begin(out, color_of(state)), label_of(state),
            tty_end(out));
    json_auto_t *only = json_object();
    if (entry)
        jsonx_set(only, node, json_incref((json_t *)entry));
    render_causes(only, out);
    render_elements(verdict, node, out);
}

json_t *render_from_predicate(const json_t *predicate)
{
    json_t *verdict = json_object();
    json_t *elements = json_array();
    const json_t *result = json_object_get(predicate, "result");
    jsonx_set_str(verdict, "run", jsonx_str_or(predicate, "run", "?"));
    jsonx_set_str(verdict, "cluster", jsonx_str_or(predicate, "cluster", "?"));
    jsonx_set_str(verdict, "cluster_state", jsonx_str_or(result, "state", "unknown"));
    json_t *nodes = json_object_get(predicate, "nodes");
    const char *name;
    json_t *entry;
    json_object_foreach(nodes, name, entry)
        json_array_extend(elements, json_object_get(entry, "elements"));
    json_array_extend(elements, json_object_get(predicate, "cluster_elements"));
    jsonx_set(verdict, "nodes", json_incref(nodes));
    jsonx_set(verdict, "elements", elements);
    return verdict;
}
