/* Statements that all threads of a block run: barriers, loops whose iterations they share.
 *
 * A barrier stands ahead of a statement that touches memory which another thread has touched since the last one, where one of
 * the two writes. Outside of shared loops all threads read and thread 0 writes. */
#include "ir/codegen/cuda_writer.h"

#include "core/faults.h"

#include <string.h>

/* ---- what statements touch --------------------------------------------------------------------------------------- */

typedef struct access_walk {
    mlsi_c_writer *w;
    bool mark;     /* else: is there a conflict? */
    bool locals;   /* only LOCAL memory counts */
    bool conflict; /* found */
} access_walk;

static mlsi_cuda_touched *touched(const access_walk *k, int32_t buffer) {
    const mlsi_nest *n = k->w->n;
    bool input = n->buffers[buffer].scope == MLSI_SCOPE_INPUT;
    return &k->w->plan->touched[input ? n->n_buffers : buffer];
}

static bool counts(const access_walk *k, int32_t buffer) {
    if (k->locals && k->w->n->buffers[buffer].scope != MLSI_SCOPE_LOCAL) return false;
    return !mlsi_cuda_is_private(k->w, buffer);
}

static void reads(access_walk *k, int32_t buffer, mlsi_cuda_by by) {
    mlsi_cuda_touched *t = touched(k, buffer);
    if (!counts(k, buffer)) return;
    if (k->mark && t->read < by) t->read = (uint8_t)by;
    k->conflict |= t->written == MLSI_CUDA_ALL || (t->written && by == MLSI_CUDA_ALL);
}

static void writes(access_walk *k, int32_t buffer, mlsi_cuda_by by) {
    mlsi_cuda_touched *t = touched(k, buffer);
    uint8_t before = t->read > t->written ? t->read : t->written;
    if (!counts(k, buffer)) return;
    if (k->w->n->buffers[buffer].scope == MLSI_SCOPE_OUTPUT) {
        const uint8_t inputs = k->w->plan->touched[k->w->n->n_buffers].read;
        if (inputs > before) before = inputs;
    }
    k->conflict |= before == MLSI_CUDA_ALL || (before && by == MLSI_CUDA_ALL);
    if (k->mark && t->written < by) t->written = (uint8_t)by;
}

static void value(access_walk *k, int32_t expr, mlsi_cuda_by by) {
    if (expr < 0) return;
    const mlsi_lx *x = &k->w->n->exprs[expr];
    if (x->kind == MLSI_LX_LOAD) reads(k, x->ref, by);
    for (int i = 0; i < x->n_args; i++)
        value(k, x->args[i], by);
}

static void list(access_walk *k, int32_t first, bool shared);

static void statement(access_walk *k, const mlsi_ls *s, bool shared) {
    const mlsi_nest *n = k->w->n;
    const mlsi_cuda_by by =
        s->kind == MLSI_LS_STORE && !shared && !mlsi_cuda_is_private(k->w, s->ref) ? MLSI_CUDA_FIRST
                                                                                   : MLSI_CUDA_ALL;
    value(k, s->value, by);
    value(k, s->value2, by);
    if (s->kind == MLSI_LS_ACC) value(k, n->accs[s->ref].init, by);
    if (s->kind == MLSI_LS_STORE) writes(k, s->ref, by);
    list(k, s->body, shared || k->w->plan->shared[s - n->stmts]);
}

static void list(access_walk *k, int32_t first, bool shared) {
    for (int32_t i = first; i >= 0; i = k->w->n->stmts[i].next)
        statement(k, &k->w->n->stmts[i], shared);
}

/* ---- barriers ---------------------------------------------------------------------------------------------------- */

void mlsi_cuda_met(mlsi_c_writer *w) {
    memset(w->plan->touched, 0, sizeof *w->plan->touched * (size_t)(w->n->n_buffers + 1));
}

static void barrier(mlsi_c_writer *w) {
    if (!mlsi_fault(MLSI_FAULT_CUDA_BARRIER)) mlsi_text_add(w->out, "__syncthreads();\n");
    mlsi_cuda_met(w);
}

/* What is in loops and conditions gets its barriers there. */
static bool is_open(const mlsi_c_writer *w, const mlsi_ls *s) {
    return (s->kind == MLSI_LS_FOR && !w->plan->shared[s - w->n->stmts]) || s->kind == MLSI_LS_IF;
}

static void touch(access_walk *k, const mlsi_ls *s) {
    if (is_open(k->w, s))
        value(k, s->value, MLSI_CUDA_ALL);
    else
        statement(k, s, false);
}

void mlsi_cuda_before(mlsi_c_writer *w, const mlsi_ls *s) {
    access_walk k = {.w = w};
    touch(&k, s);
    if (k.conflict) barrier(w);
    k.mark = true;
    touch(&k, s);
}

void mlsi_cuda_again(mlsi_c_writer *w, int32_t first, bool locals) {
    access_walk k = {.w = w, .locals = locals};
    list(&k, first, false);
    if (k.conflict) barrier(w);
}

/* ---- loops, conditions: what was touched before them still is where they do not run -------------------------------- */

