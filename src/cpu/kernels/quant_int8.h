/* quant_matmul with act = int8: x quantised to i8 in blocks of 32, exact integer products.
 *
 * Panels of W hold 32 rows, like those of quant.h, but here a u32 lane is four bytes of
 * consecutive k of one row, ready for multiply-add of bytes:
 *
 *     heads and scales as in quant.h, then per 32 k:
 *     4, 5, 6 bits: u32 nibbles[4][32]: byte i of word w has k = 8w + i low and k = 8w + 4 + i
 *     high;
 *                   5 bits: u32 high[32]: bit 8i + s is the fifth bit of k = 4s + i
 *                   6 bits: u32 high[2][32]: bits 8i + 2(s % 4), two of them, of word s / 4
 *     8 bits:       u32 bytes[8][32]: byte i of word s is k = 4s + i
 *
 * Codes are unsigned, their zero point is taken off by the sum of x's codes. q8_0 has zero point
 * 128. */
#ifndef MLSI_KERNELS_QUANT_INT8_H
#define MLSI_KERNELS_QUANT_INT8_H

#include "cpu/kernels/quant.h"

enum {
    INT8_ROWS_AT_ONCE = 256, /* rows of x quantised before W passes */
    INT8_BLOCK = 32,
    INT8_MAX_ROWS = 8,
};

/* 32 elements of a row of x. */
typedef struct int8_block {
    int8_t q[32];
    float scale;
    float total;    /* sum of the codes, exact */
    int32_t sum[2]; /* of the codes with k < 16, and of all */
} int8_block;

void MLSI_K(int8_quantise)(const float *x, int8_block *b);

void MLSI_K(int8_pack_panel)(mlsys_dtype t, const uint8_t *w, int64_t row_bytes, int64_t rows,
                             int64_t k, uint8_t *packed);

/* mr <= INT8_MAX_ROWS rows of x (blocks per row: k / 32) times a panel: out[r * MLSI_PANEL_ROWS +
 * row]. */
typedef void (*int8_panel_fn)(const uint8_t *panel, int64_t k, int mr, const int8_block *x,
                              float *out);
int8_panel_fn MLSI_K(int8_panel)(mlsys_dtype t);

#endif
