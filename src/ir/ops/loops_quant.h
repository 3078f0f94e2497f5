/* A block of a block dtype, read from its bytes by loops (loops_quant.c). */
#ifndef MLSI_LOOPS_QUANT_H
#define MLSI_LOOPS_QUANT_H

#include "ir/ops/op_def.h"

/* The block that an element lies in, and which of it that is. */
typedef struct mlsi_loops_block {
    mlsi_nest *n;
    mlsys_dtype dtype;
    int32_t bytes;              /* buffer */
    int64_t at[MLSYS_MAX_DIMS]; /* subscripts of the block's bytes, less the last one */
    int32_t rank;
    int64_t e; /* element of the block */
} mlsi_loops_block;

mlsi_loops_block mlsi_loops_block_of(mlsi_lower *l, int i, const int64_t *index);
/* value = (scale * factor) * code (+ minimum | - minimum * min_factor). Codes and factors are i32, factors -1 where the
 * format has none; scales are f32. */
int32_t mlsi_loops_block_code(const mlsi_loops_block *b); /* zero point taken off */
int32_t mlsi_loops_block_scale(const mlsi_loops_block *b);
int32_t mlsi_loops_block_factor(const mlsi_loops_block *b);
bool mlsi_loops_block_has_minimum(mlsys_dtype t);
int32_t mlsi_loops_block_minimum(const mlsi_loops_block *b); /* q4_k, q5_k: -dmin */
int32_t mlsi_loops_block_min_factor(const mlsi_loops_block *b);

#endif
