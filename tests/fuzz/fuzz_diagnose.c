/* Any bytes get an answer of the known form: a cause from the table with evidence, ok, or an honest
 * "cannot tell". */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "validate/causes.h"
#include "validate/diagnose/diagnose.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* The first half and the whole, as two files. */
    struct diagnose_input inputs[] = {{"a", (const char *)data, size / 2},
                                      {"b", (const char *)data, size}};
    json_t *answer = diagnose(inputs, 2);
    const char *code = jsonx_str_or(answer, "cause_code", "");
    int status = diagnose_exit_status(answer);
    require(status >= 0 && status <= 2);
    require((status == 0) == (strcmp(code, DIAGNOSE_OK) == 0));
    require((status == 2) == (strcmp(code, DIAGNOSE_CANNOT_TELL) == 0));
    if (status == 1)
        require(causes_find(code) && json_array_size(json_object_get(answer, "evidence")) > 0);
    require(strlen(jsonx_str_or(answer, "diagnosis", "")) > 0);
    require(strlen(jsonx_str_or(answer, "remedy", "")) > 0);
    json_decref(answer);
    return 0;
}
