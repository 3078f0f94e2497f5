/* Construction of nests. */
#include "ir/loop/nest.h"

#include "core/dtype.h"
#include "core/faults.h"
#include "ir/loop/text.h"
#include "ir/ops/op_def.h"

#include <stdio.h>
#include <string.h>

void mlsi_nest_fail(mlsi_nest *n, mlsys_status st) {
    if (n->status == MLSYS_OK) n->status = st;
}

/* False once anything has failed. */
static bool did(mlsi_nest *n, mlsys_status st) {
    mlsi_nest_fail(n, st);
    return n->status == MLSYS_OK;
}

void mlsi_nest_init(mlsi_nest *n, mlsi_alloc *a, const mlsi_symtab *symbols, const char *name) {
    memset(n, 0, sizeof *n);
    n->alloc = a;
    n->first = -1;
    n->open[0].stmt = n->open[0].last = -1;
    mlsi_arena_init(&n->arena, a);
    mlsi_symtab_init(&n->tab, a);
    if (symbols) mlsi_nest_fail(n, mlsi_symtab_copy(&n->tab, symbols));
    n->n_shape_symbols = n->tab.n_symbols;
    mlsi_nest_fail(n, mlsi_arena_strdup(&n->arena, name, &n->name));
}

void mlsi_nest_free(mlsi_nest *n) {
    mlsi_mem_free(n->alloc, n->buffers);
    mlsi_mem_free(n->alloc, n->vars);
    mlsi_mem_free(n->alloc, n->lets);
    mlsi_mem_free(n->alloc, n->accs);
    mlsi_mem_free(n->alloc, n->exprs);
    mlsi_mem_free(n->alloc, n->stmts);
    mlsi_symtab_free(&n->tab);
    mlsi_arena_free(&n->arena);
}

mlsys_status mlsi_nest_finish(mlsi_nest *n) {
    if (n->status == MLSYS_OK && n->depth)
        n->status = mlsi_fail(MLSYS_E_INTERNAL, "nest %s: %d bodies left open", n->name, n->depth);
    return n->status;
}

/* ---- buffers, variables ------------------------------------------------------------------------- */

static int32_t add_buffer(mlsi_nest *n, const mlsi_loop_buffer *b) {
    mlsi_loop_buffer made = *b;
    if (!did(n, MLSI_GROW(n->alloc, &n->buffers, &n->cap_buffers, n->n_buffers + 1))) return -1;
    if (!did(n, mlsi_arena_strdup(&n->arena, b->name, &made.name))) return -1;
    n->buffers[n->n_buffers] = made;
    return (int32_t)n->n_buffers++;
}

int32_t mlsi_nest_param(mlsi_nest *n, mlsi_scope scope, const char *name, const mlsi_type *type) {
    char made[32];
    mlsi_loop_buffer b = {.scope = scope, .dtype = type->dtype, .rank = type->rank};
    if (n->status != MLSYS_OK) return -1;
    b.param = scope == MLSI_SCOPE_INPUT ? n->n_inputs++ : n->n_outputs++;
    snprintf(made, sizeof made, "%s%d", scope == MLSI_SCOPE_INPUT ? "in" : "out", (int)b.param);
    b.name = name ? name : made;
    memcpy(b.dims, type->dims, sizeof(int64_t) * (size_t)type->rank);
    return add_buffer(n, &b);
}

int32_t mlsi_nest_bytes(mlsi_nest *n, int32_t buffer) {
    char name[300];
    if (n->status != MLSYS_OK || buffer < 0) return -1;
    mlsi_loop_buffer b = n->buffers[buffer];
    const mlsi_dtype_info *info = mlsi_dtype_get(b.dtype);
    if (b.rank < 1 || b.rank >= MLSYS_MAX_DIMS) {
        mlsi_nest_fail(n, mlsi_fail(MLSYS_E_UNSUPPORTED, "nest: bytes of rank %d", (int)b.rank));
        return -1;
    }
    snprintf(name, sizeof name, "%s_bytes", b.name);
    b.name = name;
    b.dims[b.rank - 1] = mlsi_nest_index(n, '/', b.dims[b.rank - 1], info->block_elems);
    b.dims[b.rank++] = info->block_bytes;
    b.dtype = MLSYS_U8;
    b.bytes = true;
    return add_buffer(n, &b);
}

