/* The error object: first cause wins, cut texts are marked, kinds and names belong together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "common/err.h"
#include "common/util.h"

enum { TWICE = 1024 };
_Static_assert(TWICE == 2 * ERR_TEXT_BYTES, "twice the size of a text");

static void fill(char *text, size_t len)
{
    memset(text, 'x', len);
    text[len] = '\0';
}

static void sets_and_returns_minus_one(void **state)
{
    struct err err = {0};
    assert_int_equal(err_set(&err, ERR_DATA, "%s: key '%s'", "site.yaml", "mtu"), -1);
    assert_int_equal(err.kind, ERR_DATA);
    assert_int_equal(err.native, 0);
    assert_string_equal(err.text, "site.yaml: key 'mtu'");
}

static void first_cause_wins(void **state)
{
    struct err err = {0};
    err_set(&err, ERR_ENV, "first");
    assert_int_equal(err_set(&err, ERR_DATA, "second"), -1);
    assert_int_equal(err_set_errno(&err, ERR_REMOTE, EACCES, "third"), -1);
    assert_int_equal(err.kind, ERR_ENV);
    assert_int_equal(err.native, 0);
    assert_string_equal(err.text, "first");
    err_clear(&err);
    assert_int_equal(err.kind, ERR_NONE);
    err_set(&err, ERR_DATA, "second");
    assert_string_equal(err.text, "second");
}

static void keeps_errno(void **state)
{
    struct err err = {0};
    assert_int_equal(err_set_errno(&err, ERR_ENV, ENOENT, "open %s", "/x"), -1);
    assert_string_equal(err.text, "open /x: No such file or directory");
    assert_int_equal(err.native, ENOENT);
    assert_int_equal(err_wrap(&err, "gpu%03d: ", 17), -1);
    assert_string_equal(err.text, "gpu017: open /x: No such file or directory");
    assert_int_equal(err.native, ENOENT);
    assert_int_equal(err.kind, ERR_ENV);
}

/* The text holds ERR_TEXT_BYTES - 1 characters: one less, exactly that many, one more. */
static void marks_truncation(void **state)
{
    static const struct {
        size_t len;
        int cut;
    } rows[] = {
        {ERR_TEXT_BYTES - 2, 0},
        {ERR_TEXT_BYTES - 1, 0},
        {ERR_TEXT_BYTES, 1},
        {ERR_TEXT_BYTES + 1, 1},
        {TWICE, 1},
    };
    char text[TWICE + 1];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        fill(text, rows[i].len);
        err_set(&err, ERR_DATA, "%s", text);
        size_t kept = rows[i].cut ? ERR_TEXT_BYTES - 1 : rows[i].len;
        assert_int_equal(strlen(err.text), kept);
        assert_int_equal(err.text[kept - 1], rows[i].cut ? '+' : 'x');
        assert_int_equal(err.text[kept - 2], 'x');
    }
}

static void marks_truncation_of_wrap(void **state)
{
    static const struct {
        size_t prefix, text;
        int cut;
    } rows[] = {
        {10, ERR_TEXT_BYTES - 12, 0}, {10, ERR_TEXT_BYTES - 11, 0}, {10, ERR_TEXT_BYTES - 10, 1},
        {ERR_TEXT_BYTES, 5, 1},       {ERR_TEXT_BYTES - 1, 1, 1},
    };
    char prefix[ERR_TEXT_BYTES + 1], text[ERR_TEXT_BYTES + 1];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        fill(prefix, rows[i].prefix);
        fill(text, rows[i].text);
        err_set(&err, ERR_DATA, "%s", text);
        err_wrap(&err, "%s", prefix);
        size_t total = rows[i].prefix + rows[i].text;
        size_t kept = rows[i].cut ? ERR_TEXT_BYTES - 1 : total;
        assert_int_equal(strlen(err.text), kept);
        assert_int_equal(err.text[kept - 1], rows[i].cut ? '+' : 'x');
    }
}

static void marks_truncation_of_errno(void **state)
{
    char text[TWICE + 1];
    struct err err = {0};
    fill(text, TWICE);
    err_set_errno(&err, ERR_ENV, EIO, "%s", text);
    assert_int_equal(strlen(err.text), ERR_TEXT_BYTES - 1);
    assert_int_equal(err.text[ERR_TEXT_BYTES - 2], '+');
    assert_int_equal(err.native, EIO);
}

static void kinds_and_names(void **state)
{
    static const struct {
        enum err_kind kind;
        const char *name;
        int status;
    } rows[] = {
        {ERR_NONE, "none", 0},     {ERR_USAGE, "usage", 2},     {ERR_ENV, "env", 3},
        {ERR_REMOTE, "remote", 4}, {ERR_TIMEOUT, "timeout", 5}, {ERR_DATA, "data", 2},
        {ERR_NOMEM, "nomem", 6},
    };
    assert_int_equal(ARRAY_LEN(rows), ERR_KIND__COUNT);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_string_equal(err_kind_name(rows[i].kind), rows[i].name);
        assert_int_equal(err_kind_find(rows[i].name), rows[i].kind);
        assert_int_equal(err_exit_status(rows[i].kind), rows[i].status);
    }
    assert_int_equal(err_kind_find("remot"), ERR_NONE);
    assert_int_equal(err_kind_find(NULL), ERR_NONE);
    assert_string_equal(err_kind_name(ERR_KIND__COUNT), "none");
    assert_int_equal(err_exit_status(ERR_KIND__COUNT), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_and_returns_minus_one),
        cmocka_unit_test(first_cause_wins),
        cmocka_unit_test(keeps_errno),
        cmocka_unit_test(marks_truncation),
        cmocka_unit_test(marks_truncation_of_wrap),
        cmocka_unit_test(marks_truncation_of_errno),
        cmocka_unit_test(kinds_and_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
