/* One node's part of a report: its entry, the Merkle path, the signed root.  The gate reads no
 * more. */
#ifndef MUSTER_VALIDATE_SLICE_H
#define MUSTER_VALIDATE_SLICE_H

#include <jansson.h>
#include <stddef.h>

#include "common/err.h"
#include "validate/sign.h"
#include "validate/verdict.h"

#define SLICE_PREDICATE "urn:muster:readiness-root:v1"

enum { SLICE_MAX_BYTES = 8 * 1024 * 1024 };

/* entries: object NODE -> entry.  predicate: the root predicate (borrowed).  *slices: object NODE
 * -> slice, new reference. */
int slice_build(const json_t *entries, const char *cluster, const json_t *predicate,
                struct sign_key *const keys[], size_t key_count, json_t **slices, struct err *err);

/* Check form, signature of the root, and that the entry stands where it says.  Neither time nor
 * this machine is looked at.  ERR_DATA.  *entry and *predicate are new references, set only on
 * success. */
int slice_verify(const char *text, size_t len, const struct sign_public trusted[],
                 size_t trusted_count, json_t **entry, json_t **predicate, struct err *err);

/* The state that the entry's own elements add up to. */
enum verdict_state slice_entry_state(const json_t *entry);

/* Merkle root over entries (object NODE -> entry) in the byte order of the names. */
struct hash slice_root(const json_t *entries);

/* Parse JSON text and require that, blanks between tokens aside, it is the canonical form: so no
 * byte of a signed file can be altered without notice.  ERR_DATA. */
int slice_parse_exact(const char *text, size_t len, const char *source, json_t **out,
                      struct err *err);

#endif
