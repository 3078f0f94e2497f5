/* Sums over micro-batches of whole segments (256 rows) have the bits of the whole batch, for all that goes on with a
 * chain: single ops, and all parameters of a network after updates by a trainer. */
#include "support/training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- ops ----------------------------------------------------------------------------------- */

/* Outputs: the whole, and what goes on from its first part. */
static const char *const parted[] = {
    "functions 1\nfunc 0 \"main\" {\n"
    "  %0 = input \"a\" : f32[700,9]\n  %1 = input \"b\" : f32[700,21]\n"
    "  %2 = slice(%0) {starts=[0,0], stops=[512,9]} : f32[512,9]\n"
    "  %3 = slice(%0) {starts=[512,0], stops=[700,9]} : f32[188,9]\n"
    "  %4 = slice(%1) {starts=[0,0], stops=[512,21]} : f32[512,21]\n"
    "  %5 = slice(%1) {starts=[512,0], stops=[700,21]} : f32[188,21]\n"
    "  %6 = dot_general(%0, %1) {lhs_contract=[0], rhs_contract=[0]} : f32[9,21]\n"
    "  %7 = dot_general(%2, %4) {lhs_contract=[0], rhs_contract=[0]} : f32[9,21]\n"
    "  %8 = dot_general(%3, %5, %7) {lhs_contract=[0], rhs_contract=[0]} : f32[9,21]\n"
    "  output \"\" %6\n  output \"\" %8\n}\n",
    "functions 1\nfunc 0 \"main\" {\n"
    "  %0 = input \"a\" : f32[8,128,3]\n  %1 = input \"b\" : f32[4]\n"
    "  %2 = slice(%0) {starts=[0,0,0], stops=[6,128,3]} : f32[6,128,3]\n"
    "  %3 = slice(%0) {starts=[6,0,0], stops=[8,128,3]} : f32[2,128,3]\n"
    "  %4 = batch_sum(%0) {axes=[0,1]} : f32[3]\n"
    "  %5 = batch_sum(%2) {axes=[0,1]} : f32[3]\n"
    "  %6 = batch_sum(%3, %5) {axes=[0,1]} : f32[3]\n"
    "  output \"\" %4\n  output \"\" %6\n}\n",
    "functions 1\nfunc 0 \"main\" {\n" /* the gradient of a filter: batch and channels change places */
    "  %0 = input \"a\" : f32[2,64,17]\n  %1 = input \"b\" : f32[18,64,16]\n"
    "  %2 = slice(%0) {starts=[0,0,0], stops=[2,32,17]} : f32[2,32,17]\n"
    "  %3 = slice(%0) {starts=[0,32,0], stops=[2,64,17]} : f32[2,32,17]\n"
    "  %4 = slice(%1) {starts=[0,0,0], stops=[18,32,16]} : f32[18,32,16]\n"
    "  %5 = slice(%1) {starts=[0,32,0], stops=[18,64,16]} : f32[18,32,16]\n"
    "  %6 = conv(%0, %1) : f32[2,18,2]\n"
    "  %7 = conv(%2, %4) : f32[2,18,2]\n"
    "  %8 = conv(%3, %5, %7) : f32[2,18,2]\n"
    "  output \"\" %6\n  output \"\" %8\n}\n",
    "functions 1\nfunc 0 \"main\" {\n"
    "  %0 = input \"a\" : f64[600,3]\n  %1 = input \"b\" : f64[600,2]\n"
    "  %2 = slice(%0) {starts=[0,0], stops=[256,3]} : f64[256,3]\n"
    "  %3 = slice(%0) {starts=[256,0], stops=[600,3]} : f64[344,3]\n"
    "  %4 = slice(%1) {starts=[0,0], stops=[256,2]} : f64[256,2]\n"
    "  %5 = slice(%1) {starts=[256,0], stops=[600,2]} : f64[344,2]\n"
    "  %6 = dot_general(%0, %1) {lhs_contract=[0], rhs_contract=[0]} : f64[3,2]\n"
    "  %7 = dot_general(%2, %4) {lhs_contract=[0], rhs_contract=[0]} : f64[3,2]\n"
    "  %8 = dot_general(%3, %5, %7) {lhs_contract=[0], rhs_contract=[0]} : f64[3,2]\n"
    "  output \"\" %6\n  output \"\" %8\n}\n"};
enum { PARTED = (int)(sizeof parted / sizeof parted[0]) };

