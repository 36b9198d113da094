/* Any bytes read as either form of a node list give names that are host names, or a reason. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/hostlist.h"
#include "common/jsonx.h"
#include "common/util.h"
#include "provision/inventory.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check(enum inventory_kind kind, const char *text, size_t size)
{
    struct err err = {0};
    json_auto_t *nodes = NULL;
    const char *become = NULL;
    if (inventory_parse(kind, text, size, "f", &nodes, &become, &err) != 0) {
        require(!nodes && err.kind == ERR_USAGE);
        return;
    }
    require(json_object_size(nodes) > 0 && become);
    const char *name;
    json_t *node;
    json_object_foreach(nodes, name, node)
    {
        AUTO(hostlist_release) struct hostlist list = {0};
        require(hostlist_parse(name, &list, &err) == 0 && list.count == 1);
        int64_t port = jsonx_int_or(node, "port", 22);
        require(port >= 1 && port <= 65535);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(free_str) char *text = mem_zero(size + 1, 1);
    if (size)
        memcpy(text, data, size);
    if (strlen(text) != size)
        return 0; /* the caller refuses the byte 0 */
    inventory_recognise(text, size);
    check(INVENTORY_ANSIBLE, text, size);
    check(INVENTORY_HOSTS, text, size);
    return 0;
}
