/* Is a nest well formed? Names are defined once, before their uses and in the bodies where they are seen; dtypes, ranks
 * and kinds of loops fit. What needs a proof of bounds is not decided here (prove_nest.c). A nest that verifies can be run
 * by the interpreter without harm, whatever its memory holds. */
#include "ir/loop/verify.h"

#include "core/dtype.h"
#include "core/faults.h"
#include "ir/ops/op_def.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MOST_BODIES = 63 };

mlsys_status mlsi_checker_fail(const mlsi_checker *c, const char *format, ...) {
    static const char *const kinds[] = {"",    "for",  "let",     "store", "if",   "alloc", "acc",
                                        "add", "bind", "barrier", "copy",  "wait", "mma"};
    char why[600];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    if (c->stmt < 0) return mlsi_fail(MLSYS_E_STATE, "nest %s: %s", c->n->name, why);
    int kind = (int)c->n->stmts[c->stmt].kind;
    return mlsi_fail(MLSYS_E_STATE, "nest %s: statement %d (%s): %s", c->n->name, (int)c->stmt,
                     kind > 0 && kind <= MLSI_LS_MMA ? kinds[kind] : "?", why);
}

/* ---- loops -------------------------------------------------------------------------------------------------- */

static mlsi_loop_kind kind_around(const mlsi_checker *c, int back) {
    return back < c->n_loops ? c->n->stmts[c->loops[c->n_loops - 1 - back]].loop : 0;
}

/* PARALLEL and GRID loops are the outermost with nothing beside them; VECTOR is in no VECTOR and no GPU loop, BLOCK in no
 * CPU loop, BLOCK or LANE, LANE in no CPU loop or LANE. */
static mlsys_status check_loop_kind(const mlsi_checker *c, const mlsi_ls *s, int32_t parent,
                                    bool alone) {
    mlsi_loop_kind k = s->loop;
    if (k < MLSI_LOOP_SERIAL || k > MLSI_LOOP_LANE)
        return mlsi_checker_fail(c, "there is no kind of loop %d", (int)k);
    if (mlsi_fault(MLSI_FAULT_NEST_LOOP_KIND)) return MLSYS_OK;
    if (k == MLSI_LOOP_PARALLEL || k == MLSI_LOOP_GRID) {
        bool same = parent < 0 ||
                    (c->n->stmts[parent].kind == MLSI_LS_FOR && c->n->stmts[parent].loop == k);
        if (!alone || !same)
            return mlsi_checker_fail(c, "a loop of tasks is inside of something else or beside it");
    }
    for (int i = 0; i < c->n_loops; i++) {
        mlsi_loop_kind o = kind_around(c, i);
        bool cpu = o == MLSI_LOOP_PARALLEL || o == MLSI_LOOP_VECTOR;
        if ((k == MLSI_LOOP_VECTOR && (o == MLSI_LOOP_VECTOR || o >= MLSI_LOOP_GRID)) ||
            (k == MLSI_LOOP_BLOCK && (cpu || o >= MLSI_LOOP_BLOCK)) ||
            (k == MLSI_LOOP_LANE && (cpu || o == MLSI_LOOP_LANE)))
            return mlsi_checker_fail(c, "a loop of this kind is inside of one of kind %d", (int)o);
    }
    if (k == MLSI_LOOP_UNROLLED && c->n->vars[s->var].extent < 0)
        return mlsi_checker_fail(c, "the extent of an unrolled loop is no number");
    return MLSYS_OK;
}

/* ---- statements ------------------------------------------------------------------------------------------------ */

static mlsys_status check_store(mlsi_checker *c, const mlsi_ls *s) {
    MLSI_TRY(mlsi_check_access(c, s->ref, s->n_index, s->index));
    const mlsi_loop_buffer *b = &c->n->buffers[s->ref];
    if (b->scope == MLSI_SCOPE_INPUT && !mlsi_fault(MLSI_FAULT_NEST_INPUT))
        return mlsi_checker_fail(c, "%s is an input", b->name);
    MLSI_TRY(mlsi_check_value(c, s->value, b->dtype));
    if (s->kind == MLSI_LS_COPY && c->n->exprs[s->value].kind != MLSI_LX_LOAD)
        return mlsi_checker_fail(c, "what is copied is no element");
    return MLSYS_OK;
}

static mlsys_status check_if(mlsi_checker *c, const mlsi_ls *s) {
    if (s->value >= 0) return mlsi_check_value(c, s->value, MLSYS_BOOL);
    if (s->n_index != 3) return mlsi_checker_fail(c, "a condition needs lo, index and hi");
    for (int i = 0; i < 3; i++)
        MLSI_TRY(mlsi_check_index(c, s->index[i]));
    return MLSYS_OK;
}

