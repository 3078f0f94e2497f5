/* The kernel around a nest's statements: parameters, strides, local memory, tasks. */
#include "ir/codegen/cuda_writer.h"

#include "core/faults.h"

/* ---- local memory -------------------------------------------------------------------------------------------- */

int64_t mlsi_cuda_most_bytes(const mlsi_nest *n, int32_t buffer) {
    const mlsi_loop_buffer *b = &n->buffers[buffer];
    int64_t bytes = mlsi_dtype_size(b->dtype), lo, hi;
    for (int d = 0; d < b->rank; d++) {
        mlsi_dim_range(&n->tab, b->dims[d], &lo, &hi);
        if (!mlsi_mul_i64(bytes, hi, &bytes)) return INT64_MAX;
    }
    return bytes;
}

static bool begins_in_lanes(const mlsi_nest *n, int32_t first, int32_t buffer, bool in_lanes) {
    for (int32_t i = first; i >= 0; i = n->stmts[i].next) {
        const mlsi_ls *s = &n->stmts[i];
        if (s->kind == MLSI_LS_ALLOC && s->ref == buffer) return in_lanes;
        bool lanes = in_lanes || (s->kind == MLSI_LS_FOR && s->loop == MLSI_LOOP_VECTOR);
        if (s->body >= 0 && begins_in_lanes(n, s->body, buffer, lanes)) return true;
    }
    return false;
}

static bool fits_array(const mlsi_nest *n, bool block, int32_t buffer) {
    return mlsi_cuda_most_bytes(n, buffer) <= MLSI_CUDA_ARRAY &&
           (!block || begins_in_lanes(n, n->first, buffer, false));
}

mlsi_cuda_place mlsi_cuda_place_of(const mlsi_nest *n, bool block, int32_t buffer, int64_t *at) {
    *at = MLSI_CUDA_SCRATCH;
    if (fits_array(n, block, buffer)) return MLSI_CUDA_IN_ARRAY;
    for (int32_t b = 0; block && b <= buffer; b++) {
        if (n->buffers[b].scope != MLSI_SCOPE_LOCAL || fits_array(n, block, b)) continue;
        int64_t bytes = mlsi_cuda_most_bytes(n, b);
        bool fits = bytes <= MLSI_CUDA_SCRATCH + MLSI_CUDA_SHARED - *at;
        if (b == buffer && fits) return MLSI_CUDA_IN_SHARED;
        if (fits) *at += (bytes + 15) & ~(int64_t)15;
    }
    return MLSI_CUDA_IN_WORK;
}

bool mlsi_cuda_is_private(const mlsi_c_writer *w, int32_t buffer) {
    int64_t at;
    return w->n->buffers[buffer].scope == MLSI_SCOPE_LOCAL &&
           mlsi_cuda_place_of(w->n, w->plan->block, buffer, &at) == MLSI_CUDA_IN_ARRAY;
}

void mlsi_cuda_alloc(mlsi_c_writer *w, int32_t buffer, const char *type) {
    const char *name = w->n->buffers[buffer].name;
    int64_t at, bytes = mlsi_cuda_most_bytes(w->n, buffer);
    int size = mlsi_dtype_size(w->n->buffers[buffer].dtype);
    switch (mlsi_cuda_place_of(w->n, w->plan->block, buffer, &at)) {
    case MLSI_CUDA_IN_ARRAY:
        mlsi_text_add(w->out, "%s m_%s[%lld];\n", type, name,
                      (long long)(bytes ? bytes / size : 1));
        break;
    case MLSI_CUDA_IN_SHARED:
        mlsi_text_add(w->out, "%s *const m_%s = (%s *)(ml_shared + %lld);\n", type, name, type,
                      (long long)at);
        break;
    default:
        mlsi_text_add(w->out, "%s *const m_%s = (%s *)(mine + m_%s_at);\n", type, name, type, name);
    }
}

static bool is_local_in(const mlsi_nest *n, bool block, int32_t buffer, mlsi_cuda_place place,
                        int64_t *at) {
    return n->buffers[buffer].scope == MLSI_SCOPE_LOCAL &&
           mlsi_cuda_place_of(n, block, buffer, at) == place;
}

static uint32_t shared_bytes(const mlsi_nest *n) {
    int64_t at, end = MLSI_CUDA_SCRATCH;
    for (int32_t b = 0; b < n->n_buffers; b++)
        if (is_local_in(n, true, b, MLSI_CUDA_IN_SHARED, &at))
            end = at + mlsi_cuda_most_bytes(n, b);
    return (uint32_t)end;
}

mlsys_status mlsi_codegen_cuda_work(const mlsi_nest *n, const mlsi_gpu_code *code,
                                    const int64_t *dims, uint64_t *bytes) {
    int64_t at;
    *bytes = 0;
    for (int32_t b = 0; b < n->n_buffers; b++)
        if (is_local_in(n, code->block_is_worker, b, MLSI_CUDA_IN_WORK, &at))
            MLSI_TRY(mlsi_c_add_local(n, &n->buffers[b], dims, bytes));
    return MLSYS_OK;
}

