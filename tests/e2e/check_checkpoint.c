/* Computing forward values again in the backward pass: the same bits, the memory that was predicted, and less of
 * it. Networks of residual layers with dropout; activations are what a run holds besides its inputs and outputs:
 * the stream's scratch, which is the predicted peak less the outputs. */
#include "autodiff/reverse.h"
#include "support/program_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LAYERS = 48, PER_LAYER = 7, MAX_PARAMETERS = MAX_LAYERS * PER_LAYER + 1 };

static program_case pc;

static void setup(void) { pc_open(&pc, 2); }
static void teardown(void) { pc_close(&pc); }

/* ---- networks ------------------------------------------------------------------------------ */

typedef struct network {
    mlsys_graph g;
    mlsys_value x, key, loss, parameters[MAX_PARAMETERS], gradients[MAX_PARAMETERS];
    int64_t shape[MAX_PARAMETERS][2];
    int32_t rank[MAX_PARAMETERS];
    int n; /* parameters */
    int64_t rows, width;
} network;

typedef enum family { PERCEPTRON, TRANSFORMER } family;
typedef struct plan {
    family family;
    int layers;
    int64_t rows, width, most; /* most > 0: rows are a symbol up to it */
    bool dropout;
} plan;

static mlsys_config numbers(const char *key, int n, const int64_t *v) {
    mlsys_config c;
    OK(mlsys_config_create(&c));
    OK(mlsys_config_set_i64s(c, key, n, v));
    return c;
}

static mlsys_value op(network *net, const char *name, int n, const mlsys_value *in,
                      mlsys_config attrs) {
    mlsys_value out;
    OK(mlsys_graph_op(net->g, name, n, in, attrs, 1, &out));
    OK(mlsys_release(attrs));
    return out;
}
#define OP(net, name, attrs, ...)                                                                  \
    op(net, name, (int)(sizeof((mlsys_value[]){__VA_ARGS__}) / sizeof(mlsys_value)),               \
       (mlsys_value[]){__VA_ARGS__}, attrs)

static mlsys_value full(network *net, const char *dtype, const char *key, double value) {
    mlsys_config c = numbers("shape", 0, NULL);
    OK(mlsys_config_set_str(c, "dtype", dtype));
    if (!strcmp(key, "value")) OK(mlsys_config_set_f64(c, key, value));
    if (strcmp(key, "value")) OK(mlsys_config_set_i64(c, key, (int64_t)value));
    return op(net, "full", 0, NULL, c);
}

static mlsys_value parameter(network *net, int32_t rank, int64_t a, int64_t b) {
    const int64_t shape[2] = {a, b};
    int i = net->n++;
    net->rank[i] = rank;
    memcpy(net->shape[i], shape, sizeof shape);
    OK(mlsys_graph_input(net->g, NULL, MLSYS_F32, rank, shape, &net->parameters[i]));
    return net->parameters[i];
}

/* x * (uniform < 3/4), numbers of its own in each layer. */
static mlsys_value dropout(network *net, int layer, mlsys_value x, mlsys_dim rows, int64_t width) {
    const int64_t shape[2] = {rows, width};
    mlsys_config c = numbers("shape", 2, shape);
    OK(mlsys_config_set_str(c, "dtype", "f32"));
    OK(mlsys_config_set_str(c, "kind", "uniform"));
    mlsys_value u = OP(net, "random", c, net->key, full(net, "i64", "ivalue", layer));
    mlsys_value kept = OP(net, "lt", NULL, u, full(net, "f32", "value", 0.75));
    mlsys_config f32;
    OK(mlsys_config_create(&f32));
    OK(mlsys_config_set_str(f32, "dtype", "f32"));
    return OP(net, "mul", NULL, x, OP(net, "cast", f32, kept));
}

static mlsys_value feed_forward(network *net, const plan *p, int layer, mlsys_dim rows,
                                mlsys_value x) {
    mlsys_value h = OP(net, "rms_norm", NULL, x, parameter(net, 1, p->width, 0));
    h = OP(net, "matmul", NULL, h, parameter(net, 2, p->width, 4 * p->width));
    h = OP(net, "gelu", NULL, h);
    if (p->dropout) h = dropout(net, layer, h, rows, 4 * p->width);
    h = OP(net, "matmul", NULL, h, parameter(net, 2, 4 * p->width, p->width));
    return OP(net, "add", NULL, x, h);
}

