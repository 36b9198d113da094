/* Ed25519 keys in OpenSSH's own formats (PROTOCOL.key), without a process per key. */
#include "farm.h"

#include <openssl/evp.h>
#include <string.h>

#include "common/util.h"

enum { KEY_BYTES = 32, BLOCK_BYTES = 8, LINE_CHARS = 70 };

static void add_u32(struct strbuf *b, size_t value)
{
    unsigned char bytes[4] = {(unsigned char)(value >> 24), (unsigned char)(value >> 16),
                              (unsigned char)(value >> 8), (unsigned char)value};
    strbuf_add(b, bytes, sizeof bytes);
}

static void add_string(struct strbuf *b, const void *data, size_t len)
{
    add_u32(b, len);
    strbuf_add(b, data, len);
}

/* "ssh-ed25519" and the public half, as the wire and the files hold it. */
static void add_public(struct strbuf *b, const unsigned char public_key[static KEY_BYTES])
{
    add_string(b, "ssh-ed25519", 11);
    add_string(b, public_key, KEY_BYTES);
}

static char *encode(const struct strbuf *b)
{
    char *text = mem_zero(b->len * 4 / 3 + 8, 1);
    EVP_EncodeBlock((unsigned char *)text, (const unsigned char *)b->data, (int)b->len);
    return text;
}

/* The part that OpenSSH would encrypt: check numbers, key, comment, padding 1 2 3 ... */
static void add_private(struct strbuf *b, const unsigned char secret[static KEY_BYTES],
                        const unsigned char public_key[static KEY_BYTES], const char *comment)
{
    unsigned char both[2 * KEY_BYTES];
    memcpy(both, secret, KEY_BYTES);
    memcpy(both + KEY_BYTES, public_key, KEY_BYTES);
    add_u32(b, 0x6d757374); /* twice the same number: shows a reader that it decrypted rightly */
    add_u32(b, 0x6d757374);
    add_public(b, public_key);
    add_string(b, both, sizeof both);
    add_string(b, comment, strlen(comment));
    for (unsigned char pad = 1; b->len % BLOCK_BYTES != 0; pad++)
        strbuf_add(b, &pad, 1);
}

static char *private_file(const unsigned char secret[static KEY_BYTES],
                          const unsigned char public_key[static KEY_BYTES], const char *comment)
{
    struct strbuf blob = {0}, part = {0}, text = {0};
    strbuf_add(&blob, "openssh-key-v1", 15); /* with its NUL */
    add_string(&blob, "none", 4);            /* cipher */
    add_string(&blob, "none", 4);            /* key derivation */
    add_string(&blob, "", 0);
    add_u32(&blob, 1);
    add_public(&part, public_key);
    add_string(&blob, part.data, part.len);
    part.len = 0;
    add_private(&part, secret, public_key, comment);
    add_string(&blob, part.data, part.len);

    AUTO(free_str) char *base64 = encode(&blob);
    strbuf_puts(&text, "-----BEGIN OPENSSH PRIVATE KEY-----\n");
    size_t len = strlen(base64);
    for (size_t at = 0; at < len; at += LINE_CHARS)
        strbuf_printf(&text, "%.*s\n", LINE_CHARS, base64 + at);
    strbuf_puts(&text, "-----END OPENSSH PRIVATE KEY-----\n");
    strbuf_release(&blob);
    strbuf_release(&part);
    return text.data;
}

static int draw(unsigned char secret[static KEY_BYTES], unsigned char public_key[static KEY_BYTES])
{
    EVP_PKEY *pair = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    size_t secret_len = KEY_BYTES, public_len = KEY_BYTES;
    int ok = pair && EVP_PKEY_get_raw_private_key(pair, secret, &secret_len) == 1 &&
             EVP_PKEY_get_raw_public_key(pair, public_key, &public_len) == 1;
    EVP_PKEY_free(pair);
    return ok ? 0 : -1;
}

int farm_key_make(const char *path, const char *comment, char **line, struct err *err)
{
    unsigned char secret[KEY_BYTES], public_key[KEY_BYTES];
    if (draw(secret, public_key))
        return err_set(err, ERR_ENV, "libcrypto cannot make an Ed25519 key for %s", path);
    struct strbuf blob = {0};
    add_public(&blob, public_key);
    AUTO(free_str) char *base64 = encode(&blob);
    strbuf_release(&blob);
    AUTO(free_str) char *text = private_file(secret, public_key, comment);
    AUTO(free_str) char *public_path = str_printf("%s.pub", path);
    if (farm_put(path, 0600, err, "%s", text) ||
        farm_put(public_path, 0644, err, "ssh-ed25519 %s %s\n", base64, comment))
        return -1;
    if (line)
        *line = str_printf("ssh-ed25519 %s", base64);
    return 0;
}
