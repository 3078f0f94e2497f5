/* Loop-invariant motion in a nest: a let whose value does not change in a loop is evaluated before it.
 *
 * It may name no variable that the loop or something in it defines, no let from inside, no accumulator that the loop opens
 * or gives terms, and no buffer that the loop writes or allocates. Loops that may be empty keep theirs: an element that is
 * read only where there is an iteration need not exist. What is drawn or shuffled stays, and what is loaded where a
 * BARRIER or WAIT stands in the loop. Tasks (PARALLEL, GRID, BLOCK, LANE
 * loops) keep theirs too: they nest perfectly. */
#include "core/faults.h"
#include "ir/loop/prove.h"
#include "ir/loop/schedule_edit.h"

#include <string.h>

enum { UNKNOWN = 0, FIXED, VARIES };

typedef struct motion {
    mlsi_nest *n;
    bool waits;   /* a BARRIER or WAIT stands in the loop */
    bool *inside; /* per statement: of the loop */
    bool *var_in; /* per variable, buffer, accumulator: the loop defines or changes it */
    bool *buffer_in;
    bool *acc_in;
    int32_t *let_at; /* per let: its statement */
    uint8_t *known;  /* per expression, of the loop */
} motion;

/* ---- what the loop changes --------------------------------------------------------------------------- */

static void mark(motion *m, int32_t first, bool top) {
    for (int32_t i = first; i >= 0; i = top ? -1 : m->n->stmts[i].next) {
        const mlsi_ls *s = &m->n->stmts[i];
        m->inside[i] = true;
        switch (s->kind) {
        case MLSI_LS_FOR:
        case MLSI_LS_BIND: m->var_in[s->var] = true; break;
        case MLSI_LS_STORE:
        case MLSI_LS_COPY:
        case MLSI_LS_MMA:
        case MLSI_LS_ALLOC: m->buffer_in[s->ref] = !mlsi_fault(MLSI_FAULT_INVARIANT_MEMORY); break;
        case MLSI_LS_ACC: m->acc_in[s->ref] = true; break;
        case MLSI_LS_ADD: m->acc_in[s->ref] = !mlsi_fault(MLSI_FAULT_INVARIANT_TERMS); break;
        case MLSI_LS_BARRIER:
        case MLSI_LS_WAIT: m->waits = true; break;
        default: break;
        }
        mark(m, s->body, false);
    }
}

static bool index_fixed(const motion *m, const mlsi_lx *x) {
    for (int64_t v = 0; v < m->n->n_vars; v++) {
        if (!m->var_in[v] || m->n->vars[v].symbol < 0) continue;
        for (int i = 0; i < x->n_index; i++)
            if (mlsi_dim_names(&m->n->tab, x->index[i], m->n->vars[v].symbol)) return false;
    }
    return true;
}

static bool value_fixed(motion *m, int32_t expr) {
    const mlsi_lx *x = &m->n->exprs[expr];
    if (m->known[expr]) return m->known[expr] == FIXED;
    bool fixed = index_fixed(m, x);
    switch (x->kind) {
    case MLSI_LX_LOAD: fixed = fixed && !m->waits && !m->buffer_in[x->ref]; break;
    case MLSI_LX_LET: fixed = fixed && !m->inside[m->let_at[x->ref]]; break;
    case MLSI_LX_ACC: fixed = fixed && !m->acc_in[x->ref]; break;
    case MLSI_LX_RANDOM:
    case MLSI_LX_SHUFFLE: fixed = false; break;
    default: break;
    }
    for (int i = 0; i < x->n_args && fixed; i++)
        fixed = value_fixed(m, x->args[i]);
    m->known[expr] = fixed ? FIXED : VARIES;
    return fixed;
}

/* ---- moving ---------------------------------------------------------------------------------------------- */

static bool may_leave(const mlsi_nest *n, const mlsi_ls *loop) {
    int64_t lo = 0, hi;
    if (loop->kind != MLSI_LS_FOR) return false;
    if (loop->loop != MLSI_LOOP_SERIAL && loop->loop != MLSI_LOOP_VECTOR &&
        loop->loop != MLSI_LOOP_UNROLLED)
        return false;
    mlsi_dim_range(&n->tab, n->vars[loop->var].extent, &lo, &hi);
    return lo >= 1 || mlsi_fault(MLSI_FAULT_INVARIANT_EMPTY);
}

static void empty(motion *m) {
    m->waits = false;
    memset(m->inside, 0, sizeof *m->inside * (size_t)m->n->n_stmts);
    memset(m->var_in, 0, sizeof *m->var_in * (size_t)m->n->n_vars);
    memset(m->buffer_in, 0, sizeof *m->buffer_in * (size_t)m->n->n_buffers);
    memset(m->acc_in, 0, sizeof *m->acc_in * (size_t)m->n->n_accs);
    memset(m->known, 0, sizeof *m->known * (size_t)m->n->n_exprs);
}

/* In the order of the text, so that a let that reads one that has moved may move as well. */
static void move_from(motion *m, int32_t loop) {
    mlsi_nest *n = m->n;
    if (!may_leave(n, &n->stmts[loop])) return;
    empty(m);
    mark(m, loop, true);
    for (int32_t i = n->stmts[loop].body, next; i >= 0; i = next) {
        next = n->stmts[i].next;
        if (n->stmts[i].kind != MLSI_LS_LET || !value_fixed(m, n->stmts[i].value)) continue;
        mlsi_edit_unlink(n, i);
        mlsi_edit_before(n, loop, i);
        m->inside[i] = false;
    }
}

/* Inner loops first: what leaves one may leave the next. */
static void move_in(motion *m, int32_t first) {
    for (int32_t i = first; i >= 0; i = m->n->stmts[i].next) {
        move_in(m, m->n->stmts[i].body);
        move_from(m, i);
    }
}

mlsys_status mlsi_nest_move_invariants(mlsi_nest *n) {
    motion m = {.n = n};
    mlsys_status st = n->status;
    if (st == MLSYS_OK) st = MLSI_NEW_N(n->alloc, n->n_stmts + 1, &m.inside);
    if (st == MLSYS_OK) st = MLSI_NEW_N(n->alloc, n->n_vars + 1, &m.var_in);
    if (st == MLSYS_OK) st = MLSI_NEW_N(n->alloc, n->n_buffers + 1, &m.buffer_in);
    if (st == MLSYS_OK) st = MLSI_NEW_N(n->alloc, n->n_accs + 1, &m.acc_in);
    if (st == MLSYS_OK) st = MLSI_NEW_N(n->alloc, n->n_lets + 1, &m.let_at);
    if (st == MLSYS_OK) st = MLSI_NEW_N(n->alloc, n->n_exprs + 1, &m.known);
    for (int32_t i = 0; i < n->n_stmts && st == MLSYS_OK; i++)
        if (n->stmts[i].kind == MLSI_LS_LET) m.let_at[n->stmts[i].ref] = i;
    if (st == MLSYS_OK) move_in(&m, n->first);
    void *owned[] = {m.inside, m.var_in, m.buffer_in, m.acc_in, m.let_at, m.known};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++)
        mlsi_mem_free(n->alloc, owned[i]);
    return st;
}