static mlsys_value attend(network *net, const plan *p, mlsys_dim rows, mlsys_value x) {
    const int64_t heads[4] = {1, rows, p->width / 8, 8}, flat[2] = {rows, p->width};
    mlsys_value h = OP(net, "rms_norm", NULL, x, parameter(net, 1, p->width, 0)), qkv[3];
    mlsys_config c;
    for (int i = 0; i < 3; i++) {
        qkv[i] = OP(net, "matmul", NULL, h, parameter(net, 2, p->width, p->width));
        qkv[i] = OP(net, "reshape", numbers("shape", 4, heads), qkv[i]);
    }
    OK(mlsys_config_create(&c));
    OK(mlsys_config_set_str(c, "causal", "top_left"));
    h = OP(net, "reshape", numbers("shape", 2, flat), op(net, "attention", 3, qkv, c));
    return OP(net, "add", NULL, x, h);
}

/* Inputs x, key, parameters; outputs loss and the parameters' gradients. */
static void build(network *net, const plan *p, mlsys_config config) {
    const int64_t none[1] = {0};
    memset(net, 0, sizeof *net);
    OK(mlsys_graph_create(pc.ctx_handle, &net->g));
    mlsys_dim rows = p->rows;
    if (p->most) OK(mlsys_graph_symbol(net->g, "B", 1, p->most, 1, &rows));
    const mlsys_dim shape[2] = {rows, p->width};
    net->rows = p->rows, net->width = p->width;
    OK(mlsys_graph_input(net->g, "x", MLSYS_F32, 2, shape, &net->x));
    OK(mlsys_graph_input(net->g, "key", MLSYS_I64, 0, none, &net->key));
    mlsys_value x = net->x;
    for (int i = 0; i < p->layers; i++) {
        if (p->family == TRANSFORMER) x = attend(net, p, rows, x);
        x = feed_forward(net, p, i, rows, x);
    }
    x = OP(net, "mul", NULL, x, x);
    net->loss = OP(net, "reduce_mean", NULL, x);
    OK(mlsys_graph_gradient(net->g, 1, &net->loss, NULL, net->n, net->parameters, config,
                            net->gradients));
    OK(mlsys_release(config));
    OK(mlsys_graph_output(net->g, "loss", net->loss));
    for (int i = 0; i < net->n; i++)
        OK(mlsys_graph_output(net->g, NULL, net->gradients[i]));
    OK(mlsys_graph_verify(net->g));
}

/* ---- policies ------------------------------------------------------------------------------ */

typedef struct policy {
    const char *kind, *key, *text; /* a further setting: a text, or a number */
    int64_t number;
} policy;

static const policy none = {"none", NULL, NULL, 0}, root = {"sqrt", NULL, NULL, 0};
static const policy policies[] = {
    {"every", "every", NULL, 1},      {"every", "every", NULL, 7},
    {"every", "every", NULL, 40},     {"every", "every", NULL, 100000},
    {"sqrt", NULL, NULL, 0},          {"ops", "keep", "matmul,attention", 0},
    {"ops", "keep", "add", 0},        {"ops", "keep", "", 0},
    {"bytes", "bytes", NULL, 0},      {"bytes", "bytes", NULL, 60000},
    {"bytes", "bytes", NULL, 1 << 30}};
enum { N_POLICIES = sizeof policies / sizeof policies[0] };

static mlsys_config config_of(const policy *p) {
    mlsys_config c;
    OK(mlsys_config_create(&c));
    OK(mlsys_config_set_str(c, "checkpoint", p->kind));
    if (p->text) OK(mlsys_config_set_str(c, p->key, p->text));
    if (p->key && !p->text) OK(mlsys_config_set_i64(c, p->key, p->number));
    return c;
}

/* ---- runs ---------------------------------------------------------------------------------- */

typedef struct result {
    mlsys_tensor out[MAX_PARAMETERS + 1];
    int n;
    uint64_t scratch, made, predicted, flops;
} result;

static mlsys_tensor small_numbers(kc_rng *r, int32_t rank, const int64_t *shape, double size) {
    mlsys_tensor t = pc_tensor(&pc, MLSYS_F32, rank, shape, NULL);
    mlsi_view v = rg_view(t);
    for (int64_t i = 0, n = mlsi_view_count(&v); i < n; i++)
        kc_set_f(&v, i, kc_uniform(r, -size, size));
    return t;
}

