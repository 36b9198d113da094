/* Merkle trees in the shape of RFC 6962: leaf SHA-256(0x00 || data), inner SHA-256(0x01 || l || r),
 * an odd last hash is carried up unchanged.  Pure functions. */
#ifndef MUSTER_VALIDATE_MERKLE_H
#define MUSTER_VALIDATE_MERKLE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/hash.h"

enum { MERKLE_MAX_PATH = 64 };

struct hash merkle_leaf(const void *data, size_t len);
/* Root over leaf hashes; SHA-256 of nothing for none. */
struct hash merkle_root(const struct hash leaves[], size_t count);
/* Sibling hashes from leaf `index` upwards; returns how many (index < count). */
size_t merkle_path(const struct hash leaves[], size_t count, size_t index,
                   struct hash path[static MERKLE_MAX_PATH]);
/* Whether leaf stands at index of a tree of `count` leaves with this root. */
bool merkle_verify(const struct hash *leaf, size_t index, size_t count, const struct hash path[],
                   size_t path_len, const struct hash *root);

/* Root over the lines of a JSON lines text (each without its newline; a last line may lack one).
 * *count gets the number of lines; it may be NULL. */
struct hash merkle_root_of_lines(const char *text, size_t len, size_t *count);

#endif
