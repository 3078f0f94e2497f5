/* dot_general and matmul on floats: attributes to indices of one product. */
#include "cpu/kernels/addend.h"
#include "cpu/kernels/gemm.h"

static bool is_f32_like(mlsys_dtype t) { return mlsi_dtype_is_float(t) && t != MLSYS_F64; }

static void set_operands(gemm *g, const mlsi_view *a, const mlsi_view *b, const mlsi_view *c) {
    *g = (gemm){.source = &MLSI_K(gemm_strided)};
    g->batch.count = g->m.count = g->n.count = g->k.count = 1;
    if (a) g->a = a->data, g->a_type = a->dtype;
    if (c) g->c = c->data, g->c_type = c->dtype;
    g->b = b->data, g->b_type = b->dtype;
}

static void merge_all(gemm *g) {
    mlsi_index_merge(&g->batch);
    mlsi_index_merge(&g->m);
    mlsi_index_merge(&g->n);
    mlsi_index_merge(&g->k);
}

/* A packed B is addressed by matrix: its batch strides become ordinals. */
static void use_packed(gemm *g, const void *packed) {
    g->packed = packed;
    g->source = MLSI_K(gemm_packed_source)(g->b_type);
    gemm one = *g;
    one.batch = (mlsi_index){.count = 1};
    g->packed_matrix_bytes = (int64_t)MLSI_K(gemm_pack_bytes)(&one);
}

/* ---- dot_general ----------------------------------------------------------------------------- */

static void dot_problem(gemm *g, const mlsi_view *a, const mlsi_view *b, const mlsi_view *c,
                        const mlsi_attr_dot *at, const void *packed) {
    mlsi_product p;
    set_operands(g, a, b, c);
    mlsi_product_of_dot(&p, a, b, c, at, packed != NULL);
    g->batch = p.batch, g->m = p.m, g->n = p.n, g->k = p.k;
    if (packed) use_packed(g, packed);
}

/* ---- matmul: NumPy semantics ----------------------------------------------------------------- */

/* Stride of v's batch dim that lines up with the out batch dim `d` of `batch_dims`; v has own batch
 * dims in front of its last two. 0 where it broadcasts. ordinals: count matrices instead. */
static int64_t batch_stride(const mlsi_view *v, int own, int batch_dims, int d, bool ordinals) {
    int i = d - (batch_dims - own);
    if (i < 0 || v->shape[i] == 1) return 0;
    if (!ordinals) return v->strides[i];
    int64_t matrices = 1;
    for (int j = i + 1; j < own; j++)
        matrices *= v->shape[j];
    return matrices;
}

static void matmul_problem(gemm *g, const mlsi_view *a, const mlsi_view *b, const mlsi_view *c,
                           const mlsi_attr_matmul *at, const void *packed) {
    set_operands(g, a, b, c);
    int own_a = a && a->rank > 2 ? a->rank - 2 : 0, own_b = b->rank > 2 ? b->rank - 2 : 0;
    int batch_dims = own_a > own_b ? own_a : own_b;
    int am = -1, ak = -1, bk = 0, bn = -1;
    if (a) {
        ak = a->rank - 1, am = a->rank - 2; /* am == -1: a vector */
        if (a->rank > 1 && at->transpose_a) ak = a->rank - 2, am = a->rank - 1;
    }
    if (b->rank > 1) {
        bk = b->rank - 2, bn = b->rank - 1;
        if (at->transpose_b) bk = b->rank - 1, bn = b->rank - 2;
    }
    for (int d = 0; d < batch_dims; d++) {
        int64_t extent = c ? c->shape[d] : b->shape[d];
        mlsi_index_add(&g->batch, extent, a ? batch_stride(a, own_a, batch_dims, d, false) : 0,
                       batch_stride(b, own_b, batch_dims, d, packed != NULL),
                       c ? c->strides[d] : 0);
    }
    int out = batch_dims;
    if (am >= 0) mlsi_index_add(&g->m, a->shape[am], a->strides[am], 0, c->strides[out++]);
    if (bn >= 0) mlsi_index_add(&g->n, b->shape[bn], 0, b->strides[bn], c ? c->strides[out] : 0);
    mlsi_index_add(&g->k, b->shape[bk], a ? a->strides[ak] : 0, b->strides[bk], 0);
    merge_all(g);
    if (packed) use_packed(g, packed);
}