static void run(const network *net, mlsys_program p, result *out) {
    kc_rng r = kc_seed(5);
    mlsys_tensor in[MAX_PARAMETERS + 2];
    mlsys_stream stream;
    mlsys_cost cost = {.size = sizeof cost};
    const char *names[1] = {"B"};
    const int64_t x[2] = {net->rows, net->width}, key = 77;
    memset(out, 0, sizeof *out);
    in[0] = small_numbers(&r, 2, x, 1);
    in[1] = pc_tensor(&pc, MLSYS_I64, 0, NULL, &key);
    for (int i = 0; i < net->n; i++)
        in[2 + i] = small_numbers(&r, net->rank[i], net->shape[i], 0.5);
    OK(mlsys_stream_create(pc.device_handle, NULL, &stream));
    out->n = net->n + 1;
    OK(mlsys_program_run(p, stream, net->n + 2, in, out->n, out->out));
    for (int i = 0; i < out->n; i++) {
        mlsi_view v = rg_view(out->out[i]);
        out->made += mlsi_view_bytes(&v);
    }
    OK(mlsys_stream_scratch_bytes(stream, &out->scratch));
    mlsys_dim d[2];
    OK(mlsys_graph_type(net->g, net->x, NULL, 2, d, NULL));
    OK(mlsys_program_cost(p, d[0] < 0, names, x, &cost));
    out->predicted = cost.peak_bytes;
    out->flops = cost.flops;
    OK(mlsys_release(stream));
    pc_release(net->n + 2, in);
}

static void run_policy(const plan *p, const policy *c, const char *settings, result *out) {
    network net;
    build(&net, p, config_of(c));
    mlsys_program program = pc_compile(&pc, net.g, settings);
    run(&net, program, out);
    OK(mlsys_release(program));
    OK(mlsys_release(net.g));
    ck_assert_msg(out->predicted == out->scratch + out->made,
                  "%s: %llu predicted, %llu scratch + %llu outputs", c->kind,
                  (unsigned long long)out->predicted, (unsigned long long)out->scratch,
                  (unsigned long long)out->made);
}

static void same_bits(const result *a, const result *b, const char *what) {
    for (int i = 0; i < a->n; i++) {
        int64_t at = rg_difference(a->out[i], b->out[i]);
        ck_assert_msg(at < 0, "%s: output %d differs at element %lld", what, i, (long long)at);
    }
}

static void free_result(result *r) { pc_release(r->n, r->out); }

/* ---- tests --------------------------------------------------------------------------------- */

static const plan small_plans[] = {{PERCEPTRON, 6, 5, 8, 0, true},
                                   {PERCEPTRON, 5, 7, 8, 9, true},
                                   {TRANSFORMER, 4, 6, 16, 0, true},
                                   {TRANSFORMER, 3, 5, 16, 11, false}};
enum { N_PLANS = sizeof small_plans / sizeof small_plans[0] };
static const char *const modes[] = {"numerics=exact", "numerics=stable", "numerics=fast",
                                    "passes_off=simplify,fold,cse", "plan=0"};

/* The gradients of the last floats of a random graph by its float inputs become its outputs; false when it has none. */
static bool random_gradient(mlsi_graph *g, const policy *p) {
    mlsi_config *config;
    mlsi_checkpoint c;
    const mlsi_func *f = &g->funcs[0];
    int32_t y[3], x[3], dx[3], n_y = 0, n_x = 0;
    for (int32_t v = (int32_t)f->n_values - 1; v >= 0 && n_y < 3; v--)
        if (f->values[v].kind == MLSI_VALUE_NODE && mlsi_dtype_is_float(f->values[v].type.dtype))
            y[n_y++] = v;
    if (!n_y) return false;
    for (int64_t i = 0; i < f->n_inputs; i++)
        if (mlsi_dtype_is_float(f->values[f->inputs[i]].type.dtype)) x[n_x++] = f->inputs[i];
    mlsys_config handle = config_of(p);
    OK(mlsi_pin(handle, MLSYS_KIND_CONFIG, "config", &config));
    OK(mlsi_checkpoint_read(config, &c));
    mlsys_status st = mlsi_gradient_keeping(g, 0, &c, n_y, y, NULL, n_x, x, dx);
    if (st != MLSYS_OK) pc_expect(st, MLSYS_E_UNSUPPORTED, "");
    mlsi_unpin(config);
    OK(mlsys_release(handle));
    g->funcs[0].n_outputs = 0;
    for (int32_t j = 0; st == MLSYS_OK && j < n_x; j++)
        if (dx[j] >= 0) OK(mlsi_build_output(g, 0, NULL, dx[j]));
    return g->funcs[0].n_outputs > 0;
}

