/* Loop IR to block code (core/block_code.h): scopes, and the whole. */
#include "ir/codegen/block_writer.h"

#include <string.h>

void mlsi_block_refuse(mlsi_block_writer *w, const char *why) {
    if (w->status == MLSYS_OK)
        w->status = mlsi_fail(MLSYS_E_UNSUPPORTED, "%s: no blocks for %s", w->n->name, why);
}

static void append(mlsi_block_writer *w, int32_t scope, const mlsi_block_instr *from, int64_t n) {
    mlsi_block_scope *s = &w->scopes[scope];
    if (w->status == MLSYS_OK) w->status = MLSI_GROW(w->n->alloc, &s->instrs, &s->cap, s->n + n);
    if (w->status != MLSYS_OK || !n) return;
    memcpy(s->instrs + s->n, from, sizeof *from * (size_t)n);
    s->n += n;
}

void mlsi_block_emit(mlsi_block_writer *w, int32_t scope, const mlsi_block_instr *i) {
    if (w->written++ >= MLSI_BLOCK_MOST) mlsi_block_refuse(w, "so many values");
    append(w, scope, i, 1);
}

void mlsi_block_open(mlsi_block_writer *w, const mlsi_block_instr *head) {
    if (w->depth + 1 == MLSI_BLOCK_SCOPES) mlsi_block_refuse(w, "so many bodies in each other");
    if (w->status != MLSYS_OK) return;
    w->depth++;
    w->scopes[w->depth].head = *head;
    w->scopes[w->depth].n = 0;
}

/* Integers and tiles made of scalars end with the scope that holds them; tiles of a TILES' extent with that. */
static void end_scope(mlsi_block_writer *w, bool tiles) {
    for (int32_t i = 0; i < w->code->n_ints; i++)
        if (w->int_depth[i] >= w->depth) w->int_lives[i] = false;
    for (int32_t r = 0; r < w->code->n_registers; r++) {
        int32_t s = w->facts[r].spread;
        int32_t scope = s >= 0 ? w->facts[s].scope : 0;
        if (scope >= w->depth || (tiles && scope == w->depth - 1)) w->facts[r].spread = -1;
    }
}

void mlsi_block_close(mlsi_block_writer *w) {
    if (w->status != MLSYS_OK) return;
    mlsi_block_scope *s = &w->scopes[w->depth];
    s->head.body = (int32_t)s->n;
    end_scope(w, s->head.kind == MLSI_BLOCK_TILES);
    w->depth--;
    mlsi_block_emit(w, w->depth, &s->head);
    append(w, w->depth, s->instrs, s->n);
}

/* ---- the whole ------------------------------------------------------------------------------------------- */

static mlsys_status begin(mlsi_block_writer *w) {
    mlsi_nest *n = w->n;
    mlsi_block_code *c = w->code;
    MLSI_TRY(MLSI_NEW_N(n->alloc, n->tab.n_symbols + 1, &w->int_of_symbol));
    MLSI_TRY(MLSI_NEW_N(n->alloc, n->n_lets + 1, &w->let_register));
    MLSI_TRY(MLSI_NEW_N(n->alloc, n->n_accs + 1, &w->acc_register));
    MLSI_TRY(MLSI_NEW_N(n->alloc, n->n_accs + 1, &w->acc_ranges));
    MLSI_TRY(MLSI_NEW_N(n->alloc, n->n_accs + 1, &c->accs));
    MLSI_TRY(MLSI_NEW_N(n->alloc, n->n_buffers + 1, &c->buffers));
    c->n_accs = (int32_t)n->n_accs;
    c->n_buffers = (int32_t)n->n_buffers;
    c->n_symbols = (int32_t)n->n_shape_symbols;
    for (int64_t i = 0; i < n->tab.n_symbols; i++)
        w->int_of_symbol[i] = i < n->n_shape_symbols ? mlsi_block_int_new(w, 0) : -1;
    for (int64_t i = 0; i < n->n_lets; i++)
        w->let_register[i] = -1;
    for (int64_t i = 0; i < n->n_accs; i++)
        w->acc_register[i] = -1;
    (void)mlsi_block_int_new(w, 1); /* the task */
    return w->status;
}

static void describe_buffers(mlsi_block_writer *w) {
    mlsi_nest *n = w->n;
    for (int64_t i = 0; i < n->n_buffers && w->status == MLSYS_OK; i++) {
        const mlsi_loop_buffer *b = &n->buffers[i];
        mlsi_block_buffer *to = &w->code->buffers[i];
        const bool output = b->scope == MLSI_SCOPE_OUTPUT;
        *to = (mlsi_block_buffer){.param = -1};
        if (!mlsi_dtype_is_block(b->dtype)) to->size = mlsi_dtype_size(b->dtype);
        if (b->scope == MLSI_SCOPE_INPUT || output)
            to->param = b->param + (output ? n->n_inputs : 0);
        else if (b->scope == MLSI_SCOPE_SHARED)
            mlsi_block_refuse(w, "memory of a GPU");
        int64_t count = 1;
        for (int d = 0; to->param < 0 && d < b->rank; d++)
            count = mlsi_nest_index(n, '*', count, b->dims[d]);
        to->count = to->param < 0 ? mlsi_block_int(w, count) : 0;
    }
}

mlsys_status mlsi_codegen_blocks(mlsi_nest *n, mlsi_block_code *out) {
    mlsi_alloc *a = n->alloc;
    memset(out, 0, sizeof *out);
    mlsi_block_writer w = {.n = n, .code = out, .vector_var = -1, .lane_int = -1, .depth = 1};
    w.status = begin(&w);
    describe_buffers(&w);
    mlsi_block_task(&w);
    if (w.status == MLSYS_OK) w.status = n->status; /* an index that could not be made */
    if (w.status == MLSYS_OK) w.status = mlsi_block_finish(&w);
    for (int i = 0; i < MLSI_BLOCK_SCOPES; i++)
        mlsi_mem_free(a, w.scopes[i].instrs);
    mlsi_mem_free(a, w.int_of_symbol);
    mlsi_mem_free(a, w.ints);
    mlsi_mem_free(a, w.int_depth);
    mlsi_mem_free(a, w.int_lives);
    mlsi_mem_free(a, w.let_register);
    mlsi_mem_free(a, w.acc_register);
    mlsi_mem_free(a, w.acc_ranges);
    mlsi_mem_free(a, w.facts);
    return w.status;
}

void mlsi_block_code_free(mlsi_alloc *a, mlsi_block_code *code) {
    mlsi_mem_free(a, code->instrs);
    mlsi_mem_free(a, code->registers);
    mlsi_mem_free(a, code->buffers);
    mlsi_mem_free(a, code->accs);
    memset(code, 0, sizeof *code);
}
