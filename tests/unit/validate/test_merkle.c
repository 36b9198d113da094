/* Merkle trees: the known roots of RFC 6962's reference implementation, and properties. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "common/util.h"
#include "validate/merkle.h"

/* The eight inputs of the certificate-transparency reference tests. */
static const struct {
    const char *data;
    size_t len;
} inputs[] = {
    {"", 0},
    {"\x00", 1},
    {"\x10", 1},
    {"\x20\x21", 2},
    {"\x30\x31", 2},
    {"\x40\x41\x42\x43", 4},
    {"\x50\x51\x52\x53\x54\x55\x56\x57", 8},
    {"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f", 16},
};

static const char *const roots[] = {
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
};

static void known_roots(void **state)
{
    struct hash leaves[ARRAY_LEN(inputs)];
    for (size_t i = 0; i < ARRAY_LEN(inputs); i++)
        leaves[i] = merkle_leaf(inputs[i].data, inputs[i].len);
    for (size_t n = 0; n <= ARRAY_LEN(inputs); n++) {
        struct hash root = merkle_root(leaves, n);
        char hex[HASH_HEX_BYTES];
        hash_hex(&root, hex);
        assert_string_equal(hex, roots[n]);
    }
}

static void every_path_verifies_and_no_other(void **state)
{
    enum { MAX = 33 };
    struct hash leaves[MAX];
    for (size_t i = 0; i < MAX; i++)
        leaves[i] = merkle_leaf(&i, sizeof i);
    for (size_t n = 1; n <= MAX; n++) {
        struct hash root = merkle_root(leaves, n);
        for (size_t i = 0; i < n; i++) {
            struct hash path[MERKLE_MAX_PATH];
            size_t len = merkle_path(leaves, n, i, path);
            assert_true(merkle_verify(&leaves[i], i, n, path, len, &root));
            for (size_t k = 0; k < n; k++) {
                if (k != i)
                    assert_false(merkle_verify(&leaves[k], i, n, path, len, &root));
                if (k != i)
                    assert_false(merkle_verify(&leaves[i], k, n, path, len, &root));
            }
            assert_false(merkle_verify(&leaves[i], i, n, path, len + 1, &root));
            if (len > 0) {
                assert_false(merkle_verify(&leaves[i], i, n, path, len - 1, &root));
                path[len - 1].bytes[7] ^= 4;
                assert_false(merkle_verify(&leaves[i], i, n, path, len, &root));
            }
            assert_false(merkle_verify(&leaves[i], n, n, path, len, &root));
        }
    }
}

static void lines_are_leaves(void **state)
{
    static const struct {
        const char *text;
        size_t count;
    } rows[] = {{"", 0}, {"a\n", 1}, {"a", 1}, {"a\nb", 2}, {"a\nb\n", 2}, {"\n", 1}, {"\n\n", 2}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t count = 99;
        merkle_root_of_lines(rows[i].text, strlen(rows[i].text), &count);
        assert_int_equal(count, rows[i].count);
    }
    struct hash leaves[] = {merkle_leaf("a", 1), merkle_leaf("b", 1)};
    struct hash want = merkle_root(leaves, 2), got = merkle_root_of_lines("a\nb\n", 4, NULL);
    assert_true(hash_equal(&want, &got));
    got = merkle_root_of_lines("b\na\n", 4, NULL);
    assert_false(hash_equal(&want, &got));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_roots),
        cmocka_unit_test(every_path_verifies_and_no_other),
        cmocka_unit_test(lines_are_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
