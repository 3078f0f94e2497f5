/* Rules of scalar expressions. */
#include "core/dtype.h"
#include "core/faults.h"
#include "ir/loop/verify.h"
#include "ir/ops/op_def.h"

#include <string.h>

enum { DEEPEST = 2000 }; /* of expressions in expressions: they are walked by recursion */

static const char *dtype_text(mlsys_dtype t) {
    const mlsi_dtype_info *info = mlsi_dtype_get(t);
    return info ? info->name : "nothing";
}

static bool is_element(mlsys_dtype t) { return mlsi_dtype_get(t) && !mlsi_dtype_is_block(t); }

mlsys_status mlsi_check_index(const mlsi_checker *c, int64_t index) {
    const mlsi_symtab *t = &c->n->tab;
    if (index < 0 && !mlsi_dim_is_code(t, index))
        return mlsi_checker_fail(c, "%lld is no index expression", (long long)index);
    mlsi_expr e = mlsi_expr_of(t, index);
    for (int i = 0; i < e.n; i++)
        for (int j = 0; j < e.terms[i].n; j++) {
            const mlsi_atom *atom = &t->atoms[e.terms[i].atoms[j]];
            if (atom->op) {
                MLSI_TRY(mlsi_check_index(c, atom->a));
                MLSI_TRY(mlsi_check_index(c, atom->b));
            } else if (!c->symbols[atom->symbol]) {
                return mlsi_checker_fail(c, "%s is not defined here",
                                         t->symbols[atom->symbol].name);
            }
        }
    return MLSYS_OK;
}

static mlsys_status check_indices(const mlsi_checker *c, int n, const int64_t *index) {
    for (int i = 0; i < n; i++)
        MLSI_TRY(mlsi_check_index(c, index[i]));
    return MLSYS_OK;
}

mlsys_status mlsi_check_access(const mlsi_checker *c, int32_t buffer, int32_t n_index,
                               const int64_t *index) {
    if (buffer < 0 || buffer >= c->n->n_buffers)
        return mlsi_checker_fail(c, "there is no buffer %d", (int)buffer);
    const mlsi_loop_buffer *b = &c->n->buffers[buffer];
    if (c->buffers[buffer] != MLSI_NAME_KNOWN)
        return mlsi_checker_fail(c, "buffer %s is not allocated here", b->name);
    if (b->scope == MLSI_SCOPE_LOCAL && c->owner[buffer] != mlsi_checker_thread(c, false) &&
        !mlsi_fault(MLSI_FAULT_NEST_LOCAL))
        return mlsi_checker_fail(c, "%s is memory of another thread", b->name);
    if (mlsi_dtype_is_block(b->dtype))
        return mlsi_checker_fail(c, "%s has blocks, which are read by bytes", b->name);
    if (n_index != b->rank)
        return mlsi_checker_fail(c, "%d subscripts for %s, which has rank %d", (int)n_index,
                                 b->name, (int)b->rank);
    return check_indices(c, n_index, index);
}

/* ---- one expression --------------------------------------------------------------------------------------- */

static mlsys_status check_const(const mlsi_checker *c, const mlsi_lx *x) {
    int size = mlsi_dtype_size(x->dtype);
    if (size < 8 && x->bits >> (8 * size))
        return mlsi_checker_fail(c, "a constant has more bits than %s", dtype_text(x->dtype));
    if (x->dtype == MLSYS_BOOL && x->bits > 1)
        return mlsi_checker_fail(c, "a constant of bool is neither 0 nor 1");
    return MLSYS_OK;
}

