/* Every line against the rows of rules.def and tools.def, and to every parser. */
#include "validate/diagnose/diag.h"

#include <stdlib.h>
#include <string.h>

#include "common/util.h"

enum scope { SCOPE_ANY, SCOPE_OUTPUT, SCOPE_COMMAND, SCOPE_NCCL, SCOPE_KERNEL };

static const struct {
    enum diag_id id;
    enum scope scope;
    const char *pattern;
} rules[] = {
#define RULE(id, scope, pattern) {DIAG_##id, SCOPE_##scope, pattern},
#include "validate/diagnose/rules.def"
#undef RULE
};

static const struct {
    const char *name, *pattern;
} tools[] = {
#define TOOL(name, pattern) {name, pattern},
#include "validate/diagnose/tools.def"
#undef TOOL
};

enum { RULES = ARRAY_LEN(rules), TOOLS = ARRAY_LEN(tools) };

static const char *const patterns[RULES + TOOLS] = {
#define RULE(id, scope, pattern) pattern,
#include "validate/diagnose/rules.def"
#undef RULE
#define TOOL(name, pattern) pattern,
#include "validate/diagnose/tools.def"
#undef TOOL
};

struct match_set *diag_rules_create(void)
{
    return match_create(patterns, ARRAY_LEN(patterns));
}

size_t diag_tool_count(void)
{
    return TOOLS;
}

const char *diag_tool_name(size_t index)
{
    return tools[index].name;
}

struct context {
    struct diag *d;
    const struct diag_line *line;
    bool alarm; /* the line reports an error, by its looks */
};

static bool in_scope(enum scope scope, const struct diag_line *line)
{
    switch (scope) {
    case SCOPE_OUTPUT:
        return !line->command;
    case SCOPE_COMMAND:
        return line->command;
    case SCOPE_NCCL:
        return strstr(line->text, "NCCL") != NULL;
    case SCOPE_KERNEL:
        return !line->command && !strstr(line->text, "NCCL");
    case SCOPE_ANY:
        break;
    }
    return true;
}

static void on_hit(size_t index, const struct match_result *result, void *ctx)
{
    struct context *c = ctx;
    if (index >= RULES)
        c->d->tools[index - RULES]++;
    else if (rules[index].id == DIAG_alarm)
        c->alarm |= in_scope(rules[index].scope, c->line);
    else if (in_scope(rules[index].scope, c->line))
        diag_find_result(c->d, rules[index].id, c->line, result);
}

void diag_scan(struct diag *d, const char *name, const char *text, size_t len,
               struct match_set *set, void *const states[])
{
    struct lines lines;
    struct diag_line *line = mem_zero(1, sizeof *line);
    lines_open(&lines, name, text, len);
    while (lines_next(&lines, line)) {
        struct context c = {d, line, false};
        size_t before = d->recorded;
        match_line(set, line->text, on_hit, &c);
        for (size_t i = 0; i < diag_parser_count; i++)
            diag_parsers[i]->feed(states[i], d, line);
        /* An error that some row knows is that row's; only the others are alarms. */
        if (c.alarm && d->recorded == before)
            diag_find(d, DIAG_alarm, line, "text", line->body, NULL);
    }
    free(line);
}

static char *check_pattern(const char *pattern)
{
    size_t len = 0;
    match_anchor(pattern, &len);
    if (len < MATCH_ANCHOR_BYTES)
        return str_printf("pattern '%s' has no literal of %d characters", pattern,
                          MATCH_ANCHOR_BYTES);
    size_t braces = 0;
    for (const char *p = strchr(pattern, '{'); p; p = strchr(p + 1, '{'))
        braces++;
    return braces > MATCH_CAPTURES ? str_printf("pattern '%s' has too many captures", pattern)
                                   : NULL;
}

char *diag_check_patterns(void)
{
    for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
        char *wrong = check_pattern(patterns[i]);
        if (wrong)
            return wrong;
    }
    return NULL;
}
