/* Times, strings and buffers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

static void times_round_trip(void **state)
{
    static const struct {
        int64_t unix_ms;
        const char *text;
    } rows[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {1, "1970-01-01T00:00:00.001Z"},
        {951782400000, "2000-02-29T00:00:00.000Z"},
        {1796022000123, "2026-11-30T07:00:00.123Z"},
        {253402300799999, "9999-12-31T23:59:59.999Z"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[25];
        int64_t back = -1;
        time_format(rows[i].unix_ms, text);
        assert_string_equal(text, rows[i].text);
        assert_int_equal(time_parse(text, &back), 0);
        assert_true(back == rows[i].unix_ms);
    }
}

static void times_without_or_with_more_decimals(void **state)
{
    int64_t ms = -1;
    assert_int_equal(time_parse("1970-01-01T00:00:01Z", &ms), 0);
    assert_true(ms == 1000);
    assert_int_equal(time_parse("1970-01-01T00:00:01.5Z", &ms), 0);
    assert_true(ms == 1500);
    assert_int_equal(time_parse("1970-01-01T00:00:01.123999Z", &ms), 0);
    assert_true(ms == 1123);
}

static void refuses_what_is_no_time(void **state)
{
    static const char *const rows[] = {
        "",
        "2026-11-30",
        "2026-11-30T07:00:00",
        "2026-11-30T07:00:00+01:00",
        "2026-11-30T07:00:00.Z",
        "2026-11-30T07:00:00Zx",
        "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2025-02-29T00:00:00Z",
        "2026-11-30T24:00:00Z",
        "2026-11-30T07:60:00Z",
        "2026-1-3T07:00:00Z",
        " 2026-11-30T07:00:00Z",
        "2026-11-30 07:00:00Z",
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t ms = 42;
        if (time_parse(rows[i], &ms) != -1)
            fail_msg("'%s' was taken for a time", rows[i]);
        assert_true(ms == 42);
    }
}

static void clocks_do_not_run_backwards(void **state)
{
    int64_t ns = now_ns(), ms = now_ms();
    assert_true(now_ns() >= ns);
    assert_true(now_ms() >= ms);
    assert_true(wall_ms() > 1700000000000);
}

static void prefix_and_suffix(void **state)
{
    assert_true(str_has_prefix("gpu001", "gpu"));
    assert_true(str_has_prefix("gpu", ""));
    assert_false(str_has_prefix("gp", "gpu"));
    assert_true(str_has_suffix("site.yaml", ".yaml"));
    assert_true(str_has_suffix("x", ""));
    assert_false(str_has_suffix("aml", ".yaml"));
}

static void nearest_word(void **state)
{
    static const char *const words[] = {"interface", "mtu", "rate", "kind", NULL};
    static const char *const none[] = {NULL};
    static const struct {
        const char *word, *nearest;
    } rows[] = {
        {"interfcae", "interface"}, {"mtu", "mtu"}, {"mtus", "mtu"}, {"rat", "rate"},
        {"knid", "kind"},           {"zzz", NULL},  {"", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *found = str_nearest(rows[i].word, words);
        if (rows[i].nearest)
            assert_string_equal(found, rows[i].nearest);
        else
            assert_null(found);
    }
    assert_null(str_nearest("mtu", none));
    char longest[100];
    memset(longest, 'a', 99);
    longest[99] = '\0';
    assert_null(str_nearest(longest, words));
}

static void buffers_grow(void **state)
{
    AUTO(strbuf_release) struct strbuf b = {0};
    strbuf_drop_front(&b, 5);
    assert_int_equal(b.len, 0);
    for (int i = 0; i < 1000; i++)
        strbuf_printf(&b, "%03d,", i);
    assert_int_equal(b.len, 4000);
    assert_int_equal(strlen(b.data), 4000);
    strbuf_drop_front(&b, 3996);
    assert_string_equal(b.data, "999,");
    strbuf_add(&b, "a\0b", 3);
    assert_int_equal(b.len, 7);
    assert_memory_equal(b.data, "999,a\0b", 8);
    strbuf_drop_front(&b, 100);
    assert_string_equal(b.data, "");
    strbuf_puts(&b, "x");
    assert_string_equal(b.data, "x");
    strbuf_release(&b);
    assert_null(b.data);
}

static char *steal(void)
{
    AUTO(free_str) char *s = str_printf("%s-%d", "gpu", 7);
    return STEAL(s);
}

static void scopes_release_and_hand_out(void **state)
{
    AUTO(free_str) char *s = steal();
    assert_string_equal(s, "gpu-7");
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), copy = fd;
    assert_true(fd >= 0);
    close_fd(&fd);
    assert_int_equal(fd, -1);
    assert_int_equal(fcntl(copy, F_GETFD), -1);
    close_fd(&fd);
    assert_int_equal(fd, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_round_trip),
        cmocka_unit_test(times_without_or_with_more_decimals),
        cmocka_unit_test(refuses_what_is_no_time),
        cmocka_unit_test(clocks_do_not_run_backwards),
        cmocka_unit_test(prefix_and_suffix),
        cmocka_unit_test(nearest_word),
        cmocka_unit_test(buffers_grow),
        cmocka_unit_test(scopes_release_and_hand_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
