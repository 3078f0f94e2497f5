/* Exported programs: freestanding files that compile without a warning, need no library, and compute the library's bits on this machine and, where
 * compilers and emulators are installed, on ARM. */
#include "support/export_case.h"
#include "support/failing_alloc.h"
#include "support/skip.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MLP                                                                                        \
    "symbol B 1 8 1\nfunctions 1\nfunc 0 \"main\" {\n  %0 = input \"images\" : u8[B,7,7]\n"        \
    "  %1 = cast(%0) {dtype=f32} : f32[B,7,7]\n  %2 = full() {dtype=f32, shape=[], "               \
    "value=0.00390625} : f32[]\n"                                                                  \
    "  %3 = mul(%1, %2) : f32[B,7,7]\n  %4 = reshape(%3) {shape=[B, 49]} : f32[B,49]\n"            \
    "  %5 = const f32[49,33] @\n  %6 = const f32[33] @\n  %7 = matmul(%4, %5) : f32[B,33]\n"       \
    "  %8 = add(%7, %6) : f32[B,33]\n  %9 = relu(%8) : f32[B,33]\n  %10 = const f32[33,33] @\n"    \
    "  %11 = matmul(%9, %10) : f32[B,33]\n  %12 = add(%11, %6) : f32[B,33]\n"                      \
    "  %13 = relu(%12) : f32[B,33]\n  %14 = const f32[33,10] @\n  %15 = const f32[10] @\n"         \
    "  %16 = matmul(%13, %14) : f32[B,10]\n  %17 = add(%16, %15) : f32[B,10]\n"                    \
    "  %18 = argmax(%17) : i64[B]\n  output \"logits\" %17\n  output \"*/ class\" %18\n}\n"

#define CONV                                                                                       \
    "symbol B 1 2 1\nfunctions 1\nfunc 0 \"main\" {\n  %0 = input \"images\" : u8[B,12,12]\n"      \
    "  %1 = cast(%0) {dtype=f32} : f32[B,12,12]\n  %2 = reshape(%1) {shape=[B, 1, 12, 12]} : "     \
    "f32[B,1,12,12]\n"                                                                             \
    "  %3 = const f32[4,1,3,3] @\n  %4 = const f32[4,1,1] @\n"                                     \
    "  %5 = conv(%2, %3) {pads=[1, 1, 1, 1]} : f32[B,4,12,12]\n  %6 = add(%5, %4) : "              \
    "f32[B,4,12,12]\n"                                                                             \
    "  %7 = relu(%6) : f32[B,4,12,12]\n"                                                           \
    "  %8 = pool(%7) {kernel=[2, 2], strides=[2, 2]} : f32[B,4,6,6]\n  %9 = const f32[6,4,3,3] "   \
    "@\n"                                                                                          \
    "  %10 = const f32[6,1,1] @\n  %11 = conv(%8, %9) {pads=[1, 1, 1, 1]} : f32[B,6,6,6]\n"        \
    "  %12 = add(%11, %10) : f32[B,6,6,6]\n  %13 = relu(%12) : f32[B,6,6,6]\n"                     \
    "  %14 = pool(%13) {kernel=[2, 2], strides=[2, 2]} : f32[B,6,3,3]\n"                           \
    "  %15 = reshape(%14) {shape=[B, 54]} : f32[B,54]\n  %16 = const f32[54,10] @\n"               \
    "  %17 = matmul(%15, %16) : f32[B,10]\n  %18 = softmax(%17) : f32[B,10]\n  output \"p\" "      \
    "%18\n}\n"

