/* The quantities that may have a floor of the site's own, and the units their values are written
 * in. */
#ifndef MUSTER_PROVISION_SITE_QUANTITY_H
#define MUSTER_PROVISION_SITE_QUANTITY_H

#include <stddef.h>

#include "common/err.h"

struct site_quantity {
    const char *name;
    const char *unit; /* as evidence names it: "bit/s", "B/s", "s", "B", "1" */
    const char *form; /* an example of a value */
    const char *doc;
};

const struct site_quantity *site_quantities(size_t *count);
const struct site_quantity *site_quantity_find(const char *name);
/* "9.5Gb/s" and so on, by the quantity's unit.  ERR_DATA with the form that was meant. */
int site_quantity_parse(const struct site_quantity *q, const char *text, double *value,
                        struct err *err);

#endif
