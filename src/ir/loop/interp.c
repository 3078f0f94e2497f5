/* The loop IR's meaning, executed one iteration after the other. Shares no code with kernels or generated code. Scalars
 * are bit patterns; the meaning of an elementwise op is its reference on one element. */
#include "ir/loop/interp.h"

#include "core/dtype.h"
#include "core/faults.h"
#include "core/rng.h"
#include "ir/ops/op_def.h"

#include <stdio.h>
#include <string.h>

static mlsys_status eval(mlsi_machine *m, int32_t expr, uint64_t *out);

static mlsys_status index_of(mlsi_machine *m, int64_t code, int64_t *out) {
    return mlsi_dim_eval(&m->n->tab, code, m->binding, out);
}

/* ---- memory ---------------------------------------------------------------------------------------------- */

/* The element of a buffer at base + offset (NULL = 0), and whether it has been written (NULL: an input); subscripts
 * out of range are errors. */
mlsys_status mlsi_machine_element(mlsi_machine *m, int32_t buffer, const int64_t *base,
                                  const int64_t *offset, char **data, uint8_t **written) {
    const mlsi_loop_buffer *b = &m->n->buffers[buffer];
    int64_t at = 0, extent, i;
    for (int d = 0; d < b->rank; d++) {
        MLSI_TRY(index_of(m, b->dims[d], &extent));
        MLSI_TRY(index_of(m, base[d], &i));
        if (offset) i += offset[d];
        if (i < 0 || i >= extent)
            return mlsi_fail(MLSYS_E_STATE, "nest %s: subscript %d of %s is %lld, extent %lld",
                             m->n->name, d, b->name, (long long)i, (long long)extent);
        at = at * extent + i;
    }
    *data = m->buffers[buffer].data + at * mlsi_dtype_size(b->dtype);
    *written = m->buffers[buffer].written ? m->buffers[buffer].written + at : NULL;
    return MLSYS_OK;
}

mlsys_status mlsi_machine_load(mlsi_machine *m, int32_t buffer, const int64_t *base,
                               const int64_t *offset, uint64_t *out) {
    char *data;
    uint8_t *written;
    MLSI_TRY(mlsi_machine_element(m, buffer, base, offset, &data, &written));
    if (written && *written != MLSI_WRITTEN)
        return mlsi_fail(MLSYS_E_STATE, "nest %s: an element of %s is read before it is %s",
                         m->n->name, m->n->buffers[buffer].name,
                         *written ? "waited for" : "written");
    *out = 0;
    memcpy(out, data, (size_t)mlsi_dtype_size(m->n->buffers[buffer].dtype));
    return MLSYS_OK;
}

static mlsys_status store(mlsi_machine *m, const mlsi_ls *s) {
    uint64_t bits;
    char *data;
    uint8_t *written;
    MLSI_TRY(eval(m, s->value, &bits));
    MLSI_TRY(mlsi_machine_element(m, s->ref, s->index, NULL, &data, &written));
    memcpy(data, &bits, (size_t)mlsi_dtype_size(m->n->buffers[s->ref].dtype));
    if (written) *written = s->kind == MLSI_LS_COPY ? MLSI_COPYING : MLSI_WRITTEN;
    return MLSYS_OK;
}

static mlsys_status count_of(mlsi_machine *m, int32_t buffer, int64_t *count) {
    const mlsi_loop_buffer *b = &m->n->buffers[buffer];
    *count = 1;
    for (int d = 0; d < b->rank; d++) {
        int64_t extent;
        MLSI_TRY(index_of(m, b->dims[d], &extent));
        if (!mlsi_mul_i64(*count, extent, count))
            return mlsi_fail(MLSYS_E_SHAPE, "nest %s: %s exceeds 2^63 elements", m->n->name,
                             b->name);
    }
    return MLSYS_OK;
}

static mlsys_status alloc_local(mlsi_machine *m, int32_t buffer) {
    mlsi_machine_buffer *b = &m->buffers[buffer];
    int64_t count;
    MLSI_TRY(count_of(m, buffer, &count));
    mlsi_mem_free(m->n->alloc, b->own);
    mlsi_mem_free(m->n->alloc, b->written);
    b->own = NULL, b->written = NULL;
    MLSI_TRY(mlsi_mem_zalloc(m->n->alloc, (uint64_t)count + 1,
                             (uint64_t)mlsi_dtype_size(m->n->buffers[buffer].dtype),
                             (void **)&b->own));
    b->data = b->own;
    return MLSI_NEW_N(m->n->alloc, count + 1, &b->written);
}

