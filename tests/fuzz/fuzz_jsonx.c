/* Whatever parses has canonical bytes that parse to the same value and are their own canonical
 * form. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    json_t *value = NULL, *again = NULL;
    if (jsonx_parse((const char *)data, size, "input", &value, &err) != 0) {
        require(err.kind == ERR_DATA && str_has_prefix(err.text, "input:") && !value);
        return 0;
    }
    AUTO(free_str) char *text = jsonx_canonical(value);
    require(jsonx_parse(text, strlen(text), "canonical", &again, &err) == 0);
    require(json_equal(value, again));
    AUTO(free_str) char *second = jsonx_canonical(again);
    require(strcmp(text, second) == 0);
    json_decref(value);
    json_decref(again);
    return 0;
}
