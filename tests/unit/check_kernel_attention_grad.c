/* The attention_grad rows against the op's decomposition, bit for bit: masks, alignments, windows, groups,
 * lengths, narrow floats, layouts, several segments of rows and of keys, and values that must not leak. */
#include "support/kernel_case.h"
#include "support/op_case.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 20261201, CASES = 120, OPERANDS = 9 };

typedef struct shape {
    int64_t B, Lq, Lk, H, Hkv, D, Dv;
} shape;

static const shape shapes[] = {
    {1, 1, 1, 1, 1, 1, 1},    {1, 1, 330, 3, 1, 16, 16}, {1, 3, 321, 4, 2, 16, 24},
    {2, 5, 64, 6, 2, 8, 8},   {1, 50, 130, 3, 3, 33, 7}, {1, 300, 70, 2, 1, 8, 8},
    {2, 1, 65, 2, 2, 300, 5}, {1, 0, 5, 2, 1, 4, 4},     {1, 4, 0, 2, 1, 4, 4},
    {1, 2, 9, 2, 1, 0, 3},    {3, 7, 128, 1, 1, 5, 17},  {1, 270, 270, 1, 1, 12, 12},
    {1, 5, 2, 2, 1, 16, 16},  {0, 3, 4, 2, 1, 4, 4},     {1, 90, 40, 6, 1, 4, 0},
};
enum { SHAPES = (int)(sizeof shapes / sizeof shapes[0]) };

typedef struct grad_case {
    mlsi_attr_attention attrs;
    kc_call c;
    char what[200];
} grad_case;

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

/* Keys and values past the valid length hold NaN: nothing may read them into a sum. */
static void add_lengths(kc_rng *r, kc_call *c, const shape *s, bool poison) {
    int64_t per_k = s->Hkv * s->D, per_v = s->Hkv * s->Dv;
    c->in[4] = kc_tensor_new(r, kc_int(r, 0, 1) ? MLSYS_I32 : MLSYS_I64, 1, &s->B, KC_DENSE);
    c->absent[4] = false;
    for (int64_t b = 0; b < s->B; b++) {
        int64_t n = kc_int(r, 0, s->Lk);
        kc_set_i(&c->in[4].view, b, n);
        for (int64_t j = n; j < s->Lk && poison; j++) {
            for (int64_t e = 0; e < per_k; e++)
                kc_set_f(&c->in[1].view, (b * s->Lk + j) * per_k + e, NAN);
            for (int64_t e = 0; e < per_v; e++)
                kc_set_f(&c->in[2].view, (b * s->Lk + j) * per_v + e, NAN);
        }
    }
}

static kc_layout any_layout(kc_rng *r) {
    const kc_layout layouts[] = {KC_DENSE, KC_DENSE, KC_PADDED, KC_PERMUTED};
    return layouts[kc_int(r, 0, 3)];
}

static void fill_operands(kc_rng *r, kc_call *c, const shape *s, bool wild) {
    for (int i = 0; i < OPERANDS; i++)
        if (!c->absent[i]) kc_fill(r, &c->in[i], wild ? KC_ANY : KC_SMALL);
    for (int64_t i = 0, n = mlsi_view_count(&c->in[6].view); i < n && !wild; i++)
        kc_set_f(&c->in[6].view, i, kc_int(r, 0, 9) ? kc_uniform(r, 0, 6) : -INFINITY);
    if (kc_int(r, 0, 2) == 0) add_mask(r, c, s);
    if (kc_int(r, 0, 1)) add_lengths(r, c, s, !wild);
    for (int i = 0; i < OPERANDS; i++)
        if (!c->absent[i]) memcpy(c->in[i].before, c->in[i].block, c->in[i].bytes);
}

