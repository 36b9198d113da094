/* JSON on Jansson: strict parsing, canonical bytes, typed access with errors that name the place.
 *
 * Duplicate keys are refused everywhere.  `what` names the object in messages ("site.yaml:
 * fabric"). A getter leaves its output alone when it fails.  Ownership: `json_t **out` is a new
 * reference, `const char **` is borrowed from the object. */
#ifndef MUSTER_COMMON_JSONX_H
#define MUSTER_COMMON_JSONX_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

/* Parse len bytes; `source` goes into the message with line and column.  ERR_DATA. */
int jsonx_parse(const char *text, size_t len, const char *source, json_t **out, struct err *err);
/* ERR_ENV unreadable, ERR_DATA too large or malformed. */
int jsonx_load(const char *path, size_t max_bytes, json_t **out, struct err *err);
/* Pretty (indent 1, sorted keys) plus newline, written atomically. */
int jsonx_save(const char *path, const json_t *value, mode_t mode, struct err *err);
/* Canonical bytes: compact, keys in byte order, UTF-8, reals as the shortest decimal that reads
 * back the same (with ".0" when integral).  The same value gives the same bytes, and parsing them
 * gives the same value again; signatures and digests are over these.  The caller frees. */
char *jsonx_canonical(const json_t *value);

/* Required members. ERR_DATA: missing or of another type ("gpu001: key 'mtu' must be an integer, is
 * a string"). */
int jsonx_get_str(const json_t *obj, const char *what, const char *key, const char **out,
                  struct err *err);
int jsonx_get_int(const json_t *obj, const char *what, const char *key, int64_t *out,
                  struct err *err);
int jsonx_get_num(const json_t *obj, const char *what, const char *key, double *out,
                  struct err *err); /* integer or real */
int jsonx_get_bool(const json_t *obj, const char *what, const char *key, bool *out,
                   struct err *err);
int jsonx_get_obj(const json_t *obj, const char *what, const char *key, const json_t **out,
                  struct err *err);
int jsonx_get_arr(const json_t *obj, const char *what, const char *key, const json_t **out,
                  struct err *err);

/* Optional members: absent or null leaves *out alone and returns 0; another type is ERR_DATA. */
int jsonx_opt_str(const json_t *obj, const char *what, const char *key, const char **out,
                  struct err *err);
int jsonx_opt_int(const json_t *obj, const char *what, const char *key, int64_t *out,
                  struct err *err);
int jsonx_opt_bool(const json_t *obj, const char *what, const char *key, bool *out,
                   struct err *err);

/* Every key of obj must be in keys (ends in NULL); else ERR_DATA with "did you mean". */
int jsonx_only_keys(const json_t *obj, const char *what, const char *const keys[], struct err *err);

/* Values for tolerant readers: the fallback when absent or of another type. */
const char *jsonx_str_or(const json_t *obj, const char *key, const char *fallback);
int64_t jsonx_int_or(const json_t *obj, const char *key, int64_t fallback);
bool jsonx_bool_or(const json_t *obj, const char *key, bool fallback);

/* Set a member and take over the value's reference; aborts when memory is gone. */
void jsonx_set(json_t *obj, const char *key, json_t *value);
/* NULL sets null; bytes that are not UTF-8 become '?', here and in jsonx_append_str(). */
void jsonx_set_str(json_t *obj, const char *key, const char *value);
void jsonx_set_int(json_t *obj, const char *key, int64_t value);
void jsonx_set_num(json_t *obj, const char *key, double value);
void jsonx_set_bool(json_t *obj, const char *key, bool value);
void jsonx_append(json_t *arr, json_t *value);
void jsonx_append_str(json_t *arr, const char *value);

#endif
