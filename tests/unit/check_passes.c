/* Passes: the same bits with and without each of them, and what each is for. */
#include "ir/passes/passes.h"
#include "support/program_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static program_case pc;

static void setup(void) { pc_open(&pc, 1); }
static void teardown(void) { pc_close(&pc); }

/* ---- the same bits
 * ------------------------------------------------------------------------------- */

static const char *const all_off =
    "simplify,fold,cse,transpose,simplify2,fold2,cse2,dce,hoist,order";

static const char *const settings[] = {
    "numerics=exact",
    "numerics=exact passes_off=simplify,fold,cse,transpose,simplify2,fold2,cse2,dce,hoist,order",
    "numerics=exact passes_off=simplify,simplify2",
    "numerics=exact passes_off=fold,fold2",
    "numerics=exact passes_off=cse,cse2",
    "numerics=exact passes_off=dce",
    "numerics=exact plan=0",
    "numerics=exact isa=portable",
    "numerics=stable passes_off=fold,fold2 isa=portable plan=0",
};
enum { N_SETTINGS = (int)(sizeof settings / sizeof settings[0]), MAX_ARGS = 8 };

static void print_graph(const mlsi_graph *g) {
    mlsi_text t;
    mlsi_text_init(&t, g->alloc);
    mlsi_graph_print(g, &t);
    fprintf(stderr, "%s", t.data);
    mlsi_text_free(&t);
}

static void compare(const mlsi_graph *g, const char *s, uint64_t seed, int n_in,
                    const mlsys_tensor *in, int n_out, const mlsys_tensor *want) {
    mlsys_tensor got[MAX_ARGS] = {0};
    mlsys_program p = pc_compile_inside(&pc, g, s);
    OK(mlsys_program_run(p, pc.stream, n_in, in, n_out, got));
    for (int o = 0; o < n_out; o++) {
        int64_t at = rg_difference(got[o], want[o]);
        if (at < 0) continue;
        char text[65536];
        print_graph(g);
        if (mlsys_program_dump(p, MLSYS_DUMP_KERNELS, text, sizeof text, NULL) == MLSYS_OK)
            fprintf(stderr, "%s", text);
        ck_abort_msg("seed %llu, %s: output %d differs at element %lld", (unsigned long long)seed,
                     s, o, (long long)at);
    }
    pc_release(n_out, got);
    OK(mlsys_release(p));
}

static void check_seed(uint64_t seed, bool symbols, bool control, int nodes) {
    kc_rng r = kc_seed(seed);
    mlsi_graph g;
    mlsys_tensor in[MAX_ARGS], want[MAX_ARGS] = {0};
    rg_options o = {
        .nodes = nodes, .inputs = 3, .outputs = 3, .symbols = symbols, .control = control};
    OK(mlsi_graph_init(&g, pc.ctx));
    rg_graph(&r, &g, pc.device, &o);
    OK(mlsi_graph_verify(&g));
    rg_inputs(&r, &g, pc.device_handle, rg_bind(&r), in);
    pc_interpret_inside(&pc, &g, 3, in, 3, want);
    for (int s = 0; s < N_SETTINGS; s++)
        compare(&g, settings[s], seed, 3, in, 3, want);
    pc_release(3, in);
    pc_release(3, want);
    mlsi_graph_free(&g);
}

enum { SEEDS = 60 };

START_TEST(passes_keep_the_bits) {
    uint64_t seed = (uint64_t)_i * 1000 + 1;
    printf("seeds %llu to %llu\n", (unsigned long long)seed, (unsigned long long)seed + SEEDS - 1);
    for (uint64_t k = 0; k < SEEDS; k++)
        check_seed(seed + k, _i & 1, _i & 2, 4 + (int)(k % 30));
}
END_TEST

/* ---- effects
 * ------------------------------------------------------------------------------------- */

static mlsi_graph graph;

