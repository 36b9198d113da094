#include "common/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/util.h"

static void free_md(EVP_MD_CTX **ctx)
{
    EVP_MD_CTX_free(*ctx);
}

static void digest_begin(EVP_MD_CTX *ctx)
{
    if (!ctx || EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1)
        abort();
}

static void digest_add(EVP_MD_CTX *ctx, const void *data, size_t len)
{
    if (len && EVP_DigestUpdate(ctx, data, len) != 1)
        abort();
}

static struct hash digest_end(EVP_MD_CTX *ctx)
{
    struct hash h;
    unsigned len = 0;
    if (EVP_DigestFinal_ex(ctx, h.bytes, &len) != 1 || len != HASH_BYTES)
        abort();
    return h;
}

struct hash hash_of2(const void *a, size_t na, const void *b, size_t nb)
{
    AUTO(free_md) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    digest_begin(ctx);
    digest_add(ctx, a, na);
    digest_add(ctx, b, nb);
    return digest_end(ctx);
}

struct hash hash_of(const void *data, size_t len)
{
    return hash_of2(data, len, NULL, 0);
}

int hash_file(const char *path, struct hash *out, struct err *err)
{
    AUTO(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set_errno(err, ERR_ENV, errno, "open %s", path);
    AUTO(free_md) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    digest_begin(ctx);
    char chunk[65536];
    for (;;) {
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_set_errno(err, ERR_ENV, errno, "read %s", path);
        if (got == 0)
            break;
        digest_add(ctx, chunk, (size_t)got);
    }
    *out = digest_end(ctx);
    return 0;
}

void hash_hex(const struct hash *h, char out[static HASH_HEX_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < HASH_BYTES; i++) {
        out[2 * i] = digits[h->bytes[i] >> 4];
        out[2 * i + 1] = digits[h->bytes[i] & 15];
    }
    out[HASH_HEX_BYTES - 1] = '\0';
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

int hash_from_hex(const char *hex, struct hash *out)
{
    struct hash h;
    if (strlen(hex) != HASH_HEX_BYTES - 1)
        return -1;
    for (size_t i = 0; i < HASH_BYTES; i++) {
        int high = hex_value(hex[2 * i]), low = hex_value(hex[2 * i + 1]);
        if (high < 0 || low < 0)
            return -1;
        h.bytes[i] = (uint8_t)(high << 4 | low);
    }
    *out = h;
    return 0;
}

int hash_equal(const struct hash *a, const struct hash *b)
{
    return memcmp(a->bytes, b->bytes, HASH_BYTES) == 0;
}

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *base64_encode(const void *data, size_t len)
{
    const uint8_t *in = data;
    char *out = mem_zero((len + 2) / 3 * 4 + 1, 1), *p = out;
    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i;
        uint32_t group = (uint32_t)in[i] << 16 | (uint32_t)(left > 1 ? in[i + 1] : 0) << 8 |
                         (uint32_t)(left > 2 ? in[i + 2] : 0);
        *p++ = alphabet[group >> 18 & 63];
        *p++ = alphabet[group >> 12 & 63];
        *p++ = (char)(left > 1 ? alphabet[group >> 6 & 63] : '=');
        *p++ = (char)(left > 2 ? alphabet[group & 63] : '=');
    }
    return out;
}

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* One group of four characters into `bytes` bytes; -1 when a character is foreign or the bits
 * beyond the last byte are not zero (two spellings of one value would defeat signatures). */
static int base64_group(const char *text, size_t bytes, uint8_t *out)
{
    uint32_t group = 0;
    for (size_t i = 0; i < 4; i++) {
        int value = i <= bytes ? base64_value(text[i]) : 0;
        if (value < 0 || (i > bytes && text[i] != '='))
            return -1;
        group = group << 6 | (uint32_t)value;
    }
    if ((bytes == 1 && (group & 0xffff)) || (bytes == 2 && (group & 0xff)))
        return -1;
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(group >> (16 - 8 * i));
    return 0;
}

uint8_t *base64_decode(const char *text, size_t *len)
{
    size_t chars = strlen(text);
    if (chars % 4 != 0)
        return NULL;
    uint8_t *out = mem_zero(chars / 4 * 3 + 1, 1);
    size_t used = 0;
    for (size_t i = 0; i < chars; i += 4) {
        bool last = i + 4 == chars;
        size_t bytes = !last || text[i + 3] != '=' ? 3 : text[i + 2] != '=' ? 2 : 1;
        if (base64_group(text + i, bytes, out + used) != 0) {
            free(out);
            return NULL;
        }
        used += bytes;
    }
    *len = used;
    return out;
}

void random_bytes(void *out, size_t len)
{
    uint8_t *p = out;
    while (len > 0) {
        ssize_t got = getrandom(p, len, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            abort();
        p += got;
        len -= (size_t)got;
    }
}
