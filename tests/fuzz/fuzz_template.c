/* Any text expands or is refused; a text without "${" is itself. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "provision/template.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_auto_t *value = json_stringn((const char *)data, size);
    if (!value || memchr(data, 0, size))
        return 0; /* YAML and JSON readers let no such text through */
    json_auto_t *scope =
        json_loads("{\"vars\":{\"a\":1,\"b\":\"${vars.a}\",\"l\":[1],\"t\":true}}", 0, NULL);
    json_auto_t *out = NULL;
    struct err err = {0}, form = {0};
    int rc = template_expand(value, scope, &out, &err);
    require((rc == 0) == (out != NULL));
    if (!strstr(json_string_value(value), "${"))
        require(rc == 0 && json_equal(value, out));
    /* What expands has the right form. */
    if (rc == 0)
        require(template_check(value, &form) == 0);
    else
        require(err.kind == ERR_USAGE && err.text[0]);
    return 0;
}
