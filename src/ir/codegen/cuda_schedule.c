/* The default schedule for GPUs: which loops of a nest of rows are tasks, and which ones the threads of a block share.
 *
 * Without loops inside of the rows each element is a task of a thread, and neighbours in the innermost axis are neighbours in the
 * grid. Rows with loops are tasks of a block, whose threads share the innermost loops, also where the elements lie across rows
 * (sums over leading axes): the blocks beside read what else is in a line. Rows that are short, and products along K, are a
 * thread's each. */
#include "ir/codegen/c_writer.h"
#include "ir/loop/schedule.h"

#include <stdio.h>

enum {
    SHORT = 32,           /* extent of loops that are not worth a block */
    RUN = 4096,           /* terms with a result of their own: a chunk of the canonical tree */
    LONG = 4 * RUN,       /* terms that are worth a launch more */
    ROWS_THAT_FILL = 512, /* a GPU, with a block each */
    MOST = 8              /* loops of mlsi_codegen_chain */
};

/* ---- long reductions of few rows: loops over runs, which become parts (cuda_parts.c) -------------------------------- */

static int perfect_loops(const mlsi_nest *n, int32_t chain[MOST]) {
    int count = 0;
    for (int32_t i = n->first; i >= 0 && count < MOST; i = n->stmts[i].body) {
        if (n->stmts[i].kind != MLSI_LS_FOR || n->stmts[i].next >= 0) break;
        chain[count++] = i;
    }
    return count;
}

static int64_t most(const mlsi_nest *n, int32_t loop) {
    int64_t lo, hi;
    mlsi_dim_range(&n->tab, n->vars[n->stmts[loop].var].extent, &lo, &hi);
    return hi;
}

static bool rows_fill(const mlsi_nest *n, const int32_t *chain, int count) {
    int64_t rows = 1;
    for (int i = 0; i < count; i++)
        if (!mlsi_mul_i64(rows, most(n, chain[i]), &rows)) return true;
    return rows > ROWS_THAT_FILL;
}

static mlsys_status cut(mlsi_nest *n, int32_t loop) {
    char text[4 * MLSI_STEP_NAME];
    const char *name = n->vars[n->stmts[loop].var].name;
    snprintf(text, sizeof text, "split(%.50s, %d) -> %.50s_run, %.50s_term; rfactor(%.50s_run)",
             name, RUN, name, name, name);
    mlsys_status st = mlsi_schedule_apply(n, text);
    return st == MLSYS_E_NOMEM ? st : MLSYS_OK; /* a refusal leaves the nest as it was */
}

/* Statements move to other numbers: loops are counted. */
static int32_t loop_number(const mlsi_nest *n, int number) {
    int32_t chain[MOST];
    const int count = perfect_loops(n, chain);
    int32_t i = n->first;
    if (count) i = n->stmts[chain[count - 1]].body;
    for (; i >= 0; i = n->stmts[i].next)
        if (n->stmts[i].kind == MLSI_LS_FOR && number-- == 0) return i;
    return -1;
}

static mlsys_status cut_long_reductions(mlsi_nest *n) {
    int32_t chain[MOST];
    if (rows_fill(n, chain, perfect_loops(n, chain))) return MLSYS_OK;
    for (int64_t b = 0; b < n->n_buffers; b++)
        if (n->buffers[b].scope == MLSI_SCOPE_LOCAL) return MLSYS_OK;
    for (int number = 0;; number++) {
        const int32_t loop = loop_number(n, number);
        if (loop < 0) return MLSYS_OK;
        if (most(n, loop) >= LONG) MLSI_TRY(cut(n, loop));
    }
}

/* ---- tasks, and what the threads of a block share --------------------------------------------------------------------- */

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
    int32_t chain[MOST];
    MLSI_TRY(cut_long_reductions(n));
    const int count = perfect_loops(n, chain);
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
