#include "validate/limits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/units.h"
#include "common/util.h"

static const double faster_than_physics =
    1.05;                                   /* above this a figure is a fault of the measurement */
static const double peers_drop = 0.05;      /* SuperBench's default rule: 5 % below the baseline */
static const double peers_z = 3.5;          /* Iglewicz and Hoaglin, modified z-score */
static const double peers_z_scale = 0.6745; /* turns a MAD into a standard deviation */
static const double peers_min_mad = 0.005;  /* of the median: a quiet cohort is not a strict one */

static const struct limits_quantity rows[] = {
#define LIMIT(name_, unit_, direction_, cause_, efficiency_, per_bps_, demanded_, source_)         \
    {.name = (name_),                                                                              \
     .unit = (unit_),                                                                              \
     .direction = LIMITS_##direction_,                                                             \
     .cause = (cause_),                                                                            \
     .efficiency = (efficiency_),                                                                  \
     .per_bps = (per_bps_),                                                                        \
     .demanded = (demanded_),                                                                      \
     .source = (source_)},
#include "validate/limits.def"
#undef LIMIT
};

const struct limits_quantity *limits_find(const char *quantity)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].name, quantity) == 0)
            return &rows[i];
    return NULL;
}

const struct limits_quantity *limits_at(size_t index)
{
    return index < ARRAY_LEN(rows) ? &rows[index] : NULL;
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts in place. */
static double median_of(double values[], size_t count)
{
    qsort(values, count, sizeof *values, compare_double);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

struct limits_peers limits_peers_of(const double values[], size_t count)
{
    struct limits_peers peers = {.count = count};
    if (count == 0)
        return peers;
    double *copy = mem_zero(count, sizeof *copy);
    memcpy(copy, values, count * sizeof *copy);
    peers.median = median_of(copy, count);
    for (size_t i = 0; i < count; i++)
        copy[i] = fabs(copy[i] - peers.median);
    peers.mad = fmax(median_of(copy, count), peers_min_mad * peers.median);
    free(copy);
    return peers;
}

double limits_peers_floor(const struct limits_peers *peers)
{
    if (peers->count < LIMITS_MIN_PEERS)
        return 0;
    double by_drop = peers->median * (1 - peers_drop);
    double by_z = peers->median - peers_z * peers->mad / peers_z_scale;
    return fmax(0, fmin(by_drop, by_z));
}

int limits_site_floor(const json_t *site, struct limits_figure *figure, struct err *err)
{
    const json_t *floors = json_object_get(json_object_get(site, "policy"), "floors");
    const json_t *floor = json_object_get(floors, figure->quantity->name);
    if (!floor || json_is_null(floor))
        return 0;
    AUTO(free_str) char *what = str_printf("site: policy.floors.%s", figure->quantity->name);
    double value = 0;
    const char *unit = NULL, *reason = NULL;
    if (jsonx_get_num(floor, what, "value", &value, err) != 0 ||
        jsonx_get_str(floor, what, "unit", &unit, err) != 0 ||
        jsonx_opt_str(floor, what, "reason", &reason, err) != 0)
        return -1;
    if (strcmp(unit, figure->quantity->unit) != 0)
        return err_set(err, ERR_DATA, "%s: unit is '%.20s', %s is measured in '%s'", what, unit,
                       figure->quantity->name, figure->quantity->unit);
    if (!(value > 0))
        return err_set(err, ERR_DATA, "%s: value must be above 0", what);
    figure->has_floor = true;
    figure->floor = value;
    figure->floor_reason = reason;
    return 0;
}

struct candidate {
    enum ledger_limit_kind kind;
    double value;
    char *source; /* owned */
};

static void free_candidate(struct candidate *c)
{
    free(c->source);
}

/* The limit that the site or the link sets, kind NONE when neither does. */
static struct candidate own_limit(const struct limits_figure *f)
{
    const struct limits_quantity *q = f->quantity;
    if (f->has_floor)
        return (struct candidate){
            q->direction == LIMITS_LOWER ? LEDGER_LIMIT_CEILING : LEDGER_LIMIT_FLOOR, f->floor,
            str_printf("site: policy.floors.%s%s%s", q->name, f->floor_reason ? ", " : "",
                       f->floor_reason ? f->floor_reason : "")};
    if (f->link_bps > 0 && q->efficiency > 0)
        return (struct candidate){LEDGER_LIMIT_ROOFLINE, f->link_bps * q->per_bps * q->efficiency,
                                  str_printf("%s; %s", f->link_source, q->source)};
    return (struct candidate){LEDGER_LIMIT_NONE, 0, NULL};
}

static struct candidate peers_limit(const struct limits_figure *f)
{
    double floor = f->quantity->direction == LIMITS_HIGHER ? limits_peers_floor(&f->peers) : 0;
    if (!(floor > 0))
        return (struct candidate){LEDGER_LIMIT_NONE, 0, NULL};
    AUTO(free_str) char *median = units_format(f->peers.median, f->quantity->unit);
    return (struct candidate){
        LEDGER_LIMIT_PEERS, floor,
        str_printf("%zu of their kind in this run, median %s", f->peers.count, median)};
}

static bool misses(const struct limits_figure *f, const struct candidate *c)
{
    if (c->kind == LEDGER_LIMIT_NONE)
        return false;
    return f->quantity->direction == LIMITS_HIGHER ? f->value < c->value : f->value > c->value;
}

static void fail_by(const struct limits_figure *f, const struct candidate *c,
                    struct ledger_row *row)
{
    const struct limits_quantity *q = f->quantity;
    AUTO(free_str) char *value = units_format(f->value, q->unit);
    AUTO(free_str) char *limit = units_format(c->value, q->unit);
    ledger_limit(row, c->kind, c->value, c->source);
    ledger_set(row, VERDICT_FAIL, q->cause, "%s is %s the limit %s (%s)", value,
               q->direction == LIMITS_HIGHER ? "below" : "above", limit, c->source);
}

/* A broken figure is a fault of the measurement whatever its limits say. */
static bool is_impossible(const struct limits_figure *f, struct ledger_row *row)
{
    const struct limits_quantity *q = f->quantity;
    AUTO(free_str) char *value = units_format(f->value, q->unit);
    if (!isfinite(f->value) || f->value < 0 || (f->value == 0 && q->demanded)) {
        ledger_set(row, VERDICT_FAIL, q->cause, "%s is not a possible %s", value, q->name);
        return true;
    }
    double physical = f->link_bps * q->per_bps;
    if (q->direction != LIMITS_HIGHER || !(physical > 0) ||
        f->value <= physical * faster_than_physics)
        return false;
    AUTO(free_str) char *limit = units_format(physical, q->unit);
    ledger_limit(row, LEDGER_LIMIT_CEILING, physical * faster_than_physics, f->link_source);
    ledger_set(row, VERDICT_FAIL, "faster-than-link",
               "%s is faster than the link itself, %s (%s): not a measurement of this link", value,
               limit, f->link_source);
    return true;
}

void limits_judge(const struct limits_figure *f, struct ledger_row *row)
{
    const struct limits_quantity *q = f->quantity;
    ledger_value(row, f->value, q->unit);
    if (is_impossible(f, row))
        return;
    AUTO(free_candidate) struct candidate own = own_limit(f);
    AUTO(free_candidate) struct candidate peers = peers_limit(f);
    if (misses(f, &own)) {
        fail_by(f, &own, row);
        return;
    }
    if (misses(f, &peers)) {
        fail_by(f, &peers, row);
        return;
    }
    AUTO(free_str) char *value = units_format(f->value, q->unit);
    const struct candidate *shown = own.kind != LEDGER_LIMIT_NONE ? &own : &peers;
    if (shown->kind != LEDGER_LIMIT_NONE) {
        AUTO(free_str) char *limit = units_format(shown->value, q->unit);
        ledger_limit(row, shown->kind, shown->value, shown->source);
        ledger_set(row, VERDICT_PASS, NULL, "%s, limit %s", value, limit);
    } else if (q->demanded) {
        ledger_set(row, VERDICT_NOT_MEASURED, "limit-missing",
                   "%s was measured, but there is no limit: the link's speed is not known, the "
                   "site states no floor, and there are %zu of its kind (%d are needed)",
                   value, f->peers.count, LIMITS_MIN_PEERS);
    } else {
        ledger_set(row, VERDICT_PASS, NULL, "%s, for information: no limit is stated", value);
    }
}
