/* Each fixture's answer: cause, severity, what must be said and what must not.  Then the rows
 * against each other, the matcher, the lines, and the time on large input. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/jsonx.h"
#include "common/util.h"
#include "validate/causes.h"
#include "validate/diagnose/diag.h"
#include "validate/diagnose/diagnose.h"

enum { FIXTURES_MIN = 60, MAX_BYTES = 4 * 1024 * 1024 };

static bool says(const char *text, const char *alternatives)
{
    for (const char *p = alternatives; *p;) {
        size_t len = strcspn(p, "|");
        AUTO(free_str) char *word = str_printf("%.*s", (int)len, p);
        if (strcasestr(text, word))
            return true;
        p += len + (p[len] == '|');
    }
    return false;
}

static json_t *answer_of(const char *text, size_t len)
{
    struct diagnose_input input = {"input.txt", text, len};
    return diagnose(&input, 1);
}

static json_t *answer(const char *text)
{
    return answer_of(text, strlen(text));
}

static size_t compare(const char *name, const json_t *expected, const json_t *got)
{
    size_t wrong = 0, i;
    json_t *word;
    AUTO(free_str)
    char *text =
        str_printf("%s %s", jsonx_str_or(got, "diagnosis", ""), jsonx_str_or(got, "remedy", ""));
    static const char *const keys[] = {"cause_code", "severity"};
    for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
        const char *want = jsonx_str_or(expected, keys[k], "?"),
                   *is = jsonx_str_or(got, keys[k], "");
        if (strcmp(want, is) != 0) {
            print_error("%s: %s is %s, expected %s\n", name, keys[k], is, want);
            wrong++;
        }
    }
    json_array_foreach(json_object_get(expected, "must_mention"), i, word)
    {
        if (!says(text, json_string_value(word))) {
            print_error("%s: does not mention %s: %s\n", name, json_string_value(word), text);
            wrong++;
        }
    }
    json_array_foreach(json_object_get(expected, "must_not_say"), i, word)
    {
        if (strcasestr(text, json_string_value(word))) {
            print_error("%s: says %s: %s\n", name, json_string_value(word), text);
            wrong++;
        }
    }
    return wrong;
}

/* A fault without a line that convicts it, or text with a placeholder left in it, is no answer. */
static size_t check_form(const char *name, const json_t *got)
{
    const char *code = jsonx_str_or(got, "cause_code", "");
    bool fault = diagnose_exit_status(got) == 1;
    size_t lines = json_array_size(json_object_get(got, "evidence"));
    if (fault && (lines == 0 || !causes_find(code))) {
        print_error("%s: %s has %zu lines of evidence\n", name, code, lines);
        return 1;
    }
    AUTO(free_str)
    char *text =
        str_printf("%s %s", jsonx_str_or(got, "diagnosis", ""), jsonx_str_or(got, "remedy", ""));
    if (strpbrk(text, "{}") || strstr(text, "[[") || strstr(text, "()") || strstr(text, "  ")) {
        print_error("%s: a form shows through: %s\n", name, text);
        return 1;
    }
    return 0;
}

static void test_fixtures(void **state)
{
    (void)state;
    struct dirent **entries = NULL;
    int found = scandir(FIXTURES "/diagnose", &entries, NULL, alphasort);
    size_t count = 0, wrong = 0;
    for (int i = 0; i < found; i++) {
        struct err err = {0};
        AUTO(free_str) char *name = str_dup(entries[i]->d_name);
        free(entries[i]);
        if (name[0] == '.')
            continue;
        AUTO(free_str) char *path = str_printf(FIXTURES "/diagnose/%s/input.txt", name);
        AUTO(free_str) char *expect = str_printf(FIXTURES "/diagnose/%s/expect.json", name);
        AUTO(free_str) char *text = NULL;
        size_t len = 0;
        json_auto_t *expected = NULL;
        assert_int_equal(fs_read(path, MAX_BYTES, &text, &len, &err), 0);
        assert_int_equal(jsonx_load(expect, MAX_BYTES, &expected, &err), 0);
        json_auto_t *got = answer_of(text, len);
        wrong += compare(name, expected, got) + check_form(name, got);
        count++;
    }
    free(entries);
    assert_true(count >= FIXTURES_MIN);
    assert_int_equal(wrong, 0);
}

static void test_rows_fit(void **state)
{
    (void)state;
    AUTO(free_str) char *wrong = diag_check_rows();
    if (wrong)
        print_error("%s\n", wrong);
    assert_null(wrong);
}

