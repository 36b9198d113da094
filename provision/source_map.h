/* Where each value of a parsed file stands, so that a later error can name file, line and key.
 *
 * Values are named by JSON pointer ("/nodes/0/names"; "~" and "/" in keys are "~0" and "~1").
 * Not thread-safe while it is being filled; read-only afterwards. */
#ifndef MUSTER_PROVISION_SOURCE_MAP_H
#define MUSTER_PROVISION_SOURCE_MAP_H

#include <stddef.h>

#include "common/err.h"

struct source_map;

/* file is copied; it is what messages show. */
struct source_map *source_map_create(const char *file);
void source_map_destroy(struct source_map *map);  /* NULL accepted */
void source_map_release(struct source_map **map); /* for AUTO() */

void source_map_add(struct source_map *map, const char *pointer, int line); /* line from 1 */
const char *source_map_file(const struct source_map *map);
/* Line of the value, else of the nearest value around it, else 0. */
int source_map_line(const struct source_map *map, const char *pointer);

/* "/nodes/0/names" plus a key or an index; the caller frees. */
char *source_pointer_key(const char *pointer, const char *key);
char *source_pointer_index(const char *pointer, size_t index);
/* "nodes[0].names" for people; the caller frees. */
char *source_pointer_text(const char *pointer);

/* Record ERR_USAGE "FILE:LINE: nodes[0].names: TEXT" (without LINE where it is not known, without
 * the key for the whole file).  Always returns -1. */
int source_err(const struct source_map *map, const char *pointer, struct err *err, const char *fmt,
               ...) __attribute__((format(printf, 4, 5)));

#endif
