/* Any bytes as IR text: they are refused with a sentence, or make a graph that the verifier accepts, that
 * prints to text which reads back to the same text, and that gives the same bits by the interpreter and as
 * a program, and so do its gradients. Also checked: a bound on the memory that text can ask for, and that nothing stays. */
#include "autodiff/reverse.h"
#include "ir/ops/op_def.h"
#include "run/program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEMAND(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) __builtin_trap();                                                        \
    } while (0)

enum { MAX_NODES = 64, MAX_ARGS = 8, MAX_BYTES = 1 << 14, MAX_WORK = 1 << 18 };

static mlsi_ctx *ctx;
static mlsi_device *device;
static mlsi_stream *stream;

/* One context for all inputs; a process that fuzzes never ends it. */
static void start(void) {
    mlsys_config c;
    mlsys_ctx handle;
    mlsys_device device_handle;
    mlsys_stream stream_handle;
    if (ctx) return;
    DEMAND(mlsys_config_create(&c) == MLSYS_OK);
    DEMAND(mlsys_config_set_i64(c, "threads", 1) == MLSYS_OK);
    DEMAND(mlsys_ctx_create(c, NULL, &handle) == MLSYS_OK);
    mlsys_release(c);
    DEMAND(mlsi_pin(handle, MLSYS_KIND_CTX, "ctx", &ctx) == MLSYS_OK);
    DEMAND(mlsys_device_get(handle, MLSYS_CPU, 0, &device_handle) == MLSYS_OK);
    DEMAND(mlsi_pin(device_handle, MLSYS_KIND_DEVICE, "device", &device) == MLSYS_OK);
    DEMAND(mlsys_stream_create(device_handle, NULL, &stream_handle) == MLSYS_OK);
    DEMAND(mlsi_pin(stream_handle, MLSYS_KIND_STREAM, "stream", &stream) == MLSYS_OK);
}

/* ---- text ----------------------------------------------------------------------------------------------- */

static void print(const mlsi_graph *g, mlsi_text *t) {
    mlsi_text_init(t, g->alloc);
    mlsi_graph_print(g, t);
    DEMAND(t->st == MLSYS_OK);
}

static void check_text(const mlsi_graph *g) {
    mlsi_text first, second;
    mlsi_graph back;
    print(g, &first);
    DEMAND(mlsi_graph_init(&back, ctx) == MLSYS_OK);
    DEMAND(mlsi_graph_parse(&back, device, first.data) == MLSYS_OK);
    print(&back, &second);
    DEMAND(!strcmp(first.data, second.data));
    mlsi_graph_free(&back);
    mlsi_text_free(&first);
    mlsi_text_free(&second);
}

/* ---- meaning --------------------------------------------------------------------------------------------- */

/* Small enough to run: extents at the least values of the symbols, no loops (they may not end), no bits of
 * NaN seen as a number. */
static bool runnable(const mlsi_graph *g, const int64_t *binding) {
    uint64_t bytes = 0;
    int64_t nodes = 0;
    if (g->funcs[0].n_inputs > MAX_ARGS || g->funcs[0].n_outputs > MAX_ARGS) return false;
    for (int64_t f = 0; f < g->n_funcs; f++) {
        const mlsi_func *func = &g->funcs[f];
        nodes += func->n_nodes;
        if (nodes > MAX_NODES || g->n_funcs > 8) return false;
        for (int64_t n = 0; n < func->n_nodes; n++) {
            mlsi_op op = func->nodes[n].op;
            if (op == MLSI_OP_WHILE || op == MLSI_OP_BITCAST || op == MLSI_OP_CUSTOM) return false;
        }
        for (int64_t v = 0; v < func->n_values; v++) {
            mlsi_layout l;
            if (mlsi_type_layout(&g->symbols, &func->values[v].type, binding, &l) != MLSYS_OK)
                return false;
            uint64_t b = mlsi_layout_bytes(&l);
            if (b > MAX_BYTES || (bytes += b) > 4 * MAX_BYTES) return false;
        }
    }
    return true;
}

/* Multiplications and the like, by the cost rules of main: windows and padding multiply. */
static bool affordable(const mlsi_program *p, const int64_t *binding) {
    mlsi_bound *b;
    uint64_t work = 0;
    if (mlsi_bound_create(p, &b) != MLSYS_OK) return false;
    for (int64_t s = 0; s < p->graph.symbols.n_symbols; s++)
        b->wanted[s] = binding[s];
    bool fits = mlsi_bound_bind(b) == MLSYS_OK && b->routines[0].arena_bytes < 64 * MAX_BYTES;
    for (int64_t i = 0; fits && i < p->routines[0].n_steps; i++) {
        mlsi_op_cost c;
        mlsi_step_cost(p, b, 0, i, &c);
        work += c.flops + c.transcendentals;
        fits = work < MAX_WORK;
    }
    mlsi_bound_free(p->graph.alloc, b);
    return fits;
}

