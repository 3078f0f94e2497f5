/* Block-quantised weights: dequantize, quant_matmul. */
#include "ir/ops/block_decode.h"
#include "ir/ops/gradient.h"
#include "ir/ops/loops.h"
#include "ir/ops/quant_codes.h"
#include "ir/ops/reference.h"

static const void *row_blocks(const mlsi_view *v, int64_t row) {
    const mlsi_dtype_info *info = mlsi_dtype_get(v->dtype);
    int64_t index[MLSYS_MAX_DIMS], offset = 0;
    mlsi_ref_unravel(v->rank - 1, v->shape, row, index);
    for (int d = 0; d < v->rank - 1; d++)
        offset += index[d] * v->strides[d];
    return (const char *)v->data + offset / info->block_elems * info->block_bytes;
}

void mlsi_ref_block_row(const mlsi_view *v, int64_t row, float *out) {
    mlsi_block_decode(v->dtype, row_blocks(v, row), v->shape[v->rank - 1], out);
}

mlsys_status mlsi_infer_blocks(const mlsi_infer *t, int operand, int min_rank) {
    const mlsi_type *w = &t->in[operand];
    char a[160];
    MLSI_TRY(mlsi_infer_class(t, operand, MLSI_BLOCKS));
    int64_t block = mlsi_dtype_get(w->dtype)->block_elems;
    if (w->rank >= min_rank && w->dims[w->rank - 1] >= 0 && w->dims[w->rank - 1] % block == 0)
        return MLSYS_OK;
    return mlsi_infer_fail(t, MLSYS_E_SHAPE, operand,
                           "%s: expected rank >= %d and a last extent that is a "
                           "multiple of %lld",
                           mlsi_type_text(t->symbols, w, a, sizeof a), min_rank, (long long)block);
}

/* ---- dequantize ---------------------------------------------------------------------------- */

static mlsys_status infer_dequantize(mlsi_infer *t) {
    mlsi_attr_cast *attrs = t->attrs;
    MLSI_TRY(mlsi_infer_blocks(t, 0, 1));
    if (!mlsi_dtype_is_float((mlsys_dtype)attrs->dtype) || attrs->dtype == MLSYS_F64)
        return mlsi_infer_fail(t, MLSYS_E_DTYPE, -1,
                               "attribute dtype: expected a float of at most 32 bits");
    t->out[0] = t->in[0];
    t->out[0].dtype = (mlsys_dtype)attrs->dtype;
    return MLSYS_OK;
}

static mlsys_status ref_dequantize(const mlsi_ref_args *a) {
    const mlsi_view *x = &a->in[0], *y = &a->out[0];
    int64_t k = x->shape[x->rank - 1], n = mlsi_view_count(y);
    float *row;
    MLSI_TRY(MLSI_NEW_N(a->alloc, k + 1, &row));
    for (int64_t i = 0; i < n; i++) {
        if (i % k == 0) mlsi_ref_block_row(x, i / k, row);
        mlsi_ref_set_f(y, i, (double)row[i % k]);
    }
    mlsi_mem_free(a->alloc, row);
    return MLSYS_OK;
}

static void cost_dequantize(const mlsi_cost_args *a, mlsi_op_cost *c) {
    c->flops = 2 * mlsi_cost_count(&a->out[0]);
}

static const mlsi_attr_desc dequantize_attrs[] = {
    {.name = "dtype",
     .kind = MLSI_ATTR_DTYPE,
     .offset = offsetof(mlsi_attr_cast, dtype),
     .default_i = MLSYS_F32,
     .help = "dtype of the result: a float of at most 32 bits"},
    {.name = NULL}};

const mlsi_op_def mlsi_op_def_dequantize = {
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 1,
    .operands = "x",
    .attrs_size = sizeof(mlsi_attr_cast),
    .attrs = dequantize_attrs,
    .infer = infer_dequantize,
    .cost = cost_dequantize,
    .ref = ref_dequantize,
    .element = mlsi_loops_dequantize,
    .doc = "x of a block dtype as floats of the same shape; the formula of each format is in "
           "docs/numerics.md, every product and sum rounded to f32, then once to dtype.",
    .special = "A NaN or infinite block scale spreads over its block."};

/* ---- quant_matmul -------------------------------------------------------------------------- */

static const char *const act_names[] = {"f32", "int8", NULL};

static mlsys_status infer_quant_matmul(mlsi_infer *t) {
    const mlsi_attr_quant_matmul *attrs = t->attrs;
    const mlsi_type *x = &t->in[0], *w = &t->in[1];
    char a[160], b[160];
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_FLOATS));
    if (x->dtype == MLSYS_F64)
        return mlsi_infer_fail(t, MLSYS_E_DTYPE, 0,
                               "dtype f64, expected a float of at most 32 bits");
    MLSI_TRY(mlsi_infer_blocks(t, 1, 2));
    if (attrs->act != MLSI_ACT_F32 && attrs->act != MLSI_ACT_INT8)
        return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "attribute act: %lld", (long long)attrs->act);
    if (w->rank != 2 || x->rank < 1 || x->dims[x->rank - 1] != w->dims[1])
        return mlsi_infer_fail(
            t, MLSYS_E_SHAPE, 1, "%s, expected [N, K] with K the last extent of %s",
            mlsi_type_text(t->symbols, w, a, sizeof a), mlsi_type_text(t->symbols, x, b, sizeof b));
    t->out[0] = *x;
    t->out[0].dims[x->rank - 1] = w->dims[0];
    return MLSYS_OK;
}

