/* Who explains the failed paths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "common/util.h"
#include "validate/blame.h"

enum { MAX = 24 };

struct row {
    const char *name;
    size_t n;
    const char *bad;   /* nodes all of whose paths fail, as letters: "AC" */
    const char *paths; /* single directed paths that fail: "AB BA" */
    const char *dead;  /* nodes of which nothing is known */
    const char *want;
};

static const struct row rows[] = {
    {"all good", 4, "", "", "", ""},
    {"one of three", 3, "B", "", "", "B"},
    {"one of four", 4, "A", "", "", "A"},
    {"two nodes only", 2, "A", "", "", ""},
    {"one direction between two", 2, "", "AB", "", ""},
    {"a pair of four", 4, "", "AB BA", "", ""},
    {"a pair of three is anyone's", 3, "", "AB BA", "", ""},
    {"two of six", 6, "BE", "", "", "BE"},
    {"three of eight", 8, "ACH", "", "", "ACH"},
    {"eight of twenty, greedy", 20, "ABCDEFGH", "", "", "ABCDEFGH"},
    {"one bad node and one bad pair", 6, "A", "CD DC", "", "A"},
    {"sends badly to all", 5, "", "AB AC AD AE", "", "A"},
    {"receives badly from all", 5, "", "BA CA DA EA", "", "A"},
    {"fails with two of five: passes more often", 6, "", "AB AC", "", ""},
    {"dead node is no fault of others", 4, "", "", "D", ""},
    {"bad node among dead ones", 5, "A", "", "DE", "A"},
};

static void rows_are_solved(void **state)
{
    for (size_t r = 0; r < ARRAY_LEN(rows); r++) {
        const struct row *t = &rows[r];
        unsigned char paths[MAX * MAX];
        bool convicted[MAX];
        for (size_t a = 0; a < t->n; a++) {
            for (size_t b = 0; b < t->n; b++) {
                char A = (char)('A' + a), B = (char)('A' + b);
                bool bad = strchr(t->bad, A) || strchr(t->bad, B);
                bool dead = strchr(t->dead, A) || strchr(t->dead, B);
                char path[] = {A, B, '\0'};
                bad = bad || strstr(t->paths, path);
                paths[a * t->n + b] = a == b || dead ? BLAME_UNKNOWN
                                      : bad          ? BLAME_FAILED
                                                     : BLAME_PASSED;
            }
        }
        blame_solve(t->n, paths, convicted);
        char got[MAX + 1] = "";
        for (size_t i = 0, used = 0; i < t->n; i++)
            if (convicted[i])
                got[used++] = (char)('A' + i);
        if (strcmp(got, t->want) != 0)
            fail_msg("%s: convicted '%s', expected '%s'", t->name, got, t->want);
    }
}

/* Any set of up to a quarter of the nodes, all of whose paths fail, is found without an innocent.
 */
static void random_sets_are_found_exactly(void **state)
{
    unsigned seed = 12345;
    for (int trial = 0; trial < 400; trial++) {
        size_t n = 8 + (size_t)trial % 17;
        bool bad[MAX] = {false}, convicted[MAX];
        unsigned char paths[MAX * MAX];
        for (size_t k = 0; k < 1 + (size_t)trial % (n / 4); k++) {
            seed = seed * 1103515245U + 12345U;
            bad[(seed >> 16) % n] = true;
        }
        for (size_t a = 0; a < n; a++)
            for (size_t b = 0; b < n; b++)
                paths[a * n + b] = bad[a] || bad[b] ? BLAME_FAILED : BLAME_PASSED;
        blame_solve(n, paths, convicted);
        assert_memory_equal(convicted, bad, n * sizeof *bad);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_solved),
        cmocka_unit_test(random_sets_are_found_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