static void test_match(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text, *key, *value; /* value NULL: no match */
    } rows[] = {
        {"Rate: {n#}", "  rate:   100", "n", "100"},
        {"^Rate: {n#}", " Rate: 100", "n", NULL},
        {"at {n#} Gb/s", "at 51.89 Gb/s", "n", "51.89"},
        {"code {n#}", "code 0x2A)", "n", "0x2A"},
        {"dev {dev}, curr", "on dev mlx5_5:1, curr state", "dev", "mlx5_5:1"},
        {"{dev}: Link", "0000:d1:00.0: Link down", "dev", "0000:d1:00.0"},
        {"name={a*}, type", "name=x y z, type", "a", "x y z"},
        {"error (a|bc|b) {x}", "error bc tail", "x", "tail"},
        {"error (a|bc) {x}", "error b tail", "x", NULL},
        {"PCI\\({bus}\\)", "PCI(0000:01)", "bus", "0000:01"},
        {"first*second {x}", "first second third", "x", "third"},
        {"first*second {x}", "second first", "x", NULL},
        {"end~here$ ", "endhere", "x", NULL},
        {"word {w}$", "word last  ", "w", "last"},
        {"word {w}$", "word not last", "w", NULL},
        {"peer {p}", "peer 10.0.0.1.", "p", "10.0.0.1"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct match_result result = {.count = 0};
        char value[64] = "";
        bool found = match_text(rows[i].pattern, rows[i].text, &result) &&
                     match_get(&result, rows[i].key, value, sizeof value);
        if (found != (rows[i].value != NULL) || (found && strcmp(value, rows[i].value) != 0))
            print_error("'%s' on '%s' gives '%s'\n", rows[i].pattern, rows[i].text, value);
        assert_true(found == (rows[i].value != NULL));
        if (found)
            assert_string_equal(value, rows[i].value);
    }
}

static void test_prefixes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *body, *host;
        bool command;
    } rows[] = {
        {"plain", "plain", "", false},
        {"[  12.5] pcieport 0000:00:01.0: x", "pcieport 0000:00:01.0: x", "", false},
        {"[Sat Sep  5 06:42:12 2026] NVRM: x", "NVRM: x", "", false},
        {"Oct 21 14:31:11 hgx5 systemd[1]: Stopping", "systemd[1]: Stopping", "hgx5", false},
        {"Oct  1 14:31:11 n7 kernel: NVRM: x", "NVRM: x", "n7", false},
        {"2026-03-02T11:40:18.123Z tail", "tail", "", false},
        {"2026-03-02 11:40:18,123 tail", "tail", "", false},
        {"[1,0]<stdout>:tail", "tail", "", false},
        {"[pod/a-0/main] 2026-03-02T11:40:18Z tail", "tail", "", false},
        {"pod/a-0 tail", "tail", "", false},
        {"gpu21: \tState: Down", "\tState: Down", "gpu21", false},
        {"rn1$ ibstat", "ibstat", "", true},
        {"[root@kx9 ~]# lspci", "lspci", "", true},
        {"ops@kx9:~$ lspci", "lspci", "", true},
        {"# lspci", "lspci", "", true},
        {"\tState: Down", "\tState: Down", "", false},
        {"h1:12:34 [0] NCCL INFO x", "h1:12:34 [0] NCCL INFO x", "h1", false},
        {"\033[1;31mred\033[0m\r", "red", "", false},
        {"2: eth0: <UP> mtu 1500", "2: eth0: <UP> mtu 1500", "", false},
    };
    struct diag_line *line = mem_zero(1, sizeof *line);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct lines lines;
        lines_open(&lines, "f", rows[i].text, strlen(rows[i].text));
        assert_true(lines_next(&lines, line));
        assert_string_equal(line->body, rows[i].body);
        if (rows[i].host[0])
            assert_string_equal(line->host, rows[i].host);
        assert_true(line->command == rows[i].command);
        assert_false(lines_next(&lines, line));
    }
    free(line);
}

static void test_prompt_names_the_host(void **state)
{
    (void)state;
    static const char text[] = "rn1$ cat x\none\nrn2$ cat x\ntwo\n";
    static const char *const hosts[] = {"rn1", "rn1", "rn2", "rn2"};
    struct diag_line *line = mem_zero(1, sizeof *line);
    struct lines lines;
    lines_open(&lines, "f", text, sizeof text - 1);
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
        assert_true(lines_next(&lines, line));
        assert_string_equal(line->host, hosts[i]);
        assert_int_equal(line->number, i + 1);
    }
    free(line);
}

