/* Speed of backward kernels and of optimiser steps beside the hardware's limits: ops that are gradients, gradients
 * of single ops, and steps over one parameter. See docs/bench.md. */
#include "support/rates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPERANDS = 9, RESULTS = 3, MI = 1 << 20 };

typedef struct operand {
    mlsys_dtype dtype; /* 0: absent */
    int32_t ndim;
    int64_t shape[4];
    int64_t below;    /* integers: these */
    bool unread;      /* only its shape is asked for */
    const char *made; /* by this op from the first operand; else random */
} operand;

typedef struct gradient_case {
    const char *name, *op;
    operand in[OPERANDS];
    int n_out; /* results of the op, or: */
    int n_by; /* operands by which its first result is differentiated; that one's adjoint is random */
    int by[3];
    bool causal;
    int64_t window; /* kernel and strides of a pool, in both directions */
} gradient_case;

#define F32(n, ...)                                                                                \
    {                                                                                              \
        MLSYS_F32, n, { __VA_ARGS__ }                                                              \
    }
#define SHAPE_OF(n, ...)                                                                           \
    { MLSYS_F32, n, {__VA_ARGS__}, .unread = true }
#define SCALAR                                                                                     \
    {                                                                                              \
        MLSYS_F32, 0, { 0 }                                                                        \
    }
/* q, k, v, no mask and no length, o, lse, do. */
#define ATTENTION_GRAD(text, l, heads, kv_heads, d, mask)                                          \
    {                                                                                              \
        .name = text, .op = "attention_grad", .n_out = 3,                                          \
        .in = {F32(4, 1, l, heads, d),                                                             \
               F32(4, 1, l, kv_heads, d),                                                          \
               F32(4, 1, l, kv_heads, d),                                                          \
               {.dtype = 0},                                                                       \
               {.dtype = 0},                                                                       \
               F32(4, 1, l, heads, d),                                                             \
               F32(3, 1, heads, l),                                                                \
               F32(4, 1, l, heads, d)},                                                            \
        .causal = mask                                                                             \
    }

static const gradient_case cases[] = {
    ATTENTION_GRAD("attention_grad L512 H12 D64", 512, 12, 12, 64, false),
    ATTENTION_GRAD("attention_grad causal L512 H12 D64", 512, 12, 12, 64, true),
    ATTENTION_GRAD("attention_grad causal L512 H9/3 D64", 512, 9, 3, 64, true),
    {.name = "conv 3x3 8x32x32x32: by filters",
     .op = "conv",
     .in = {F32(4, 8, 32, 32, 32), SHAPE_OF(4, 32, 32, 3, 3)},
     .n_by = 1,
     .by = {1}},
    {.name = "conv 3x3 8x32x32x32: by images",
     .op = "conv",
     .in = {SHAPE_OF(4, 8, 32, 32, 32), F32(4, 32, 32, 3, 3)},
     .n_by = 1,
     .by = {0}},
    {.name = "pool_grad max 2x2 16x32x64x64",
     .op = "pool_grad",
     .in = {F32(4, 16, 32, 64, 64),
            {MLSYS_F32, 4, {16, 32, 32, 32}, .made = "pool"},
            F32(4, 16, 32, 32, 32)},
     .n_out = 1,
     .window = 2},
    {.name = "matmul 512x512x512: by both",
     .op = "matmul",
     .in = {F32(2, 512, 512), F32(2, 512, 512)},
     .n_by = 2,
     .by = {0, 1}},
    {.name = "gelu 1Mi: by x", .op = "gelu", .in = {F32(1, MI)}, .n_by = 1, .by = {0}},
    {.name = "softmax 1024x1024: value, by x",
     .op = "softmax",
     .in = {F32(2, 1024, 1024)},
     .n_by = 1,
     .by = {0}},
    {.name = "cross_entropy 128x49152: by logits",
     .op = "cross_entropy",
     .in = {F32(2, 128, 49152), {MLSYS_I64, 1, {128}, .below = 49152}},
     .n_by = 1,
     .by = {0}},
    {.name = "layer_norm 1024x1024: by all",
     .op = "layer_norm",
     .in = {F32(2, 1024, 1024), F32(1, 1024), SHAPE_OF(1, 1024)},
     .n_by = 3,
     .by = {0, 1, 2}},
    {.name = "rms_norm 1024x1024: by both",
     .op = "rms_norm",
     .in = {F32(2, 1024, 1024), F32(1, 1024)},
     .n_by = 2,
     .by = {0, 1}},
    {.name = "sgd_step 4Mi",
     .op = "sgd_step",
     .in = {F32(1, 4 * MI), F32(1, 4 * MI), SCALAR, F32(1, 4 * MI)},
     .n_out = 2},
    {.name = "lion_step 4Mi",
     .op = "lion_step",
     .in = {F32(1, 4 * MI), F32(1, 4 * MI), SCALAR, F32(1, 4 * MI)},
     .n_out = 2},
    {.name = "adam_step 4Mi",
     .op = "adam_step",
     .in = {F32(1, 4 * MI),
            F32(1, 4 * MI),
            SCALAR,
            F32(1, 4 * MI),
            F32(1, 4 * MI),
            {MLSYS_I64, 0, {0}, .below = 2}},
     .n_out = 3},
};

