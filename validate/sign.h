/* Ed25519 keys and signatures, on libcrypto.
 *
 * A public key is its 32 raw bytes; a private key is opaque and wiped when it is destroyed.  Every
 * signature covers a context string followed by the data, so that a signature made for one purpose
 * never verifies for another.  Thread rule: keys are read-only after loading and may be shared. */
#ifndef MUSTER_VALIDATE_SIGN_H
#define MUSTER_VALIDATE_SIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/hash.h"

enum { SIGN_PUBLIC_BYTES = 32, SIGN_SIGNATURE_BYTES = 64, SIGN_PEM_MAX_BYTES = 16384 };

struct sign_key; /* private key */

struct sign_public {
    uint8_t raw[SIGN_PUBLIC_BYTES];
};

/* A fresh key.  NULL and err (ERR_ENV) when libcrypto refuses. */
struct sign_key *sign_key_generate(struct err *err);
void sign_key_destroy(struct sign_key *key); /* NULL accepted */

/* Read an unencrypted PKCS#8 PEM file.  NULL and err: ERR_ENV cannot open, the file belongs to
 * another user than the caller (root's keys are accepted), or group or others may touch it;
 * ERR_DATA not an Ed25519 private key. */
struct sign_key *sign_key_load_private(const char *path, struct err *err);
/* Write it with mode 0600; an existing file is never replaced.  ERR_ENV. */
int sign_key_save_private(const struct sign_key *key, const char *path, struct err *err);

/* The public half. */
void sign_public_raw(const struct sign_key *key, struct sign_public *out);

/* SubjectPublicKeyInfo in PEM, as `openssl pkey -pubout` prints it.  The caller frees. */
char *sign_public_pem(const struct sign_public *key);
/* Strict: one PUBLIC KEY block of an Ed25519 key and nothing else.  ERR_DATA; `source` names the
 * text. */
int sign_public_parse_pem(const char *text, size_t len, const char *source, struct sign_public *out,
                          struct err *err);
int sign_public_load(const char *path, struct sign_public *out,
                     struct err *err); /* ERR_ENV, ERR_DATA */
int sign_public_save(const struct sign_public *key, const char *path,
                     struct err *err); /* 0644, atomic */

/* Raw bytes in base64, as hello's node_key and nodes.json carry them.  The caller frees. */
char *sign_public_base64(const struct sign_public *key);
int sign_public_from_base64(const char *text, struct sign_public *out); /* -1 unless 32 bytes */

/* SHA-256 of the DER SubjectPublicKeyInfo in hex: names the key in a DSSE envelope. */
void sign_keyid(const struct sign_public *key, char out[static HASH_HEX_BYTES]);
bool sign_public_equal(const struct sign_public *a, const struct sign_public *b);

/* Sign context (a string, its NUL not included) followed by data.  ERR_ENV when libcrypto refuses.
 */
int sign_bytes(const struct sign_key *key, const char *context, const void *data, size_t len,
               uint8_t sig[static SIGN_SIGNATURE_BYTES], struct err *err);
bool sign_verify_bytes(const struct sign_public *key, const char *context, const void *data,
                       size_t len, const uint8_t sig[static SIGN_SIGNATURE_BYTES]);

#endif
