/* Numbers with units: what is read, what is refused and with which words, how they are shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/units.h"
#include "common/util.h"

typedef int parser(const char *text, int64_t *out, struct err *err);

static int parse_port(const char *text, int64_t *out, struct err *err)
{
    return units_parse_int(text, 1, 65535, out, err);
}

static int parse_any(const char *text, int64_t *out, struct err *err)
{
    return units_parse_int(text, INT64_MIN, INT64_MAX, out, err);
}

static void reads(void **state)
{
    static const struct {
        parser *parse;
        const char *text;
        int64_t value;
    } rows[] = {
        {parse_port, "22", 22},
        {parse_port, "1", 1},
        {parse_port, "65535", 65535},
        {parse_port, "010", 10},
        {parse_any, "-13", -13},
        {parse_any, "9223372036854775807", INT64_MAX},
        {parse_any, "-9223372036854775808", INT64_MIN},
        {units_parse_rate_bps, "400Gb/s", 400000000000},
        {units_parse_rate_bps, "25 Gbit/s", 25000000000},
        {units_parse_rate_bps, "100Mb/s", 100000000},
        {units_parse_rate_bps, "1000b/s", 1000},
        {units_parse_rate_bps, "12.5Gbps", 12500000000},
        {units_parse_rate_bps, "1.6Tb/s", 1600000000000},
        {units_parse_rate_bps, "0b/s", 0},
        {units_parse_bytes, "4096", 4096},
        {units_parse_bytes, "0", 0},
        {units_parse_bytes, "64KiB", 65536},
        {units_parse_bytes, "1MiB", 1048576},
        {units_parse_bytes, "2GiB", INT64_C(2147483648)},
        {units_parse_bytes, "1.5 GiB", 1610612736},
        {units_parse_bytes, "1MB", 1000000},
        {units_parse_bytes, "8TiB", INT64_C(8796093022208)},
        {units_parse_bytes, "2.000000000000B", 2},
        {units_parse_bytes, "9223372036854775807", INT64_MAX},
        {units_parse_duration_ms, "500ms", 500},
        {units_parse_duration_ms, "30s", 30000},
        {units_parse_duration_ms, "10m", 600000},
        {units_parse_duration_ms, "24h", 86400000},
        {units_parse_duration_ms, "7d", 604800000},
        {units_parse_duration_ms, "1.5s", 1500},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        int64_t value = -1;
        int rc = rows[i].parse(rows[i].text, &value, &err);
        if (rc != 0)
            fail_msg("'%s' refused: %s", rows[i].text, err.text);
        if (value != rows[i].value)
            fail_msg("'%s' gives %" PRId64, rows[i].text, value);
    }
}

static const struct {
    parser *parse;
    const char *text, *message;
} refused[] = {
    {parse_any, "89004.2",
     "'89004.2' is not an integer (trailing '.2'); two settings run together?"},
    {parse_any, "-13.4", "'-13.4' is not an integer (trailing '.4'); two settings run together?"},
    {parse_any, "12abc", "'12abc' is not an integer (trailing 'abc')"},
    {parse_any, "7 ", "'7 ' is not an integer (trailing ' ')"},
    {parse_any, " 7", "' 7' is not an integer"},
    {parse_any, "+7", "'+7' is not an integer"},
    {parse_any, "-", "'-' is not an integer"},
    {parse_any, "--7", "'--7' is not an integer"},
    {parse_any, "", "empty where an integer is meant"},
    {parse_any, "0x10", "'0x10' is not an integer (trailing 'x10')"},
    {parse_any, "9223372036854775808",
     "'9223372036854775808' is out of range (-9223372036854775808 to 9223372036854775807)"},
    {parse_port, "0", "'0' is out of range (1 to 65535)"},
    {parse_port, "65536", "'65536' is out of range (1 to 65535)"},
    {units_parse_rate_bps, "400", "'400' has no unit: write 400Gb/s, 100Mb/s or 1000b/s"},
    {units_parse_rate_bps, "400 ",
     "'400 ' is not a rate: unknown unit ' ' (meant is a number and "
     "a unit, like 400Gb/s)"},
    {units_parse_rate_bps, "50GB/s",
     "'50GB/s' is not a rate: unit 'GB/s' is refused, that is bytes per second and a rate is "
     "in "
     "bits: 1GB/s is 8Gb/s"},
    {units_parse_rate_bps, "400gb/s",
     "'400gb/s' is not a rate: unknown unit 'gb/s' (meant is a "
     "number and a unit, like 400Gb/s)"},
    {units_parse_rate_bps, "", "empty where a rate is meant (a number and a unit, like 400Gb/s)"},
    {units_parse_rate_bps, "fast",
     "'fast' is not a rate: it does not begin with a number (meant "
     "is a number and a unit, like 400Gb/s)"},
    {units_parse_rate_bps, "-1Gb/s",
     "'-1Gb/s' is not a rate: it must not be negative (meant is a "
     "number and a unit, like 400Gb/s)"},
    {units_parse_rate_bps, "99999999Tb/s", "'99999999Tb/s' is not a rate: it is too large"},
    {units_parse_rate_bps, "9223372036854775808b/s",
     "'9223372036854775808b/s' is not a rate: it is too large (meant is a number and a unit, "
     "like "
     "400Gb/s)"},
    {units_parse_rate_bps, "1.b/s",
     "'1.b/s' is not a rate: a digit is missing after the point "
     "(meant is a number and a unit, like 400Gb/s)"},
    {units_parse_rate_bps, "0.5b/s", "'0.5b/s' is not a whole number of bits per second"},
    {units_parse_bytes, "64K",
     "'64K' is not a size: unit 'K' is refused, it is used for 1000 and "
     "for 1024: write kB, MB, GB, TB or KiB, MiB, GiB, TiB"},
    {units_parse_bytes, "89004.2", "'89004.2' is not a whole number of bytes"},
    {units_parse_bytes, "1.1KiB", "'1.1KiB' is not a whole number of bytes"},
    {units_parse_bytes, "1.0000001MB",
     "'1.0000001MB' is not a size: it has more than 6 decimals (meant is bytes, or a number "
     "and a "
     "unit like 64KiB or 1MB)"},
    {units_parse_bytes, "1MiBx",
     "'1MiBx' is not a size: unknown unit 'MiBx' (meant is bytes, or a "
     "number and a unit like 64KiB or 1MB)"},
    {units_parse_bytes, "9007199254740992KiB",
     "'9007199254740992KiB' is not a size: it is too large"},
    {units_parse_duration_ms, "30", "'30' has no unit: write 500ms, 30s, 10m, 24h or 7d"},
    {units_parse_duration_ms, "0.5ms", "'0.5ms' is not a whole number of milliseconds"},
    {units_parse_duration_ms, "7 days",
     "'7 days' is not a duration: unknown unit 'days' (meant is "
     "a number and a unit, like 30s)"},
};

static void refuses(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        struct err err = {0};
        int64_t value = 42;
        assert_int_equal(refused[i].parse(refused[i].text, &value, &err), -1);
        assert_int_equal(err.kind, ERR_DATA);
        assert_string_equal(err.text, refused[i].message);
        assert_true(value == 42);
    }
}

static void formats(void **state)
{
    static const struct {
        double value;
        const char *unit, *text;
    } rows[] = {
        {23.4e9, "bit/s", "23.4 Gbit/s"},
        {400e9, "bit/s", "400 Gbit/s"},
        {999.96e6, "bit/s", "1 Gbit/s"},
        {999.4e6, "bit/s", "999 Mbit/s"},
        {0, "bit/s", "0 bit/s"},
        {1234e12, "bit/s", "1234 Tbit/s"},
        {65536, "B", "64 KiB"},
        {65520, "B", "65520 B"},
        {9000, "B", "9000 B"},
        {1500, "B", "1500 B"},
        {1048576, "B", "1 MiB"},
        {1610612736, "B", "1.5 GiB"},
        {143771303936, "B", "134 GiB"},
        {0, "B", "0 B"},
        {1.52, "s", "1.52 s"},
        {12.3e-6, "s", "12.3 us"},
        {12.3, "us", "12.3 us"},
        {850e-9, "s", "850 ns"},
        {0.0125, "s", "12.5 ms"},
        {12.5, "ms", "12.5 ms"},
        {119, "s", "119 s"},
        {150, "s", "2.5 min"},
        {86400, "s", "24 h"},
        {604800, "s", "7 d"},
        {0, "s", "0 s"},
        {-0.002, "s", "-2 ms"},
        {391.4e9, "B/s", "391 GB/s"},
        {8, "1", "8"},
        {65536, "1", "65536"},
        {0.98765, "1", "0.9877"},
        {97.25, "%", "97.2 %"},
        {12.5, "GT/s", "12.5 GT/s"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO(free_str) char *text = units_format(rows[i].value, rows[i].unit);
        assert_string_equal(text, rows[i].text);
    }
}

static void formats_what_is_no_number(void **state)
{
    static const char *const units[] = {"bit/s", "B", "s", "us", "1", "%"};
    static const double values[] = {NAN, INFINITY, -INFINITY, 1e300, -1e300, 1e-300};
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        for (size_t j = 0; j < ARRAY_LEN(values); j++) {
            AUTO(free_str) char *text = units_format(values[j], units[i]);
            assert_true(strlen(text) > 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads),
        cmocka_unit_test(refuses),
        cmocka_unit_test(formats),
        cmocka_unit_test(formats_what_is_no_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
