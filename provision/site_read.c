#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hostlist.h"
#include "common/jsonx.h"
#include "common/units.h"
#include "common/util.h"
#include "provision/site_schema.h"

enum { NAME_MAX_BYTES = 128, TEXT_SHOWN_BYTES = 60, SECTION_MAX_KEYS = 32, LIST_MAX_ITEMS = 1000 };

/* What a converter works on. */
struct place {
    const struct source_map *map;
    const char *pointer;
    const struct site_key *row;
};

typedef int convert_fn(const struct place *p, const json_t *value, json_t **out, struct err *err);

char *site_describe(const json_t *value)
{
    if (json_is_object(value))
        return str_dup("a mapping");
    if (json_is_array(value))
        return str_dup("a list");
    if (json_is_null(value))
        return str_dup("nothing");
    if (json_is_string(value))
        return str_printf("the text '%.*s'", TEXT_SHOWN_BYTES, json_string_value(value));
    AUTO(free_str) char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    return str_dup(text ? text : "a number");
}

char *site_join(const char *const words[])
{
    struct strbuf b = {0};
    strbuf_puts(&b, "");
    for (size_t i = 0; words[i]; i++)
        strbuf_printf(&b, "%s%s", i ? ", " : "", words[i]);
    return b.data;
}

char *site_hint(const char *word, const char *const candidates[], bool list_all)
{
    const char *near = str_nearest(word, candidates);
    if (near)
        return str_printf("; did you mean '%s'?", near);
    if (!list_all)
        return str_dup("");
    AUTO(free_str) char *all = site_join(candidates);
    return str_printf("; one of %s", all);
}

static int wrong_type(const struct place *p, const json_t *value, struct err *err)
{
    AUTO(free_str) char *is = site_describe(value);
    const char *form = site_type_form(p->row->type);
    return source_err(p->map, p->pointer, err, "must be a %s%s%s%s, is %s",
                      site_type_name(p->row->type), form ? " like " : "", form ? form : "", "", is);
}

int site_want_object(const struct source_map *map, const char *pointer, const json_t *value,
                     struct err *err)
{
    if (json_is_object(value))
        return 0;
    AUTO(free_str) char *is = site_describe(value);
    return source_err(map, pointer, err, "must be a mapping (key: value), is %s", is);
}

int site_want_array(const struct source_map *map, const char *pointer, const json_t *value,
                    struct err *err)
{
    if (json_is_array(value))
        return 0;
    AUTO(free_str) char *is = site_describe(value);
    return source_err(map, pointer, err, "must be a list, is %s", is);
}

/* A scalar as it was written, so that the unit parsers can say what is wrong with it.  NULL for
 * anything that is not one. */
static char *scalar_text(const json_t *value)
{
    if (json_is_string(value))
        return str_dup(json_string_value(value));
    if (json_is_number(value))
        return site_describe(value);
    return NULL;
}

/* The parser's own sentence, at the value's place. */
static int relay(const struct place *p, const struct err *cause, struct err *err)
{
    return source_err(p->map, p->pointer, err, "%s", cause->text);
}

static int to_text(const struct place *p, const json_t *value, json_t **out, struct err *err)
{
    if (!json_is_string(value))
        return wrong_type(p, value, err);
    const char *text = json_string_value(value);
    if (!*text)
        return source_err(p->map, p->pointer, err, "must not be empty");
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return source_err(p->map, p->pointer, err, "holds a control character");
    *out = json_string(text);
    return 0;
}

static int to_name(const struct place *p, const json_t *value, json_t **out, struct err *err)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    AUTO(free_str) char *text = scalar_text(value);
    if (!text || json_is_real(value))
        return wrong_type(p, value, err);
    if (!*text)
        return source_err(p->map, p->pointer, err, "must not be empty");
    size_t good = strspn(text, allowed);
    if (text[good])
        return source_err(p->map, p->pointer, err,
                          "'%.*s' is not a name (letters, digits, '-', '_', '.'): character %zu",
                          TEXT_SHOWN_BYTES, text, good + 1);
    if (*text == '.' || *text == '-')
        return source_err(p->map, p->pointer, err, "a name must not begin with '%c'", *text);
    if (strlen(text) > NAME_MAX_BYTES)
        return source_err(p->map, p->pointer, err, "a name has at most %d characters",
                          NAME_MAX_BYTES);
    *out = json_string(text);
    return 0;
}

/* A list whose items are converted one by one; an item that occurs twice is refused. */
static int to_list(const struct place *p, const json_t *value, convert_fn *item, json_t **out,
                   struct err *err)
{
    if (!json_is_array(value))
        return wrong_type(p, value, err);
    if (json_array_size(value) > LIST_MAX_ITEMS)
        return source_err(p->map, p->pointer, err, "a list of more than %d items", LIST_MAX_ITEMS);
    json_auto_t *list = json_array();
    size_t i;
    json_t *v;
    json_array_foreach(value, i, v)
    {
        AUTO(free_str) char *pointer = source_pointer_index(p->pointer, i);
        const struct place at = {p->map, pointer, p->row};
        json_t *converted = NULL;
        if (item(&at, v, &converted, err) != 0)
            return -1;
        jsonx_append(list, converted);
        for (size_t k = 0; k < i; k++)
            if (json_equal(json_array_get(list, k), converted))
                return source_err(p->map, pointer, err, "'%s' is given twice",
                                  json_string_value(converted));
    }
    *out = STEAL(list);
    return 0;
}

