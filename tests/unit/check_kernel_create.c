/* Kernels that create elements from nothing: counts, constants, random numbers. */
#include "core/rng.h"
#include "support/move_case.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEED = 20261205 };

START_TEST(iota_and_full) {
    kc_rng r = kc_seed(SEED + 9);
    for (int repeat = 0; repeat < 200; repeat++) {
        int64_t shape[4], index[4];
        int rank = move_shape(&r, shape, 1), axis = (int)kc_int(&r, 0, rank - 1);
        bool full = repeat % 2;
        mlsi_attr_iota iota = {.axis = repeat % 4 ? axis : axis - rank};
        mlsi_attr_full fill = {.value = kc_uniform(&r, -3, 3), .ivalue = kc_int(&r, -300, 300)};
        move_case m = {.c = {.op = full ? MLSI_OP_FULL : MLSI_OP_IOTA, .n_out = 1}};
        m.c.attrs = full ? (const void *)&fill : (const void *)&iota;
        m.t = move_dtypes[kc_int(&r, 0, MOVE_DTYPES - 1)];
        move_case_output(&r, &m, rank, shape);
        for (int64_t i = 0; i < count_of(rank, shape); i++) {
            unravel(rank, shape, i, index);
            if (mlsi_dtype_is_float(m.t))
                kc_set_f(&m.e.view, i, full ? fill.value : (double)index[axis]);
            else
                kc_set_i(&m.e.view, i, full ? fill.ivalue : index[axis]);
        }
        move_case_check(&m);
    }
}
END_TEST

START_TEST(random_numbers) {
    static const mlsys_dtype bits[] = {MLSYS_I64, MLSYS_I32, MLSYS_I16, MLSYS_I8, MLSYS_U8};
    kc_rng r = kc_seed(SEED + 10);
    for (int repeat = 0; repeat < 60; repeat++) {
        int64_t shape[4];
        int rank = move_shape(&r, shape, 0);
        if (repeat % 20 == 0) rank = 1, shape[0] = 9001;
        mlsi_attr_random attrs = {.kind = repeat % 3};
        move_case m = {.c = {.op = MLSI_OP_RANDOM, .attrs = &attrs, .n_in = 2, .n_out = 1}};
        m.t = attrs.kind == MLSI_RANDOM_BITS ? bits[kc_int(&r, 0, 4)]
              : kc_bits(&r) % 2              ? MLSYS_F32
                                             : MLSYS_F64;
        uint64_t key = kc_bits(&r), stream = kc_bits(&r);
        for (int i = 0; i < 2; i++) {
            m.c.in[i] = kc_tensor_new(&r, MLSYS_I64, 0, NULL, KC_DENSE);
            kc_set_i(&m.c.in[i].view, 0, (int64_t)(i ? stream : key));
            memcpy(m.c.in[i].before, m.c.in[i].block, m.c.in[i].bytes);
        }
        move_case_output(&r, &m, rank, shape);
        for (int64_t i = 0; i < count_of(rank, shape); i++) {
            uint64_t u = (uint64_t)i;
            bool f64 = m.t == MLSYS_F64;
            if (attrs.kind == MLSI_RANDOM_BITS)
                kc_set_i(&m.e.view, i,
                         m.t == MLSYS_I64 ? (int64_t)mlsi_rng_bits64(key, stream, u)
                                          : (int64_t)mlsi_rng_bits32(key, stream, u));
            else if (attrs.kind == MLSI_RANDOM_UNIFORM)
                kc_set_f(&m.e.view, i,
                         f64 ? mlsi_rng_uniform64(key, stream, u)
                             : (double)mlsi_rng_uniform32(key, stream, u));
            else
                kc_set_f(&m.e.view, i,
                         f64 ? mlsi_rng_normal64(key, stream, u)
                             : (double)mlsi_rng_normal32(key, stream, u));
        }
        move_case_check(&m);
    }
}
END_TEST

int main(void) {
    printf("seed %d\n", SEED);
    Suite *s = suite_create("kernel_create");
    TCase *t = tcase_create("create");
    suite_add_tcase(s, t);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, iota_and_full);
    tcase_add_test(t, random_numbers);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