mlsys_status mlsi_codegen_cuda_parts(const mlsi_nest *n, const mlsi_gpu_code *code,
                                     const int64_t *dims, int64_t tasks[MLSI_GPU_PARTS],
                                     uint64_t *bytes) {
    enum { BYTES = 8 };
    *bytes = 0;
    for (int k = 0; k < code->n_parts; k++) {
        MLSI_TRY(mlsi_dim_eval(&n->tab, code->parts[k], dims, &tasks[k]));
        if ((uint64_t)tasks[k] > UINT64_MAX / BYTES ||
            !mlsi_add_u64(*bytes, (uint64_t)tasks[k] * BYTES, bytes))
            return mlsi_fail(MLSYS_E_SHAPE, "%s: work memory exceeds 2^64 bytes", n->name);
    }
    return MLSYS_OK;
}

/* ---- the function -------------------------------------------------------------------------------------------- */

static bool is_block(const mlsi_cuda_plan *p) { return p->block || p->tile_var >= 0; }

static void parameters(mlsi_c_writer *w, const char *name) {
    const mlsi_cuda_plan *p = w->plan;
    mlsi_text_add(w->out, "/* %s */\nextern \"C\" __global__ void %s", w->n->name, name);
    if (p->part < p->n_parts) mlsi_text_add(w->out, "_p%d", p->part);
    mlsi_text_add(w->out, "(");
    for (int32_t i = 0; i < w->n->n_inputs; i++)
        mlsi_text_add(w->out, "const void *in_%d, ", (int)i);
    for (int32_t i = 0; i < w->n->n_outputs; i++)
        mlsi_text_add(w->out, "void *out_%d, ", (int)i);
    for (int64_t i = 0; i < w->n->n_shape_symbols; i++)
        mlsi_text_add(w->out, "int64_t s_%s, ", w->n->tab.symbols[i].name);
    mlsi_text_add(w->out, "char *work, int64_t work_bytes, int64_t tasks, int64_t *error) {\n");
}

static void declare_param(mlsi_c_writer *w, const mlsi_loop_buffer *b) {
    const char *type = mlsi_c_memory_type(b->dtype);
    bool out = b->scope == MLSI_SCOPE_OUTPUT;
    if (!type) {
        mlsi_c_refuse(w, mlsi_dtype_get(b->dtype)->name);
        return;
    }
    mlsi_text_add(w->out, "%s%s *const m_%s = (%s%s *)%s_%d;\n", out ? "" : "const ", type, b->name,
                  out ? "" : "const ", type, out ? "out" : "in", (int)b->param);
}

static void declare_all(mlsi_c_writer *w) {
    const char *last = NULL;
    int64_t at;
    for (int32_t i = 0; i < w->n->n_buffers && w->status == MLSYS_OK; i++) {
        const mlsi_loop_buffer *b = &w->n->buffers[i];
        if (mlsi_dtype_is_block(b->dtype)) continue;
        if (b->scope != MLSI_SCOPE_LOCAL) declare_param(w, b);
        mlsi_c_declare_strides(w, b);
        if (!is_local_in(w->n, w->plan->block, i, MLSI_CUDA_IN_WORK, &at)) continue;
        mlsi_c_declare_place(w, b, last);
        last = b->name;
    }
    mlsi_text_add(w->out, "const int64_t worker = %s, workers = %s;\n",
                  is_block(w->plan) ? "blockIdx.x"
                                    : "(int64_t)blockIdx.x * blockDim.x + threadIdx.x",
                  is_block(w->plan) ? "gridDim.x" : "(int64_t)gridDim.x * blockDim.x");
    mlsi_text_add(w->out, "char *const mine = work + worker * work_bytes; (void)mine;\n");
}

/* How many iterations of a loop around the tasks are one task. */
static int task_of(const mlsi_c_writer *w, int32_t var) {
    const mlsi_cuda_plan *p = w->plan;
    const bool last = var == w->n->stmts[p->pack_loop].var;
    if (p->tile_var >= 0) return last || var == p->tile_var ? MLSI_CUDA_SIDE : 1;
    return !last ? 1 : p->columns ? MLSI_CUDA_SIDE : p->pack;
}

static int64_t turns(mlsi_c_writer *w, int32_t var) {
    const int64_t extent = w->n->vars[var].extent;
    const int size = task_of(w, var);
    if (size == 1) return extent;
    return mlsi_nest_index(w->n, '/', mlsi_nest_index(w->n, '+', extent, size - 1), size);
}

/* The variables of a task's number: neighbours differ in the innermost one. v_NAME, or, where a task is several iterations of the
 * variable, the first one: b_NAME. */