/* Work memory of a row, results that live long, a slice that begins inside its source, strided operands. */
#define ROWS                                                                                       \
    "functions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f32[6,37]\n  %1 = input \"y\" : "        \
    "f32[37,6]\n"                                                                                  \
    "  %2 = exp(%0) : f32[6,37]\n  %3 = slice(%2) {starts=[2, 0], stops=[5, 37], steps=[1, 1]} : " \
    "f32[3,37]\n"                                                                                  \
    "  %4 = softmax(%3) : f32[3,37]\n  %5 = transpose(%1) {perm=[1, 0]} : f32[6,37]\n"             \
    "  %6 = slice(%5) {starts=[5, 36], stops=[-7, -38], steps=[-2, -1]} : f32[3,37]\n"             \
    "  %7 = mul(%4, %6) : f32[3,37]\n  %8 = softmax(%7) : f32[3,37]\n"                             \
    "  %9 = reduce_sum(%8) {axes=[0]} : f32[37]\n  %10 = layer_norm(%7) : f32[3,37]\n"             \
    "  %11 = add(%10, %8) : f32[3,37]\n  %12 = matmul(%11, %1) : f32[3,6]\n"                       \
    "  %13 = concat(%12, %12) {axis=0} : f32[6,6]\n  output \"a\" %11\n  output \"b\" %13\n"       \
    "  output \"c\" %9\n  output \"d\" %2\n}\n"

/* What asks for libm: f64, roots, remainders, elementary functions. */
#define MATHS                                                                                      \
    "functions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f64[41]\n  %1 = input \"y\" : f32[41]\n" \
    "  %2 = abs(%0) : f64[41]\n  %3 = sqrt(%2) : f64[41]\n  %4 = exp(%0) : f64[41]\n"              \
    "  %5 = pow(%2, %3) : f64[41]\n  %6 = rem(%5, %0) : f64[41]\n  %7 = floor(%6) : f64[41]\n"     \
    "  %8 = ceil(%4) : f64[41]\n  %9 = round(%3) : f64[41]\n  %10 = trunc(%0) : f64[41]\n"         \
    "  %11 = fma(%7, %8, %9) : f64[41]\n  %12 = add(%11, %10) : f64[41]\n"                         \
    "  %13 = abs(%1) : f32[41]\n  %14 = sqrt(%13) : f32[41]\n  %15 = rsqrt(%13) : f32[41]\n"       \
    "  %16 = fma(%14, %15, %1) : f32[41]\n  %17 = mod(%16, %1) : f32[41]\n"                        \
    "  %18 = tanh(%16) : f32[41]\n  %19 = erf(%1) : f32[41]\n  %20 = round(%17) : f32[41]\n"       \
    "  %21 = cast(%16) {dtype=f16} : f16[41]\n  %22 = cast(%0) {dtype=bf16} : bf16[41]\n"          \
    "  %23 = cast(%1) {dtype=i32} : i32[41]\n  %24 = div(%23, %23) : i32[41]\n"                    \
    "  %25 = reduce_sum(%12) : f64[]\n  %26 = reduce_mean(%19) : f32[]\n  %27 = mul(%22, %22) : "  \
    "bf16[41]\n"                                                                                   \
    "  output \"a\" %12\n  output \"b\" %18\n  output \"c\" %20\n  output \"d\" %21\n  output "    \
    "\"e\" %27\n"                                                                                  \
    "  output \"f\" %24\n  output \"g\" %25\n  output \"h\" %26\n}\n"

/* Ops with loops of their own, and indices from data. */
#define LOOPS                                                                                      \
    "functions 1\nfunc 0 \"main\" {\n  %0 = input \"table\" : f32[9,5]\n  %1 = input \"at\" : "    \
    "i64[4]\n"                                                                                     \
    "  %2 = gather(%0, %1) {axis=0} : f32[4,5]\n  %3 = sort(%2) {axis=1} : f32[4,5]\n"             \
    "  %4 = scan(%3) {axis=1} : f32[4,5]\n  %5 = const i64[] hex:0700000000000000\n"               \
    "  %6 = random(%5, %5) {dtype=f32, kind=uniform, shape=[4, 5]} : f32[4,5]\n  %7 = add(%4, "    \
    "%6) : f32[4,5]\n"                                                                             \
    "  %8 = logsumexp(%0) {axis=0} : f32[5]\n  %9 = neg(%8) : f32[5]\n"                            \
    "  output \"y\" %7\n  output \"z\" %9\n}\n"