/* Every policy, in every mode, gives the bits of no policy, and takes the memory that was predicted. */
START_TEST(the_same_bits) {
    const plan *p = &small_plans[_i];
    for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++) {
        result want, got;
        run_policy(p, &none, modes[m], &want);
        for (int k = 0; k < N_POLICIES; k++) {
            char what[100];
            run_policy(p, &policies[k], modes[m], &got);
            snprintf(what, sizeof what, "plan %d, policy %d (%s), %s", _i, k, policies[k].kind,
                     modes[m]);
            same_bits(&want, &got, what);
            if (!m)
                printf("%s: scratch %llu, %llu without\n", what, (unsigned long long)got.scratch,
                       (unsigned long long)want.scratch);
            free_result(&got);
        }
        free_result(&want);
    }
}
END_TEST

/* Graphs of all ops, with symbols and control flow, and all kinds of values. */
START_TEST(random_graphs) {
    printf("seeds 1 to 400\n");
    int compared = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        const policy *c[2] = {&none, &policies[seed % N_POLICIES]};
        mlsys_tensor out[2][3] = {{0}};
        int n_out[2] = {0};
        for (int k = 0; k < 2; k++) {
            kc_rng r = kc_seed(seed);
            mlsi_graph g;
            rg_options o = {
                .nodes = 25, .inputs = 3, .outputs = 3, .symbols = seed & 1, .control = seed & 2};
            OK(mlsi_graph_init(&g, pc.ctx));
            rg_graph(&r, &g, pc.device, &o);
            if (random_gradient(&g, c[k])) {
                mlsys_tensor in[3];
                mlsys_program p = pc_compile_inside(&pc, &g, "");
                rg_inputs(&r, &g, pc.device_handle, rg_bind(&r), in);
                n_out[k] = (int)g.funcs[0].n_outputs;
                OK(mlsys_program_run(p, pc.stream, 3, in, n_out[k], out[k]));
                pc_release(3, in);
                OK(mlsys_release(p));
            }
            mlsi_graph_free(&g);
        }
        ck_assert_int_eq(n_out[0], n_out[1]);
        for (int i = 0; i < n_out[0]; i++)
            ck_assert_msg(rg_difference(out[0][i], out[1][i]) < 0, "seed %llu, output %d",
                          (unsigned long long)seed, i);
        compared += n_out[0];
        pc_release(n_out[0], out[0]);
        pc_release(n_out[1], out[1]);
    }
    printf("%d gradients\n", compared);
    ck_assert_int_gt(compared, 30);
}
END_TEST

/* A composite that is walked first, as its adjoint is given: its primitives read what they themselves gave, and
 * the graph's first value through a barrier. */
START_TEST(a_composite_with_a_seed) {
    static const float x[4] = {-2, -0.5f, 0.25f, 3}, seed[4] = {1, 2, -3, 0.5f};
    mlsys_tensor in[2] = {pc_f32(&pc, 4, x), pc_f32(&pc, 4, seed)}, out[2] = {0};
    for (int keeping = 0; keeping < 2; keeping++) {
        mlsys_graph g = pc_parse(&pc, "functions 1\nfunc 0 \"main\" {\n"
                                      "  %0 = input \"x\" : f32[4]\n  %1 = input \"s\" : f32[4]\n"
                                      "  %2 = gelu(%0) : f32[4]\n  output \"\" %2\n}\n");
        const mlsi_checkpoint c = {.kind = keeping ? MLSI_CHECKPOINT_EVERY : MLSI_CHECKPOINT_NONE,
                                   .every = 1};
        const int32_t y = 2, s = 1, by = 0;
        mlsi_graph *inside;
        int32_t dx;
        OK(mlsi_pin(g, MLSYS_KIND_GRAPH, "graph", &inside));
        mlsi_func *f = &inside->funcs[0];
        int64_t forward = f->n_nodes;
        OK(mlsi_gradient_keeping(inside, 0, &c, 1, &y, &s, 1, &by, &dx));
        for (int64_t i = forward; keeping && i < f->n_nodes; i++)
            for (int k = 0; k < f->nodes[i].n_in; k++)
                ck_assert(f->nodes[i].in[k] != by || f->nodes[i].op == MLSI_OP_BARRIER);
        f->n_outputs = 0;
        OK(mlsi_build_output(inside, 0, NULL, dx));
        mlsi_unpin(inside);
        OK(mlsys_graph_interpret(g, pc.stream, 2, in, 1, &out[keeping]));
        OK(mlsys_release(g));
    }
    ck_assert_int_lt(rg_difference(out[0], out[1]), 0);
    pc_release(2, in);
    pc_release(2, out);
}
END_TEST

