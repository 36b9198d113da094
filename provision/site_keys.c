#include <stdio.h>
#include <string.h>

#include "common/util.h"
#include "provision/site.h"
#include "provision/site_quantity.h"
#include "provision/site_schema.h"

/* Where the keys of a section stand in the file. */
static const struct {
    const char *section, *title;
} sections[] = {
    {"", "top level"},
    {"ssh", "ssh"},
    {"fabric", "fabric"},
    {"node", "nodes[]"},
    {"group", "groups.NAME"},
    {"policy", "policy"},
    {"floor", "policy.floors.QUANTITY"},
    {"exclude", "policy.exclude[]"},
};

static char *choices_text(const struct site_key *row)
{
    struct strbuf b = {0};
    strbuf_puts(&b, row->choices ? "" : site_type_name(row->type));
    for (size_t i = 0; row->choices && row->choices[i]; i++)
        strbuf_printf(&b, "%s%s", i ? ", " : "", row->choices[i]);
    if (row->type == SITE_INT)
        strbuf_printf(&b, " %lld to %lld", (long long)row->min, (long long)row->max);
    const char *form = row->type == SITE_INT ? NULL : site_type_form(row->type);
    if (form && row->type != SITE_BOOL)
        strbuf_printf(&b, ", like %s", form);
    return b.data;
}

/* The default as the file would have it: durations are kept in ms inside. */
static char *default_text(const struct site_key *row)
{
    if (row->required)
        return str_dup("required");
    if (!row->fallback)
        return str_dup(row->type == SITE_PART ? "-" : "none");
    if (row->type == SITE_DURATION)
        return str_printf("%sms", row->fallback);
    size_t quoted = row->fallback[0] == '"' ? 1 : 0;
    return str_printf("%.*s", (int)(strlen(row->fallback) - 2 * quoted), row->fallback + quoted);
}

typedef void print_row(FILE *out, const char *key, const char *type, const char *fallback,
                       const char *doc);

static void print_text(FILE *out, const char *key, const char *type, const char *fallback,
                       const char *doc)
{
    fprintf(out, "  %-16s %s\n  %-16s   %s; default: %s\n", key, doc, "", type, fallback);
}

static void print_markdown(FILE *out, const char *key, const char *type, const char *fallback,
                           const char *doc)
{
    fprintf(out, "| `%s` | %s | %s | %s |\n", key, type, fallback, doc);
}

static void print_section(FILE *out, const char *section, print_row *print)
{
    size_t count;
    const struct site_key *rows = site_schema(&count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].section, section) != 0)
            continue;
        AUTO(free_str) char *type = choices_text(&rows[i]);
        AUTO(free_str) char *fallback = default_text(&rows[i]);
        print(out, rows[i].key, type, fallback, rows[i].doc);
    }
}

void site_keys_print(FILE *out)
{
    for (size_t i = 0; i < ARRAY_LEN(sections); i++) {
        fprintf(out, "%s%s\n", i ? "\n" : "", sections[i].title);
        print_section(out, sections[i].section, print_text);
    }
    size_t count;
    const struct site_quantity *rows = site_quantities(&count);
    fputs("\nquantities of policy.floors\n", out);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "  %-16s %s, like %s\n", rows[i].name, rows[i].doc, rows[i].form);
    fputs("\nstages\n ", out);
    for (size_t i = 0; site_stages[i]; i++)
        fprintf(out, " %s", site_stages[i]);
    fputs("\n", out);
}

void site_keys_print_markdown(FILE *out)
{
    for (size_t i = 0; i < ARRAY_LEN(sections); i++) {
        fprintf(out, "%s### %s\n\n| key | value | default | meaning |\n|---|---|---|---|\n",
                i ? "\n" : "", sections[i].title);
        print_section(out, sections[i].section, print_markdown);
    }
    size_t count;
    const struct site_quantity *rows = site_quantities(&count);
    fputs("\n### quantities of policy.floors\n\n| quantity | unit | example | meaning |\n"
          "|---|---|---|---|\n",
          out);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "| `%s` | %s | %s | %s |\n", rows[i].name, rows[i].unit, rows[i].form,
                rows[i].doc);
}