/* ---- scalars ------------------------------------------------------------------------------------------------ */

static mlsi_view scalar_view(uint64_t *bits, mlsys_dtype dtype) {
    return (mlsi_view){.data = bits, .dtype = dtype};
}

mlsys_status mlsi_machine_op(mlsi_machine *m, mlsi_op op, mlsys_dtype dtype, int n,
                             const mlsys_dtype *dtypes, uint64_t *args, uint64_t *out) {
    const mlsi_op_def *def = mlsi_op_get(op);
    _Alignas(16) char attrs[1024];
    mlsi_view in[3], result = scalar_view(out, dtype);
    mlsi_attrs_default(def, attrs);
    if (op == MLSI_OP_CAST || op == MLSI_OP_BITCAST)
        ((mlsi_attr_cast *)(void *)attrs)->dtype = dtype;
    for (int i = 0; i < n; i++)
        in[i] = scalar_view(&args[i], dtypes[i]);
    *out = 0;
    mlsi_ref_args a = {
        .alloc = m->n->alloc, .attrs = attrs, .n_in = n, .n_out = 1, .in = in, .out = &result};
    return def->ref(&a);
}

static mlsys_status eval_op(mlsi_machine *m, const mlsi_lx *x, uint64_t *out) {
    uint64_t args[3] = {0};
    mlsys_dtype dtypes[3];
    for (int i = 0; i < x->n_args; i++) {
        MLSI_TRY(eval(m, x->args[i], &args[i]));
        dtypes[i] = m->n->exprs[x->args[i]].dtype;
    }
    return mlsi_machine_op(m, x->op, x->dtype, x->n_args, dtypes, args, out);
}

static mlsys_status eval_random(mlsi_machine *m, const mlsi_lx *x, uint64_t *out) {
    uint64_t key, stream;
    int64_t position;
    mlsi_view y = scalar_view(out, x->dtype);
    MLSI_TRY(eval(m, x->args[0], &key));
    MLSI_TRY(eval(m, x->args[1], &stream));
    MLSI_TRY(index_of(m, x->index[0], &position));
    uint64_t i = (uint64_t)position;
    bool f64 = x->dtype == MLSYS_F64;
    *out = 0;
    if (x->bits == MLSI_RANDOM_BITS)
        mlsi_ref_set_i(&y, 0,
                       x->dtype == MLSYS_I64 ? (int64_t)mlsi_rng_bits64(key, stream, i)
                                             : (int64_t)mlsi_rng_bits32(key, stream, i));
    else if (x->bits == MLSI_RANDOM_UNIFORM)
        mlsi_ref_set_f(&y, 0,
                       f64 ? mlsi_rng_uniform64(key, stream, i)
                           : (double)mlsi_rng_uniform32(key, stream, i));
    else
        mlsi_ref_set_f(&y, 0,
                       f64 ? mlsi_rng_normal64(key, stream, i)
                           : (double)mlsi_rng_normal32(key, stream, i));
    return MLSYS_OK;
}

static mlsys_status in_range(mlsi_machine *m, const int64_t *index, bool *out) {
    int64_t lo, i, hi;
    MLSI_TRY(index_of(m, index[0], &lo));
    MLSI_TRY(index_of(m, index[1], &i));
    MLSI_TRY(index_of(m, index[2], &hi));
    *out = lo <= i && i < hi;
    return MLSYS_OK;
}

static mlsys_status eval(mlsi_machine *m, int32_t expr, uint64_t *out) {
    const mlsi_lx *x = &m->n->exprs[expr];
    bool inside;
    int64_t i;
    switch (x->kind) {
    case MLSI_LX_CONST: return *out = x->bits, MLSYS_OK;
    case MLSI_LX_INDEX: MLSI_TRY(index_of(m, x->index[0], &i)); return *out = (uint64_t)i, MLSYS_OK;
    case MLSI_LX_LOAD: return mlsi_machine_load(m, x->ref, x->index, NULL, out);
    case MLSI_LX_OP: return eval_op(m, x, out);
    case MLSI_LX_LET: return *out = m->lets[x->ref], MLSYS_OK;
    case MLSI_LX_ACC: return mlsi_machine_acc_value(m, x->ref, out);
    case MLSI_LX_GUARD:
        MLSI_TRY(in_range(m, x->index, &inside));
        return eval(m, x->args[!inside], out);
    case MLSI_LX_RANDOM: return eval_random(m, x, out);
    case MLSI_LX_SHUFFLE: break;
    }
    return mlsi_fail(MLSYS_E_UNSUPPORTED, "nest %s: the interpreter has no lanes to shuffle",
                     m->n->name);
}

