/* Index expressions as integers of block code, each written once, where its variables are known. */
#include "ir/codegen/block_writer.h"

#include "core/faults.h"
#include "ir/loop/prove.h"

int32_t mlsi_block_int_new(mlsi_block_writer *w, int32_t scope) {
    mlsi_alloc *a = w->n->alloc;
    int32_t i = w->code->n_ints;
    if (w->status == MLSYS_OK) w->status = MLSI_GROW(a, &w->ints, &w->cap_ints, i + 1);
    if (w->status == MLSYS_OK) w->status = MLSI_GROW(a, &w->int_depth, &w->cap_depths, i + 1);
    if (w->status == MLSYS_OK) w->status = MLSI_GROW(a, &w->int_lives, &w->cap_lives, i + 1);
    if (w->status != MLSYS_OK) return 0;
    w->ints[i] = (mlsi_block_instr){0};
    w->int_depth[i] = scope;
    w->int_lives[i] = true;
    return w->code->n_ints++;
}

static bool same(const mlsi_block_instr *x, const mlsi_block_instr *y) {
    return x->kind == y->kind && x->a == y->a && x->b == y->b && x->value == y->value;
}

static int32_t made(mlsi_block_writer *w, const mlsi_block_instr *what, int32_t scope) {
    for (int32_t i = w->code->n_ints - 1; i >= 0; i--)
        if (w->int_lives[i] && same(&w->ints[i], what)) return i;
    int32_t dst = mlsi_block_int_new(w, scope);
    if (w->status != MLSYS_OK) return 0;
    w->ints[dst] = *what;
    mlsi_block_instr i = *what;
    i.dst = dst;
    mlsi_block_emit(w, scope, &i);
    return dst;
}

int32_t mlsi_block_number(mlsi_block_writer *w, int64_t value) {
    return made(w, &(mlsi_block_instr){.kind = MLSI_BLOCK_NUMBER, .value = value}, 0);
}

static bool is_number(const mlsi_block_writer *w, int32_t i, int64_t value) {
    return w->ints[i].kind == MLSI_BLOCK_NUMBER && w->ints[i].value == value;
}

static int32_t combine(mlsi_block_writer *w, mlsi_block_kind kind, int32_t a, int32_t b) {
    if (w->status != MLSYS_OK) return 0;
    if (kind == MLSI_BLOCK_ADD && is_number(w, a, 0)) return b;
    if (kind == MLSI_BLOCK_ADD && is_number(w, b, 0)) return a;
    if (kind == MLSI_BLOCK_MUL && is_number(w, a, 1)) return b;
    if (kind != MLSI_BLOCK_ADD && is_number(w, b, 1)) return a;
    if (kind == MLSI_BLOCK_MUL && (is_number(w, a, 0) || is_number(w, b, 0)))
        return mlsi_block_number(w, 0);
    int32_t scope = w->int_depth[a] > w->int_depth[b] ? w->int_depth[a] : w->int_depth[b];
    return made(w, &(mlsi_block_instr){.kind = kind, .a = a, .b = b}, scope);
}

/* ---- dims -------------------------------------------------------------------------------------------- */

static int32_t of_symbol(mlsi_block_writer *w, int32_t symbol) {
    const mlsi_symbol *s = &w->n->tab.symbols[symbol];
    int32_t i = w->int_of_symbol[symbol];
    if (w->vector_var >= 0 && symbol == w->n->vars[w->vector_var].symbol) i = w->lane_int;
    if (i < 0) {
        mlsi_block_refuse(w, "an index that differs between the lanes");
        return 0;
    }
    return s->divisor == 1 ? i : combine(w, MLSI_BLOCK_DIV, i, mlsi_block_number(w, s->divisor));
}

static int32_t of_atom(mlsi_block_writer *w, const mlsi_atom *a) {
    if (!a->op) return of_symbol(w, a->symbol);
    int32_t x = mlsi_block_int(w, a->a);
    return combine(w, MLSI_BLOCK_DIV, x, mlsi_block_int(w, a->b));
}

static int32_t of_expr(mlsi_block_writer *w, const mlsi_expr *e) {
    const mlsi_symtab *t = &w->n->tab;
    int32_t sum = mlsi_block_number(w, 0);
    for (int i = 0; i < e->n && w->status == MLSYS_OK; i++) {
        int32_t product = mlsi_block_number(w, e->terms[i].coef);
        for (int k = 0; k < e->terms[i].n; k++) {
            const mlsi_atom atom = t->atoms[e->terms[i].atoms[k]];
            product = combine(w, MLSI_BLOCK_MUL, product, of_atom(w, &atom));
        }
        sum = combine(w, MLSI_BLOCK_ADD, sum, product);
    }
    return sum;
}

