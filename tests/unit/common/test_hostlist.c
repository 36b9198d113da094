/* Host lists: expansion as Slurm does it, exact complaints, and the way back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/hostlist.h"
#include "common/util.h"

static char *join(const struct hostlist *list)
{
    struct strbuf out = {0};
    strbuf_puts(&out, "");
    for (size_t i = 0; i < list->count; i++)
        strbuf_printf(&out, "%s%s", i ? " " : "", list->names[i]);
    return out.data;
}

static void parse(const char *text, struct hostlist *list)
{
    struct err err = {0};
    if (hostlist_parse(text, list, &err) != 0)
        fail_msg("'%s' refused: %s", text, err.text);
}

static void expands(void **state)
{
    static const struct {
        const char *text, *names;
    } rows[] = {
        {"", ""},
        {" , ", ""},
        {"login", "login"},
        {"gpu[001-004,7]", "gpu001 gpu002 gpu003 gpu004 gpu7"},
        {"gpu[1-4]", "gpu1 gpu2 gpu3 gpu4"},
        {"gpu[08-11]", "gpu08 gpu09 gpu10 gpu11"},
        {"gpu[8-11]", "gpu8 gpu9 gpu10 gpu11"},
        {"gpu[098-101]", "gpu098 gpu099 gpu100 gpu101"},
        {"gpu[001-3]", "gpu001 gpu002 gpu003"},
        {"gpu[5]", "gpu5"},
        {"gpu[0-0]", "gpu0"},
        {"b,a,b", "b a b"},
        {"a, b\tc\nd", "a b c d"},
        {"r[1-2]n[01-02]", "r1n01 r1n02 r2n01 r2n02"},
        {"r[1-2][3-4]", "r13 r14 r23 r24"},
        {"[1-2]a", "1a 2a"},
        {"gpu[1-2]-ib.example.org", "gpu1-ib.example.org gpu2-ib.example.org"},
        {"10.0.0.[9-10]", "10.0.0.9 10.0.0.10"},
        {"a_b-c.d", "a_b-c.d"},
        {"n[2,1,2]", "n2 n1 n2"},
        {"n[999999999999999]", "n999999999999999"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO(hostlist_release) struct hostlist list = {0};
        parse(rows[i].text, &list);
        AUTO(free_str) char *names = join(&list);
        assert_string_equal(names, rows[i].names);
    }
}

static void refuses(void **state)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"gpu[1-4", "host list 'gpu[1-4': unclosed '[' at character 4"},
        {"gpu[", "host list 'gpu[': unclosed '[' at character 5"},
        {"gpu[1-", "host list 'gpu[1-': unclosed '[' at character 7"},
        {"gpu[1,", "host list 'gpu[1,': unclosed '[' at character 7"},
        {"gpu[]", "host list 'gpu[]': empty range at character 5"},
        {"gpu[1,,2]", "host list 'gpu[1,,2]': empty range at character 7"},
        {"gpu[-4]", "host list 'gpu[-4]': empty range at character 5"},
        {"gpu[1-]", "host list 'gpu[1-]': empty range at character 7"},
        {"gpu[4-1]", "host list 'gpu[4-1]': descending range at character 5"},
        {"gpu[1,9-7]", "host list 'gpu[1,9-7]': descending range at character 7"},
        {"gpu[1-010]",
         "host list 'gpu[1-010]': range whose ends are padded differently at character 5"},
        {"gpu[1-[2-3]]", "host list 'gpu[1-[2-3]]': '[' inside '[...]' at character 7"},
        {"gpu[1[2]]", "host list 'gpu[1[2]]': '[' inside '[...]' at character 6"},
        {"gpu1]", "host list 'gpu1]': ']' without '[' at character 5"},
        {"gpu[a-c]", "host list 'gpu[a-c]': 'a' is not allowed inside '[...]' at character 5"},
        {"gpu[1-4/2]", "host list 'gpu[1-4/2]': '/' is not allowed inside '[...]' at character 8"},
        {"gpu[1 2]", "host list 'gpu[1 2]': ' ' is not allowed inside '[...]' at character 6"},
        {"a,b;c", "host list 'a,b;c': ';' is not allowed in a host name at character 4"},
        {"a$(b)", "host list 'a$(b)': '$' is not allowed in a host name at character 2"},
        {"../x", "host list '../x': '/' is not allowed in a host name at character 3"},
        {"a\xc3\xa4",
         "host list 'a\xc3\xa4': byte 0xc3 is not allowed in a host name at character 2"},
        {"a -oProxyCommand",
         "host list 'a -oProxyCommand': host name that begins with '-' at character 3"},
        {"..", "host list '..': host name with an empty label (a '.' too many) at character 1"},
        {"a..b", "host list 'a..b': host name with an empty label (a '.' too many) at character 1"},
        {"a.", "host list 'a.': host name with an empty label (a '.' too many) at character 1"},
        {"n[1234567890123456]",
         "host list 'n[1234567890123456]': number of more than 15 digits at character 3"},
        {"n[1-65537]", "host list 'n[1-65537]': more than 65536 hosts at character 3"},
        {"a,n[0-999][0-99]", "host list 'a,n[0-999][0-99]': more than 65536 hosts at character 3"},
        {"a,n[1-65536]", "host list 'a,n[1-65536]': more than 65536 hosts at character 3"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct hostlist list = {0};
        struct err err = {0};
        if (hostlist_parse(rows[i].text, &list, &err) != -1)
            fail_msg("'%s' was taken", rows[i].text);
        assert_int_equal(err.kind, ERR_DATA);
        assert_string_equal(err.text, rows[i].message);
        assert_int_equal(list.count, 0);
        assert_null(list.names);
    }
}

static void name_length_limit(void **state)
{
    char name[255];
    memset(name, 'a', 254);
    name[253] = '\0';
    AUTO(hostlist_release) struct hostlist list = {0};
    parse(name, &list);
    assert_int_equal(list.count, 1);
    name[253] = 'a';
    name[254] = '\0';
    struct err err = {0};
    assert_int_equal(hostlist_parse(name, &list, &err), -1);
    assert_non_null(strstr(err.text, "host name of more than 253 characters at character 1"));
}

static void takes_exactly_the_limit(void **state)
{
    AUTO(hostlist_release) struct hostlist list = {0};
    parse("n[1-65536]", &list);
    assert_int_equal(list.count, HOSTLIST_MAX_HOSTS);
    assert_string_equal(list.names[65535], "n65536");
    AUTO(free_str) char *text = hostlist_format((const char *const *)list.names, list.count);
    assert_string_equal(text, "n[1-65536]");
}

static void many_groups(void **state)
{
    AUTO(hostlist_release) struct hostlist list = {0};
    struct err err = {0};
    parse("[1][2][3][4][5][6][7][8][9][0]", &list);
    assert_string_equal(list.names[0], "1234567890");
    AUTO(strbuf_release) struct strbuf text = {0};
    for (size_t i = 0; i < 33; i++)
        strbuf_puts(&text, "[1]");
    assert_int_equal(hostlist_parse(text.data, &list, &err), -1);
    assert_non_null(strstr(err.text, "too many '[...]' in one name at character 97"));
}

static void formats(void **state)
{
    static const struct {
        const char *names, *text;
    } rows[] = {
        {"", ""},
        {"login", "login"},
        {"gpu001,gpu002,gpu003,gpu004,login", "gpu[001-004],login"},
        {"gpu4,gpu2,gpu3,gpu3", "gpu[2-4]"},
        {"gpu9,gpu10,gpu11", "gpu[9-11]"},
        {"gpu09,gpu10,gpu11", "gpu[09-11]"},
        {"gpu099,gpu100", "gpu[099-100]"},
        {"gpu1,gpu3,gpu5", "gpu[1,3,5]"},
        {"gpu7", "gpu7"},
        {"gpu[001-004,7]", "gpu[001-004,7]"},
        {"a1b1,a1b2,a2b1,a2b2", "a[1-2]b[1-2]"},
        {"a1b1,a1b2,a2b1", "a1b[1-2],a2b1"},
        {"n1-ib0,n2-ib0,n3-ib0", "n[1-3]-ib0"},
        {"10.0.0.9,10.0.0.10,10.0.1.1", "10.0.0.[9-10],10.0.1.1"},
        {"b,a,c1", "a,b,c1"},
        {"gpu10,gpu2,cpu1", "cpu1,gpu[2,10]"},
        {"n1234567890123456,n1234567890123457", "n1234567890123456,n1234567890123457"},
        {"n1,n01,n2,n02", "n[1,01,2,02]"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO(hostlist_release) struct hostlist list = {0};
        parse(rows[i].names, &list);
        AUTO(free_str) char *text = hostlist_format((const char *const *)list.names, list.count);
        assert_string_equal(text, rows[i].text);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Every list formatted and read again is the same set, and formats to the same text. */
