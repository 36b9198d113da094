#include "agents/gpu/ptx.h"

#include <math.h>
#include <string.h>

#include "common/util.h"

/* The pattern: a multiplicative mix of the word's index, so that a word that is shifted, stale or
 * from another seed is seen. */
enum { MIX_BITS_1 = 15, MIX_BITS_2 = 13 };
static const uint32_t mix_high = 0x27d4eb2fu, mix_1 = 0x9e3779b1u, mix_2 = 0x85ebca77u;

uint32_t ptx_pattern(uint64_t index, uint32_t seed)
{
    uint32_t x = (uint32_t)index + (uint32_t)(index >> 32) * mix_high + seed;
    x *= mix_1;
    x ^= x >> MIX_BITS_1;
    x *= mix_2;
    return x ^ x >> MIX_BITS_2;
}

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static uint64_t long_bits_of(double d)
{
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}

/* Both floating-point chains stay in [0, 4): no overflow, no infinity, no value that is not a
 * number, so that IEEE 754 alone says what each bit is. */
uint64_t ptx_compute(uint32_t thread, uint32_t steps)
{
    uint32_t x = thread * mix_1 + 1;
    float f = 1.0f;
    double d = 1.0;
    for (uint32_t i = 0; i < steps; i++) {
        x = x * 1664525u + 1013904223u;
        float g = float_of((x >> 9) | 0x3f800000u); /* 1 to 2 */
        f = fmaf(f, 0.5f, g);
        d = fma(d, 0.5, (double)f);
        uint64_t bits = long_bits_of(d);
        x ^= bits_of(f) ^ (uint32_t)bits ^ (uint32_t)(bits >> 32);
    }
    return (uint64_t)x << 32 | bits_of(f);
}

const char *const ptx_kernels[] = {
    [PTX_FILL] = "muster_fill",       [PTX_VERIFY] = "muster_verify", [PTX_COPY] = "muster_copy",
    [PTX_READ] = "muster_read",       [PTX_CHASE] = "muster_chase",   [PTX_SPIN] = "muster_spin",
    [PTX_COMPUTE] = "muster_compute", [PTX_KERNEL__COUNT] = NULL,
};

/* %r10 = pattern of the word index in %rd10; %r9 holds the seed. */
#define TEXT_PATTERN                                                                               \
    "cvt.u32.u64 %r10, %rd10;\n"                                                                   \
    "shr.u64 %rd11, %rd10, 32;\n"                                                                  \
    "cvt.u32.u64 %r11, %rd11;\n"                                                                   \
    "mad.lo.u32 %r10, %r11, 0x27d4eb2f, %r10;\n"                                                   \
    "add.u32 %r10, %r10, %r9;\n"                                                                   \
    "mul.lo.u32 %r10, %r10, 0x9e3779b1;\n"                                                         \
    "shr.u32 %r11, %r10, 15;\n"                                                                    \
    "xor.b32 %r10, %r10, %r11;\n"                                                                  \
    "mul.lo.u32 %r10, %r10, 0x85ebca77;\n"                                                         \
    "shr.u32 %r11, %r10, 13;\n"                                                                    \
    "xor.b32 %r10, %r10, %r11;\n"

#define TEXT_REGISTERS                                                                             \
    ".reg .pred %p<8>;\n.reg .u32 %r<64>;\n.reg .u64 %rd<32>;\n.reg .f32 %f<8>;\n"                 \
    ".reg .f64 %d<8>;\n"

/* %rd1 = index of this thread in the grid, %rd2 = threads of the grid. */
#define TEXT_INDEX                                                                                 \
    "mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\n"                        \
    "mov.u32 %r4, %nctaid.x;\n"                                                                    \
    "mul.wide.u32 %rd1, %r1, %r2;\ncvt.u64.u32 %rd3, %r3;\nadd.u64 %rd1, %rd1, %rd3;\n"            \
    "mul.wide.u32 %rd2, %r4, %r2;\n"