/* ---- rows ------------------------------------------------------------------------------------ */

void MLSI_K(gemm_problem)(gemm *g, mlsi_op op, const mlsi_view *a, const mlsi_view *b,
                          const mlsi_view *c, const void *attrs, const void *packed) {
    if (op == MLSI_OP_MATMUL)
        matmul_problem(g, a, b, c, attrs, packed);
    else
        dot_problem(g, a, b, c, attrs, packed);
    const gemm_source *rows = MLSI_K(gemm_row_major)(g->b_type);
    if (!packed && rows && mlsi_index_linear(&g->k) && mlsi_index_linear(&g->n) &&
        mlsi_index_stride(&g->n, MLSI_PRODUCT_B) == 1)
        g->source = rows;
}

static bool floats(const mlsi_query *q) {
    return is_f32_like(q->in[0].dtype) && is_f32_like(q->in[1].dtype) &&
           is_f32_like(q->out[0].dtype);
}

/* A constant B is packed once, in its own dtype. */
static bool accepts_packed(const mlsi_query *q) {
    return floats(q) && q->in[1].constant && MLSI_K(gemm_packed_source)(q->in[1].dtype);
}

#define ROW_FUNCTIONS(name, OP)                                                                    \
    static mlsys_status name##_run(const mlsi_kernel_args *args) {                                 \
        gemm g;                                                                                    \
        MLSI_K(gemm_problem)                                                                       \
        (&g, OP, &args->in[0], &args->in[1], &args->out[0], args->attrs, args->packed);            \
        g.accumulate = addend_in_result(args);                                                     \
        MLSI_K(gemm_run)(&g, args->pool, args->work);                                              \
        return MLSYS_OK;                                                                           \
    }                                                                                              \
    static uint64_t name##_work(const mlsi_kernel_args *args, int threads) {                       \
        gemm g;                                                                                    \
        MLSI_K(gemm_problem)                                                                       \
        (&g, OP, &args->in[0], &args->in[1], &args->out[0], args->attrs, NULL);                    \
        uint64_t strided = MLSI_K(gemm_work)(&g, threads);                                         \
        g.source = MLSI_K(gemm_packed_source)(g.b_type);                                           \
        uint64_t packed = g.source ? MLSI_K(gemm_work)(&g, threads) : 0;                           \
        return strided > packed ? strided : packed;                                                \
    }                                                                                              \
    static uint64_t name##_pack_bytes(const mlsi_view *b, const void *attrs) {                     \
        gemm g;                                                                                    \
        MLSI_K(gemm_problem)(&g, OP, NULL, b, NULL, attrs, NULL);                                  \
        return MLSI_K(gemm_pack_bytes)(&g);                                                        \
    }                                                                                              \
    static void name##_pack(const mlsi_view *b, const void *attrs, void *packed,                   \
                            mlsi_pool *pool) {                                                     \
        gemm g;                                                                                    \
        MLSI_K(gemm_problem)(&g, OP, NULL, b, NULL, attrs, NULL);                                  \
        MLSI_K(gemm_pack)(&g, packed, pool);                                                       \
    }
ROW_FUNCTIONS(dot, MLSI_OP_DOT_GENERAL)
ROW_FUNCTIONS(matmul, MLSI_OP_MATMUL)

MLSI_KERNEL_TABLE(matmul) = {
    {.op = MLSI_OP_DOT_GENERAL,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("dot_general_float_panels"),
     .in_place = ADDEND_IN_PLACE,
     .accepts = accepts_packed,
     .run = dot_run,
     .work = dot_work,
     .pack_input = 1,
     .pack_bytes = dot_pack_bytes,
     .pack = dot_pack},
    {.op = MLSI_OP_DOT_GENERAL,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("dot_general_float_tiles"),
     .in_place = ADDEND_IN_PLACE,
     .accepts = floats,
     .run = dot_run,
     .work = dot_work},
    {.op = MLSI_OP_MATMUL,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("matmul_float_panels"),
     .accepts = accepts_packed,
     .run = matmul_run,
     .work = matmul_work,
     .pack_input = 1,
     .pack_bytes = matmul_pack_bytes,
     .pack = matmul_pack},
    {.op = MLSI_OP_MATMUL,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("matmul_float_tiles"),
     .accepts = floats,
     .run = matmul_run,
     .work = matmul_work},
    {.run = NULL},
};
