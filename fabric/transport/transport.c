#include "fabric/transport/transport.h"

#include <string.h>

#include "common/util.h"

#define TRANSPORT(row) extern const struct transport_ops row;
#include "fabric/transport/transports.def"
#undef TRANSPORT

static const struct transport_ops *const transports[] = {
#define TRANSPORT(row) &row,
#include "fabric/transport/transports.def"
#undef TRANSPORT
};

const struct transport_ops *transport_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(transports); i++)
        if (strcmp(transports[i]->name, name) == 0)
            return transports[i];
    return NULL;
}
