/* The sum of two vectors, the only arithmetic of AllReduce.
 *
 * Thread rule: pure functions.  The vector kernel is picked at run time and gives the same bits as
 * the scalar one, because each element is one addition. */
#ifndef MUSTER_FABRIC_COLLECTIVE_REDUCE_H
#define MUSTER_FABRIC_COLLECTIVE_REDUCE_H

#include <stdbool.h>
#include <stddef.h>

enum reduce_dtype { REDUCE_UNSET = 0, REDUCE_F32, REDUCE_I32, REDUCE_DTYPE__COUNT };

/* "f32", "i32"; REDUCE_UNSET and NULL for what is unknown. */
const char *reduce_dtype_name(enum reduce_dtype dtype);
enum reduce_dtype reduce_dtype_find(const char *name);
size_t reduce_dtype_bytes(enum reduce_dtype dtype); /* bytes of one element, 0 for REDUCE_UNSET */

/* out[i] = a[i] + b[i] for count elements; integers wrap.  out may be a or b, otherwise the three
 * do not overlap.  No alignment beyond that of the element. */
void reduce_add(enum reduce_dtype dtype, void *out, const void *a, const void *b, size_t count);

/* The same by plain C, for comparison. */
void reduce_add_scalar(enum reduce_dtype dtype, void *out, const void *a, const void *b,
                       size_t count);

/* "avx2" or "scalar": what reduce_add() uses on this machine. */
const char *reduce_kernel_name(void);

#endif