static void formatted_lists_read_back(void **state)
{
    static const char *const rows[] = {
        "gpu[001-128],login[1-2],mgmt", "r[1-4]c[01-16]n[1-8]", "x[1,3-5,9-12,0099-0101,99]y[7-8]",
        "a1,a01,a001,a2,a02",           "n[0-9][0-9]",          "rack[1-2]-node[1-3].cluster.[1-2]",
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO(hostlist_release) struct hostlist before = {0}, after = {0};
        parse(rows[i], &before);
        AUTO(free_str)
        char *text = hostlist_format((const char *const *)before.names, before.count);
        parse(text, &after);
        AUTO(free_str) char *again = hostlist_format((const char *const *)after.names, after.count);
        assert_string_equal(text, again);
        assert_int_equal(before.count, after.count);
        qsort(before.names, before.count, sizeof(char *), by_name);
        qsort(after.names, after.count, sizeof(char *), by_name);
        for (size_t j = 0; j < before.count; j++)
            assert_string_equal(before.names[j], after.names[j]);
    }
}

static void finds_duplicates_and_members(void **state)
{
    AUTO(hostlist_release) struct hostlist list = {0};
    assert_null(hostlist_duplicate(&list));
    parse("z,b,a,b,a,c", &list);
    assert_string_equal(hostlist_duplicate(&list), "b");
    assert_true(hostlist_has(&list, "c"));
    assert_false(hostlist_has(&list, "C"));
    hostlist_release(&list);
    parse("a,b,c", &list);
    assert_null(hostlist_duplicate(&list));
    hostlist_add(&list, "a");
    assert_string_equal(hostlist_duplicate(&list), "a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expands),
        cmocka_unit_test(refuses),
        cmocka_unit_test(name_length_limit),
        cmocka_unit_test(takes_exactly_the_limit),
        cmocka_unit_test(many_groups),
        cmocka_unit_test(formats),
        cmocka_unit_test(formatted_lists_read_back),
        cmocka_unit_test(finds_duplicates_and_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
