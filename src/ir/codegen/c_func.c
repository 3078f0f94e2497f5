/* The function around a nest's statements: parameters, strides, local memory, tasks. */
#include "ir/codegen/c_writer.h"

#include "core/faults.h"

int mlsi_codegen_chain(const mlsi_nest *n, int32_t *vars, int32_t *inner) {
    int count = 0;
    *inner = n->first;
    while (*inner >= 0 && count < 8) {
        const mlsi_ls *s = &n->stmts[*inner];
        if (s->kind != MLSI_LS_FOR || s->loop != MLSI_LOOP_PARALLEL || s->next >= 0) break;
        vars[count++] = s->var;
        *inner = s->body;
    }
    return count;
}

mlsys_status mlsi_codegen_tasks(mlsi_nest *n, int64_t *code) {
    int32_t chain[8], inner;
    int count = mlsi_codegen_chain(n, chain, &inner);
    *code = 1;
    for (int i = 0; i < count; i++)
        *code = mlsi_nest_index(n, '*', *code, n->vars[chain[i]].extent);
    return n->status;
}

mlsys_status mlsi_c_add_local(const mlsi_nest *n, const mlsi_loop_buffer *b, const int64_t *dims,
                              uint64_t *bytes) {
    uint64_t size = (uint64_t)mlsi_dtype_size(b->dtype);
    for (int d = 0; d < b->rank; d++) {
        int64_t extent_d;
        MLSI_TRY(mlsi_dim_eval(&n->tab, b->dims[d], dims, &extent_d));
        if (!mlsi_mul_u64(size, (uint64_t)extent_d, &size) || size > UINT64_MAX / 4)
            return mlsi_fail(MLSYS_E_SHAPE, "%s: local memory exceeds 2^62 bytes", n->name);
    }
    if (!mlsi_add_u64(*bytes, (size + 63) & ~(uint64_t)63, bytes))
        return mlsi_fail(MLSYS_E_SHAPE, "%s: local memory exceeds 2^64 bytes", n->name);
    return MLSYS_OK;
}

mlsys_status mlsi_codegen_work(const mlsi_nest *n, const int64_t *dims, uint64_t *bytes) {
    *bytes = 0;
    for (int64_t i = 0; i < n->n_buffers; i++)
        if (n->buffers[i].scope == MLSI_SCOPE_LOCAL)
            MLSI_TRY(mlsi_c_add_local(n, &n->buffers[i], dims, bytes));
    return MLSYS_OK;
}

static void declare_param(mlsi_c_writer *w, const mlsi_loop_buffer *b) {
    const char *type = mlsi_c_memory_type(b->dtype);
    bool out = b->scope == MLSI_SCOPE_OUTPUT;
    if (!type) {
        mlsi_c_refuse(w, mlsi_dtype_get(b->dtype)->name);
        return;
    }
    mlsi_text_add(w->out, "%s%s *const m_%s = (%s%s *)(void *)a->data[%d];\n", out ? "" : "const ",
                  type, b->name, out ? "" : "const ", type, b->param + (out ? w->n->n_inputs : 0));
}

/* Row-major strides, but the last one, which is 1. */
void mlsi_c_declare_strides(mlsi_c_writer *w, const mlsi_loop_buffer *b) {
    for (int d = b->rank - 2; d >= 0; d--) {
        mlsi_text_add(w->out, "const int64_t m_%s_s%d = ", b->name, d);
        mlsi_c_index(w, b->dims[mlsi_fault(MLSI_FAULT_C_STRIDE) ? d : d + 1]);
        if (d + 2 < b->rank) mlsi_text_add(w->out, " * m_%s_s%d", b->name, d + 1);
        mlsi_text_add(w->out, "; (void)m_%s_s%d;\n", b->name, d);
    }
}

void mlsi_c_declare_place(mlsi_c_writer *w, const mlsi_loop_buffer *b, const char *before) {
    mlsi_text_add(w->out, "const int64_t m_%s_at = %s%s%s;\n", b->name, before ? "m_" : "",
                  before ? before : "0", before ? "_end" : "");
    mlsi_text_add(w->out, "const int64_t m_%s_end = m_%s_at + ((%d", b->name, b->name,
                  mlsi_dtype_size(b->dtype));
    for (int d = 0; d < b->rank; d++) {
        mlsi_text_add(w->out, " * ");
        mlsi_c_index(w, b->dims[d]);
    }
    mlsi_text_add(w->out, " + 63) & ~INT64_C(63)); (void)m_%s_end;\n", b->name);
}