/* The dtype is what the op's own inference gives for scalars. */
static mlsys_status check_op(mlsi_checker *c, const mlsi_lx *x) {
    _Alignas(16) char attrs[1024];
    mlsi_type in[3] = {{.rank = 0}}, out = {.rank = 0};
    if (x->op < 0 || x->op >= MLSI_OP_COUNT)
        return mlsi_checker_fail(c, "there is no op %d", (int)x->op);
    const mlsi_op_def *def = mlsi_op_get(x->op);
    if (!(def->traits & MLSI_TRAIT_ELEMENTWISE) || !def->ref || def->max_out != 1)
        return mlsi_checker_fail(c, "%s is no elementwise op with a meaning of its own",
                                 mlsi_op_name(x->op));
    if (x->n_args < def->min_in || x->n_args > def->max_in || x->n_args > 3)
        return mlsi_checker_fail(c, "%s has %d arguments", mlsi_op_name(x->op), (int)x->n_args);
    mlsi_attrs_default(def, attrs);
    if (x->op == MLSI_OP_CAST || x->op == MLSI_OP_BITCAST)
        ((mlsi_attr_cast *)(void *)attrs)->dtype = x->dtype;
    for (int i = 0; i < x->n_args; i++)
        in[i].dtype = c->n->exprs[x->args[i]].dtype;
    mlsi_infer t = {.symbols = &c->none,
                    .def = def,
                    .op = mlsi_op_name(x->op),
                    .attrs = attrs,
                    .n_in = x->n_args,
                    .n_out = 1,
                    .in = in,
                    .out = &out};
    if (def->infer(&t) != MLSYS_OK) return mlsi_checker_fail(c, "%s", mlsys_last_error());
    if (out.rank || out.dtype != x->dtype)
        return mlsi_checker_fail(c, "%s gives %s, not %s", mlsi_op_name(x->op),
                                 dtype_text(out.dtype), dtype_text(x->dtype));
    return MLSYS_OK;
}

static mlsys_status check_known(const mlsi_checker *c, const char *what, int32_t ref, int64_t count,
                                const uint8_t *known) {
    if (ref < 0 || ref >= count) return mlsi_checker_fail(c, "there is no %s %d", what, (int)ref);
    if (known[ref] != MLSI_NAME_KNOWN && !mlsi_fault(MLSI_FAULT_NEST_SCOPE))
        return mlsi_checker_fail(c, "%s %d is not defined here", what, (int)ref);
    return MLSYS_OK;
}

static mlsys_status check_dtype(const mlsi_checker *c, const char *what, mlsys_dtype have,
                                mlsys_dtype want) {
    if (have == want || mlsi_fault(MLSI_FAULT_NEST_DTYPE)) return MLSYS_OK;
    return mlsi_checker_fail(c, "%s is %s, not %s", what, dtype_text(have), dtype_text(want));
}

static mlsys_status check_random(const mlsi_checker *c, const mlsi_lx *x) {
    bool bits = x->bits == MLSI_RANDOM_BITS;
    if (x->n_args != 2 || x->n_index != 1 || x->bits > MLSI_RANDOM_NORMAL)
        return mlsi_checker_fail(c, "random needs a key, a stream, a position and a kind");
    for (int i = 0; i < 2; i++)
        MLSI_TRY(check_dtype(c, i ? "a random stream" : "a random key",
                             c->n->exprs[x->args[i]].dtype, MLSYS_I64));
    if (bits ? !mlsi_dtype_is_int(x->dtype) : x->dtype != MLSYS_F32 && x->dtype != MLSYS_F64)
        return mlsi_checker_fail(c, "random numbers of %s", dtype_text(x->dtype));
    return check_indices(c, 1, x->index);
}

static mlsys_status check_shuffle(const mlsi_checker *c, const mlsi_lx *x) {
    MLSI_TRY(check_known(c, "let", x->ref, c->n->n_lets, c->lets));
    MLSI_TRY(check_dtype(c, "a shuffled let", c->n->lets[x->ref].dtype, x->dtype));
    for (int i = 0; i < c->n_loops; i++)
        if (c->n->stmts[c->loops[i]].loop == MLSI_LOOP_LANE && c->let_lane[x->ref] == c->loops[i])
            return x->n_index == 1 ? check_indices(c, 1, x->index)
                                   : mlsi_checker_fail(c, "a shuffle needs a lane");
    return mlsi_checker_fail(c, "a shuffle of a let that no LANE loop around defines");
}