static bool equal_tensors(mlsys_tensor a, mlsys_tensor b) {
    mlsi_view x = rg_view(a), y = rg_view(b);
    return !memcmp(x.data, y.data, mlsi_view_bytes(&x));
}

START_TEST(parts_have_the_bits_of_the_whole) {
    static const char *const settings[] = {"numerics=exact", "numerics=exact isa=portable",
                                           "numerics=exact isa=avx2 plan=0"};
    program_case pc;
    kc_rng r = kc_seed(71);
    pc_open(&pc, _i % 2 ? 7 : 1);
    mlsys_graph g = pc_parse(&pc, parted[_i]);
    mlsys_tensor in[2], out[2] = {NULL, NULL};
    mlsys_value v;
    for (int i = 0; i < 2; i++) {
        mlsys_dtype dtype;
        int64_t shape[8];
        int32_t rank;
        OK(mlsys_graph_find(g, i ? "b" : "a", &v));
        OK(mlsys_graph_type(g, v, &dtype, 8, shape, &rank));
        in[i] = pc_random(&pc, &r, dtype, rank, shape);
        kc_tensor t = {.view = rg_view(in[i])};
        kc_fill(&r, &t, KC_SMALL);
    }
    for (int i = 0; i < 3; i++) {
        pc_compare(&pc, g, settings[i], 2, in, 2);
        mlsys_program p = pc_compile(&pc, g, settings[i]);
        OK(mlsys_program_run(p, pc.stream, 2, in, 2, out));
        ck_assert_msg(equal_tensors(out[0], out[1]), "graph %d, %s", _i, settings[i]);
        pc_release(2, out);
        OK(mlsys_release(p));
    }
    pc_release(2, in);
    OK(mlsys_release(g));
    pc_close(&pc);
}
END_TEST

/* ---- a network ----------------------------------------------------------------------------- */

/* Each way in which a gradient is a sum over the batch: a table that is also the head, positions, norms, products,
 * biases, a filter and its bias, a scalar, a matrix that is cut up. */
static const char *const network = "symbol B 1 4096 1\nfunctions 1\nfunc 0 \"main\" {\n"
                                   "  %0 = input \"ids\" : i64[B,2]\n"
                                   "  %1 = input \"image\" : f32[B,1,4,4]\n"
                                   "  %2 = input \"labels\" : i64[B]\n"
                                   "  %3 = input \"table\" : f32[7,6]\n"
                                   "  %4 = input \"position\" : f32[2,6]\n"
                                   "  %5 = input \"gain\" : f32[6]\n"
                                   "  %6 = input \"gamma\" : f32[6]\n"
                                   "  %7 = input \"beta\" : f32[6]\n"
                                   "  %8 = input \"both\" : f32[6,10]\n"
                                   "  %9 = input \"bias\" : f32[5]\n"
                                   "  %10 = input \"out\" : f32[5,6]\n"
                                   "  %11 = input \"filter\" : f32[3,1,2,2]\n"
                                   "  %12 = input \"shift\" : f32[1,3,1,1]\n"
                                   "  %13 = input \"dense\" : f32[27,6]\n"
                                   "  %14 = input \"scale\" : f32[]\n"
                                   "  %15 = embedding(%3, %0) : f32[B,2,6]\n"
                                   "  %16 = add(%15, %4) : f32[B,2,6]\n"
                                   "  %17 = rms_norm(%16, %5) : f32[B,2,6]\n"
                                   "  %18 = layer_norm(%17, %6, %7) : f32[B,2,6]\n"
                                   "  %19 = slice(%8) {starts=[0,0], stops=[6,5]} : f32[6,5]\n"
                                   "  %20 = slice(%8) {starts=[0,5], stops=[6,10]} : f32[6,5]\n"
                                   "  %21 = matmul(%18, %19) : f32[B,2,5]\n"
                                   "  %22 = matmul(%18, %20) : f32[B,2,5]\n"
                                   "  %23 = silu(%22) : f32[B,2,5]\n"
                                   "  %24 = mul(%21, %23) : f32[B,2,5]\n"
                                   "  %25 = add(%24, %9) : f32[B,2,5]\n"
                                   "  %26 = matmul(%25, %10) : f32[B,2,6]\n"
                                   "  %27 = reduce_sum(%26) {axes=[1]} : f32[B,6]\n"
                                   "  %28 = conv(%1, %11) : f32[B,3,3,3]\n"
                                   "  %29 = add(%28, %12) : f32[B,3,3,3]\n"
                                   "  %30 = relu(%29) : f32[B,3,3,3]\n"
                                   "  %31 = reshape(%30) {shape=[B,27]} : f32[B,27]\n"
                                   "  %32 = matmul(%31, %13) : f32[B,6]\n"
                                   "  %33 = add(%27, %32) : f32[B,6]\n"
                                   "  %34 = mul(%33, %14) : f32[B,6]\n"
                                   "  %35 = matmul(%34, %3) {transpose_b=true} : f32[B,7]\n"
                                   "  %36 = cross_entropy(%35, %2) : f32[B]\n";