int64_t mlsi_nest_index(mlsi_nest *n, int op, int64_t a, int64_t b) {
    int64_t out = 0;
    if (n->status == MLSYS_OK) mlsi_nest_fail(n, mlsi_dim_op(&n->tab, op, a, b, &out));
    return out;
}

/* The variable's symbol, under a name that no shape symbol has. */
static mlsys_status variable_symbol(mlsi_nest *n, char name[64], mlsi_loop_var *v) {
    for (int64_t i = 0; i < n->tab.n_symbols; i++)
        if (!strcmp(n->tab.symbols[i].name, name)) {
            if (strlen(name) == 63)
                return mlsi_fail(MLSYS_E_UNSUPPORTED, "nest %s: name %s is taken", n->name, name);
            strcat(name, "_");
            i = -1;
        }
    v->symbol = (int32_t)n->tab.n_symbols;
    return mlsi_dim_variable(&n->tab, name, v->extent, &v->code);
}

int32_t mlsi_nest_var(mlsi_nest *n, const char *name, int64_t extent) {
    int64_t lo, hi;
    char text[64];
    if (n->status != MLSYS_OK) return -1;
    mlsi_dim_range(&n->tab, extent, &lo, &hi);
    if (lo < 0 && !mlsi_dim_prove(&n->tab, 0, NULL, extent, 0, 0)) {
        mlsi_nest_fail(n, mlsi_fail(MLSYS_E_INTERNAL, "nest %s: extent of %s may be %lld", n->name,
                                    name, (long long)lo));
        return -1;
    }
    mlsi_loop_var v = {.extent = extent, .symbol = -1};
    snprintf(text, sizeof text, "%.40s_%lld", name, (long long)n->n_vars);
    if (hi > 1 && !did(n, variable_symbol(n, text, &v))) return -1;
    if (!did(n, MLSI_GROW(n->alloc, &n->vars, &n->cap_vars, n->n_vars + 1))) return -1;
    if (!did(n, mlsi_arena_strdup(&n->arena, text, &v.name))) return -1;
    n->vars[n->n_vars] = v;
    return (int32_t)n->n_vars++;
}

/* ---- statements ------------------------------------------------------------------------------------ */

static int32_t add_stmt(mlsi_nest *n, const mlsi_ls *s) {
    if (!did(n, MLSI_GROW(n->alloc, &n->stmts, &n->cap_stmts, n->n_stmts + 1))) return -1;
    int32_t made = (int32_t)n->n_stmts++, last = n->open[n->depth].last;
    n->stmts[made] = *s;
    n->stmts[made].next = n->stmts[made].body = -1;
    if (last >= 0)
        n->stmts[last].next = made;
    else if (n->depth)
        n->stmts[n->open[n->depth].stmt].body = made;
    else
        n->first = made;
    n->open[n->depth].last = made;
    return made;
}

static void open_body(mlsi_nest *n, int32_t stmt) {
    if (n->status != MLSYS_OK) return;
    if (n->depth + 1 == (int)(sizeof n->open / sizeof n->open[0])) {
        mlsi_nest_fail(n, mlsi_fail(MLSYS_E_UNSUPPORTED, "nest %s: bodies nest deeper than %d",
                                    n->name, n->depth));
        return;
    }
    n->depth++;
    n->open[n->depth].stmt = stmt;
    n->open[n->depth].last = -1;
}

static mlsi_ls stmt_of(mlsi_ls_kind kind) {
    return (mlsi_ls){.kind = kind, .var = -1, .ref = -1, .value = -1, .value2 = -1};
}

int64_t mlsi_nest_for(mlsi_nest *n, mlsi_loop_kind kind, const char *name, int64_t extent) {
    mlsi_ls s = stmt_of(MLSI_LS_FOR);
    s.var = mlsi_nest_var(n, name, extent);
    s.loop = kind;
    if (n->status != MLSYS_OK) return 0;
    open_body(n, add_stmt(n, &s));
    return n->status == MLSYS_OK ? n->vars[s.var].code : 0;
}

