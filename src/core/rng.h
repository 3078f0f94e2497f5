/* Counter-based random numbers: Philox 4x32-10 (Salmon et al., SC 2011). Word w of draw i is a
 * function of (key, stream, i) alone, so order, sharding and recomputation cannot change it. */
#ifndef MLSI_RNG_H
#define MLSI_RNG_H

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

#endif
