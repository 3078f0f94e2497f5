/* Sums over leading axes: a block takes 32 neighbouring columns as one task, so that each warp reads whole lines. Thread t has column t mod 32 and
 * the 32 lanes of the canonical tree that are t / 32 modulo 4, in registers; the four threads of a column fold a chunk together. */
#include "ir/codegen/cuda_writer.h"

#include "core/faults.h"

static bool reads_across(const mlsi_nest *n, int32_t expr, int32_t column, int32_t row) {
    if (expr < 0) return false;
    const mlsi_lx *x = &n->exprs[expr];
    if (x->kind == MLSI_LX_LOAD && mlsi_c_access_of(n, x->ref, x->index, column) == MLSI_C_UNIT &&
        mlsi_c_access_of(n, x->ref, x->index, row) == MLSI_C_OTHER)
        return true;
    for (int i = 0; i < x->n_args; i++)
        if (reads_across(n, x->args[i], column, row)) return true;
    return false;
}

/* The loop adds one term an iteration, at its own position, to a sum of at most 4096 chunks. */
static bool is_column_loop(const mlsi_nest *n, const mlsi_ls *loop, int32_t column) {
    const mlsi_loop_var *v = &n->vars[loop->var];
    int64_t lo, hi;
    int adds = 0;
    bool across = false;
    for (int32_t i = loop->body; i >= 0; i = n->stmts[i].next) {
        const mlsi_ls *s = &n->stmts[i];
        if (s->kind != MLSI_LS_LET && s->kind != MLSI_LS_ADD) return false;
        across |= reads_across(n, s->value, column, loop->var);
        if (s->kind != MLSI_LS_ADD) continue;
        mlsi_dim_range(&n->tab, n->accs[s->ref].count, &lo, &hi);
        if (!mlsi_cuda_is_tree(&n->accs[s->ref]) || s->index[0] != v->code || hi > 4096 * 4096)
            return false;
        adds++;
    }
    return adds == 1 && across;
}

void mlsi_cuda_find_columns(mlsi_c_writer *w) {
    mlsi_nest *n = w->n;
    mlsi_cuda_plan *p = w->plan;
    const int32_t last = mlsi_cuda_last_loop(n);
    int64_t lo, hi;
    int loops = 0;
    p->columns = false;
    if (last < 0 || !p->block || p->n_parts) return;
    const mlsi_ls *s = &n->stmts[last], *cut = mlsi_c_ragged(w, s);
    mlsi_dim_range(&n->tab, n->vars[s->var].extent, &lo, &hi);
    if (hi < MLSI_CUDA_SIDE || n->vars[s->var].symbol < 0) return;
    for (int32_t i = cut ? cut->body : s->body; i >= 0; i = n->stmts[i].next) {
        const mlsi_ls *t = &n->stmts[i];
        const bool plain =
            t->kind == MLSI_LS_LET || t->kind == MLSI_LS_ACC || (t->kind == MLSI_LS_STORE && loops);
        if (t->kind == MLSI_LS_FOR && is_column_loop(n, t, s->var))
            loops++;
        else if (!plain)
            return;
    }
    if (loops != 1) return;
    p->columns = true;
    p->pack_loop = last;
}

void mlsi_cuda_column_body(mlsi_c_writer *w) {
    const mlsi_ls *s = &w->n->stmts[w->plan->pack_loop], *cut = mlsi_c_ragged(w, s);
    const char *v = mlsi_c_extent(w, s, cut);
    mlsi_text_add(
        w->out,
        "const int64_t column = b_%s + (threadIdx.x & 31), v_%s = int_min(column, n_%s - 1);\n"
        "const int part = threadIdx.x >> 5;\nif (b_%s < n_%s) {\n",
        v, v, v, v, v);
    w->worker = MLSI_C_THREAD;
    mlsi_c_body(w, cut ? cut->body : s->body);
    w->worker = MLSI_C_BLOCK;
    mlsi_text_add(w->out, "}\n}\n");
}

void mlsi_cuda_column_store(mlsi_c_writer *w) {
    const char *v = w->n->vars[w->n->stmts[w->plan->pack_loop].var].name;
    mlsi_text_add(w->out, "if (part == 0 && column == v_%s) ", v);
}

/* 128 rows at a time: thread-private lane u is lane 4 * u + part of the tree. */
void mlsi_cuda_column_loop(mlsi_c_writer *w, const mlsi_ls *s) {
    const char *v = mlsi_c_extent(w, s, NULL);
    int32_t acc = -1;
    for (int32_t i = s->body; i >= 0; i = w->n->stmts[i].next)
        if (w->n->stmts[i].kind == MLSI_LS_ADD) acc = w->n->stmts[i].ref;
    mlsi_text_add(w->out, "int64_t c_%s = 0;\nfor (; c_%s + 128 <= n_%s; c_%s += 128) {\n", v, v, v,
                  v);
    mlsi_text_add(w->out,
                  "#pragma unroll\nfor (int u = 0; u < 32; u++) {\n"
                  "const int64_t v_%s = c_%s + 4 * u + part;\n",
                  v, v);
    mlsi_c_body(w, s->body);
    mlsi_text_add(w->out, "}\nif ((c_%s & %d) == 4096 - 128) ", v,
                  mlsi_fault(MLSI_FAULT_CUDA_COLUMN) ? 8191 : 4095);
    mlsi_c_acc_type(w, acc);
    mlsi_text_add(w->out, "_fold(&%s);\n}\n", w->n->accs[acc].name);
    mlsi_text_add(w->out,
                  "#pragma unroll\nfor (int u = 0; u < 32; u++) {\n"
                  "const int64_t v_%s = c_%s + 4 * u + part;\nif (v_%s < n_%s) {\n",
                  v, v, v, v);
    mlsi_c_body(w, s->body);
    mlsi_text_add(w->out, "}\n}\nif (n_%s & 4095) ", v);
    mlsi_c_acc_type(w, acc);
    mlsi_text_add(w->out, "_fold(&%s);\n}\n", w->n->accs[acc].name);
}
