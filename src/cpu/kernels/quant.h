/* Block formats on the CPU: dequantised runs, and the packed panels that quant_matmul streams.
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
#ifndef MLSI_KERNELS_QUANT_H
#define MLSI_KERNELS_QUANT_H

#include "cpu/kernels/gemm.h"

enum { QUANT_ROWS = 32 }; /* of a panel */

typedef struct quant_format {
    int bits;
    bool is_signed; /* stored as two's complement, no minimum */
    bool has_min;
    int block;       /* elements of a block: 32 or 256 */
    int scale_bytes; /* per row and 32 k, of a 256-element block */
} quant_format;

/* By constant dtype: folds when inlined. */
V_FN quant_format quant_format_of(mlsys_dtype t) {
    switch (t) {
    case MLSYS_Q4_0: return (quant_format){4, true, false, 32, 0};
    case MLSYS_Q4_1: return (quant_format){4, false, true, 32, 0};
    case MLSYS_Q5_0: return (quant_format){5, true, false, 32, 0};
    case MLSYS_Q5_1: return (quant_format){5, false, true, 32, 0};
    case MLSYS_Q8_0: return (quant_format){8, true, false, 32, 0};
    case MLSYS_Q4_K: return (quant_format){4, false, true, 256, 2};
    case MLSYS_Q5_K: return (quant_format){5, false, true, 256, 2};
    default: return (quant_format){6, true, false, 256, 2}; /* q6_k */
    }
}

/* d and m (or dmin) of all rows in front of a block. */
V_FN int64_t quant_head_bytes(quant_format f) { return (f.has_min ? 4 : 2) * QUANT_ROWS; }
/* Scales and words of 32 k. */
V_FN int64_t quant_sub_bytes(quant_format f) {
    return f.scale_bytes * QUANT_ROWS + f.bits * 4 * QUANT_ROWS;
}
V_FN int64_t quant_block_bytes(quant_format f) {
    return quant_head_bytes(f) + f.block / 32 * quant_sub_bytes(f);
}

/* Codes (before the zero point is taken off), scales and minima of one 32-element run of a block,
 * in k order, as the file has them: w = d * sc[k / 16] * (q - zero) - dmin * mn, or + m. */
typedef struct quant_codes {
    float d, m;    /* m: minimum to add (q4_1, q5_1) or dmin */
    int sc[2], mn; /* K formats; else unused */
    uint8_t q[32];
} quant_codes;

/* sub: which 32 of the block. */
void MLSI_K(quant_codes_of)(mlsys_dtype t, const uint8_t *block, int sub, quant_codes *c);
/* Dequantise elements [k0, k0 + n) of a row that starts at block 0; k0 and n are multiples of
 * 32. */
void MLSI_K(quant_dequantize)(mlsys_dtype t, const uint8_t *row, int64_t k0, int64_t n, float *dst);

/* Bytes of a packed [N, K] matrix, and packing from rows row_bytes apart. */
int64_t MLSI_K(quant_packed_bytes)(mlsys_dtype t, int64_t n, int64_t k);
void MLSI_K(quant_pack)(mlsys_dtype t, const uint8_t *w, int64_t row_bytes, int64_t n, int64_t k,
                        uint8_t *packed, mlsi_pool *pool);

/* Rows of x times packed panels in registers, the `rows` of a source; absent from the portable
 * build (it expands and multiplies tiles: emulated vectors gain nothing here). */
#if defined(MLSI_ISA_IS_PORTABLE)
#define QUANT_ROWS_FN(name) NULL
#else
#define QUANT_ROWS_FN(name) MLSI_K(quant_rows_##name)
#define QUANT_FORMATS(X)                                                                           \
    X(q4_0, MLSYS_Q4_0)                                                                            \
    X(q4_1, MLSYS_Q4_1)                                                                            \
    X(q5_0, MLSYS_Q5_0)                                                                            \
    X(q5_1, MLSYS_Q5_1)                                                                            \
    X(q8_0, MLSYS_Q8_0) X(q4_k, MLSYS_Q4_K) X(q5_k, MLSYS_Q5_K) X(q6_k, MLSYS_Q6_K)
#define QUANT_ROWS_ARGS                                                                            \
    const gemm *g, int64_t b_batch, int64_t panel, int64_t panels, int mr, const float *a,         \
        int64_t lda, float *out, int64_t ldo
#define QUANT_ROWS_DECLARE(name, T) void MLSI_K(quant_rows_##name)(QUANT_ROWS_ARGS);
QUANT_FORMATS(QUANT_ROWS_DECLARE)
#endif

/* The product that a quant_matmul asks for, and whether operands are of the dtypes that rows
 * take. */
void MLSI_K(quant_problem)(gemm *g, const mlsi_kernel_args *args);
bool MLSI_K(quant_operands)(const mlsi_query *q);

/* Sources: packed panels of a dtype, and rows as the file has them (g->b, n strided). */
const gemm_source *MLSI_K(quant_packed_source)(mlsys_dtype t);
extern const gemm_source MLSI_K(quant_strided);

#endif
