/* Which loops the threads of a block share, and which reductions get their terms from such loops. */
#include "ir/codegen/cuda_writer.h"

#include "core/faults.h"

bool mlsi_cuda_is_tree(const mlsi_acc *a) {
    return (a->kind == MLSI_ACC_SUM || a->kind == MLSI_ACC_PROD) && mlsi_dtype_is_float(a->dtype);
}

bool mlsi_cuda_has_chunks(const mlsi_nest *n, const mlsi_acc *a) {
    int64_t lo, hi;
    mlsi_dim_range(&n->tab, a->count, &lo, &hi);
    return hi > 4096;
}

static bool opens(const mlsi_nest *n, int32_t first, int32_t acc) {
    for (int32_t i = first; i >= 0; i = n->stmts[i].next) {
        const mlsi_ls *s = &n->stmts[i];
        if (s->kind == MLSI_LS_ACC && s->ref == acc) return true;
        if (s->body >= 0 && opens(n, s->body, acc)) return true;
    }
    return false;
}

/* ---- terms ------------------------------------------------------------------------------------------------------- */

/* Terms of a tree have lanes: a thread may give those of one lane, in ascending order. */
static bool add_is_shared(mlsi_nest *n, const mlsi_cuda_plan *p, const mlsi_ls *loop,
                          const mlsi_ls *add, bool in_loop) {
    const mlsi_acc *a = &n->accs[add->ref];
    int64_t stride, first;
    if (opens(n, loop->body, add->ref)) return true;
    if (!p->spread[add->ref]) return false;
    if (!mlsi_cuda_is_tree(a)) return true;
    if (in_loop) return false;
    if (n->vars[loop->var].symbol >= 0 &&
        (!mlsi_c_stride(n, add->index[0], loop->var, &stride) || stride != 1))
        return false;
    return mlsi_cuda_first_position(n, loop, &first) &&
           first == mlsi_nest_index(n, '-', add->index[0], n->vars[loop->var].code);
}

static bool body_is_shared(mlsi_nest *n, const mlsi_cuda_plan *p, const mlsi_ls *loop,
                           int32_t first, bool in_loop) {
    for (int32_t i = first; i >= 0; i = n->stmts[i].next) {
        const mlsi_ls *s = &n->stmts[i];
        switch (s->kind) {
        case MLSI_LS_ADD:
            if (!add_is_shared(n, p, loop, s, in_loop)) return false;
            break;
        case MLSI_LS_ALLOC: /* of each thread */
            if (mlsi_cuda_most_bytes(n, s->ref) > MLSI_CUDA_ARRAY) return false;
            break;
        case MLSI_LS_FOR:
        case MLSI_LS_IF:
        case MLSI_LS_LET:
        case MLSI_LS_STORE:
        case MLSI_LS_ACC: break;
        default: return false; /* a BIND that failed would leave the others waiting */
        }
        bool loops = in_loop || s->kind == MLSI_LS_FOR;
        if (s->body >= 0 && !body_is_shared(n, p, loop, s->body, loops)) return false;
    }
    return true;
}

static bool find_first(mlsi_nest *n, int32_t body, const mlsi_ls *loop, int64_t *position) {
    for (int32_t i = body; i >= 0; i = n->stmts[i].next) {
        const mlsi_ls *s = &n->stmts[i];
        if (s->kind == MLSI_LS_ADD && mlsi_cuda_is_tree(&n->accs[s->ref]) &&
            !opens(n, loop->body, s->ref)) {
            *position = mlsi_nest_index(n, '-', s->index[0], n->vars[loop->var].code);
            return true;
        }
        if (s->body >= 0 && find_first(n, s->body, loop, position)) return true;
    }
    return false;
}

bool mlsi_cuda_first_position(mlsi_nest *n, const mlsi_ls *loop, int64_t *position) {
    return find_first(n, loop->body, loop, position);
}

/* ---- the fixed point: a loop that is not shared makes its reductions not spread, and so on ------------------------ */

static bool lose(const mlsi_nest *n, mlsi_cuda_plan *p, int32_t first) {
    bool lost = false;
    for (int32_t i = first; i >= 0; i = n->stmts[i].next) {
        const mlsi_ls *s = &n->stmts[i];
        if (s->kind == MLSI_LS_ADD && p->spread[s->ref]) {
            p->spread[s->ref] = false;
            lost = true;
        }
        if (s->body >= 0) lost |= lose(n, p, s->body);
    }
    return lost;
}

static bool visit(mlsi_nest *n, mlsi_cuda_plan *p, int32_t first) {
    bool lost = false;
    for (int32_t i = first; i >= 0; i = n->stmts[i].next) {
        const mlsi_ls *s = &n->stmts[i];
        bool lanes = s->kind == MLSI_LS_FOR && s->loop == MLSI_LOOP_VECTOR;
        p->shared[i] = lanes && body_is_shared(n, p, s, s->body, false);
        if (s->kind == MLSI_LS_ADD && p->spread[s->ref]) {
            p->spread[s->ref] = false;
            lost = true;
        }
        if (p->shared[i] || s->body < 0) continue;
        if (lanes) lost |= lose(n, p, s->body);
        lost |= visit(n, p, s->body);
    }
    return lost;
}

static void finish(const mlsi_nest *n, mlsi_cuda_plan *p, int32_t first, bool inside) {
    for (int32_t i = first; i >= 0; i = n->stmts[i].next) {
        const mlsi_ls *s = &n->stmts[i];
        if (inside) p->shared[i] = false;
        if (inside && s->kind == MLSI_LS_ACC) p->spread[s->ref] = false;
        p->block |= p->shared[i];
        if (s->body >= 0) finish(n, p, s->body, inside || p->shared[i]);
    }
}

mlsys_status mlsi_cuda_plan_init(mlsi_cuda_plan *p, mlsi_nest *n) {
    MLSI_TRY(MLSI_NEW_N(n->alloc, n->n_stmts + 1, &p->shared));
    MLSI_TRY(MLSI_NEW_N(n->alloc, n->n_accs + 1, &p->spread));
    MLSI_TRY(MLSI_NEW_N(n->alloc, n->n_buffers + 1, &p->touched));
    MLSI_TRY(MLSI_NEW_N(n->alloc, n->n_exprs + 1, &p->packed_load));
    MLSI_TRY(MLSI_NEW_N(n->alloc, n->n_stmts + 1, &p->packed_store));
    for (int64_t a = 0; a < n->n_accs; a++)
        p->spread[a] = n->accs[a].kind != MLSI_ACC_DOT;
    while (visit(n, p, n->first))
        continue;
    finish(n, p, n->first, false);
    for (int64_t a = 0; !p->block && a < n->n_accs; a++)
        p->spread[a] = false;
    return MLSYS_OK;
}

void mlsi_cuda_plan_free(mlsi_cuda_plan *p, const mlsi_nest *n) {
    mlsi_mem_free(n->alloc, p->shared);
    mlsi_mem_free(n->alloc, p->spread);
    mlsi_mem_free(n->alloc, p->touched);
    mlsi_mem_free(n->alloc, p->packed_load);
    mlsi_mem_free(n->alloc, p->packed_store);
}
