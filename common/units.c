#include "common/units.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

/* With at most this many decimals, decimals times the largest factor (1 TiB) fits 63 bits. */
enum { MAX_DECIMALS = 6 };

/* A row with factor 0 is a spelling that is refused, with the reason. */
struct unit {
    const char *suffix;
    int64_t factor;
    const char *refusal;
};

struct quantity {
    const char *what;    /* "a rate" */
    const char *article; /* how a value is written: "a number and a unit, like 400Gb/s" */
    const char *base;    /* what one is counted in: "bits per second" */
    const struct unit *units;
    size_t unit_count;
    const char *bare_refusal; /* why a number without unit is refused; NULL when "" is a row */
};

static const char in_bytes[] = "that is bytes per second and a rate is in bits: 1GB/s is 8Gb/s";
static const char two_meanings[] = "it is used for 1000 and for 1024: write kB, MB, GB, TB or KiB, "
                                   "MiB, GiB, TiB";

static const struct unit rate_units[] = {
    {"b/s", 1, NULL},
    {"bit/s", 1, NULL},
    {"bps", 1, NULL},
    {"kb/s", 1000, NULL},
    {"kbit/s", 1000, NULL},
    {"kbps", 1000, NULL},
    {"Mb/s", 1000000, NULL},
    {"Mbit/s", 1000000, NULL},
    {"Mbps", 1000000, NULL},
    {"Gb/s", 1000000000, NULL},
    {"Gbit/s", 1000000000, NULL},
    {"Gbps", 1000000000, NULL},
    {"Tb/s", 1000000000000, NULL},
    {"Tbit/s", 1000000000000, NULL},
    {"Tbps", 1000000000000, NULL},
    {"B/s", 0, in_bytes},
    {"kB/s", 0, in_bytes},
    {"MB/s", 0, in_bytes},
    {"GB/s", 0, in_bytes},
    {"TB/s", 0, in_bytes},
    {"GiB/s", 0, in_bytes},
};

static const struct unit byte_units[] = {
    {"", 1, NULL},
    {"B", 1, NULL},
    {"kB", 1000, NULL},
    {"MB", 1000000, NULL},
    {"GB", 1000000000, NULL},
    {"TB", 1000000000000, NULL},
    {"KiB", 1024, NULL},
    {"MiB", INT64_C(1024) * 1024, NULL},
    {"GiB", INT64_C(1024) * 1024 * 1024, NULL},
    {"TiB", INT64_C(1024) * 1024 * 1024 * 1024, NULL},
    {"k", 0, two_meanings},
    {"K", 0, two_meanings},
    {"KB", 0, two_meanings},
    {"M", 0, two_meanings},
    {"G", 0, two_meanings},
    {"T", 0, two_meanings},
};

static const struct unit duration_units[] = {
    {"ms", 1, NULL},
    {"s", 1000, NULL},
    {"m", INT64_C(60) * 1000, NULL},
    {"h", INT64_C(60) * 60 * 1000, NULL},
    {"d", INT64_C(24) * 60 * 60 * 1000, NULL},
};

