/* Widths, speeds and MTUs of InfiniBand ports as names, bits and rates.
 *
 * Pure tables (IBTA volume 1, PortInfo; lab values from ibsim); thread-safe. */
#ifndef MUSTER_FABRIC_SUBNET_RATE_H
#define MUSTER_FABRIC_SUBNET_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One speed of a lane, in ascending order: RATE_SDR < ... < RATE_XDR.  Sets of speeds are masks
 * with bit (1 << speed). */
enum rate_speed {
    RATE_UNSET = 0,
    RATE_SDR,
    RATE_DDR,
    RATE_QDR,
    RATE_FDR10,
    RATE_FDR,
    RATE_EDR,
    RATE_HDR,
    RATE_NDR,
    RATE_XDR,
    RATE_SPEED__COUNT
};

struct rate_speed_row {
    const char *name;
    double signal_gbps; /* of one lane on the wire */
    double data_gbps;   /* of one lane after line coding */
    double ber;         /* bit errors per bit that the link may have */
    const char *ber_source;
};
/* NULL for RATE_UNSET and anything that is not a speed. */
const struct rate_speed_row *rate_speed_at(enum rate_speed speed);

/* "4xHDR" into lanes and speed; the text must end there.  False when it is not such a word. */
bool rate_parse(const char *text, unsigned *lanes, enum rate_speed *speed);
/* Lanes of one LinkWidth bit (1, 2, 4, 8, 16 give 1, 4, 8, 12, 2), 0 for anything else. */
unsigned rate_lanes(unsigned width_bit);
/* Most lanes in a LinkWidth mask; with ganged false only widths of up to 4 lanes count. */
unsigned rate_lanes_most(unsigned width_mask, bool ganged);
/* Highest speed of a set, RATE_UNSET for none. */
enum rate_speed rate_speed_most(unsigned speeds);
/* Data rate in bit/s of lanes at a speed; 0 when either is unknown. */
int64_t rate_bps(unsigned lanes, enum rate_speed speed);
/* Signalled bits per second on all lanes together. */
double rate_signal_bps(unsigned lanes, enum rate_speed speed);

/* IBTA code of a path's MTU (256..4096 give 1..5), 0 for another size; and back. */
unsigned rate_mtu_code(int64_t bytes);
int64_t rate_mtu_bytes(unsigned code);
/* IBTA code of a static rate in partitions.conf for a rate in bit/s, 0 when there is none. */
unsigned rate_code(int64_t bps);

#endif
