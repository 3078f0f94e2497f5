/* The CPU backend: which rows exist, and which this machine may run. */
#include "cpu/jit.h"
#include "cpu/tile.h"
#include "core/backend.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define MLSI_KERNEL_FILE(file)                                                                     \
    extern const mlsi_kernel mlsi_kernels_##file##_portable[];                                     \
    extern const mlsi_kernel mlsi_kernels_##file##_avx2[];                                         \
    extern const mlsi_kernel mlsi_kernels_##file##_avx512[];
#include "cpu/kernel_files.h"
#undef MLSI_KERNEL_FILE

/* Best instruction set first: a row found early is the fastest that accepts. */
static const mlsi_kernel *const tables[] = {
#if defined(__x86_64__)
#define MLSI_KERNEL_FILE(file) mlsi_kernels_##file##_avx512,
#include "cpu/kernel_files.h"
#undef MLSI_KERNEL_FILE
#define MLSI_KERNEL_FILE(file) mlsi_kernels_##file##_avx2,
#include "cpu/kernel_files.h"
#undef MLSI_KERNEL_FILE
#endif
#define MLSI_KERNEL_FILE(file) mlsi_kernels_##file##_portable,
#include "cpu/kernel_files.h"
#undef MLSI_KERNEL_FILE
    NULL};

#if defined(__x86_64__)
static uint64_t enabled_state(void) {
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

/* An instruction may be used if the processor has it and the system saves its registers. */
static mlsi_isa best_isa(void) {
    enum { SSE_AVX_STATE = 0x6, AVX512_STATE = 0xe0 };
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return MLSI_ISA_PORTABLE;
    if (!(c & bit_OSXSAVE) || !(c & bit_AVX) || !(c & bit_FMA) || !(c & bit_F16C))
        return MLSI_ISA_PORTABLE;
    uint64_t state = enabled_state();
    if ((state & SSE_AVX_STATE) != SSE_AVX_STATE) return MLSI_ISA_PORTABLE;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2)) return MLSI_ISA_PORTABLE;
    uint32_t need = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    if ((b & need) != need || (state & AVX512_STATE) != AVX512_STATE) return MLSI_ISA_AVX2;
    return MLSI_ISA_AVX512;
}
#else
static mlsi_isa best_isa(void) { return MLSI_ISA_PORTABLE; }
#endif

static const mlsi_kernel *find_row(const mlsi_query *q, mlsi_isa isa) {
    for (int t = 0; tables[t]; t++) {
        if (!tables[t]->run || tables[t]->isa > isa) continue;
        for (const mlsi_kernel *k = tables[t]; k->run; k++)
            if (k->op == q->op && k->isa <= isa && k->accepts(q)) return k;
    }
    return NULL;
}

mlsi_tile_fn mlsi_cpu_tile_fn(mlsi_op op, mlsi_tile_class c, mlsi_isa isa) {
    for (int t = 0; tables[t]; t++) {
        if (!tables[t]->run || tables[t]->isa > isa) continue;
        for (const mlsi_kernel *k = tables[t]; k->run; k++)
            if (k->op == op && k->tile && k->tile[c]) return k->tile[c];
    }
    return NULL;
}

static const mlsi_kernel *row_at(int i) {
    for (int t = 0; i >= 0 && tables[t]; t++)
        for (const mlsi_kernel *k = tables[t]; k->run; k++)
            if (i-- == 0) return k;
    return NULL;
}

const mlsi_backend mlsi_cpu_backend = {.name = "cpu",
                                       .type = MLSYS_CPU,
                                       .find = find_row,
                                       .row = row_at,
                                       .isa = best_isa,
                                       .load = mlsi_cpu_load,
                                       .load_once = mlsi_cpu_load_once,
                                       .function = mlsi_cpu_function,
                                       .unload = mlsi_cpu_unload,
                                       .cached = mlsi_cpu_cached,
                                       .bind_blocks = mlsi_cpu_bind_blocks,
                                       .run_blocks = mlsi_cpu_run_blocks};