static void parse(const char *body) {
    char text[8192];
    snprintf(text, sizeof text, "mlsys-ir 1\n%s", body);
    OK(mlsi_graph_init(&graph, pc.ctx));
    mlsys_status st = mlsi_graph_parse(&graph, pc.device, text);
    if (st != MLSYS_OK) ck_abort_msg("%s\n%s", mlsys_last_error(), text);
}

static mlsys_status run_passes(const char *off) {
    mlsi_pass_ctx p = {&graph,     pc.device,       &mlsi_cpu_backend, (mlsi_isa)pc.ctx->isa_limit,
                       MLSI_EXACT, .fuse_least = -1};
    return mlsi_passes_run(&p, off, true);
}

static int count(mlsi_op op) {
    int n = 0;
    for (int64_t f = 0; f < graph.n_funcs; f++)
        for (int64_t i = 0; i < graph.funcs[f].n_nodes; i++)
            n += graph.funcs[f].nodes[i].op == op;
    return n;
}

static int64_t nodes(void) { return graph.funcs[0].n_nodes; }

/* One expression of %0 = x f32[4], %1 = y f32[4]; the result is the last value. */
static void parse_line(const char *lines, int last) {
    char text[4096];
    snprintf(text, sizeof text,
             "functions 1\nfunc 0 \"main\" {\n  %%0 = input \"x\" : f32[4]\n  %%1 = input \"y\" : "
             "f32[4]\n"
             "%s\n  output \"z\" %%%d\n}\n",
             lines, last);
    parse(text);
}

typedef struct rule {
    const char *lines;
    int last;
    mlsi_op op; /* is there afterwards, or not */
    int left;
} rule;

#define SPLAT(n, v) "  %" #n " = full() {dtype=f32, shape=[4], value=" v "} : f32[4]\n"
static const rule rules[] = {
    {SPLAT(2, "1") "  %3 = mul(%0, %2) : f32[4]", 3, MLSI_OP_MUL, 0},
    {SPLAT(2, "1") "  %3 = mul(%2, %0) : f32[4]", 3, MLSI_OP_MUL, 0},
    {SPLAT(2, "-1") "  %3 = mul(%0, %2) : f32[4]", 3, MLSI_OP_MUL, 1},
    {SPLAT(2, "0") "  %3 = mul(%0, %2) : f32[4]", 3, MLSI_OP_MUL, 1},
    {SPLAT(2, "1") "  %3 = div(%0, %2) : f32[4]", 3, MLSI_OP_DIV, 0},
    {SPLAT(2, "1") "  %3 = div(%2, %0) : f32[4]", 3, MLSI_OP_DIV, 1},
    {SPLAT(2, "0") "  %3 = add(%0, %2) : f32[4]", 3, MLSI_OP_ADD, 1},
    {SPLAT(2, "-0") "  %3 = add(%0, %2) : f32[4]", 3, MLSI_OP_ADD, 0},
    {SPLAT(2, "-0") "  %3 = add(%2, %0) : f32[4]", 3, MLSI_OP_ADD, 0},
    {SPLAT(2, "0") "  %3 = sub(%0, %2) : f32[4]", 3, MLSI_OP_SUB, 0},
    {SPLAT(2, "-0") "  %3 = sub(%0, %2) : f32[4]", 3, MLSI_OP_SUB, 1},
    {SPLAT(2, "0") "  %3 = sub(%2, %0) : f32[4]", 3, MLSI_OP_SUB, 1},
    {"  %2 = sub(%0, %0) : f32[4]", 2, MLSI_OP_SUB, 1}, /* inf - inf */
    {"  %2 = neg(%0) : f32[4]\n  %3 = neg(%2) : f32[4]", 3, MLSI_OP_NEG, 0},
    {"  %2 = exp(%0) : f32[4]\n  %3 = exp(%1) : f32[4]\n  %4 = mul(%2, %3) : f32[4]", 4,
     MLSI_OP_EXP, 2},
    {"  %2 = exp(%0) : f32[4]\n  %3 = log(%2) : f32[4]", 3, MLSI_OP_LOG, 1},
    {"  %2 = sqrt(%0) : f32[4]\n  %3 = mul(%2, %2) : f32[4]", 3, MLSI_OP_SQRT, 1},
    {"  %2 = reverse(%0) {axes=[0]} : f32[4]\n  %3 = reverse(%2) {axes=[]} : f32[4]", 3,
     MLSI_OP_REVERSE, 1},
    {"  %2 = slice(%0) {starts=[0], stops=[4], steps=[1]} : f32[4]", 2, MLSI_OP_SLICE, 0},
    {"  %2 = slice(%0) {starts=[3], stops=[-9223372036854775808], steps=[-1]} : f32[4]", 2,
     MLSI_OP_SLICE, 1},
    {"  %2 = pad(%0) {low=[0], high=[0]} : f32[4]", 2, MLSI_OP_PAD, 0},
    {"  %2 = pad(%0) {low=[1], high=[-1]} : f32[4]", 2, MLSI_OP_PAD, 1},
    {"  %2 = concat(%0) {axis=0} : f32[4]", 2, MLSI_OP_CONCAT, 0},
    {"  %2 = cast(%0) {dtype=f32} : f32[4]", 2, MLSI_OP_CAST, 0},
    {"  %2 = cast(%0) {dtype=f64} : f64[4]\n  %3 = cast(%2) {dtype=f32} : f32[4]", 3, MLSI_OP_CAST,
     2},
    {"  %2 = reshape(%0) {shape=[2,2]} : f32[2,2]\n  %3 = reshape(%2) {shape=[4]} : f32[4]", 3,
     MLSI_OP_RESHAPE, 0},
    {"  %2 = reshape(%0) {shape=[2,2]} : f32[2,2]\n  %3 = reshape(%2) {shape=[4,1]} : f32[4,1]", 3,
     MLSI_OP_RESHAPE, 1},
    {"  %2 = reshape(%0) {shape=[2,2]} : f32[2,2]\n  %3 = transpose(%2) {perm=[1,0]} : f32[2,2]\n"
     "  %4 = transpose(%3) {perm=[1,0]} : f32[2,2]",
     4, MLSI_OP_TRANSPOSE, 0},
    {"  %2 = copy(%0) : f32[4]\n  %3 = add(%2, %1) : f32[4]", 3, MLSI_OP_COPY, 0}};
