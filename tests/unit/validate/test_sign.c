/* Keys on disk and signatures, against RFC 8032's vectors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/util.h"
#include "validate/sign.h"

static void from_hex(const char *hex, uint8_t *out)
{
    for (size_t i = 0; hex[2 * i]; i++) {
        unsigned byte = 0;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        out[i] = (uint8_t)byte;
    }
}

/* RFC 8032, section 7.1, tests 1 and 2. */
static const struct {
    const char *public, *message, *sig;
    size_t len;
} vectors[] = {
    {"d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b"
     "4"
     "6bd25bf5f0595bbe24655141438e7a100b",
     0},
    {"3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11"
     "d"
     "8c387b2eaeb4302aeeb00d291612bb0c00",
     1},
};

static void known_signatures(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        struct sign_public key;
        uint8_t message[8] = {0}, sig[SIGN_SIGNATURE_BYTES];
        from_hex(vectors[i].public, key.raw);
        from_hex(vectors[i].message, message);
        from_hex(vectors[i].sig, sig);
        assert_true(sign_verify_bytes(&key, "", message, vectors[i].len, sig));
        sig[0] ^= 1;
        assert_false(sign_verify_bytes(&key, "", message, vectors[i].len, sig));
    }
}

static void any_flipped_bit_is_noticed(void **state)
{
    struct err err = {0};
    struct sign_key *key = sign_key_generate(&err);
    struct sign_public public;
    sign_public_raw(key, &public);
    uint8_t sig[SIGN_SIGNATURE_BYTES];
    char data[] = "evidence";
    assert_int_equal(sign_bytes(key, "context\n", data, sizeof data, sig, &err), 0);
    assert_true(sign_verify_bytes(&public, "context\n", data, sizeof data, sig));
    assert_false(sign_verify_bytes(&public, "another\n", data, sizeof data, sig));
    assert_false(sign_verify_bytes(&public, "context\n", data, sizeof data - 1, sig));
    for (size_t bit = 0; bit < 8 * sizeof sig; bit++) {
        sig[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(sign_verify_bytes(&public, "context\n", data, sizeof data, sig));
        sig[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t bit = 0; bit < 8 * sizeof data; bit++) {
        data[bit / 8] ^= (char)(1 << bit % 8);
        assert_false(sign_verify_bytes(&public, "context\n", data, sizeof data, sig));
        data[bit / 8] ^= (char)(1 << bit % 8);
    }
    sign_key_destroy(key);
}

static char *temp_dir(void)
{
    char *dir = str_dup("/tmp/muster-test-sign-XXXXXX");
    assert_non_null(mkdtemp(dir));
    return dir;
}

static void private_keys_come_back(void **state)
{
    struct err err = {0};
    AUTO(free_str) char *dir = temp_dir();
    AUTO(free_str) char *path = str_printf("%s/signing.key", dir);
    AUTO(free_str) char *public_path = str_printf("%s/signing.pub", dir);
    struct sign_key *key = sign_key_generate(&err);
    assert_int_equal(sign_key_save_private(key, path, &err), 0);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    struct sign_key *back = sign_key_load_private(path, &err);
    assert_non_null(back);
    struct sign_public a, b, c;
    sign_public_raw(key, &a);
    sign_public_raw(back, &b);
    assert_true(sign_public_equal(&a, &b));
    assert_int_equal(sign_public_save(&a, public_path, &err), 0);
    assert_int_equal(sign_public_load(public_path, &c, &err), 0);
    assert_true(sign_public_equal(&a, &c));
    /* An existing key is never replaced. */
    AUTO(free_str) char *want = str_printf("create private key %s: File exists", path);
    assert_int_equal(sign_key_save_private(key, path, &err), -1);
    assert_string_equal(err.text, want);
    sign_key_destroy(key);
    sign_key_destroy(back);
    assert_int_equal(fs_remove_tree(dir, &(struct err){0}), 0);
}

static void careless_modes_are_refused(void **state)
{
    static const mode_t modes[] = {0640, 0604, 0620, 0660, 0601, 0777};
    struct err err = {0};
    AUTO(free_str) char *dir = temp_dir();
    AUTO(free_str) char *path = str_printf("%s/signing.key", dir);
    struct sign_key *key = sign_key_generate(&err);
    assert_int_equal(sign_key_save_private(key, path, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        struct err refused = {0};
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_null(sign_key_load_private(path, &refused));
        AUTO(free_str)
        char *want = str_printf("private key %s: mode %04o lets others touch it; run: chmod 600 %s",
                                path, (unsigned)modes[i], path);
        assert_string_equal(refused.text, want);
        assert_int_equal(refused.kind, ERR_ENV);
    }
    if (geteuid() == 0) {
        struct err refused = {0};
        assert_int_equal(chmod(path, 0600), 0);
        assert_int_equal(chown(path, 12345, 0), 0);
        assert_null(sign_key_load_private(path, &refused));
        assert_non_null(strstr(refused.text, "belongs to uid 12345, you are uid 0"));
    }
    sign_key_destroy(key);
    assert_int_equal(fs_remove_tree(dir, &(struct err){0}), 0);
}

static void public_pem_is_strict(void **state)
{
    static const char good[] = "-----BEGIN PUBLIC KEY-----\n"
                               "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n"
                               "-----END PUBLIC KEY-----\n";
    struct err err = {0};
    struct sign_public key;
    assert_int_equal(sign_public_parse_pem(good, sizeof good - 1, "k", &key, &err), 0);
    assert_int_equal(sign_public_parse_pem(good, sizeof good - 2, "k", &key, &err), 0);
    AUTO(free_str) char *pem = sign_public_pem(&key);
    assert_string_equal(pem, good);
    for (size_t i = 0; i < sizeof good - 1; i++) {
        char bad[sizeof good];
        struct err refused = {0};
        struct sign_public other;
        memcpy(bad, good, sizeof good);
        bad[i] ^= 1;
        /* A flipped bit within the key's own base64 gives another key; elsewhere it is an error. */
        if (sign_public_parse_pem(bad, sizeof bad - 1, "k", &other, &refused) == 0)
            assert_false(sign_public_equal(&other, &key));
        else
            assert_string_equal(refused.text, "k: not an Ed25519 public key in PEM");
        if (i > 0 && i < sizeof good - 2)
            assert_int_equal(sign_public_parse_pem(good, i, "k", &other, &(struct err){0}), -1);
    }
}

/* Key and id as `openssl pkey -pubin -outform DER | sha256sum` prints them. */
static void keyid_is_the_hash_of_the_spki(void **state)
{
    struct sign_public key;
    from_hex(vectors[0].public, key.raw);
    char id[HASH_HEX_BYTES];
    sign_keyid(&key, id);
    uint8_t spki[44];
    from_hex("302a300506032b6570032100", spki);
    memcpy(spki + 12, key.raw, 32);
    struct hash h = hash_of(spki, sizeof spki);
    char want[HASH_HEX_BYTES];
    hash_hex(&h, want);
    assert_string_equal(id, want);
    struct sign_public back;
    AUTO(free_str) char *text = sign_public_base64(&key);
    assert_int_equal(sign_public_from_base64(text, &back), 0);
    assert_true(sign_public_equal(&key, &back));
    assert_int_equal(sign_public_from_base64("AAAA", &back), -1);
    assert_int_equal(sign_public_from_base64("not base64", &back), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_signatures),       cmocka_unit_test(any_flipped_bit_is_noticed),
        cmocka_unit_test(private_keys_come_back), cmocka_unit_test(careless_modes_are_refused),
        cmocka_unit_test(public_pem_is_strict),   cmocka_unit_test(keyid_is_the_hash_of_the_spki),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
