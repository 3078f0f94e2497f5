/* Packs: a thread takes a few neighbouring iterations of the innermost parallel loop as one task, and what moves along that loop
 * by one element is loaded and stored as one vector of at most 16 bytes. Where an address is not aligned, or the row ends
 * within the pack, the vocabulary goes element by element.
 *
 * Only bodies without loops, conditions and failures, and which read nothing that they write: all loads of a pack come before
 * its stores, as iterations of a parallel loop may. */
#include "ir/codegen/cuda_writer.h"

#include "core/faults.h"

#include <string.h>

typedef struct pack_walk {
    const mlsi_nest *n;
    mlsi_cuda_plan *p;
    int32_t var;
    int widest; /* bytes of an element that moves along */
    int calls; /* of elementary functions and the like, which the compiler writes out for each element */
    int accesses; /* that become vectors */
} pack_walk;

static bool moves_along(pack_walk *k, int32_t buffer, const int64_t *index) {
    const int size = mlsi_dtype_size(k->n->buffers[buffer].dtype);
    if (mlsi_c_access_of(k->n, buffer, index, k->var) != MLSI_C_UNIT) return false;
    if (size > k->widest) k->widest = size;
    k->accesses++;
    return true;
}

static bool is_call(const mlsi_nest *n, const mlsi_lx *x) {
    if (x->kind == MLSI_LX_RANDOM) return true;
    if (x->kind != MLSI_LX_OP) return false;
    if (x->dtype == MLSYS_F8E4M3 || x->dtype == MLSYS_F8E5M2) return true;
    const mlsi_c_class c = mlsi_c_class_of(mlsi_c_args_dtype(n, x));
    const char *text = mlsi_c_op(x->op, c, c == MLSI_C_F32);
    return x->op == MLSI_OP_REM || x->op == MLSI_OP_MOD ||
           (text && (!strncmp(text, "ef_", 3) || strstr(text, "ed_")));
}

static void visit_value(pack_walk *k, int32_t expr, bool guarded) {
    if (expr < 0) return;
    const mlsi_lx *x = &k->n->exprs[expr];
    if (x->kind == MLSI_LX_LOAD && !guarded && !k->p->packed_load[expr])
        k->p->packed_load[expr] = moves_along(k, x->ref, x->index);
    k->calls += is_call(k->n, x);
    for (int i = 0; i < x->n_args; i++)
        visit_value(k, x->args[i], guarded || x->kind == MLSI_LX_GUARD);
}

static void visit(pack_walk *k, int32_t first) {
    for (int32_t i = first; i >= 0; i = k->n->stmts[i].next) {
        const mlsi_ls *s = &k->n->stmts[i];
        visit_value(k, s->value, false);
        if (s->kind == MLSI_LS_STORE) k->p->packed_store[i] = moves_along(k, s->ref, s->index);
    }
}

static bool reads_inputs_alone(const mlsi_nest *n, int32_t expr) {
    if (expr < 0) return true;
    const mlsi_lx *x = &n->exprs[expr];
    if (x->kind == MLSI_LX_LOAD) return n->buffers[x->ref].scope == MLSI_SCOPE_INPUT;
    for (int i = 0; i < x->n_args; i++)
        if (!reads_inputs_alone(n, x->args[i])) return false;
    return true;
}

bool mlsi_cuda_is_plain(const mlsi_nest *n, int32_t first) {
    for (int32_t i = first; i >= 0; i = n->stmts[i].next) {
        const mlsi_ls *s = &n->stmts[i];
        if (s->kind != MLSI_LS_LET && s->kind != MLSI_LS_STORE) return false;
        if (!reads_inputs_alone(n, s->value)) return false;
    }
    return true;
}

int32_t mlsi_cuda_last_loop(const mlsi_nest *n) {
    int32_t chain[8], inner, last = -1;
    const int count = mlsi_codegen_chain(n, chain, &inner);
    for (int32_t i = n->first, k = 0; k < count; k++, i = n->stmts[i].body)
        last = i;
    return last;
}

static int size_of(const pack_walk *k, int64_t extent) {
    enum { BYTES = 16, MOST = 8, CALLS = 8 };
    int64_t lo, hi;
    if (!k->accesses) return 1;
    int pack = BYTES / k->widest < MOST ? BYTES / k->widest : MOST;
    while (pack > 1 && pack * k->calls > CALLS)
        pack /= 2;
    mlsi_dim_range(&k->n->tab, extent, &lo, &hi);
    return hi < 2 * pack ? 1 : pack;
}