#define TEXT_FILL                                                                                  \
    ".visible .entry muster_fill(.param .u64 dst, .param .u64 n, .param .u32 seed,"                \
    " .param .u64 sum)\n{\n" TEXT_REGISTERS                                                        \
    "ld.param.u64 %rd5, [dst];\nld.param.u64 %rd6, [n];\nld.param.u32 %r9, [seed];\n"              \
    "ld.param.u64 %rd7, [sum];\n" TEXT_INDEX "mov.u32 %r20, 0;\n"                                  \
    "fill_loop:\nsetp.ge.u64 %p1, %rd1, %rd6;\n@%p1 bra fill_end;\n"                               \
    "shl.b64 %rd10, %rd1, 2;\n" TEXT_PATTERN                                                       \
    "mov.u32 %r21, %r10;\nadd.u64 %rd10, %rd10, 1;\n" TEXT_PATTERN                                 \
    "mov.u32 %r22, %r10;\nadd.u64 %rd10, %rd10, 1;\n" TEXT_PATTERN                                 \
    "mov.u32 %r23, %r10;\nadd.u64 %rd10, %rd10, 1;\n" TEXT_PATTERN "mov.u32 %r24, %r10;\n"         \
    "shl.b64 %rd12, %rd1, 4;\nadd.u64 %rd12, %rd12, %rd5;\n"                                       \
    "st.global.v4.u32 [%rd12], {%r21, %r22, %r23, %r24};\n"                                        \
    "xor.b32 %r20, %r20, %r21;\nxor.b32 %r20, %r20, %r22;\n"                                       \
    "xor.b32 %r20, %r20, %r23;\nxor.b32 %r20, %r20, %r24;\n"                                       \
    "add.u64 %rd1, %rd1, %rd2;\nbra fill_loop;\n"                                                  \
    "fill_end:\nred.global.xor.b32 [%rd7], %r20;\nret;\n}\n"

/* One word of the loaded vector against the pattern; counts in %rd20, first index in %rd21. */
#define TEXT_COMPARE(word)                                                                         \
    TEXT_PATTERN "setp.eq.u32 %p2, %r10, " word ";\n"                                              \
                 "selp.u64 %rd22, 0, 1, %p2;\nadd.u64 %rd20, %rd20, %rd22;\n"                      \
                 "selp.u64 %rd22, 0xffffffffffffffff, %rd10, %p2;\nmin.u64 %rd21, %rd21, %rd22;\n" \
                 "add.u64 %rd10, %rd10, 1;\n"

#define TEXT_VERIFY                                                                                \
    ".visible .entry muster_verify(.param .u64 src, .param .u64 n, .param .u32 seed,"              \
    " .param .u64 result)\n{\n" TEXT_REGISTERS                                                     \
    "ld.param.u64 %rd5, [src];\nld.param.u64 %rd6, [n];\nld.param.u32 %r9, [seed];\n"              \
    "ld.param.u64 %rd7, [result];\n" TEXT_INDEX                                                    \
    "mov.u64 %rd20, 0;\nmov.u64 %rd21, 0xffffffffffffffff;\n"                                      \
    "verify_loop:\nsetp.ge.u64 %p1, %rd1, %rd6;\n@%p1 bra verify_end;\n"                           \
    "shl.b64 %rd12, %rd1, 4;\nadd.u64 %rd12, %rd12, %rd5;\n"                                       \
    "ld.global.cs.v4.u32 {%r21, %r22, %r23, %r24}, [%rd12];\n"                                     \
    "shl.b64 %rd10, %rd1, 2;\n" TEXT_COMPARE("%r21") TEXT_COMPARE("%r22") TEXT_COMPARE("%r23")     \
        TEXT_COMPARE("%r24") "add.u64 %rd1, %rd1, %rd2;\nbra verify_loop;\n"                       \
                             "verify_end:\nsetp.eq.u64 %p3, %rd20, 0;\n@%p3 ret;\n"                \
                             "red.global.add.u64 [%rd7], %rd20;\nred.global.min.u64 [%rd7+8], "    \
                             "%rd21;\nret;\n}\n"

/* Launched with a thread per vector: many short blocks of one load and one store keep the memory
 * busier than few long ones with several loads under way. */
#define TEXT_COPY                                                                                  \
    ".visible .entry muster_copy(.param .u64 dst, .param .u64 src, .param .u64 "                   \
    "n)\n{\n" TEXT_REGISTERS                                                                       \
    "ld.param.u64 %rd5, [dst];\nld.param.u64 %rd6, [src];\nld.param.u64 %rd7, [n];\n" TEXT_INDEX   \
    "copy_loop:\nsetp.ge.u64 %p1, %rd1, %rd7;\n@%p1 ret;\n"                                        \
    "shl.b64 %rd12, %rd1, 4;\nadd.u64 %rd14, %rd6, %rd12;\nadd.u64 %rd18, %rd5, %rd12;\n"          \
    "ld.global.v4.u32 {%r20, %r21, %r22, %r23}, [%rd14];\n"                                        \
    "st.global.cs.v4.u32 [%rd18], {%r20, %r21, %r22, %r23};\n"                                     \
    "add.u64 %rd1, %rd1, %rd2;\nbra copy_loop;\n}\n"

