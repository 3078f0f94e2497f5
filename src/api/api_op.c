#include "api/api.h"
#include "api/api_graph.h"
#include "run/program.h"
#include "run/tape.h"

#include <string.h>

/* The one-node graph of an eager call: inputs as they are, outputs in order. */
static mlsys_status build_call(mlsi_graph *g, const char *op, const mlsi_config *attrs,
                               int32_t n_in, mlsi_tensor *const *in, int32_t n_out, int *n_given,
                               mlsi_tensor **given) {
    int32_t values[MLSI_MAX_OPERANDS], results[MLSI_MAX_OPERANDS];
    for (int i = 0; i < n_in; i++) {
        values[i] = -1;
        if (!in[i]) continue;
        mlsi_type t = {.dtype = in[i]->layout.dtype, .rank = in[i]->layout.rank};
        memcpy(t.dims, in[i]->layout.shape, sizeof t.dims);
        MLSI_TRY(mlsi_build_input(g, 0, NULL, &t, &values[i]));
        given[(*n_given)++] = in[i];
    }
    MLSI_TRY(mlsi_graph_add_op(g, 0, op, attrs, n_in, values, n_out, results));
    for (int i = 0; i < n_out; i++)
        MLSI_TRY(mlsi_build_output(g, 0, NULL, results[i]));
    return MLSYS_OK;
}

/* Run what the graph says, on the record of the stream's tape if it has one. */
static mlsys_status run_recorded(mlsi_tape *tape, mlsi_graph *g, mlsi_stream *s, int32_t n_in,
                                 mlsi_tensor *const *in, int n_given, mlsi_tensor **given,
                                 int32_t n_out, mlsys_tensor *out) {
    mlsi_tape_mark mark;
    mlsi_tensor *results[MLSI_MAX_OPERANDS] = {NULL};
    MLSI_TRY(mlsi_tape_begin(tape, g, n_in, in, &mark));
    mlsys_status st = mlsi_eager_run(g, s, n_given, given, n_out, out);
    for (int32_t i = 0; i < n_out && st == MLSYS_OK; i++)
        st = mlsi_pin(out[i], MLSYS_KIND_TENSOR, "op_run: out", &results[i]);
    mlsi_tape_end(tape, &mark, st, n_out, results);
    for (int32_t i = 0; i < n_out; i++)
        mlsi_unpin(results[i]);
    return st;
}

/* The stream's tape, NULL when there is none, or when another thread just let it go. */
static mlsys_status tape_of(mlsi_stream *s, mlsi_tape **out) {
    void *handle = (void *)(uintptr_t)atomic_load(&s->tape);
    *out = NULL;
    if (!handle) return MLSYS_OK;
    mlsys_status st = mlsi_pin_exclusive(handle, MLSYS_KIND_TAPE, "op_run: the stream's tape", out);
    return st == MLSYS_E_HANDLE ? MLSYS_OK : st;
}

static mlsys_status run_call(mlsi_stream *s, mlsi_tape *tape, const char *op,
                             const mlsi_config *attrs, int32_t n_in, mlsi_tensor *const *in,
                             int32_t n_out, mlsys_tensor *out) {
    mlsi_graph g;
    mlsi_tensor *given[MLSI_MAX_OPERANDS];
    int n_given = 0;
    MLSI_TRY(mlsi_graph_init(&g, s->object.ctx));
    mlsys_status st = build_call(&g, op, attrs, n_in, in, n_out, &n_given, given);
    if (st == MLSYS_OK && tape)
        st = run_recorded(tape, &g, s, n_in, in, n_given, given, n_out, out);
    else if (st == MLSYS_OK)
        st = mlsi_eager_run(&g, s, n_given, given, n_out, out);
    mlsi_graph_free(&g);
    return st;
}

