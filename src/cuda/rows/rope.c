/* Rotary position embedding: what its kernel is told of the operands. */
#include "cuda/rows/rows.h"

#include <string.h>

static mlsys_status run(const mlsi_kernel_args *args) {
    enum { THREADS = 128, BLOCKS_MOST = 1 << 16 };
    const mlsi_attr_rope *at = args->attrs;
    const mlsi_view *x = &args->in[0], *positions = &args->in[1], *freqs = &args->in[2],
                    *y = &args->out[0];
    cuda_rope p;
    memset(&p, 0, sizeof p);
    p.x = x->data, p.y = y->data, p.positions = positions->data, p.freqs = freqs->data;
    p.type = x->dtype;
    p.positions_are_i64 = positions->dtype == MLSYS_I64;
    p.halves = at->pairing == MLSI_ROPE_HALVES;
    p.length = x->shape[1], p.heads = x->shape[2], p.width = x->shape[3];
    p.rows = x->shape[0] * p.length * p.heads;
    p.pairs = freqs->shape[0], p.freqs_step = freqs->strides[0];
    for (int d = 0; d < 4; d++)
        p.x_stride[d] = x->strides[d], p.y_stride[d] = y->strides[d];
    p.position_stride[1] = positions->strides[positions->rank - 1];
    if (positions->rank > 1 && positions->shape[0] > 1)
        p.position_stride[0] = positions->strides[0];
    int64_t blocks = (p.rows * (p.width - p.pairs) + THREADS - 1) / THREADS;
    return mlsi_cuda_row_launch(args, MLSI_CUDA_ROPE, "mlsi_row_rope",
                                blocks < BLOCKS_MOST ? blocks : BLOCKS_MOST, THREADS, 0, &p);
}

static bool accepts(const mlsi_query *q) {
    mlsys_dtype p = q->in[1].dtype;
    return mlsi_cuda_takes(q->in[0].dtype) && q->out[0].dtype == q->in[0].dtype &&
           q->in[0].rank == 4 && (p == MLSYS_I32 || p == MLSYS_I64) && q->in[2].dtype == MLSYS_F32;
}

const mlsi_kernel mlsi_cuda_rope_rows[] = {
    {.op = MLSI_OP_ROPE, .name = "rope_cuda", .accepts = accepts, .run = run, .in_place = 1},
    {.run = NULL}};
