/* The timing loop of the AllReduce comparison, once for each side, so that both count the same
 * thing.
 *
 * With -DBENCH_MPI: MPI_Allreduce.  Else: fabric/collective over TCP; the ranks find each other by
 * files in a directory.  Prints from rank 0 one line a size: bytes, repetitions, median, p10, p90
 * in us.
 *
 *   MPI:     mpirun ... allreduce_mpi REPETITIONS SIZE...
 *   muster:  allreduce_tcp RANK RANKS ADDRESS DIR STREAMS ALGORITHM REPETITIONS SIZE... */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef BENCH_MPI
#include <mpi.h>
#else
#include "common/jsonx.h"
#include "common/util.h"
#include "fabric/collective/allreduce.h"
#include "fabric/transport/transport.h"
#endif

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct side {
    int rank, ranks;
#ifndef BENCH_MPI
    struct allreduce *a;
    enum allreduce_algorithm algorithm;
#endif
};

static void sum(struct side *s, const float *in, float *out, size_t count)
{
#ifdef BENCH_MPI
    MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
#else
    struct err err = {.kind = ERR_NONE};
    if (allreduce_run(s->a, s->algorithm, REDUCE_F32, in, out, count, now_ms() + 60000, &err)) {
        fprintf(stderr, "rank %d: %s\n", s->rank, err.text);
        exit(1);
    }
#endif
}

/* Calls back to back, each one timed; the first fifth is warm-up. */
static void measure(struct side *s, size_t bytes, int repetitions, float *in, float *out)
{
    size_t count = bytes / sizeof *in;
    int warm_up = repetitions / 5 + 1;
    double *times = malloc((size_t)repetitions * sizeof *times);
    for (size_t i = 0; i < count; i++)
        in[i] = (float)(s->rank + 1);
    for (int i = -warm_up; i < repetitions; i++) {
        double begin = seconds();
        sum(s, in, out, count);
        if (i >= 0)
            times[i] = seconds() - begin;
    }
    float want = (float)(s->ranks * (s->ranks + 1) / 2);
    if (count && (out[0] != want || out[count - 1] != want)) {
        fprintf(stderr, "rank %d: wrong sum at %zu bytes\n", s->rank, bytes);
        exit(1);
    }
    qsort(times, (size_t)repetitions, sizeof *times, by_value);
    if (s->rank == 0)
        printf("%zu %d %.1f %.1f %.1f\n", bytes, repetitions, times[repetitions / 2] * 1e6,
               times[repetitions / 10] * 1e6, times[repetitions * 9 / 10] * 1e6);
    fflush(stdout);
    free(times);
}

static void sweep(struct side *s, int repetitions, int count, char **sizes)
{
    size_t largest = 0;
    for (int i = 0; i < count; i++) {
        size_t bytes = strtoull(sizes[i], NULL, 10);
        largest = bytes > largest ? bytes : largest;
    }
    float *in = malloc(largest), *out = malloc(largest);
    for (int i = 0; i < count; i++) {
        size_t bytes = strtoull(sizes[i], NULL, 10);
        /* A similar amount of work at each size. */
        size_t most = ((size_t)512 << 20) / bytes;
        int n = most < (size_t)repetitions ? (int)most : repetitions;
        measure(s, bytes, n < 10 ? 10 : n, in, out);
    }
    free(in);
    free(out);
}

#ifdef BENCH_MPI
int main(int argc, char **argv)
{
    struct side s;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &s.ranks);
    if (argc < 3)
        return 2;
    sweep(&s, atoi(argv[1]), argc - 2, argv + 2);
    MPI_Finalize();
    return 0;
}
#else
static void die(const struct err *err)
{
    fprintf(stderr, "%s\n", err->text);
    exit(1);
}

/* Publish the own endpoint, wait for all others. */
static void meet(const char *dir, uint32_t rank, uint32_t ranks, json_t *own,
                 struct transport_peer peers[])
{
    char path[512];
    struct err err = {.kind = ERR_NONE};
    snprintf(path, sizeof path, "%s/%u.json", dir, rank);
    if (jsonx_save(path, own, 0600, &err))
        die(&err);
    for (uint32_t r = 0; r < ranks; r++) {
        json_t *endpoint = NULL;
        for (int tries = 0; !endpoint && tries < 1000; tries++) {
            struct err miss = {.kind = ERR_NONE};
            snprintf(path, sizeof path, "%s/%u.json", dir, r);
            if (jsonx_load(path, 65536, &endpoint, &miss))
                usleep(10000);
        }
        snprintf(path, sizeof path, "rank%u", r);
        peers[r] = (struct transport_peer){.rank = r, .name = str_dup(path), .endpoint = endpoint};
    }
}

int main(int argc, char **argv)
{
    static const uint8_t token[TRANSPORT_TOKEN_BYTES] = {42};
    if (argc < 9)
        return 2;
    struct side s = {.rank = atoi(argv[1]), .ranks = atoi(argv[2])};
    struct err err = {.kind = ERR_NONE};
    const struct transport_ops *ops = transport_find("tcp");
    struct transport_config config = {.rank = (uint32_t)s.rank,
                                      .address = argv[3],
                                      .token = token,
                                      .streams = (unsigned)atoi(argv[5]),
                                      .silence_ms = 5000};
    struct transport *t;
    struct transport_peer peers[64];
    if (ops->open(&config, &t, &err))
        die(&err);
    meet(argv[4], (uint32_t)s.rank, (uint32_t)s.ranks, ops->endpoint(t), peers);
    for (int a = 0; a < ALLREDUCE_ALGORITHM__COUNT; a++)
        if (strcmp(argv[6], allreduce_algorithm_name((enum allreduce_algorithm)a)) == 0)
            s.algorithm = (enum allreduce_algorithm)a;
    if (allreduce_open(t, peers, (uint32_t)s.rank, (uint32_t)s.ranks, 128 << 20, now_ms() + 10000,
                       &s.a, &err))
        die(&err);
    sweep(&s, atoi(argv[7]), argc - 8, argv + 8);
    int32_t total;
    if (allreduce_barrier(s.a, 1, &total, now_ms() + 10000, &err))
        die(&err);
    allreduce_close(s.a);
    ops->close(t);
    return 0;
}
#endif