static void make_case(kc_rng *r, int index, grad_case *g, bool wild) {
    const mlsys_dtype types[] = {MLSYS_F32, MLSYS_F32, MLSYS_F16, MLSYS_BF16};
    const shape *s = &shapes[index % SHAPES];
    const int64_t q[4] = {s->B, s->Lq, s->H, s->D}, k[4] = {s->B, s->Lk, s->Hkv, s->D};
    const int64_t v[4] = {s->B, s->Lk, s->Hkv, s->Dv}, o[4] = {s->B, s->Lq, s->H, s->Dv};
    const int64_t lse[3] = {s->B, s->H, s->Lq};
    mlsys_dtype cache = types[kc_int(r, 0, 3)], query = types[kc_int(r, 0, 3)];
    mlsi_attr_attention *a = &g->attrs;
    kc_call *c = &g->c;
    memset(g, 0, sizeof *g);
    a->causal = kc_int(r, 0, 2);
    a->scale = kc_int(r, 0, 1) && s->D ? 1.0 / sqrt((double)s->D) : 0.37;
    a->softcap = kc_int(r, 0, 3) ? 0 : 5;
    a->window = kc_int(r, 0, 2) ? 0 : kc_int(r, 1, 90);
    *c = (kc_call){.op = MLSI_OP_ATTENTION_GRAD, .attrs = a, .n_in = OPERANDS, .n_out = 3};
    c->absent[3] = c->absent[4] = true;
    c->absent[8] = kc_int(r, 0, 1);
    c->in[0] = kc_tensor_new(r, query, 4, q, any_layout(r));
    c->in[1] = kc_tensor_new(r, cache, 4, k, any_layout(r));
    c->in[2] = kc_tensor_new(r, cache, 4, v, any_layout(r));
    c->in[5] = kc_tensor_new(r, query, 4, o, any_layout(r));
    c->in[6] = kc_tensor_new(r, MLSYS_F32, 3, lse, any_layout(r));
    c->in[7] = kc_tensor_new(r, query, 4, o, any_layout(r));
    if (!c->absent[8]) c->in[8] = kc_tensor_new(r, MLSYS_F32, 3, lse, any_layout(r));
    fill_operands(r, c, s, wild);
    c->out[0] = kc_tensor_new(r, query, 4, q, any_layout(r));
    c->out[1] = kc_tensor_new(r, cache, 4, k, any_layout(r));
    c->out[2] = kc_tensor_new(r, cache, 4, v, any_layout(r));
    snprintf(g->what, sizeof g->what,
             "case %d: B%lld Lq%lld Lk%lld H%lld/%lld D%lld/%lld causal %lld window %lld%s%s",
             index, (long long)s->B, (long long)s->Lq, (long long)s->Lk, (long long)s->H,
             (long long)s->Hkv, (long long)s->D, (long long)s->Dv, (long long)a->causal,
             (long long)a->window, c->absent[3] ? "" : " mask", c->absent[4] ? "" : " kv_len");
}

/* The interpreter on the op as a node. */
static void reference(mlsi_ctx *ctx, kc_rng *r, const grad_case *x, kc_tensor *expected) {
    mlsi_graph g;
    mlsi_view in[OPERANDS], out[3];
    int32_t value[OPERANDS], result[3];
    int n = 0;
    ck_assert_int_eq(mlsi_graph_init(&g, ctx), MLSYS_OK);
    for (int i = 0; i < OPERANDS; i++) {
        value[i] = -1;
        if (x->c.absent[i]) continue;
        in[n] = x->c.in[i].view;
        mlsi_type t = {.dtype = in[n].dtype, .rank = in[n].rank};
        memcpy(t.dims, in[n].shape, sizeof *t.dims * (size_t)t.rank);
        ck_assert_int_eq(mlsi_build_input(&g, 0, NULL, &t, &value[i]), MLSYS_OK);
        n++;
    }
    mlsys_status st =
        mlsi_build_node(&g, 0, MLSI_OP_ATTENTION_GRAD, &x->attrs, OPERANDS, value, 3, result);
    ck_assert_msg(st == MLSYS_OK, "%s: %s", x->what, mlsys_last_error());
    for (int o = 0; o < 3; o++) {
        const mlsi_view *v = &x->c.out[o].view;
        expected[o] = kc_tensor_new(r, v->dtype, v->rank, v->shape, KC_DENSE);
        out[o] = expected[o].view;
        ck_assert_int_eq(mlsi_build_output(&g, 0, NULL, result[o]), MLSYS_OK);
    }
    st = mlsi_interpret(&g, 0, n, in, 3, out);
    ck_assert_msg(st == MLSYS_OK, "%s: %s", x->what, mlsys_last_error());
    mlsi_graph_free(&g);
}

static void run_cases(uint64_t seed, bool wild) {
    kc_rng r = kc_seed(seed);
    mlsi_ctx *ctx = op_ctx_new();
    grad_case *x = malloc(sizeof *x);
    ck_assert_ptr_nonnull(x);
    for (int i = 0; i < CASES; i++) {
        kc_tensor expected[3];
        make_case(&r, i, x, wild);
        reference(ctx, &r, x, expected);
        ck_assert_int_ge(kc_check(&x->c, expected, x->what), 1);
        for (int o = 0; o < 3; o++)
            kc_tensor_free(&expected[o]);
        kc_call_free(&x->c);
    }
    free(x);
    op_ctx_free(ctx);
}

START_TEST(rows_have_the_bits_of_the_decomposition) { run_cases(SEED, false); }
END_TEST

START_TEST(special_values_and_wild_bits) { run_cases(SEED + 1, true); }
END_TEST

int main(void) {
    Suite *suite = suite_create("kernel_attention_grad");
    TCase *tc = tcase_create("attention_grad");
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, rows_have_the_bits_of_the_decomposition);
    tcase_add_test(tc, special_values_and_wild_bits);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
