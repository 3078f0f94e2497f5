/* Tiles: where an input lies along another loop than the output, a block takes 32 iterations of both as one task. It reads the
 * input along the one loop into shared memory and computes along the other, so that both are read and written in
 * whole lines. Rows of 33 elements keep the columns of a tile in different banks. */
#include "ir/codegen/cuda_writer.h"

#include "core/faults.h"

enum { SIDE = MLSI_CUDA_SIDE, ROW = SIDE + 1, TILES = 4 };

typedef struct tile_walk {
    const mlsi_nest *n;
    mlsi_cuda_plan *p;
    int32_t last, across; /* variables: the output's, the input's */
    bool mark;
    int count;
} tile_walk;

static void visit_value(tile_walk *k, int32_t expr) {
    if (expr < 0) return;
    const mlsi_lx *x = &k->n->exprs[expr];
    if (x->kind == MLSI_LX_GUARD) return; /* read where it is in range */
    if (x->kind == MLSI_LX_LOAD && !k->p->packed_load[expr] && k->count < TILES &&
        mlsi_c_access_of(k->n, x->ref, x->index, k->last) == MLSI_C_OTHER &&
        mlsi_c_access_of(k->n, x->ref, x->index, k->across) == MLSI_C_UNIT) {
        k->count++;
        k->p->packed_load[expr] = k->mark;
    }
    for (int i = 0; i < x->n_args; i++)
        visit_value(k, x->args[i]);
}

static int visit(tile_walk *k, int32_t first) {
    k->count = 0;
    for (int32_t i = first; i >= 0; i = k->n->stmts[i].next)
        visit_value(k, k->n->stmts[i].value);
    return k->count;
}

static bool is_long(const mlsi_nest *n, int32_t var) {
    int64_t lo, hi;
    mlsi_dim_range(&n->tab, n->vars[var].extent, &lo, &hi);
    return n->vars[var].symbol >= 0 && hi >= SIDE / 2;
}

static bool stores_along(const mlsi_nest *n, int32_t first, int32_t var) {
    for (int32_t i = first; i >= 0; i = n->stmts[i].next)
        if (n->stmts[i].kind == MLSI_LS_STORE &&
            mlsi_c_access_of(n, n->stmts[i].ref, n->stmts[i].index, var) != MLSI_C_UNIT)
            return false;
    return true;
}

void mlsi_cuda_find_tile(mlsi_c_writer *w) {
    const mlsi_nest *n = w->n;
    int32_t chain[8], inner;
    const int count = mlsi_codegen_chain(n, chain, &inner);
    w->plan->tile_var = -1;
    if (count < 2 || w->plan->block || !is_long(n, chain[count - 1])) return;
    const mlsi_ls *s = &n->stmts[mlsi_cuda_last_loop(n)], *cut = mlsi_c_ragged(w, s);
    const int32_t first = cut ? cut->body : s->body;
    if (!mlsi_cuda_is_plain(n, first) || !stores_along(n, first, s->var)) return;
    for (int i = 0; i < count - 1; i++) {
        int64_t stride = 0;
        tile_walk k = {.n = n, .p = w->plan, .last = s->var, .across = chain[i]};
        if (!is_long(n, chain[i]) || !visit(&k, first)) continue;
        if (cut && (!mlsi_c_stride(n, cut->index[1], chain[i], &stride) || stride)) continue;
        k.mark = true;
        (void)visit(&k, first);
        w->plan->tile_var = chain[i];
        w->plan->pack_loop = mlsi_cuda_last_loop(n);
        return;
    }
}

/* Tiles lie one behind the other: of expression e, or all of them. */
static uint32_t tile_at(const mlsi_c_writer *w, int64_t e) {
    uint32_t at = 0;
    for (int64_t i = 0; i < w->n->n_exprs && i != e; i++)
        if (w->plan->packed_load[i])
            at += (uint32_t)(SIDE * ROW * mlsi_dtype_size(w->n->exprs[i].dtype) + 15) & ~15u;
    return at;
}

uint32_t mlsi_cuda_tile_bytes(const mlsi_c_writer *w) { return tile_at(w, -1); }

bool mlsi_cuda_tiled_load(mlsi_c_writer *w, const mlsi_lx *x) {
    const int64_t e = x - w->n->exprs;
    if (w->plan->tile_var < 0 || !w->plan->packed_load[e]) return false;
    mlsi_text_add(w->out, "t_%lld[x * %d + y]", (long long)e, ROW);
    return true;
}

/* x: the thread in its warp, along the first variable; y: along the second one. */
static void tile_loop(mlsi_c_writer *w, const char *along, const char *other) {
    mlsi_text_add(w->out,
                  "#pragma unroll\nfor (int y = threadIdx.x >> 5; y < %d; y += 4) {\n"
                  "const int64_t v_%s = b_%s + x, v_%s = b_%s + y;\n"
                  "if (v_%s < n_%s && v_%s < n_%s) {\n",
                  SIDE, along, along, other, other, along, along, other, other);
}

void mlsi_cuda_tile_body(mlsi_c_writer *w) {
    const mlsi_nest *n = w->n;
    const mlsi_ls *s = &n->stmts[w->plan->pack_loop], *cut = mlsi_c_ragged(w, s);
    const char *across = n->vars[w->plan->tile_var].name, *v = mlsi_c_extent(w, s, cut);
    mlsi_text_add(w->out, "const int64_t n_%s = ", across);
    mlsi_c_index(w, n->vars[w->plan->tile_var].extent);
    mlsi_text_add(w->out, ";\nconst int x = threadIdx.x & 31;\n");
    for (int64_t e = 0; e < n->n_exprs; e++)
        if (w->plan->packed_load[e]) {
            const char *type = mlsi_c_memory_type(n->exprs[e].dtype);
            mlsi_text_add(w->out, "%s *const t_%lld = (%s *)(ml_shared + %u);\n", type,
                          (long long)e, type, (unsigned)tile_at(w, e));
        }
    mlsi_text_add(w->out, "__syncthreads(); /* the last task has read its tiles */\n");
    tile_loop(w, across, v);
    for (int64_t e = 0; e < n->n_exprs; e++)
        if (w->plan->packed_load[e]) {
            const mlsi_lx *x = &n->exprs[e];
            mlsi_text_add(w->out, "t_%lld[y * %d + x] = m_%s[", (long long)e, ROW,
                          n->buffers[x->ref].name);
            mlsi_c_address(w, x->ref, x->index);
            mlsi_text_add(w->out, "];\n");
        }
    mlsi_text_add(w->out, "}\n}\n");
    if (!mlsi_fault(MLSI_FAULT_CUDA_TILE)) mlsi_text_add(w->out, "__syncthreads();\n");
    tile_loop(w, v, across);
    mlsi_c_body(w, cut ? cut->body : s->body);
    mlsi_text_add(w->out, "}\n}\n}\n");
}
