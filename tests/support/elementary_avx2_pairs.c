/* The target comes by pragma, so that this file needs no flags of its own; the C library's headers
 * come first, built as everywhere else. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
#define MLSI_ISA_IS_AVX2 1
#define MLSI_SIMD_PAIRS  1
#include "support/elementary_instance.inc"
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#else
#include "support/elementary_instance.h"
#endif

void elementary_fill_avx2_pairs(elementary_instance *e);

void elementary_fill_avx2_pairs(elementary_instance *e) {
#if defined(__x86_64__)
    INSTANCE_FILL(e);
    e->available = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    e->isa = "avx2 pairs";
#endif
}