enum { N_RULES = (int)(sizeof rules / sizeof rules[0]) };

START_TEST(rules_of_simplify) {
    const rule *x = &rules[_i];
    parse_line(x->lines, x->last);
    OK(run_passes("fold,fold2"));
    ck_assert_msg(count(x->op) == x->left, "%s: %d left, expected %d", x->lines, count(x->op),
                  x->left);
    mlsi_graph_free(&graph);
}
END_TEST

START_TEST(integers_have_one_zero) {
    parse("functions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : i32[4]\n"
          "  %1 = full() {dtype=i32, shape=[]} : i32[]\n  %2 = add(%0, %1) : i32[4]\n"
          "  %3 = full() {dtype=i32, shape=[], ivalue=1} : i32[]\n  %4 = mul(%2, %3) : i32[4]\n"
          "  %5 = not(%4) : i32[4]\n  %6 = not(%5) : i32[4]\n  output \"\" %6\n}\n");
    OK(run_passes(""));
    ck_assert_int_eq(nodes(), 1); /* the output's copy of the input */
    mlsi_graph_free(&graph);
}
END_TEST

/* An operand that the splat would broadcast is not the result. */
START_TEST(a_broadcasting_one_stays) {
    parse("functions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f32[1]\n"
          "  %1 = full() {dtype=f32, shape=[4], value=1} : f32[4]\n  %2 = mul(%0, %1) : f32[4]\n"
          "  output \"\" %2\n}\n");
    OK(run_passes("fold,fold2"));
    ck_assert_int_eq(count(MLSI_OP_MUL), 1);
    mlsi_graph_free(&graph);
}
END_TEST

