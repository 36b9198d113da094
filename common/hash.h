/* SHA-256, hexadecimal and base64, on libcrypto. */
#ifndef MUSTER_COMMON_HASH_H
#define MUSTER_COMMON_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum { HASH_BYTES = 32, HASH_HEX_BYTES = 65 };

struct hash {
    uint8_t bytes[HASH_BYTES];
};

/* Aborts if libcrypto cannot do SHA-256 (then nothing here can work). */
struct hash hash_of(const void *data, size_t len);
struct hash hash_of2(const void *a, size_t na, const void *b, size_t nb); /* of a followed by b */
int hash_file(const char *path, struct hash *out, struct err *err);       /* ERR_ENV */
void hash_hex(const struct hash *h, char out[static HASH_HEX_BYTES]);
int hash_from_hex(const char *hex, struct hash *out); /* -1 unless exactly 64 hex digits */
int hash_equal(const struct hash *a, const struct hash *b);

/* Standard alphabet with padding.  The caller frees. */
char *base64_encode(const void *data, size_t len);
/* Strict: no blanks, right padding.  NULL when it is not base64.  The caller frees. */
uint8_t *base64_decode(const char *text, size_t *len);
/* Fill with random bytes from the kernel; aborts when that fails. */
void random_bytes(void *out, size_t len);

#endif
