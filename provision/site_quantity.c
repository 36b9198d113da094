#include "provision/site_quantity.h"

#include <stdlib.h>
#include <string.h>

#include "common/units.h"
#include "common/util.h"

static const struct site_quantity rows[] = {
    {"tcp_bandwidth", "bit/s", "9Gb/s", "TCP goodput of a node pair, at least"},
    {"tcp_latency", "s", "50us", "half round trip of a 64 byte message, at most"},
    {"allreduce_time", "s", "20ms", "time of one AllReduce, at most"},
    {"allreduce_busbw", "B/s", "1GB/s", "bus bandwidth of AllReduce, at least"},
    {"memlock", "B", "64GiB", "limit of locked memory, at least"},
    {"shm_bytes", "B", "1GiB", "size of /dev/shm, at least"},
    {"gpu_count", "1", "8", "GPUs of a node, at least"},
    {"rdma_count", "1", "8", "RDMA devices of a node, at least"},
    {"mtu", "B", "9000", "MTU of the interface for traffic between nodes, at least"},
    {"link_speed", "bit/s", "100Gb/s", "speed of that interface, at least"},
    {"memory_read_bandwidth", "B/s", "4TB/s", "reading of GPU memory, at least"},
    {"memory_copy_bandwidth", "B/s", "3.6TB/s",
     "copies in GPU memory, read plus written, at least"},
    {"memory_driver_bandwidth", "B/s", "3.6TB/s", "the same by the driver's copy, at least"},
    {"h2d_bandwidth", "B/s", "48GB/s", "pinned host memory to a GPU, at least"},
    {"d2h_bandwidth", "B/s", "48GB/s", "a GPU to pinned host memory, at least"},
    {"h2d_pageable_bandwidth", "B/s", "4GB/s", "pageable host memory to a GPU, at least"},
    {"d2h_pageable_bandwidth", "B/s", "4GB/s", "a GPU to pageable host memory, at least"},
    {"host_path_bandwidth", "B/s", "20GB/s", "from GPU to GPU through host memory, at least"},
};

const struct site_quantity *site_quantities(size_t *count)
{
    *count = ARRAY_LEN(rows);
    return rows;
}

const struct site_quantity *site_quantity_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

static int parse_seconds(const char *text, double *value, struct err *err)
{
    static const struct {
        const char *suffix;
        double per_second; /* dividing by it is exact where multiplying by 1e-6 is not */
    } units[] = {{"ns", 1e9}, {"us", 1e6}, {"ms", 1e3}, {"s", 1}};
    size_t len = strspn(text, "0123456789.");
    if (len == 0)
        return err_set(err, ERR_DATA, "'%.60s' is not a time like 50us", text);
    AUTO(free_str) char *number = str_printf("%.*s", (int)len, text);
    char *rest = NULL;
    double x = strtod(number, &rest);
    if (*rest)
        return err_set(err, ERR_DATA, "'%.60s' is not a time like 50us", text);
    if (text[len] == '\0')
        return err_set(err, ERR_DATA, "'%.60s' has no unit: write %.60sus, %.60sms or %.60ss", text,
                       text, text, text);
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (strcmp(text + len, units[i].suffix) == 0) {
            *value = x / units[i].per_second;
            return 0;
        }
    }
    return err_set(err, ERR_DATA, "'%.60s': unit '%.20s' is not one of ns, us, ms, s", text,
                   text + len);
}

static int parse_byte_rate(const char *text, double *value, struct err *err)
{
    if (!str_has_suffix(text, "B/s"))
        return err_set(err, ERR_DATA, "'%.60s' is not a rate in bytes like 1GB/s", text);
    AUTO(free_str) char *bytes = str_printf("%.*s", (int)(strlen(text) - strlen("/s")), text);
    int64_t n = 0;
    if (units_parse_bytes(bytes, &n, err) != 0)
        return -1;
    *value = (double)n;
    return 0;
}

static int parse_bit_rate(const char *text, double *value, struct err *err)
{
    int64_t n = 0;
    if (units_parse_rate_bps(text, &n, err) != 0)
        return -1;
    *value = (double)n;
    return 0;
}

static int parse_bytes(const char *text, double *value, struct err *err)
{
    int64_t n = 0;
    if (units_parse_bytes(text, &n, err) != 0)
        return -1;
    *value = (double)n;
    return 0;
}

static int parse_count(const char *text, double *value, struct err *err)
{
    int64_t n = 0;
    if (units_parse_int(text, 1, 1000000, &n, err) != 0)
        return -1;
    *value = (double)n;
    return 0;
}

static const struct {
    const char *unit;
    int (*parse)(const char *text, double *value, struct err *err);
} parsers[] = {
    {"bit/s", parse_bit_rate}, {"B/s", parse_byte_rate}, {"s", parse_seconds},
    {"B", parse_bytes},        {"1", parse_count},
};

int site_quantity_parse(const struct site_quantity *q, const char *text, double *value,
                        struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(parsers); i++)
        if (strcmp(parsers[i].unit, q->unit) == 0)
            return parsers[i].parse(text, value, err);
    return err_set(err, ERR_DATA, "quantity '%s' has no parser for '%s'", q->name, q->unit);
}