#define TEXT_XOR4(a, b, c, d)                                                                      \
    "xor.b32 %r40, %r40, " a ";\nxor.b32 %r41, %r41, " b ";\nxor.b32 %r42, %r42, " c ";\n"         \
    "xor.b32 %r43, %r43, " d ";\n"

#define TEXT_READ                                                                                  \
    ".visible .entry muster_read(.param .u64 src, .param .u64 n, .param .u64 "                     \
    "sum)\n{\n" TEXT_REGISTERS                                                                     \
    "ld.param.u64 %rd6, [src];\nld.param.u64 %rd7, [n];\nld.param.u64 %rd4, [sum];\n" TEXT_INDEX   \
    "shl.b64 %rd8, %rd2, 4;\nmul.lo.u64 %rd9, %rd2, 3;\n"                                          \
    "mov.u32 %r40, 0;\nmov.u32 %r41, 0;\nmov.u32 %r42, 0;\nmov.u32 %r43, 0;\n"                     \
    "read_four:\nadd.u64 %rd13, %rd1, %rd9;\nsetp.ge.u64 %p1, %rd13, %rd7;\n@%p1 bra read_one;\n"  \
    "shl.b64 %rd12, %rd1, 4;\nadd.u64 %rd14, %rd6, %rd12;\n"                                       \
    "add.u64 %rd15, %rd14, %rd8;\nadd.u64 %rd16, %rd15, %rd8;\nadd.u64 %rd17, %rd16, %rd8;\n"      \
    "ld.global.cs.v4.u32 {%r20, %r21, %r22, %r23}, [%rd14];\n"                                     \
    "ld.global.cs.v4.u32 {%r24, %r25, %r26, %r27}, [%rd15];\n"                                     \
    "ld.global.cs.v4.u32 {%r28, %r29, %r30, %r31}, [%rd16];\n"                                     \
    "ld.global.cs.v4.u32 {%r32, %r33, %r34, %r35}, [%rd17];\n" TEXT_XOR4(                          \
        "%r20", "%r21", "%r22", "%r23") TEXT_XOR4("%r24", "%r25", "%r26", "%r27")                  \
        TEXT_XOR4("%r28", "%r29", "%r30", "%r31") TEXT_XOR4(                                       \
            "%r32", "%r33", "%r34",                                                                \
            "%r35") "add.u64 %rd1, %rd13, %rd2;\nbra read_four;\n"                                 \
                    "read_one:\nsetp.ge.u64 %p2, %rd1, %rd7;\n@%p2 bra read_end;\n"                \
                    "shl.b64 %rd12, %rd1, 4;\nadd.u64 %rd14, %rd6, %rd12;\n"                       \
                    "ld.global.cs.v4.u32 {%r20, %r21, %r22, %r23}, [%rd14];\n" TEXT_XOR4(          \
                        "%r20", "%r21", "%r22",                                                    \
                        "%r23") "add.u64 %rd1, %rd1, %rd2;\nbra read_one;\n"                       \
                                "read_end:\nxor.b32 %r40, %r40, %r41;\nxor.b32 %r42, "             \
                                "%r42, %r43;\nxor.b32 %r40, %r40, %r42;\n"                         \
                                "red.global.xor.b32 [%rd4], %r40;\nret;\n}\n"

/* One thread: each element holds the address of the next. */
#define TEXT_CHASE                                                                                 \
    ".visible .entry muster_chase(.param .u64 first, .param .u32 steps, .param .u64 "              \
    "result)\n{\n" TEXT_REGISTERS                                                                  \
    "ld.param.u64 %rd5, [first];\nld.param.u32 %r5, [steps];\nld.param.u64 %rd7, [result];\n"      \
    "mov.u64 %rd20, %globaltimer;\n"                                                               \
    "chase_loop:\nsetp.eq.u32 %p1, %r5, 0;\n@%p1 bra chase_end;\n"                                 \
    "ld.volatile.global.u64 %rd5, [%rd5];\nsub.u32 %r5, %r5, 1;\nbra chase_loop;\n"                \
    "chase_end:\nst.global.u64 [%rd7], %rd5;\n"                                                    \
    "mov.u64 %rd21, %globaltimer;\nsub.u64 %rd21, %rd21, %rd20;\n"                                 \
    "st.global.u64 [%rd7+8], %rd21;\nret;\n}\n"