START_TEST(exp_product_overflows) { /* BO-07 */
    mlsys_tensor in[2], out[1] = {0};
    const int64_t shape[1] = {4};
    const float a[4] = {100, -200, 88, 0}, b[4] = {-100, 200, -88, 0};
    parse_line("  %2 = exp(%0) : f32[4]\n  %3 = exp(%1) : f32[4]\n  %4 = mul(%2, %3) : f32[4]", 4);
    for (int i = 0; i < 2; i++) {
        OK(mlsys_tensor_create(pc.device_handle, MLSYS_F32, 1, shape, &in[i]));
        OK(mlsys_tensor_write(in[i], pc.stream, i ? b : a, sizeof a));
    }
    mlsys_program p = pc_compile_inside(&pc, &graph, "");
    OK(mlsys_program_run(p, pc.stream, 2, in, 1, out));
    const float *z = rg_view(out[0]).data;
    ck_assert(isinf(z[0]) && isnan(z[1])); /* exp of the sum would be 1 */
    ck_assert(z[2] > 0 && z[3] == 1);
    pc_release(2, in);
    pc_release(1, out);
    OK(mlsys_release(p));
    mlsi_graph_free(&graph);
}
END_TEST

START_TEST(cse_merges_equal_nodes_only) {
    parse_line(
        "  %2 = exp(%0) : f32[4]\n  %3 = exp(%0) : f32[4]\n  %4 = exp(%1) : f32[4]\n"
        "  %5 = add(%2, %3) : f32[4]\n  %6 = softmax(%0) {axis=0} : f32[4]\n"
        "  %7 = softmax(%0) {axis=0, masked_zero=true} : f32[4]\n  %8 = add(%6, %7) : f32[4]\n"
        "  %9 = add(%5, %8) : f32[4]\n  %10 = add(%9, %4) : f32[4]",
        10);
    OK(run_passes(""));
    ck_assert_int_eq(count(MLSI_OP_EXP), 2);
    ck_assert_int_eq(count(MLSI_OP_ADD), 4);
    ck_assert_int_eq(count(MLSI_OP_SOFTMAX), 2);
    mlsi_graph_free(&graph);
}
END_TEST

START_TEST(the_same_constant_is_one_value) {
    mlsys_tensor t;
    mlsi_tensor *c;
    int32_t a, b, x, sum[3];
    const int64_t shape[1] = {4};
    mlsi_type type = {.dtype = MLSYS_F32, .rank = 1, .dims = {4}};
    OK(mlsi_graph_init(&graph, pc.ctx));
    OK(mlsys_tensor_create(pc.device_handle, MLSYS_F32, 1, shape, &t));
    OK(mlsi_pin(t, MLSYS_KIND_TENSOR, "test", &c));
    OK(mlsi_build_const(&graph, 0, c, &a));
    OK(mlsi_build_const(&graph, 0, c, &b));
    mlsi_unpin(c);
    OK(mlsys_release(t));
    ck_assert_int_ne(a, b);
    OK(mlsi_build_input(&graph, 0, "x", &type, &x));
    OK(mlsi_build_node(&graph, 0, MLSI_OP_ADD, NULL, 2, (int32_t[]){x, a}, 1, &sum[0]));
    OK(mlsi_build_node(&graph, 0, MLSI_OP_ADD, NULL, 2, (int32_t[]){x, b}, 1, &sum[1]));
    OK(mlsi_build_node(&graph, 0, MLSI_OP_MUL, NULL, 2, sum, 1, &sum[2]));
    OK(mlsi_build_output(&graph, 0, "y", sum[2]));
    OK(run_passes("fold,fold2"));
    ck_assert_int_eq(count(MLSI_OP_ADD), 1);
    ck_assert_int_eq(graph.n_consts, 1);
    mlsi_graph_free(&graph);
}
END_TEST

