/* Fabric files: any JSON is either refused or gives a graph in which every endpoint reaches every
 * other. */
#include <stddef.h>
#include <stdint.h>

#include "common/jsonx.h"
#include "validate/isolate/measure.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    json_auto_t *value = NULL;
    struct fabric_graph *g = NULL;
    uint32_t path[MEASURE_MAX_ELEMENTS];
    if (jsonx_parse((const char *)data, size, "fuzz", &value, &err) != 0 ||
        fabric_graph_load(value, "fuzz", &g, &err) != 0)
        return 0;
    size_t endpoints = g->hosts * g->rails;
    for (size_t e = 0; e < endpoints && e < 64; e++)
        fabric_graph_route(g, e, endpoints - 1 - e, path);
    json_auto_t *saved = fabric_graph_save(g);
    fabric_graph_destroy(g);
    return 0;
}
