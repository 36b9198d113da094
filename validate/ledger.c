#include "validate/ledger.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "validate/causes.h"

struct ledger {
    struct ledger_row **rows;
    size_t count, cap;
    json_t *index; /* subject, stage and check -> position */
};

static const char *const limit_kinds[] = {
    [LEDGER_LIMIT_NONE] = "none",       [LEDGER_LIMIT_ROOFLINE] = "roofline",
    [LEDGER_LIMIT_FLOOR] = "floor",     [LEDGER_LIMIT_PEERS] = "peers",
    [LEDGER_LIMIT_SITE] = "site",       [LEDGER_LIMIT_EXACT] = "exact",
    [LEDGER_LIMIT_CEILING] = "ceiling",
};
_Static_assert(ARRAY_LEN(limit_kinds) == LEDGER_LIMIT_KIND__COUNT, "one word per kind");

/* A later finding replaces an earlier one only when it stands higher here. */
static const int weight[] = {
    [VERDICT_UNSET] = 0,        [VERDICT_PASS] = 1, [VERDICT_WARN] = 2,
    [VERDICT_NOT_MEASURED] = 3, [VERDICT_FAIL] = 4, [VERDICT_EXCLUDED] = 5,
};
_Static_assert(ARRAY_LEN(weight) == VERDICT__COUNT, "one weight per verdict");

struct ledger *ledger_create(void)
{
    struct ledger *l = mem_zero(1, sizeof *l);
    l->index = json_object();
    return l;
}

static void row_destroy(struct ledger_row *row)
{
    free(row->subject);
    free(row->node);
    free(row->stage);
    free(row->check);
    free(row->unit);
    free(row->limit_source);
    free(row->reason);
    json_decref(row->evidence);
    free(row);
}

void ledger_destroy(struct ledger *ledger)
{
    if (!ledger)
        return;
    for (size_t i = 0; i < ledger->count; i++)
        row_destroy(ledger->rows[i]);
    free(ledger->rows);
    json_decref(ledger->index);
    free(ledger);
}

static struct ledger_row *find(const struct ledger *ledger, const char *subject, const char *stage,
                               const char *check)
{
    AUTO(free_str) char *key = str_printf("%s\n%s\n%s", subject, stage, check);
    const json_t *at = json_object_get(ledger->index, key);
    return at ? ledger->rows[json_integer_value(at)] : NULL;
}

struct ledger_row *ledger_row(struct ledger *ledger, const char *subject, const char *node,
                              const char *stage, const char *check, bool required)
{
    struct ledger_row *row = find(ledger, subject, stage, check);
    if (row)
        return row;
    if (ledger->count == ledger->cap) {
        ledger->cap = ledger->cap ? 2 * ledger->cap : 256;
        ledger->rows = mem_grow(ledger->rows, ledger->cap, sizeof(void *));
    }
    row = mem_zero(1, sizeof *row);
    row->subject = str_dup(subject);
    row->node = str_dup(node);
    row->stage = str_dup(stage);
    row->check = str_dup(check);
    row->required = required;
    row->evidence = json_array();
    AUTO(free_str) char *key = str_printf("%s\n%s\n%s", subject, stage, check);
    jsonx_set_int(ledger->index, key, (int64_t)ledger->count);
    ledger->rows[ledger->count++] = row;
    return row;
}

size_t ledger_count(const struct ledger *ledger)
{
    return ledger->count;
}

struct ledger_row *ledger_at(const struct ledger *ledger, size_t index)
{
    return index < ledger->count ? ledger->rows[index] : NULL;
}

const struct ledger_row *ledger_find(const struct ledger *ledger, const char *subject,
                                     const char *stage, const char *check)
{
    return find(ledger, subject, stage, check);
}

void ledger_set(struct ledger_row *row, enum verdict verdict, const char *cause, const char *fmt,
                ...)
{
    const struct cause *known = causes_find(cause);
    if (cause && !known)
        abort();
    if (verdict >= VERDICT__COUNT || weight[verdict] <= weight[row->verdict])
        return;
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0)
        abort();
    va_end(args);
    free(row->reason);
    row->verdict = verdict;
    row->cause = known ? known->code : NULL;
    row->reason = text;
}

void ledger_value(struct ledger_row *row, double value, const char *unit)
{
    row->has_value = true;
    row->value = value;
    free(row->unit);
    row->unit = str_dup(unit);
}

void ledger_limit(struct ledger_row *row, enum ledger_limit_kind kind, double value,
                  const char *source)
{
    row->limit_kind = kind;
    row->limit_value = value;
    free(row->limit_source);
    row->limit_source = str_dup(source);
}

void ledger_evidence(struct ledger_row *row, const char *node, int64_t seq)
{
    json_t *ref = json_object();
    jsonx_set_str(ref, "node", node);
    jsonx_set_int(ref, "seq", seq);
    jsonx_append(row->evidence, ref);
}

json_t *ledger_row_json(const struct ledger_row *row)
{
    json_t *limit = NULL;
    if (row->limit_kind != LEDGER_LIMIT_NONE) {
        limit = json_object();
        jsonx_set_num(limit, "value", row->limit_value);
        jsonx_set_str(limit, "unit", row->unit ? row->unit : "1");
        jsonx_set_str(limit, "kind", limit_kinds[row->limit_kind]);
        jsonx_set_str(limit, "source", row->limit_source);
    }
    json_t *e = json_object();
    jsonx_set_str(e, "subject", row->subject);
    jsonx_set_str(e, "stage", row->stage);
    jsonx_set_str(e, "check", row->check);
    jsonx_set_bool(e, "required", row->required);
    jsonx_set_str(e, "verdict", verdict_name(row->verdict));
    jsonx_set(e, "value", row->has_value ? json_real(row->value) : json_null());
    jsonx_set_str(e, "unit", row->has_value ? row->unit : NULL);
    jsonx_set(e, "limit", limit ? limit : json_null());
    jsonx_set_str(e, "cause", row->cause);
    jsonx_set_str(e, "reason", row->reason ? row->reason : "");
    jsonx_set(e, "evidence", json_incref(row->evidence));
    return e;
}