/* ---- statements ----------------------------------------------------------------------------------------------- */

static mlsys_status run_body(mlsi_machine *m, int32_t first);

static mlsys_status run_for(mlsi_machine *m, const mlsi_ls *s) {
    const mlsi_loop_var *v = &m->n->vars[s->var];
    int64_t extent;
    MLSI_TRY(index_of(m, v->extent, &extent));
    for (int64_t i = 0; i < extent; i++) {
        if (v->symbol >= 0) m->binding[v->symbol] = i;
        MLSI_TRY(run_body(m, s->body));
    }
    return MLSYS_OK;
}

static mlsys_status refuse_bind(mlsi_machine *m, const mlsi_ls *s, int64_t value, int64_t extent) {
    char at[48] = "";
    int64_t position;
    if (s->n_index) {
        MLSI_TRY(index_of(m, s->index[0], &position));
        snprintf(at, sizeof at, " at position %lld", (long long)position);
    }
    return mlsi_fail(MLSYS_E_ARG, "%s %lld%s outside [%lld,%lld)", s->text ? s->text : "bind",
                     (long long)value, at, s->wrap ? (long long)-extent : 0, (long long)extent);
}

static mlsys_status run_bind(mlsi_machine *m, const mlsi_ls *s) {
    const mlsi_loop_var *v = &m->n->vars[s->var];
    uint64_t bits;
    int64_t extent;
    MLSI_TRY(eval(m, s->value, &bits));
    MLSI_TRY(index_of(m, v->extent, &extent));
    int64_t value = (int64_t)bits;
    if (s->clamp && extent > 0) value = value < 0 ? 0 : value >= extent ? extent - 1 : value;
    if (value >= extent || value < (s->wrap ? -extent : 0)) return refuse_bind(m, s, value, extent);
    if (value < 0) value = mlsi_fault(MLSI_FAULT_LOOPS_BIND_WRAP) ? 0 : value + extent;
    if (v->symbol >= 0) m->binding[v->symbol] = value;
    return MLSYS_OK;
}

static mlsys_status run_if(mlsi_machine *m, const mlsi_ls *s) {
    bool inside;
    if (s->value >= 0) {
        uint64_t bits;
        MLSI_TRY(eval(m, s->value, &bits));
        inside = (uint8_t)bits != 0;
    } else {
        MLSI_TRY(in_range(m, s->index, &inside));
    }
    return inside ? run_body(m, s->body) : MLSYS_OK;
}

static mlsys_status run_add(mlsi_machine *m, const mlsi_ls *s) {
    uint64_t a, b = 0;
    int64_t position;
    MLSI_TRY(eval(m, s->value, &a));
    if (s->value2 >= 0) MLSI_TRY(eval(m, s->value2, &b));
    MLSI_TRY(index_of(m, s->index[0], &position));
    return mlsi_machine_acc_add(m, s->ref, position, a, b);
}

/* Every copy that was begun is done. */
static mlsys_status run_wait(mlsi_machine *m) {
    for (int64_t i = 0; i < m->n->n_buffers; i++) {
        int64_t count = 0;
        uint8_t *written = m->buffers[i].written;
        if (written) MLSI_TRY(count_of(m, (int32_t)i, &count));
        for (int64_t k = 0; k < count; k++)
            if (written[k] == MLSI_COPYING) written[k] = MLSI_WRITTEN;
    }
    return MLSYS_OK;
}

static mlsys_status run_acc(mlsi_machine *m, const mlsi_ls *s) {
    const mlsi_acc *a = &m->n->accs[s->ref];
    int64_t count;
    uint64_t init = 0;
    MLSI_TRY(index_of(m, a->count, &count));
    if (a->init >= 0) MLSI_TRY(eval(m, a->init, &init));
    MLSI_TRY(mlsi_machine_acc_begin(m, s->ref, count));
    m->accs[s->ref].init = init;
    m->accs[s->ref].init_known = a->init >= 0;
    return MLSYS_OK;
}