static mlsys_status check_add(mlsi_checker *c, const mlsi_ls *s) {
    if (s->ref < 0 || s->ref >= c->n->n_accs || c->accs[s->ref] != MLSI_NAME_KNOWN)
        return mlsi_checker_fail(c, "accumulator %d is not open here", (int)s->ref);
    const mlsi_acc *a = &c->n->accs[s->ref];
    if (s->n_index != 1 || (s->value2 >= 0) != (a->kind == MLSI_ACC_DOT))
        return mlsi_checker_fail(c, "%s takes a position and %s", a->name,
                                 a->kind == MLSI_ACC_DOT ? "two factors" : "one term");
    MLSI_TRY(mlsi_check_index(c, s->index[0]));
    MLSI_TRY(mlsi_check_value(c, s->value, a->dtype));
    return s->value2 >= 0 ? mlsi_check_value(c, s->value2, a->dtype) : MLSYS_OK;
}

static mlsys_status check_bind(mlsi_checker *c, const mlsi_ls *s) {
    MLSI_TRY(mlsi_check_value(c, s->value, MLSYS_I64));
    if (s->n_index > 1 || (s->clamp && s->wrap))
        return mlsi_checker_fail(c, "a binding has at most one position, and a clamp or a wrap");
    for (int i = 0; i < s->n_index; i++)
        MLSI_TRY(mlsi_check_index(c, s->index[i]));
    for (const char *p = s->text; p && *p; p++)
        if (*p == '"' || *p == '\\' || (unsigned char)*p < ' ' || p - s->text > 200)
            return mlsi_checker_fail(c, "the text of a binding cannot be written");
    return mlsi_define_var(c, s->var);
}

/* Tiles: of the written buffer all of it, of the others the last two axes. */
static mlsys_status check_mma(mlsi_checker *c, const mlsi_ls *s) {
    if (s->ref < 0 || s->ref >= c->n->n_buffers || c->buffers[s->ref] != MLSI_NAME_KNOWN ||
        c->n->buffers[s->ref].rank != 2 || c->n->buffers[s->ref].scope == MLSI_SCOPE_INPUT ||
        mlsi_dtype_is_block(c->n->buffers[s->ref].dtype) || s->n_index != 3)
        return mlsi_checker_fail(c, "a matrix product needs a tile of rank 2, and M, N, K");
    for (int i = 0; i < 3; i++)
        MLSI_TRY(mlsi_check_index(c, s->index[i]));
    for (int i = 0; i < 2; i++) {
        int32_t value = i ? s->value2 : s->value;
        MLSI_TRY(mlsi_check_value(c, value, 0));
        const mlsi_lx *x = &c->n->exprs[value];
        if (x->kind != MLSI_LX_LOAD || x->n_index < 2)
            return mlsi_checker_fail(c, "a factor of a matrix product is no element of a matrix");
    }
    return MLSYS_OK;
}

static mlsys_status check_for(mlsi_checker *c, const mlsi_ls *s, int32_t parent, bool alone) {
    MLSI_TRY(mlsi_define_var(c, s->var));
    return check_loop_kind(c, s, parent, alone);
}

static mlsys_status check_stmt(mlsi_checker *c, const mlsi_ls *s, int32_t parent, bool alone) {
    if (s->n_index < 0 || s->n_index > MLSYS_MAX_DIMS)
        return mlsi_checker_fail(c, "has %d indices", (int)s->n_index);
    if (s->body >= 0 && s->kind != MLSI_LS_FOR && s->kind != MLSI_LS_IF)
        return mlsi_checker_fail(c, "has a body");
    switch (s->kind) {
    case MLSI_LS_FOR: return check_for(c, s, parent, alone);
    case MLSI_LS_LET: return mlsi_define_let(c, s);
    case MLSI_LS_COPY:
    case MLSI_LS_STORE: return check_store(c, s);
    case MLSI_LS_IF: return check_if(c, s);
    case MLSI_LS_ALLOC: return mlsi_define_local(c, s);
    case MLSI_LS_ACC: return mlsi_define_acc(c, s);
    case MLSI_LS_ADD: return check_add(c, s);
    case MLSI_LS_BIND: return check_bind(c, s);
    case MLSI_LS_BARRIER:
        return mlsi_checker_on_gpu(c) ? MLSYS_OK
                                      : mlsi_checker_fail(c, "there are no lanes to wait for");
    case MLSI_LS_WAIT: return MLSYS_OK;
    case MLSI_LS_MMA: return check_mma(c, s);
    }
    return mlsi_checker_fail(c, "there is no kind of statement %d", (int)s->kind);
}