int32_t mlsi_block_int(mlsi_block_writer *w, int64_t code) {
    mlsi_expr e = mlsi_expr_of(&w->n->tab, code);
    return of_expr(w, &e);
}

/* ---- lanes -------------------------------------------------------------------------------------------- */

static int32_t at_lane(mlsi_block_writer *w, const mlsi_expr *e, int64_t lane) {
    int32_t outer = w->lane_int;
    w->lane_int = mlsi_block_number(w, lane);
    int32_t i = of_expr(w, e);
    w->lane_int = outer;
    return i;
}

/* Linear in the variable: its values at 0 and 1 tell all. */
static mlsi_block_affine affine(mlsi_block_writer *w, const mlsi_expr *e, mlsi_stride s) {
    mlsi_block_affine f = {.varies = s.kind != MLSI_STRIDE_NUMBER || s.value != 0,
                           .unit = s.kind == MLSI_STRIDE_NUMBER && s.value == 1};
    if (s.kind == MLSI_STRIDE_UNKNOWN)
        mlsi_block_refuse(w, "an index that is not linear in a lane");
    if (w->status != MLSYS_OK) return f;
    f.base = at_lane(w, e, 0);
    if (s.kind == MLSI_STRIDE_NUMBER) {
        f.stride = mlsi_block_number(w, s.value);
    } else {
        int32_t minus = combine(w, MLSI_BLOCK_MUL, mlsi_block_number(w, -1), f.base);
        f.stride = combine(w, MLSI_BLOCK_ADD, at_lane(w, e, 1), minus);
    }
    return f;
}

mlsi_block_affine mlsi_block_affine_of(mlsi_block_writer *w, int64_t code) {
    mlsi_stride s = {MLSI_STRIDE_NUMBER, 0};
    if (w->vector_var >= 0)
        s = mlsi_index_stride(&w->n->tab, code, w->n->vars[w->vector_var].symbol);
    mlsi_expr e = mlsi_expr_of(&w->n->tab, code);
    return affine(w, &e, s);
}

/* Axis by axis, where the whole is no expression. */
static mlsi_block_affine axes(mlsi_block_writer *w, const mlsi_loop_buffer *b,
                              const int64_t *index) {
    mlsi_block_affine sum = {mlsi_block_number(w, 0), mlsi_block_number(w, 0), false, false};
    int32_t below = mlsi_block_number(w, 1);
    for (int d = b->rank - 1; d >= 0 && w->status == MLSYS_OK; d--) {
        mlsi_block_affine f = mlsi_block_affine_of(w, index[d]);
        sum.unit = f.varies && f.unit && d == b->rank - 1;
        sum.varies |= f.varies;
        sum.base = combine(w, MLSI_BLOCK_ADD, sum.base, combine(w, MLSI_BLOCK_MUL, f.base, below));
        sum.stride =
            combine(w, MLSI_BLOCK_ADD, sum.stride, combine(w, MLSI_BLOCK_MUL, f.stride, below));
        below = combine(w, MLSI_BLOCK_MUL, below, mlsi_block_int(w, b->dims[d]));
    }
    sum.unit = sum.varies && is_number(w, sum.stride, 1);
    return sum;
}

mlsi_block_affine mlsi_block_address(mlsi_block_writer *w, int32_t buffer, const int64_t *index) {
    const mlsi_loop_buffer *b = &w->n->buffers[buffer];
    mlsi_expr number;
    int64_t code;
    if (!mlsi_linear_number(&w->n->tab, b->rank, index, b->dims, &number)) return axes(w, b, index);
    mlsys_status st = mlsi_expr_intern(&w->n->tab, &number, &code);
    if (w->status == MLSYS_OK) w->status = st;
    if (st != MLSYS_OK) return (mlsi_block_affine){0};
    if (mlsi_fault(MLSI_FAULT_BLOCK_ADDRESS) && b->rank > 1) code = index[b->rank - 1];
    return mlsi_block_affine_of(w, code);
}

int32_t mlsi_block_rest(mlsi_block_writer *w, int32_t x, int32_t by, int32_t *quotient) {
    *quotient = combine(w, MLSI_BLOCK_DIV, x, by);
    int32_t whole = combine(w, MLSI_BLOCK_MUL, *quotient, by);
    whole = combine(w, MLSI_BLOCK_MUL, whole, mlsi_block_number(w, -1));
    return combine(w, MLSI_BLOCK_ADD, x, whole);
}
