/* The hand-written CUDA kernels and recorded runs, as programs on a device that tests/fake_cuda runs on the host: the bits of the
 * reference interpreter, its errors, and fewer launches. */
#include "support/fake_cuda.h"
#include "support/program_case.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 6, SEED = 20261205 };

static fake_cuda *fake;
static program_case pc;
static mlsys_device device;
static mlsys_stream stream;
static kc_rng rng;

static void setup(void) {
    setenv("FAKE_CUDA_RUN", "1", 1);
    fake = fake_cuda_use(true);
    rng = kc_seed(SEED);
    pc_open(&pc, 1);
    OK(mlsys_device_get(pc.ctx_handle, MLSYS_CUDA, 0, &device));
    OK(mlsys_stream_create(device, NULL, &stream));
}

static void teardown(void) {
    OK(mlsys_release(stream));
    OK(mlsys_release(device));
    pc_close(&pc);
    fake_cuda_check_clean(fake);
}

/* ---- one program ------------------------------------------------------------------------------------------ */

static mlsys_program compile(mlsys_graph g) {
    mlsys_config c;
    mlsys_program p;
    OK(mlsys_config_create(&c));
    OK(mlsys_config_set_str(c, "numerics", "exact"));
    OK(mlsys_graph_compile(g, device, c, &p));
    OK(mlsys_release(c));
    return p;
}

static mlsys_tensor to_device(mlsys_tensor x) {
    mlsi_view v = rg_view(x);
    mlsys_tensor t;
    OK(mlsys_tensor_create(device, v.dtype, v.rank, v.shape, &t));
    OK(mlsys_tensor_copy(t, x, stream));
    return t;
}

static void expect_same(mlsys_tensor got, mlsys_tensor want, const char *what) {
    mlsi_view v = rg_view(want);
    mlsys_tensor host;
    OK(mlsys_tensor_create(pc.device_handle, v.dtype, v.rank, v.shape, &host));
    OK(mlsys_tensor_copy(host, got, stream));
    int64_t at = rg_difference(host, want);
    if (at >= 0) ck_abort_msg("%s: differs at element %lld", what, (long long)at);
    OK(mlsys_release(host));
}

/* One run with these inputs of the host, compared with the interpreter. */
static void run_and_compare(mlsys_graph g, mlsys_program p, int n_in, const mlsys_tensor *in,
                            const char *what) {
    mlsys_tensor there[MOST], got = 0, want = 0;
    OK(mlsys_graph_interpret(g, pc.stream, n_in, in, 1, &want));
    for (int i = 0; i < n_in; i++)
        there[i] = to_device(in[i]);
    OK(mlsys_program_run(p, stream, n_in, there, 1, &got));
    expect_same(got, want, what);
    pc_release(n_in, there);
    pc_release(1, &got);
    pc_release(1, &want);
}

/* ---- products ----------------------------------------------------------------------------------------------- */

#define PRODUCT                                                                                    \
    "symbol M 0 4096 1\nsymbol N 0 4096 1\nsymbol K 0 4096 1\nfunctions 1\nfunc 0 \"main\" {\n"

static const struct {
    const char *text;
    mlsys_dtype dtype;
    bool a_turned, b_turned, batch, addend;
} products[] = {
    {PRODUCT
     "  %0 = input \"a\" : f32[M,K]\n  %1 = input \"b\" : f32[K,N]\n  %2 = dot_general(%0, %1) "
     "{lhs_contract=[1], rhs_contract=[0]} : f32[M,N]\n  output \"y\" %2\n}\n",
     MLSYS_F32, false, false, false, false},
    {PRODUCT
     "  %0 = input \"a\" : f16[K,M]\n  %1 = input \"b\" : f16[N,K]\n  %2 = dot_general(%0, %1) "
     "{lhs_contract=[0], rhs_contract=[1]} : f16[M,N]\n  output \"y\" %2\n}\n",
     MLSYS_F16, true, true, false, false},
    {PRODUCT "  %0 = input \"a\" : bf16[3,M,K]\n  %1 = input \"b\" : bf16[3,N,K]\n  %2 = "
             "dot_general(%0, %1) {lhs_batch=[0], rhs_batch=[0], lhs_contract=[2], "
             "rhs_contract=[2]} : bf16[3,M,N]\n  output \"y\" %2\n}\n",
     MLSYS_BF16, false, true, true, false},
    {PRODUCT "  %0 = input \"a\" : f32[K,M]\n  %1 = input \"b\" : f32[K,N]\n  %2 = input \"c\" : "
             "f32[M,N]\n  %3 = dot_general(%0, %1, %2) {lhs_contract=[0], rhs_contract=[0]} : "
             "f32[M,N]\n  output \"y\" %3\n}\n",
     MLSYS_F32, true, false, false, true},
};

static mlsys_tensor matrix(int i, int64_t rows, int64_t columns, bool turned) {
    const int64_t shape[3] = {3, turned ? columns : rows, turned ? rows : columns};
    const int first = products[i].batch ? 0 : 1;
    return pc_random(&pc, &rng, products[i].dtype, 3 - first, shape + first);
}