START_TEST(dead_nodes_constants_and_functions_go) {
    parse("functions 3\nfunc 2 \"unused\" {\n  %0 = input \"x\" : f32[4]\n  output \"\" %0\n}\n"
          "func 1 \"callee\" {\n  %0 = input \"x\" : f32[4]\n  %1 = const f32[1] hex:0000c03f\n"
          "  %2 = mul(%0, %1) : f32[4]\n  %3 = exp(%0) : f32[4]\n  output \"\" %2\n  output \"\" "
          "%3\n}\n"
          "func 0 \"main\" {\n  %0 = input \"x\" : f32[4]\n  %1 = const f32[1] hex:00000040\n"
          "  %2, %3 = call(%0) {fn1=1} : f32[4], f32[4]\n  %4 = add(%0, %1) : f32[4]\n"
          "  output \"\" %3\n}\n");
    OK(run_passes(""));
    ck_assert_int_eq(graph.n_funcs, 1);
    ck_assert_int_eq(graph.n_consts, 0);
    ck_assert_int_eq(nodes(), 1);
    ck_assert_int_eq(count(MLSI_OP_EXP), 1);
    mlsi_graph_free(&graph);
}
END_TEST

START_TEST(fold_computes_constants) {
    parse("functions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f32[2]\n"
          "  %1 = const f32[2] hex:0000803f00000040\n  %2 = add(%1, %1) : f32[2]\n"
          "  %3 = mul(%2, %2) : f32[2]\n  %4 = add(%3, %0) : f32[2]\n  output \"\" %4\n}\n");
    OK(run_passes(""));
    ck_assert_int_eq(nodes(), 1);
    ck_assert_int_eq(graph.n_consts, 1); /* what led to it is gone */
    mlsi_view v = mlsi_tensor_view_of(graph.consts[0]);
    ck_assert(((float *)v.data)[0] == 4 && ((float *)v.data)[1] == 16);
    mlsi_graph_free(&graph);
}
END_TEST

/* What cannot be computed fails where it runs, not where it is compiled. */
START_TEST(fold_leaves_failing_nodes) {
    mlsys_tensor in[1], out[1] = {0};
    const int64_t shape[1] = {2};
    parse("functions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f32[2]\n"
          "  %1 = const f32[2] hex:0000803f00000040\n  %2 = const i32[1] hex:09000000\n"
          "  %3 = gather(%1, %2) {axis=0} : f32[1]\n  %4 = add(%3, %0) : f32[2]\n  output \"\" "
          "%4\n}\n");
    OK(mlsys_tensor_create(pc.device_handle, MLSYS_F32, 1, shape, &in[0]));
    mlsys_program p = pc_compile_inside(&pc, &graph, "");
    ck_assert_int_ne(mlsys_program_run(p, pc.stream, 1, in, 1, out), MLSYS_OK);
    ck_assert_msg(strstr(mlsys_last_error(), "gather") && strstr(mlsys_last_error(), "9"), "%s",
                  mlsys_last_error());
    ck_assert_ptr_null(out[0]);
    OK(mlsys_release(p));
    pc_release(1, in);
    mlsi_graph_free(&graph);
}
END_TEST

START_TEST(fold_leaves_large_and_slow_nodes) {
    parse("functions 1\nfunc 0 \"main\" {\n  %0 = iota() {dtype=f32, shape=[1024,1024]} : "
          "f32[1024,1024]\n"
          "  %1 = iota() {dtype=f32, shape=[256,256]} : f32[256,256]\n"
          "  %2 = matmul(%1, %1) : f32[256,256]\n  %3 = full() {dtype=f32, shape=[4096], value=2} "
          ": f32[4096]\n"
          "  output \"\" %0\n  output \"\" %2\n  output \"\" %3\n}\n");
    OK(run_passes(""));
    ck_assert_int_eq(count(MLSI_OP_MATMUL), 1); /* 2^25 operations in naive loops */
    ck_assert_int_eq(count(MLSI_OP_IOTA), 1);   /* 4 MiB stays a node, 256 KiB becomes a constant */
    ck_assert_int_eq(count(MLSI_OP_FULL), 1);
    ck_assert_int_eq(graph.n_consts, 1);
    mlsi_graph_free(&graph);
}
END_TEST

