/* A copy of a nest that holds only what its statements reach. */
#include "ir/loop/schedule.h"

#include <string.h>

typedef struct copier {
    const mlsi_nest *from;
    mlsi_nest *to;
    int32_t *exprs, *lets, *accs, *buffers, *vars; /* number in to + 1, 0 = not yet */
    int64_t *units;                                /* per symbol: its unit in to */
    uint8_t *defined;                              /* per symbol */
} copier;

static bool keep(copier *c, mlsys_status st) {
    mlsi_nest_fail(c->to, st);
    return c->to->status == MLSYS_OK;
}

static int64_t index_of(copier *c, int64_t d);

static int64_t atom_of(copier *c, const mlsi_atom *a) {
    if (a->op) {
        int64_t x = index_of(c, a->a);
        return mlsi_nest_index(c->to, a->op, x, index_of(c, a->b));
    }
    if (!c->defined[a->symbol])
        keep(c, mlsi_fail(MLSYS_E_INTERNAL, "nest %s: %s is used before its definition",
                          c->from->name, c->from->tab.symbols[a->symbol].name));
    return c->units[a->symbol];
}

/* By the copy's variables: their ranges may have become others, so names are not enough. */
static int64_t index_of(copier *c, int64_t d) {
    const mlsi_symtab *t = &c->from->tab;
    int64_t sum = 0;
    if (!mlsi_dim_is_code(t, d)) return d;
    const mlsi_expr *e = &t->exprs[MLSI_DIM_CODE - d];
    for (int i = 0; i < e->n && c->to->status == MLSYS_OK; i++) {
        int64_t coef = e->terms[i].coef, part = coef < 0 ? -coef : coef;
        for (int j = 0; j < e->terms[i].n; j++)
            part = mlsi_nest_index(c->to, '*', part, atom_of(c, &t->atoms[e->terms[i].atoms[j]]));
        sum = mlsi_nest_index(c->to, coef < 0 ? '-' : '+', sum, part);
    }
    return sum;
}

static const char *name_of(copier *c, const char *name) {
    const char *out = NULL;
    if (name) keep(c, mlsi_arena_strdup(&c->to->arena, name, &out));
    return out;
}

static void copy_symbols(copier *c) {
    for (int64_t i = 0; i < c->from->n_shape_symbols; i++) {
        const mlsi_symbol *s = &c->from->tab.symbols[i];
        int64_t code;
        if (!keep(c, mlsi_dim_symbol(&c->to->tab, s->name, s->min, s->max, s->divisor, &code)))
            return;
        c->units[i] = mlsi_nest_index(c->to, '/', code, s->divisor);
        c->defined[i] = 1;
    }
    c->to->n_shape_symbols = c->to->tab.n_symbols;
}

static void copy_buffer(copier *c, int32_t i) {
    mlsi_nest *n = c->to;
    mlsi_loop_buffer b = c->from->buffers[i];
    b.name = name_of(c, b.name);
    for (int d = 0; d < b.rank; d++)
        b.dims[d] = index_of(c, b.dims[d]);
    if (!keep(c, MLSI_GROW(n->alloc, &n->buffers, &n->cap_buffers, n->n_buffers + 1))) return;
    n->buffers[n->n_buffers] = b;
    c->buffers[i] = (int32_t)++n->n_buffers;
}

static void copy_var(copier *c, int32_t i) {
    mlsi_nest *n = c->to;
    mlsi_loop_var v = c->from->vars[i];
    int32_t symbol = v.symbol;
    int64_t lo, hi;
    v.name = name_of(c, v.name);
    v.extent = index_of(c, v.extent);
    v.code = 0;
    v.symbol = -1;
    if (!keep(c, MLSI_GROW(n->alloc, &n->vars, &n->cap_vars, n->n_vars + 1))) return;
    mlsi_dim_range(&n->tab, v.extent, &lo, &hi);
    if (hi > 1) {
        v.symbol = (int32_t)n->tab.n_symbols;
        if (!keep(c, mlsi_dim_variable(&n->tab, v.name, v.extent, &v.code))) return;
    }
    if (symbol >= 0) {
        c->units[symbol] = v.code;
        c->defined[symbol] = 1;
    }
    n->vars[n->n_vars] = v;
    c->vars[i] = (int32_t)++n->n_vars;
}

static void copy_let(copier *c, int32_t i) {
    mlsi_nest *n = c->to;
    mlsi_let let = c->from->lets[i];
    let.name = name_of(c, let.name);
    if (!keep(c, MLSI_GROW(n->alloc, &n->lets, &n->cap_lets, n->n_lets + 1))) return;
    n->lets[n->n_lets] = let;
    c->lets[i] = (int32_t)++n->n_lets;
}

static int32_t copy_expr(copier *c, int32_t i);

static void copy_acc(copier *c, int32_t i) {
    mlsi_nest *n = c->to;
    mlsi_acc acc = c->from->accs[i];
    acc.init = copy_expr(c, acc.init);
    acc.name = name_of(c, acc.name);
    acc.count = index_of(c, acc.count);
    if (!keep(c, MLSI_GROW(n->alloc, &n->accs, &n->cap_accs, n->n_accs + 1))) return;
    n->accs[n->n_accs] = acc;
    c->accs[i] = (int32_t)++n->n_accs;
}

