#include "validate/diagnose/diag.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "validate/diagnose/diagnose.h"

static const struct {
    const char *name, *text;
    enum diag_role role;
} rows[] = {
#define FIND(id, role, text) {#id, text, DIAG_##role},
#include "validate/diagnose/findings.def"
#undef FIND
};

const struct diag_parser *const diag_parsers[] = {
    &diag_lspci_parser, &diag_ib_parser,   &diag_nvsmi_parser,    &diag_nvsmi_query_parser,
    &diag_topo_parser,  &diag_nccl_parser, &diag_perftest_parser, &diag_kernel_parser,
    &diag_pod_parser,   &diag_host_parser, &diag_counters_parser,
};
const size_t diag_parser_count = ARRAY_LEN(diag_parsers);
enum { PARSERS = ARRAY_LEN(diag_parsers) };

const char *diag_name(enum diag_id id)
{
    return rows[id].name;
}

const char *diag_text_of(enum diag_id id)
{
    return rows[id].text;
}

enum diag_role diag_role_of(enum diag_id id)
{
    return rows[id].role;
}

enum diag_id diag_id_find(const char *name, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strlen(rows[i].name) == len && strncmp(rows[i].name, name, len) == 0)
            return (enum diag_id)i;
    return DIAG_ID__COUNT;
}

double diag_number(const char *text, double fallback)
{
    if (!text)
        return fallback;
    const char *p = text + strcspn(text, "0123456789");
    char *end = NULL;
    double value = *p ? strtod(p, &end) : fallback;
    return end && end > p ? value : fallback;
}

struct diag_where diag_where_copy(const struct diag_line *line)
{
    struct diag_where where = {
        .file = str_dup(line->file), .text = str_dup(line->text), .line = line->number};
    snprintf(where.host, sizeof where.host, "%s", line->host);
    return where;
}

void diag_where_release(struct diag_where *where)
{
    free(where->file);
    free(where->text);
    *where = (struct diag_where){0};
}

bool diag_has(const struct diag *d, enum diag_id id)
{
    return d->found[id].seen > 0;
}

const char *diag_value(const struct diag_hit *hit, const char *key)
{
    for (size_t i = 0; i < hit->pair_count; i++)
        if (strcmp(hit->pairs[i].key, key) == 0)
            return hit->pairs[i].value;
    return NULL;
}

static void add_pair(struct diag_hit *hit, const char *key, size_t key_len, const char *value,
                     size_t len)
{
    while (len > 0 && strchr(" \t", value[0])) {
        value++;
        len--;
    }
    while (len > 0 && strchr(" \t", value[len - 1]))
        len--;
    if (len == 0 || hit->pair_count >= DIAG_PAIRS)
        return;
    struct diag_pair *pair = &hit->pairs[hit->pair_count++];
    snprintf(pair->key, sizeof pair->key, "%.*s", (int)key_len, key);
    pair->value = str_printf("%.*s", (int)(len < DIAG_VALUE_BYTES ? len : DIAG_VALUE_BYTES), value);
}

static bool same_pairs(const struct diag_hit *a, const struct diag_hit *b)
{
    if (a->pair_count != b->pair_count)
        return false;
    for (size_t i = 0; i < a->pair_count; i++)
        if (strcmp(a->pairs[i].key, b->pairs[i].key) != 0 ||
            strcmp(a->pairs[i].value, b->pairs[i].value) != 0)
            return false;
    return true;
}

static void release_pairs(struct diag_hit *hit)
{
    for (size_t i = 0; i < hit->pair_count; i++)
        free(hit->pairs[i].value);
    hit->pair_count = 0;
}

static void keep(struct diag *d, enum diag_id id, struct diag_hit *hit, const char *file,
                 const char *text, size_t line)
{
    struct diag_finding *f = &d->found[id];
    f->seen++;
    d->recorded++;
    for (size_t i = 0; i < f->kept; i++) {
        if (!same_pairs(&f->hits[i], hit))
            continue;
        f->hits[i].seen++;
        release_pairs(hit);
        return;
    }
    if (f->kept == DIAG_KEPT) {
        release_pairs(hit);
        return;
    }
    if (!f->hits)
        f->hits = mem_zero(DIAG_KEPT, sizeof *f->hits);
    hit->file = str_dup(file);
    hit->text = str_dup(text);
    hit->line = line;
    hit->seen = 1;
    f->hits[f->kept++] = *hit;
}

static void add_pairs(struct diag_hit *hit, const char *host, va_list args)
{
    for (const char *key; (key = va_arg(args, const char *)) != NULL;) {
        const char *value = va_arg(args, const char *);
        if (value)
            add_pair(hit, key, strlen(key), value, strlen(value));
    }
    if (host[0] && !diag_value(hit, "host"))
        add_pair(hit, "host", 4, host, strlen(host));
}

void diag_find(struct diag *d, enum diag_id id, const struct diag_line *line, ...)
{
    struct diag_hit hit = {0};
    va_list args;
    va_start(args, line);
    add_pairs(&hit, line->host, args);
    va_end(args);
    keep(d, id, &hit, line->file, line->text, line->number);
}

void diag_find_where(struct diag *d, enum diag_id id, const struct diag_where *where, ...)
{
    struct diag_hit hit = {0};
    va_list args;
    va_start(args, where);
    add_pairs(&hit, where->host, args);
    va_end(args);
    keep(d, id, &hit, where->file ? where->file : "?", where->text ? where->text : "", where->line);
}

void diag_find_result(struct diag *d, enum diag_id id, const struct diag_line *line,
                      const struct match_result *result)
{
    struct diag_hit hit = {0};
    for (size_t i = 0; i < result->count; i++)
        add_pair(&hit, result->captures[i].key, result->captures[i].key_len,
                 result->captures[i].text, result->captures[i].len);
    if (line->host[0] && !diag_value(&hit, "host"))
        add_pair(&hit, "host", 4, line->host, strlen(line->host));
    keep(d, id, &hit, line->file, line->text, line->number);
}

static void release(struct diag *d)
{
    for (size_t i = 0; i < DIAG_ID__COUNT; i++) {
        for (size_t k = 0; k < d->found[i].kept; k++) {
            release_pairs(&d->found[i].hits[k]);
            free(d->found[i].hits[k].file);
            free(d->found[i].hits[k].text);
        }
        free(d->found[i].hits);
    }
    free(d->tools);
    free(d);
}

json_t *diagnose(const struct diagnose_input *inputs, size_t count)
{
    struct diag *d = mem_zero(1, sizeof *d);
    d->tools = mem_zero(diag_tool_count(), sizeof *d->tools);
    struct match_set *set = diag_rules_create();
    void *states[PARSERS];
    for (size_t i = 0; i < PARSERS; i++)
        states[i] = diag_parsers[i]->create();
    for (size_t i = 0; i < count; i++)
        diag_scan(d, inputs[i].name, inputs[i].text, inputs[i].len, set, states);
    for (size_t i = 0; i < PARSERS; i++) {
        diag_parsers[i]->finish(states[i], d);
        diag_parsers[i]->release(states[i]);
    }
    d->gave_up = match_gave_up(set);
    match_destroy(set);
    json_t *answer = diag_infer(d);
    release(d);
    return answer;
}

int diagnose_exit_status(const json_t *answer)
{
    const char *code = json_string_value(json_object_get(answer, "cause_code"));
    if (code && strcmp(code, DIAGNOSE_OK) == 0)
        return 0;
    return !code || strcmp(code, DIAGNOSE_CANNOT_TELL) == 0 ? 2 : 1;
}
