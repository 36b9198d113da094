#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the five above */
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/resources/diff.h"

static char *diff(const char *a, const char *b)
{
    struct strbuf out = {0};
    strbuf_puts(&out, "");
    diff_files(&out, "/f", a, strlen(a), "/f", b, strlen(b));
    return out.data;
}

static void test_vectors(void **state)
{
    static const struct {
        const char *a, *b, *want;
    } vectors[] = {
        {"a\n", "a\n", ""},
        {"", "a\n", "--- /f\n+++ /f\n@@ -0,0 +1 @@\n+a\n"},
        {"a\nb\n", "", "--- /f\n+++ /f\n@@ -1,2 +0,0 @@\n-a\n-b\n"},
        {"a\nb\nc\n", "a\nx\nc\n", "--- /f\n+++ /f\n@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"},
        {"a\n", "a", "--- /f\n+++ /f\n@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n"},
        {"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n",
         "--- /f\n+++ /f\n@@ -7,3 +7,4 @@\n 7\n 8\n 9\n+10\n"},
        {"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n", "x\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\ny\n",
         "--- /f\n+++ /f\n@@ -1,4 +1,4 @@\n-1\n+x\n 2\n 3\n 4\n@@ -9,4 +9,4 @@\n 9\n 10\n 11\n"
         "-12\n+y\n"},
        {"a\nb\nc\nd\n", "b\nc\nd\na\n", "--- /f\n+++ /f\n@@ -1,4 +1,4 @@\n-a\n b\n c\n d\n+a\n"},
        {"gr\xc3\xbc\xc3\x9f\n", "x\n", "--- /f\n+++ /f\n@@ -1 +1 @@\n-gr\xc3\xbc\xc3\x9f\n+x\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        AUTO(free_str) char *got = diff(vectors[i].a, vectors[i].b);
        assert_string_equal(got, vectors[i].want);
    }
}

static void test_binary(void **state)
{
    static const char *const binary[] = {
        "\x01", "\xff", "\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc0\xaf", "\x1b[31m"};
    for (size_t i = 0; i < ARRAY_LEN(binary); i++) {
        AUTO(free_str) char *got = diff(binary[i], "a\n");
        assert_int_equal(strncmp(got, "/f: binary content: ", 20), 0);
    }
    struct strbuf out = {0};
    diff_files(&out, NULL, "", 0, "/f", "\0", 1);
    assert_string_equal(out.data, "/f: binary content: absent -> 1 bytes (sha256 6e340b9cffb3)\n");
    strbuf_release(&out);
}

/* Lines of the old and the new text can be read off the difference again. */
static void test_large(void **state)
{
    struct strbuf a = {0}, b = {0};
    for (int i = 0; i < 3000; i++) {
        strbuf_printf(&a, "line %d\n", i);
        strbuf_printf(&b, "line %d\n", i * 2);
    }
    AUTO(free_str) char *got = diff(a.data, b.data);
    assert_true(strlen(got) < DIFF_MAX_BYTES + 200);
    assert_non_null(strstr(got, "\n-line 1\n"));
    strbuf_release(&a);
    strbuf_release(&b);
    for (int i = 0; i < 20000; i++) {
        strbuf_printf(&a, "old line %d\n", i);
        strbuf_printf(&b, "new line %d\n", i);
    }
    AUTO(free_str) char *cut = diff(a.data, b.data);
    assert_true(strlen(cut) < DIFF_MAX_BYTES + 200);
    const char *end = strstr(cut, "\n... cut: the whole difference has ");
    assert_non_null(end);
    assert_string_equal(strchr(end + 36, ' '), " bytes\n");
    strbuf_release(&a);
    strbuf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_binary),
        cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
