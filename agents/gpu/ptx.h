/* The kernels that muster carries, as PTX text that the driver compiles for its own GPU.
 *
 * `.version 6.0 .target sm_60` is what every driver since R384 reads and every GPU since Pascal
 * runs, so that a node needs neither nvcc nor a file beside the agent.  All kernels are in one
 * module.  The C mirrors of the pattern and of the computation are here too: what a kernel must
 * produce is computed by the processor, never taken from a GPU. */
#ifndef MUSTER_AGENTS_GPU_PTX_H
#define MUSTER_AGENTS_GPU_PTX_H

#include <stddef.h>
#include <stdint.h>

enum {
    PTX_VECTOR_BYTES = 16,     /* what one thread moves at a time */
    PTX_COMPUTE_THREADS = 256, /* of one block of the compute kernel */
    PTX_MAX_SMS = 1024,        /* rows of the compute kernel's results */
    PTX_CHASE_BYTES = 128      /* distance of two elements of a chase: one cache line */
};

/* Kernels and their parameters (all pointers are device addresses, u64):
 *   muster_fill     dst, vectors u64, seed u32, sum*            pattern; *sum ^= all words
 *   muster_verify   src, vectors u64, seed u32, result*         result[0] += wrong words,
 *                                                               result[1] = min index of one
 *   muster_copy     dst, src, vectors u64
 *   muster_read     src, vectors u64, sum*                      *sum ^= all words (u32)
 *   muster_chase    first, steps u32, result*                   result[0] = last address,
 *                                                               result[1] = ns of all steps
 *   muster_spin     flag*, limit_ns u64                         until *flag != 0 or the limit
 *   muster_compute  steps u32, results*, runs*                  results[sm][thread] u64,
 *                                                               runs[sm] u32 += 1 per block */
enum ptx_kernel {
    PTX_FILL,
    PTX_VERIFY,
    PTX_COPY,
    PTX_READ,
    PTX_CHASE,
    PTX_SPIN,
    PTX_COMPUTE,
    PTX_KERNEL__COUNT
};
/* Names of the kernels; ends in NULL. */
extern const char *const ptx_kernels[];
/* The text of the module; the caller frees it. */
char *ptx_module(void);

/* Word `index` of the pattern of a seed. */
uint32_t ptx_pattern(uint64_t index, uint32_t seed);
/* What each thread of the compute kernel must produce: integer multiply-add, single and double
 * precision fused multiply-add, chained, so that one wrong bit anywhere stays in the result. */
uint64_t ptx_compute(uint32_t thread, uint32_t steps);

#endif