static int to_names(const struct place *p, const json_t *value, json_t **out, struct err *err)
{
    return to_list(p, value, to_name, out, err);
}

static int to_texts(const struct place *p, const json_t *value, json_t **out, struct err *err)
{
    return to_list(p, value, to_text, out, err);
}

static int to_int(const struct place *p, const json_t *value, json_t **out, struct err *err)
{
    AUTO(free_str) char *text = scalar_text(value);
    if (!text)
        return wrong_type(p, value, err);
    int64_t number = 0;
    struct err cause = {0};
    if (units_parse_int(text, p->row->min, p->row->max, &number, &cause) != 0)
        return relay(p, &cause, err);
    *out = json_integer(number);
    return 0;
}

static int to_bool(const struct place *p, const json_t *value, json_t **out, struct err *err)
{
    if (!json_is_boolean(value)) {
        AUTO(free_str) char *is = site_describe(value);
        return source_err(p->map, p->pointer, err, "must be true or false, is %s%s", is,
                          json_is_string(value) ? " (yes, no, on and off are text)" : "");
    }
    *out = json_boolean(json_is_true(value));
    return 0;
}

static int to_rate(const struct place *p, const json_t *value, json_t **out, struct err *err)
{
    AUTO(free_str) char *text = scalar_text(value);
    if (!text)
        return wrong_type(p, value, err);
    int64_t bps = 0;
    struct err cause = {0};
    if (units_parse_rate_bps(text, &bps, &cause) != 0)
        return relay(p, &cause, err);
    if (bps <= 0)
        return source_err(p->map, p->pointer, err, "a rate must be more than 0");
    *out = json_integer(bps);
    return 0;
}

static int to_duration(const struct place *p, const json_t *value, json_t **out, struct err *err)
{
    AUTO(free_str) char *text = scalar_text(value);
    if (!text)
        return wrong_type(p, value, err);
    int64_t ms = 0;
    struct err cause = {0};
    if (units_parse_duration_ms(text, &ms, &cause) != 0)
        return relay(p, &cause, err);
    if (ms < p->row->min || ms > p->row->max) {
        AUTO(free_str) char *least = units_format_seconds((double)p->row->min / 1e3);
        AUTO(free_str) char *most = units_format_seconds((double)p->row->max / 1e3);
        return source_err(p->map, p->pointer, err, "'%s' is out of range (%s to %s)", text, least,
                          most);
    }
    *out = json_integer(ms);
    return 0;
}

static int to_choice(const struct place *p, const json_t *value, json_t **out, struct err *err)
{
    const char *word = json_string_value(value);
    for (size_t i = 0; word && p->row->choices[i]; i++) {
        if (strcmp(word, p->row->choices[i]) == 0) {
            *out = json_string(word);
            return 0;
        }
    }
    AUTO(free_str) char *choices = site_join(p->row->choices);
    AUTO(free_str) char *hint = site_hint(word ? word : "", p->row->choices, false);
    AUTO(free_str) char *is = site_describe(value);
    return source_err(p->map, p->pointer, err, "must be one of %s, is %s%s", choices, is, hint);
}

static bool is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* Digits that were checked before. */
static int number_at(const char *digits, int count)
{
    int n = 0;
    for (int i = 0; i < count; i++)
        n = n * 10 + (digits[i] - '0');
    return n;
}

static bool is_date(const char *text)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (strlen(text) != 10 || text[4] != '-' || text[7] != '-')
        return false;
    for (size_t i = 0; i < 10; i++)
        if (i != 4 && i != 7 && (text[i] < '0' || text[i] > '9'))
            return false;
    int year = number_at(text, 4), month = number_at(text + 5, 2), day = number_at(text + 8, 2);
    if (year < 2000 || month < 1 || month > 12 || day < 1)
        return false;
    return day <= days[month - 1] + (month == 2 && is_leap(year));
}

static int to_date(const struct place *p, const json_t *value, json_t **out, struct err *err)
{
    if (!json_is_string(value) || !is_date(json_string_value(value))) {
        AUTO(free_str) char *is = site_describe(value);
        return source_err(p->map, p->pointer, err, "%s is not a date of the form YYYY-MM-DD", is);
    }
    *out = json_string(json_string_value(value));
    return 0;
}

