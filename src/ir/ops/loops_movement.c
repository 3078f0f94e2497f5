/* Elements of the ops that move elements by a fixed map, or make them of nothing. */
#include "ir/ops/loops.h"
#include "ir/ops/movement.h"

#include "core/faults.h"

#include <string.h>

int32_t mlsi_loops_same(mlsi_lower *l, int result, const int64_t *index) {
    (void)result;
    return mlsi_lower_operand(l, 0, index);
}

int64_t mlsi_loops_shift(mlsi_nest *n, int64_t index, int64_t by) {
    return mlsi_nest_index(n, by < 0 ? '-' : '+', index, by < 0 ? -by : by);
}

int64_t mlsi_loops_divisor(mlsi_nest *n, int64_t extent) {
    int64_t lo, hi;
    mlsi_dim_range(&n->tab, extent, &lo, &hi);
    if (lo >= 1) return extent;
    if (hi >= 1 && n->status == MLSYS_OK)
        mlsi_nest_fail(n, mlsi_fail(MLSYS_E_UNSUPPORTED,
                                    "%s: an index is divided by an extent that may be 0", n->name));
    return 1;
}

/* ---- reshape: axes in groups of equal products; inside a group by the linear number ------------------------- */

static int64_t product(mlsi_nest *n, const int64_t *dims, int from, int to) {
    int64_t p = 1;
    for (int i = from; i < to; i++)
        p = mlsi_nest_index(n, '*', p, dims[i]);
    return p;
}

typedef struct group {
    int out_from, out_to, in_from, in_to;
} group;

/* The next shortest group behind g whose products are provably equal. */
static group next_group(mlsi_nest *n, const mlsi_type *out, const mlsi_type *in, group g) {
    group best = {g.out_to, out->rank, g.in_to, in->rank};
    for (int o = g.out_to + 1; o <= out->rank; o++)
        for (int i = g.in_to + 1; i <= in->rank; i++)
            if (product(n, out->dims, g.out_to, o) == product(n, in->dims, g.in_to, i))
                return (group){g.out_to, o, g.in_to, i};
    return best;
}

static void map_group(mlsi_nest *n, const mlsi_type *out, const mlsi_type *in, group g,
                      const int64_t *index, int64_t *own) {
    if (g.out_to - g.out_from == 1 && g.in_to - g.in_from == 1) {
        own[g.in_from] = index[g.out_from];
        return;
    }
    int64_t linear = 0;
    for (int o = g.out_from; o < g.out_to; o++)
        linear = mlsi_nest_index(n, '+', mlsi_nest_index(n, '*', linear, out->dims[o]), index[o]);
    for (int i = g.in_from; i < g.in_to; i++) {
        own[i] = 0;
        if (in->dims[i] == 1) continue;
        int64_t below = mlsi_loops_divisor(n, product(n, in->dims, i + 1, g.in_to));
        own[i] = mlsi_nest_index(n, '/', linear, below);
        linear = mlsi_nest_index(n, '-', linear, mlsi_nest_index(n, '*', own[i], below));
    }
}

int32_t mlsi_loops_reshape(mlsi_lower *l, int result, const int64_t *index) {
    const mlsi_type *out = mlsi_lower_out(l, result), *in = mlsi_lower_in(l, 0);
    int64_t own[MLSYS_MAX_DIMS] = {0};
    group g = {0, 0, 0, 0};
    while (g.out_to < out->rank && g.in_to < in->rank) {
        g = next_group(l->n, out, in, g);
        map_group(l->n, out, in, g, index, own);
    }
    return mlsi_lower_operand(l, 0, own); /* axes left over have extent 1 */
}

int32_t mlsi_loops_broadcast(mlsi_lower *l, int result, const int64_t *index) {
    return mlsi_lower_broadcast(l, 0, mlsi_lower_out(l, result)->rank, index);
}

int32_t mlsi_loops_transpose(mlsi_lower *l, int result, const int64_t *index) {
    const mlsi_attr_transpose *a = l->attrs;
    int64_t own[MLSYS_MAX_DIMS];
    for (int d = 0; d < mlsi_lower_out(l, result)->rank; d++)
        own[a->perm.v[d]] = index[d];
    return mlsi_lower_operand(l, 0, own);
}

/* Index of the slice's first element, as inference clamps it; symbolic bounds were proved inside then. */
static int64_t slice_first(mlsi_nest *n, const mlsi_attr_slice *a, int d, int64_t extent) {
    int64_t start = a->starts.v[d], first, count, lo, hi, most;
    bool symbolic =
        extent < 0 || mlsi_dim_is_code(&n->tab, start) || mlsi_dim_is_code(&n->tab, a->stops.v[d]);
    if (!symbolic) {
        mlsi_slice_range(extent, start, a->stops.v[d], a->steps.v[d], &first, &count);
        return count ? first : 0;
    }
    if (a->steps.v[d] < 0) return mlsi_nest_index(n, '-', extent, 1);
    mlsi_dim_range(&n->tab, extent, &lo, &most);
    mlsi_dim_range(&n->tab, start, &lo, &hi);
    if (lo >= most) return extent;
    if (hi >= 0 || mlsi_dim_is_code(&n->tab, start)) return start;
    return hi <= -most ? 0 : mlsi_nest_index(n, '-', extent, -start);
}

