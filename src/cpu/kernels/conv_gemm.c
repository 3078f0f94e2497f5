/* conv as one product, for results of few positions: the gradient of a filter has as many positions as the
 * filter has cells, and panels of one image would be all but empty.
 *
 *     y[o, (image, position)] = sum over (channel, cell) of w[o, (channel, cell)] * x[(image, position), ...]
 *
 * Images and positions are one index n, channels and cells one index k, in the stated order; the overlapping
 * windows are strides. x is copied once into zeros, so that padding is there to be read. A transposed
 * convolution of stride 1 walks its cells backwards: negative strides. */
#include "core/tensor.h"
#include "cpu/kernels/addend.h"
#include "cpu/kernels/gemm.h"

typedef struct conv_product {
    const mlsi_view *x, *w, *y;
    const mlsi_attr_conv *at;
    int spatial;
    bool padded;
    int64_t low[MLSYS_MAX_DIMS], extent[MLSYS_MAX_DIMS]; /* of the copy, per spatial axis */
    int64_t stride[MLSYS_MAX_DIMS];                      /* elements of the copy (or x), all axes */
    int64_t first;  /* element that cell 0 of position 0 meets */
    uint64_t bytes; /* of the copy, for scratch */
    gemm g;
} conv_product;

static int64_t at_or(const mlsi_list *l, int i, int64_t otherwise) {
    return l->n ? l->v[i] : otherwise;
}

/* Extents, strides and the first cell of what is read. */
static void describe_copy(conv_product *p) {
    int64_t step = 1;
    p->padded = false;
    for (int d = 0; d < p->spatial; d++) {
        int64_t reach = at_or(&p->at->dilations, d, 1) * (p->w->shape[2 + d] - 1);
        int64_t pad = at_or(&p->at->pads, d, 0), steps = p->y->shape[2 + d] - 1;
        int64_t low = p->at->transposed ? (reach > pad ? reach - pad : 0) : pad;
        int64_t first = p->at->transposed ? pad + low : 0;
        int64_t last =
            p->at->transposed ? first + steps : steps * at_or(&p->at->strides, d, 1) + reach;
        p->low[d] = low;
        p->extent[d] = p->x->shape[2 + d] + low > last ? p->x->shape[2 + d] + low : last + 1;
        p->padded = p->padded || p->extent[d] != p->x->shape[2 + d];
    }
    for (int d = p->spatial - 1; d >= 0; d--) {
        p->stride[2 + d] = p->padded ? step : p->x->strides[2 + d];
        step *= p->extent[d];
    }
    p->stride[1] = p->padded ? step : p->x->strides[1];
    p->stride[0] = p->padded ? step * p->x->shape[1] : p->x->strides[0];
    p->bytes = p->padded ? (uint64_t)(step * p->x->shape[1] * p->x->shape[0]) *
                               (uint64_t)mlsi_dtype_size(p->x->dtype)
                         : 0;
    p->bytes = (p->bytes + 63) / 64 * 64;
    p->first = 0;
    for (int d = 0; d < p->spatial && p->at->transposed; d++)
        p->first += (at_or(&p->at->pads, d, 0) + p->low[d]) * p->stride[2 + d];
}

static void describe(const mlsi_kernel_args *args, conv_product *p) {
    *p =
        (conv_product){.x = &args->in[0], .w = &args->in[1], .y = &args->out[0], .at = args->attrs};
    p->spatial = p->x->rank - 2;
    describe_copy(p);
    const mlsi_view *w = p->w, *y = p->y;
    int64_t groups = p->at->groups, in = p->x->shape[1] / groups, out = y->shape[1] / groups;
    bool turned = p->at->transposed != 0;
    gemm *g = &p->g;
    *g = (gemm){.a = w->data,
                .c = y->data,
                .a_type = w->dtype,
                .b_type = p->x->dtype,
                .c_type = y->dtype,
                .source = &MLSI_K(gemm_strided)};
    g->batch.count = g->m.count = g->n.count = g->k.count = 1;
    mlsi_index_add(&g->batch, groups, (turned ? in : out) * w->strides[0], in * p->stride[1],
                   out * y->strides[1]);
    mlsi_index_add(&g->m, out, w->strides[turned ? 1 : 0], 0, y->strides[1]);
    mlsi_index_add(&g->n, p->x->shape[0], 0, p->stride[0], y->strides[0]);
    mlsi_index_add(&g->k, in, w->strides[turned ? 0 : 1], p->stride[1], 0);
    for (int d = 0; d < p->spatial; d++) {
        int64_t cell = at_or(&p->at->dilations, d, 1) * p->stride[2 + d];
        int64_t step = turned ? p->stride[2 + d] : at_or(&p->at->strides, d, 1) * p->stride[2 + d];
        mlsi_index_add(&g->n, y->shape[2 + d], 0, step, y->strides[2 + d]);
        mlsi_index_add(&g->k, w->shape[2 + d], w->strides[2 + d], turned ? -cell : cell, 0);
    }
    mlsi_index_merge(&g->batch);
    mlsi_index_merge(&g->m);
    mlsi_index_merge(&g->n);
    mlsi_index_merge(&g->k);
}

