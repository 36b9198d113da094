/* Any JSON as a fabric section is refused with a reason or gives files that hold no control
 * character but line breaks, so that no value can add a line of its own. */
#include <stdint.h>
#include <stdlib.h>

#include "common/jsonx.h"
#include "fabric/subnet/opensm_conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    json_auto_t *fabric = NULL;
    struct opensm_files set = {0};
    if (jsonx_parse((const char *)data, size, "fuzz", &fabric, &err) != 0)
        return 0;
    if (opensm_conf_make(fabric, "/etc/opensm", &set, &err) != 0) {
        if (err.kind != ERR_USAGE || !err.text[0] || set.count)
            abort();
        return 0;
    }
    for (size_t i = 0; i < set.count; i++)
        for (const char *c = set.files[i].text; *c; c++)
            if ((unsigned char)*c < 0x20 && *c != '\n')
                abort();
    opensm_files_release(&set);
    return 0;
}