/* Element i of the slice is element first + i * step. */
int32_t mlsi_loops_slice(mlsi_lower *l, int result, const int64_t *index) {
    const mlsi_attr_slice *a = l->attrs;
    const mlsi_type *in = mlsi_lower_in(l, 0), *out = mlsi_lower_out(l, result);
    int64_t own[MLSYS_MAX_DIMS];
    for (int d = 0; d < out->rank; d++) {
        int64_t first = slice_first(l->n, a, d, in->dims[d]);
        own[d] = mlsi_nest_index(
            l->n, '+', first,
            a->steps.v[d] < 0
                ? mlsi_nest_index(l->n, '-', 0,
                                  mlsi_nest_index(l->n, '*', index[d], -a->steps.v[d]))
                : mlsi_nest_index(l->n, '*', index[d], a->steps.v[d]));
    }
    return mlsi_lower_operand(l, 0, own);
}

int32_t mlsi_loops_reverse(mlsi_lower *l, int result, const int64_t *index) {
    const mlsi_attr_axes *a = l->attrs;
    const mlsi_type *t = mlsi_lower_out(l, result);
    int64_t own[MLSYS_MAX_DIMS];
    memcpy(own, index, sizeof own[0] * (size_t)t->rank);
    for (int64_t i = 0; i < a->axes.n; i++) {
        int d = (int)a->axes.v[i];
        own[d] = mlsi_nest_index(l->n, '-', mlsi_nest_index(l->n, '-', t->dims[d], 1), index[d]);
    }
    return mlsi_lower_operand(l, 0, own);
}

/* ---- pad, concat: guards ------------------------------------------------------------------------------------- */

int32_t mlsi_loops_pad(mlsi_lower *l, int result, const int64_t *index) {
    const mlsi_attr_pad *a = l->attrs;
    const mlsi_type *in = mlsi_lower_in(l, 0);
    int64_t own[MLSYS_MAX_DIMS];
    for (int d = 0; d < in->rank; d++)
        own[d] = mlsi_loops_shift(l->n, index[d], -a->low.v[d]);
    mlsi_lower_lazy(l, 1);
    int32_t y = mlsi_lower_operand(l, 0, own);
    mlsi_lower_lazy(l, -1);
    int32_t fill = mlsi_nest_float(l->n, mlsi_lower_out(l, result)->dtype, a->value);
    for (int d = in->rank - 1; d >= 0; d--)
        if (a->low.v[d] > 0 || (a->high.v[d] > 0 && !mlsi_fault(MLSI_FAULT_LOOPS_PAD_HIGH)))
            y = mlsi_nest_guard(l->n, 0, own[d], in->dims[d], y, fill);
    return y;
}

/* From the last operand to the first: each takes what lies before its end. */
int32_t mlsi_loops_concat(mlsi_lower *l, int result, const int64_t *index) {
    int64_t axis = ((const mlsi_attr_axis *)l->attrs)->axis, own[MLSYS_MAX_DIMS];
    const mlsi_type *out = mlsi_lower_out(l, result);
    int64_t end = out->dims[axis];
    int32_t y = mlsi_nest_int(l->n, out->dtype, 0); /* never chosen */
    memcpy(own, index, sizeof own[0] * (size_t)out->rank);
    if (l->node->n_in == 1) return mlsi_lower_operand(l, 0, index);
    mlsi_lower_lazy(l, 1);
    for (int i = l->node->n_in - 1; i >= 0; i--) {
        int64_t first = mlsi_nest_index(l->n, '-', end, mlsi_lower_in(l, i)->dims[axis]);
        own[axis] = mlsi_nest_index(l->n, '-', index[axis], first);
        if (mlsi_lower_in(l, i)->dims[axis] != 0)
            y = mlsi_nest_guard(l->n, first, index[axis], end, mlsi_lower_operand(l, i, own), y);
        end = mlsi_fault(MLSI_FAULT_LOOPS_CONCAT_END) && i == 1 ? end : first;
    }
    mlsi_lower_lazy(l, -1);
    return y;
}

/* ---- creation ----------------------------------------------------------------------------------------------- */

int32_t mlsi_loops_iota(mlsi_lower *l, int result, const int64_t *index) {
    const mlsi_attr_iota *a = l->attrs;
    return mlsi_nest_cast(l->n, mlsi_nest_index_value(l->n, index[a->axis]),
                          mlsi_lower_out(l, result)->dtype);
}

int32_t mlsi_loops_full(mlsi_lower *l, int result, const int64_t *index) {
    const mlsi_attr_full *a = l->attrs;
    mlsys_dtype t = mlsi_lower_out(l, result)->dtype;
    (void)index;
    return mlsi_dtype_is_float(t) ? mlsi_nest_float(l->n, t, a->value)
                                  : mlsi_nest_int(l->n, t, a->ivalue);
}

/* Element i of the row-major order is number i of the stream. */
int32_t mlsi_loops_random(mlsi_lower *l, int result, const int64_t *index) {
    const mlsi_attr_random *a = l->attrs;
    const mlsi_type *t = mlsi_lower_out(l, result);
    int64_t at = 0;
    for (int d = 0; d < t->rank; d++)
        at = mlsi_nest_index(l->n, '+', mlsi_nest_index(l->n, '*', at, t->dims[d]), index[d]);
    int32_t key = mlsi_lower_operand(l, 0, NULL), stream = mlsi_lower_operand(l, 1, NULL);
    return mlsi_nest_random(l->n, key, stream, at, (int)a->kind, t->dtype);
}
