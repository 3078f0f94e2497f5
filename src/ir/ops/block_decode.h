/* The meaning of block dtypes: reference decoding to f32, one formula per format, as written in
 * docs/numerics.md ("dequantize"). For the reference interpreter; kernels have their own decoders.
 */
#ifndef MLSI_BLOCK_DECODE_H
#define MLSI_BLOCK_DECODE_H

#include "core/dtype.h"

/* out[i] = value of element i, for i < count. blocks holds count / block_elems whole blocks of a
 * block dtype at any address; count is a multiple of block_elems. */
void mlsi_block_decode(mlsys_dtype dtype, const void *blocks, int64_t count, float *out);

#endif
