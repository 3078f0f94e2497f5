/* What may be in lanes, and numbers of lanes.
 *
 * A value in lanes is a register of f32, i32 or truth values. Positions are 64-bit integers and are never in a register: a let
 * that names one that moves with the lanes stays a name for its index expression, and what compares it or makes a
 * narrower number of it counts from lane 0. */
#include "ir/codegen/c_writer.h"

#include "core/faults.h"

static bool is_f8(mlsys_dtype t) { return t == MLSYS_F8E4M3 || t == MLSYS_F8E5M2; }

bool mlsi_c_varies(const mlsi_c_writer *w, int32_t expr) {
    const mlsi_lx *x = &w->n->exprs[expr];
    int64_t stride;
    if (w->vector_var < 0) return false;
    switch (x->kind) {
    case MLSI_LX_CONST: return false;
    case MLSI_LX_LET: return w->let_is_vector[x->ref];
    case MLSI_LX_ACC: return w->acc_is_vector[x->ref];
    case MLSI_LX_LOAD:
        return mlsi_c_access_of(w->n, x->ref, x->index, w->vector_var) != MLSI_C_SAME;
    case MLSI_LX_INDEX: return !mlsi_c_stride(w->n, x->index[0], w->vector_var, &stride) || stride;
    default: break;
    }
    for (int i = 0; i < x->n_index; i++)
        if (!mlsi_c_stride(w->n, x->index[i], w->vector_var, &stride) || stride) return true;
    for (int i = 0; i < x->n_args; i++)
        if (mlsi_c_varies(w, x->args[i])) return true;
    return false;
}

/* ---- positions --------------------------------------------------------------------------------------------- */

/* Is expr the number base + stride * lane, base an index expression and stride 1, or any scalar and stride 0? */
static bool counts_lanes(const mlsi_c_writer *w, int32_t expr, int64_t *stride) {
    const mlsi_lx *x = &w->n->exprs[expr];
    *stride = 0;
    if (x->dtype != MLSYS_I64) return false;
    if (!mlsi_c_varies(w, expr)) return true;
    if (x->kind == MLSI_LX_LET && w->let_index[x->ref] >= 0) x = &w->n->exprs[w->let_index[x->ref]];
    return x->kind == MLSI_LX_INDEX && mlsi_c_stride(w->n, x->index[0], w->vector_var, stride) &&
           *stride == 1;
}

static int64_t index_of(const mlsi_c_writer *w, int32_t expr) {
    const mlsi_lx *x = &w->n->exprs[expr];
    if (x->kind == MLSI_LX_LET) x = &w->n->exprs[w->let_index[x->ref]];
    return x->index[0];
}

/* The comparison of a lane's number with a bound, in i32. */
static const char *comparison(mlsi_op op) {
    switch (op) {
    case MLSI_OP_EQ: return "vi_eq(";
    case MLSI_OP_NE: return "vm_not(vi_eq(";
    case MLSI_OP_LT: return "vi_lt(";
    case MLSI_OP_LE: return "vm_not(vi_gt(";
    case MLSI_OP_GT: return "vi_gt(";
    case MLSI_OP_GE: return "vm_not(vi_lt(";
    default: return NULL;
    }
}

bool mlsi_c_is_index_op(const mlsi_c_writer *w, const mlsi_lx *x) {
    int64_t a, b, lo, hi;
    if (x->op != MLSI_OP_CAST)
        return comparison(x->op) && counts_lanes(w, x->args[0], &a) &&
               counts_lanes(w, x->args[1], &b);
    if (!counts_lanes(w, x->args[0], &a) || !mlsi_c_varies(w, x->args[0])) return false;
    mlsi_dim_range(&w->n->tab, index_of(w, x->args[0]), &lo, &hi);
    return x->dtype == MLSYS_I32 || (x->dtype == MLSYS_F32 && lo >= INT32_MIN && hi <= INT32_MAX);
}

static const char *lane_numbers(int64_t stride) {
    if (mlsi_fault(MLSI_FAULT_C_LANE_NUMBER)) stride = 0;
    return stride > 0 ? "vi_iota()" : stride < 0 ? "vi_sub(vi_zero(), vi_iota())" : "vi_zero()";
}

/* The number of lane 0. */
static void base(mlsi_c_writer *w, int32_t expr) {
    if (mlsi_c_varies(w, expr))
        mlsi_c_index(w, index_of(w, expr));
    else
        mlsi_c_scalar(w, expr);
}

void mlsi_c_index_op(mlsi_c_writer *w, const mlsi_lx *x) {
    int64_t a, b = 0;
    const char *compare = comparison(x->op);
    (void)counts_lanes(w, x->args[0], &a);
    if (!compare) {
        mlsi_text_add(w->out, "%svi_add(vi_set1((int32_t)",
                      x->dtype == MLSYS_F32 ? "vi_cvt_f(" : "");
        base(w, x->args[0]);
        mlsi_text_add(w->out, "), %s)%s", lane_numbers(a), x->dtype == MLSYS_F32 ? ")" : "");
        return;
    }
    (void)counts_lanes(w, x->args[1], &b);
    mlsi_text_add(w->out, "%s%s, vi_set1(%s(", compare, lane_numbers(a - b),
                  mlsi_fault(MLSI_FAULT_C_LANE_BOUND) ? "(int32_t)wrap_sub" : "ml_lane_bound");
    base(w, x->args[1]);
    mlsi_text_add(w->out, ", ");
    base(w, x->args[0]);
    mlsi_text_add(w->out, compare[1] == 'm' ? "))))" : ")))");
}