/* 48 layers, sqrt: at most a fifth of the scratch. */
START_TEST(sqrt_cuts_activations) {
    static const plan deep[] = {{PERCEPTRON, 48, 512, 16, 0, false},
                                {PERCEPTRON, 48, 512, 16, 0, true},
                                {PERCEPTRON, 48, 300, 16, 512, true},
                                {TRANSFORMER, 48, 256, 16, 0, false}};
    result want, got;
    run_policy(&deep[_i], &none, "", &want);
    run_policy(&deep[_i], &root, "", &got);
    same_bits(&want, &got, "48 layers");
    printf("48 layers, %d: scratch %llu, %llu without: %.1f times less\n", _i,
           (unsigned long long)got.scratch, (unsigned long long)want.scratch,
           (double)want.scratch / (double)got.scratch);
    ck_assert_uint_ge(want.scratch, 5 * got.scratch);
    free_result(&want);
    free_result(&got);
}
END_TEST

/* A budget bounds the forward values alive in the backward pass. On top come adjoints and the kernels' own memory:
 * here less than 1 MiB, the adjoints of one layer twice over. A larger budget costs no more time. */
START_TEST(a_budget_is_kept) {
    static const plan deep = {PERCEPTRON, 24, 512, 16, 0, true};
    static const int64_t mebibytes[] = {0, 2, 4, 8, 16};
    uint64_t flops = UINT64_MAX, scratch = 0;
    for (int i = 0; i < 5; i++) {
        int64_t budget = mebibytes[i] << 20;
        policy c = {"bytes", "bytes", NULL, budget};
        result got;
        run_policy(&deep, &c, "", &got);
        printf("budget %lld: scratch %llu, %llu flops\n", (long long)budget,
               (unsigned long long)got.scratch, (unsigned long long)got.flops);
        if (budget) ck_assert_uint_le(got.scratch, (uint64_t)budget + (1 << 20));
        ck_assert_uint_gt(got.scratch, scratch);
        ck_assert_uint_lt(got.flops, flops);
        flops = got.flops, scratch = got.scratch;
        free_result(&got);
    }
}
END_TEST

/* Nothing is computed again where everything may be kept. */
START_TEST(what_may_all_be_kept) {
    static const policy all[] = {{"every", "every", NULL, 1000000},
                                 {"bytes", "bytes", NULL, 1 << 30}};
    static const plan p = {PERCEPTRON, 6, 64, 16, 0, true};
    result want, got;
    run_policy(&p, &none, "", &want);
    for (int i = 0; i < 2; i++) {
        run_policy(&p, &all[i], "", &got);
        ck_assert_uint_eq(got.flops, want.flops);
        ck_assert_uint_eq(got.scratch, want.scratch);
        free_result(&got);
    }
    free_result(&want);
}
END_TEST

START_TEST(what_is_refused) {
    static const struct {
        policy p;
        mlsys_status status;
        const char *text;
    } rows[] = {
        {{"some", NULL, NULL, 0}, MLSYS_E_ARG, "checkpoint \"some\" is not none, every"},
        {{"ops", "keep", "matmul,conw", 0}, MLSYS_E_NOTFOUND, "keep names no op \"conw\""},
        {{"every", "every", NULL, 0}, MLSYS_E_ARG, "every"},
        {{"bytes", "bytes", NULL, -1}, MLSYS_E_ARG, "bytes"},
        {{"sqrt", "evry", NULL, 1}, MLSYS_E_NOTFOUND, "evry"},
    };
    const int64_t shape[1] = {3};
    mlsys_graph g;
    mlsys_value x, y, d = 7;
    OK(mlsys_graph_create(pc.ctx_handle, &g));
    OK(mlsys_graph_input(g, "x", MLSYS_F32, 1, shape, &x));
    OK(mlsys_graph_op(g, "exp", 1, &x, NULL, 1, &y));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        mlsys_config c = config_of(&rows[i].p);
        pc_expect(mlsys_graph_gradient(g, 1, &y, NULL, 1, &x, c, &d), rows[i].status, rows[i].text);
        ck_assert_int_eq(d, 0);
        OK(mlsys_release(c));
    }
    OK(mlsys_release(g));
}
END_TEST

int main(void) {
    Suite *s = suite_create("checkpoint");
    TCase *tc = tcase_create("checkpoint");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, the_same_bits, 0, N_PLANS);
    tcase_add_test(tc, random_graphs);
    tcase_add_test(tc, a_composite_with_a_seed);
    tcase_add_loop_test(tc, sqrt_cuts_activations, 0, 4);
    tcase_add_test(tc, a_budget_is_kept);
    tcase_add_test(tc, what_may_all_be_kept);
    tcase_add_test(tc, what_is_refused);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
