/* Loops of convolution and pooling: reductions over the cells of a window, zeros where it leaves x. */
#include "ir/ops/loops.h"

#include "core/dtype.h"
#include "core/faults.h"

#include <math.h>
#include <string.h>

static mlsys_dtype compute_type(mlsys_dtype t) {
    return mlsi_dtype_is_float(t) && t != MLSYS_F64 ? MLSYS_F32 : t;
}

/* ---- conv ---------------------------------------------------------------------------------------------------- */

/* Channels of a group: of x, of the result. */
static void group_channels(mlsi_lower *l, int64_t *in, int64_t *out) {
    const mlsi_attr_conv *a = l->attrs;
    const mlsi_type *x = mlsi_lower_in(l, 0), *w = mlsi_lower_in(l, 1);
    *in = a->transposed ? x->dims[1] / a->groups : w->dims[1];
    *out = a->transposed ? w->dims[1] : w->dims[0] / a->groups;
}

bool mlsi_loops_conv_space(mlsi_lower *l, mlsi_reduction *r) {
    const mlsi_type *w = mlsi_lower_in(l, 1);
    int64_t out;
    r->kind = MLSI_ACC_DOT;
    r->addend = mlsi_lower_has(l, 2) ? 2 : 0;
    r->dtype = compute_type(w->dtype);
    r->rank = w->rank - 1;
    group_channels(l, &r->extents[0], &out);
    memcpy(r->extents + 1, w->dims + 2, sizeof w->dims[0] * (size_t)(w->rank - 2));
    return true;
}

/* The group of result channel o; *within: o's number in it. */
static int64_t group_of(mlsi_lower *l, int64_t o, int64_t size, int64_t *within) {
    *within = o;
    if (((const mlsi_attr_conv *)l->attrs)->groups == 1) return 0;
    size = mlsi_loops_divisor(l->n, size);
    *within = mlsi_nest_index(l->n, '%', o, size);
    return mlsi_nest_index(l->n, '/', o, size);
}

/* The cell of x that kernel cell tap meets along spatial axis d, times the stride when transposed. */
static int64_t source(mlsi_lower *l, int d, int64_t at, int64_t tap) {
    const mlsi_attr_conv *a = l->attrs;
    int64_t reach = mlsi_nest_index(l->n, '*', tap, a->dilations.v[d]);
    if (a->transposed)
        return mlsi_nest_index(l->n, '-', mlsi_nest_index(l->n, '+', at, a->pads.v[d]), reach);
    int64_t cell = mlsi_nest_index(l->n, '*', at, a->strides.v[d]);
    return mlsi_nest_index(l->n, '-', mlsi_nest_index(l->n, '+', cell, reach), a->pads.v[d]);
}

void mlsi_loops_conv_term(mlsi_lower *l, const int64_t *index, const int64_t *k, int32_t value[2]) {
    const mlsi_attr_conv *a = l->attrs;
    const mlsi_type *x = mlsi_lower_in(l, 0);
    int64_t ix[MLSYS_MAX_DIMS], iw[MLSYS_MAX_DIMS], met[MLSYS_MAX_DIMS], in, out, within;
    group_channels(l, &in, &out);
    int64_t group = group_of(l, index[1], out, &within);
    ix[0] = index[0];
    ix[1] = mlsi_nest_index(l->n, '+', mlsi_nest_index(l->n, '*', group, in), k[0]);
    iw[0] = a->transposed ? ix[1] : index[1];
    iw[1] = a->transposed ? within : k[0];
    for (int d = 2; d < x->rank; d++) {
        iw[d] = k[d - 1];
        ix[d] = met[d] = source(l, d - 2, index[d], k[d - 1]);
        if (a->transposed) ix[d] = mlsi_nest_index(l->n, '/', met[d], a->strides.v[d - 2]);
    }
    mlsi_lower_lazy(l, 1);
    int32_t v = mlsi_lower_operand(l, 0, ix), zero = mlsi_nest_float(l->n, x->dtype, 0);
    mlsi_lower_lazy(l, -1);
    for (int d = x->rank - 1; d >= 2; d--) {
        v = mlsi_nest_guard(l->n, 0, ix[d], x->dims[d], v, zero);
        if (a->transposed && a->strides.v[d - 2] > 1 && !mlsi_fault(MLSI_FAULT_LOOPS_CONV_PHASE))
            v = mlsi_nest_guard(l->n, 0, mlsi_nest_index(l->n, '%', met[d], a->strides.v[d - 2]), 1,
                                v, zero);
    }
    value[0] = v;
    value[1] = mlsi_lower_operand(l, 1, iw);
}

/* ---- pool ---------------------------------------------------------------------------------------------------- */

bool mlsi_loops_pool_space(mlsi_lower *l, mlsi_reduction *r) {
    const mlsi_attr_pool *a = l->attrs;
    r->kind = a->kind == MLSI_POOL_MAX ? MLSI_ACC_MAX : MLSI_ACC_SUM;
    r->dtype = compute_type(mlsi_lower_in(l, 0)->dtype);
    r->rank = (int32_t)a->kernel.n;
    memcpy(r->extents, a->kernel.v, sizeof r->extents[0] * (size_t)r->rank);
    return true;
}

