/* The payload of a report, signed here so that all its checks are reached, and a whole report file.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "validate/dsse.h"
#include "validate/export.h"
#include "validate/report.h"

static struct sign_key *signing_key(void)
{
    static struct sign_key *key;
    struct err err = {0};
    if (!key)
        key = sign_key_generate(&err);
    return key;
}

static void export_all(const json_t *statement)
{
    char *(*const exports[])(const json_t *, struct err *) = {export_test_result, export_junit,
                                                              export_csv, export_prometheus};
    for (size_t i = 0; i < ARRAY_LEN(exports); i++) {
        struct err err = {0};
        char *text = exports[i](statement, &err);
        if (!text && err.kind != ERR_DATA)
            abort();
        free(text);
    }
}

static void verify(const char *text, size_t len)
{
    struct err err = {0};
    struct sign_public public;
    sign_public_raw(signing_key(), &public);
    struct report_expect expect = {.trusted = &public, .trusted_count = 1};
    json_auto_t *statement = NULL;
    if (report_verify(text, len, &expect, &statement, &err) == 0)
        export_all(statement);
    else if (err.kind != ERR_DATA || !err.text[0] || statement)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    struct sign_key *key = signing_key();
    verify((const char *)data, size);
    json_auto_t *envelope = dsse_sign(DSSE_TYPE_INTOTO, data, size, &key, 1, &err);
    AUTO(free_str) char *text = jsonx_canonical(envelope);
    verify(text, strlen(text));
    return 0;
}
