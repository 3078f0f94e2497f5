/* Rules of what is declared and defined: buffers, variables, lets, accumulators. */
#include "core/dtype.h"
#include "core/faults.h"
#include "ir/loop/verify.h"

#include <string.h>

bool mlsi_checker_on_gpu(const mlsi_checker *c) {
    for (int i = 0; i < c->n_loops; i++)
        if (c->n->stmts[c->loops[i]].loop >= MLSI_LOOP_GRID) return true;
    return false;
}

int32_t mlsi_checker_thread(const mlsi_checker *c, bool lane) {
    for (int i = c->n_loops - 1; i >= 0; i--) {
        mlsi_loop_kind k = c->n->stmts[c->loops[i]].loop;
        if (k == MLSI_LOOP_LANE || (!lane && (k == MLSI_LOOP_PARALLEL || k >= MLSI_LOOP_GRID)))
            return c->loops[i];
    }
    return -1;
}

/* ---- buffers ---------------------------------------------------------------------------------------------- */

/* A view of a parameter's bytes: one axis more, (blocks, bytes of a block) in place of the last one. */
static mlsys_status check_bytes(const mlsi_checker *c, const mlsi_loop_buffer *b,
                                const mlsi_loop_buffer *of) {
    const mlsi_dtype_info *info = of ? mlsi_dtype_get(of->dtype) : NULL;
    if (!of || b->dtype != MLSYS_U8 || !mlsi_dtype_is_block(of->dtype) || b->rank != of->rank + 1 ||
        memcmp(b->dims, of->dims, sizeof b->dims[0] * (size_t)(of->rank - 1)) ||
        b->dims[b->rank - 1] != info->block_bytes)
        return mlsi_checker_fail(c, "%s does not show the bytes of a parameter", b->name);
    int64_t blocks = of->dims[of->rank - 1];
    mlsi_symtab t;
    mlsi_symtab_init(&t, c->n->alloc);
    mlsys_status st = mlsi_dim_import(&t, &c->n->tab, blocks, &blocks);
    if (st == MLSYS_OK) st = mlsi_dim_op(&t, '/', blocks, info->block_elems, &blocks);
    int64_t have = 0;
    if (st == MLSYS_OK) st = mlsi_dim_import(&t, &c->n->tab, b->dims[of->rank - 1], &have);
    mlsi_symtab_free(&t);
    if (st == MLSYS_OK && have != blocks)
        return mlsi_checker_fail(c, "%s has another number of blocks than its parameter", b->name);
    return st;
}

static const mlsi_loop_buffer *parameter(const mlsi_nest *n, mlsi_scope scope, int32_t param) {
    for (int64_t i = 0; i < n->n_buffers; i++)
        if (n->buffers[i].scope == scope && n->buffers[i].param == param && !n->buffers[i].bytes)
            return &n->buffers[i];
    return NULL;
}

static mlsys_status check_dims(const mlsi_checker *c, const mlsi_loop_buffer *b) {
    if (b->rank < 0 || b->rank > MLSYS_MAX_DIMS)
        return mlsi_checker_fail(c, "%s has rank %d", b->name, (int)b->rank);
    for (int d = 0; d < b->rank; d++) {
        int64_t lo, hi;
        MLSI_TRY(mlsi_check_index(c, b->dims[d]));
        mlsi_dim_range(&c->n->tab, b->dims[d], &lo, &hi);
        if (lo < 0 && !mlsi_dim_prove(&c->n->tab, 0, NULL, b->dims[d], 0, 0))
            return mlsi_checker_fail(c, "axis %d of %s may have extent %lld", d, b->name,
                                     (long long)lo);
    }
    return MLSYS_OK;
}

static mlsys_status check_parameter(mlsi_checker *c, int32_t i) {
    const mlsi_loop_buffer *b = &c->n->buffers[i], *first;
    if (b->param < 0 ||
        b->param >= (b->scope == MLSI_SCOPE_INPUT ? c->n->n_inputs : c->n->n_outputs))
        return mlsi_checker_fail(c, "%s is parameter %d", b->name, (int)b->param);
    MLSI_TRY(check_dims(c, b));
    first = parameter(c->n, b->scope, b->param);
    if (b->bytes) MLSI_TRY(check_bytes(c, b, first));
    if (!b->bytes && first != b)
        return mlsi_checker_fail(c, "%s and %s are the same parameter", first->name, b->name);
    c->buffers[i] = MLSI_NAME_KNOWN;
    return MLSYS_OK;
}

mlsys_status mlsi_check_buffers(mlsi_checker *c) {
    const mlsi_nest *n = c->n;
    for (int32_t i = 0; i < n->n_buffers; i++) {
        const mlsi_loop_buffer *b = &n->buffers[i];
        if (b->scope < MLSI_SCOPE_INPUT || b->scope > MLSI_SCOPE_SHARED ||
            !mlsi_dtype_get(b->dtype) || (b->param >= 0) != (b->scope <= MLSI_SCOPE_OUTPUT))
            return mlsi_checker_fail(c, "%s has no scope or dtype", b->name);
        if (b->scope <= MLSI_SCOPE_OUTPUT) MLSI_TRY(check_parameter(c, i));
    }
    for (int32_t p = 0; p < n->n_inputs + n->n_outputs; p++)
        if (!parameter(n, p < n->n_inputs ? MLSI_SCOPE_INPUT : MLSI_SCOPE_OUTPUT,
                       p < n->n_inputs ? p : p - n->n_inputs))
            return mlsi_checker_fail(c, "parameter %d has no buffer", (int)p);
    return MLSYS_OK;
}

