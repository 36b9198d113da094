/* Any text is refused with a reason or gives a plan of ports in range, each used once; and compares
 * with an empty subnet without a crash. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "fabric/subnet/cables.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cable_plan plan = {0};
    struct err err = {0};
    if (cable_plan_parse((const char *)data, size, "fuzz", &plan, &err) != 0) {
        require(err.kind == ERR_DATA && err.text[0] && plan.count == 0 && !plan.cables);
        return 0;
    }
    for (size_t i = 0; i < plan.count; i++) {
        const struct cable *c = &plan.cables[i];
        require(c->a.port >= 1 && c->a.port <= CABLE_PORT_MAX && c->b.port >= 1 &&
                c->b.port <= CABLE_PORT_MAX && *c->a.node && *c->b.node);
    }
    struct subnet empty;
    struct cables_result result = {0};
    json_auto_t *findings = json_array();
    subnet_init(&empty);
    require(cables_compare(&plan, &empty, findings, &result, &err) == 0 || err.kind == ERR_DATA);
    require(result.in_place == 0);
    subnet_release(&empty);
    cable_plan_release(&plan);
    return 0;
}