/* A chain of constants may not pile up: links of 256 KiB, 4096 of them would be 1 GiB. */
START_TEST(fold_has_a_budget) {
    int32_t v, one;
    mlsi_type type = {.dtype = MLSYS_F32, .rank = 2, .dims = {256, 256}};
    mlsi_attr_iota iota = {.dtype = MLSYS_F32, .shape = {2, {256, 256}}};
    mlsi_attr_full full = {.dtype = MLSYS_F32, .value = 1};
    OK(mlsi_graph_init(&graph, pc.ctx));
    OK(mlsi_build_input(&graph, 0, "x", &type, &v));
    OK(mlsi_build_node(&graph, 0, MLSI_OP_IOTA, &iota, 0, NULL, 1, &v));
    OK(mlsi_build_node(&graph, 0, MLSI_OP_FULL, &full, 0, NULL, 1, &one));
    for (int i = 0; i < 600; i++)
        OK(mlsi_build_node(&graph, 0, MLSI_OP_ADD, NULL, 2, (int32_t[]){v, one}, 1, &v));
    OK(mlsi_build_output(&graph, 0, NULL, v));
    OK(run_passes("fold2"));
    ck_assert_uint_le(atomic_load(&pc.ctx->alloc.peak_bytes), 80u << 20);
    ck_assert_int_gt(count(MLSI_OP_ADD), 300);
    ck_assert_int_lt(count(MLSI_OP_ADD), 500);
    mlsi_graph_free(&graph);
}
END_TEST

/* ---- calls
 * ---------------------------------------------------------------------------------------- */

/* func i calls func i + 1 twice; the last one is exp. */
static void parse_doubling(int depth) {
    static char text[65536];
    int n = snprintf(text, sizeof text,
                     "functions %d\nfunc %d \"f\" {\n  %%0 = input \"x\" : f32[4]\n"
                     "  %%1 = exp(%%0) : f32[4]\n  output \"\" %%1\n}\n",
                     depth + 1, depth);
    for (int i = depth - 1; i >= 0; i--)
        n += snprintf(
            text + n, sizeof text - (size_t)n,
            "func %d \"f\" {\n  %%0 = input \"x\" : f32[4]\n  %%1 = call(%%0) {fn1=%d} : f32[4]\n"
            "  %%2 = call(%%1) {fn1=%d} : f32[4]\n  output \"\" %%2\n}\n",
            i, i + 1, i + 1);
    static char whole[65600];
    snprintf(whole, sizeof whole, "mlsys-ir 1\n%s", text);
    OK(mlsi_graph_init(&graph, pc.ctx));
    OK(mlsi_graph_parse(&graph, pc.device, whole));
}

START_TEST(calls_are_written_out) {
    parse_doubling(4);
    OK(run_passes("cse,cse2"));
    ck_assert_int_eq(count(MLSI_OP_EXP), 16);
    ck_assert_int_eq(count(MLSI_OP_CALL), 0);
    ck_assert_int_eq(graph.n_funcs, 1);
    mlsi_graph_free(&graph);
}
END_TEST

START_TEST(arguments_keep_their_places) {
    mlsys_tensor in[2], out[2] = {0}, want[2] = {0};
    const int64_t shape[1] = {4};
    parse("functions 2\nfunc 1 \"f\" {\n  %0 = input \"a\" : f32[4]\n  %1 = input \"b\" : f32[4]\n"
          "  %2 = sub(%0, %1) : f32[4]\n  %3 = div(%1, %2) : f32[4]\n  output \"\" %3\n  output "
          "\"\" %2\n}\n"
          "func 0 \"main\" {\n  %0 = input \"x\" : f32[4]\n  %1 = input \"y\" : f32[4]\n"
          "  %2, %3 = call(%1, %0) {fn1=1} : f32[4], f32[4]\n  output \"\" %2\n  output \"\" "
          "%3\n}\n");
    for (int i = 0; i < 2; i++) {
        OK(mlsys_tensor_create(pc.device_handle, MLSYS_F32, 1, shape, &in[i]));
        OK(mlsys_tensor_write(in[i], pc.stream, i ? (float[]){1, 2, 3, 4} : (float[]){9, 7, 5, 2},
                              16));
    }
    pc_interpret_inside(&pc, &graph, 2, in, 2, want);
    mlsys_program p = pc_compile_inside(&pc, &graph, "");
    OK(mlsys_program_run(p, pc.stream, 2, in, 2, out));
    for (int o = 0; o < 2; o++)
        ck_assert_int_eq(rg_difference(out[o], want[o]), -1);
    ck_assert(((const float *)rg_view(out[1]).data)[0] == 1 - 9);
    pc_release(2, in);
    pc_release(2, out);
    pc_release(2, want);
    OK(mlsys_release(p));
    mlsi_graph_free(&graph);
}
END_TEST

