/* Loops of scan: one pass along the axis. A level k keeps the running chain of its segment and the inclusive result of
 * the segments before; what a segment of level k comes to is an element of level k + 1 (docs/numerics.md, "Sums"). */
#include "ir/ops/loops.h"

#include "core/dtype.h"
#include "core/faults.h"

#include <math.h>
#include <string.h>

enum { SEGMENT = 64, MOST_LEVELS = 12 }; /* 64^11 > 2^63 */

typedef struct scan_state {
    mlsi_lower *l;
    mlsi_op op;
    mlsys_dtype dtype; /* of the chains */
    int levels;
    int32_t chain[MOST_LEVELS], before[MOST_LEVELS], last; /* buffers of one element */
} scan_state;

static mlsi_op op_of(int64_t kind) {
    switch (kind) {
    case MLSI_SCAN_SUM: return MLSI_OP_ADD;
    case MLSI_SCAN_PROD: return MLSI_OP_MUL;
    case MLSI_SCAN_MAX: return MLSI_OP_MAX;
    default: return MLSI_OP_MIN;
    }
}

static int32_t identity(mlsi_nest *n, int64_t kind, mlsys_dtype t) {
    int bits = 8 * mlsi_dtype_size(t);
    bool is_signed = mlsi_dtype_get(t)->is_signed, is_float = mlsi_dtype_is_float(t);
    int64_t most = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - (is_signed ? 1 : 0))) - 1;
    switch (kind) {
    case MLSI_SCAN_SUM: return mlsi_nest_float(n, t, 0);
    case MLSI_SCAN_PROD: return mlsi_nest_float(n, t, 1);
    case MLSI_SCAN_MAX:
        if (is_float) return mlsi_nest_float(n, t, -INFINITY);
        return mlsi_nest_int(n, t, is_signed ? -most - 1 : 0);
    default: return is_float ? mlsi_nest_float(n, t, INFINITY) : mlsi_nest_int(n, t, most);
    }
}

/* Buffers hold one element: no subscript. */
static int32_t cell(scan_state *s, const char *name) {
    return mlsi_nest_local(s->l->n, name, s->dtype, 0, NULL);
}

/* Element x with number i of level k; its inclusive result over all of the level. Where a later segment will need it,
 * the result goes up a level first. */
static int32_t step(scan_state *s, int k, int64_t i, int32_t x) {
    mlsi_nest *n = s->l->n;
    int64_t within = mlsi_nest_index(n, '%', i, SEGMENT);
    int32_t chain = mlsi_nest_op(n, s->op, s->dtype, mlsi_nest_load(n, s->chain[k], NULL), x, -1);
    if (mlsi_fault(MLSI_FAULT_LOOPS_SCAN_CHAIN)) within = i;
    chain = mlsi_nest_let(n, "chain", mlsi_nest_guard(n, 1, within, INT64_MAX, chain, x));
    mlsi_nest_store(n, s->chain[k], NULL, chain);
    if (k + 1 == s->levels) return chain;
    int32_t y = mlsi_nest_op(n, s->op, s->dtype, mlsi_nest_load(n, s->before[k], NULL), chain, -1);
    y = mlsi_nest_let(n, "scanned", mlsi_nest_guard(n, SEGMENT, i, INT64_MAX, y, chain));
    mlsi_nest_if_range(n, SEGMENT - 1, within, SEGMENT);
    int32_t up = step(s, k + 1, mlsi_nest_index(n, '/', i, SEGMENT), chain);
    mlsi_nest_store(n, s->before[k], NULL, up);
    mlsi_nest_end(n);
    return y;
}

static void scan_row(scan_state *s, int64_t extent, int64_t *index) {
    const mlsi_attr_scan *a = s->l->attrs;
    mlsi_nest *n = s->l->n;
    mlsys_dtype t = mlsi_lower_out(s->l, 0)->dtype;
    for (int k = 0; k < s->levels; k++) {
        s->chain[k] = cell(s, "chain");
        s->before[k] = k + 1 < s->levels ? cell(s, "before") : -1;
    }
    if (a->exclusive) s->last = cell(s, "last");
    int64_t i = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "i", extent);
    index[a->axis] = i;
    if (a->reverse) index[a->axis] = mlsi_nest_index(n, '-', mlsi_nest_index(n, '-', extent, 1), i);
    int32_t x = mlsi_nest_cast(n, mlsi_lower_operand(s->l, 0, index), s->dtype);
    if (a->exclusive) {
        int32_t y = mlsi_nest_cast(n, mlsi_nest_load(n, s->last, NULL), t);
        y = mlsi_nest_guard(n, 1, i, INT64_MAX, y, identity(n, a->kind, t));
        mlsi_lower_result(s->l, 0, index, y);
        mlsi_nest_store(n, s->last, NULL, step(s, 0, i, x));
    } else {
        mlsi_lower_result(s->l, 0, index, step(s, 0, i, x));
    }
    mlsi_nest_end(n);
}

mlsys_status mlsi_loops_scan(mlsi_lower *l) {
    const mlsi_attr_scan *a = l->attrs;
    const mlsi_type *x = mlsi_lower_in(l, 0);
    bool narrow = mlsi_dtype_is_float(x->dtype) && x->dtype != MLSYS_F64;
    scan_state s = {.l = l, .op = op_of(a->kind), .dtype = narrow ? MLSYS_F32 : x->dtype};
    int64_t index[MLSYS_MAX_DIMS], lo, hi;
    mlsi_dim_range(&l->n->tab, x->dims[a->axis], &lo, &hi);
    for (s.levels = 1; hi > SEGMENT; s.levels++)
        hi = (hi - 1) / SEGMENT + 1;
    for (int d = 0; d < x->rank; d++)
        if (d != a->axis) index[d] = mlsi_nest_for(l->n, MLSI_LOOP_SERIAL, "i", x->dims[d]);
    scan_row(&s, x->dims[a->axis], index);
    for (int d = 1; d < x->rank; d++)
        mlsi_nest_end(l->n);
    return l->n->status;
}
