/* quant_matmul, act = f32: x [..., K] f32 times W [N, K] of blocks. The bits of matmul on the
 * dequantised weights. */
#include "cpu/kernels/quant.h"

void MLSI_K(quant_problem)(gemm *g, const mlsi_kernel_args *args) {
    const mlsi_view *x = &args->in[0], *w = &args->in[1], *y = &args->out[0];
    int last = x->rank - 1;
    *g = (gemm){.a = x->data,
                .b = w->data,
                .c = y->data,
                .a_type = x->dtype,
                .b_type = w->dtype,
                .c_type = y->dtype,
                .packed = args->packed};
    g->batch.count = g->m.count = g->n.count = g->k.count = 1;
    for (int d = 0; d < last; d++)
        mlsi_index_add(&g->m, x->shape[d], x->strides[d], 0, y->strides[d]);
    mlsi_index_add(&g->n, w->shape[0], 0, w->strides[0], y->strides[last]);
    mlsi_index_add(&g->k, w->shape[1], x->strides[last], w->strides[1], 0);
    mlsi_index_merge(&g->m);
    g->source = args->packed ? MLSI_K(quant_packed_source)(w->dtype) : &MLSI_K(quant_strided);
}

static mlsys_status run(const mlsi_kernel_args *args) {
    gemm g;
    MLSI_K(quant_problem)(&g, args);
    MLSI_K(gemm_run)(&g, args->pool, args->work);
    return MLSYS_OK;
}

static uint64_t work(const mlsi_kernel_args *args, int threads) {
    gemm g;
    MLSI_K(quant_problem)(&g, args);
    uint64_t strided = MLSI_K(gemm_work)(&g, threads);
    g.source = MLSI_K(quant_packed_source)(g.b_type);
    uint64_t packed = MLSI_K(gemm_work)(&g, threads);
    return strided > packed ? strided : packed;
}

static uint64_t pack_bytes(const mlsi_view *w, const void *attrs) {
    (void)attrs;
    return (uint64_t)mlsi_panel_packed_bytes(w->dtype, w->shape[0], w->shape[1]);
}

static void pack(const mlsi_view *w, const void *attrs, void *packed, mlsi_pool *pool) {
    (void)attrs;
    const mlsi_dtype_info *info = mlsi_dtype_get(w->dtype);
    mlsi_panel_pack(w->dtype, w->data, w->strides[0] / info->block_elems * info->block_bytes,
                    w->shape[0], w->shape[1], packed, pool);
}

bool MLSI_K(quant_operands)(const mlsi_query *q) {
    return q->n_in == 2 && mlsi_dtype_is_float(q->in[0].dtype) && q->in[0].dtype != MLSYS_F64 &&
           mlsi_dtype_is_block(q->in[1].dtype) && q->in[1].rank == 2 &&
           mlsi_dtype_is_float(q->out[0].dtype) && q->out[0].dtype != MLSYS_F64;
}

static bool accepts(const mlsi_query *q) {
    const mlsi_attr_quant_matmul *at = q->attrs;
    return at->act == MLSI_ACT_F32 && MLSI_K(quant_operands)(q);
}

static bool accepts_packed(const mlsi_query *q) { return accepts(q) && q->in[1].constant; }

MLSI_KERNEL_TABLE(quant_matmul) = {
    {.op = MLSI_OP_QUANT_MATMUL,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("quant_matmul_f32_panels"),
     .accepts = accepts_packed,
     .run = run,
     .work = work,
     .pack_input = 1,
     .pack_bytes = pack_bytes,
     .pack = pack},
    {.op = MLSI_OP_QUANT_MATMUL,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("quant_matmul_f32_rows"),
     .accepts = accepts,
     .run = run,
     .work = work},
    {.run = NULL},
};