static mlsys_status run_stmt(mlsi_machine *m, const mlsi_ls *s) {
    switch (s->kind) {
    case MLSI_LS_FOR: return run_for(m, s);
    case MLSI_LS_LET: return eval(m, s->value, &m->lets[s->ref]);
    case MLSI_LS_COPY:
    case MLSI_LS_STORE: return store(m, s);
    case MLSI_LS_IF: return run_if(m, s);
    case MLSI_LS_ALLOC: return alloc_local(m, s->ref);
    case MLSI_LS_ACC: return run_acc(m, s);
    case MLSI_LS_ADD: return run_add(m, s);
    case MLSI_LS_BIND: return run_bind(m, s);
    case MLSI_LS_BARRIER: return MLSYS_OK; /* one iteration after the other: all has been done */
    case MLSI_LS_WAIT: return run_wait(m);
    case MLSI_LS_MMA: return mlsi_machine_mma(m, s);
    }
    return mlsi_fail(MLSYS_E_INTERNAL, "nest %s: statement kind %d", m->n->name, (int)s->kind);
}

static mlsys_status run_body(mlsi_machine *m, int32_t first) {
    for (int32_t s = first; s >= 0; s = m->n->stmts[s].next)
        MLSI_TRY(run_stmt(m, &m->n->stmts[s]));
    return MLSYS_OK;
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

static mlsys_status set_params(mlsi_machine *m, const mlsi_view *params) {
    for (int64_t i = 0; i < m->n->n_buffers; i++) {
        const mlsi_loop_buffer *b = &m->n->buffers[i];
        int64_t count;
        if (b->param < 0) continue;
        m->buffers[i].data =
            params[b->param + (b->scope == MLSI_SCOPE_OUTPUT ? m->n->n_inputs : 0)].data;
        if (b->scope != MLSI_SCOPE_OUTPUT) continue;
        MLSI_TRY(count_of(m, (int32_t)i, &count));
        MLSI_TRY(MLSI_NEW_N(m->n->alloc, count + 1, &m->buffers[i].written));
    }
    return MLSYS_OK;
}

static mlsys_status check_written(mlsi_machine *m) {
    for (int64_t i = 0; i < m->n->n_buffers; i++) {
        int64_t count;
        if (m->n->buffers[i].scope != MLSI_SCOPE_OUTPUT) continue;
        if (mlsi_dtype_is_block(m->n->buffers[i].dtype)) continue; /* its bytes are written */
        MLSI_TRY(count_of(m, (int32_t)i, &count));
        for (int64_t k = 0; k < count; k++)
            if (m->buffers[i].written[k] != MLSI_WRITTEN)
                return mlsi_fail(MLSYS_E_STATE, "nest %s: element %lld of %s is never written",
                                 m->n->name, (long long)k, m->n->buffers[i].name);
    }
    return MLSYS_OK;
}

static void free_machine(mlsi_machine *m) {
    mlsi_alloc *a = m->n->alloc;
    for (int64_t i = 0; m->buffers && i < m->n->n_buffers; i++) {
        mlsi_mem_free(a, m->buffers[i].own);
        mlsi_mem_free(a, m->buffers[i].written);
    }
    for (int64_t i = 0; m->accs && i < m->n->n_accs; i++)
        mlsi_machine_acc_free(m, (int32_t)i);
    mlsi_mem_free(a, m->binding);
    mlsi_mem_free(a, m->lets);
    mlsi_mem_free(a, m->buffers);
    mlsi_mem_free(a, m->accs);
}

mlsys_status mlsi_nest_interpret(const mlsi_nest *n, const int64_t *dims, const mlsi_view *params) {
    mlsi_machine m = {.n = n};
    mlsys_status st = MLSI_NEW_N(n->alloc, n->tab.n_symbols + 1, &m.binding);
    if (st == MLSYS_OK) st = MLSI_NEW_N(n->alloc, n->n_lets + 1, &m.lets);
    if (st == MLSYS_OK) st = MLSI_NEW_N(n->alloc, n->n_buffers + 1, &m.buffers);
    if (st == MLSYS_OK) st = MLSI_NEW_N(n->alloc, n->n_accs + 1, &m.accs);
    if (st == MLSYS_OK) {
        if (n->n_shape_symbols) memcpy(m.binding, dims, sizeof *dims * (size_t)n->n_shape_symbols);
        st = set_params(&m, params);
    }
    if (st == MLSYS_OK) st = run_body(&m, n->first);
    if (st == MLSYS_OK) st = check_written(&m);
    free_machine(&m);
    return st;
}
