/* The attention rows against the op's literal reference: masks, alignments, windows, groups, lengths,
 * layouts, enough keys to be split over workers, and values that must not leak. */
#include "core/faults.h"
#include "ir/ops/op_def.h"
#include "support/kernel_case.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SEED = 20261130, CASES = 160 };

typedef struct shape {
    int64_t B, Lq, Lk, H, Hkv, D, Dv;
} shape;

static const shape shapes[] = {
    {1, 1, 1, 1, 1, 1, 1},    {1, 1, 700, 3, 1, 64, 64}, {1, 3, 321, 4, 2, 16, 24},
    {2, 5, 64, 6, 2, 8, 8},   {1, 50, 130, 3, 3, 33, 7}, {1, 70, 70, 2, 1, 64, 64},
    {2, 1, 65, 2, 2, 300, 5}, {1, 0, 5, 2, 1, 4, 4},     {1, 4, 0, 2, 1, 4, 4},
    {1, 2, 9, 2, 1, 0, 3},    {3, 7, 128, 1, 1, 5, 17},  {1, 9, 400, 8, 1, 12, 12},
    {1, 5, 2, 2, 1, 16, 16},
};
enum { SHAPES = (int)(sizeof shapes / sizeof shapes[0]) };

static kc_layout any_input(kc_rng *r) {
    const kc_layout layouts[] = {KC_DENSE, KC_DENSE, KC_PADDED};
    return layouts[kc_int(r, 0, 2)];
}

static void add_mask(kc_rng *r, kc_call *c, const shape *s) {
    int64_t dims[4] = {s->B, s->H, s->Lq, s->Lk};
    for (int d = 0; d < 3; d++)
        if (kc_int(r, 0, 1)) dims[d] = 1;
    mlsys_dtype dtype = kc_int(r, 0, 1) ? MLSYS_BOOL : MLSYS_F32;
    c->in[3] = kc_tensor_new(r, dtype, 4, dims, KC_DENSE);
    c->absent[3] = false;
    for (int64_t i = 0; i < mlsi_view_count(&c->in[3].view); i++) {
        bool hidden = kc_int(r, 0, 3) == 0;
        if (dtype == MLSYS_BOOL)
            kc_set_i(&c->in[3].view, i, !hidden);
        else
            kc_set_f(&c->in[3].view, i, hidden ? -INFINITY : kc_uniform(r, -3, 3));
    }
}

static void add_lengths(kc_rng *r, kc_call *c, const shape *s) {
    c->in[4] = kc_tensor_new(r, kc_int(r, 0, 1) ? MLSYS_I32 : MLSYS_I64, 1, &s->B, KC_DENSE);
    c->absent[4] = false;
    for (int64_t b = 0; b < s->B; b++)
        kc_set_i(&c->in[4].view, b, kc_int(r, 0, s->Lk));
}

/* Keys and values past the valid length hold NaN: nothing may read them into a sum. */
static void poison_invisible(kc_call *c, const shape *s) {
    int64_t per_k = s->Hkv * s->D, per_v = s->Hkv * s->Dv;
    if (c->absent[4]) return;
    for (int64_t b = 0; b < s->B; b++)
        for (int64_t j = kc_get_i(&c->in[4].view, b); j < s->Lk; j++) {
            for (int64_t e = 0; e < per_k; e++)
                kc_set_f(&c->in[1].view, (b * s->Lk + j) * per_k + e, NAN);
            for (int64_t e = 0; e < per_v; e++)
                kc_set_f(&c->in[2].view, (b * s->Lk + j) * per_v + e, NAN);
        }
}

