#include "fabric/subnet/rate.h"

#include <stdlib.h>
#include <string.h>

#include "common/util.h"

#define IBTA_BER "InfiniBand specification: fewer than one bit error in 10^12 bits"
#define CABLE_BER                                                                                  \
    "NVIDIA cable design guide: cables are tested to one error in 10^15 bits; with error "         \
    "correction the counter holds what was left uncorrected"

static const struct rate_speed_row speeds[RATE_SPEED__COUNT] = {
    [RATE_SDR] = {"SDR", 2.5, 2, 1e-12, IBTA_BER},
    [RATE_DDR] = {"DDR", 5, 4, 1e-12, IBTA_BER},
    [RATE_QDR] = {"QDR", 10, 8, 1e-12, IBTA_BER},
    [RATE_FDR10] = {"FDR10", 10.3125, 10, 1e-12, IBTA_BER},
    [RATE_FDR] = {"FDR", 14.0625, 14.0625 * 64 / 66, 1e-12, IBTA_BER},
    [RATE_EDR] = {"EDR", 25.78125, 25, 1e-15, CABLE_BER},
    [RATE_HDR] = {"HDR", 53.125, 50, 1e-15, CABLE_BER},
    [RATE_NDR] = {"NDR", 106.25, 100, 1e-15, CABLE_BER},
    [RATE_XDR] = {"XDR", 212.5, 200, 1e-15, CABLE_BER},
};

static const struct {
    unsigned bit, lanes;
} widths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};

static const struct {
    unsigned code;
    int64_t mbps;
} rate_codes[] = {
    {2, 2500},    {3, 10000},   {4, 30000},   {5, 5000},   {6, 20000},   {7, 40000},   {8, 60000},
    {9, 80000},   {10, 120000}, {11, 14000},  {12, 56000}, {13, 112000}, {14, 168000}, {15, 25000},
    {16, 100000}, {17, 200000}, {18, 300000}, {19, 28000}, {20, 50000},  {21, 400000}, {22, 600000},
};

const struct rate_speed_row *rate_speed_at(enum rate_speed speed)
{
    return speed > RATE_UNSET && speed < RATE_SPEED__COUNT ? &speeds[speed] : NULL;
}

bool rate_parse(const char *text, unsigned *lanes, enum rate_speed *speed)
{
    char *end = NULL;
    unsigned long n = *text >= '1' && *text <= '9' ? strtoul(text, &end, 10) : 0;
    if (n == 0 || (*end != 'x' && *end != 'X'))
        return false;
    for (size_t w = 0; w < ARRAY_LEN(widths); w++)
        for (int s = 1; s < RATE_SPEED__COUNT; s++)
            if (widths[w].lanes == n && strcmp(end + 1, speeds[s].name) == 0) {
                *lanes = (unsigned)n;
                *speed = (enum rate_speed)s;
                return true;
            }
    return false;
}

unsigned rate_lanes(unsigned width_bit)
{
    for (size_t i = 0; i < ARRAY_LEN(widths); i++)
        if (widths[i].bit == width_bit)
            return widths[i].lanes;
    return 0;
}

unsigned rate_lanes_most(unsigned width_mask, bool ganged)
{
    unsigned most = 0;
    for (size_t i = 0; i < ARRAY_LEN(widths); i++)
        if ((width_mask & widths[i].bit) && widths[i].lanes > most &&
            (ganged || widths[i].lanes <= 4))
            most = widths[i].lanes;
    return most;
}

enum rate_speed rate_speed_most(unsigned set)
{
    for (int s = RATE_SPEED__COUNT - 1; s > RATE_UNSET; s--)
        if (set & (1u << s))
            return (enum rate_speed)s;
    return RATE_UNSET;
}

int64_t rate_bps(unsigned lanes, enum rate_speed speed)
{
    const struct rate_speed_row *row = rate_speed_at(speed);
    return row ? (int64_t)(lanes * row->data_gbps * 1e9 + 0.5) : 0;
}

double rate_signal_bps(unsigned lanes, enum rate_speed speed)
{
    const struct rate_speed_row *row = rate_speed_at(speed);
    return row ? lanes * row->signal_gbps * 1e9 : 0;
}

unsigned rate_mtu_code(int64_t bytes)
{
    for (unsigned code = 1; code <= 5; code++)
        if (rate_mtu_bytes(code) == bytes)
            return code;
    return 0;
}

int64_t rate_mtu_bytes(unsigned code)
{
    return code >= 1 && code <= 5 ? INT64_C(128) << code : 0;
}

unsigned rate_code(int64_t bps)
{
    for (size_t i = 0; i < ARRAY_LEN(rate_codes); i++)
        if (rate_codes[i].mbps * 1000000 == bps)
            return rate_codes[i].code;
    return 0;
}
