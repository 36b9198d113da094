/* Dead Simple Signing Envelope: a payload, its type, and Ed25519 signatures over
 * "DSSEv1 SP len(type) SP type SP len(payload) SP payload". */
#ifndef MUSTER_VALIDATE_DSSE_H
#define MUSTER_VALIDATE_DSSE_H

#include <jansson.h>
#include <stddef.h>

#include "common/err.h"
#include "common/util.h"
#include "validate/sign.h"

#define DSSE_TYPE_INTOTO "application/vnd.in-toto+json"

enum { DSSE_MAX_SIGNATURES = 16 };

/* Envelope signed by every key, at least one.  NULL and err: ERR_USAGE no key, ERR_ENV libcrypto.
 */
json_t *dsse_sign(const char *type, const void *payload, size_t len, struct sign_key *const keys[],
                  size_t key_count, struct err *err);

/* Check the form, find the signatures by trusted keys and verify each of them; at least one must be
 * there.  Signatures by other keys are not judged.  ERR_DATA says what is wrong; `what` names the
 * envelope in messages.  payload (zeroed by the caller) is filled only on success. */
int dsse_verify(const json_t *envelope, const char *what, const char *type,
                const struct sign_public trusted[], size_t trusted_count, struct strbuf *payload,
                struct err *err);

#endif
