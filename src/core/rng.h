/* Counter-based random numbers: Philox 4x32-10 (Salmon et al., SC 2011). Word w of draw i is a
 * function of (key, stream, i) alone, so order, sharding and recomputation cannot change it. */
#ifndef MLSI_RNG_H
#define MLSI_RNG_H

#include "core/status.h"

#include <stdint.h>

/* The four 32-bit words of counter block `block`. */
void mlsi_philox(uint64_t key, uint64_t stream, uint64_t block, uint32_t out[4]);
/* Element i of the stream: word i % 4 of block i / 4. */
uint32_t mlsi_rng_bits32(uint64_t key, uint64_t stream, uint64_t i);
/* Words 2i (low) and 2i+1 (high). */
uint64_t mlsi_rng_bits64(uint64_t key, uint64_t stream, uint64_t i);
/* [0,1): the top 24 (f32) or 53 (f64) bits. */
float mlsi_rng_uniform32(uint64_t key, uint64_t stream, uint64_t i);
double mlsi_rng_uniform64(uint64_t key, uint64_t stream, uint64_t i);
/* Box-Muller with the library's own log, sqrt, cos: element i uses words 2i and 2i+1. */
float mlsi_rng_normal32(uint64_t key, uint64_t stream, uint64_t i);
double mlsi_rng_normal64(uint64_t key, uint64_t stream, uint64_t i);

/* Elements first, first+1, ... of a random tensor, dense, as the op `random` and
 * mlsys_tensor_random define them. kind is MLSI_RANDOM_* of core/op_attrs.h. bits: i64 bits64; i32,
 * i16, i8, u8 the low bits of bits32. uniform: f64, f32 as above; a narrower float of p significand
 * bits takes the top p bits of the word, so that the value is exact and below 1. normal: f64, f32
 * as above; narrower floats round normal32 once. Errors DTYPE. Does not allocate. The
 * floating-point state must be the default (core/fpenv.h). */
mlsys_status mlsi_rng_fill(void *dst, mlsys_dtype dtype, int kind, uint64_t key, uint64_t stream,
                           uint64_t first, int64_t n);
/* Does that combination exist? */
mlsys_status mlsi_rng_check(mlsys_dtype dtype, int kind);

#endif