static void declare_all(mlsi_c_writer *w) {
    const char *last = NULL;
    for (int64_t i = 0; i < w->n->n_shape_symbols; i++)
        mlsi_text_add(w->out, "const int64_t s_%s = a->dims[%lld]; (void)s_%s;\n",
                      w->n->tab.symbols[i].name, (long long)i, w->n->tab.symbols[i].name);
    for (int64_t i = 0; i < w->n->n_buffers && w->status == MLSYS_OK; i++) {
        const mlsi_loop_buffer *b = &w->n->buffers[i];
        if (b->scope != MLSI_SCOPE_LOCAL && (!mlsi_dtype_is_block(b->dtype))) declare_param(w, b);
        if (mlsi_dtype_is_block(b->dtype)) continue;
        mlsi_c_declare_strides(w, b);
        if (b->scope != MLSI_SCOPE_LOCAL) continue;
        mlsi_c_declare_place(w, b, last);
        if (!mlsi_fault(MLSI_FAULT_C_WORK)) last = b->name;
    }
}

static void tasks(mlsi_c_writer *w) {
    int32_t chain[8], inner;
    int count = mlsi_codegen_chain(w->n, chain, &inner);
    mlsi_text_add(w->out, "for (int64_t task = a->begin; task < a->end; task++) {\n");
    if (count) mlsi_text_add(w->out, "int64_t rest = task;\n");
    for (int i = count - 1; i >= 0; i--) {
        const mlsi_loop_var *v = &w->n->vars[chain[i]];
        const int64_t turns =
            mlsi_fault(MLSI_FAULT_C_TASKS) ? w->n->vars[chain[0]].extent : v->extent;
        if (i == 0) {
            mlsi_text_add(w->out, "const int64_t v_%s = rest; (void)v_%s;\n", v->name, v->name);
            break;
        }
        mlsi_text_add(w->out, "const int64_t v_%s = rest %% ", v->name);
        mlsi_c_index(w, turns);
        mlsi_text_add(w->out, "; (void)v_%s; rest /= ", v->name);
        mlsi_c_index(w, turns);
        mlsi_text_add(w->out, ";\n");
    }
    mlsi_c_find_row(w, count ? chain[count - 1] : -1, inner);
    mlsi_c_body(w, inner);
    mlsi_text_add(w->out, "}\n");
}

mlsys_status mlsi_c_writer_init(mlsi_c_writer *w, mlsi_nest *n, mlsi_text *out) {
    *w = (mlsi_c_writer){.n = n, .out = out, .vector_var = -1};
    MLSI_TRY(MLSI_NEW_N(n->alloc, n->n_lets + 1, &w->let_is_vector));
    MLSI_TRY(MLSI_NEW_N(n->alloc, n->n_lets + 1, &w->let_index));
    MLSI_TRY(MLSI_NEW_N(n->alloc, n->n_accs + 1, &w->acc_is_vector));
    return MLSI_NEW_N(n->alloc, n->n_accs + 1, &w->acc_in_lanes);
}

void mlsi_c_writer_free(mlsi_c_writer *w) {
    mlsi_mem_free(w->n->alloc, w->let_is_vector);
    mlsi_mem_free(w->n->alloc, w->let_index);
    mlsi_mem_free(w->n->alloc, w->acc_is_vector);
    mlsi_mem_free(w->n->alloc, w->acc_in_lanes);
}

mlsys_status mlsi_codegen_c(mlsi_nest *n, const char *name, mlsi_text *out) {
    mlsi_c_writer w;
    mlsys_status st = mlsi_c_writer_init(&w, n, out);
    if (st == MLSYS_OK) {
        mlsi_text_add(out,
                      "/* %s */\nint64_t %s(mlsi_gen_args *a) {\nconst int stream = "
                      "a->stream & 1, ahead = a->stream & 2; (void)stream, (void)ahead;\n",
                      n->name, name);
        declare_all(&w);
        tasks(&w);
        mlsi_text_add(out, "if (stream) v_stream_fence();\nreturn 0;\n}\n");
        st = w.status != MLSYS_OK ? w.status : n->status; /* an index that could not be made */
    }
    mlsi_c_writer_free(&w);
    return st;
}