void mlsi_nest_if(mlsi_nest *n, int32_t value) {
    mlsi_ls s = stmt_of(MLSI_LS_IF);
    s.value = value;
    if (n->status == MLSYS_OK) open_body(n, add_stmt(n, &s));
}

void mlsi_nest_if_range(mlsi_nest *n, int64_t lo, int64_t index, int64_t hi) {
    mlsi_ls s = stmt_of(MLSI_LS_IF);
    s.n_index = 3;
    s.index[0] = lo, s.index[1] = index, s.index[2] = hi;
    if (n->status == MLSYS_OK) open_body(n, add_stmt(n, &s));
}

void mlsi_nest_end(mlsi_nest *n) {
    if (n->status != MLSYS_OK) return;
    if (n->depth)
        n->depth--;
    else
        mlsi_nest_fail(n, mlsi_fail(MLSYS_E_INTERNAL, "nest %s: no body to end", n->name));
}

int32_t mlsi_nest_local(mlsi_nest *n, const char *name, mlsys_dtype dtype, int32_t rank,
                        const int64_t *dims) {
    mlsi_loop_buffer b = {
        .name = name, .scope = MLSI_SCOPE_LOCAL, .dtype = dtype, .rank = rank, .param = -1};
    char unique[64];
    if (n->status != MLSYS_OK) return -1;
    snprintf(unique, sizeof unique, "%.40s_%lld", name, (long long)n->n_buffers);
    b.name = unique;
    memcpy(b.dims, dims, sizeof(int64_t) * (size_t)rank);
    mlsi_ls s = stmt_of(MLSI_LS_ALLOC);
    s.ref = add_buffer(n, &b);
    if (n->status == MLSYS_OK) add_stmt(n, &s);
    return s.ref;
}

int32_t mlsi_nest_let(mlsi_nest *n, const char *name, int32_t value) {
    mlsi_ls s = stmt_of(MLSI_LS_LET);
    mlsi_let let = {.dtype = mlsi_nest_dtype(n, value)};
    char unique[64];
    if (n->status != MLSYS_OK) return -1;
    mlsi_lx_kind kind = n->exprs[value].kind;
    if (kind == MLSI_LX_LET || kind == MLSI_LX_CONST) return value;
    snprintf(unique, sizeof unique, "%.40s_%lld", name, (long long)n->n_lets);
    if (!did(n, MLSI_GROW(n->alloc, &n->lets, &n->cap_lets, n->n_lets + 1))) return -1;
    if (!did(n, mlsi_arena_strdup(&n->arena, unique, &let.name))) return -1;
    n->lets[n->n_lets] = let;
    s.ref = (int32_t)n->n_lets++;
    s.value = value;
    add_stmt(n, &s);
    mlsi_lx x = {.kind = MLSI_LX_LET, .dtype = let.dtype, .ref = s.ref};
    if (!did(n, MLSI_GROW(n->alloc, &n->exprs, &n->cap_exprs, n->n_exprs + 1))) return -1;
    n->exprs[n->n_exprs] = x;
    return (int32_t)n->n_exprs++;
}

void mlsi_nest_store(mlsi_nest *n, int32_t buffer, const int64_t *index, int32_t value) {
    mlsi_ls s = stmt_of(MLSI_LS_STORE);
    if (n->status != MLSYS_OK) return;
    s.ref = buffer;
    s.value = mlsi_nest_cast(n, value, n->buffers[buffer].dtype);
    s.n_index = n->buffers[buffer].rank;
    memcpy(s.index, index, sizeof(int64_t) * (size_t)s.n_index);
    if (n->status == MLSYS_OK) add_stmt(n, &s);
}

int32_t mlsi_nest_acc(mlsi_nest *n, mlsi_acc_kind kind, mlsys_dtype dtype, int64_t count) {
    mlsi_acc acc = {.kind = kind, .dtype = dtype, .count = count, .init = -1};
    mlsi_ls s = stmt_of(MLSI_LS_ACC);
    char name[32];
    if (n->status != MLSYS_OK) return -1;
    snprintf(name, sizeof name, "acc_%lld", (long long)n->n_accs);
    if (!did(n, MLSI_GROW(n->alloc, &n->accs, &n->cap_accs, n->n_accs + 1))) return -1;
    if (!did(n, mlsi_arena_strdup(&n->arena, name, &acc.name))) return -1;
    n->accs[n->n_accs] = acc;
    s.ref = (int32_t)n->n_accs++;
    add_stmt(n, &s);
    return s.ref;
}

