/* Tables and colours, through a file and through a pseudo terminal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "common/tty.h"
#include "common/util.h"

struct terminal {
    int controller;
    FILE *stream;
};

/* A terminal without output processing, so that a newline stays one. */
static struct terminal terminal_open(unsigned short columns)
{
    struct terminal t = {.controller = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)};
    assert_true(t.controller >= 0);
    assert_int_equal(grantpt(t.controller), 0);
    assert_int_equal(unlockpt(t.controller), 0);
    char name[128];
    assert_int_equal(ptsname_r(t.controller, name, sizeof name), 0);
    int fd = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(fd >= 0);
    struct winsize size = {.ws_col = columns, .ws_row = 24};
    assert_int_equal(ioctl(fd, TIOCSWINSZ, &size), 0);
    struct termios raw;
    assert_int_equal(tcgetattr(fd, &raw), 0);
    cfmakeraw(&raw);
    assert_int_equal(tcsetattr(fd, TCSANOW, &raw), 0);
    t.stream = fdopen(fd, "w");
    assert_non_null(t.stream);
    return t;
}

/* Closes and returns what was written. */
static char *terminal_close(struct terminal *t)
{
    struct strbuf out = {0};
    strbuf_puts(&out, "");
    fclose(t->stream);
    char chunk[4096];
    ssize_t got = 0;
    while ((got = read(t->controller, chunk, sizeof chunk)) > 0)
        strbuf_add(&out, chunk, (size_t)got);
    close(t->controller);
    return out.data;
}

static char *file_close(FILE *f)
{
    long len = ftell(f);
    char *text = mem_zero((size_t)len + 1, 1);
    rewind(f);
    assert_int_equal(fread(text, 1, (size_t)len, f), len);
    fclose(f);
    return text;
}

static int plain_environment(void **state)
{
    assert_int_equal(setenv("TERM", "xterm", 1), 0);
    assert_int_equal(unsetenv("NO_COLOR"), 0);
    return 0;
}

static struct tty_table *sample(void)
{
    static const char *const headings[] = {"NODE", "STATE", "REASON"};
    static const char *const rows[][3] = {
        {"gpu001", "ready", ""},
        {"gpu017", "not ready", "mlx5_3 port 1 trained at 200 Gbit/s instead of 400 Gbit/s"},
        {"m\xc3\xbcnchen", "\xe2\x9c\x93", "u"},
    };
    struct tty_table *t = tty_table_create(headings, 3);
    tty_table_row(t, TTY_GREEN, rows[0]);
    tty_table_row(t, TTY_RED, rows[1]);
    tty_table_row(t, TTY_PLAIN, rows[2]);
    return t;
}

static void a_file_gets_no_escapes_and_no_wrapping(void **state)
{
    struct tty_table *t = sample();
    FILE *f = tmpfile();
    tty_table_print(t, f);
    tty_table_destroy(t);
    assert_false(tty_is_terminal(f));
    assert_false(tty_has_color(f));
    assert_int_equal(tty_width(f), 80);
    assert_string_equal(tty_begin(f, TTY_RED), "");
    assert_string_equal(tty_end(f), "");
    AUTO(free_str) char *text = file_close(f);
    assert_string_equal(
        text, "NODE     STATE      REASON\n"
              "gpu001   ready\n"
              "gpu017   not ready  mlx5_3 port 1 trained at 200 Gbit/s instead of 400 Gbit/s\n"
              "m\xc3\xbcnchen  \xe2\x9c\x93          u\n");
}

static void a_terminal_gets_colours_and_wrapping(void **state)
{
    struct tty_table *t = sample();
    struct terminal term = terminal_open(44);
    assert_true(tty_is_terminal(term.stream));
    assert_int_equal(tty_width(term.stream), 44);
    tty_table_print(t, term.stream);
    tty_table_destroy(t);
    AUTO(free_str) char *text = terminal_close(&term);
    assert_string_equal(text, "\033[1mNODE     STATE      REASON\033[0m\n"
                              "\033[32mgpu001   ready\033[0m\n"
                              "\033[1;31mgpu017   not ready  mlx5_3 port 1 trained at\n"
                              "                    200 Gbit/s instead of\n"
                              "                    400 Gbit/s\033[0m\n"
                              "m\xc3\xbcnchen  \xe2\x9c\x93          u\n");
}

