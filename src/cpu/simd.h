/* The vector vocabulary of the CPU kernels: one set of names, one register width per build.
 *
 * A kernel source includes this header and is compiled once per instruction set, with
 *
 *     MLSI_ISA_IS_AVX512   -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c
 *     MLSI_ISA_IS_AVX2     -mavx2 -mfma -mf16c
 *     neither              any machine
 *
 * MLSI_SIMD_PAIRS beside MLSI_ISA_IS_AVX2 makes a vector of two registers (generated code).
 *
 * Types.  VF: VF_LANES f32.  VI: VF_LANES i32.  VM: a mask of VF_LANES booleans.
 * VF_LANES is 16, 8 or 4 and divides 16, so an array of 16 / VF_LANES registers always holds the
 * 16 interleaved lanes of a canonical sum.
 *
 * Contract.  Each name means the same operation, with the same bits, in every instance:
 *
 *   vf_add sub mul div sqrt      IEEE 754, round to nearest even, one rounding
 *   vf_fma(a, b, c)              a * b + c     one rounding
 *   vf_fms(a, b, c)              a * b - c     one rounding
 *   vf_fnma(a, b, c)             c - a * b     one rounding
 *   vf_lt le gt ge eq            false when an operand is NaN
 *   vf_ne                        true when an operand is NaN
 *   vf_min_sel(a, b)             a < b ? a : b     one instruction: b when a or b is NaN, or both
 *   vf_max_sel(a, b)             a > b ? a : b     are zeros.  So a NaN in b always survives.
 *   vf_minimum vf_maximum        IEEE 754-2019: NaN if either is NaN, -0 < +0
 *   vf_select(m, a, b)           m ? a : b, bit for bit
 *   vf_abs vf_neg vf_copysign    sign bit only, NaN included
 *   vf_rint floor ceil trunc     integral value, sign of zero kept
 *   vf_cvt_i                     to i32, nearest even; vf_cvtt_i truncates.  The value must fit in
 *                                i32, else the integer is unspecified (and differs between
 *                                instances): select before or after, never use it.
 *   vi_cvt_f                     from i32, nearest even
 *   vi_add sub mul               modulo 2^32;  vi_mulhi_u: high half of the unsigned product
 *   vi_sll srl sra(v, count)     0 <= count <= 31, the same for all lanes
 *   vi_sllv vi_srlv(v, counts)   per lane; a count outside 0..31 (as unsigned) gives 0
 *   vw_add sll sra               a VI as 2 * VF_LANES i16, modulo 2^16; 0 <= count <= 15
 *   vw_dot_u8i8(a, b)            i16 lanes: sum of two products of neighbours, u8 of a by i8 of b. The
 *                                sum must fit in i16, else it differs between instances
 *   vi_dot_i16(a, b)             i32 lanes: sum of two products of neighbours, i16 by i16
 *   vi_eq gt lt                  signed
 *   vf_bits vf_from_bits         reinterpret
 *   vm_any vm_all                over all lanes
 *
 * Memory.  No alignment is needed.  The _n forms take 0 <= n <= VF_LANES: a load fills the lanes
 * from n on with zero and a store writes the first n; neither touches memory past n elements.
 *
 *   vf_load[_n]  vf_store[_n]            f32
 *   vi_load[_n]  vi_store[_n]            i32
 *   vf_load_f16[_n]   vf_store_f16[_n]   IEEE half as uint16_t
 *   vf_load_bf16[_n]  vf_store_bf16[_n]  bfloat16 as uint16_t
 *   vi_load_i8  vi_load_u8               VF_LANES bytes widened to i32
 *   vf_stream                            a store past the caches; p is aligned to VF_STREAM_ALIGN bytes.
 *                                        v_stream_fence() makes all of them visible to other threads
 *
 * Narrowing rounds to nearest even, with subnormals and overflow to infinity; a NaN stays a NaN,
 * made quiet, with its sign and its leading payload bits.
 *
 * Reductions of one register use the tree that folds the upper half onto the lower until one lane
 * is left (lane i + lane i + L/2).  Folding registers r[i] += r[i + R/2] first therefore gives the
 * same bits for every VF_LANES.
 *
 *   vf_reduce_add, vf_reduce_maximum, vf_reduce_minimum
 *
 * The vocabulary never reads or writes the floating-point environment. */
#ifndef MLSI_CPU_SIMD_H
#define MLSI_CPU_SIMD_H

#if defined(MLSI_ISA_IS_AVX512)
#include "cpu/simd_avx512.h"
#elif defined(MLSI_ISA_IS_AVX2) && defined(MLSI_SIMD_PAIRS)
#include "cpu/simd_avx2_pairs.h"
#elif defined(MLSI_ISA_IS_AVX2)
#include "cpu/simd_avx2.h"
#else
#include "cpu/simd_portable.h"
#endif

#endif