START_TEST(exploding_calls_are_refused) {
    parse_doubling(63);
    ck_assert_int_eq(run_passes(""), MLSYS_E_UNSUPPORTED);
    ck_assert_msg(strstr(mlsys_last_error(), "more than 262144 nodes"), "%s", mlsys_last_error());
    mlsi_graph_free(&graph);
}
END_TEST

/* A function that main calls itself and through another one: the order of functions must survive.
 */
START_TEST(shared_callees) {
    parse("functions 3\nfunc 2 \"leaf\" {\n  %0 = input \"x\" : f32[4]\n  %1 = exp(%0) : f32[4]\n"
          "  output \"\" %1\n}\nfunc 1 \"middle\" {\n  %0 = input \"x\" : f32[4]\n"
          "  %1 = call(%0) {fn1=2} : f32[4]\n  output \"\" %1\n}\nfunc 0 \"main\" {\n"
          "  %0 = input \"x\" : f32[4]\n  %1 = call(%0) {fn1=2} : f32[4]\n"
          "  %2 = call(%1) {fn1=1} : f32[4]\n  output \"\" %2\n}\n");
    mlsi_graph copy;
    int32_t func;
    OK(mlsi_graph_init(&copy, pc.ctx));
    OK(mlsi_graph_import(&copy, &graph, 0, &func));
    ck_assert_int_eq(func, 1);
    OK(mlsi_graph_verify(&copy));
    mlsi_graph_free(&copy);
    mlsys_program p = pc_compile_inside(&pc, &graph, "");
    OK(mlsys_release(p));
    mlsi_graph_free(&graph);
}
END_TEST

START_TEST(names_of_passes) {
    parse_line("  %2 = exp(%0) : f32[4]", 2);
    ck_assert_int_eq(run_passes("nothing"), MLSYS_E_NOTFOUND);
    ck_assert_msg(strstr(mlsys_last_error(), "\"nothing\""), "%s", mlsys_last_error());
    ck_assert_int_eq(run_passes("cse,inline"), MLSYS_E_ARG);
    ck_assert_int_eq(run_passes(",cse"), MLSYS_E_NOTFOUND);
    OK(run_passes(all_off));
    OK(run_passes(NULL));
    mlsi_graph_free(&graph);
}
END_TEST

int main(void) {
    Suite *s = suite_create("passes");
    TCase *tc = tcase_create("passes");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, passes_keep_the_bits, 0, 4);
    tcase_add_loop_test(tc, rules_of_simplify, 0, N_RULES);
    tcase_add_test(tc, integers_have_one_zero);
    tcase_add_test(tc, a_broadcasting_one_stays);
    tcase_add_test(tc, exp_product_overflows);
    tcase_add_test(tc, cse_merges_equal_nodes_only);
    tcase_add_test(tc, the_same_constant_is_one_value);
    tcase_add_test(tc, dead_nodes_constants_and_functions_go);
    tcase_add_test(tc, fold_computes_constants);
    tcase_add_test(tc, fold_leaves_failing_nodes);
    tcase_add_test(tc, fold_leaves_large_and_slow_nodes);
    tcase_add_test(tc, fold_has_a_budget);
    tcase_add_test(tc, calls_are_written_out);
    tcase_add_test(tc, arguments_keep_their_places);
    tcase_add_test(tc, exploding_calls_are_refused);
    tcase_add_test(tc, shared_callees);
    tcase_add_test(tc, names_of_passes);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
