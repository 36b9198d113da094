#include "validate/sign.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/util.h"

struct sign_key {
    EVP_PKEY *pkey;
    struct sign_public public;
};

/* SubjectPublicKeyInfo of Ed25519 (RFC 8410) up to the 32 bytes of the key. */
static const uint8_t spki_prefix[12] = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03,
                                        0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};
enum { SPKI_BYTES = sizeof spki_prefix + SIGN_PUBLIC_BYTES };

static const char pem_begin[] = "-----BEGIN PUBLIC KEY-----\n";
static const char pem_end[] = "-----END PUBLIC KEY-----\n";

static void free_pkey(EVP_PKEY **pkey)
{
    EVP_PKEY_free(*pkey);
}

static void free_pkey_ctx(EVP_PKEY_CTX **ctx)
{
    EVP_PKEY_CTX_free(*ctx);
}

static void free_md_ctx(EVP_MD_CTX **ctx)
{
    EVP_MD_CTX_free(*ctx);
}

static void free_bio(BIO **bio)
{
    BIO_free(*bio);
}

/* Takes over *pkey on success. */
static struct sign_key *wrap_pkey(EVP_PKEY **pkey, const char *what, struct err *err)
{
    struct sign_public public;
    size_t len = sizeof public.raw;
    if (EVP_PKEY_id(*pkey) != EVP_PKEY_ED25519 ||
        EVP_PKEY_get_raw_public_key(*pkey, public.raw, &len) != 1 || len != sizeof public.raw) {
        err_set(err, ERR_DATA, "%s: not an Ed25519 key", what);
        return NULL;
    }
    struct sign_key *key = mem_zero(1, sizeof *key);
    key->pkey = STEAL(*pkey);
    key->public = public;
    return key;
}

struct sign_key *sign_key_generate(struct err *err)
{
    AUTO(free_pkey_ctx) EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_id(EVP_PKEY_ED25519, NULL);
    AUTO(free_pkey) EVP_PKEY *pkey = NULL;
    if (!ctx || EVP_PKEY_keygen_init(ctx) != 1 || EVP_PKEY_keygen(ctx, &pkey) != 1) {
        err_set(err, ERR_ENV, "libcrypto cannot generate an Ed25519 key");
        return NULL;
    }
    return wrap_pkey(&pkey, "new key", err);
}

void sign_key_destroy(struct sign_key *key)
{
    if (!key)
        return;
    EVP_PKEY_free(key->pkey);
    free(key);
}

static int check_private_file(int fd, const char *path, struct err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return err_set_errno(err, ERR_ENV, errno, "stat %s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_ENV, "private key %s: not a regular file", path);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return err_set(err, ERR_ENV,
                       "private key %s: belongs to uid %u, you are uid %u; use a key of your own",
                       path, (unsigned)st.st_uid, (unsigned)geteuid());
    if (st.st_mode & 077)
        return err_set(err, ERR_ENV,
                       "private key %s: mode %04o lets others touch it; run: chmod 600 %s", path,
                       (unsigned)st.st_mode & 07777, path);
    return 0;
}

/* An encrypted key must be an error, not a question on the terminal. */
static int no_passphrase(char *buf, int size, int rwflag, void *ctx)
{
    return -1;
}

struct sign_key *sign_key_load_private(const char *path, struct err *err)
{
    AUTO(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        err_set_errno(err, ERR_ENV, errno, "private key %s", path);
        return NULL;
    }
    if (check_private_file(fd, path, err) != 0)
        return NULL;
    char text[SIGN_PEM_MAX_BYTES];
    ssize_t len = read(fd, text, sizeof text);
    if (len < 0) {
        err_set_errno(err, ERR_ENV, errno, "read %s", path);
        return NULL;
    }
    AUTO(free_bio) BIO *bio = BIO_new_mem_buf(text, (int)len);
    AUTO(free_pkey)
    EVP_PKEY *pkey = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL) : NULL;
    OPENSSL_cleanse(text, sizeof text);
    if (!pkey) {
        err_set(err, ERR_DATA, "private key %s: not an unencrypted private key in PEM", path);
        return NULL;
    }
    return wrap_pkey(&pkey, path, err);
}

static int write_new(const char *path, const void *data, size_t len, struct err *err)
{
    AUTO(close_fd) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_set_errno(err, ERR_ENV, errno, "create private key %s", path);
    /* The umask can only take bits away; a key that its owner cannot read helps nobody. */
    bool ok = fchmod(fd, 0600) == 0;
    ssize_t put = ok ? write(fd, data, len) : -1;
    if (put == (ssize_t)len && fsync(fd) == 0)
        return 0;
    int errnum = put < 0 || put == (ssize_t)len ? errno : ENOSPC;
    unlink(path);
    return err_set_errno(err, ERR_ENV, errnum, "write private key %s", path);
}

int sign_key_save_private(const struct sign_key *key, const char *path, struct err *err)
{
    AUTO(free_bio) BIO *bio = BIO_new(BIO_s_secmem());
    char *text = NULL;
    if (!bio || PEM_write_bio_PrivateKey(bio, key->pkey, NULL, NULL, 0, NULL, NULL) != 1)
        return err_set(err, ERR_ENV, "libcrypto cannot write the private key %s", path);
    long len = BIO_get_mem_data(bio, &text);
    return write_new(path, text, (size_t)len, err);
}

