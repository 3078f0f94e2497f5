/* Convolution and pooling over any number of spatial axes. */
#include "ir/ops/gradient.h"
#include "ir/ops/loops.h"
#include "ir/ops/window.h"

/* ---- conv ---------------------------------------------------------------------------------- */

static mlsys_status infer_groups(const mlsi_infer *t, const mlsi_attr_conv *at,
                                 int64_t *out_channels) {
    const mlsi_type *x = &t->in[0], *w = &t->in[1];
    int64_t g = at->groups, product;
    char a[160], b[160];
    bool fits = false;
    if (g < 1) return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "attribute groups: %lld", (long long)g);
    if (at->transposed) { /* w [C, Cout / groups, ...] */
        fits = x->dims[1] == w->dims[0] && x->dims[1] >= 0 && x->dims[1] % g == 0;
        MLSI_TRY(mlsi_dim_op(t->symbols, '*', w->dims[1], g, out_channels));
    } else {
        MLSI_TRY(mlsi_dim_op(t->symbols, '*', w->dims[1], g, &product));
        fits = product == x->dims[1] && w->dims[0] >= 0 && w->dims[0] % g == 0;
        *out_channels = w->dims[0];
    }
    if (fits) return MLSYS_OK;
    return mlsi_infer_fail(t, MLSYS_E_SHAPE, 1, "%s does not fit the channels of %s in %lld groups",
                           mlsi_type_text(t->symbols, w, a, sizeof a),
                           mlsi_type_text(t->symbols, x, b, sizeof b), (long long)g);
}

/* (L - 1) * stride + dilation * (k - 1) + 1 + output_pad - pads */
static mlsys_status transposed_extent(const mlsi_infer *t, const mlsi_window_axis *w, int64_t extra,
                                      int64_t *out) {
    mlsi_symtab *tab = t->symbols;
    int64_t most = w->stride > w->dilation ? w->stride : w->dilation, lo, hi;
    char a[128];
    mlsi_dim_range(tab, extra, &lo, &hi);
    if (lo < 0 || hi >= most)
        return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "attribute output_pads: %s outside [0,%lld)",
                               mlsi_dim_text(tab, extra, a, sizeof a), (long long)most);
    MLSI_TRY(mlsi_dim_combine(tab, 1 - w->dilation - w->low - w->high - w->stride, w->dilation,
                              w->kernel, out));
    MLSI_TRY(mlsi_dim_combine(tab, *out, w->stride, w->extent, out));
    MLSI_TRY(mlsi_dim_combine(tab, *out, 1, extra, out));
    return mlsi_infer_extent(t, "result", *out);
}

static mlsys_status infer_conv(mlsi_infer *t) {
    mlsi_attr_conv *at = t->attrs;
    const mlsi_type *x = &t->in[0], *w = &t->in[1];
    int spatial = x->rank - 2;
    char a[160], b[160];
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_FLOATS));
    MLSI_TRY(mlsi_infer_same_dtype(t, 0, 1));
    if (spatial < 1 || w->rank != x->rank)
        return mlsi_infer_fail(t, MLSYS_E_SHAPE, 1, "%s against %s: expected equal ranks >= 3",
                               mlsi_type_text(t->symbols, w, a, sizeof a),
                               mlsi_type_text(t->symbols, x, b, sizeof b));
    MLSI_TRY(mlsi_infer_window_lists(t, spatial, &at->strides, &at->dilations, &at->pads));
    if (at->output_pads.n == 0) at->output_pads.n = spatial;
    if (at->output_pads.n != spatial)
        return mlsi_infer_fail(t, MLSYS_E_ARG, -1,
                               "attribute output_pads: %lld entries, expected %d",
                               (long long)at->output_pads.n, spatial);
    t->out[0] = *x;
    MLSI_TRY(infer_groups(t, at, &t->out[0].dims[1]));
    for (int d = 0; d < spatial; d++) {
        mlsi_window_axis axis = {x->dims[2 + d],     w->dims[2 + d], at->strides.v[d],
                                 at->dilations.v[d], at->pads.v[d],  at->pads.v[spatial + d]};
        MLSI_TRY(mlsi_infer_window_kernel(t, &axis));
        if (at->transposed)
            MLSI_TRY(transposed_extent(t, &axis, at->output_pads.v[d], &t->out[0].dims[2 + d]));
        else
            MLSI_TRY(mlsi_infer_window_extent(t, &axis, false, &t->out[0].dims[2 + d]));
    }
    return mlsi_infer_addend(t, 2);
}

typedef struct conv_walk {
    const mlsi_view *x, *w;
    const mlsi_attr_conv *at;
    int spatial;
    int64_t k_shape[MLSYS_MAX_DIMS];              /* channels of a group, then the kernel's axes */
    int64_t n, channel, first_channel, group_out; /* of the output element */
    int64_t at_out[MLSYS_MAX_DIMS];
} conv_walk;

/* The cell of x that kernel cell `tap` meets along axis d. */
static bool source_cell(const conv_walk *c, int d, int64_t tap, int64_t *cell) {
    int64_t v, s = c->at->strides.v[d], pad = c->at->pads.v[d], reach = tap * c->at->dilations.v[d];
    if (c->at->transposed) {
        v = c->at_out[d] + pad - reach;
        if (v < 0 || v % s) return false;
        v /= s;
    } else {
        v = c->at_out[d] * s + reach - pad;
    }
    *cell = v;
    return v >= 0 && v < c->x->shape[2 + d];
}