static const export_case cases[] = {
    {"mlp, one kernel a layer",
     MLP,
     "fuse=always numerics=exact",
     1,
     2,
     {{MLSYS_U8, 3, {3, 7, 7}, 0}},
     "B",
     3},
    {"mlp, one kernel a node", MLP, "fuse=never", 1, 2, {{MLSYS_U8, 3, {8, 7, 7}, 0}}, NULL, 0},
    {"conv", CONV, "fuse=always numerics=exact", 1, 1, {{MLSYS_U8, 3, {1, 12, 12}, 0}}, "B", 1},
    {"rows, fused",
     ROWS,
     "fuse=always numerics=exact",
     2,
     4,
     {{MLSYS_F32, 2, {6, 37}, 0}, {MLSYS_F32, 2, {37, 6}, 0}},
     NULL,
     0},
    {"rows",
     ROWS,
     "fuse=never numerics=exact",
     2,
     4,
     {{MLSYS_F32, 2, {6, 37}, 0}, {MLSYS_F32, 2, {37, 6}, 0}},
     NULL,
     0},
    {"maths",
     MATHS,
     "fuse=always numerics=exact",
     2,
     8,
     {{MLSYS_F64, 1, {41}, 0}, {MLSYS_F32, 1, {41}, 0}},
     NULL,
     0},
    {"loops",
     LOOPS,
     "fuse=never numerics=exact",
     2,
     2,
     {{MLSYS_F32, 2, {9, 5}, 0}, {MLSYS_I64, 1, {4}, 9}},
     NULL,
     0},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

static program_case pc;
static kc_rng rng;

static void setup(void) {
    rng = kc_seed(20261201);
    pc_open(&pc, 2);
}
static void teardown(void) { pc_close(&pc); }

START_TEST(same_bits) {
    const export_target *t = &export_targets[_i / N_CASES];
    if (!export_target_is_here(t))
        TEST_SKIP("exported %s for %s: no %s or no %s", cases[_i % N_CASES].name, t->name,
                  t->compiler, *t->run ? t->run : "shell");
    export_compare(&pc, &rng, &cases[_i % N_CASES], t);
}
END_TEST

static mlsys_tensor random_blocks(int rank, const int64_t *shape) {
    mlsys_tensor t;
    void *data;
    uint64_t bytes;
    OK(mlsys_tensor_create(pc.device_handle, MLSYS_Q8_0, rank, shape, &t));
    OK(mlsys_tensor_data(t, &data, &bytes));
    for (uint64_t i = 0; i < bytes; i++)
        ((unsigned char *)data)[i] = (unsigned char)(kc_bits(&rng) >> 13);
    return t;
}

/* Constants that are not dense, of two bytes, of blocks, empty. */
START_TEST(constants) {
    static const int64_t turned[2] = {5, 32}, dense[2] = {3, 5}, blocks[2] = {3, 64},
                         none[2] = {0, 5};
    static const int32_t perm[2] = {1, 0};
    mlsys_graph g;
    mlsys_value x, y[4], in[2], table, empty;
    mlsys_tensor constant[4], view, image = pc_random(&pc, &rng, MLSYS_F32, 2, (int64_t[]){3, 32});
    OK(mlsys_graph_create(pc.ctx_handle, &g));
    OK(mlsys_graph_input(g, "x", MLSYS_F32, 2, (int64_t[]){3, 32}, &x));
    constant[0] = pc_random(&pc, &rng, MLSYS_F32, 2, turned);
    constant[1] = pc_random(&pc, &rng, MLSYS_BF16, 2, dense);
    constant[2] = random_blocks(2, blocks);
    constant[3] = pc_random(&pc, &rng, MLSYS_F32, 2, none);
    OK(mlsys_tensor_permute(constant[0], 2, perm, &view));
    OK(mlsys_graph_const(g, view, &table));
    in[0] = x, in[1] = table;
    OK(mlsys_graph_op(g, "matmul", 2, in, NULL, 1, &y[0]));
    OK(mlsys_graph_const(g, constant[1], &table));
    OK(mlsys_graph_op(g, "exp", 1, &table, NULL, 1, &y[1]));
    OK(mlsys_graph_const(g, constant[2], &table));
    OK(mlsys_graph_op(g, "dequantize", 1, &table, NULL, 1, &y[2]));
    OK(mlsys_graph_const(g, constant[3], &empty));
    in[0] = y[0], in[1] = empty;
    OK(mlsys_graph_op(g, "concat", 2, in, NULL, 1, &y[3]));
    for (int i = 0; i < 4; i++)
        OK(mlsys_graph_output(g, (const char *[]){"a", "b", "c", "d"}[i], y[i]));
    mlsys_program p = pc_compile(&pc, g, "passes_off=fold,fold2,simplify,simplify2 numerics=exact");
    export_check(&pc, p, NULL, "constants", 1, &image, 4, NULL, 0, &export_targets[0]);
    mlsys_release(p);
    mlsys_release(g);
    mlsys_release(view);
    mlsys_release(image);
    pc_release(4, constant);
}
END_TEST

/* A called function that is no single nest, and whose second result shows the memory of another value. Fusion makes none, so the
 * program that is exported is one that no pass has seen. */
START_TEST(several_steps) {
    mlsys_tensor x = pc_random(&pc, &rng, MLSYS_F32, 2, (int64_t[]){5, 4});
    mlsi_program *compiled, bare;
    mlsi_graph *inside;
    mlsys_graph g = pc_parse(
        &pc,
        "functions 2\nfunc 1 \"sorted\" {\n  %0 = input \"\" : f32[4,5]\n"
        "  %1 = sort(%0) {axis=1} : f32[4,5]\n  %2 = scan(%1) {axis=1} : f32[4,5]\n"
        "  %3 = transpose(%1) {perm=[1, 0]} : f32[5,4]\n  output \"\" %2\n  output \"\" %3\n}\n"
        "func 0 \"main\" {\n  %0 = input \"x\" : f32[5,4]\n"
        "  %1 = transpose(%0) {perm=[1, 0]} : f32[4,5]\n"
        "  %2, %3 = call(%1) {fn1=1} : f32[4,5], f32[5,4]\n  %4 = neg(%2) : f32[4,5]\n"
        "  output \"a\" %4\n  output \"b\" %3\n}\n");
    mlsys_program p = pc_compile(&pc, g, "numerics=exact");
    OK(mlsi_pin(p, MLSYS_KIND_PROGRAM, "program", &compiled));
    OK(mlsi_pin(g, MLSYS_KIND_GRAPH, "graph", &inside));
    bare = *compiled;
    bare.graph = *inside;
    bare.n_routines = 0;
    export_check(&pc, p, &bare, "several steps", 1, &x, 2, NULL, 0, &export_targets[0]);
    mlsi_unpin(inside);
    mlsi_unpin(compiled);
    mlsys_release(p);
    mlsys_release(g);
    mlsys_release(x);
}
END_TEST

/* ---- errors ---------------------------------------------------------------------------------------------------- */

static char folder[] = "/tmp/mlsys-export-XXXXXX";

static int files_in(const char *path) {
    DIR *d = opendir(path);
    int n = -2; /* . and .. */
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static mlsys_status export_as(mlsys_program p, const char *path, const char *name) {
    mlsys_config c;
    OK(mlsys_config_create(&c));
    OK(mlsys_config_set_str(c, "name", name));
    mlsys_status st = mlsys_program_export(p, path, 0, NULL, NULL, c);
    OK(mlsys_release(c));
    return st;
}

START_TEST(refusals) {
    char path[100];
    const char *symbol = "B";
    int64_t much = 9;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model.c", folder);
    mlsys_graph g = export_parse(&pc, &rng, MLP);
    mlsys_program p = pc_compile(&pc, g, "");
    pc_expect(mlsys_program_export(p, path, 1, &symbol, &much, NULL), MLSYS_E_SHAPE,
              "outside [1, 8]");
    symbol = "C";
    pc_expect(mlsys_program_export(p, path, 1, &symbol, &much, NULL), MLSYS_E_NOTFOUND, "\"C\"");
    pc_expect(export_as(p, path, "2nd"), MLSYS_E_ARG, "\"2nd\" is no C identifier");
    pc_expect(export_as(p, path, "a b"), MLSYS_E_ARG, "no C identifier");
    pc_expect(mlsys_program_export(p, "/nowhere/at/all/model.c", 0, NULL, NULL, NULL),
              MLSYS_E_NOTFOUND, "/nowhere/at/all");
    mlsys_release(p);
    mlsys_release(g);
    g = pc_parse(
        &pc, "functions 3\nfunc 2 \"no\" {\n  %0 = input \"\" : f32[4]\n  %1 = neg(%0) : f32[4]\n"
             "  output \"\" %1\n}\nfunc 1 \"yes\" {\n  %0 = input \"\" : f32[4]\n"
             "  %1 = exp(%0) : f32[4]\n  output \"\" %1\n}\nfunc 0 \"main\" {\n"
             "  %0 = input \"x\" : f32[4]\n  %1 = input \"c\" : bool[]\n"
             "  %2 = if(%1, %0) {fn1=1, fn2=2} : f32[4]\n  output \"y\" %2\n}\n");
    p = pc_compile(&pc, g, "");
    pc_expect(mlsys_program_export(p, path, 0, NULL, NULL, NULL), MLSYS_E_UNSUPPORTED,
              "step 1: if: has no loops");
    mlsys_release(p);
    mlsys_release(g);
    ck_assert_int_eq(files_in(folder), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

/* The first, second, ... allocation fails: an error each time, nothing leaked, no file left; then it works, and again gives the
 * same file. */
START_TEST(every_allocation_fails) {
    program_case failing;
    failing_alloc memory = {0};
    mlsys_hooks hooks = failing_alloc_hooks(&memory);
    char path[100], command[300];
    pc_open_hooks(&failing, 1, &hooks);
    mlsys_graph g = export_parse(&failing, &rng, ROWS);
    mlsys_program p = pc_compile(&failing, g, "fuse=always");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model.c", folder);
    int64_t blocks = memory.blocks, failures = 0;
    for (int64_t n = 1;; n++) {
        memory.fail_at = memory.calls + n;
        mlsys_status st = mlsys_program_export(p, path, 0, NULL, NULL, NULL);
        memory.fail_at = 0;
        ck_assert_msg(memory.blocks == blocks, "allocation %lld leaks", (long long)n);
        if (st == MLSYS_OK) break;
        ck_assert_msg(st == MLSYS_E_NOMEM, "allocation %lld: %s", (long long)n, mlsys_last_error());
        ck_assert_int_eq(files_in(folder), 0);
        failures++;
    }
    ck_assert_int_gt(failures, 50);
    snprintf(command, sizeof command, "cd %s && mv model.c first.c", folder);
    ck_assert_int_eq(system(command), 0);
    OK(mlsys_program_export(p, path, 0, NULL, NULL, NULL));
    snprintf(command, sizeof command, "cd %s && cmp first.c model.c && rm -r %s", folder, folder);
    ck_assert_int_eq(system(command), 0);
    mlsys_release(p);
    mlsys_release(g);
    pc_close(&failing);
}
END_TEST

int main(void) {
    Suite *s = suite_create("export");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, same_bits, 0, n_export_targets * N_CASES);
    tcase_add_test(tc, constants);
    tcase_add_test(tc, several_steps);
    tcase_add_test(tc, refusals);
    tcase_add_test(tc, every_allocation_fails);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