static void fill(const mlsi_view *v, uint64_t seed) {
    for (int64_t i = 0, n = mlsi_view_count(v); i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        int64_t small = (int64_t)(seed >> 61) - 2;
        if (mlsi_dtype_is_block(v->dtype)) continue;
        if (mlsi_dtype_is_float(v->dtype))
            mlsi_ref_set_f(v, i, (double)small / 2);
        else
            mlsi_ref_set_i(v, i, v->dtype == MLSYS_BOOL ? small & 1 : small);
    }
}

static mlsi_tensor *make_input(const mlsi_graph *g, int64_t i, const int64_t *binding,
                               mlsys_tensor *handle) {
    const mlsi_func *f = &g->funcs[0];
    mlsi_layout l;
    mlsi_tensor *t;
    DEMAND(mlsi_type_layout(&g->symbols, &f->values[f->inputs[i]].type, binding, &l) == MLSYS_OK);
    DEMAND(mlsi_tensor_new(device, &l, handle) == MLSYS_OK);
    DEMAND(mlsi_pin(*handle, MLSYS_KIND_TENSOR, "in", &t) == MLSYS_OK);
    mlsi_view v = mlsi_tensor_view_of(t);
    memset(v.data, 0, mlsi_layout_bytes(&l));
    fill(&v, (uint64_t)i + 1);
    return t;
}

static bool same_element(const mlsi_view *a, const mlsi_view *b, int64_t i) {
    if (!mlsi_dtype_is_float(a->dtype)) return mlsi_ref_get_i(a, i) == mlsi_ref_get_i(b, i);
    double x = mlsi_ref_get_f(a, i), y = mlsi_ref_get_f(b, i);
    return (isnan(x) && isnan(y)) || (x == y && signbit(x) == signbit(y));
}

static void compare(mlsys_tensor got, mlsys_tensor want) {
    mlsi_tensor *a, *b;
    DEMAND(mlsi_pin(got, MLSYS_KIND_TENSOR, "out", &a) == MLSYS_OK);
    DEMAND(mlsi_pin(want, MLSYS_KIND_TENSOR, "out", &b) == MLSYS_OK);
    mlsi_view x = mlsi_tensor_view_of(a), y = mlsi_tensor_view_of(b);
    DEMAND(x.dtype == y.dtype && x.rank == y.rank);
    for (int64_t i = 0, n = mlsi_view_count(&x); i < n && !mlsi_dtype_is_block(x.dtype); i++)
        DEMAND(same_element(&x, &y, i));
    mlsi_unpin(a);
    mlsi_unpin(b);
    mlsys_release(got);
    mlsys_release(want);
}

static void run_both(const mlsi_graph *g, const mlsi_program *p, const int64_t *binding) {
    int n_in = (int)g->funcs[0].n_inputs, n_out = (int)g->funcs[0].n_outputs;
    mlsys_tensor handles[2][MAX_ARGS], got[MAX_ARGS] = {0}, want[MAX_ARGS] = {0};
    mlsi_tensor *in[2][MAX_ARGS]; /* twice: a program may overwrite donated ones */
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < n_in; i++)
            in[k][i] = make_input(g, i, binding, &handles[k][i]);
    mlsys_status a = mlsi_interpret_tensors(g, stream, n_in, in[0], n_out, want);
    mlsys_status b = mlsi_program_exec(p, stream, n_in, in[1], n_out, got);
    mlsi_bound_forget(p, stream);
    mlsi_mem_free(&ctx->alloc, stream->scratch);
    stream->scratch = NULL;
    stream->scratch_bytes = 0;
    /* An op that fails and whose result nobody needs fails in the interpreter only. */
    DEMAND(a != MLSYS_OK || b == MLSYS_OK);
    DEMAND(b != MLSYS_E_INTERNAL && b != MLSYS_E_NOMEM);
    for (int o = 0; o < n_out; o++) {
        if (a == MLSYS_OK) compare(got[o], want[o]);
        if (a != MLSYS_OK) mlsys_release(got[o]);
    }
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < n_in; i++) {
            mlsi_unpin(in[k][i]);
            mlsys_release(handles[k][i]);
        }
}