/* The limit frees the GPU of a process that died between launch and release. */
#define TEXT_SPIN                                                                                  \
    ".visible .entry muster_spin(.param .u64 flag, .param .u64 limit_ns)\n{\n" TEXT_REGISTERS      \
    "ld.param.u64 %rd5, [flag];\nld.param.u64 %rd6, [limit_ns];\nmov.u64 %rd7, %globaltimer;\n"    \
    "spin_loop:\nld.volatile.global.u32 %r5, [%rd5];\nsetp.ne.u32 %p1, %r5, 0;\n@%p1 ret;\n"       \
    "mov.u64 %rd8, %globaltimer;\nsub.u64 %rd8, %rd8, %rd7;\nsetp.lt.u64 %p2, %rd8, %rd6;\n"       \
    "@%p2 bra spin_loop;\nret;\n}\n"

/* Each SM writes its own row.  A SM number past the last row is left to the host to notice: its
 * row of runs stays 0. */
#define TEXT_COMPUTE                                                                               \
    ".visible .entry muster_compute(.param .u32 steps, .param .u64 results, .param .u64 runs)\n"   \
    "{\n" TEXT_REGISTERS                                                                           \
    "ld.param.u32 %r5, [steps];\nld.param.u64 %rd5, [results];\nld.param.u64 %rd6, [runs];\n"      \
    "mov.u32 %r3, %tid.x;\nmov.u32 %r6, %smid;\n"                                                  \
    "mul.lo.u32 %r10, %r3, 0x9e3779b1;\nadd.u32 %r10, %r10, 1;\n"                                  \
    "mov.f32 %f1, 0f3f800000;\nmov.f64 %d1, 0d3ff0000000000000;\n"                                 \
    "compute_loop:\nsetp.eq.u32 %p1, %r5, 0;\n@%p1 bra compute_end;\n"                             \
    "mad.lo.u32 %r10, %r10, 1664525, 1013904223;\n"                                                \
    "shr.u32 %r11, %r10, 9;\nor.b32 %r11, %r11, 0x3f800000;\nmov.b32 %f2, %r11;\n"                 \
    "fma.rn.f32 %f1, %f1, 0f3f000000, %f2;\n"                                                      \
    "cvt.f64.f32 %d2, %f1;\nfma.rn.f64 %d1, %d1, 0d3fe0000000000000, %d2;\n"                       \
    "mov.b64 {%r12, %r13}, %d1;\nmov.b32 %r14, %f1;\n"                                             \
    "xor.b32 %r10, %r10, %r14;\nxor.b32 %r10, %r10, %r12;\nxor.b32 %r10, %r10, %r13;\n"            \
    "sub.u32 %r5, %r5, 1;\nbra compute_loop;\n"                                                    \
    "compute_end:\nsetp.ge.u32 %p2, %r6, 1024;\n@%p2 ret;\n"                                       \
    "mov.b32 %r14, %f1;\nmov.b64 %rd10, {%r14, %r10};\n"                                           \
    "shl.b32 %r7, %r6, 8;\nadd.u32 %r7, %r7, %r3;\nmul.wide.u32 %rd11, %r7, 8;\n"                  \
    "add.u64 %rd11, %rd11, %rd5;\nst.global.u64 [%rd11], %rd10;\n"                                 \
    "setp.ne.u32 %p3, %r3, 0;\n@%p3 ret;\n"                                                        \
    "mul.wide.u32 %rd12, %r6, 4;\nadd.u64 %rd12, %rd12, %rd6;\nred.global.add.u32 [%rd12], 1;\n"   \
    "ret;\n}\n"

static const char *const parts[] = {
    ".version 6.0\n.target sm_60\n.address_size 64\n",
    TEXT_FILL,
    TEXT_VERIFY,
    TEXT_COPY,
    TEXT_READ,
    TEXT_CHASE,
    TEXT_SPIN,
    TEXT_COMPUTE,
};

char *ptx_module(void)
{
    struct strbuf text = {0};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        strbuf_puts(&text, parts[i]);
    return text.data;
}