static void colours_can_be_refused(void **state)
{
    static const struct {
        const char *name, *value;
        bool terminal, color;
    } rows[] = {
        {"NO_COLOR", "1", true, false},
        {"NO_COLOR", "", true, true},
        {"TERM", "dumb", false, false},
        {"TERM", "xterm-256color", true, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        plain_environment(NULL);
        assert_int_equal(setenv(rows[i].name, rows[i].value, 1), 0);
        struct terminal term = terminal_open(80);
        assert_int_equal(tty_is_terminal(term.stream), rows[i].terminal);
        assert_int_equal(tty_has_color(term.stream), rows[i].color);
        assert_string_equal(tty_begin(term.stream, TTY_BOLD), rows[i].color ? "\033[1m" : "");
        assert_string_equal(tty_end(term.stream), rows[i].color ? "\033[0m" : "");
        free(terminal_close(&term));
    }
    plain_environment(NULL);
}

static void unknown_width_is_80(void **state)
{
    struct terminal term = terminal_open(0);
    assert_int_equal(tty_width(term.stream), 80);
    free(terminal_close(&term));
}

static void cells_cannot_drive_the_terminal(void **state)
{
    static const struct {
        const char *cell, *shown;
    } rows[] = {
        {"a\033[2Jb", "a?[2Jb"},
        {"a\nb\tc", "a b c"},
        {"a\rb", "a?b"},
        {"\x7f", "?"},
        {"\xc2\x9b", "?"},
        {"\xff\xfe", "??"},
        {"\xc3", "?"},
        {"\xe2\x82", "??"},
        {"\xe2\x82\xac", "\xe2\x82\xac"},
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct tty_table *t = tty_table_create(NULL, 1);
        const char *const cells[] = {rows[i].cell};
        tty_table_row(t, TTY_PLAIN, cells);
        FILE *f = tmpfile();
        tty_table_print(t, f);
        tty_table_destroy(t);
        AUTO(free_str) char *text = file_close(f);
        AUTO(free_str) char *want = str_printf("%s\n", rows[i].shown);
        assert_string_equal(text, want);
    }
}

static void wraps_words_longer_than_the_line(void **state)
{
    struct tty_table *t = tty_table_create(NULL, 1);
    const char *const cells[] = {"abcdefghijklmnopqrstuvwxyz0123456789 end"};
    tty_table_row(t, TTY_PLAIN, cells);
    struct terminal term = terminal_open(21);
    tty_table_print(t, term.stream);
    tty_table_destroy(t);
    AUTO(free_str) char *text = terminal_close(&term);
    assert_string_equal(text, "abcdefghijklmnopqrstu\nvwxyz0123456789 end\n");
}

static void empty_tables(void **state)
{
    FILE *f = tmpfile();
    struct tty_table *t = tty_table_create(NULL, 2);
    tty_table_print(t, f);
    const char *const cells[] = {NULL, NULL};
    tty_table_row(t, TTY_PLAIN, cells);
    tty_table_print(t, f);
    tty_table_destroy(t);
    t = tty_table_create(NULL, 0);
    tty_table_print(t, f);
    tty_table_destroy(t);
    tty_table_destroy(NULL);
    AUTO(free_str) char *text = file_close(f);
    assert_string_equal(text, "\n");
}

static void text_of_others_stays_one_plain_line(void **state)
{
    static const struct {
        const char *text, *shown;
    } rows[] = {
        {"", ""},
        {"as it is", "as it is"},
        {"a\nb\tc", "a b c"},
        {"\x1b[2J\rx\x07", "?[2J?x?"},
        {"gr\xc3\xbc\xc3\x9f\x65", "gr\xc3\xbc\xc3\x9f\x65"},
        {"\xc2\x9b"
         "31m",
         "?31m"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO(free_str) char *shown = tty_text(rows[i].text);
        assert_string_equal(shown, rows[i].shown);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_of_others_stays_one_plain_line),
        cmocka_unit_test_setup(a_file_gets_no_escapes_and_no_wrapping, plain_environment),
        cmocka_unit_test_setup(a_terminal_gets_colours_and_wrapping, plain_environment),
        cmocka_unit_test_setup(colours_can_be_refused, plain_environment),
        cmocka_unit_test_setup(unknown_width_is_80, plain_environment),
        cmocka_unit_test_setup(cells_cannot_drive_the_terminal, plain_environment),
        cmocka_unit_test_setup(wraps_words_longer_than_the_line, plain_environment),
        cmocka_unit_test_setup(empty_tables, plain_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