static void check_meaning(const mlsi_graph *g) {
    int64_t binding[64];
    mlsi_compile_options o;
    mlsi_program *p;
    if (g->symbols.n_symbols > 64) return;
    for (int64_t s = 0; s < g->symbols.n_symbols; s++) {
        const mlsi_symbol *sym = &g->symbols.symbols[s];
        binding[s] = (sym->min + sym->divisor - 1) / sym->divisor * sym->divisor;
    }
    if (!runnable(g, binding)) return;
    DEMAND(mlsi_compile_options_read(ctx, NULL, &o) == MLSYS_OK);
    o.verify = true;
    DEMAND(mlsi_mem_zalloc(g->alloc, 1, sizeof *p, (void **)&p) == MLSYS_OK);
    mlsys_status st = mlsi_program_init(p, g, device, &o);
    DEMAND(st == MLSYS_OK || st == MLSYS_E_UNSUPPORTED);
    if (st == MLSYS_OK) {
        /* Symbols that no input binds are at their maximum when it runs. */
        int64_t bound[64];
        mlsi_layout l[MAX_ARGS];
        const mlsi_layout *refs[MAX_ARGS];
        const mlsi_func *f = &g->funcs[0];
        bool fits = true;
        for (int64_t i = 0; i < f->n_inputs; i++) {
            refs[i] = &l[i];
            fits = fits && mlsi_type_layout(&g->symbols, &f->values[f->inputs[i]].type, binding,
                                            &l[i]) == MLSYS_OK;
        }
        fits = fits && mlsi_bind_inputs(g, 0, (int)f->n_inputs, refs, bound) == MLSYS_OK;
        if (fits && runnable(g, bound) && affordable(p, bound)) run_both(g, p, binding);
        mlsi_program_free(p);
    }
    mlsi_mem_free(g->alloc, p);
}

/* Gradients of any graph, by one of the policies of what is kept: refused with a sentence and nothing changed, or a graph that verifies, reads back and
 * has the same bits as a program. */
static void check_gradient(mlsi_graph *g) {
    mlsi_func *f = &g->funcs[0];
    int32_t y[MAX_ARGS], x[MAX_ARGS], dx[MAX_ARGS], n_y = 0, n_x = 0;
    int64_t nodes = 0;
    for (int64_t k = 0; k < g->n_funcs; k++)
        nodes += g->funcs[k].n_nodes;
    if (nodes > MAX_NODES || f->n_inputs > MAX_ARGS || f->n_outputs > MAX_ARGS) return;
    for (int64_t i = 0; i < f->n_outputs; i++)
        if (mlsi_dtype_is_float(f->values[f->outputs[i].value].type.dtype))
            y[n_y++] = f->outputs[i].value;
    for (int64_t i = 0; i < f->n_inputs; i++)
        if (mlsi_dtype_is_float(f->values[f->inputs[i]].type.dtype)) x[n_x++] = f->inputs[i];
    int64_t before = f->n_nodes;
    mlsi_checkpoint c = {.kind = (mlsi_checkpoint_kind)(before % (MLSI_CHECKPOINT_BYTES + 1)),
                         .every = 1 + before % 7,
                         .bytes = 16 * before,
                         .keep = "matmul,add"};
    mlsys_status st = mlsi_gradient_keeping(g, 0, &c, n_y, y, NULL, n_x, x, dx);
    DEMAND(st != MLSYS_E_INTERNAL && st != MLSYS_E_NOMEM && mlsi_graph_verify(g) == MLSYS_OK);
    DEMAND(st == MLSYS_OK || (g->funcs[0].n_nodes == before && mlsys_last_error()[0]));
    if (st != MLSYS_OK) return;
    g->funcs[0].n_outputs = 0;
    for (int32_t j = 0; j < n_x; j++)
        if (dx[j] >= 0) DEMAND(mlsi_build_output(g, 0, NULL, dx[j]) == MLSYS_OK);
    if (!g->funcs[0].n_outputs) return;
    check_text(g);
    check_meaning(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    start();
    char *text = malloc(size + 1);
    uint64_t live = atomic_load(&ctx->alloc.live_bytes);
    mlsi_graph g;
    if (!text) return 0;
    if (size) memcpy(text, data, size);
    text[size] = 0;
    atomic_store(&ctx->alloc.peak_bytes, atomic_load(&ctx->alloc.live_bytes));
    DEMAND(mlsi_graph_init(&g, ctx) == MLSYS_OK);
    mlsys_status st = mlsi_graph_parse(&g, device, text);
    DEMAND(atomic_load(&ctx->alloc.peak_bytes) - live <= 2000 * (uint64_t)size + (3u << 20));
    if (st == MLSYS_OK) {
        DEMAND(mlsi_graph_verify(&g) == MLSYS_OK);
        check_text(&g);
        check_meaning(&g);
        check_gradient(&g);
    } else {
        DEMAND(st != MLSYS_E_INTERNAL && st != MLSYS_E_NOMEM && mlsys_last_error()[0]);
    }
    mlsi_graph_free(&g);
    DEMAND(atomic_load(&ctx->alloc.live_bytes) == live);
    free(text);
    return 0;
}
