/* quant_matmul, activations in f32, on packed panels of constant weights. */
#include "core/quant_panel.h"
#include "cuda/rows/rows.h"

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

static mlsys_status run(const mlsi_kernel_args *args) {
    enum { FEW = 8, TOGETHER = 4, WARPS_MOST = 8, SIDE = 64 };
    const mlsi_view *x = &args->in[0], *w = &args->in[1], *y = &args->out[0];
    const int last = x->rank - 1;
    mlsi_index m = {.count = 1};
    const char *name;
    for (int d = 0; d < last; d++)
        mlsi_index_add(&m, x->shape[d], x->strides[d], 0, y->strides[d]);
    mlsi_index_merge(&m);
    cuda_quant_product p = {.x = x->data,
                            .panels = args->packed,
                            .y = y->data,
                            .x_type = x->dtype,
                            .y_type = y->dtype,
                            .n = w->shape[0],
                            .k = w->shape[1],
                            .x_step = x->strides[last],
                            .y_step = y->strides[last]};
    mlsi_cuda_index_of(&m, &p.m);
    int64_t segments = divide_up(p.k, MLSI_K_SEGMENT), blocks,
            together = m.count == 1 ? 1 : TOGETHER;
    uint32_t threads = 256, shared = 0;
    if (m.count <= FEW) {
        name = together == 1 ? "mlsi_row_quant_rows_1" : "mlsi_row_quant_rows_4";
        blocks = divide_up(m.count, together) * divide_up(p.n, MLSI_PANEL_ROWS);
        int64_t warps = segments < 1 ? 1 : segments < WARPS_MOST ? segments : WARPS_MOST;
        mlsi_panel_format f = mlsi_panel_format_of(w->dtype);
        threads = 32 * (uint32_t)warps;
        /* of each warp: a segment of the panel, and of the rows of x */
        shared = (uint32_t)(warps * (MLSI_K_SEGMENT / f.block * mlsi_panel_block_bytes(f) +
                                     together * MLSI_K_SEGMENT * (int64_t)sizeof(float)));
    } else {
        name = "mlsi_row_quant_tiles";
        blocks = divide_up(m.count, SIDE) * divide_up(p.n, SIDE);
    }
    return mlsi_cuda_row_launch(args, mlsi_cuda_quant_unit(w->dtype), name, blocks, threads, shared,
                                &p);
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

static bool accepts(const mlsi_query *q) {
    const mlsi_attr_quant_matmul *at = q->attrs;
    return at->act == MLSI_ACT_F32 && q->n_in == 2 && mlsi_cuda_takes(q->in[0].dtype) &&
           mlsi_dtype_is_block(q->in[1].dtype) && q->in[1].rank == 2 && q->in[1].constant &&
           mlsi_cuda_takes(q->out[0].dtype);
}

const mlsi_kernel mlsi_cuda_quant_rows[] = {{.op = MLSI_OP_QUANT_MATMUL,
                                             .name = "quant_matmul_f32_panels_cuda",
                                             .accepts = accepts,
                                             .run = run,
                                             .pack_input = 1,
                                             .pack_bytes = pack_bytes,
                                             .pack = pack},
                                            {.run = NULL}};
