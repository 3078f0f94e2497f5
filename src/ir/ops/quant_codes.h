/* The integers behind a block dtype, for the reference meaning of integer products. */
#ifndef MLSI_QUANT_CODES_H
#define MLSI_QUANT_CODES_H

#include "core/dtype.h"

#include <stddef.h>

/* 32 consecutive elements: value = d * sc[i / 16] * q[i] + m * mn, in exact arithmetic. */
typedef struct mlsi_quant_codes {
    float d, m;
    bool has_min;
    int32_t sc[2], mn;
    int32_t q[32]; /* zero point taken off */
} mlsi_quant_codes;

/* Elements first .. first + 31 of a row of blocks; first is a multiple of 32. */
void mlsi_quant_codes_of(mlsys_dtype dtype, const void *row, int64_t first, mlsi_quant_codes *out);

#endif
