/* One general product behind dot_general, matmul and quant_matmul:
 *
 *     C[batch, m, n] = sum over k of A[batch, m, k] * B[batch, k, n]     (docs/numerics.md)
 *
 * Each of batch, m, n, k is an *index*: a nest of dims with one stride per operand. So transposed,
 * sliced and broadcast operands, several contracted axes and strided outputs are all the same case.
 *
 * B is seen as *panels*: columns [p * width, (p + 1) * width) of all rows k. A *panel source* knows
 * how one kind of B (strided view, packed floats, packed blocks) turns into f32 tiles. Lanes hold
 * columns, never k, so the order along K costs nothing: a segment of 256 is the cache block. */
#ifndef MLSI_KERNELS_GEMM_H
#define MLSI_KERNELS_GEMM_H

#include "core/product.h"
#include "cpu/kernel.h"

enum {
    GEMM_NR = 2 * VF_LANES,       /* columns of a tile: two registers */
    GEMM_WIDE = 4 * GEMM_NR,      /* columns that a strided B is fetched by: whole cache lines */
    GEMM_SMALL_M = 4,             /* up to here B is read once, straight into registers */
    GEMM_SMALL_N = 8 * GEMM_WIDE, /* most columns of a task then */
};
#if defined(MLSI_ISA_IS_AVX512)
enum { GEMM_MR = 14 }; /* 28 of 32 registers are sums */
#elif defined(MLSI_ISA_IS_AVX2)
enum { GEMM_MR = 6 }; /* 12 of 16 */
#else
enum { GEMM_MR = 4 };
#endif
enum { GEMM_MB = 240 / GEMM_MR * GEMM_MR }; /* rows of A per task: a segment of them fits L2 */
enum { GEMM_NB = 256 };                     /* columns per task when sums need a buffer */

typedef struct gemm gemm;

/* A kind of B. */
typedef struct gemm_source {
    int width;      /* columns of a panel, a multiple of GEMM_NR */
    int row_panels; /* that `rows` likes to get at once: row_panels * width <= GEMM_SMALL_N */
    /* B[k0 .. k0+kc) of a panel as width / GEMM_NR tiles [kc][GEMM_NR], zeros past the last column:
     * written to buffer, or where they already are. k0 is a multiple of MLSI_K_SEGMENT. */
    const float *(*expand)(const gemm *g, int64_t b_batch, int64_t panel, int64_t k0, int64_t kc,
                           float *buffer);
    /* Optional: the packed bytes that expand would read, for prefetching; returns their number. */
    int64_t (*locate)(const gemm *g, int64_t b_batch, int64_t panel, int64_t k0, int64_t kc,
                      const char **at);
    /* Optional: 1 <= mr <= GEMM_SMALL_M whole rows times `panels` panels, all of K:
     * out[r * ldo + column], to which is added if g->accumulate. Columns past the last one may get
     * anything or be left. */
    void (*rows)(const gemm *g, int64_t b_batch, int64_t panel, int64_t panels, int mr,
                 const float *a, int64_t lda, float *out, int64_t ldo);
} gemm_source;

struct gemm {
    mlsi_index batch, m, n, k;
    const char *a, *b;
    char *c;
    mlsys_dtype a_type, b_type, c_type;
    bool accumulate; /* the segments' chain goes on from what C holds */
    /* batch.stride[MLSI_PRODUCT_B] counts elements for a strided B, whole matrices for a packed one. */
    const uint8_t *packed;
    int64_t packed_matrix_bytes;
    const gemm_source *source;
};

/* The product that a dot_general or matmul asks for. packed: from gemm_pack, or NULL. a and c may
 * be NULL when only B is of interest (packing). */
void MLSI_K(gemm_problem)(gemm *g, mlsi_op op, const mlsi_view *a, const mlsi_view *b,
                          const mlsi_view *c, const void *attrs, const void *packed);

void MLSI_K(gemm_run)(const gemm *g, mlsi_pool *pool, void *work);
uint64_t MLSI_K(gemm_work)(const gemm *g, int threads);

/* dst[i * ld + j] = f32(src[row[i] + column[j]]); column_step tells the common distance of neighbouring
 * columns in elements, 0 when there is none. */
void MLSI_K(gemm_gather)(float *dst, int64_t ld, const char *src, mlsys_dtype t, const int64_t *row,
                         int64_t rows, const int64_t *column, int64_t columns, int64_t column_step);

/* One row of sums to C[m, n0 .. n0 + n), rounded to C's dtype; c: the batch's first element. */
void MLSI_K(gemm_store_row)(const gemm *g, char *c, int64_t m, int64_t n0, int64_t n,
                            const float *sums);

/* The expand of a strided B. */
const float *MLSI_K(gemm_expand_strided)(const gemm *g, int64_t b_batch, int64_t panel, int64_t k0,
                                         int64_t kc, float *buffer);

/* Sources for float B. */
extern const gemm_source MLSI_K(gemm_strided); /* any strides */
/* Columns side by side, k at one distance; NULL for a dtype that has none. */
const gemm_source *MLSI_K(gemm_row_major)(mlsys_dtype t);
/* Packed form of [batches][K][N]: matrices of [panel][k][GEMM_NR] in the dtype of B. */
uint64_t MLSI_K(gemm_pack_bytes)(const gemm *g);
void MLSI_K(gemm_pack)(const gemm *g, void *packed, mlsi_pool *pool);
/* The source that reads such a form; NULL for a dtype that is not packed. */
const gemm_source *MLSI_K(gemm_packed_source)(mlsys_dtype t);

#endif