/* ---- definitions ---------------------------------------------------------------------------------------------- */

static mlsys_status define(const mlsi_checker *c, const char *what, int32_t ref, int64_t count,
                           uint8_t *names) {
    if (ref < 0 || ref >= count) return mlsi_checker_fail(c, "there is no %s %d", what, (int)ref);
    if (names[ref] != MLSI_NAME_UNKNOWN && !mlsi_fault(MLSI_FAULT_NEST_TWICE))
        return mlsi_checker_fail(c, "%s %d is defined twice", what, (int)ref);
    names[ref] = MLSI_NAME_KNOWN;
    return MLSYS_OK;
}

mlsys_status mlsi_define_var(mlsi_checker *c, int32_t var) {
    const mlsi_nest *n = c->n;
    int64_t lo, hi;
    MLSI_TRY(define(c, "variable", var, n->n_vars, c->vars));
    const mlsi_loop_var *v = &n->vars[var];
    MLSI_TRY(mlsi_check_index(c, v->extent));
    mlsi_dim_range(&n->tab, v->extent, &lo, &hi);
    if (lo < 0 && !mlsi_dim_prove(&n->tab, 0, NULL, v->extent, 0, 0))
        return mlsi_checker_fail(c, "the extent of %s may be %lld", v->name, (long long)lo);
    if (v->symbol < 0) {
        if (v->code != 0 || hi > 1)
            return mlsi_checker_fail(c, "%s is not always 0 and has no symbol", v->name);
        return MLSYS_OK;
    }
    if (v->symbol >= n->tab.n_symbols || v->symbol < n->n_shape_symbols ||
        mlsi_dim_as_symbol(&n->tab, v->code) != v->symbol ||
        n->tab.symbols[v->symbol].extent != v->extent || c->symbols[v->symbol] ||
        strcmp(n->tab.symbols[v->symbol].name, v->name))
        return mlsi_checker_fail(c, "%s is not the variable of its symbol", v->name);
    c->symbols[v->symbol] = 1;
    return MLSYS_OK;
}

mlsys_status mlsi_define_let(mlsi_checker *c, const mlsi_ls *s) {
    MLSI_TRY(mlsi_check_value(c, s->value, 0));
    MLSI_TRY(define(c, "let", s->ref, c->n->n_lets, c->lets));
    c->let_lane[s->ref] = mlsi_checker_thread(c, true);
    return mlsi_check_value(c, s->value, c->n->lets[s->ref].dtype);
}

static mlsys_status check_acc(mlsi_checker *c, const mlsi_ls *s) {
    const mlsi_acc *a = &c->n->accs[s->ref];
    int64_t lo, hi;
    const mlsi_dtype_info *info = mlsi_dtype_get(a->dtype);
    bool rounds = a->kind == MLSI_ACC_SUM || a->kind == MLSI_ACC_PROD || a->kind == MLSI_ACC_DOT;
    bool logic = a->kind == MLSI_ACC_AND || a->kind == MLSI_ACC_OR;
    if (a->kind < MLSI_ACC_SUM || a->kind > MLSI_ACC_ARGMIN || !info ||
        mlsi_dtype_is_block(a->dtype) || (logic && a->dtype != MLSYS_BOOL) ||
        (rounds && mlsi_dtype_is_float(a->dtype) && a->dtype != MLSYS_F32 && a->dtype != MLSYS_F64))
        return mlsi_checker_fail(c, "%s: no reduction %d of %s", a->name, (int)a->kind,
                                 info ? info->name : "nothing");
    MLSI_TRY(mlsi_check_index(c, a->count));
    mlsi_dim_range(&c->n->tab, a->count, &lo, &hi);
    if (lo < 0 && !mlsi_dim_prove(&c->n->tab, 0, NULL, a->count, 0, 0))
        return mlsi_checker_fail(c, "%s may have %lld terms", a->name, (long long)lo);
    if (a->init < 0) return MLSYS_OK;
    if (a->kind != MLSI_ACC_DOT)
        return mlsi_checker_fail(c, "%s begins with a value and is no product", a->name);
    return mlsi_check_value(c, a->init, a->dtype);
}

mlsys_status mlsi_define_acc(mlsi_checker *c, const mlsi_ls *s) {
    MLSI_TRY(define(c, "accumulator", s->ref, c->n->n_accs, c->accs));
    c->accs[s->ref] = MLSI_NAME_UNKNOWN; /* to its own init */
    mlsys_status st = check_acc(c, s);
    c->accs[s->ref] = MLSI_NAME_KNOWN;
    return st;
}

mlsys_status mlsi_define_local(mlsi_checker *c, const mlsi_ls *s) {
    MLSI_TRY(define(c, "buffer", s->ref, c->n->n_buffers, c->buffers));
    const mlsi_loop_buffer *b = &c->n->buffers[s->ref];
    if (b->scope <= MLSI_SCOPE_OUTPUT || mlsi_dtype_is_block(b->dtype) || b->bytes)
        return mlsi_checker_fail(c, "%s cannot be allocated", b->name);
    if (b->scope == MLSI_SCOPE_SHARED && !mlsi_checker_on_gpu(c))
        return mlsi_checker_fail(c, "%s is shared by no block", b->name);
    c->owner[s->ref] = mlsi_checker_thread(c, false);
    return check_dims(c, b);
}