static const char *const mean = "  %37 = reduce_mean(%36) : f32[]\n  output \"loss\" %37\n}\n";
/* Divided by the rows of three batches of 256. */
static const char *const share = "  %37 = reduce_sum(%36) : f32[]\n"
                                 "  %38 = full() {dtype=f32, shape=[], value=768} : f32[]\n"
                                 "  %39 = div(%37, %38) : f32[]\n  output \"loss\" %39\n}\n";
static const char *const names[] = {"table", "position", "gain",   "gamma", "beta",  "both",
                                    "bias",  "out",      "filter", "shift", "dense", "scale"};
enum { BATCH = 3, NET_PARAMS = (int)(sizeof names / sizeof names[0]) };

typedef struct net {
    program_case pc;
    mlsys_graph g;
    mlsys_value loss, params[NET_PARAMS];
    mlsys_tensor initial[NET_PARAMS];
} net;

static void net_open(net *n, int threads, const char *loss) {
    char text[4096];
    kc_rng r = kc_seed(5);
    pc_open(&n->pc, threads);
    snprintf(text, sizeof text, "%s%s", network, loss);
    n->g = pc_parse(&n->pc, text);
    OK(mlsys_graph_find(n->g, "loss", &n->loss));
    for (int i = 0; i < NET_PARAMS; i++) {
        mlsys_dtype dtype;
        int64_t shape[8];
        int32_t rank;
        OK(mlsys_graph_find(n->g, names[i], &n->params[i]));
        OK(mlsys_graph_type(n->g, n->params[i], &dtype, 8, shape, &rank));
        n->initial[i] = pc_tensor(&n->pc, dtype, rank, shape, NULL);
        mlsi_view v = rg_view(n->initial[i]);
        for (int64_t k = 0; k < mlsi_view_count(&v); k++)
            ((float *)v.data)[k] = (float)kc_uniform(&r, -1, 1);
    }
}

static void net_close(net *n) {
    pc_release(NET_PARAMS, n->initial);
    OK(mlsys_release(n->g));
    pc_close(&n->pc);
}

/* Examples first .. first + n - 1 of an endless row. */
static void net_batch(net *n, int64_t first, int64_t count, mlsys_tensor in[BATCH]) {
    const int64_t ids[] = {count, 2}, image[] = {count, 1, 4, 4};
    in[0] = pc_tensor(&n->pc, MLSYS_I64, 2, ids, NULL);
    in[1] = pc_tensor(&n->pc, MLSYS_F32, 4, image, NULL);
    in[2] = pc_tensor(&n->pc, MLSYS_I64, 1, &count, NULL);
    for (int64_t i = 0; i < count; i++) {
        kc_rng r = kc_seed(7919 * (uint64_t)(first + i) + 3);
        for (int k = 0; k < 2; k++)
            ((int64_t *)rg_view(in[0]).data)[2 * i + k] = kc_int(&r, 0, 6);
        for (int k = 0; k < 16; k++)
            ((float *)rg_view(in[1]).data)[16 * i + k] = (float)kc_uniform(&r, -1, 1);
        ((int64_t *)rg_view(in[2]).data)[i] = kc_int(&r, 0, 6);
    }
}

/* Hashes of all parameters' momenta, which are sums of gradients to the last bit, after updates by `calls` batches of `rows` rows each. */
static void net_train(net *n, const char *settings, int updates, int64_t calls, int64_t rows,
                      char hash[NET_PARAMS][65]) {
    char text[160];
    mlsys_trainer t;
    snprintf(text, sizeof text, "optimizer=sgd momentum=0.9 rate=0.5 accumulate=%lld%s%s",
             (long long)calls, *settings ? " " : "", settings);
    mlsys_config c = tn_config(text);
    OK(mlsys_trainer_create(n->g, n->loss, NET_PARAMS, n->params, n->initial, n->pc.stream, c, &t));
    OK(mlsys_release(c));
    for (int64_t i = 0; i < updates * calls; i++) {
        mlsys_tensor in[BATCH];
        net_batch(n, i * rows, rows, in);
        OK(mlsys_trainer_step(t, BATCH, in, NULL));
        pc_release(BATCH, in);
    }
    ck_assert(tn_stat(t, "step") == updates && tn_stat(t, "skipped") == 0);
    for (int i = 0; i < NET_PARAMS; i++) {
        char momentum[32];
        snprintf(momentum, sizeof momentum, "%s.m", names[i]);
        tn_hash_of(t, momentum, hash[i]);
    }
    OK(mlsys_release(t));
}

