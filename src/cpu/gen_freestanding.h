/* The vocabulary of exported programs: that of generated code (cpu/gen.h) in portable lanes, without libc and libm. What the vocabulary
 * and generated text call by the names of compiler builtins, and what would become a call of a library, means the functions of
 * cpu/soft_float.h here - unless the compiler says that the machine has the instruction. Embedded into the library as text. */
#ifndef MLSI_CPU_GEN_FREESTANDING_H
#define MLSI_CPU_GEN_FREESTANDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bits are a contract. */
#if defined(__FAST_MATH__)
#error "compile without -ffast-math"
#endif
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0 && __FLT_EVAL_METHOD__ != 16
#error "floats must be computed in their own precision (i386: -msse2 -mfpmath=sse)"
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#pragma clang diagnostic ignored "-Wunused-function" /* it holds more than one program uses */
#elif defined(__GNUC__) && !defined(__STRICT_ANSI__) && !defined(MLSYS_CONTRACT_OFF)
#error "compile with -std=c99, or with -ffp-contract=off -DMLSYS_CONTRACT_OFF"
#endif

#pragma GCC diagnostic ignored "-Wunused-variable" /* nor do loops use all that they are given */

#include "cpu/soft_float.h"

/* Of a known number of bytes it is a move. */
#define memcpy(to, from, n)                                                                        \
    (__builtin_constant_p(n) ? __builtin_memcpy(to, from, n) : soft_copy(to, from, n))
/* MLSYS_SOFT_FLOAT=1: nothing but integers and + - * / of floats, whatever the machine has. */
#if defined(MLSYS_SOFT_FLOAT) || !defined(__FP_FAST_FMAF)
#define __builtin_fmaf soft_fmaf
#endif
#if defined(MLSYS_SOFT_FLOAT) || !defined(__FP_FAST_FMA)
#define __builtin_fma soft_fma
#endif
#if defined(MLSYS_SOFT_FLOAT) || !defined(__NO_MATH_ERRNO__) ||                                    \
    !(defined(__x86_64__) || defined(__aarch64__))
#define __builtin_sqrtf soft_sqrtf
#define __builtin_sqrt  soft_sqrt
#endif
#define __builtin_fmodf     soft_fmodf
#define __builtin_fmod      soft_fmod
#define __builtin_floor     soft_floor
#define __builtin_ceil      soft_ceil
#define __builtin_trunc     soft_trunc
#define __builtin_nearbyint soft_rint

#include "cpu/simd_portable.h"

#include "cpu/gen.h"

/* Compilers may make calls of these two of their own accord, also where no library is. */
#if defined(MLSYS_OWN_MEMORY)
#undef memcpy
void *memcpy(void *to, const void *from, size_t n);
void *memcpy(void *to, const void *from, size_t n) { return soft_copy(to, from, n); }
void *memset(void *to, int byte, size_t n);
void *memset(void *to, int byte, size_t n) { return soft_fill(to, byte, n); }
#endif

#endif