/* ---- programs ------------------------------------------------------------------------------ */

typedef struct gradient {
    const gradient_case *what;
    bench_library lib;
    mlsys_program program;
    mlsys_tensor in[OPERANDS + 1], out[RESULTS];
    int n_in, n_out;
    mlsys_cost cost; /* bytes: operands that are read and results, once */
    uint64_t expected;
    bool plant;
} gradient;

static mlsys_config attributes(const gradient_case *c) {
    const int64_t window[2] = {c->window, c->window};
    mlsys_config at;
    bench_need(mlsys_config_create(&at), "attributes");
    if (c->causal) bench_need(mlsys_config_set_str(at, "causal", "top_left"), "causal");
    if (c->window) bench_need(mlsys_config_set_i64s(at, "kernel", 2, window), "kernel");
    if (c->window) bench_need(mlsys_config_set_i64s(at, "strides", 2, window), "strides");
    return at;
}

static void fill(gradient *x, const operand *o, mlsys_tensor *t, int index) {
    void *data;
    uint64_t bytes;
    if (o->made) {
        mlsys_config at = attributes(x->what);
        bench_need(mlsys_op_run(x->lib.stream, o->made, 1, x->in, at, 1, t), o->made);
        bench_need(mlsys_release(at), "release");
    } else if (!o->below) {
        bench_need(mlsys_tensor_random(*t, x->lib.stream, "uniform", 7, (uint64_t)index),
                   "operand");
    } else {
        bench_need(mlsys_tensor_data(*t, &data, &bytes), "operand");
        for (uint64_t i = 0; i < bytes / sizeof(int64_t); i++)
            ((int64_t *)data)[i] = o->below - 1 - (int64_t)(i * 7919 % (uint64_t)o->below);
    }
}

static uint64_t bytes_of(mlsys_tensor t) {
    void *data;
    uint64_t bytes;
    bench_need(mlsys_tensor_data(t, &data, &bytes), "operand");
    return bytes;
}

static void add_input(gradient *x, const operand *o) {
    int i = x->n_in++;
    bench_need(mlsys_tensor_create(x->lib.device, o->dtype, o->ndim, o->shape, &x->in[i]),
               "operand");
    fill(x, o, &x->in[i], i);
    if (!o->unread) x->cost.bytes_read += bytes_of(x->in[i]);
}