static mlsys_status check_kind(mlsi_checker *c, const mlsi_lx *x) {
    const mlsi_nest *n = c->n;
    switch (x->kind) {
    case MLSI_LX_CONST: return check_const(c, x);
    case MLSI_LX_INDEX:
        MLSI_TRY(check_dtype(c, "an index", x->dtype, MLSYS_I64));
        return x->n_index == 1 ? check_indices(c, 1, x->index)
                               : mlsi_checker_fail(c, "an index value has %d indices", x->n_index);
    case MLSI_LX_LOAD:
        MLSI_TRY(mlsi_check_access(c, x->ref, x->n_index, x->index));
        return check_dtype(c, n->buffers[x->ref].name, n->buffers[x->ref].dtype, x->dtype);
    case MLSI_LX_OP: return check_op(c, x);
    case MLSI_LX_LET:
        MLSI_TRY(check_known(c, "let", x->ref, n->n_lets, c->lets));
        return check_dtype(c, n->lets[x->ref].name, n->lets[x->ref].dtype, x->dtype);
    case MLSI_LX_ACC:
        MLSI_TRY(check_known(c, "accumulator", x->ref, n->n_accs, c->accs));
        return check_dtype(c, n->accs[x->ref].name, mlsi_acc_result(&n->accs[x->ref]), x->dtype);
    case MLSI_LX_GUARD:
        if (x->n_args != 2 || x->n_index != 3)
            return mlsi_checker_fail(c, "a guard needs lo, index, hi and two arguments");
        for (int i = 0; i < 2; i++)
            MLSI_TRY(check_dtype(c, "a guard's argument", n->exprs[x->args[i]].dtype, x->dtype));
        return check_indices(c, 3, x->index);
    case MLSI_LX_RANDOM: return check_random(c, x);
    case MLSI_LX_SHUFFLE: return check_shuffle(c, x);
    }
    return mlsi_checker_fail(c, "there is no expression kind %d", (int)x->kind);
}

static mlsys_status check_expr(mlsi_checker *c, int32_t value, int depth) {
    if (value < 0 || value >= c->n->n_exprs)
        return mlsi_checker_fail(c, "there is no expression %d", (int)value);
    if (c->checked[value] == c->stmt + 1) return MLSYS_OK;
    if (c->open[value]) return mlsi_checker_fail(c, "expression %d is part of itself", (int)value);
    if (depth == DEEPEST)
        return mlsi_checker_fail(c, "expressions nest deeper than %d", (int)DEEPEST);
    const mlsi_lx *x = &c->n->exprs[value];
    if (!is_element(x->dtype))
        return mlsi_checker_fail(c, "expression %d has dtype %s", (int)value, dtype_text(x->dtype));
    if (x->n_args < 0 || x->n_args > 3 || x->n_index < 0 || x->n_index > MLSYS_MAX_DIMS)
        return mlsi_checker_fail(c, "expression %d has %d arguments and %d indices", (int)value,
                                 (int)x->n_args, (int)x->n_index);
    c->open[value] = 1;
    mlsys_status st = MLSYS_OK;
    for (int i = 0; i < x->n_args && st == MLSYS_OK; i++)
        st = check_expr(c, x->args[i], depth + 1);
    if (st == MLSYS_OK) st = check_kind(c, x);
    c->open[value] = 0;
    c->checked[value] = c->stmt + 1;
    return st;
}

mlsys_status mlsi_check_value(mlsi_checker *c, int32_t value, mlsys_dtype dtype) {
    MLSI_TRY(check_expr(c, value, 0));
    return dtype ? check_dtype(c, "the value", c->n->exprs[value].dtype, dtype) : MLSYS_OK;
}