START_TEST(products_have_the_bits_of_the_reference) {
    static const int64_t extents[][3] = {{1, 1, 1},    {5, 7, 0},     {3, 5, 255},
                                         {65, 3, 256}, {2, 130, 257}, {33, 129, 600},
                                         {130, 67, 1}, {0, 5, 3},     {1, 64, 513}};
    mlsys_graph g = pc_parse(&pc, products[_i].text);
    mlsys_program p = compile(g);
    for (size_t e = 0; e < sizeof extents / sizeof extents[0]; e++) {
        const int64_t m = extents[e][0], n = extents[e][1], k = extents[e][2];
        mlsys_tensor in[3] = {matrix(_i, m, k, products[_i].a_turned),
                              matrix(_i, k, n, products[_i].b_turned), 0};
        char what[64];
        if (products[_i].addend) in[2] = matrix(_i, m, n, false);
        snprintf(what, sizeof what, "M %d, N %d, K %d", (int)m, (int)n, (int)k);
        run_and_compare(g, p, products[_i].addend ? 3 : 2, in, what);
        pc_release(3, in);
    }
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}
END_TEST

/* ---- windows and recorded runs -------------------------------------------------------------------------------- */

static const char window[] =
    "symbol L 3 64 1\nfunctions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f32[L,5]\n"
    "  %1 = input \"u\" : f32[3,2]\n  %2 = input \"s\" : i64[2]\n"
    "  %3 = dynamic_update_slice(%0, %1, %2) : f32[L,5]\n"
    "  %4 = dot_general(%3, %3) {lhs_contract=[0], rhs_contract=[0]} : f32[5,5]\n"
    "  output \"y\" %4\n}\n";

static void window_inputs(int64_t length, mlsys_tensor *in) {
    const int64_t shape[2] = {length, 5}, part[2] = {3, 2}, two = 2;
    const int64_t starts[2] = {kc_int(&rng, 0, length - 3), kc_int(&rng, 0, 3)};
    in[0] = pc_random(&pc, &rng, MLSYS_F32, 2, shape);
    in[1] = pc_random(&pc, &rng, MLSYS_F32, 2, part);
    in[2] = pc_tensor(&pc, MLSYS_I64, 1, &two, starts);
}

typedef struct places { /* tensors of the device that runs share */
    mlsys_tensor in[3], out;
} places;

/* New values in the same memory. */
static void run_again(mlsys_graph g, mlsys_program p, places *at, int64_t length,
                      const char *what) {
    mlsys_tensor in[3], want = 0;
    window_inputs(length, in);
    OK(mlsys_graph_interpret(g, pc.stream, 3, in, 1, &want));
    for (int i = 0; i < 3; i++)
        OK(mlsys_tensor_copy(at->in[i], in[i], stream));
    OK(mlsys_program_run(p, stream, 3, at->in, 1, &at->out));
    expect_same(at->out, want, what);
    pc_release(3, in);
    pc_release(1, &want);
}

static places places_of(int64_t length) {
    const int64_t five[2] = {5, 5};
    places at;
    window_inputs(length, at.in);
    for (int i = 0; i < 3; i++) {
        mlsys_tensor host = at.in[i];
        at.in[i] = to_device(host);
        OK(mlsys_release(host));
    }
    OK(mlsys_tensor_create(device, MLSYS_F32, 2, five, &at.out));
    return at;
}

static void free_places(places *at) {
    pc_release(3, at->in);
    pc_release(1, &at->out);
}

START_TEST(recorded_runs_are_right) {
    mlsys_graph g = pc_parse(&pc, window);
    mlsys_program p = compile(g);
    places one = places_of(7), other = places_of(7), longer = places_of(12);
    int64_t launches[4], before;
    for (int i = 0; i < 4; i++) {
        before = fake->launches;
        run_again(g, p, &one, 7, "the same tensors");
        launches[i] = fake->launches - before;
    }
    ck_assert_int_gt(launches[0], 1);
    ck_assert_int_eq(launches[2], 0);
    ck_assert_int_eq(launches[3], 0);
    for (int i = 0; i < 3; i++)
        run_again(g, p, &other, 7, "other tensors");
    run_again(g, p, &one, 7, "the first ones again");
    for (int i = 0; i < 3; i++)
        run_again(g, p, &longer, 12, "another extent");
    run_again(g, p, &one, 7, "the first extent again");
    free_places(&one);
    free_places(&other);
    free_places(&longer);
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}
END_TEST

/* At the first run, the one that is recorded, and a replayed one. */
START_TEST(recorded_runs_tell_bad_values) {
    mlsys_graph g = pc_parse(&pc, window);
    mlsys_program p = compile(g);
    places at = places_of(7);
    for (int i = 0; i < 4; i++) {
        const int64_t bad[2] = {1, 4};
        OK(mlsys_tensor_write(at.in[2], stream, bad, sizeof bad));
        pc_expect(mlsys_program_run(p, stream, 3, at.in, 1, &at.out), MLSYS_E_ARG,
                  "axis 1, start 4, size 2");
        run_again(g, p, &at, 7, "behind an error");
    }
    free_places(&at);
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}
END_TEST

static int forget(const char *path, const struct stat *s, int type, struct FTW *at) {
    (void)s, (void)type, (void)at;
    return remove(path);
}

int main(void) {
    char cache[] = "/tmp/mlsys-cuda-rows-XXXXXX"; /* code for no real device */
    if (!mkdtemp(cache)) return EXIT_FAILURE;
    setenv("MLSYS_CACHE", cache, 1);
    Suite *s = suite_create("cuda_rows");
    TCase *tc = tcase_create("rows");
    tcase_set_timeout(tc, 300);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, products_have_the_bits_of_the_reference, 0,
                        (int)(sizeof products / sizeof products[0]));
    tcase_add_test(tc, recorded_runs_are_right);
    tcase_add_test(tc, recorded_runs_tell_bad_values);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    nftw(cache, forget, 8, FTW_DEPTH | FTW_PHYS);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
