/* YAML files as JSON values, read strictly (YAML 1.2 core scalars; libyaml's events underneath).
 *
 * Plain scalars: null ~ and nothing are null; true and false are booleans; 12, -3, +4, 0x1f are
 * integers; 1.5, 1e3, .5 are reals.  Everything else is a string: yes, no, on, off, 0644, 007,
 * 1_000, 12:30, 2026-12-31, 1.2.3, 3rd.  Quoted scalars are strings always. Refused with line and
 * column: duplicate keys (both lines), merge keys, tags, several documents, tabs as indentation,
 * keys that are not scalars, integers beyond 64 bits, .inf and .nan, U+0000, unknown aliases, and
 * more than the limits below.  Every refusal is ERR_USAGE.  Thread-safe. */
#ifndef MUSTER_PROVISION_YAML_H
#define MUSTER_PROVISION_YAML_H

#include <jansson.h>
#include <stddef.h>

#include "common/err.h"
#include "provision/source_map.h"

enum {
    YAML_MAX_BYTES = 16 * 1024 * 1024,
    YAML_MAX_DEPTH = 64,
    YAML_MAX_NODES = 1000000 /* values, those that aliases repeat included */
};

/* Parse len bytes; `source` goes into messages.
 *
 * map   filled with the line of every value when not NULL (also on failure, in part)
 * out   new reference, set only on success; json_null() for an empty document. */
int yaml_parse(const char *text, size_t len, const char *source, struct source_map *map,
               json_t **out, struct err *err);

/* The same for a file.  ERR_ENV when it cannot be read. */
int yaml_load(const char *path, struct source_map *map, json_t **out, struct err *err);

#endif
