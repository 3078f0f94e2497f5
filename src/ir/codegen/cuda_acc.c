/* Reductions of CUDA C: which state of the vocabulary an accumulator has, and what its calls are given. */
#include "ir/codegen/cuda_writer.h"

#include "core/faults.h"

/* A thread's own sum of few terms needs few lanes. */
static const char *own_variant(const mlsi_nest *n, const mlsi_acc *a) {
    int64_t lo, hi;
    if (!mlsi_cuda_is_tree(a)) return "";
    mlsi_dim_range(&n->tab, a->count, &lo, &hi);
    return hi <= 8 ? "_8" : hi <= 32 ? "_32" : hi <= 128 ? "_128" : hi <= 4096 ? "_4096" : "";
}

const char *mlsi_cuda_acc_variant(const mlsi_c_writer *w, int32_t acc) {
    const mlsi_acc *a = &w->n->accs[acc];
    if (w->plan->columns) return "_column";
    if (!w->plan->spread[acc]) return own_variant(w->n, a);
    return mlsi_cuda_is_tree(a) && mlsi_cuda_has_chunks(w->n, a) ? "_chunks" : "_block";
}

void mlsi_cuda_add(mlsi_c_writer *w, const mlsi_ls *s) {
    if (w->plan->columns) mlsi_text_add(w->out, "u, ");
    if (!w->plan->spread[s->ref] || w->n->accs[s->ref].kind < MLSI_ACC_ARGMAX) return;
    mlsi_c_index(w, s->index[0]);
    mlsi_text_add(w->out, ", ");
}

void mlsi_cuda_end(mlsi_c_writer *w, int32_t acc) {
    const mlsi_acc *a = &w->n->accs[acc];
    if (!w->plan->spread[acc]) return;
    if (mlsi_cuda_is_tree(a) && mlsi_cuda_has_chunks(w->n, a)) {
        mlsi_text_add(w->out, ", ");
        mlsi_c_index(w, a->count);
    }
    mlsi_cuda_met(w);
}
