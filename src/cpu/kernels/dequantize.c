/* dequantize: blocks to floats, one rounding per written operation (docs/numerics.md).
 *
 * d (11 significant bits) times a scale (<= 7 bits) times a code (<= 8 bits, 6 with a scale) fits
 * the 24 bits of f32, so these products are exact and fma(d * sc, q, m) has the bits of the
 * two-step formula. */
#include "cpu/kernels/quant.h"
#include "cpu/kernels/stage.h"

#include <stddef.h>

void MLSI_K(quant_dequantize)(mlsys_dtype t, const uint8_t *row, int64_t k0, int64_t n,
                              float *dst) {
    mlsi_panel_format f = mlsi_panel_format_of(t);
    int64_t bytes = mlsi_dtype_get(t)->block_bytes;
    int zero = f.is_signed ? 1 << (f.bits - 1) : 0;
    mlsi_panel_codes c;
    for (int64_t k = k0; k < k0 + n; k += 32, dst += 32) {
        mlsi_panel_codes_of(t, row + k / f.block * bytes, (int)(k % f.block / 32), &c);
        float m = f.block == 256 ? -(c.m * (float)c.mn) : c.m;
        for (int i = 0; i < 32; i++) {
            float p = c.d * (float)c.sc[i / 16] * (float)(c.q[i] - zero);
            dst[i] = f.has_min ? p + m : p;
        }
    }
}

/* ---- the op ---------------------------------------------------------------------------------- */

typedef struct job {
    const mlsi_view *in, *out;
    int64_t pieces; /* of a row */
} job;

enum { PIECE = 1024 };

/* Element offset of row i (all dims but the last). */
static int64_t row_offset(const mlsi_view *v, int64_t i) {
    int64_t offset = 0;
    for (int d = v->rank - 2; d >= 0; d--) {
        offset += i % v->shape[d] * v->strides[d];
        i /= v->shape[d];
    }
    return offset;
}

static void run_piece(void *user, int64_t item, int worker) {
    (void)worker;
    const job *j = user;
    const mlsi_view *in = j->in, *out = j->out;
    const mlsi_dtype_info *info = mlsi_dtype_get(in->dtype);
    int64_t row = item / j->pieces, k0 = item % j->pieces * PIECE, k = in->shape[in->rank - 1];
    int64_t n = k - k0 < PIECE ? k - k0 : PIECE, size = mlsi_dtype_size(out->dtype);
    const uint8_t *src =
        (const uint8_t *)in->data + row_offset(in, row) / info->block_elems * info->block_bytes;
    float piece[PIECE];
    MLSI_K(quant_dequantize)(in->dtype, src, k0, n, piece);
    store_f32((char *)out->data + (row_offset(out, row) + k0 * out->strides[out->rank - 1]) * size,
              out->dtype, out->strides[out->rank - 1] * size, piece, n);
}

static mlsys_status run(const mlsi_kernel_args *args) {
    job j = {.in = &args->in[0], .out = &args->out[0]};
    int64_t k = j.in->shape[j.in->rank - 1], count = mlsi_view_count(j.in);
    if (count == 0) return MLSYS_OK;
    j.pieces = (k + PIECE - 1) / PIECE;
    mlsi_pool_run(args->pool, count / k * j.pieces, run_piece, &j);
    return MLSYS_OK;
}

static bool accepts(const mlsi_query *q) {
    return q->n_in == 1 && mlsi_dtype_is_block(q->in[0].dtype) &&
           mlsi_dtype_is_float(q->out[0].dtype) && q->out[0].dtype != MLSYS_F64;
}

MLSI_KERNEL_TABLE(dequantize) = {
    {.op = MLSI_OP_DEQUANTIZE,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("dequantize_rows"),
     .accepts = accepts,
     .run = run},
    {.run = NULL},
};