/* What a cell outside x counts as: in the compute type, since not every float dtype has infinities. */
static int32_t outside(mlsi_lower *l) {
    mlsys_dtype t = compute_type(mlsi_lower_in(l, 0)->dtype);
    const mlsi_dtype_info *info = mlsi_dtype_get(t);
    if (((const mlsi_attr_pool *)l->attrs)->kind != MLSI_POOL_MAX)
        return mlsi_nest_float(l->n, t, 0);
    if (mlsi_dtype_is_float(t)) return mlsi_nest_float(l->n, t, -INFINITY);
    return mlsi_nest_int(l->n, t, info->is_signed ? INT64_MIN >> (64 - 8 * mlsi_dtype_size(t)) : 0);
}

void mlsi_loops_pool_term(mlsi_lower *l, const int64_t *index, const int64_t *k, int32_t value[2]) {
    const mlsi_attr_pool *a = l->attrs;
    const mlsi_type *x = mlsi_lower_in(l, 0);
    int64_t own[MLSYS_MAX_DIMS] = {index[0], index[1]};
    for (int d = 2; d < x->rank; d++) {
        int64_t first = mlsi_nest_index(l->n, '*', index[d], a->strides.v[d - 2]);
        int64_t reach = mlsi_nest_index(l->n, '*', k[d - 2], a->dilations.v[d - 2]);
        own[d] =
            mlsi_nest_index(l->n, '-', mlsi_nest_index(l->n, '+', first, reach), a->pads.v[d - 2]);
    }
    mlsi_lower_lazy(l, 1);
    int32_t v = mlsi_nest_cast(l->n, mlsi_lower_operand(l, 0, own), compute_type(x->dtype));
    mlsi_lower_lazy(l, -1);
    int32_t none = outside(l);
    for (int d = x->rank - 1; d >= 2; d--)
        v = mlsi_nest_guard(l->n, 0, own[d], x->dims[d], v, none);
    value[0] = v;
}

/* Smallest tap that reaches cell `to` of axis d, or beyond: ceil((to + low - index * stride) / dilation). */
static int64_t first_tap(mlsi_lower *l, int d, int64_t to, int64_t index) {
    const mlsi_attr_pool *a = l->attrs;
    int64_t first = mlsi_nest_index(l->n, '*', index, a->strides.v[d]);
    int64_t way = mlsi_nest_index(l->n, '-', to, first);
    way = mlsi_nest_index(l->n, '+', way, a->pads.v[d] + a->dilations.v[d] - 1);
    return mlsi_nest_index(l->n, '/', way, a->dilations.v[d]);
}

/* Taps of spatial axis d that count: those in x, with count_pad also those in its padding. */
static int32_t count_taps(mlsi_lower *l, int d, int64_t index) {
    const mlsi_attr_pool *a = l->attrs;
    int64_t extent = mlsi_lower_in(l, 0)->dims[2 + d], kernel = a->kernel.v[d];
    int64_t spatial = a->kernel.n, high = a->count_pad ? a->pads.v[spatial + d] : 0;
    if (mlsi_fault(MLSI_FAULT_LOOPS_POOL_COUNT)) high = a->pads.v[spatial + d];
    int64_t from = a->count_pad ? 0 : first_tap(l, d, 0, index), lo, hi;
    int64_t to = first_tap(l, d, mlsi_nest_index(l->n, '+', extent, high), index);
    int32_t n = mlsi_nest_int(l->n, MLSYS_I64, kernel), none = mlsi_nest_int(l->n, MLSYS_I64, 0);
    mlsi_dim_range(&l->n->tab, to, &lo, &hi);
    if (lo < kernel) n = mlsi_nest_op(l->n, MLSI_OP_MIN, 0, mlsi_nest_index_value(l->n, to), n, -1);
    mlsi_dim_range(&l->n->tab, from, &lo, &hi);
    if (hi > 0) {
        int32_t first =
            mlsi_nest_op(l->n, MLSI_OP_MAX, 0, mlsi_nest_index_value(l->n, from), none, -1);
        n = mlsi_nest_op(l->n, MLSI_OP_SUB, 0, n, first, -1);
    }
    return mlsi_nest_op(l->n, MLSI_OP_MAX, 0, n, none, -1);
}

int32_t mlsi_loops_pool_mean(mlsi_lower *l, const int64_t *index, int32_t sum) {
    const mlsi_attr_pool *a = l->attrs;
    if (a->kind != MLSI_POOL_AVERAGE) return sum;
    int32_t count = mlsi_nest_int(l->n, MLSYS_I64, 1);
    for (int d = 0; d < a->kernel.n; d++)
        count = mlsi_nest_op(l->n, MLSI_OP_MUL, 0, count, count_taps(l, d, index[2 + d]), -1);
    count = mlsi_nest_cast(l->n, count, mlsi_nest_dtype(l->n, sum));
    return mlsi_nest_op(l->n, MLSI_OP_DIV, 0, sum, count, -1);
}
