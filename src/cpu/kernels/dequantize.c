/* dequantize: blocks to floats, one rounding per written operation (docs/numerics.md).
 *
 * d (11 significant bits) times a scale (<= 7 bits) times a code (<= 8 bits, 6 with a scale) fits
 * the 24 bits of f32, so these products are exact and fma(d * sc, q, m) has the bits of the
 * two-step formula. */
#include "cpu/kernels/quant.h"
#include "cpu/kernels/stage.h"

#include <stddef.h>

static float f16_at(const uint8_t *p) {
    uint16_t h;
    memcpy(&h, p, 2);
    return mlsi_f16_to_f32(h);
}

/* 6-bit scale and minimum of run `sub` from the 12 bytes of q4_k and q5_k. */
static void scale_min_k(const uint8_t *s, int sub, quant_codes *c) {
    if (sub < 4) {
        c->sc[0] = s[sub] & 63, c->mn = s[sub + 4] & 63;
    } else {
        c->sc[0] = (s[sub + 4] & 15) | (s[sub - 4] >> 6) << 4;
        c->mn = (s[sub + 4] >> 4) | (s[sub] >> 6) << 4;
    }
    c->sc[1] = c->sc[0];
}

/* 16 bytes: low nibbles are elements 0..15, high ones 16..31; h: their fifth bits, or NULL. */
static void codes_nibbles(const uint8_t *q, const uint8_t *h, uint8_t *out) {
    uint32_t high = 0;
    if (h) memcpy(&high, h, 4);
    for (int i = 0; i < 16; i++) {
        out[i] = (uint8_t)((q[i] & 15) | (high >> i & 1) << 4);
        out[i + 16] = (uint8_t)((q[i] >> 4) | (high >> (i + 16) & 1) << 4);
    }
}

/* Runs 2j and 2j+1 of q4_k and q5_k share 32 bytes, low and high nibbles. */
static void codes_k(const uint8_t *q, const uint8_t *h, int sub, uint8_t *out) {
    q += sub / 2 * 32;
    for (int i = 0; i < 32; i++) {
        int low = sub % 2 ? q[i] >> 4 : q[i] & 15;
        out[i] = (uint8_t)(low | (h ? (h[i] >> sub & 1) << 4 : 0));
    }
}

/* q6_k: each half of 128 has 64 bytes of nibbles (runs 0, 1 low; 2, 3 high) and 32 of bit pairs. */
static void codes_q6_k(const mlsi_q6_k *b, int sub, quant_codes *c) {
    const uint8_t *ql = b->ql + sub / 4 * 64 + sub % 2 * 32, *qh = b->qh + sub / 4 * 32;
    int run = sub % 4;
    for (int i = 0; i < 32; i++) {
        int low = run < 2 ? ql[i] & 15 : ql[i] >> 4;
        c->q[i] = (uint8_t)(low | (qh[i] >> (2 * run) & 3) << 4);
    }
    c->sc[0] = b->scales[sub * 2], c->sc[1] = b->scales[sub * 2 + 1];
}

void MLSI_K(quant_codes_of)(mlsys_dtype t, const uint8_t *block, int sub, quant_codes *c) {
    c->m = 0.0f, c->sc[0] = c->sc[1] = 1, c->mn = 0;
    if (t != MLSYS_Q6_K) c->d = f16_at(block);
    switch (t) {
    case MLSYS_Q4_0: codes_nibbles(block + 2, NULL, c->q); break;
    case MLSYS_Q4_1: c->m = f16_at(block + 2), codes_nibbles(block + 4, NULL, c->q); break;
    case MLSYS_Q5_0: codes_nibbles(block + 6, block + 2, c->q); break;
    case MLSYS_Q5_1: c->m = f16_at(block + 2), codes_nibbles(block + 8, block + 4, c->q); break;
    case MLSYS_Q8_0:
        for (int i = 0; i < 32; i++)
            c->q[i] = (uint8_t)(block[2 + i] ^ 0x80); /* zero point 128, like the others */
        break;
    case MLSYS_Q4_K:
        c->m = f16_at(block + 2), scale_min_k(block + 4, sub, c);
        codes_k(block + 16, NULL, sub, c->q);
        break;
    case MLSYS_Q5_K:
        c->m = f16_at(block + 2), scale_min_k(block + 4, sub, c);
        codes_k(block + 48, block + 16, sub, c->q);
        break;
    default:
        c->d = f16_at(block + offsetof(mlsi_q6_k, d));
        codes_q6_k((const mlsi_q6_k *)(const void *)block, sub, c);
        break;
    }
}

void MLSI_K(quant_dequantize)(mlsys_dtype t, const uint8_t *row, int64_t k0, int64_t n,
                              float *dst) {
    quant_format f = quant_format_of(t);
    int64_t bytes = mlsi_dtype_get(t)->block_bytes;
    int zero = f.is_signed ? 1 << (f.bits - 1) : 0;
    quant_codes c;
    for (int64_t k = k0; k < k0 + n; k += 32, dst += 32) {
        MLSI_K(quant_codes_of)(t, row + k / f.block * bytes, (int)(k % f.block / 32), &c);
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
