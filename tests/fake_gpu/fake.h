/* Stand-ins for libcuda.so.1 and libnvidia-ml.so.1: GPUs that a text file describes, with faults.
 *
 * Only for tests of the wiring: kernels are done by the processor, times come from stated rates.
 * Both libraries export muster_fake_gpu, by which the agent marks everything as simulated.
 *
 * $MUSTER_FAKE_GPU names the file; its lines are "key value" or "fault GPU NAME [value]" (GPU: a
 * number or *):
 *   gpus 2               how many
 *   name NVIDIA H200     of each
 *   memory_bytes 16777216
 *   sms 132
 *   memory_rate 4.6e12   B/s, host_rate 55e9
 *   cuinit 0             what cuInit answers */
#ifndef MUSTER_TESTS_FAKE_GPU_FAKE_H
#define MUSTER_TESTS_FAKE_GPU_FAKE_H

#include <stdbool.h>
#include <stddef.h>

enum { FAKE_MAX_GPUS = 16, FAKE_MAX_FAULTS = 32, FAKE_NAME_BYTES = 64 };

struct fake_fault {
    int gpu; /* -1: all */
    char name[FAKE_NAME_BYTES];
    double value;
};

struct fake {
    int gpus, sms, cuinit;
    char name[FAKE_NAME_BYTES];
    size_t memory_bytes;
    double memory_rate, host_rate; /* B/s */
    struct fake_fault faults[FAKE_MAX_FAULTS];
    size_t fault_count;
};

/* Read once per process; a file that cannot be read or understood ends the process with 97. */
const struct fake *fake_get(void);
/* The fault of a GPU, NULL when it is healthy in this respect. */
const struct fake_fault *fake_fault(int gpu, const char *name);
/* "0000:1b:00.0" for GPU 0, and so on. */
void fake_bdf(int gpu, char out[static 16]);
/* Index of the GPU at this address, -1 for none. */
int fake_find(const char *bdf);

#endif
