/* The table of causes: form, and that every code named in the sources has a row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/util.h"
#include "validate/causes.h"

static void rows_are_well_formed(void **state)
{
    for (size_t i = 0; i < causes_count(); i++) {
        const struct cause *c = causes_at(i);
        assert_true(c->code[strspn(c->code, "abcdefghijklmnopqrstuvwxyz0123456789-")] == '\0');
        assert_true(strlen(c->title) > 5 && strlen(c->title) < 70);
        assert_true(str_has_suffix(c->meaning, "."));
        assert_true(str_has_suffix(c->remedy, ".") || str_has_suffix(c->remedy, "."));
        assert_true(c->severity > CAUSE_UNSET && c->severity < CAUSE_SEVERITY__COUNT);
        assert_ptr_equal(causes_find(c->code), c);
        if (i > 0)
            assert_true(strcmp(causes_at(i - 1)->code, c->code) < 0);
    }
    assert_null(causes_at(causes_count()));
    assert_null(causes_find(NULL));
    assert_null(causes_find("no-such-cause"));
    assert_string_equal(causes_severity_name(CAUSE_FATAL), "fatal");
}

/* Codes that other layers name. */
static void codes_of_other_layers_exist(void **state)
{
    static const char *const codes[] = {
        "unreachable",         "host-key-unknown", "host-key-changed", "auth-refused",
        "sudo-refused",        "disk-full",        "agent-arch",       "agent-hash",
        "node-lost",           "protocol",         "timeout",          "tcp-connect-refused",
        "tcp-connect-timeout", "peer-lost",        "data-corrupt",     "path-mtu",
        "stage-timeout",       "agent-error",      "plan-failed",      "apply-failed",
        "publish-failed",      "node-key-changed", "clock-skew",
    };
    for (size_t i = 0; i < ARRAY_LEN(codes); i++)
        if (!causes_find(codes[i]))
            fail_msg("cause '%s' has no row", codes[i]);
}

static void markdown_names_every_cause(void **state)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    causes_print_markdown(out);
    fclose(out);
    for (size_t i = 0; i < causes_count(); i++) {
        AUTO(free_str) char *heading = str_printf("\n## %s\n", causes_at(i)->code);
        assert_non_null(strstr(text, heading));
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_well_formed),
        cmocka_unit_test(codes_of_other_layers_exist),
        cmocka_unit_test(markdown_names_every_cause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