static void conv_pair(void *user, int64_t k, double *a, double *b) {
    const conv_walk *c = user;
    int64_t index[MLSYS_MAX_DIMS], ix[MLSYS_MAX_DIMS], iw[MLSYS_MAX_DIMS];
    bool inside = true;
    mlsi_ref_unravel(1 + c->spatial, c->k_shape, k, index);
    ix[0] = c->n;
    ix[1] = c->first_channel + index[0];
    iw[0] = c->at->transposed ? ix[1] : c->channel;
    iw[1] = c->at->transposed ? c->group_out : index[0];
    for (int d = 0; d < c->spatial; d++) {
        iw[2 + d] = index[1 + d];
        inside = source_cell(c, d, index[1 + d], &ix[2 + d]) && inside;
    }
    *a = inside ? mlsi_ref_get_f(c->x, mlsi_ref_ravel(c->x->rank, c->x->shape, ix)) : 0.0;
    *b = mlsi_ref_get_f(c->w, mlsi_ref_ravel(c->w->rank, c->w->shape, iw));
}

static mlsys_status ref_conv(const mlsi_ref_args *a) {
    const mlsi_attr_conv *at = a->attrs;
    const mlsi_view *y = &a->out[0];
    conv_walk c = {.x = &a->in[0], .w = &a->in[1], .at = at, .spatial = a->in[0].rank - 2};
    int64_t in_group = c.x->shape[1] / at->groups, out_group = y->shape[1] / at->groups;
    int64_t k = in_group, index[MLSYS_MAX_DIMS];
    c.k_shape[0] = in_group;
    for (int d = 0; d < c.spatial; d++)
        k *= c.k_shape[1 + d] = c.w->shape[2 + d];
    for (int64_t i = 0, n = mlsi_view_count(y); i < n; i++) {
        mlsi_ref_unravel(y->rank, y->shape, i, index);
        c.n = index[0];
        c.channel = index[1];
        c.first_channel = index[1] / out_group * in_group;
        if (mlsi_fault(MLSI_FAULT_OPS_CONV_GROUPS)) c.first_channel = 0;
        c.group_out = index[1] % out_group;
        for (int d = 0; d < c.spatial; d++)
            c.at_out[d] = index[2 + d];
        double addend = mlsi_ref_addend(a, 2, i);
        mlsi_ref_set_f(y, i, mlsi_ref_dot(mlsi_ref_is_f64(y->dtype), addend, k, conv_pair, &c));
    }
    return MLSYS_OK;
}

static void cost_conv(const mlsi_cost_args *a, mlsi_op_cost *c) {
    const mlsi_attr_conv *at = a->attrs;
    const mlsi_view *x = &a->in[0], *w = &a->in[1];
    uint64_t k = (uint64_t)(x->shape[1] / at->groups);
    for (int d = 2; d < w->rank; d++)
        k *= (uint64_t)w->shape[d];
    c->flops = 2 * k * mlsi_cost_count(&a->out[0]);
}

static const mlsi_attr_desc conv_attrs[] = {
    MLSI_WINDOW_ATTRS(mlsi_attr_conv),
    {.name = "groups",
     .kind = MLSI_ATTR_I64,
     .offset = offsetof(mlsi_attr_conv, groups),
     .default_i = 1,
     .help = "channels are cut into this many independent convolutions"},
    {.name = "transposed",
     .kind = MLSI_ATTR_BOOL,
     .offset = offsetof(mlsi_attr_conv, transposed),
     .help = "the transposed map; w is [C, Cout/groups, kernel...]"},
    {.name = "output_pads",
     .kind = MLSI_ATTR_DIMS,
     .offset = offsetof(mlsi_attr_conv, output_pads),
     .help = "transposed: cells added behind each spatial axis of the result; empty: 0"},
    {.name = NULL}};

const mlsi_op_def mlsi_op_def_conv = {
    .min_in = 2,
    .max_in = 3,
    .min_out = 1,
    .max_out = 1,
    .operands = "x, w, addend?",
    .traits = MLSI_TRAIT_DIFFERENTIABLE,
    .narrow = MLSI_NARROW_COMPUTES,
    .attrs_size = sizeof(mlsi_attr_conv),
    .attrs = conv_attrs,
    .infer = infer_conv,
    .reduces = mlsi_loops_conv_space,
    .term = mlsi_loops_conv_term,
    .cost = cost_conv,
    .ref = ref_conv,
    .vjp = mlsi_vjp_conv,
    .doc =
        "x [N, C, spatial...], w [Cout, C/groups, kernel...] to [N, Cout, spatial...]: y[n, o, p] "
        "= sum over "
        "channels c of o's group and kernel cells t of x[n, c, p * stride + t * dilation - low] * "
        "w[o, c, t], "
        "summed as products along K with K = (c, t) flattened. Cells outside x are zeros. Extent: "
        "floor((L + low + high - dilation * (k - 1) - 1) / stride) + 1. Transposed: w [C, "
        "Cout/groups, "
        "kernel...], x is met where p + low - t * dilation is a multiple of stride; extent (L - 1) "
        "* stride + "
        "dilation * (k - 1) + 1 + output_pad - low - high. addend, of y's type: the segments along "
        "K are added to it, as in dot_general.",
    .special = "Padding is multiplied too: 0 * inf in w gives NaN. No channels or an empty kernel "
               "give +0.",
    .onnx = "Conv, ConvTranspose"};
