/* The upper levels of the canonical sum, also where three of them are needed. */
#include "cpu/sum_tree.h"
#include "support/canonical_reference.h"
#include "support/kernel_case.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEED = 20261206 };

static void check_length(kc_rng *r, int64_t n, bool product, bool f32) {
    double *x = malloc((size_t)(n + 1) * sizeof *x);
    mlsi_sum_tree tree;
    for (int64_t i = 0; i < n; i++)
        x[i] = cr_round(!f32, product ? kc_uniform(r, 0.9, 1.1) : kc_uniform(r, -1, 1));
    mlsi_sum_tree_init(&tree, product, f32);
    for (int64_t i = 0; i < n; i++)
        mlsi_sum_tree_push(&tree, x[i]);
    double want = product ? cr_product(!f32, x, n) : cr_sum(!f32, x, n);
    ck_assert_msg(mlsi_sum_tree_result(&tree) == want, "length %lld", (long long)n);
    free(x);
}

START_TEST(every_length_of_one_chunk_and_around) {
    kc_rng r = kc_seed(SEED);
    static const int64_t lengths[] = {
        0, 1, 127, 128, 129, 4095, 4096, 4097, 8191, 8192, 12289, 1 << 20, (1 << 24) + 4097};
    for (int repeat = 0; repeat < 4; repeat++)
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0] - (repeat ? 1 : 0); i++)
            check_length(&r, lengths[i], repeat & 1, repeat & 2);
}
END_TEST

int main(void) {
    printf("seed %d\n", SEED);
    Suite *s = suite_create("sum_tree");
    TCase *t = tcase_create("sum_tree");
    suite_add_tcase(s, t);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, every_length_of_one_chunk_and_around);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