static void task_variables(mlsi_c_writer *w, const int32_t *chain, int count) {
    if (count) mlsi_text_add(w->out, "int64_t rest = %s;\n", w->plan->n_parts ? "row" : "task");
    for (int i = count - 1; i >= 0; i--) {
        const char *v = w->n->vars[chain[i]].name;
        const int size = task_of(w, chain[i]);
        const char kind = size > 1 ? 'b' : 'v';
        if (i > 0) {
            mlsi_text_add(w->out, "const int64_t q_%s = ml_quotient(rest, ", v);
            mlsi_c_index(w, turns(w, chain[i]));
            mlsi_text_add(w->out, ");\n");
        }
        mlsi_text_add(w->out, "const int64_t %c_%s = %d * (rest", kind, v, size);
        if (i > 0) {
            mlsi_text_add(w->out, " - q_%s * ", v);
            mlsi_c_index(w, turns(w, chain[i]));
        }
        mlsi_text_add(w->out, "); (void)%c_%s;\n", kind, v);
        if (i > 0) mlsi_text_add(w->out, "rest = q_%s;\n", v);
    }
}

/* The row of a kernel with parts, and the run of a part's own kernel: neighbours are neighbouring rows, which may be columns. */
static void row_variables(mlsi_c_writer *w, int64_t rows) {
    const mlsi_cuda_plan *p = w->plan;
    if (p->part == p->n_parts) {
        mlsi_text_add(w->out, "const int64_t row = task; (void)row;\n");
        return;
    }
    const char *v = w->n->vars[w->n->stmts[p->parts[p->part].loop].var].name;
    mlsi_text_add(w->out, "const int64_t v_%s = ml_quotient(task, ", v);
    mlsi_c_index(w, rows);
    mlsi_text_add(w->out, "), row = task - v_%s * ", v);
    mlsi_c_index(w, rows);
    mlsi_text_add(w->out, ";\n");
}

static void tasks(mlsi_c_writer *w, int64_t *number) {
    int32_t chain[8], inner;
    int count = mlsi_codegen_chain(w->n, chain, &inner);
    *number = 1;
    for (int i = 0; i < count; i++)
        *number = mlsi_nest_index(w->n, '*', *number, turns(w, chain[i]));
    mlsi_text_add(w->out, "for (int64_t task = worker; task < tasks; task += workers) {\n");
    if (w->plan->n_parts) row_variables(w, *number);
    task_variables(w, chain, count);
    if (w->plan->part < w->plan->n_parts)
        mlsi_cuda_part_body(w, inner);
    else if (w->plan->columns)
        mlsi_cuda_column_body(w);
    else if (w->plan->tile_var >= 0)
        mlsi_cuda_tile_body(w);
    else if (w->plan->pack > 1)
        mlsi_cuda_pack_body(w);
    else
        mlsi_c_body(w, inner);
    if (w->plan->block && !w->plan->columns) mlsi_cuda_again(w, inner, true);
    mlsi_text_add(w->out, "}\n}\n");
}

static void kernel(mlsi_c_writer *w, const char *name, int64_t *number) {
    mlsi_cuda_met(w);
    parameters(w, name);
    declare_all(w);
    tasks(w, number);
}

mlsys_status mlsi_codegen_cuda(mlsi_nest *n, const char *name, mlsi_text *out,
                               mlsi_gpu_code *code) {
    mlsi_c_writer w;
    mlsi_cuda_plan plan = {0};
    mlsys_status st = mlsi_c_writer_init(&w, n, out);
    if (st == MLSYS_OK) st = mlsi_cuda_plan_init(&plan, n);
    if (st == MLSYS_OK) {
        w.plan = &plan;
        w.worker = plan.block ? MLSI_C_BLOCK : MLSI_C_THREAD;
        plan.pack = 1;
        mlsi_cuda_find_tile(&w);
        if (plan.tile_var < 0) mlsi_cuda_find_pack(&w);
        code->block_is_worker = is_block(&plan);
        code->threads = MLSI_CUDA_THREADS;
        code->shared_bytes = plan.block           ? shared_bytes(n)
                             : plan.tile_var >= 0 ? mlsi_cuda_tile_bytes(&w)
                                                  : 0;
        mlsi_cuda_find_parts(&w, code);
        mlsi_cuda_find_columns(&w);
        for (plan.part = 0; plan.part < plan.n_parts; mlsi_cuda_end_part(&w, plan.part))
            kernel(&w, name, &code->tasks);
        kernel(&w, name, &code->tasks);
        mlsi_cuda_restore_parts(&w);
        st = w.status != MLSYS_OK ? w.status : n->status; /* an index that could not be made */
    }
    mlsi_cuda_plan_free(&plan, n);
    mlsi_c_writer_free(&w);
    return st;
}
