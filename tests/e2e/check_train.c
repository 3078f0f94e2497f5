/* Training by compiled programs: the loss falls, and in exact mode the weights after 100 steps are the same bits
 * for any number of threads and any instruction set. The network: conv, pool, layer norm, attention over the
 * cells, dense; Adam, SGD and Lion share its parameters among them. */
#include "autodiff/reverse.h"
#include "core/sha256.h"
#include "support/program_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 6, SIDE = 8, CLASSES = 4, PARAMETERS = 5, STATES = 2 * PARAMETERS + 1, STEPS = 100 };

typedef struct shape {
    int rank;
    int64_t dims[4];
} shape;
static const shape parameters[PARAMETERS] = {
    {4, {8, 1, 3, 3}}, {3, {8, 1, 1}}, {1, {8}}, {2, {8, 8}}, {2, {8, CLASSES}}};

/* One step. Inputs: images, labels, lr, count, 5 parameters, 5 first moments, 1 second moment. */
static const char step_text[] =
    "functions 1\nfunc 0 \"main\" {\n"
    "  %0 = input \"images\" : f32[6,1,8,8]\n  %1 = input \"labels\" : i64[6]\n"
    "  %2 = input \"lr\" : f32[]\n  %3 = input \"count\" : i64[]\n"
    "  %4 = input \"w0\" : f32[8,1,3,3] donated\n  %5 = input \"w1\" : f32[8,1,1] donated\n"
    "  %6 = input \"w2\" : f32[8] donated\n  %7 = input \"w3\" : f32[8,8] donated\n"
    "  %8 = input \"w4\" : f32[8,4] donated\n"
    "  %9 = input \"m0\" : f32[8,1,3,3] donated\n  %10 = input \"m1\" : f32[8,1,1] donated\n"
    "  %11 = input \"m2\" : f32[8] donated\n  %12 = input \"m3\" : f32[8,8] donated\n"
    "  %13 = input \"m4\" : f32[8,4] donated\n  %14 = input \"v0\" : f32[8,1,3,3] donated\n"
    "  %15 = conv(%0, %4) {pads=[1, 1, 1, 1]} : f32[6,8,8,8]\n  %16 = add(%15, %5) : f32[6,8,8,8]\n"
    "  %17 = gelu(%16) : f32[6,8,8,8]\n"
    "  %18 = pool(%17) {kind=max, kernel=[2, 2], strides=[2, 2]} : f32[6,8,4,4]\n"
    "  %19 = reshape(%18) {shape=[6, 8, 16]} : f32[6,8,16]\n"
    "  %20 = transpose(%19) {perm=[0, 2, 1]} : f32[6,16,8]\n"
    "  %21 = layer_norm(%20, %6) : f32[6,16,8]\n"
    "  %22 = reshape(%21) {shape=[6, 16, 2, 4]} : f32[6,16,2,4]\n"
    "  %23 = attention(%22, %22, %22) {causal=top_left} : f32[6,16,2,4]\n"
    "  %24 = reshape(%23) {shape=[6, 16, 8]} : f32[6,16,8]\n"
    "  %25 = matmul(%24, %7) : f32[6,16,8]\n  %26 = silu(%25) : f32[6,16,8]\n"
    "  %27 = reduce_mean(%26) {axes=[1]} : f32[6,8]\n  %28 = matmul(%27, %8) : f32[6,4]\n"
    "  %29 = cross_entropy(%28, %1) : f32[6]\n  %30 = reduce_mean(%29) : f32[]\n"
    "  output \"loss\" %30\n}\n";

static program_case pc;

static int32_t emit(mlsi_graph *g, const char *op, const void *attrs, int n, const int32_t *in,
                    int n_out, int32_t *out) {
    OK(mlsi_build_node(g, 0, mlsi_op_by_name(op), attrs, n, in, n_out, out));
    return out[0];
}

/* The step with its gradients and updates. */
static mlsys_graph step_graph(void) {
    mlsys_graph handle = pc_parse(&pc, step_text);
    mlsi_graph *g;
    int32_t loss = 30, w[PARAMETERS], d[PARAMETERS], out[3], *in;
    OK(mlsi_pin(handle, MLSYS_KIND_GRAPH, "graph", &g));
    in = g->funcs[0].inputs;
    for (int i = 0; i < PARAMETERS; i++)
        w[i] = in[4 + i];
    OK(mlsi_gradient(g, 0, 1, &loss, NULL, PARAMETERS, w, d));
    int32_t moments[PARAMETERS], next[PARAMETERS], second = 0;
    for (int i = 0; i < PARAMETERS; i++) {
        in = g->funcs[0].inputs;
        const int32_t a[6] = {w[i], d[i], in[2], in[9 + i], in[14], in[3]};
        const char *op = i == 0 ? "adam_step" : i == 4 ? "lion_step" : "sgd_step";
        emit(g, op, NULL, i ? 4 : 6, a, i ? 2 : 3, out);
        next[i] = out[0], moments[i] = out[1];
        if (!i) second = out[2];
    }
    for (int i = 0; i < PARAMETERS; i++)
        OK(mlsi_build_output(g, 0, NULL, next[i]));
    for (int i = 0; i < PARAMETERS; i++)
        OK(mlsi_build_output(g, 0, NULL, moments[i]));
    OK(mlsi_build_output(g, 0, NULL, second));
    mlsi_unpin(g);
    return handle;
}