void mlsi_nest_add(mlsi_nest *n, int32_t acc, int64_t position, int32_t value, int32_t value2) {
    mlsi_ls s = stmt_of(MLSI_LS_ADD);
    if (n->status != MLSYS_OK) return;
    s.ref = acc;
    s.value = mlsi_nest_cast(n, value, n->accs[acc].dtype);
    s.value2 = value2 < 0 ? -1 : mlsi_nest_cast(n, value2, n->accs[acc].dtype);
    s.n_index = 1;
    s.index[0] = position;
    if (n->status == MLSYS_OK) add_stmt(n, &s);
}

/* s: the rest of the statement. */
static int64_t add_bind(mlsi_nest *n, mlsi_ls s, const char *name, int32_t value, int64_t extent) {
    s.var = mlsi_nest_var(n, name, extent);
    s.value = mlsi_nest_cast(n, value, MLSYS_I64);
    if (n->status == MLSYS_OK) add_stmt(n, &s);
    return n->status == MLSYS_OK ? n->vars[s.var].code : 0;
}

int64_t mlsi_nest_bind(mlsi_nest *n, const char *name, int32_t value, int64_t extent, bool clamp,
                       const char *text) {
    mlsi_ls s = stmt_of(MLSI_LS_BIND);
    s.clamp = clamp;
    s.text = text;
    return add_bind(n, s, name, value, extent);
}

int64_t mlsi_nest_bind_at(mlsi_nest *n, const char *name, int32_t value, int64_t position,
                          int64_t extent, bool wrap, const char *text) {
    mlsi_ls s = stmt_of(MLSI_LS_BIND);
    s.wrap = wrap;
    s.text = text;
    s.n_index = 1;
    s.index[0] = position;
    return add_bind(n, s, name, value, extent);
}

/* ---- expressions -------------------------------------------------------------------------------------- */

static int32_t add_expr(mlsi_nest *n, const mlsi_lx *x) {
    for (int i = 0; i < x->n_args; i++)
        if (x->args[i] < 0 && n->status == MLSYS_OK)
            mlsi_nest_fail(n,
                           mlsi_fail(MLSYS_E_INTERNAL, "nest %s: an argument is missing", n->name));
    if (n->status != MLSYS_OK) return -1;
    if (!did(n, MLSI_GROW(n->alloc, &n->exprs, &n->cap_exprs, n->n_exprs + 1))) return -1;
    n->exprs[n->n_exprs] = *x;
    return (int32_t)n->n_exprs++;
}

mlsys_dtype mlsi_nest_dtype(const mlsi_nest *n, int32_t value) {
    return value < 0 ? 0 : n->exprs[value].dtype;
}

int32_t mlsi_nest_const(mlsi_nest *n, mlsys_dtype dtype, const void *element) {
    mlsi_lx x = {.kind = MLSI_LX_CONST, .dtype = dtype};
    memcpy(&x.bits, element, (size_t)mlsi_dtype_size(dtype));
    return add_expr(n, &x);
}

static int32_t scalar(mlsi_nest *n, mlsys_dtype dtype, bool is_float, double f, int64_t i) {
    uint64_t bits = 0;
    mlsi_view v = {.data = (char *)&bits, .dtype = dtype};
    if (is_float)
        mlsi_ref_set_f(&v, 0, f);
    else
        mlsi_ref_set_i(&v, 0, i);
    return mlsi_nest_const(n, dtype, &bits);
}

int32_t mlsi_nest_float(mlsi_nest *n, mlsys_dtype dtype, double value) {
    return scalar(n, dtype, true, value, 0);
}

int32_t mlsi_nest_int(mlsi_nest *n, mlsys_dtype dtype, int64_t value) {
    return scalar(n, dtype, false, 0, dtype == MLSYS_BOOL ? value != 0 : value);
}

