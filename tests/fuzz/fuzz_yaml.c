/* Any bytes are refused with a reason, or give a value that has a JSON form which reads back equal.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "provision/yaml.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_value(const json_t *value)
{
    AUTO(free_str) char *text = jsonx_canonical(value);
    json_auto_t *back = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    require(back != NULL);
    AUTO(free_str) char *again = jsonx_canonical(back);
    require(strcmp(text, again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    json_auto_t *value = NULL;
    AUTO(source_map_release) struct source_map *map = source_map_create("f");
    int rc = yaml_parse((const char *)data, size, "f", map, &value, &err);
    require((rc == 0) == (value != NULL));
    require((rc == 0) == (err.kind == ERR_NONE));
    if (rc == 0)
        check_value(value);
    else
        require(strncmp(err.text, "f:", 2) == 0);
    return 0;
}