static void make_state(mlsys_tensor *state) {
    kc_rng r = kc_seed(21);
    for (int i = 0; i < STATES; i++) {
        const shape *s = &parameters[i % PARAMETERS];
        state[i] = pc_tensor(&pc, MLSYS_F32, s->rank, s->dims, NULL);
        mlsi_view v = rg_view(state[i]);
        for (int64_t k = 0, n = mlsi_view_count(&v); k < n; k++)
            ((float *)v.data)[k] = i >= PARAMETERS ? 0
                                   : i == 2        ? 1
                                                   : (float)kc_uniform(&r, -0.4, 0.4);
    }
}

/* STEPS steps on a few images that can be told apart; the first and the last loss, and the weights' hash. */
static void train(const char *settings, float loss[2], char hash[65]) {
    const int64_t is[4] = {BATCH, 1, SIDE, SIDE}, ls[1] = {BATCH};
    static const int64_t labels[BATCH] = {0, 1, 2, 3, 0, 1};
    const float lr = 0.01f;
    mlsys_graph g = step_graph();
    mlsys_program p = pc_compile(&pc, g, settings);
    mlsys_tensor in[4 + STATES] = {0}, out[1 + STATES] = {0};
    kc_rng r = kc_seed(4);
    in[0] = pc_random(&pc, &r, MLSYS_F32, 4, is);
    mlsi_view pixels = rg_view(in[0]);
    for (int64_t k = 0; k < mlsi_view_count(&pixels); k++)
        ((float *)pixels.data)[k] = (float)kc_uniform(&r, 0, 1);
    in[1] = pc_tensor(&pc, MLSYS_I64, 1, ls, labels);
    in[2] = pc_tensor(&pc, MLSYS_F32, 0, NULL, &lr);
    make_state(in + 4);
    for (int64_t count = 1; count <= STEPS; count++) {
        in[3] = pc_tensor(&pc, MLSYS_I64, 0, NULL, &count);
        OK(mlsys_program_run(p, pc.stream, 4 + STATES, in, 1 + STATES, out));
        loss[count > 1] = *(const float *)rg_view(out[0]).data;
        pc_release(1, &in[3]);
        pc_release(STATES, in + 4);
        memcpy(in + 4, out + 1, sizeof *in * STATES);
        mlsys_release(out[0]);
        memset(out, 0, sizeof out);
    }
    mlsi_sha256 sha;
    mlsi_sha256_init(&sha);
    for (int i = 0; i < STATES; i++) {
        mlsi_view v = rg_view(in[4 + i]);
        mlsi_sha256_add(&sha, v.data, mlsi_view_bytes(&v));
    }
    uint8_t digest[32];
    mlsi_sha256_finish(&sha, digest);
    mlsi_sha256_hex(digest, hash);
    pc_release(3, in);
    pc_release(STATES, in + 4);
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}

START_TEST(the_same_weights_everywhere) {
    static const struct {
        int threads;
        const char *settings;
    } ways[] = {{1, "numerics=exact"},
                {2, "numerics=exact"},
                {7, "numerics=exact"},
                {1, "numerics=exact isa=portable"},
                {3, "numerics=exact isa=avx2"},
                {2, "numerics=exact plan=0"},
                {1, "numerics=exact passes_off=simplify,fold,cse"}};
    char first[65] = "", hash[65];
    float loss[2];
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        pc_open(&pc, ways[i].threads);
        train(ways[i].settings, loss, hash);
        pc_close(&pc);
        if (!i) strcpy(first, hash);
        ck_assert_msg(!strcmp(first, hash), "%d threads, %s: %s, not %s", ways[i].threads,
                      ways[i].settings, hash, first);
    }
    ck_assert_msg(loss[0] > 1.2f && loss[1] < 0.25f, "loss %g, then %g", (double)loss[0],
                  (double)loss[1]);
}
END_TEST

int main(void) {
    Suite *s = suite_create("train");
    TCase *tc = tcase_create("train");
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, the_same_weights_everywhere);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
