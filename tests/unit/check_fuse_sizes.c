/* One compiled program for all sizes: batches of 1 to 64, lengths of 1 to 2048, by the
 * same generated kernels. */
#include "support/program_case.h"

#include <stdlib.h>
#include <string.h>

static program_case pc;

static void setup(void) { pc_open(&pc, 2); }
static void teardown(void) { pc_close(&pc); }

/* Elementwise, rows, movement and a product, none of which knows B and L before the run. */
static const char *const block = "symbol B 1 64 1\n"
                                 "symbol L 1 2048 1\n"
                                 "functions 1\n"
                                 "func 0 \"main\" {\n"
                                 "  %0 = input \"x\" : f32[B,L,8]\n"
                                 "  %1 = input \"y\" : f32[B,L,8]\n"
                                 "  %2 = input \"w\" : f32[8,12]\n"
                                 "  %3 = add(%0, %1) : f32[B,L,8]\n"
                                 "  %4 = gelu(%3) : f32[B,L,8]\n"
                                 "  %5 = softmax(%4) : f32[B,L,8]\n"
                                 "  %6 = mul(%5, %1) : f32[B,L,8]\n"
                                 "  %7 = matmul(%6, %2) : f32[B,L,12]\n"
                                 "  %8 = sigmoid(%7) : f32[B,L,12]\n"
                                 "  %9 = mul(%8, %7) : f32[B,L,12]\n"
                                 "  %10 = reduce_sum(%9) {axes=[2]} : f32[B,L]\n"
                                 "  output \"rows\" %10\n"
                                 "  output \"z\" %9\n"
                                 "}\n";

static void run_both(const mlsys_program *programs, int64_t b, int64_t l, kc_rng *rng) {
    mlsys_tensor out[2][2] = {{NULL}};
    mlsys_tensor in[3] = {pc_random(&pc, rng, MLSYS_F32, 3, (int64_t[]){b, l, 8}),
                          pc_random(&pc, rng, MLSYS_F32, 3, (int64_t[]){b, l, 8}),
                          pc_random(&pc, rng, MLSYS_F32, 2, (int64_t[]){8, 12})};
    for (int p = 0; p < 2; p++)
        OK(mlsys_program_run(programs[p], pc.stream, 3, in, 2, out[p]));
    for (int o = 0; o < 2; o++) {
        uint64_t bytes = (uint64_t)(b * l * (o ? 12 : 1)) * sizeof(float);
        float *got[2] = {malloc(bytes), malloc(bytes)};
        for (int p = 0; p < 2; p++) {
            ck_assert_ptr_nonnull(got[p]);
            OK(mlsys_tensor_read(out[p][o], pc.stream, got[p], bytes));
        }
        for (uint64_t i = 0; i < bytes / sizeof(float); i++)
            ck_assert_msg(!memcmp(&got[0][i], &got[1][i], sizeof(float)) ||
                              (got[0][i] != got[0][i] && got[1][i] != got[1][i]),
                          "B=%lld L=%lld: output %d, element %llu: %a, separately %a", (long long)b,
                          (long long)l, o, (unsigned long long)i, (double)got[0][i],
                          (double)got[1][i]);
        free(got[0]);
        free(got[1]);
    }
    for (int p = 0; p < 2; p++)
        pc_release(2, out[p]);
    pc_release(3, in);
}

START_TEST(one_program_runs_every_size) {
    static const int64_t batches[] = {1, 2, 3, 7, 16, 64}, lengths[] = {1, 2, 15, 64, 333, 2048};
    kc_rng rng = kc_seed(20261201);
    mlsys_graph g = pc_parse(&pc, block);
    const mlsys_program programs[2] = {pc_compile(&pc, g, "fuse=always numerics=exact"),
                                       pc_compile(&pc, g, "fuse=never numerics=exact")};
    mlsi_program *p;
    int kernels = 0;
    OK(mlsi_pin(programs[0], MLSYS_KIND_PROGRAM, "test", &p));
    for (int64_t i = 0; i < p->graph.funcs[0].n_nodes; i++)
        kernels += mlsi_generated_of(p, &p->graph.funcs[0].nodes[i]) != NULL;
    mlsi_unpin(p);
    ck_assert_int_eq(kernels, 2); /* before the product and behind it */
    for (size_t b = 0; b < sizeof batches / sizeof batches[0]; b++)
        for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++)
            if (batches[b] * lengths[l] <= 32768) run_both(programs, batches[b], lengths[l], &rng);
    mlsys_release(programs[0]);
    mlsys_release(programs[1]);
    mlsys_release(g);
}
END_TEST

int main(void) {
    Suite *s = suite_create("fuse_sizes");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, one_program_runs_every_size);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
