/* Checks that several ops' type inference shares. */
#include "core/faults.h"
#include "ir/ops/movement.h"
#include "ir/ops/op_def.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Name of operand i in "x, w, bias?" or "x..."; the last name repeats. */
static void operand_name(const char *names, int i, char *buf, size_t cap) {
    const char *p = names ? names : "";
    for (int k = 0; k < i; k++) {
        const char *comma = strchr(p, ',');
        if (!comma) break;
        p = comma + 1;
    }
    while (*p == ' ')
        p++;
    size_t n = strcspn(p, ",?. ");
    if (n >= cap) n = cap - 1;
    memcpy(buf, p, n);
    buf[n] = 0;
}

mlsys_status mlsi_infer_fail(const mlsi_infer *t, mlsys_status code, int operand,
                             const char *format, ...) {
    char why[512], name[40];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    if (operand < 0) return mlsi_fail(code, "%s: %s", t->op, why);
    operand_name(t->def->operands, operand, name, sizeof name);
    return mlsi_fail(code, "%s: operand %d (%s): %s", t->op, operand, name, why);
}

mlsys_status mlsi_infer_class(const mlsi_infer *t, int operand, unsigned classes) {
    static const char *const names[] = {[MLSI_CLASS_FLOAT] = "float",
                                        [MLSI_CLASS_INT] = "int",
                                        [MLSI_CLASS_BOOL] = "bool",
                                        [MLSI_CLASS_BLOCK] = "block"};
    const mlsi_dtype_info *info = mlsi_dtype_get(t->in[operand].dtype);
    char want[64] = "";
    if (info && classes >> info->class_ & 1) return MLSYS_OK;
    for (int c = MLSI_CLASS_FLOAT; c <= MLSI_CLASS_BLOCK; c++) {
        if (!(classes >> c & 1)) continue;
        if (want[0]) strcat(want, " or ");
        strcat(want, names[c]);
    }
    return mlsi_infer_fail(t, MLSYS_E_DTYPE, operand, "dtype %s, expected %s",
                           info ? info->name : "absent", want);
}

mlsys_status mlsi_infer_same_dtype(const mlsi_infer *t, int a, int b) {
    if (t->in[a].dtype == t->in[b].dtype) return MLSYS_OK;
    const mlsi_dtype_info *x = mlsi_dtype_get(t->in[a].dtype), *y = mlsi_dtype_get(t->in[b].dtype);
    return mlsi_infer_fail(t, MLSYS_E_DTYPE, b, "dtype %s, expected %s", y ? y->name : "absent",
                           x ? x->name : "absent");
}

mlsys_status mlsi_infer_axis(const mlsi_infer *t, const char *what, int64_t rank, int64_t *axis) {
    if (*axis < -rank || *axis >= rank)
        return mlsi_infer_fail(t, MLSYS_E_ARG, t->n_in ? 0 : -1, "%s %lld outside [%lld,%lld)",
                               what, (long long)*axis, (long long)-rank, (long long)rank);
    if (*axis < 0) *axis += rank;
    return MLSYS_OK;
}

static mlsys_status broadcast_fail(const mlsi_infer *t, int i, int axis, int64_t have,
                                   const mlsi_type *so_far) {
    char a[64], b[64], mine[160], other[160];
    return mlsi_infer_fail(t, MLSYS_E_SHAPE, i,
                           "extent %s against %s at axis %d of the result: %s does not broadcast "
                           "with %s",
                           mlsi_dim_text(t->symbols, have, a, sizeof a),
                           mlsi_dim_text(t->symbols, so_far->dims[axis], b, sizeof b), axis,
                           mlsi_type_text(t->symbols, &t->in[i], mine, sizeof mine),
                           mlsi_type_text(t->symbols, so_far, other, sizeof other));
}

