/* The default schedule for CPUs: which loops of a nest of rows are tasks, which are registers of lanes.
 *
 * The loops that nest perfectly from the root are independent rows (lower_rows.c). They become tasks; in each row the
 * innermost loops become lanes. Where the elements lie along the last row loop rather than along the row (sums over
 * leading axes, products along K), that loop becomes the lanes and the loops inside stay serial. */
#include "ir/codegen/c_writer.h"

static bool has_loop(const mlsi_nest *n, int32_t first) {
    for (int32_t i = first; i >= 0; i = n->stmts[i].next)
        if (n->stmts[i].kind == MLSI_LS_FOR ||
            (n->stmts[i].body >= 0 && has_loop(n, n->stmts[i].body)))
            return true;
    return false;
}

void mlsi_c_innermost_are_lanes(mlsi_nest *n, int32_t first) {
    for (int32_t i = first; i >= 0; i = n->stmts[i].next) {
        if (n->stmts[i].body < 0) continue;
        if (n->stmts[i].kind == MLSI_LS_FOR && !has_loop(n, n->stmts[i].body))
            n->stmts[i].loop = MLSI_LOOP_VECTOR;
        else
            mlsi_c_innermost_are_lanes(n, n->stmts[i].body);
    }
}

/* How memory moves with a loop, over all loads and stores below. */
typedef struct motion {
    int unit, other;
    bool chain; /* products along K are inside */
} motion;

static void add_access(const mlsi_nest *n, int32_t buffer, const int64_t *index, int32_t var,
                       motion *m) {
    mlsi_c_access a = mlsi_c_access_of(n, buffer, index, var);
    m->unit += a == MLSI_C_UNIT;
    m->other += a == MLSI_C_OTHER;
}

static void walk_value(const mlsi_nest *n, int32_t expr, int32_t var, motion *m) {
    const mlsi_lx *x = &n->exprs[expr];
    if (x->kind == MLSI_LX_LOAD) add_access(n, x->ref, x->index, var, m);
    for (int i = 0; i < x->n_args; i++)
        walk_value(n, x->args[i], var, m);
}

static void walk(const mlsi_nest *n, int32_t first, int32_t var, motion *m) {
    for (int32_t i = first; i >= 0; i = n->stmts[i].next) {
        const mlsi_ls *s = &n->stmts[i];
        if (s->value >= 0) walk_value(n, s->value, var, m);
        if (s->value2 >= 0) walk_value(n, s->value2, var, m);
        if (s->kind == MLSI_LS_STORE) add_access(n, s->ref, s->index, var, m);
        m->chain |= s->kind == MLSI_LS_ACC && n->accs[s->ref].kind == MLSI_ACC_DOT;
        if (s->body >= 0) walk(n, s->body, var, m);
    }
}

static int32_t innermost_var(const mlsi_nest *n, int32_t first) {
    int32_t var = -1;
    for (int32_t i = first; i >= 0; i = n->stmts[i].next) {
        if (n->stmts[i].body < 0) continue;
        int32_t inner = innermost_var(n, n->stmts[i].body);
        if (inner >= 0)
            var = inner;
        else if (n->stmts[i].kind == MLSI_LS_FOR)
            var = n->stmts[i].var;
    }
    return var;
}

static bool prefers_row_loop(const mlsi_nest *n, const mlsi_ls *last) {
    motion across = {0, 0, false}, along = {0, 0, false};
    int32_t inner = innermost_var(n, last->body);
    walk(n, last->body, last->var, &across);
    if (inner >= 0) walk(n, last->body, inner, &along);
    return across.other == 0 && (across.chain || across.unit > along.unit);
}

mlsys_status mlsi_codegen_schedule(mlsi_nest *n) {
    int32_t chain[16], count = 0;
    for (int32_t i = n->first; i >= 0 && count < 16; i = n->stmts[i].body) {
        if (n->stmts[i].kind != MLSI_LS_FOR || n->stmts[i].next >= 0) break;
        chain[count++] = i;
    }
    if (!count) {
        mlsi_c_innermost_are_lanes(n, n->first);
        return n->status;
    }
    mlsi_ls *last = &n->stmts[chain[count - 1]];
    bool lanes = !has_loop(n, last->body) || prefers_row_loop(n, last);
    for (int32_t i = 0; i < count - lanes; i++)
        n->stmts[chain[i]].loop = MLSI_LOOP_PARALLEL;
    if (lanes)
        last->loop = MLSI_LOOP_VECTOR;
    else
        mlsi_c_innermost_are_lanes(n, last->body);
    return n->status;
}