mlsys_status mlsys_op_run(mlsys_stream stream, const char *op, int32_t n_in, const mlsys_tensor *in,
                          mlsys_config attrs, int32_t n_out, mlsys_tensor *out) {
    API_COMPUTES;
    mlsi_stream *s;
    mlsi_config *c = NULL;
    mlsi_tape *tape = NULL;
    mlsi_tensor *tensors[MLSI_MAX_OPERANDS];
    API_NOT_NULL(op, "op_run: op");
    if (n_in < 0 || n_in > MLSI_MAX_OPERANDS || n_out < 1 || n_out > MLSI_MAX_OPERANDS)
        return mlsi_fail(MLSYS_E_ARG, "op_run: n_in %d outside [0,%d] or n_out %d outside [1,%d]",
                         n_in, MLSI_MAX_OPERANDS, n_out, MLSI_MAX_OPERANDS);
    if ((n_in && !in) || !out) return mlsi_fail(MLSYS_E_ARG, "op_run: in or out is NULL");
    MLSI_TRY(mlsi_pin_exclusive(stream, MLSYS_KIND_STREAM, "op_run: stream", &s));
    mlsys_status st = mlsi_api_pin_tensors(s->object.ctx, "op_run: in", n_in, in, true, tensors);
    if (st == MLSYS_OK && attrs)
        st = mlsi_pin_exclusive(attrs, MLSYS_KIND_CONFIG, "op_run: attrs", &c);
    if (st == MLSYS_OK) st = tape_of(s, &tape);
    if (st == MLSYS_OK) st = run_call(s, tape, op, c, n_in, tensors, n_out, out);
    mlsi_unpin_exclusive(tape);
    mlsi_unpin_exclusive(c);
    mlsi_api_unpin_tensors(n_in, tensors);
    mlsi_unpin_exclusive(s);
    return st;
}

mlsys_status mlsys_matmul(mlsys_stream stream, mlsys_tensor a, mlsys_tensor b, mlsys_tensor *out) {
    mlsys_tensor in[2] = {a, b};
    API_OUT_HANDLE(out, "matmul: out");
    if (!a || !b) return mlsi_fail(MLSYS_E_HANDLE, "matmul: %s is NULL", a ? "b" : "a");
    return mlsys_op_run(stream, "matmul", 2, in, NULL, 1, out);
}

mlsys_status mlsys_cast(mlsys_stream stream, mlsys_tensor a, mlsys_dtype dtype, mlsys_tensor *out) {
    mlsys_config c;
    API_OUT_HANDLE(out, "cast: out");
    if (!a) return mlsi_fail(MLSYS_E_HANDLE, "cast: a is NULL");
    const mlsi_dtype_info *info = mlsi_dtype_get(dtype);
    if (!info) return mlsi_fail(MLSYS_E_DTYPE, "cast: unknown dtype %d", dtype);
    MLSI_TRY(mlsys_config_create(&c));
    mlsys_status st = mlsys_config_set_str(c, "dtype", info->name);
    if (st == MLSYS_OK) st = mlsys_op_run(stream, "cast", 1, &a, c, 1, out);
    mlsys_release(c);
    return st;
}

mlsys_status mlsys_op_list(mlsys_ctx ctx, char *buf, uint64_t cap, uint64_t *need) {
    mlsi_ctx *c = NULL;
    mlsi_text text;
    API_TEXT(buf, cap, "op_list");
    if (ctx) MLSI_TRY(mlsi_pin(ctx, MLSYS_KIND_CTX, "op_list: ctx", &c));
    mlsi_text_init(&text, c ? &c->alloc : &mlsi_alloc_process);
    for (int i = 0; i < MLSI_OP_COUNT; i++)
        if (i != MLSI_OP_CUSTOM) mlsi_text_add(&text, "%s\n", mlsi_op_name((mlsi_op)i));
    for (const mlsi_custom_op *op = c ? atomic_load(&c->custom_ops) : NULL; op; op = op->next)
        mlsi_text_add(&text, "%s\n", op->name);
    mlsys_status st = mlsi_text_out(&text, buf, cap, need);
    mlsi_unpin(c);
    return st;
}