mlsys_status mlsi_infer_broadcast(const mlsi_infer *t, int first, int n, mlsi_type *out) {
    mlsi_type r = {.dtype = t->in[first].dtype};
    for (int i = first; i < first + n; i++)
        if (t->in[i].dtype && t->in[i].rank > r.rank) r.rank = t->in[i].rank;
    for (int d = 0; d < r.rank; d++)
        r.dims[d] = 1;
    for (int i = first; i < first + n; i++) {
        const mlsi_type *x = &t->in[i];
        if (!x->dtype) continue;
        int shift = r.rank - x->rank;
        for (int d = 0; d < x->rank; d++) {
            int64_t *have = &r.dims[d + shift];
            if (x->dims[d] == *have || x->dims[d] == 1) continue;
            if (*have != 1 && !mlsi_fault(MLSI_FAULT_OPS_BROADCAST_TYPE))
                return broadcast_fail(t, i, d + shift, x->dims[d], &r);
            *have = x->dims[d];
        }
    }
    *out = r;
    return MLSYS_OK;
}

mlsys_status mlsi_infer_product(const mlsi_infer *t, const int64_t *dims, int n, int64_t *out) {
    *out = 1;
    for (int i = 0; i < n; i++)
        MLSI_TRY(mlsi_dim_op(t->symbols, '*', *out, dims[i], out));
    return MLSYS_OK;
}

mlsys_status mlsi_infer_extent(const mlsi_infer *t, const char *what, int64_t dim) {
    int64_t lo, hi;
    char text[128];
    mlsi_dim_range(t->symbols, dim, &lo, &hi);
    if (lo >= 0) return MLSYS_OK;
    return mlsi_infer_fail(t, MLSYS_E_SHAPE, -1, "%s: extent %s may be negative (%lld)", what,
                           mlsi_dim_text(t->symbols, dim, text, sizeof text), (long long)lo);
}

mlsys_status mlsi_infer_addend(const mlsi_infer *t, int operand) {
    char a[160], b[160];
    if (t->n_in <= operand || !t->in[operand].dtype) return MLSYS_OK;
    const mlsi_type *have = &t->in[operand], *want = &t->out[0];
    if (mlsi_type_equal(have, want)) return MLSYS_OK;
    return mlsi_infer_fail(t, have->dtype != want->dtype ? MLSYS_E_DTYPE : MLSYS_E_SHAPE, operand,
                           "%s, expected %s", mlsi_type_text(t->symbols, have, a, sizeof a),
                           mlsi_type_text(t->symbols, want, b, sizeof b));
}

mlsys_status mlsi_infer_list_length(const mlsi_infer *t, const char *what, const mlsi_list *l,
                                    int64_t n) {
    if (l->n == n) return MLSYS_OK;
    return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "attribute %s: %lld entries, rank is %lld", what,
                           (long long)l->n, (long long)n);
}

/* Distinct axes, made non-negative and sorted. */
mlsys_status mlsi_infer_axes(const mlsi_infer *t, const char *what, int64_t rank, mlsi_list *axes) {
    if (axes->n < 0 || axes->n > MLSI_LIST_CAP)
        return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "attribute %s: %lld entries", what,
                               (long long)axes->n);
    for (int64_t i = 0; i < axes->n; i++) {
        MLSI_TRY(mlsi_infer_axis(t, what, rank, &axes->v[i]));
        int64_t v = axes->v[i], j = i;
        for (; j > 0 && axes->v[j - 1] >= v; j--) {
            if (axes->v[j - 1] == v)
                return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "attribute %s: %lld is named twice",
                                       what, (long long)v);
            axes->v[j] = axes->v[j - 1];
        }
        axes->v[j] = v;
    }
    return MLSYS_OK;
}

mlsys_status mlsi_infer_shape(const mlsi_infer *t, const char *what, const mlsi_list *shape,
                              mlsi_type *out) {
    if (shape->n < 0 || shape->n > MLSYS_MAX_DIMS)
        return mlsi_infer_fail(t, MLSYS_E_SHAPE, -1, "attribute %s: rank %lld outside [0,%d]", what,
                               (long long)shape->n, MLSYS_MAX_DIMS);
    out->rank = (int32_t)shape->n;
    for (int i = 0; i < out->rank; i++) {
        if (!mlsi_dim_valid(t->symbols, shape->v[i]))
            return mlsi_infer_fail(t, MLSYS_E_SHAPE, -1, "attribute %s: entry %d is %lld", what, i,
                                   (long long)shape->v[i]);
        MLSI_TRY(mlsi_infer_extent(t, what, shape->v[i]));
        out->dims[i] = shape->v[i];
    }
    return MLSYS_OK;
}
