#include "validate/merkle.h"

#include <stdlib.h>
#include <string.h>

#include "common/util.h"

struct hash merkle_leaf(const void *data, size_t len)
{
    const uint8_t tag = 0x00;
    return hash_of2(&tag, 1, data, len);
}

static struct hash inner(const struct hash *left, const struct hash *right)
{
    uint8_t joined[1 + HASH_BYTES];
    joined[0] = 0x01;
    memcpy(joined + 1, left->bytes, HASH_BYTES);
    return hash_of2(joined, sizeof joined, right->bytes, HASH_BYTES);
}

/* One level up, in place; returns the number of hashes on it. */
static size_t level_up(struct hash level[], size_t count)
{
    size_t up = 0;
    for (size_t i = 0; i + 1 < count; i += 2)
        level[up++] = inner(&level[i], &level[i + 1]);
    if (count % 2 != 0)
        level[up++] = level[count - 1];
    return up;
}

static struct hash *copy_level(const struct hash leaves[], size_t count)
{
    struct hash *level = mem_zero(count, sizeof *level);
    memcpy(level, leaves, count * sizeof *level);
    return level;
}

struct hash merkle_root(const struct hash leaves[], size_t count)
{
    if (count == 0)
        return hash_of("", 0);
    struct hash *level = copy_level(leaves, count);
    while (count > 1)
        count = level_up(level, count);
    struct hash root = level[0];
    free(level);
    return root;
}

size_t merkle_path(const struct hash leaves[], size_t count, size_t index,
                   struct hash path[static MERKLE_MAX_PATH])
{
    if (count == 0)
        return 0;
    struct hash *level = copy_level(leaves, count);
    size_t len = 0;
    while (count > 1) {
        size_t sibling = index ^ 1;
        if (sibling < count)
            path[len++] = level[sibling];
        count = level_up(level, count);
        index /= 2;
    }
    free(level);
    return len;
}

bool merkle_verify(const struct hash *leaf, size_t index, size_t count, const struct hash path[],
                   size_t path_len, const struct hash *root)
{
    if (index >= count)
        return false;
    struct hash at = *leaf;
    size_t used = 0;
    for (; count > 1; count = (count + 1) / 2, index /= 2) {
        if ((index ^ 1) >= count)
            continue; /* carried up unchanged */
        if (used == path_len)
            return false;
        const struct hash *sibling = &path[used++];
        at = index % 2 != 0 ? inner(sibling, &at) : inner(&at, sibling);
    }
    return used == path_len && hash_equal(&at, root) != 0;
}

struct hash merkle_root_of_lines(const char *text, size_t len, size_t *count)
{
    struct hash *leaves = NULL;
    size_t used = 0, cap = 0;
    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t line_len = end ? (size_t)(end - text) - at : len - at;
        if (used == cap) {
            cap = cap ? 2 * cap : 64;
            leaves = mem_grow(leaves, cap, sizeof *leaves);
        }
        leaves[used++] = merkle_leaf(text + at, line_len);
        at += line_len + 1;
    }
    struct hash root = merkle_root(leaves, used);
    free(leaves);
    if (count)
        *count = used;
    return root;
}
