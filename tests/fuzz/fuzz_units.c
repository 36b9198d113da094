/* Any text is refused with a reason or gives a number in range; any number has a short form. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/units.h"
#include "common/util.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

static int parse_port(const char *text, int64_t *out, struct err *err)
{
    int rc = units_parse_int(text, 1, 65535, out, err);
    if (rc == 0)
        require(*out >= 1 && *out <= 65535);
    return rc;
}

static void check_parsers(const char *text)
{
    static int (*const parsers[])(const char *, int64_t *, struct err *) = {
        parse_port, units_parse_rate_bps, units_parse_bytes, units_parse_duration_ms};
    for (size_t i = 0; i < ARRAY_LEN(parsers); i++) {
        struct err err = {0};
        int64_t value = -42;
        if (parsers[i](text, &value, &err) == 0)
            require(value >= 0 && err.kind == ERR_NONE);
        else
            require(value == -42 && err.kind == ERR_DATA && err.text[0]);
    }
}

static void check_formats(double value)
{
    static const char *const units[] = {"bit/s", "B", "s", "us", "ms", "B/s", "1", "%", "Celsius"};
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        AUTO(free_str) char *text = units_format(value, units[i]);
        require(text[0] != '\0');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(free_str) char *text = mem_zero(size + 1, 1);
    if (size)
        memcpy(text, data, size);
    check_parsers(text);
    double value = 0;
    if (size >= sizeof value) {
        memcpy(&value, data, sizeof value);
        check_formats(value);
    }
    return 0;
}
