/* SHA-256 against the published vectors, hexadecimal and base64 against RFC 4648. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/hash.h"
#include "common/util.h"

/* FIPS 180-4 examples. */
static const struct {
    const char *data, *hex;
} vectors[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
};

static void known_digests(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        size_t len = strlen(vectors[i].data);
        char hex[HASH_HEX_BYTES];
        struct hash h = hash_of(vectors[i].data, len);
        hash_hex(&h, hex);
        assert_string_equal(hex, vectors[i].hex);
        for (size_t cut = 0; cut <= len; cut++) {
            struct hash split = hash_of2(vectors[i].data, cut, vectors[i].data + cut, len - cut);
            assert_true(hash_equal(&h, &split));
        }
    }
}

static void files(void **state)
{
    char path[] = "/tmp/test_hash-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    enum { BYTES = 200000 };
    AUTO(free_str) char *data = mem_zero(BYTES, 1);
    memset(data, 'a', BYTES);
    assert_int_equal(write(fd, data, BYTES), BYTES);
    close(fd);
    struct hash want = hash_of(data, BYTES), got;
    struct err err = {0};
    assert_int_equal(hash_file(path, &got, &err), 0);
    assert_true(hash_equal(&want, &got));
    unlink(path);
    AUTO(free_str) char *message = str_printf("open %s: No such file or directory", path);
    assert_int_equal(hash_file(path, &got, &err), -1);
    assert_string_equal(err.text, message);
    assert_int_equal(err.kind, ERR_ENV);
}

static void hexadecimal(void **state)
{
    struct hash h = hash_of("abc", 3), back = {{0}};
    char hex[HASH_HEX_BYTES];
    hash_hex(&h, hex);
    assert_int_equal(hash_from_hex(hex, &back), 0);
    assert_true(hash_equal(&h, &back));
    back.bytes[31] ^= 1;
    assert_false(hash_equal(&h, &back));
    static const char *const bad[] = {
        "",
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015a",
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015add",
        "ga7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015a ",
        "0xba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(hash_from_hex(bad[i], &back), -1);
}

static void base64(void **state)
{
    static const struct {
        const char *data, *text;
    } rows[] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"\xfb\xff", "+/8="},
        {"foobar", "Zm9vYmFy"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t len = 99;
        AUTO(free_str) char *text = base64_encode(rows[i].data, strlen(rows[i].data));
        assert_string_equal(text, rows[i].text);
        uint8_t *data = base64_decode(text, &len);
        assert_non_null(data);
        assert_int_equal(len, strlen(rows[i].data));
        assert_memory_equal(data, rows[i].data, len);
        free(data);
    }
}

static void refuses_other_spellings(void **state)
{
    static const char *const bad[] = {
        "Z",    "Zg",   "Zg=",  "Zg= ",     "Zg==\n", "=",        "====", "Z===",  "Zh==",
        "Zm9=", "Zm-v", "Zm_v", "Zg==Zg==", "Zm9vZg", "Zm9v====", "Z=g=", " Zm9v", "Zm9\xff",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        size_t len = 99;
        uint8_t *data = base64_decode(bad[i], &len);
        if (data)
            fail_msg("'%s' was taken", bad[i]);
        assert_int_equal(len, 99);
    }
}

static void random_bytes_differ(void **state)
{
    uint8_t a[32] = {0}, b[32] = {0};
    random_bytes(a, sizeof a);
    random_bytes(b, sizeof b);
    assert_memory_not_equal(a, b, sizeof a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_digests),
        cmocka_unit_test(files),
        cmocka_unit_test(hexadecimal),
        cmocka_unit_test(base64),
        cmocka_unit_test(refuses_other_spellings),
        cmocka_unit_test(random_bytes_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
