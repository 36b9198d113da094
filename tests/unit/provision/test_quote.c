/* Words for a shell: the vectors state the form, and /bin/sh itself judges that they come back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provision/quote.h"

static const struct {
    const char *word, *quoted;
} vectors[] = {
    {"", "''"},
    {"true", "true"},
    {"/usr/bin/env", "/usr/bin/env"},
    {"user@host:22", "user@host:22"},
    {"a b", "'a b'"},
    {"it's", "'it'\\''s'"},
    {"'", "''\\'''"},
    {"$(reboot)", "'$(reboot)'"},
    {"`id`", "'`id`'"},
    {"a;b", "'a;b'"},
    {"A=b", "'A=b'"},
    {"~root", "'~root'"},
    {"*?[x]", "'*?[x]'"},
    {"a\nb", "'a\nb'"},
    {"a\tb\\", "'a\tb\\'"},
    {"#x", "'#x'"},
    {"!!", "'!!'"},
    {"{a,b}", "'{a,b}'"},
    {"\xc3\xa4", "'\xc3\xa4'"},
    {"-n", "-n"},
};

static void test_words(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        struct strbuf out = {0};
        quote_word(&out, vectors[i].word);
        assert_string_equal(out.data, vectors[i].quoted);
        strbuf_release(&out);
    }
}

static void test_argv(void **state)
{
    const char *none[] = {NULL}, *three[] = {"echo", "a b", "", NULL};
    char *line = quote_argv(none);
    assert_string_equal(line, "");
    free(line);
    line = quote_argv(three);
    assert_string_equal(line, "echo 'a b' ''");
    free(line);
}

/* Every byte but NUL, and every vector, through a real shell. */
static void test_shell_gives_words_back(void **state)
{
    char all[256];
    for (int i = 1; i < 256; i++)
        all[i - 1] = (char)i;
    all[255] = '\0';
    for (size_t i = 0; i <= ARRAY_LEN(vectors); i++) {
        const char *word = i < ARRAY_LEN(vectors) ? vectors[i].word : all;
        const char *argv[] = {"printf", "%s", word, NULL};
        char *line = quote_argv(argv);
        FILE *p = popen(line, "r");
        assert_non_null(p);
        char back[512];
        size_t len = fread(back, 1, sizeof back, p);
        assert_int_equal(pclose(p), 0);
        assert_int_equal(len, strlen(word));
        assert_memory_equal(back, word, len);
        free(line);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_argv),
        cmocka_unit_test(test_shell_gives_words_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