/* What follows from the root stands behind it, and says so. */
static void test_consequences(void **state)
{
    (void)state;
    json_auto_t *got = answer("NVRM: Xid (PCI:0000:d0:00): 79, GPU has fallen off the bus.\n"
                              "v3:8:30 [0] NCCL WARN Connection closed by remote peer v4<1>\n"
                              "error: 'zone' already has a value (b), and --overwrite is false\n");
    const json_t *others = json_object_get(got, "others");
    assert_string_equal(jsonx_str_or(got, "cause_code", ""), "gpu-fallen-off-bus");
    assert_int_equal(json_array_size(others), 2);
    assert_string_equal(jsonx_str_or(json_array_get(others, 0), "cause_code", ""),
                        "k8s-label-owned");
    assert_string_equal(jsonx_str_or(json_array_get(others, 0), "relation", ""), "also");
    assert_string_equal(jsonx_str_or(json_array_get(others, 1), "cause_code", ""), "peer-lost");
    assert_string_equal(jsonx_str_or(json_array_get(others, 1), "relation", ""), "consequence");
}

static void test_evidence_and_benign(void **state)
{
    (void)state;
    json_auto_t *got =
        answer("a:1:2 [0] NCCL INFO NET/Plugin: No plugin found (libnccl-net.so)\n"
               "\n"
               "a:1:2 [0] NCCL WARN Error: failed to extend /dev/shm/nccl-A to 4194660 bytes\n"
               "a:1:2 [0] NCCL WARN Error: failed to extend /dev/shm/nccl-A to 4194660 bytes\n");
    const json_t *line = json_array_get(json_object_get(got, "evidence"), 0);
    assert_int_equal(jsonx_int_or(line, "line", 0), 3);
    assert_int_equal(jsonx_int_or(line, "times", 0), 2);
    assert_string_equal(jsonx_str_or(line, "file", ""), "input.txt");
    assert_string_equal(
        jsonx_str_or(line, "text", ""),
        "a:1:2 [0] NCCL WARN Error: failed to extend /dev/shm/nccl-A to 4194660 bytes");
    const json_t *benign = json_array_get(json_object_get(got, "benign"), 0);
    assert_int_equal(jsonx_int_or(benign, "line", 0), 1);
    assert_true(strlen(jsonx_str_or(benign, "why", "")) > 0);
    assert_string_equal(jsonx_str_or(got, "input_tool", ""), "nccl-debug-log");
    assert_int_equal(diagnose_exit_status(got), 1);
}

/* Two files of one incident: the versions differ only when both are read. */
static void test_files_together(void **state)
{
    (void)state;
    static const char a[] = "h1:1:1 [0] NCCL INFO NCCL version 2.21.5+cuda12.4\n";
    static const char b[] =
        "h2:1:1 [0] NCCL INFO NCCL version 2.26.2+cuda12.8\n"
        "h2:1:2 [0] NCCL WARN Message truncated : received 9 bytes instead of 8\n";
    struct diagnose_input both[] = {{"a.log", a, sizeof a - 1}, {"b.log", b, sizeof b - 1}};
    json_auto_t *one = diagnose(&both[1], 1);
    json_auto_t *two = diagnose(both, 2);
    assert_string_equal(jsonx_str_or(one, "cause_code", ""), "collective-mismatch");
    assert_string_equal(jsonx_str_or(two, "cause_code", ""), "nccl-version-mismatch");
}

static void test_none(void **state)
{
    (void)state;
    json_auto_t *got = diagnose(NULL, 0);
    assert_string_equal(jsonx_str_or(got, "cause_code", ""), DIAGNOSE_CANNOT_TELL);
    assert_int_equal(diagnose_exit_status(got), 2);
}

/* Ten thousand lines between the head and the fault, and a line that invites backtracking. */
static void test_large(void **state)
{
    (void)state;
    struct strbuf text = {0};
    for (size_t i = 0; i < 20000; i++)
        strbuf_printf(&text, "n:1:%zu [0] NCCL INFO Channel 0%zu/0 : 0[0] -> 1[1] via P2P/CUMEM\n",
                      i, i % 10);
    for (size_t i = 0; i < 2000; i++)
        strbuf_puts(&text, "ibv_a:a:a:a:a:a:a failed failed Cannot allocate memor ");
    strbuf_puts(&text, "\nNVRM: Xid (PCI:0000:0a:00): 79, GPU has fallen off the bus.\n");
    json_auto_t *got = answer_of(text.data, text.len);
    assert_string_equal(jsonx_str_or(got, "cause_code", ""), "gpu-fallen-off-bus");
    strbuf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixtures),
        cmocka_unit_test(test_rows_fit),
        cmocka_unit_test(test_match),
        cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_prompt_names_the_host),
        cmocka_unit_test(test_consequences),
        cmocka_unit_test(test_evidence_and_benign),
        cmocka_unit_test(test_files_together),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