static const struct quantity rate = {
    "a rate",
    "a number and a unit, like 400Gb/s",
    "bits per second",
    rate_units,
    ARRAY_LEN(rate_units),
    "write 400Gb/s, 100Mb/s or 1000b/s",
};
static const struct quantity size = {
    "a size",
    "bytes, or a number and a unit like 64KiB or 1MB",
    "bytes",
    byte_units,
    ARRAY_LEN(byte_units),
    NULL,
};
static const struct quantity duration = {
    "a duration",   "a number and a unit, like 30s", "milliseconds",
    duration_units, ARRAY_LEN(duration_units),       "write 500ms, 30s, 10m, 24h or 7d",
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

int units_parse_int(const char *text, int64_t min, int64_t max, int64_t *out, struct err *err)
{
    const char *digits = *text == '-' ? text + 1 : text;
    if (!is_digit(*digits)) {
        if (*text == '\0')
            return err_set(err, ERR_DATA, "empty where an integer is meant");
        return err_set(err, ERR_DATA, "'%s' is not an integer", text);
    }
    char *rest = NULL;
    errno = 0;
    long long value = strtoll(text, &rest, 10);
    if (*rest != '\0')
        return err_set(err, ERR_DATA, "'%s' is not an integer (trailing '%s')%s", text, rest,
                       *rest == '.' ? "; two settings run together?" : "");
    if (errno == ERANGE || value < min || value > max)
        return err_set(err, ERR_DATA, "'%s' is out of range (%lld to %lld)", text, (long long)min,
                       (long long)max);
    *out = value;
    return 0;
}

/* A non-negative decimal number, split at the point.  decimals counts the digits in fraction. */
struct decimal {
    int64_t whole, fraction;
    int decimals;
    const char *rest;
};

/* Returns NULL, or the reason why text does not begin with a usable number. */
static const char *read_decimal(const char *text, struct decimal *d)
{
    *d = (struct decimal){.rest = text};
    if (*text == '-')
        return "it must not be negative";
    if (!is_digit(*text))
        return "it does not begin with a number";
    errno = 0;
    char *rest = NULL;
    d->whole = strtoll(text, &rest, 10);
    if (errno == ERANGE)
        return "it is too large";
    if (*rest == '.') {
        const char *first = ++rest;
        while (is_digit(*rest))
            rest++;
        if (rest == first)
            return "a digit is missing after the point";
        const char *last = rest;
        while (last > first && last[-1] == '0')
            last--;
        if (last - first > MAX_DECIMALS)
            return "it has more than 6 decimals";
        for (const char *p = first; p < last; p++, d->decimals++)
            d->fraction = d->fraction * 10 + (*p - '0');
    }
    d->rest = rest;
    return NULL;
}

static const struct unit *find_unit(const struct quantity *q, const char *suffix)
{
    for (size_t i = 0; i < q->unit_count; i++)
        if (strcmp(q->units[i].suffix, suffix) == 0)
            return &q->units[i];
    return NULL;
}

static int scale(const struct quantity *q, const char *text, const struct decimal *d,
                 int64_t factor, int64_t *out, struct err *err)
{
    int64_t divisor = 1;
    for (int i = 0; i < d->decimals; i++)
        divisor *= 10;
    int64_t part = d->fraction * factor, value = 0;
    if (part % divisor != 0)
        return err_set(err, ERR_DATA, "'%s' is not a whole number of %s", text, q->base);
    if (__builtin_mul_overflow(d->whole, factor, &value) ||
        __builtin_add_overflow(value, part / divisor, &value))
        return err_set(err, ERR_DATA, "'%s' is not %s: it is too large", text, q->what);
    *out = value;
    return 0;
}

static int parse_quantity(const struct quantity *q, const char *text, int64_t *out, struct err *err)
{
    struct decimal d;
    if (*text == '\0')
        return err_set(err, ERR_DATA, "empty where %s is meant (%s)", q->what, q->article);
    const char *fault = read_decimal(text, &d);
    if (fault)
        return err_set(err, ERR_DATA, "'%s' is not %s: %s (meant is %s)", text, q->what, fault,
                       q->article);
    const char *suffix = d.rest;
    while (*suffix == ' ' && suffix[1] != '\0')
        suffix++;
    if (*suffix == '\0' && q->bare_refusal)
        return err_set(err, ERR_DATA, "'%s' has no unit: %s", text, q->bare_refusal);
    const struct unit *unit = find_unit(q, suffix);
    if (!unit)
        return err_set(err, ERR_DATA, "'%s' is not %s: unknown unit '%s' (meant is %s)", text,
                       q->what, suffix, q->article);
    if (unit->refusal)
        return err_set(err, ERR_DATA, "'%s' is not %s: unit '%s' is refused, %s", text, q->what,
                       suffix, unit->refusal);
    return scale(q, text, &d, unit->factor, out, err);
}

int units_parse_rate_bps(const char *text, int64_t *out, struct err *err)
{
    return parse_quantity(&rate, text, out, err);
}

int units_parse_bytes(const char *text, int64_t *out, struct err *err)
{
    return parse_quantity(&size, text, out, err);
}

int units_parse_duration_ms(const char *text, int64_t *out, struct err *err)
{
    return parse_quantity(&duration, text, out, err);
}

struct step {
    double factor;
    const char *unit;
};

/* Three significant digits without trailing zeros; 1000 and more in full. */
static char *format_number(double value, const char *unit)
{
    double size_of = fabs(value);
    int decimals = size_of < 9.995 ? 2 : size_of < 99.95 ? 1 : 0;
    char number[400];
    int len = snprintf(number, sizeof number, "%.*f", decimals, value);
    if (len < 0 || (size_t)len >= sizeof number)
        return str_printf("%g %s", value, unit);
    while (decimals > 0 && number[len - 1] == '0') {
        number[--len] = '\0';
        decimals--;
    }
    if (number[len - 1] == '.')
        number[--len] = '\0';
    return str_printf("%s %s", strcmp(number, "-0") == 0 ? "0" : number, unit);
}

/* Steps ascend.  The largest step is taken that the value, rounded to three digits, reaches. */
static char *format_steps(double value, const struct step steps[], size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (fabs(value) >= steps[i].factor * 0.9995)
            best = i;
    return format_number(value / steps[best].factor, steps[best].unit);
}

char *units_format_rate(double bps)
{
    static const struct step steps[] = {
        {1, "bit/s"}, {1e3, "kbit/s"}, {1e6, "Mbit/s"}, {1e9, "Gbit/s"}, {1e12, "Tbit/s"},
    };
    return format_steps(bps, steps, ARRAY_LEN(steps));
}

char *units_format_bytes(double bytes)
{
    static const struct step steps[] = {
        {1, "B"},
        {1024, "KiB"},
        {1024.0 * 1024, "MiB"},
        {1024.0 * 1024 * 1024, "GiB"},
        {1024.0 * 1024 * 1024 * 1024, "TiB"},
    };
    /* An MTU of 65520 must not be shown as 64 KiB. */
    if (fabs(bytes) < steps[2].factor && fmod(bytes, 1024) != 0)
        return bytes == floor(bytes) ? str_printf("%.0f B", bytes) : format_number(bytes, "B");
    return format_steps(bytes, steps, ARRAY_LEN(steps));
}

char *units_format_seconds(double seconds)
{
    static const struct step below_minutes[] = {{1e-9, "ns"}, {1e-6, "us"}, {1e-3, "ms"}, {1, "s"}};
    static const struct step above[] = {{60, "min"}, {3600, "h"}, {86400, "d"}};
    if (seconds == 0)
        return str_dup("0 s");
    if (fabs(seconds) < 120)
        return format_steps(seconds, below_minutes, ARRAY_LEN(below_minutes));
    size_t i = fabs(seconds) < 2 * 3600.0 ? 0 : fabs(seconds) < 2 * 86400.0 ? 1 : 2;
    return format_number(seconds / above[i].factor, above[i].unit);
}

static char *format_microseconds(double us)
{
    return units_format_seconds(us * 1e-6);
}

static char *format_milliseconds(double ms)
{
    return units_format_seconds(ms * 1e-3);
}

static char *format_byte_rate(double bytes_per_s)
{
    static const struct step steps[] = {
        {1, "B/s"}, {1e3, "kB/s"}, {1e6, "MB/s"}, {1e9, "GB/s"}, {1e12, "TB/s"},
    };
    return format_steps(bytes_per_s, steps, ARRAY_LEN(steps));
}

static char *format_count(double value)
{
    if (value == floor(value) && fabs(value) < 1e15)
        return str_printf("%.0f", value);
    return str_printf("%.4g", value);
}

char *units_format(double value, const char *unit)
{
    static const struct {
        const char *unit;
        char *(*format)(double value);
    } rows[] = {
        {"bit/s", units_format_rate}, {"B", units_format_bytes},   {"s", units_format_seconds},
        {"us", format_microseconds},  {"ms", format_milliseconds}, {"B/s", format_byte_rate},
        {"1", format_count},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].unit, unit) == 0)
            return rows[i].format(value);
    return format_number(value, unit);
}