/* ---- the copy ------------------------------------------------------------------------------ */

typedef struct copy_job {
    const conv_product *p;
    char *to;
} copy_job;

/* One channel of one image. */
static void copy_plane(void *user, int64_t item, int worker) {
    const copy_job *job = user;
    const conv_product *p = job->p;
    int64_t size = mlsi_dtype_size(p->x->dtype), channels = p->x->shape[1], offset = 0;
    mlsi_view from = *p->x, to = {.dtype = p->x->dtype, .rank = p->spatial};
    (void)worker;
    for (int d = 0; d < p->spatial; d++)
        offset += p->low[d] * p->stride[2 + d];
    char *plane = job->to + item * p->stride[1] * size;
    memset(plane, 0, (size_t)(p->stride[1] * size));
    to.data = plane + offset * size;
    from.data = (char *)from.data +
                (item / channels * from.strides[0] + item % channels * from.strides[1]) * size;
    from.rank = p->spatial;
    for (int d = 0; d < p->spatial; d++) {
        from.shape[d] = to.shape[d] = p->x->shape[2 + d];
        from.strides[d] = p->x->strides[2 + d];
        to.strides[d] = p->stride[2 + d];
    }
    mlsi_copy_view(&to, &from);
}

static mlsys_status run(const mlsi_kernel_args *args) {
    conv_product p;
    describe(args, &p);
    if (mlsi_view_count(p.y) == 0) return MLSYS_OK;
    p.g.accumulate = addend_in_result(args);
    p.g.b = p.x->data;
    if (p.padded) {
        copy_job job = {&p, args->work};
        mlsi_pool_run(args->pool, p.x->shape[0] * p.x->shape[1], copy_plane, &job);
        p.g.b = args->work;
    }
    p.g.b += p.first * mlsi_dtype_size(p.x->dtype);
    MLSI_K(gemm_run)(&p.g, args->pool, (char *)args->work + p.bytes);
    return MLSYS_OK;
}

static uint64_t work(const mlsi_kernel_args *args, int threads) {
    conv_product p;
    describe(args, &p);
    return p.bytes + MLSI_K(gemm_work)(&p.g, threads);
}

/* ---- the row ------------------------------------------------------------------------------- */

enum { FEW_POSITIONS = 48 };

static bool accepts(const mlsi_query *q) {
    const mlsi_attr_conv *at = q->attrs;
    mlsys_dtype t = q->in[0].dtype;
    int64_t positions = 1;
    if (!mlsi_dtype_is_float(t) || t == MLSYS_F64 || q->in[1].dtype != t || q->out[0].dtype != t)
        return false;
    for (int d = 2; d < q->out[0].rank; d++) {
        if (q->out[0].shape[d] < 0 || q->in[0].shape[d] < 0) return false;
        positions *= q->out[0].shape[d];
        if (positions > FEW_POSITIONS) return false;
    }
    for (int64_t i = 0; i < at->strides.n; i++)
        if (at->transposed && at->strides.v[i] != 1) return false;
    return true;
}

MLSI_KERNEL_TABLE(conv_gemm) = {{.op = MLSI_OP_CONV,
                                 .isa = MLSI_K_ISA,
                                 .name = MLSI_K_NAME("conv_gemm"),
                                 .accepts = accepts,
                                 .in_place = ADDEND_IN_PLACE,
                                 .run = run,
                                 .work = work},
                                {.run = NULL}};
