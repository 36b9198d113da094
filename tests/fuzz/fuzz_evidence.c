/* A line from a node: refused with a reason, or a record whose members every reader may rely on. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/evidence.h"
#include "common/jsonx.h"
#include "common/util.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_accepted(const json_t *record)
{
    static const char *const strings[] = {"run",      "node", "time", "stage", "subject",
                                          "quantity", "unit", "tool", "sig"};
    for (size_t i = 0; i < ARRAY_LEN(strings); i++)
        require(jsonx_str_or(record, strings[i], "")[0] != '\0');
    enum evidence_outcome outcome = evidence_outcome_find(jsonx_str_or(record, "outcome", ""));
    const json_t *samples = json_object_get(record, "samples");
    require(outcome != EVIDENCE_UNSET && json_is_array(samples));
    require((outcome == EVIDENCE_MEASURED) == (json_array_size(samples) > 0));
    require(json_array_size(samples) <= EVIDENCE_MAX_SAMPLES);
    require(jsonx_int_or(record, "seq", -1) >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    json_t *record = NULL;
    if (jsonx_parse((const char *)data, size, "input", &record, &err) != 0)
        return 0;
    if (evidence_check(record, &err) == 0)
        check_accepted(record);
    else
        require(err.kind == ERR_DATA && err.text[0]);
    json_decref(record);
    return 0;
}
