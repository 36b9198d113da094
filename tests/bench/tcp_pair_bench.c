/* One side of a pair measurement, for the comparison with iperf3:
 *   tcp_pair_bench first|second SELF PEER ADDRESS DIR STREAMS DURATION_MS ROUNDS
 * The two sides find each other by files in DIR.  Prints a line per round: Gbit/s received (median
 * of the samples), half round trip in us (first only), CPU share as receiver and as sender. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "fabric/transport/tcp_pair.h"

static void die(const char *text)
{
    fprintf(stderr, "%s\n", text);
    exit(1);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static json_t *meet(const char *dir, const char *self, const char *other, json_t *own)
{
    char path[512];
    struct err err = {.kind = ERR_NONE};
    snprintf(path, sizeof path, "%s/%s", dir, self);
    if (jsonx_save(path, own, 0600, &err))
        die(err.text);
    snprintf(path, sizeof path, "%s/%s", dir, other);
    for (int tries = 0; tries < 1000; tries++) {
        struct err miss = {.kind = ERR_NONE};
        json_t *endpoint = NULL;
        if (jsonx_load(path, 65536, &endpoint, &miss) == 0)
            return endpoint;
        usleep(10000);
    }
    die("the other side does not come");
    return NULL;
}

int main(int argc, char **argv)
{
    static const uint8_t token[TCP_TOKEN_BYTES] = {7};
    static struct tcp_pair_result r;
    struct err err = {.kind = ERR_NONE};
    struct tcp_addr addr;
    struct tcp *t;
    if (argc != 9)
        die("wrong number of arguments");
    struct tcp_pair_peer peer = {
        .self = argv[2], .name = argv[3], .first = strcmp(argv[1], "first") == 0};
    struct tcp_pair_config config = {.streams = (unsigned)atoi(argv[6]),
                                     .duration_ms = atoi(argv[7]),
                                     .content_bytes = 64 << 20,
                                     .latency_iterations = 1000};
    if (tcp_addr_choose(argv[4], NULL, NULL, &addr, &err) || tcp_open(&addr, token, &t, &err))
        die(err.text);
    json_t *endpoint = meet(argv[5], peer.self, peer.name, tcp_endpoint(t));
    if (tcp_endpoint_parse(t, endpoint, &peer.addr, &err))
        die(err.text);
    for (int round = 0; round < atoi(argv[8]); round++) {
        peer.round = (uint32_t)round;
        if (!tcp_pair_run(t, &peer, &config, now_ms() + 60000, &r)) {
            fprintf(stderr, "in: %s / %s; out: %s / %s; latency: %s\n", r.in.data.text,
                    r.in.bandwidth.text, r.out.data.text, r.out.bandwidth.text, r.latency.text);
            return 1;
        }
        qsort(r.in.samples_bps, r.in.sample_count, sizeof(double), by_value);
        printf("%.3f %.2f %.2f %.2f\n", r.in.samples_bps[r.in.sample_count / 2] / 1e9,
               r.p50_s * 1e6, r.in.cpu_share, r.out.cpu_share);
    }
    json_decref(endpoint);
    tcp_close(t);
    return 0;
}