typedef struct factors {
    const float *x, *w;
} factors;

static void pair(void *user, int64_t k, double *a, double *b) {
    const factors *f = user;
    *a = (double)f->x[k];
    *b = (double)f->w[k];
}

/* A block of 32 of x: scale and codes. */
static float quantise_block(const float *x, int8_t *q) {
    float largest = 0;
    for (int i = 0; i < 32; i++)
        largest = (float)mlsi_ref_max((double)largest, (double)fabsf(x[i]));
    float s = largest / 127.0f;
    for (int i = 0; i < 32; i++)
        q[i] = s == 0 ? 0 : (int8_t)mlsi_f64_to_int((double)rintf(x[i] / s), MLSYS_I8);
    return s;
}

static float dot_int8(mlsys_dtype t, const float *x, const void *blocks, int64_t k) {
    float c = 0, s = 0;
    for (int64_t i = 0; i < k; i += 32) {
        mlsi_quant_codes w;
        int8_t q[32];
        float scale = quantise_block(x + i, q);
        mlsi_quant_codes_of(t, blocks, i, &w);
        int32_t half[2] = {0, 0}, total = 0;
        for (int j = 0; j < 32; j++) {
            half[j / 16] += w.q[j] * q[j];
            total += q[j];
        }
        if (i % 256 == 0) s = 0;
        s = fmaf(w.d * scale, (float)(w.sc[0] * half[0] + w.sc[1] * half[1]), s);
        if (w.has_min && !mlsi_fault(MLSI_FAULT_OPS_INT8_MINIMUM))
            s = fmaf(w.m * scale, (float)(w.mn * total), s);
        if (i % 256 == 224 || i + 32 == k) c = i < 256 ? s : c + s;
    }
    return c;
}

static mlsys_status ref_quant_matmul(const mlsi_ref_args *a) {
    const mlsi_attr_quant_matmul *attrs = a->attrs;
    const mlsi_view *x = &a->in[0], *w = &a->in[1], *y = &a->out[0];
    int64_t n = w->shape[0], k = w->shape[1], count = mlsi_view_count(y);
    float *row;
    MLSI_TRY(MLSI_NEW_N(a->alloc, 2 * k + 1, &row));
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; i % n == 0 && j < k; j++)
            row[j] = (float)mlsi_ref_get_f(x, i / n * k + j);
        if (attrs->act == MLSI_ACT_INT8) {
            mlsi_ref_set_f(y, i, (double)dot_int8(w->dtype, row, row_blocks(w, i % n), k));
            continue;
        }
        factors f = {row, row + k};
        mlsi_ref_block_row(w, i % n, row + k);
        mlsi_ref_set_f(y, i, mlsi_ref_dot(false, -0.0, k, pair, &f));
    }
    mlsi_mem_free(a->alloc, row);
    return MLSYS_OK;
}

static void cost_quant_matmul(const mlsi_cost_args *a, mlsi_op_cost *c) {
    c->flops = 2 * mlsi_cost_count(&a->out[0]) * (uint64_t)a->in[1].shape[1];
}

static const mlsi_attr_desc quant_matmul_attrs[] = {
    {.name = "act",
     .kind = MLSI_ATTR_ENUM,
     .offset = offsetof(mlsi_attr_quant_matmul, act),
     .names = act_names,
     .help = "f32: as written; int8: x is quantised too, in blocks of 32"},
    {.name = NULL}};

const mlsi_op_def mlsi_op_def_quant_matmul = {
    .min_in = 2,
    .max_in = 2,
    .min_out = 1,
    .max_out = 1,
    .operands = "x, w",
    .traits = MLSI_TRAIT_DIFFERENTIABLE,
    .narrow = MLSI_NARROW_COMPUTES,
    .attrs_size = sizeof(mlsi_attr_quant_matmul),
    .attrs = quant_matmul_attrs,
    .infer = infer_quant_matmul,
    .cost = cost_quant_matmul,
    .ref = ref_quant_matmul,
    .reduces = mlsi_loops_quant_space, /* act = f32 */
    .term = mlsi_loops_quant_term,
    .nest = mlsi_loops_quant_int8,
    .vjp = mlsi_vjp_quant_matmul,
    .doc = "x [..., K] times the transpose of w [N, K] of a block dtype = [..., N] of x's dtype. "
           "act = f32: the "
           "bits of matmul with the dequantised weights.\n\n"
           "act = int8: a row of x is cut into blocks of 32; s = max|x| / 127, q_i = x_i / s "
           "rounded half to even, "
           "saturated (all 0 where s = 0). A block of w has codes p_i (zero point taken off), "
           "scale d and, where the format "
           "has one, minimum m (q4_k, q5_k: m = -dmin). Exact integers I = sum(p_i q_i), J = "
           "sum(q_i); K formats "
           "multiply them by their integer scales: I = sc * I (q6_k: sc_0 I_0 + sc_1 I_1 over "
           "halves of 16), "
           "J = mn * J. In segments of 256 from k = 0, from t = +0, for blocks in ascending order: "
           "t = fma(d * s, float(I), t), then, with a minimum, t = fma(m * s, float(J), t). "
           "Segments add in "
           "ascending order as in products along K.",
    .special = "K = 0 gives +0. act = int8: a block of x with NaN or an infinity gives NaN in all "
               "results of "
               "its row."};