/* How many differ; what: names them, NULL = that they do is wanted. */
static int differing(char a[NET_PARAMS][65], char b[NET_PARAMS][65], const char *what) {
    int n = 0;
    for (int i = 0; i < NET_PARAMS; i++) {
        if (!strcmp(a[i], b[i])) continue;
        n++;
        if (what) fprintf(stderr, "%s: %s differs\n", what, names[i]);
    }
    return n;
}

START_TEST(micro_batches_have_the_bits_of_the_batch) {
    static const struct { int64_t calls, rows; } cuts[] = {{2, 256}, {4, 256}, {2, 512}, {4, 512}};
    static const struct {
        int threads;
        const char *settings;
    } ways[] = {{1, "numerics=exact"},
                {2, "numerics=exact isa=portable"},
                {7, "numerics=exact isa=avx2"},
                {2, "numerics=exact checkpoint=sqrt"}};
    char whole[NET_PARAMS][65], parts[NET_PARAMS][65], what[96];
    int64_t calls = cuts[_i].calls, rows = cuts[_i].rows;
    net n;
    net_open(&n, 2, mean);
    net_train(&n, "numerics=exact", 2, 1, calls * rows, whole);
    net_close(&n);
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
        net_open(&n, ways[w].threads, mean);
        net_train(&n, ways[w].settings, 2, calls, rows, parts);
        net_close(&n);
        snprintf(what, sizeof what, "%d calls of %d rows, %d threads, %s", (int)calls, (int)rows,
                 ways[w].threads, ways[w].settings);
        ck_assert_int_eq(differing(whole, parts, what), 0);
    }
}
END_TEST

/* The test can fail: rows that are no whole segments give other bits. */
START_TEST(other_cuts_differ) {
    char whole[NET_PARAMS][65], parts[NET_PARAMS][65];
    net n;
    net_open(&n, 2, mean);
    net_train(&n, "numerics=exact", 1, 1, 800, whole);
    net_train(&n, "numerics=exact", 1, 8, 100, parts);
    ck_assert_int_eq(differing(whole, parts, NULL), NET_PARAMS);
    net_close(&n);
}
END_TEST

/* Three calls: no power of two, so the loss is divided by all rows and the gradients are not. */
START_TEST(sums_of_any_number_of_calls) {
    char whole[NET_PARAMS][65], parts[NET_PARAMS][65];
    net n;
    net_open(&n, 2, share);
    net_train(&n, "numerics=exact", 2, 1, 768, whole);
    net_train(&n, "numerics=exact accumulate_mean=0", 2, 3, 256, parts);
    ck_assert_int_eq(differing(whole, parts, "sum of three"), 0);
    net_train(&n, "numerics=exact", 2, 3, 256, parts);
    ck_assert_int_gt(differing(whole, parts, NULL), 0);
    net_close(&n);
}
END_TEST

/* Narrow products and sums round once, at the end. A narrow filter's gradient has no wide sum to go on with and is
 * added call by call. */
START_TEST(mixed_precision_too) {
    char whole[NET_PARAMS][65], parts[NET_PARAMS][65];
    net n;
    net_open(&n, 2, mean);
    net_train(&n, "numerics=exact precision=bf16", 1, 1, 1024, whole);
    net_train(&n, "numerics=exact precision=bf16", 1, 2, 512, parts);
    net_close(&n);
    for (int i = 0; i < NET_PARAMS; i++)
        ck_assert_msg(!strcmp(whole[i], parts[i]) || !strcmp(names[i], "filter"), "%s", names[i]);
}
END_TEST

int main(void) {
    Suite *s = suite_create("accumulation");
    TCase *t = tcase_create("accumulation");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, parts_have_the_bits_of_the_whole, 0, PARTED);
    tcase_add_loop_test(t, micro_batches_have_the_bits_of_the_batch, 0, 4);
    tcase_add_test(t, other_cuts_differ);
    tcase_add_test(t, sums_of_any_number_of_calls);
    tcase_add_test(t, mixed_precision_too);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
