/* Limits of figures: the site's floor, the link's roofline, the peers in the same run.  Pure.
 *
 * A floor of the site replaces the roofline as the lower limit; the link's own speed stays the
 * upper one: a figure more than 5 % above it is a fault of the measurement, never a good result. */
#ifndef MUSTER_VALIDATE_LIMITS_H
#define MUSTER_VALIDATE_LIMITS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "validate/ledger.h"

enum { LIMITS_MIN_PEERS = 8 };

enum limits_direction { LIMITS_HIGHER = 1, LIMITS_LOWER };

struct limits_quantity {
    const char *name, *unit;
    enum limits_direction direction;
    const char *cause;
    double efficiency; /* 0: no roofline */
    double per_bps;
    bool demanded;
    const char *source;
};

const struct limits_quantity *limits_find(const char *quantity); /* NULL when it has no row */
const struct limits_quantity *limits_at(size_t index);           /* NULL past the end */

/* The cohort that a figure is compared with; the figure is one of them. */
struct limits_peers {
    size_t count;
    double median, mad; /* median absolute deviation, at least 0.5 % of the median */
};
struct limits_peers limits_peers_of(const double values[], size_t count);
/* Below this a member is an outlier: 5 % under the median and modified z-score over 3.5.  0 when
 * there are fewer than LIMITS_MIN_PEERS. */
double limits_peers_floor(const struct limits_peers *peers);

struct limits_figure {
    const struct limits_quantity *quantity;
    double value;
    double link_bps;         /* speed of the link, 0 when it is virtual or not known */
    const char *link_source; /* "gpu001/net:eth0, 25 Gbit/s"; used when link_bps > 0 */
    bool has_floor;
    double floor;              /* policy.floors of this quantity: a ceiling where lower is better */
    const char *floor_reason;  /* may be NULL */
    struct limits_peers peers; /* count 0: none */
};

/* Judge and fill value, limit, verdict, cause and reason of the row. */
void limits_judge(const struct limits_figure *figure, struct ledger_row *row);

/* The site's floor of a quantity, if it states one.  ERR_DATA: wrong unit or not a number. */
int limits_site_floor(const json_t *site, struct limits_figure *figure, struct err *err);

#endif