mlsys_status mlsys_op_schema(mlsys_ctx ctx, const char *op, char *buf, uint64_t cap,
                             uint64_t *need) {
    API_COMPUTES;
    mlsi_ctx *c = NULL;
    mlsi_text text;
    mlsys_status st = MLSYS_OK;
    API_NOT_NULL(op, "op_schema: op");
    API_TEXT(buf, cap, "op_schema");
    if (ctx) MLSI_TRY(mlsi_pin(ctx, MLSYS_KIND_CTX, "op_schema: ctx", &c));
    mlsi_text_init(&text, c ? &c->alloc : &mlsi_alloc_process);
    mlsi_op id = mlsi_op_by_name(op);
    const mlsi_custom_op *custom = c ? mlsi_custom_op_find(c, op) : NULL;
    if (id != MLSI_OP_COUNT)
        mlsi_op_schema_text(id, &text);
    else if (custom)
        mlsi_text_add(&text, "# %s\n\nA custom op: %d operands, %d results.\n", custom->name,
                      custom->def.n_in, custom->def.n_out);
    else
        st = mlsi_fail(MLSYS_E_NOTFOUND, "op_schema: no op \"%.64s\"", op);
    if (st == MLSYS_OK)
        st = mlsi_text_out(&text, buf, cap, need);
    else
        mlsi_text_free(&text);
    mlsi_unpin(c);
    return st;
}

mlsys_status mlsys_opdef_init(mlsys_opdef *d, uint64_t size) {
    mlsys_opdef defaults;
    API_NOT_NULL(d, "opdef_init: d");
    if (size < sizeof defaults.size)
        return mlsi_fail(MLSYS_E_ARG, "opdef_init: size is %llu", (unsigned long long)size);
    memset(&defaults, 0, sizeof defaults);
    defaults.size = size;
    memset(d, 0, size);
    memcpy(d, &defaults, size < sizeof defaults ? (size_t)size : sizeof defaults);
    return MLSYS_OK;
}

static mlsys_status check_opdef(const mlsi_ctx *c, const mlsys_opdef *d) {
    if (!d->name || !d->name[0] || strlen(d->name) > 63 ||
        d->name[strspn(d->name, "abcdefghijklmnopqrstuvwxyz0123456789_.")])
        return mlsi_fail(MLSYS_E_ARG, "op_register: name \"%.64s\" is not 1 to 63 of a-z 0-9 _ .",
                         d->name ? d->name : "");
    if (mlsi_op_by_name(d->name) != MLSI_OP_COUNT || mlsi_custom_op_find(c, d->name))
        return mlsi_fail(MLSYS_E_ARG, "op_register: the name \"%s\" is taken", d->name);
    if (!d->infer || !d->run) return mlsi_fail(MLSYS_E_ARG, "op_register: infer or run is NULL");
    if (d->n_in < 0 || d->n_in > MLSI_MAX_OPERANDS || d->n_out < 1 || d->n_out > MLSI_MAX_OPERANDS)
        return mlsi_fail(MLSYS_E_ARG, "op_register: n_in %d or n_out %d outside [0 or 1,%d]",
                         d->n_in, d->n_out, MLSI_MAX_OPERANDS);
    return MLSYS_OK;
}

static mlsys_status add_custom(mlsi_ctx *c, const mlsys_opdef *d) {
    mlsi_custom_op *op;
    MLSI_TRY(check_opdef(c, d));
    MLSI_TRY(MLSI_NEW(&c->alloc, &op));
    mlsys_status st = mlsi_mem_strdup(&c->alloc, d->name, &op->name);
    if (st != MLSYS_OK) {
        mlsi_mem_free(&c->alloc, op);
        return st;
    }
    op->def = *d;
    op->def.name = op->name;
    if (d->gradient) op->vjp = mlsi_custom_vjp;
    op->next = atomic_load(&c->custom_ops);
    atomic_store(&c->custom_ops, op);
    return MLSYS_OK;
}

mlsys_status mlsys_op_register(mlsys_ctx ctx, const mlsys_opdef *d) {
    mlsi_ctx *c;
    mlsys_opdef own;
    API_NOT_NULL(d, "op_register: d");
    memset(&own, 0, sizeof own);
    MLSI_TRY(mlsi_api_struct_in(&own, sizeof own, d, "op_register: d"));
    MLSI_TRY(mlsi_pin(ctx, MLSYS_KIND_CTX, "op_register: ctx", &c));
    pthread_mutex_lock(&c->lock);
    mlsys_status st = add_custom(c, &own);
    pthread_mutex_unlock(&c->lock);
    mlsi_unpin(c);
    return st;
}