static int add_hosts(const struct place *p, const json_t *value, json_t *list, struct err *err)
{
    AUTO(free_str) char *text = scalar_text(value);
    if (!text || json_is_real(value))
        return wrong_type(p, value, err);
    AUTO(hostlist_release) struct hostlist hosts = {0};
    struct err cause = {0};
    if (hostlist_parse(text, &hosts, &cause) != 0)
        return relay(p, &cause, err);
    if (hosts.count == 0)
        return source_err(p->map, p->pointer, err, "names no host");
    if (json_array_size(list) + hosts.count > HOSTLIST_MAX_HOSTS)
        return source_err(p->map, p->pointer, err, "more than %d hosts", HOSTLIST_MAX_HOSTS);
    for (size_t i = 0; i < hosts.count; i++)
        jsonx_append_str(list, hosts.names[i]);
    return 0;
}

static int to_hosts(const struct place *p, const json_t *value, json_t **out, struct err *err)
{
    json_auto_t *list = json_array();
    if (!json_is_array(value)) {
        if (add_hosts(p, value, list, err) != 0)
            return -1;
        *out = STEAL(list);
        return 0;
    }
    size_t i;
    json_t *item;
    json_array_foreach(value, i, item)
    {
        AUTO(free_str) char *pointer = source_pointer_index(p->pointer, i);
        const struct place at = {p->map, pointer, p->row};
        if (add_hosts(&at, item, list, err) != 0)
            return -1;
    }
    *out = STEAL(list);
    return 0;
}

static int to_vars(const struct place *p, const json_t *value, json_t **out, struct err *err)
{
    if (!json_is_object(value))
        return wrong_type(p, value, err);
    *out = json_deep_copy(value);
    return 0;
}

static convert_fn *const converters[] = {
    [SITE_TEXT] = to_text,   [SITE_NAME] = to_name,         [SITE_NAMES] = to_names,
    [SITE_TEXTS] = to_texts, [SITE_INT] = to_int,           [SITE_BOOL] = to_bool,
    [SITE_RATE] = to_rate,   [SITE_DURATION] = to_duration, [SITE_CHOICE] = to_choice,
    [SITE_DATE] = to_date,   [SITE_HOSTS] = to_hosts,       [SITE_VARS] = to_vars,
    [SITE_PART] = NULL,
};
_Static_assert(ARRAY_LEN(converters) == SITE_TYPE__COUNT, "a converter per type");

int site_convert(const struct source_map *map, const char *pointer, const struct site_key *row,
                 const json_t *value, json_t **out, struct err *err)
{
    const struct place p = {map, pointer, row};
    return converters[row->type](&p, value, out, err);
}

static const struct site_key *find_row(const char *section, const char *key)
{
    size_t count;
    const struct site_key *rows = site_schema(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].section, section) == 0 && strcmp(rows[i].key, key) == 0)
            return &rows[i];
    return NULL;
}

static int unknown_key(const struct source_map *map, const char *pointer, const char *section,
                       const char *key, struct err *err)
{
    const char *keys[SECTION_MAX_KEYS + 1] = {NULL};
    size_t count, n = 0;
    const struct site_key *rows = site_schema(&count);
    for (size_t i = 0; i < count && n < SECTION_MAX_KEYS; i++)
        if (strcmp(rows[i].section, section) == 0)
            keys[n++] = rows[i].key;
    AUTO(free_str) char *at = source_pointer_key(pointer, key);
    AUTO(free_str) char *hint = site_hint(key, keys, true);
    return source_err(map, at, err, "unknown key%s", hint);
}

/* Value of a row that the mapping lacks. */
static int set_default(const struct source_map *map, const char *pointer,
                       const struct site_key *row, json_t *out, struct err *err)
{
    if (row->required)
        return source_err(map, pointer, err, "key '%s' is missing (%s)", row->key, row->doc);
    if (row->type == SITE_PART)
        return 0;
    json_t *value = row->fallback ? json_loads(row->fallback, JSON_DECODE_ANY, NULL) : json_null();
    jsonx_set(out, row->to ? row->to : row->key, value);
    return 0;
}

int site_section(const struct source_map *map, const char *pointer, const char *section,
                 const json_t *value, json_t *out, struct err *err)
{
    if (site_want_object(map, pointer, value, err) != 0)
        return -1;
    const char *key;
    json_t *member;
    json_object_foreach((json_t *)value, key, member)
    {
        const struct site_key *row = find_row(section, key);
        if (!row)
            return unknown_key(map, pointer, section, key, err);
        if (row->type == SITE_PART || (json_is_null(member) && !row->required))
            continue;
        AUTO(free_str) char *at = source_pointer_key(pointer, key);
        json_t *converted = NULL;
        if (site_convert(map, at, row, member, &converted, err) != 0)
            return -1;
        jsonx_set(out, row->to ? row->to : row->key, converted);
    }
    size_t count;
    const struct site_key *rows = site_schema(&count);
    for (size_t i = 0; i < count; i++) {
        const struct site_key *row = &rows[i];
        if (strcmp(row->section, section) != 0)
            continue;
        const json_t *given = json_object_get(value, row->key);
        if ((!given || (json_is_null(given) && !row->required)) &&
            set_default(map, pointer, row, out, err) != 0)
            return -1;
    }
    return 0;
}
