/* Any bytes as a record of the kernel's log. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agents/gpu/gpu_klog.h"
#include "common/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = mem_zero(size + 1, 1);
    struct gpu_klog_line line = {0};
    memcpy(text, data, size);
    if (gpu_klog_parse(text, &line) && (line.number < 0 || strlen(line.text) >= sizeof line.text))
        abort();
    free(text);
    return 0;
}