/* The op's results, or its gradients, as outputs; operands are made on the way. */
static mlsys_graph build(gradient *x) {
    const gradient_case *c = x->what;
    mlsys_graph g;
    mlsys_value v[OPERANDS] = {0}, y[RESULTS] = {0}, by[3], d[3], dy;
    mlsys_config at = attributes(c);
    operand adjoint = {.dtype = MLSYS_F32};
    int n = 0;
    bench_need(mlsys_graph_create(x->lib.ctx, &g), "graph");
    for (int i = 0; i < OPERANDS; i++) {
        const operand *o = &c->in[i];
        if (!o->dtype) continue;
        bench_need(mlsys_graph_input(g, NULL, o->dtype, o->ndim, o->shape, &v[i]), "input");
        add_input(x, o);
        n = i + 1;
    }
    bench_need(mlsys_graph_op(g, c->op, n, v, at, c->n_out ? c->n_out : 1, y), c->name);
    bench_need(mlsys_release(at), "release");
    x->n_out = c->n_out;
    if (c->n_by) {
        bench_need(mlsys_graph_type(g, y[0], &adjoint.dtype, 4, adjoint.shape, &adjoint.ndim),
                   "type");
        bench_need(mlsys_graph_input(g, NULL, adjoint.dtype, adjoint.ndim, adjoint.shape, &dy),
                   "input");
        add_input(x, &adjoint);
        for (int i = 0; i < c->n_by; i++)
            by[i] = v[c->by[i]];
        bench_need(mlsys_graph_gradient(g, 1, y, &dy, c->n_by, by, NULL, d), c->name);
        memcpy(y, d, sizeof *d * (size_t)c->n_by);
        x->n_out = c->n_by;
    }
    for (int i = 0; i < x->n_out; i++)
        bench_need(mlsys_graph_output(g, NULL, y[i]), "output");
    return g;
}

static mlsys_program compile(const gradient *x, mlsys_graph g, const char *isa, int plan) {
    mlsys_config c;
    mlsys_program p;
    bench_need(mlsys_config_create(&c), "config");
    bench_need(mlsys_config_set_str(c, "numerics", "exact"), "numerics");
    bench_need(mlsys_config_set_str(c, "isa", isa), "isa");
    bench_need(mlsys_config_set_i64(c, "plan", plan), "plan");
    bench_need(mlsys_graph_compile(g, x->lib.device, c, &p), x->what->name);
    bench_need(mlsys_release(c), "release");
    return p;
}

static bool call(void *user) {
    gradient *x = user;
    bool ok =
        mlsys_program_run(x->program, x->lib.stream, x->n_in, x->in, x->n_out, x->out) == MLSYS_OK;
    void *data;
    uint64_t bytes;
    if (!ok || !x->plant) return ok;
    bench_need(mlsys_tensor_data(x->out[0], &data, &bytes), "output");
    ((unsigned char *)data)[bytes / 2] ^= 1;
    return true;
}

static uint64_t digest(void *user) {
    gradient *x = user;
    uint64_t each[RESULTS];
    for (int i = 0; i < x->n_out; i++) {
        void *data;
        uint64_t bytes;
        bench_need(mlsys_tensor_data(x->out[i], &data, &bytes), "output");
        each[i] = bench_digest(data, bytes);
    }
    return bench_digest(each, sizeof *each * (size_t)x->n_out);
}

static void check(void *user, bench_verdict *v) {
    gradient *x = user;
    bool same = digest(x) == x->expected;
    bench_judge(v, same, "portable kernels, no memory shared: all results, equal bits", "%s: %s",
                x->what->name, same ? "equal" : "other bits");
}

static void open_case(gradient *x, const gradient_case *c, int threads, bool plant) {
    mlsys_cost whole = {.size = sizeof whole};
    *x = (gradient){.what = c};
    bench_library_open(&x->lib, threads, NULL);
    mlsys_graph g = build(x);
    mlsys_program portable = compile(x, g, "portable", 0);
    x->program = compile(x, g, "auto", 1);
    bench_need(mlsys_release(g), "release");
    bench_need(mlsys_program_run(portable, x->lib.stream, x->n_in, x->in, x->n_out, x->out),
               "portable");
    x->expected = digest(x);
    for (int i = 0; i < x->n_out; i++) {
        x->cost.bytes_written += bytes_of(x->out[i]);
        bench_need(mlsys_release(x->out[i]), "release"); /* no old results */
        x->out[i] = NULL;
    }
    bench_need(mlsys_release(portable), "release");
    bench_need(mlsys_program_cost(x->program, 0, NULL, NULL, &whole), "cost");
    x->cost.flops = whole.flops, x->cost.transcendentals = whole.transcendentals;
    if (c->causal) { /* the op's cost is that of all pairs; of L * L, L * (L + 1) / 2 are visible */
        uint64_t l = (uint64_t)c->in[0].shape[1];
        x->cost.flops = whole.flops / (2 * l) * (l + 1);
        x->cost.transcendentals = whole.transcendentals / (2 * l) * (l + 1);
    }
    x->plant = plant;
}