static mlsi_cuda_touched *keep(mlsi_c_writer *w) {
    mlsi_cuda_touched *kept = NULL;
    mlsys_status st = MLSI_NEW_N(w->n->alloc, w->n->n_buffers + 1, &kept);
    if (st != MLSYS_OK) {
        w->status = st;
        return NULL;
    }
    memcpy(kept, w->plan->touched, sizeof *kept * (size_t)(w->n->n_buffers + 1));
    return kept;
}

static void join(mlsi_c_writer *w, mlsi_cuda_touched *kept) {
    for (int64_t b = 0; kept && b <= w->n->n_buffers; b++) {
        mlsi_cuda_touched *t = &w->plan->touched[b];
        if (t->read < kept[b].read) t->read = kept[b].read;
        if (t->written < kept[b].written) t->written = kept[b].written;
    }
    mlsi_mem_free(w->n->alloc, kept);
}

void mlsi_cuda_block_if(mlsi_c_writer *w, const mlsi_ls *s) {
    mlsi_cuda_touched *kept = keep(w);
    mlsi_c_body(w, s->body);
    join(w, kept);
}

static void uniform_loop(mlsi_c_writer *w, const char *v, int32_t first) {
    mlsi_cuda_touched *kept = keep(w);
    mlsi_text_add(w->out, "for (int64_t v_%s = 0; v_%s < n_%s; v_%s++) {\n", v, v, v, v);
    mlsi_c_body(w, first);
    mlsi_cuda_again(w, first, false);
    mlsi_text_add(w->out, "}\n}\n");
    join(w, kept);
}

static void own_iterations(mlsi_c_writer *w, int32_t first) {
    w->worker = MLSI_C_THREAD;
    mlsi_c_body(w, first);
    w->worker = MLSI_C_BLOCK;
}

static bool gives_chunks(const mlsi_c_writer *w, int32_t first, int32_t acc) {
    return w->plan->spread[acc] && mlsi_cuda_is_tree(&w->n->accs[acc]) &&
           mlsi_cuda_has_chunks(w->n, &w->n->accs[acc]) && mlsi_c_adds_to(w->n, first, acc);
}

/* In pieces that end where a chunk of the sums' terms does, since all threads fold it. */
static void loop_in_chunks(mlsi_c_writer *w, const char *v, int32_t first, int64_t position) {
    mlsi_text_add(w->out, "for (int64_t c_%s = 0, e_%s; c_%s < n_%s; c_%s = e_%s) {\n", v, v, v, v,
                  v, v);
    mlsi_text_add(w->out, "const int64_t p_%s = c_%s + ", v, v);
    mlsi_c_index(w, position);
    mlsi_text_add(w->out, ";\ne_%s = int_min(n_%s, c_%s + 4096 - (p_%s & 4095));\n", v, v, v, v);
    mlsi_text_add(w->out,
                  "for (int64_t v_%s = c_%s + ((threadIdx.x - p_%s) & 127); v_%s < e_%s; v_%s += "
                  "128) {\n",
                  v, v, v, v, v, v);
    own_iterations(w, first);
    mlsi_text_add(w->out, "}\n");
    for (int32_t a = 0; a < w->n->n_accs; a++)
        if (gives_chunks(w, first, a)) {
            mlsi_text_add(w->out, "if (((p_%s + e_%s - c_%s) & 4095) == 0) ", v, v, v);
            mlsi_c_acc_type(w, a);
            mlsi_text_add(w->out, "_fold_chunk(&%s);\n", w->n->accs[a].name);
        }
    mlsi_text_add(w->out, "}\n}\n");
}

static void shared_loop(mlsi_c_writer *w, const mlsi_ls *s, const char *v, int32_t first) {
    int64_t position = 0;
    bool terms = mlsi_cuda_first_position(w->n, s, &position);
    for (int32_t a = 0; terms && a < w->n->n_accs; a++)
        if (gives_chunks(w, first, a)) {
            loop_in_chunks(w, v, first, position);
            return;
        }
    const char *lane = mlsi_fault(MLSI_FAULT_CUDA_LANE)
                           ? "((threadIdx.x >> 1 | threadIdx.x << 6) & 127)"
                           : "threadIdx.x";
    mlsi_text_add(w->out, "for (int64_t v_%s = (%s", v, lane);
    if (position) {
        mlsi_text_add(w->out, " - ");
        mlsi_c_index(w, position);
        mlsi_text_add(w->out, ") & 127");
    } else {
        mlsi_text_add(w->out, ")");
    }
    mlsi_text_add(w->out, "; v_%s < n_%s%s; v_%s += 128) {\n", v, v,
                  mlsi_fault(MLSI_FAULT_CUDA_EXTENT) ? " - 1" : "", v);
    own_iterations(w, first);
    mlsi_text_add(w->out, "}\n}\n");
}

void mlsi_cuda_block_loop(mlsi_c_writer *w, const mlsi_ls *s, const mlsi_ls *cut) {
    const char *v = mlsi_c_extent(w, s, cut);
    int32_t first = cut ? cut->body : s->body;
    if (w->plan->shared[s - w->n->stmts])
        shared_loop(w, s, v, first);
    else
        uniform_loop(w, v, first);
}
