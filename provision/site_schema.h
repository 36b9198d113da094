/* The keys of the site file as rows: type, range, default and meaning of each, in one table that
 * the reader, the "did you mean" and the documentation share.  Internal to provision/site*.c. */
#ifndef MUSTER_PROVISION_SITE_SCHEMA_H
#define MUSTER_PROVISION_SITE_SCHEMA_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "provision/source_map.h"

enum site_type {
    SITE_UNSET = 0,
    SITE_TEXT,     /* string, not empty */
    SITE_NAME,     /* letters, digits, '-', '_', '.' */
    SITE_NAMES,    /* list of names */
    SITE_TEXTS,    /* list of strings */
    SITE_INT,      /* within min..max */
    SITE_BOOL,     /* true or false */
    SITE_RATE,     /* "400Gb/s" to bit/s */
    SITE_DURATION, /* "7d" to ms, within min..max (ms) */
    SITE_CHOICE,   /* one of choices */
    SITE_DATE,     /* YYYY-MM-DD */
    SITE_HOSTS,    /* hostlist or list of hostlists to a list of names */
    SITE_VARS,     /* mapping of anything */
    SITE_PART,     /* has its own reader; the section reader only knows the key */
    SITE_TYPE__COUNT
};

struct site_key {
    const char *section; /* "" top level, "ssh", "node", "group", "policy", "exclude", ... */
    const char *key;
    const char *to; /* key in the normalised form, NULL when it is the same */
    enum site_type type;
    bool required;
    int64_t min, max;
    const char *const *choices; /* ends in NULL */
    const char *fallback;       /* JSON text of the normalised default, NULL means null */
    const char *doc;            /* one sentence */
};

extern const char *const site_stages[];       /* ends in NULL */
extern const char *const site_fabric_kinds[]; /* ends in NULL */

const struct site_key *site_schema(size_t *count);
const char *site_type_name(enum site_type type);
const char *site_type_form(enum site_type type); /* an example: "400Gb/s" */

/* Convert one value by its row.  *out is a new reference. */
int site_convert(const struct source_map *map, const char *pointer, const struct site_key *row,
                 const json_t *value, json_t **out, struct err *err);

/* Read a mapping by the rows of a section into out: unknown keys and wrong types fail, absent keys
 * get their default.  Keys of type SITE_PART are left to the caller (absent from out). */
int site_section(const struct source_map *map, const char *pointer, const char *section,
                 const json_t *value, json_t *out, struct err *err);

/* Fails with "must be a mapping ..." or "must be a list ..." unless value is one. */
int site_want_object(const struct source_map *map, const char *pointer, const json_t *value,
                     struct err *err);
int site_want_array(const struct source_map *map, const char *pointer, const json_t *value,
                    struct err *err);
/* "a, b, c"; the caller frees. */
char *site_join(const char *const words[]);
/* "; did you mean 'x'?" or, with a list, "; one of a, b, c".  The caller frees. */
char *site_hint(const char *word, const char *const candidates[], bool list_all);
/* "a string", "the integer 5", ... of a value, for messages; the caller frees. */
char *site_describe(const json_t *value);

#endif