void sign_public_raw(const struct sign_key *key, struct sign_public *out)
{
    *out = key->public;
}

static void spki_of(const struct sign_public *key, uint8_t out[static SPKI_BYTES])
{
    memcpy(out, spki_prefix, sizeof spki_prefix);
    memcpy(out + sizeof spki_prefix, key->raw, sizeof key->raw);
}

char *sign_public_pem(const struct sign_public *key)
{
    uint8_t spki[SPKI_BYTES];
    spki_of(key, spki);
    AUTO(free_str) char *body = base64_encode(spki, sizeof spki);
    return str_printf("%s%s\n%s", pem_begin, body, pem_end);
}

int sign_public_parse_pem(const char *text, size_t len, const char *source, struct sign_public *out,
                          struct err *err)
{
    enum { BODY_CHARS = (SPKI_BYTES + 2) / 3 * 4 };
    const size_t begin_len = sizeof pem_begin - 1, end_len = sizeof pem_end - 1;
    size_t full = begin_len + BODY_CHARS + 1 + end_len;
    /* The last newline is often lost on the way. */
    bool fits = (len == full || len == full - 1) && memcmp(text, pem_begin, begin_len) == 0 &&
                text[begin_len + BODY_CHARS] == '\n' &&
                memcmp(text + begin_len + BODY_CHARS + 1, pem_end, end_len - (full - len)) == 0;
    char body[BODY_CHARS + 1] = "";
    if (fits)
        memcpy(body, text + begin_len, BODY_CHARS);
    size_t spki_len = 0;
    uint8_t *spki = fits ? base64_decode(body, &spki_len) : NULL;
    int result = -1;
    if (spki && spki_len == SPKI_BYTES && memcmp(spki, spki_prefix, sizeof spki_prefix) == 0) {
        memcpy(out->raw, spki + sizeof spki_prefix, sizeof out->raw);
        result = 0;
    } else {
        err_set(err, ERR_DATA, "%s: not an Ed25519 public key in PEM", source);
    }
    free(spki);
    return result;
}

int sign_public_load(const char *path, struct sign_public *out, struct err *err)
{
    AUTO(free_str) char *text = NULL;
    size_t len = 0;
    if (fs_read(path, SIGN_PEM_MAX_BYTES, &text, &len, err) != 0)
        return -1;
    return sign_public_parse_pem(text, len, path, out, err);
}

int sign_public_save(const struct sign_public *key, const char *path, struct err *err)
{
    AUTO(free_str) char *text = sign_public_pem(key);
    return fs_write_atomic(path, text, strlen(text), 0644, err);
}

char *sign_public_base64(const struct sign_public *key)
{
    return base64_encode(key->raw, sizeof key->raw);
}

int sign_public_from_base64(const char *text, struct sign_public *out)
{
    size_t len = 0;
    uint8_t *raw = base64_decode(text, &len);
    bool fits = raw && len == sizeof out->raw;
    if (fits)
        memcpy(out->raw, raw, sizeof out->raw);
    free(raw);
    return fits ? 0 : -1;
}

void sign_keyid(const struct sign_public *key, char out[static HASH_HEX_BYTES])
{
    uint8_t spki[SPKI_BYTES];
    spki_of(key, spki);
    struct hash h = hash_of(spki, sizeof spki);
    hash_hex(&h, out);
}

bool sign_public_equal(const struct sign_public *a, const struct sign_public *b)
{
    return memcmp(a->raw, b->raw, sizeof a->raw) == 0;
}

/* Ed25519 signs whole messages, so context and data must lie in one piece. */
static void join(struct strbuf *buf, const char *context, const void *data, size_t len)
{
    strbuf_puts(buf, context);
    strbuf_add(buf, data, len);
}

int sign_bytes(const struct sign_key *key, const char *context, const void *data, size_t len,
               uint8_t sig[static SIGN_SIGNATURE_BYTES], struct err *err)
{
    AUTO(strbuf_release) struct strbuf buf = {0};
    join(&buf, context, data, len);
    AUTO(free_md_ctx) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    uint8_t fresh[SIGN_SIGNATURE_BYTES];
    size_t sig_len = sizeof fresh;
    if (!ctx || EVP_DigestSignInit(ctx, NULL, NULL, NULL, key->pkey) != 1 ||
        EVP_DigestSign(ctx, fresh, &sig_len, (const uint8_t *)buf.data, buf.len) != 1 ||
        sig_len != sizeof fresh)
        return err_set(err, ERR_ENV, "libcrypto cannot sign with the Ed25519 key");
    memcpy(sig, fresh, sizeof fresh);
    return 0;
}

bool sign_verify_bytes(const struct sign_public *key, const char *context, const void *data,
                       size_t len, const uint8_t sig[static SIGN_SIGNATURE_BYTES])
{
    AUTO(strbuf_release) struct strbuf buf = {0};
    join(&buf, context, data, len);
    AUTO(free_pkey)
    EVP_PKEY *pkey = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key->raw, sizeof key->raw);
    AUTO(free_md_ctx) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    return pkey && ctx && EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, pkey) == 1 &&
           EVP_DigestVerify(ctx, sig, SIGN_SIGNATURE_BYTES, (const uint8_t *)buf.data, buf.len) ==
               1;
}