/* ---- bodies ---------------------------------------------------------------------------------------------------- */

static void leave_var(mlsi_checker *c, int32_t var) {
    const mlsi_loop_var *v = &c->n->vars[var];
    c->vars[var] = MLSI_NAME_LEFT;
    if (v->symbol >= 0) c->symbols[v->symbol] = 0;
}

/* What the statements of a body define ends with it. */
static void leave_body(mlsi_checker *c, int32_t first) {
    for (int32_t i = first; i >= 0; i = c->n->stmts[i].next) {
        const mlsi_ls *s = &c->n->stmts[i];
        if (s->kind == MLSI_LS_LET) c->lets[s->ref] = MLSI_NAME_LEFT;
        if (s->kind == MLSI_LS_ACC) c->accs[s->ref] = MLSI_NAME_LEFT;
        if (s->kind == MLSI_LS_ALLOC) c->buffers[s->ref] = MLSI_NAME_LEFT;
        if (s->kind == MLSI_LS_BIND) leave_var(c, s->var);
    }
}

static mlsys_status check_body(mlsi_checker *c, int32_t parent, int32_t first, int depth) {
    if (depth > MOST_BODIES)
        return mlsi_checker_fail(c, "bodies nest deeper than %d", (int)MOST_BODIES);
    for (int32_t i = first; i != -1; i = c->n->stmts[i].next) {
        if (i < 0 || i >= c->n->n_stmts)
            return mlsi_checker_fail(c, "there is no statement %d", (int)i);
        if (c->reached[i]) return mlsi_checker_fail(c, "statement %d stands in two places", (int)i);
        const mlsi_ls *s = &c->n->stmts[i];
        c->reached[i] = 1;
        c->stmt = i;
        MLSI_TRY(check_stmt(c, s, parent, i == first && s->next == -1));
        if (s->kind != MLSI_LS_FOR && s->kind != MLSI_LS_IF) continue;
        if (s->kind == MLSI_LS_FOR) c->loops[c->n_loops++] = i;
        MLSI_TRY(check_body(c, i, s->body, depth + 1));
        if (s->kind == MLSI_LS_IF) continue;
        c->n_loops--;
        leave_var(c, s->var);
    }
    leave_body(c, first);
    return MLSYS_OK;
}

static mlsys_status start(mlsi_checker *c, uint8_t **bytes, int32_t **numbers) {
    const mlsi_nest *n = c->n;
    int64_t n_bytes = n->n_vars + n->n_lets + n->n_accs + n->n_buffers + n->tab.n_symbols +
                      n->n_stmts + n->n_exprs;
    MLSI_TRY(MLSI_NEW_N(n->alloc, n_bytes + 1, bytes));
    MLSI_TRY(MLSI_NEW_N(n->alloc, n->n_exprs + n->n_lets + n->n_buffers + 1, numbers));
    c->vars = *bytes;
    c->lets = c->vars + n->n_vars;
    c->accs = c->lets + n->n_lets;
    c->buffers = c->accs + n->n_accs;
    c->symbols = c->buffers + n->n_buffers;
    c->reached = c->symbols + n->tab.n_symbols;
    c->open = c->reached + n->n_stmts;
    c->checked = *numbers;
    c->let_lane = c->checked + n->n_exprs;
    c->owner = c->let_lane + n->n_lets;
    for (int64_t i = 0; i < n->n_shape_symbols; i++)
        c->symbols[i] = 1;
    for (int64_t i = 0; i < n->n_buffers; i++)
        c->owner[i] = -1;
    return MLSYS_OK;
}

mlsys_status mlsi_nest_verify(const mlsi_nest *n) {
    mlsi_checker c = {.n = n, .stmt = -1};
    uint8_t *bytes = NULL;
    int32_t *numbers = NULL;
    if (n->status != MLSYS_OK) return n->status;
    mlsi_symtab_init(&c.none, n->alloc);
    mlsys_status st = start(&c, &bytes, &numbers);
    if (st == MLSYS_OK) st = mlsi_check_buffers(&c);
    if (st == MLSYS_OK) st = check_body(&c, -1, n->first, 0);
    mlsi_mem_free(n->alloc, bytes);
    mlsi_mem_free(n->alloc, numbers);
    mlsi_symtab_free(&c.none);
    return st;
}