/* Number in the copy of what must have been defined before. */
static int32_t known(copier *c, const int32_t *map, int32_t i, const char *what) {
    if (i < 0 || c->to->status != MLSYS_OK) return -1;
    if (!map[i])
        keep(c, mlsi_fail(MLSYS_E_INTERNAL, "nest %s: %s %d is used before its definition",
                          c->from->name, what, (int)i));
    return map[i] - 1;
}

static int32_t copy_expr(copier *c, int32_t i) {
    mlsi_nest *n = c->to;
    if (i < 0 || n->status != MLSYS_OK) return -1;
    if (c->exprs[i]) return c->exprs[i] - 1;
    mlsi_lx x = c->from->exprs[i];
    for (int k = 0; k < x.n_args; k++)
        x.args[k] = copy_expr(c, x.args[k]);
    for (int k = 0; k < x.n_index; k++)
        x.index[k] = index_of(c, x.index[k]);
    switch (x.kind) {
    case MLSI_LX_LOAD: x.ref = known(c, c->buffers, x.ref, "buffer"); break;
    case MLSI_LX_SHUFFLE:
    case MLSI_LX_LET: x.ref = known(c, c->lets, x.ref, "let"); break;
    case MLSI_LX_ACC: x.ref = known(c, c->accs, x.ref, "accumulator"); break;
    default: break;
    }
    if (!keep(c, MLSI_GROW(n->alloc, &n->exprs, &n->cap_exprs, n->n_exprs + 1))) return -1;
    n->exprs[n->n_exprs] = x;
    return (c->exprs[i] = (int32_t)++n->n_exprs) - 1;
}

/* What the statement defines, and its numbers in the copy. */
static void copy_refs(copier *c, mlsi_ls *s) {
    switch (s->kind) {
    case MLSI_LS_FOR:
    case MLSI_LS_BIND:
        copy_var(c, s->var);
        s->var = known(c, c->vars, s->var, "variable");
        break;
    case MLSI_LS_LET:
        copy_let(c, s->ref);
        s->ref = known(c, c->lets, s->ref, "let");
        break;
    case MLSI_LS_ACC: copy_acc(c, s->ref); /* fall through */
    case MLSI_LS_ADD: s->ref = known(c, c->accs, s->ref, "accumulator"); break;
    case MLSI_LS_ALLOC: copy_buffer(c, s->ref); /* fall through */
    case MLSI_LS_STORE:
    case MLSI_LS_COPY:
    case MLSI_LS_MMA: s->ref = known(c, c->buffers, s->ref, "buffer"); break;
    default: break;
    }
}

/* A body; its first statement in the copy. */
static int32_t copy_body(copier *c, int32_t first) {
    mlsi_nest *n = c->to;
    int32_t head = -1, last = -1;
    for (int32_t i = first; i >= 0 && n->status == MLSYS_OK; i = c->from->stmts[i].next) {
        mlsi_ls s = c->from->stmts[i];
        s.value = copy_expr(c, s.value);
        s.value2 = copy_expr(c, s.value2);
        for (int k = 0; k < s.n_index; k++)
            s.index[k] = index_of(c, s.index[k]);
        copy_refs(c, &s);
        s.next = s.body = -1;
        if (!keep(c, MLSI_GROW(n->alloc, &n->stmts, &n->cap_stmts, n->n_stmts + 1))) break;
        int32_t made = (int32_t)n->n_stmts++;
        n->stmts[made] = s;
        if (last >= 0)
            n->stmts[last].next = made;
        else
            head = made;
        last = made;
        int32_t body = copy_body(c, c->from->stmts[i].body);
        n->stmts[made].body = body;
    }
    return head;
}

mlsys_status mlsi_nest_copy(const mlsi_nest *from, mlsi_nest *to) {
    copier c = {.from = from, .to = to};
    mlsi_nest_init(to, from->alloc, NULL, from->name);
    mlsi_nest_fail(to, from->status);
    keep(&c, MLSI_NEW_N(to->alloc, from->n_exprs + 1, &c.exprs));
    keep(&c, MLSI_NEW_N(to->alloc, from->n_lets + 1, &c.lets));
    keep(&c, MLSI_NEW_N(to->alloc, from->n_accs + 1, &c.accs));
    keep(&c, MLSI_NEW_N(to->alloc, from->n_buffers + 1, &c.buffers));
    keep(&c, MLSI_NEW_N(to->alloc, from->n_vars + 1, &c.vars));
    keep(&c, MLSI_NEW_N(to->alloc, from->tab.n_symbols + 1, &c.units));
    keep(&c, MLSI_NEW_N(to->alloc, from->tab.n_symbols + 1, &c.defined));
    if (to->status == MLSYS_OK) copy_symbols(&c);
    for (int32_t i = 0; i < from->n_buffers && to->status == MLSYS_OK; i++)
        if (from->buffers[i].param >= 0) copy_buffer(&c, i);
    to->n_inputs = from->n_inputs;
    to->n_outputs = from->n_outputs;
    if (to->status == MLSYS_OK) to->first = copy_body(&c, from->first);
    mlsi_mem_free(to->alloc, c.exprs);
    mlsi_mem_free(to->alloc, c.lets);
    mlsi_mem_free(to->alloc, c.accs);
    mlsi_mem_free(to->alloc, c.buffers);
    mlsi_mem_free(to->alloc, c.vars);
    mlsi_mem_free(to->alloc, c.units);
    mlsi_mem_free(to->alloc, c.defined);
    return to->status;
}
