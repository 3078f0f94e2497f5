/* attention: what its kernel is told of the operands. */
#include "cuda/rows/rows.h"

#include <string.h>

enum { WARPS = 8, SEGMENT = 64 };

static void strides_of(const mlsi_view *v, int64_t *out) {
    for (int d = 0; d < v->rank; d++)
        out[d] = v->strides[d];
}

/* Four elements of a row of keys at a time: rows begin at multiples of four, the memory at one of 4 elements. */
static int32_t is_wide(const mlsi_view *k) {
    uintptr_t bytes = 4 * (uintptr_t)mlsi_dtype_size(k->dtype);
    bool aligned = (uintptr_t)k->data % bytes == 0 && k->strides[3] == 1;
    for (int d = 0; d < 3; d++)
        aligned = aligned && k->strides[d] % 4 == 0;
    return aligned;
}

static void optional_operands(const mlsi_kernel_args *args, cuda_attention *p) {
    const mlsi_view *mask = args->n_in > 3 && args->in[3].dtype ? &args->in[3] : NULL;
    const mlsi_view *len = args->n_in > 4 && args->in[4].dtype ? &args->in[4] : NULL;
    for (int d = 0; mask && d < 4; d++) {
        int from = mask->rank - 4 + d;
        p->mask_stride[d] = from < 0 || mask->shape[from] == 1 ? 0 : mask->strides[from];
    }
    if (mask) p->mask = mask->data, p->mask_type = mask->dtype;
    if (len) p->len = len->data, p->len_stride = len->strides[0];
    p->len_is_i64 = len && len->dtype == MLSYS_I64;
}

static mlsys_status run(const mlsi_kernel_args *args) {
    const mlsi_attr_attention *at = args->attrs;
    const mlsi_view *q = &args->in[0], *k = &args->in[1], *v = &args->in[2], *y = &args->out[0];
    const mlsi_view *lse = args->n_out > 1 ? &args->out[1] : NULL;
    cuda_attention p;
    memset(&p, 0, sizeof p);
    p.q = q->data, p.k = k->data, p.v = v->data, p.out = y->data;
    p.lse = lse ? lse->data : NULL;
    p.q_type = q->dtype, p.k_type = k->dtype, p.v_type = v->dtype, p.out_type = y->dtype;
    p.batch = q->shape[0], p.queries = q->shape[1], p.heads = q->shape[2], p.dim = q->shape[3];
    p.keys = k->shape[1], p.kv_heads = k->shape[2], p.value_dim = v->shape[3];
    strides_of(q, p.q_stride), strides_of(k, p.k_stride), strides_of(v, p.v_stride);
    strides_of(y, p.out_stride);
    if (lse) strides_of(lse, p.lse_stride);
    optional_operands(args, &p);
    p.scale = (float)at->scale, p.cap = (float)at->softcap;
    p.causal = (int32_t)at->causal, p.window = at->window;
    p.wide = is_wide(k);
    p.error = args->error;
    int64_t segments = (p.keys + SEGMENT - 1) / SEGMENT;
    int64_t warps = segments < 1 ? 1 : segments < WARPS ? segments : WARPS;
    uint64_t floats = (uint64_t)(p.dim + p.value_dim + warps * (SEGMENT + p.value_dim));
    return mlsi_cuda_row_launch(args, MLSI_CUDA_ATTENTION, "mlsi_row_attention",
                                p.batch * p.queries * p.heads, 32 * (uint32_t)warps,
                                (uint32_t)(floats * sizeof(float)), &p);
}

static bool accepts(const mlsi_query *q) {
    enum { WIDEST = 1024 }; /* what shared memory holds */
    for (int i = 0; i < 3; i++)
        if (!mlsi_cuda_takes(q->in[i].dtype) || q->in[i].shape[3] < 0 || q->in[i].shape[3] > WIDEST)
            return false;
    if (q->n_in > 3 && q->in[3].present && q->in[3].dtype != MLSYS_BOOL &&
        !mlsi_cuda_takes(q->in[3].dtype))
        return false;
    return mlsi_cuda_takes(q->out[0].dtype) && (q->n_out < 2 || q->out[1].dtype == MLSYS_F32);
}

static mlsys_status failed(const int64_t e[4]) {
    return mlsi_fail(MLSYS_E_ARG, "attention: kv_len[%lld] is %lld, outside [0,%lld]",
                     (long long)e[3], (long long)e[1], (long long)e[2]);
}

const mlsi_kernel mlsi_cuda_attention_rows[] = {{.op = MLSI_OP_ATTENTION,
                                                 .name = "attention_online_cuda",
                                                 .accepts = accepts,
                                                 .run = run,
                                                 .failed = failed},
                                                {.run = NULL}};
