/* Packed panels of block-quantised weights, which quant_matmul streams on each backend.
 *
 * A panel holds 32 rows n of W [N, K] in blocks along k, the bytes of 32 rows side by side:
 *
 *     32-element formats, a block per 32 k:    f16 d[32], f16 m[32] if any, words
 *     256-element formats, a block per 256 k:  f16 d[32], f16 dmin[32] if any, then per 32 k:
 *                                              scales u8 sc[32], mn[32] (q6_k: i8 sc[2][32]), words
 *     words: u32 w[bits][32], `bits` words per row hold its 32 codes of `bits` bits
 *
 * so one register load yields a word of each of VF_LANES rows, and a shift and a mask yield the
 * codes of one k. Fields lie from the word's top down to whole fields only; with 5 and 6 bits, 30
 * of 32 codes fit so and the last two are put together from the two low bits of each word. Codes
 * with a zero point in the middle (q4_0, q5_0, q8_0, q6_k) are stored as two's complement: moved
 * to the top of the word they convert to f32 with their sign, 2^(32 - bits) too large, which the
 * scale undoes exactly. Bytes per weight are the file's, but q4_k, q5_k: + 4 per 256 for
 * unpacked scales. */
#ifndef MLSI_QUANT_PANEL_H
#define MLSI_QUANT_PANEL_H

#include "core/dtype.h"
#include "core/pool.h"

enum { MLSI_PANEL_ROWS = 32 }; /* of a panel */

typedef struct mlsi_panel_format {
    int bits;
    bool is_signed; /* stored as two's complement, no minimum */
    bool has_min;
    int block;       /* elements of a block: 32 or 256 */
    int scale_bytes; /* per row and 32 k, of a 256-element block */
} mlsi_panel_format;

/* By constant dtype: folds when inlined. */
static inline mlsi_panel_format mlsi_panel_format_of(mlsys_dtype t) {
    switch (t) {
    case MLSYS_Q4_0: return (mlsi_panel_format){4, true, false, 32, 0};
    case MLSYS_Q4_1: return (mlsi_panel_format){4, false, true, 32, 0};
    case MLSYS_Q5_0: return (mlsi_panel_format){5, true, false, 32, 0};
    case MLSYS_Q5_1: return (mlsi_panel_format){5, false, true, 32, 0};
    case MLSYS_Q8_0: return (mlsi_panel_format){8, true, false, 32, 0};
    case MLSYS_Q4_K: return (mlsi_panel_format){4, false, true, 256, 2};
    case MLSYS_Q5_K: return (mlsi_panel_format){5, false, true, 256, 2};
    default: return (mlsi_panel_format){6, true, false, 256, 2}; /* q6_k */
    }
}

/* d and m (or dmin) of all rows in front of a block. */
static inline int64_t mlsi_panel_head_bytes(mlsi_panel_format f) {
    return (f.has_min ? 4 : 2) * MLSI_PANEL_ROWS;
}
/* Scales and words of 32 k. */
static inline int64_t mlsi_panel_sub_bytes(mlsi_panel_format f) {
    return f.scale_bytes * MLSI_PANEL_ROWS + f.bits * 4 * MLSI_PANEL_ROWS;
}
static inline int64_t mlsi_panel_block_bytes(mlsi_panel_format f) {
    return mlsi_panel_head_bytes(f) + f.block / 32 * mlsi_panel_sub_bytes(f);
}

/* Whole fields of a word, and the position of the first. */
static inline int mlsi_panel_fields(int bits) { return 32 / bits; }
static inline int mlsi_panel_base(int bits) { return 32 - mlsi_panel_fields(bits) * bits; }

/* Codes (before the zero point is taken off), scales and minima of one 32-element run of a block,
 * in k order, as the file has them: w = d * sc[k / 16] * (q - zero) - dmin * mn, or + m. */
typedef struct mlsi_panel_codes {
    float d, m;    /* m: minimum to add (q4_1, q5_1) or dmin */
    int sc[2], mn; /* K formats; else unused */
    uint8_t q[32];
} mlsi_panel_codes;

/* sub: which 32 of the block. */
void mlsi_panel_codes_of(mlsys_dtype t, const uint8_t *block, int sub, mlsi_panel_codes *c);

/* Bytes of a packed [N, K] matrix, and packing from rows row_bytes apart. */
int64_t mlsi_panel_packed_bytes(mlsys_dtype t, int64_t n, int64_t k);
void mlsi_panel_pack(mlsys_dtype t, const uint8_t *w, int64_t row_bytes, int64_t n, int64_t k,
                     uint8_t *packed, mlsi_pool *pool);

#endif