void mlsi_cuda_find_pack(mlsi_c_writer *w) {
    mlsi_cuda_plan *p = w->plan;
    const int32_t loop = mlsi_cuda_last_loop(w->n);
    p->pack = 1;
    if (loop < 0 || p->block || w->n->vars[w->n->stmts[loop].var].symbol < 0) return;
    const mlsi_ls *s = &w->n->stmts[loop], *cut = mlsi_c_ragged(w, s);
    const int32_t first = cut ? cut->body : s->body;
    if (!mlsi_cuda_is_plain(w->n, first)) return;
    pack_walk k = {.n = w->n, .p = p, .var = s->var, .widest = 1};
    visit(&k, first);
    p->pack = size_of(&k, w->n->vars[s->var].extent);
    p->pack_loop = loop;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

bool mlsi_cuda_packed_load(mlsi_c_writer *w, const mlsi_lx *x) {
    const int64_t expr = x - w->n->exprs;
    if (w->plan->pack == 1 || !w->plan->packed_load[expr]) return false;
    mlsi_text_add(w->out, "p_%lld.x[u]", (long long)expr);
    return true;
}

bool mlsi_cuda_packed_store(mlsi_c_writer *w, const mlsi_ls *s) {
    const int64_t stmt = s - w->n->stmts;
    if (w->plan->pack == 1 || !w->plan->packed_store[stmt]) return false;
    mlsi_text_add(w->out, "q_%lld.x[u]", (long long)stmt);
    return true;
}

static void pack_of(mlsi_c_writer *w, int32_t buffer, char kind, int64_t number) {
    mlsi_text_add(w->out, "ml_pack<%s, %d> %c_%lld;\n",
                  mlsi_c_memory_type(w->n->buffers[buffer].dtype), w->plan->pack, kind,
                  (long long)number);
}

static void move(mlsi_c_writer *w, const char *call, char kind, int64_t number, int32_t buffer,
                 const int64_t *index) {
    mlsi_text_add(w->out, "%s(%c_%lld, &m_%s[", call, kind, (long long)number,
                  w->n->buffers[buffer].name);
    mlsi_c_address(w, buffer, index);
    mlsi_text_add(w->out, "], pack);\n");
}

static void declare_packs(mlsi_c_writer *w, int32_t first) {
    for (int64_t e = 0; e < w->n->n_exprs; e++)
        if (w->plan->packed_load[e]) pack_of(w, w->n->exprs[e].ref, 'p', e);
    for (int32_t i = first; i >= 0; i = w->n->stmts[i].next)
        if (w->plan->packed_store[i]) pack_of(w, w->n->stmts[i].ref, 'q', i);
}

/* b_NAME: the first iteration; pack: how many there are, not positive behind the end. */
void mlsi_cuda_pack_body(mlsi_c_writer *w) {
    const mlsi_nest *n = w->n;
    const mlsi_ls *s = &n->stmts[w->plan->pack_loop], *cut = mlsi_c_ragged(w, s);
    const int32_t first = cut ? cut->body : s->body;
    const int size = w->plan->pack;
    const char *v = mlsi_c_extent(w, s, cut);
    mlsi_text_add(w->out, "const int pack = (int)int_min(%d, n_%s - b_%s%s);\n", size, v, v,
                  mlsi_fault(MLSI_FAULT_CUDA_PACK) ? " + 1" : "");
    declare_packs(w, first);
    mlsi_text_add(w->out, "{\nconst int64_t v_%s = b_%s; (void)v_%s;\n", v, v, v);
    for (int64_t e = 0; e < n->n_exprs; e++)
        if (w->plan->packed_load[e])
            move(w, "ml_load_pack", 'p', e, n->exprs[e].ref, n->exprs[e].index);
    mlsi_text_add(w->out,
                  "}\n#pragma unroll\nfor (int u = 0; u < %d; u++) if (u < pack) {\n"
                  "const int64_t v_%s = b_%s + u; (void)v_%s;\n",
                  size, v, v, v);
    mlsi_c_body(w, first);
    mlsi_text_add(w->out, "}\nconst int64_t v_%s = b_%s; (void)v_%s;\n", v, v, v);
    for (int32_t i = first; i >= 0; i = n->stmts[i].next)
        if (w->plan->packed_store[i])
            move(w, "ml_store_pack", 'q', i, n->stmts[i].ref, n->stmts[i].index);
    mlsi_text_add(w->out, "}\n");
}