void mlsi_c_define_let(mlsi_c_writer *w, const mlsi_ls *s) {
    int64_t stride;
    bool vector = mlsi_c_varies(w, s->value);
    w->let_is_vector[s->ref] = vector;
    w->let_index[s->ref] = -1;
    if (!vector || !counts_lanes(w, s->value, &stride)) return;
    const mlsi_lx *x = &w->n->exprs[s->value];
    w->let_index[s->ref] = x->kind == MLSI_LX_LET ? w->let_index[x->ref] : s->value;
}

/* ---- may this be in lanes? ---------------------------------------------------------------------------------------- */

static bool value_fits(mlsi_c_writer *w, int32_t expr) {
    const mlsi_lx *x = &w->n->exprs[expr];
    int64_t stride;
    if (!mlsi_c_varies(w, expr)) return true;
    if (mlsi_c_class_of(x->dtype) == MLSI_C_F64 || x->dtype == MLSYS_I64 || x->dtype == MLSYS_I16 ||
        is_f8(x->dtype))
        return false;
    switch (x->kind) {
    case MLSI_LX_LOAD:
        return mlsi_c_load_name(x->dtype) &&
               mlsi_c_access_of(w->n, x->ref, x->index, w->vector_var) == MLSI_C_UNIT;
    case MLSI_LX_LET:
    case MLSI_LX_ACC: return true;
    case MLSI_LX_GUARD: /* one condition for all lanes */
        for (int i = 0; i < 3; i++)
            if (!mlsi_c_stride(w->n, x->index[i], w->vector_var, &stride) || stride) return false;
        return value_fits(w, x->args[0]) && value_fits(w, x->args[1]);
    case MLSI_LX_OP: break;
    default: return false;
    }
    if (mlsi_c_is_index_op(w, x)) return true;
    mlsys_dtype from = mlsi_c_args_dtype(w->n, x);
    bool wraps = mlsi_c_class_of(from) != MLSI_C_INT || from == MLSYS_I32; /* at the lanes' width */
    if (!wraps && x->op != MLSI_OP_CAST) return false;
    bool texts = x->op == MLSI_OP_CAST ? mlsi_c_casts_in_lanes(from, x->dtype)
                                       : mlsi_c_op(x->op, mlsi_c_class_of(from), true) != NULL;
    for (int i = 0; texts && i < x->n_args; i++)
        texts = value_fits(w, x->args[i]) &&
                mlsi_c_class_of(w->n->exprs[x->args[i]].dtype) != MLSI_C_F64;
    return texts;
}

static bool stmt_fits(mlsi_c_writer *w, const mlsi_ls *s) {
    int64_t stride;
    switch (s->kind) {
    case MLSI_LS_LET:
        mlsi_c_define_let(w, s);
        return w->let_index[s->ref] >= 0 || value_fits(w, s->value);
    case MLSI_LS_STORE:
        return mlsi_c_store_name(w->n->buffers[s->ref].dtype) && value_fits(w, s->value) &&
               mlsi_c_access_of(w->n, s->ref, s->index, w->vector_var) == MLSI_C_UNIT;
    case MLSI_LS_FOR:
        if (!mlsi_c_stride(w->n, w->n->vars[s->var].extent, w->vector_var, &stride) || stride)
            return false;
        return mlsi_c_fits_lanes(w, s->body, w->vector_var);
    case MLSI_LS_ACC: {
        const mlsi_acc *a = &w->n->accs[s->ref];
        w->acc_is_vector[s->ref] = true;
        return a->dtype == MLSYS_F32 && a->kind <= MLSI_ACC_MIN &&
               (a->init < 0 || value_fits(w, a->init));
    }
    case MLSI_LS_ADD:
        if (!value_fits(w, s->value) || (s->value2 >= 0 && !value_fits(w, s->value2))) return false;
        if (w->acc_is_vector[s->ref])
            return mlsi_c_stride(w->n, s->index[0], w->vector_var, &stride) && stride == 0;
        /* terms in lanes: one loop gives all positions, from 0 */
        return w->n->accs[s->ref].dtype == MLSYS_F32 && w->n->accs[s->ref].kind <= MLSI_ACC_MIN &&
               w->n->accs[s->ref].kind != MLSI_ACC_DOT &&
               s->index[0] == w->n->vars[w->vector_var].code &&
               w->n->accs[s->ref].count == w->n->vars[w->vector_var].extent;
    default: return false;
    }
}

bool mlsi_c_fits_lanes(mlsi_c_writer *w, int32_t first, int32_t var) {
    int32_t outer = w->vector_var;
    bool fits = true;
    w->vector_var = var;
    for (int32_t s = first; fits && s >= 0; s = w->n->stmts[s].next)
        fits = stmt_fits(w, &w->n->stmts[s]);
    w->vector_var = outer;
    return fits;
}