static void close_case(gradient *x) {
    for (int i = 0; i < x->n_in; i++)
        bench_need(mlsys_release(x->in[i]), "release");
    for (int i = 0; i < x->n_out; i++)
        bench_need(mlsys_release(x->out[i]), "release");
    bench_need(mlsys_release(x->program), "release");
    bench_library_close(&x->lib);
}

/* ---- measuring ----------------------------------------------------------------------------- */

static void shapes_of(const gradient_case *c, char *out, size_t cap) {
    size_t used = 0;
    *out = 0;
    for (int i = 0; i < OPERANDS && used < cap; i++) {
        const operand *o = &c->in[i];
        const char *name = "?";
        if (!o->dtype) continue;
        bench_need(mlsys_dtype_info(o->dtype, NULL, NULL, &name), "dtype");
        used += (size_t)snprintf(out + used, cap - used, "%s%s[", used ? " " : "", name);
        for (int d = 0; d < o->ndim && used < cap; d++)
            used += (size_t)snprintf(out + used, cap - used, "%s%lld", d ? "," : "",
                                     (long long)o->shape[d]);
        if (used < cap) used += (size_t)snprintf(out + used, cap - used, "]");
    }
}

static void measure(bench_program *p, const gradient_case *c, int threads) {
    static bench_result r;
    gradient x;
    bench_record record = {NULL, 0, 0};
    char shapes[BENCH_TEXT];
    bench_sampling how = {.warmup = 2,
                          .samples = p->samples ? (int)p->samples
                                     : p->quick ? 9
                                                : 25,
                          .sample_seconds = p->quick ? 0.01 : 0.03};
    open_case(&x, c, threads, p->plant);
    bench_subject s = {.name = c->name,
                       .boundary = BENCH_CALL,
                       .cache = BENCH_WARM,
                       .threads = threads,
                       .user = &x,
                       .call = call,
                       .digest = digest,
                       .check = check};
    bench_measure(&s, &how, &r);
    bench_summary t = bench_result_summary(&r, (uint64_t)p->seed);
    bench_roof top = bench_cost_roof(p, &x.cost, &s);
    shapes_of(c, shapes, sizeof shapes);
    bench_set_result(&record, &s, &r, (uint64_t)p->seed);
    bench_set_text(&record, "shape", shapes);
    bench_set_text(&record, "dtype", "f32");
    bench_set_text(&record, "numerics", "exact");
    if (p->plant) bench_set_flag(&record, "planted", true);
    p->wrong += r.verdict.judgement != BENCH_PASS;
    if (r.verdict.judgement == BENCH_PASS) bench_set_rates(&record, &t, &x.cost, &top);
    bench_report_add(&p->report, BENCH_RECORD_RESULT, &record);
    bench_print_rates(&s, &r, &t, &x.cost, &top);
    fflush(stdout);
    close_case(&x);
}

int main(int argc, char **argv) {
    static bench_program p = {.name = "bench_gradients",
                              .summary = "Time of backward kernels and optimiser steps and how "
                                         "near they come to the hardware's limits."};
    const bench_option own[] = {{NULL, NULL, NULL, BENCH_FLAG, NULL}};
    bench_record run = {NULL, 0, 0};
    int counts[2], status;
    if (!bench_begin(&p, argc, argv, own, &status)) return status;
    int n = bench_thread_counts(&p, counts);
    printf("\n%-34s boundary, cache, threads; median of one call, p95, half the spread, rates, %% "
           "of the roof\n",
           "gradient");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int k = 0; k < n; k++)
            if (bench_wanted(&p, cases[i].name)) measure(&p, &cases[i], counts[k]);
    return bench_end(&p, &run);
}
