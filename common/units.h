/* Numbers with units, read strictly: no trailing junk, no silent rounding, no lost overflow.
 *
 * Every parser fails with ERR_DATA and says what was read and what was meant, for instance
 * "'89004.2' is not an integer (trailing '.2'); two settings run together?". */
#ifndef MUSTER_COMMON_UNITS_H
#define MUSTER_COMMON_UNITS_H

#include <stdint.h>

#include "common/err.h"

int units_parse_int(const char *text, int64_t min, int64_t max, int64_t *out, struct err *err);
/* Bit rates: "400Gb/s", "25 Gbit/s", "100Mb/s", "1000b/s"; decimal prefixes k M G T.  Bit/s. */
int units_parse_rate_bps(const char *text, int64_t *out, struct err *err);
/* Sizes: "4096", "64KiB", "1MiB", "2GiB", also decimal "1MB".  Bytes. */
int units_parse_bytes(const char *text, int64_t *out, struct err *err);
/* Durations: "500ms", "30s", "10m", "24h", "7d".  Milliseconds. */
int units_parse_duration_ms(const char *text, int64_t *out, struct err *err);

/* Short forms for people; the caller frees.  "23.4 Gbit/s", "64 KiB", "1.52 s", "12.3 us". */
char *units_format_rate(double bps);
char *units_format_bytes(double bytes);
char *units_format_seconds(double seconds);
/* value with a unit as evidence names it ("bit/s", "B", "s", "us", "1", "%"). */
char *units_format(double value, const char *unit);

#endif
