/* The default schedule for GPUs: which loops of a nest of rows are tasks, and which ones the threads of a block share.
 *
 * Without loops inside of the rows each element is a task of a thread, and neighbours in the innermost axis are neighbours in the
 * grid. Rows with loops are tasks of a block, whose threads share the innermost loops, also where the elements lie across rows
 * (sums over leading axes): the blocks beside read what else is in a line. Rows that are short, and products along K, are a
 * thread's each. */
#include "ir/codegen/c_writer.h"

enum { SHORT = 32 }; /* extent of loops that are not worth a block */

static bool is_short(const mlsi_nest *n, int32_t first) {
    for (int32_t i = first; i >= 0; i = n->stmts[i].next) {
        const mlsi_ls *s = &n->stmts[i];
        int64_t lo, hi;
        if (s->kind == MLSI_LS_FOR) {
            mlsi_dim_range(&n->tab, n->vars[s->var].extent, &lo, &hi);
            if (hi > SHORT) return false;
        }
        if (s->body >= 0 && !is_short(n, s->body)) return false;
    }
    return true;
}

/* Products along K: one chain of fma, which threads cannot share. */
static bool has_chain(const mlsi_nest *n, int32_t first) {
    for (int32_t i = first; i >= 0; i = n->stmts[i].next) {
        const mlsi_ls *s = &n->stmts[i];
        if (s->kind == MLSI_LS_ACC && n->accs[s->ref].kind == MLSI_ACC_DOT) return true;
        if (s->body >= 0 && has_chain(n, s->body)) return true;
    }
    return false;
}

mlsys_status mlsi_codegen_cuda_schedule(mlsi_nest *n) {
    enum { MOST = 8 }; /* of mlsi_codegen_chain */
    int32_t chain[MOST], count = 0;
    for (int32_t i = n->first; i >= 0 && count < MOST; i = n->stmts[i].body) {
        if (n->stmts[i].kind != MLSI_LS_FOR || n->stmts[i].next >= 0) break;
        chain[count++] = i;
    }
    if (!count) {
        mlsi_c_innermost_are_lanes(n, n->first);
        return n->status;
    }
    const mlsi_ls *last = &n->stmts[chain[count - 1]];
    for (int32_t i = 0; i < count; i++)
        n->stmts[chain[i]].loop = MLSI_LOOP_PARALLEL;
    if (!has_chain(n, last->body) && !is_short(n, last->body))
        mlsi_c_innermost_are_lanes(n, last->body);
    return n->status;
}