int32_t mlsi_nest_index_value(mlsi_nest *n, int64_t index) {
    if (index >= 0) return mlsi_nest_int(n, MLSYS_I64, index);
    mlsi_lx x = {.kind = MLSI_LX_INDEX, .dtype = MLSYS_I64, .n_index = 1, .index = {index}};
    return add_expr(n, &x);
}

int32_t mlsi_nest_load(mlsi_nest *n, int32_t buffer, const int64_t *index) {
    if (n->status != MLSYS_OK || buffer < 0) return -1;
    const mlsi_loop_buffer *b = &n->buffers[buffer];
    mlsi_lx x = {.kind = MLSI_LX_LOAD, .dtype = b->dtype, .ref = buffer, .n_index = b->rank};
    memcpy(x.index, index, sizeof(int64_t) * (size_t)b->rank);
    return add_expr(n, &x);
}

static bool is_predicate(mlsi_op op) {
    switch (op) {
    case MLSI_OP_EQ:
    case MLSI_OP_NE:
    case MLSI_OP_LT:
    case MLSI_OP_LE:
    case MLSI_OP_GT:
    case MLSI_OP_GE:
    case MLSI_OP_IS_NAN:
    case MLSI_OP_IS_FINITE: return true;
    default: return false;
    }
}

mlsys_dtype mlsi_nest_op_dtype(mlsi_op op, mlsys_dtype last) {
    if (op == MLSI_OP_CAST || op == MLSI_OP_BITCAST) return 0;
    return is_predicate(op) ? MLSYS_BOOL : last;
}

int32_t mlsi_nest_op(mlsi_nest *n, mlsi_op op, mlsys_dtype dtype, int32_t a, int32_t b, int32_t c) {
    mlsi_lx x = {.kind = MLSI_LX_OP, .op = op, .args = {a, b, c}};
    x.n_args = mlsi_op_get(op)->min_in;
    if (n->status != MLSYS_OK || a < 0) return -1;
    x.dtype = dtype ? dtype : mlsi_nest_op_dtype(op, mlsi_nest_dtype(n, x.args[x.n_args - 1]));
    return add_expr(n, &x);
}

int32_t mlsi_nest_cast(mlsi_nest *n, int32_t value, mlsys_dtype dtype) {
    if (value < 0 || n->exprs[value].dtype == dtype) return value;
    return mlsi_nest_op(n, MLSI_OP_CAST, dtype, value, -1, -1);
}

mlsys_dtype mlsi_acc_result(const mlsi_acc *a) {
    return a->kind == MLSI_ACC_ARGMAX || a->kind == MLSI_ACC_ARGMIN ? MLSYS_I64 : a->dtype;
}

int32_t mlsi_nest_acc_value(mlsi_nest *n, int32_t acc) {
    if (n->status != MLSYS_OK || acc < 0) return -1;
    mlsi_lx x = {.kind = MLSI_LX_ACC, .dtype = mlsi_acc_result(&n->accs[acc]), .ref = acc};
    return add_expr(n, &x);
}

int32_t mlsi_nest_guard(mlsi_nest *n, int64_t lo, int64_t index, int64_t hi, int32_t then,
                        int32_t other) {
    mlsi_lx x = {.kind = MLSI_LX_GUARD,
                 .dtype = mlsi_nest_dtype(n, then),
                 .n_args = 2,
                 .args = {then, other},
                 .n_index = 3,
                 .index = {lo, index, hi}};
    return add_expr(n, &x);
}

int32_t mlsi_nest_random(mlsi_nest *n, int32_t key, int32_t stream, int64_t position, int kind,
                         mlsys_dtype dtype) {
    mlsi_lx x = {.kind = MLSI_LX_RANDOM,
                 .dtype = dtype,
                 .n_args = 2,
                 .args = {key, stream},
                 .n_index = 1,
                 .index = {position},
                 .bits = (uint64_t)kind};
    return add_expr(n, &x);
}

bool mlsi_nest_binds(const mlsi_nest *n) {
    for (int64_t i = 0; i < n->n_stmts; i++)
        if (n->stmts[i].kind == MLSI_LS_BIND && !n->stmts[i].clamp) return true;
    return false;
}
