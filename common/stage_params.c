#include "common/stage_params.h"

#include <string.h>

#include "common/util.h"

static const struct stage_param rows[] = {
#define STAGE_PARAM(stage_, key_, fallback_, min_, max_, meaning_)                                 \
    {.stage = (stage_),                                                                            \
     .key = (key_),                                                                                \
     .fallback = (fallback_),                                                                      \
     .min = (min_),                                                                                \
     .max = (max_),                                                                                \
     .meaning = (meaning_)},
#include "common/stage_params.def"
#undef STAGE_PARAM
};

size_t stage_params_count(void)
{
    return ARRAY_LEN(rows);
}

const struct stage_param *stage_params_at(size_t index)
{
    return index < ARRAY_LEN(rows) ? &rows[index] : NULL;
}

const struct stage_param *stage_params_find(const char *stage, const char *key)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].stage, stage) == 0 && strcmp(rows[i].key, key) == 0)
            return &rows[i];
    return NULL;
}

static int check_int(const struct stage_param *row, const json_t *value, struct err *err)
{
    if (!json_is_integer(value))
        return err_set(err, ERR_USAGE, "must be an integer from %lld to %lld (%s)",
                       (long long)row->min, (long long)row->max, row->meaning);
    json_int_t given = json_integer_value(value);
    if (given < row->min || given > row->max)
        return err_set(err, ERR_USAGE, "%lld is out of range (%lld to %lld: %s)", (long long)given,
                       (long long)row->min, (long long)row->max, row->meaning);
    return 0;
}

static int check_sizes(const json_t *value, struct err *err)
{
    size_t count = json_array_size(value);
    if (count < 1 || count > STAGE_PARAMS_MAX_SIZES)
        return err_set(err, ERR_USAGE, "must be a list of 1 to %d sizes in bytes",
                       STAGE_PARAMS_MAX_SIZES);
    for (size_t i = 0; i < count; i++) {
        const json_t *size = json_array_get(value, i);
        json_int_t bytes = json_integer_value(size);
        if (!json_is_integer(size) || bytes < 4 || bytes > STAGE_PARAMS_MAX_SIZE_BYTES ||
            bytes % 4 != 0)
            return err_set(err, ERR_USAGE,
                           "size %zu of the list must be a multiple of 4 from 4 to %d bytes", i + 1,
                           STAGE_PARAMS_MAX_SIZE_BYTES);
    }
    return 0;
}

static int check_dtype(const json_t *value, struct err *err)
{
    const char *word = json_is_string(value) ? json_string_value(value) : "";
    if (strcmp(word, "f32") != 0 && strcmp(word, "i32") != 0)
        return err_set(err, ERR_USAGE, "must be f32 or i32");
    return 0;
}

static int unknown_key(const char *stage, const char *key, struct err *err)
{
    const char *keys[ARRAY_LEN(rows) + 4];
    size_t count = 0;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].stage, stage) == 0)
            keys[count++] = rows[i].key;
    if (count == 0)
        return err_set(err, ERR_USAGE, "unknown key: stage %s has no parameters", stage);
    keys[count++] = "interface";
    if (strcmp(stage, "allreduce-cluster") == 0) {
        keys[count++] = "sizes_bytes";
        keys[count++] = "dtype";
    }
    keys[count] = NULL;
    const char *near = str_nearest(key, keys);
    return err_set(err, ERR_USAGE, "unknown key%s%s%s", near ? "; did you mean '" : "",
                   near ? near : "", near ? "'?" : "");
}

int stage_params_check(const char *stage, const char *key, const json_t *value, struct err *err)
{
    const struct stage_param *row = stage_params_find(stage, key);
    if (row)
        return check_int(row, value, err);
    bool allreduce = strcmp(stage, "allreduce-cluster") == 0;
    bool network = allreduce || strcmp(stage, "pairs") == 0;
    if (allreduce && strcmp(key, "sizes_bytes") == 0)
        return check_sizes(value, err);
    if (allreduce && strcmp(key, "dtype") == 0)
        return check_dtype(value, err);
    if (network && strcmp(key, "interface") == 0)
        return json_is_string(value) ? 0 : err_set(err, ERR_USAGE, "must be an interface's name");
    return unknown_key(stage, key, err);
}