static void make_case(kc_rng *r, const shape *s, mlsi_attr_attention *a, kc_call *c, bool wild) {
    const mlsys_dtype types[] = {MLSYS_F32, MLSYS_F32, MLSYS_F16, MLSYS_BF16};
    const int64_t q[4] = {s->B, s->Lq, s->H, s->D}, k[4] = {s->B, s->Lk, s->Hkv, s->D};
    const int64_t v[4] = {s->B, s->Lk, s->Hkv, s->Dv}, o[4] = {s->B, s->Lq, s->H, s->Dv};
    const int64_t lse[3] = {s->B, s->H, s->Lq};
    mlsys_dtype cache = types[kc_int(r, 0, 3)];
    memset(a, 0, sizeof *a);
    memset(c, 0, sizeof *c);
    a->causal = kc_int(r, 0, 2);
    a->scale = kc_int(r, 0, 1) && s->D ? 1.0 / sqrt((double)s->D) : 0.37;
    a->softcap = kc_int(r, 0, 3) ? 0 : 5;
    a->window = kc_int(r, 0, 2) ? 0 : kc_int(r, 1, 90);
    a->lse = kc_int(r, 0, 1);
    c->op = MLSI_OP_ATTENTION;
    c->attrs = a;
    c->n_in = 5;
    c->n_out = a->lse ? 2 : 1;
    c->absent[3] = c->absent[4] = true;
    c->in[0] = kc_tensor_new(r, types[kc_int(r, 0, 3)], 4, q, any_input(r));
    c->in[1] = kc_tensor_new(r, cache, 4, k, KC_DENSE);
    c->in[2] = kc_tensor_new(r, cache, 4, v, KC_DENSE);
    for (int i = 0; i < 3; i++)
        kc_fill(r, &c->in[i], wild ? KC_ANY : KC_SMALL);
    if (kc_int(r, 0, 2) == 0) add_mask(r, c, s);
    if (kc_int(r, 0, 1)) add_lengths(r, c, s);
    if (!wild) poison_invisible(c, s);
    for (int i = 0; i < 5; i++)
        if (!c->absent[i]) memcpy(c->in[i].before, c->in[i].block, c->in[i].bytes);
    c->out[0] = kc_tensor_new(r, c->in[0].view.dtype, 4, o, KC_DENSE);
    if (a->lse) c->out[1] = kc_tensor_new(r, MLSYS_F32, 3, lse, KC_DENSE);
}

static void reference(kc_rng *r, const kc_call *c, kc_tensor *expected) {
    mlsi_view in[5], out[2];
    memset(in, 0, sizeof in);
    for (int i = 0; i < 5; i++)
        if (!c->absent[i]) in[i] = c->in[i].view;
    for (int o = 0; o < c->n_out; o++) {
        const mlsi_view *v = &c->out[o].view;
        expected[o] = kc_tensor_new(r, v->dtype, v->rank, v->shape, KC_DENSE);
        out[o] = expected[o].view;
    }
    mlsi_ref_args a = {.alloc = &mlsi_alloc_process,
                       .attrs = c->attrs,
                       .n_in = 5,
                       .n_out = c->n_out,
                       .in = in,
                       .out = out};
    ck_assert_int_eq(mlsi_op_get(MLSI_OP_ATTENTION)->ref(&a), MLSYS_OK);
}

static void run_cases(uint64_t seed, bool wild) {
    kc_rng r = kc_seed(seed);
    for (int i = 0; i < CASES; i++) {
        const shape *s = &shapes[i % SHAPES];
        mlsi_attr_attention a;
        kc_call c;
        kc_tensor expected[2];
        char what[160];
        make_case(&r, s, &a, &c, wild);
        reference(&r, &c, expected);
        snprintf(what, sizeof what,
                 "case %d: B%lld Lq%lld Lk%lld H%lld/%lld D%lld/%lld causal %lld window %lld%s%s",
                 i, (long long)s->B, (long long)s->Lq, (long long)s->Lk, (long long)s->H,
                 (long long)s->Hkv, (long long)s->D, (long long)s->Dv, (long long)a.causal,
                 (long long)a.window, c.absent[3] ? "" : " mask", c.absent[4] ? "" : " kv_len");
        ck_assert_int_ge(kc_check(&c, expected, what), 1);
        for (int o = 0; o < c.n_out; o++)
            kc_tensor_free(&expected[o]);
        kc_call_free(&c);
    }
}

START_TEST(rows_have_the_bits_of_the_reference) { run_cases(SEED, false); }
END_TEST

START_TEST(special_values_and_wild_bits) { run_cases(SEED + 1, true); }
END_TEST

START_TEST(a_length_outside_the_cache_is_an_error) {
    kc_rng r = kc_seed(SEED + 2);
    const int64_t lengths[] = {-1, 10, INT32_MAX};
    const shape s = {1, 2, 9, 2, 1, 8, 8};
    for (int i = 0; i < 3; i++) {
        mlsi_attr_attention a;
        kc_call c;
        do {
            make_case(&r, &s, &a, &c, false);
            if (c.absent[4]) kc_call_free(&c);
        } while (c.absent[4]);
        kc_set_i(&c.in[4].view, 0, lengths[i]);
        memcpy(c.in[4].before, c.in[4].block, c.in[4].bytes);
        const mlsi_kernel *k = kc_row(MLSI_OP_ATTENTION, 0);
        ck_assert_int_eq(kc_run(k, &c, 2), MLSYS_E_ARG);
        ck_assert_ptr_nonnull(strstr(mlsys_last_error(), "kv_len[0]"));
        kc_call_free(&c);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kernel_attention");
    TCase *tc = tcase_create("attention");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, rows_have_the_bits_of_the_reference);
    tcase_add_test(tc, special_values_and_wild_bits);
    tcase_add_test(tc, a_length_outside_the_cache_is_an_error);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
