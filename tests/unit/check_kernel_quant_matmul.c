/* quant_matmul and dequantize rows: the bits of the reference decoding, then of the K order. */
#include "ir/ops/block_decode.h"
#include "ir/ops/quant_codes.h"
#include "support/kernel_case.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 20261202, SEGMENT = 256 };

static const mlsys_dtype formats[] = {MLSYS_Q4_0, MLSYS_Q4_1, MLSYS_Q5_0, MLSYS_Q5_1,
                                      MLSYS_Q8_0, MLSYS_Q4_K, MLSYS_Q5_K, MLSYS_Q6_K};
enum { FORMATS = (int)(sizeof formats / sizeof formats[0]) };

/* Offset of the f16 scales in a block, and how many. */
static int scales_at(mlsys_dtype t, int *n) {
    *n = t == MLSYS_Q4_1 || t == MLSYS_Q5_1 || t == MLSYS_Q4_K || t == MLSYS_Q5_K ? 2 : 1;
    return t == MLSYS_Q6_K ? (int)sizeof(mlsi_q6_k) - 2 : 0;
}

/* Random bytes are valid codes of every format; scales are up to `largest`, or any f16 at all. */
static void fill_blocks(kc_rng *r, kc_tensor *w, double largest, bool any_scale) {
    const mlsi_dtype_info *info = mlsi_dtype_get(w->view.dtype);
    int n, at = scales_at(w->view.dtype, &n);
    uint64_t blocks = (uint64_t)(mlsi_view_count(&w->view) / info->block_elems);
    for (uint64_t b = 0; b < blocks; b++) {
        uint8_t *p = (uint8_t *)w->view.data + b * (uint64_t)info->block_bytes;
        for (int i = 0; i < info->block_bytes; i++)
            p[i] = (uint8_t)kc_bits(r);
        for (int i = 0; i < n; i++) {
            uint16_t h = mlsi_f64_to_f16(kc_uniform(r, -largest, largest));
            if (any_scale && kc_bits(r) % 4 == 0) h = (uint16_t)kc_bits(r);
            memcpy(p + at + 2 * i, &h, 2);
        }
    }
    memcpy(w->before, w->block, w->bytes);
}

static float *decoded(const kc_tensor *w) {
    int64_t n = mlsi_view_count(&w->view);
    float *f = malloc((size_t)(n + 1) * sizeof *f);
    if (n) mlsi_block_decode(w->view.dtype, w->view.data, n, f);
    return f;
}

static const void *row_of(const kc_tensor *w, int64_t row) {
    const mlsi_dtype_info *info = mlsi_dtype_get(w->view.dtype);
    return (const char *)w->view.data +
           row * w->view.shape[1] / info->block_elems * info->block_bytes;
}

static float dot(const mlsi_view *x, int64_t row, const float *w, int64_t n) {
    float total = 0, s = 0;
    for (int64_t k = 0; k < n; k++) {
        s = fmaf((float)kc_get_f(x, row * n + k), w[k], s);
        if ((k + 1) % SEGMENT && k + 1 < n) continue;
        total = k < SEGMENT ? s : total + s;
        s = 0;
    }
    return total;
}

/* act = int8, one result: as the op's page says. */
static float dot_int8(const mlsi_view *x, int64_t row, mlsys_dtype t, const void *w, int64_t n) {
    float total = 0, s = 0;
    for (int64_t k0 = 0; k0 < n; k0 += 32) {
        float largest = 0, v[32];
        for (int i = 0; i < 32; i++) {
            v[i] = (float)kc_get_f(x, row * n + k0 + i);
            largest = isnan(v[i]) || isnan(largest) ? NAN : fmaxf(largest, fabsf(v[i]));
        }
        float scale = largest / 127.0f;
        mlsi_quant_codes c;
        mlsi_quant_codes_of(t, w, k0, &c);
        int32_t half[2] = {0, 0}, sum = 0;
        for (int i = 0; i < 32; i++) {
            float q = rintf(v[i] / scale);
            int32_t code = scale == 0 || isnan(q) ? 0
                           : q > 127              ? 127
                           : q < -128             ? -128
                                                  : (int32_t)q;
            half[i / 16] += code * c.q[i];
            sum += code;
        }
        s = fmaf(c.d * scale, (float)(c.sc[0] * half[0] + c.sc[1] * half[1]), s);
        if (c.has_min) s = fmaf(c.m * scale, (float)(c.mn * sum), s);
        if ((k0 + 32) % SEGMENT && k0 + 32 < n) continue;
        total = k0 < SEGMENT ? s : total + s;
        s = 0;
    }
    return total;
}

enum { FINITE_X, ANY_X, TINY_X }; /* tiny: int8 scales are subnormal and codes saturate */

static void quant_case(kc_rng *r, mlsys_dtype t, int64_t m, int64_t n, int64_t k, int any,
                       int act) {
    mlsi_attr_quant_matmul at = {act};
    int64_t xs[] = {m % 2 ? 1 : 2, m % 2 ? m : m / 2, k}, ws[] = {n, k}, ys[] = {xs[0], xs[1], n};
    mlsys_dtype x_type = kc_bits(r) % 4 ? MLSYS_F32 : MLSYS_BF16;
    kc_call c = {.op = MLSI_OP_QUANT_MATMUL, .attrs = &at, .n_in = 2, .n_out = 1};
    kc_layout lx = (kc_layout)kc_int(r, 0, KC_LAYOUTS - 1), ly = (kc_layout)kc_int(r, 0, KC_PADDED);
    c.in[0] = kc_tensor_new(r, x_type, 3, xs, lx);
    c.in[1] = kc_tensor_new(r, t, 2, ws, KC_DENSE);
    c.out[0] = kc_tensor_new(r, x_type, 3, ys, ly);
    kc_fill(r, &c.in[0], any == ANY_X ? KC_ANY : KC_FINITE);
    for (int64_t i = 0; any == TINY_X && i < m * k; i++)
        kc_set_f(&c.in[0].view, i, (double)kc_int(r, -190, 190) * 0x1p-149);
    memcpy(c.in[0].before, c.in[0].block, c.in[0].bytes);
    /* Large scales keep what tiny activations give above zero. */
    fill_blocks(r, &c.in[1], any == TINY_X ? 1000 : 0.25, any == ANY_X);
    kc_tensor expected = kc_tensor_new(r, x_type, 3, ys, KC_DENSE);
    float *w = decoded(&c.in[1]);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            kc_set_f(&expected.view, i * n + j,
                     (double)(act == MLSI_ACT_F32
                                  ? dot(&c.in[0].view, i, w + j * k, k)
                                  : dot_int8(&c.in[0].view, i, t, row_of(&c.in[1], j), k)));
    free(w);
    char what[120];
    snprintf(what, sizeof what, "%s act %d m %lld n %lld k %lld layouts %d %d",
             mlsi_dtype_get(t)->name, act, (long long)m, (long long)n, (long long)k, (int)lx,
             (int)ly);
    for (int constant = 0; constant < 2; constant++) {
        c.constant[1] = constant;
        ck_assert_int_ge(kc_check(&c, &expected, what), constant + 1);
    }
    kc_call_free(&c);
    kc_tensor_free(&expected);
}

START_TEST(quant_matmul_is_exact) {
    static const int64_t ms[] = {1, 2, 3, 4, 5, 8, 13}, ns[] = {1, 31, 32, 33, 64, 100};
    mlsys_dtype t = formats[_i];
    int64_t block = mlsi_dtype_get(t)->block_elems;
    kc_rng r = kc_seed(SEED + (uint64_t)_i);
    printf("quant_matmul %s seed %llu\n", mlsi_dtype_get(t)->name, (unsigned long long)r.state);
    for (int act = MLSI_ACT_F32; act <= MLSI_ACT_INT8; act++) {
        for (int i = 0; i < 7; i++)
            for (int any = FINITE_X; any <= TINY_X; any++)
                quant_case(&r, t, ms[i], ns[kc_int(&r, 0, 5)],
                           block * kc_int(&r, 1, block == 32 ? 20 : 3), any, act);
        quant_case(&r, t, 0, 5, block, FINITE_X, act);
        quant_case(&r, t, 3, 0, block, FINITE_X, act);
        quant_case(&r, t, 2, 5, 0, FINITE_X, act);
        quant_case(&r, t, 300, 33, block, FINITE_X, act);
    }
}
END_TEST

START_TEST(dequantize_is_exact) {
    static const mlsys_dtype out[] = {MLSYS_F32, MLSYS_F16, MLSYS_BF16};
    mlsys_dtype t = formats[_i];
    kc_rng r = kc_seed(SEED + 100 + (uint64_t)_i);
    for (int i = 0; i < 9; i++) {
        int64_t s[] = {kc_int(&r, 1, 3), kc_int(&r, 0, 7),
                       mlsi_dtype_get(t)->block_elems * kc_int(&r, 0, 5)};
        kc_call c = {.op = MLSI_OP_DEQUANTIZE, .n_in = 1, .n_out = 1};
        c.in[0] = kc_tensor_new(&r, t, 3, s, KC_DENSE);
        c.out[0] = kc_tensor_new(&r, out[i % 3], 3, s, (kc_layout)kc_int(&r, 0, KC_PADDED));
        fill_blocks(&r, &c.in[0], 0.25, true);
        kc_tensor expected = kc_tensor_new(&r, out[i % 3], 3, s, KC_DENSE);
        float *w = decoded(&c.in[0]);
        for (int64_t j = 0; j < mlsi_view_count(&c.in[0].view); j++)
            kc_set_f(&expected.view, j, (double)w[j]);
        free(w);
        ck_assert_int_ge(kc_check(&c, &expected, mlsi_dtype_get(t)->name), 1);
        kc_call_free(&c);
        kc_tensor_free(&expected);
    }
}
END_TEST

/* Random codes under scales that let every code bit show in a sum of 256 weights. */
static void fill_visible(kc_rng *r, kc_tensor *w) {
    const mlsi_dtype_info *info = mlsi_dtype_get(w->view.dtype);
    int n, at = scales_at(w->view.dtype, &n);
    fill_blocks(r, w, 0.25, false);
    for (int64_t b = 0; b < mlsi_view_count(&w->view) / info->block_elems; b++) {
        uint8_t *p = (uint8_t *)w->view.data + b * info->block_bytes;
        for (int i = 0; i < n; i++)
            memcpy(p + at + 2 * i, &(uint16_t){0x2c00}, 2); /* 1/16 */
        if (w->view.dtype == MLSYS_Q4_K || w->view.dtype == MLSYS_Q5_K) memset(p + 4, 0x15, 12);
        if (w->view.dtype == MLSYS_Q6_K) memset(p + 192, 3, 16);
    }
    memcpy(w->before, w->block, w->bytes);
}

/* One changed bit of one code must change the result: the comparison sees every weight. */
START_TEST(every_weight_counts) {
    mlsys_dtype t = formats[_i % FORMATS];
    const mlsi_dtype_info *info = mlsi_dtype_get(t);
    mlsi_attr_quant_matmul at = {_i / FORMATS};
    kc_rng r = kc_seed(SEED + 200 + (uint64_t)_i);
    int64_t xs[] = {1, 256}, ws[] = {33, 256}, ys[] = {1, 33};
    kc_call c = {.op = MLSI_OP_QUANT_MATMUL, .attrs = &at, .n_in = 2, .n_out = 1};
    c.in[0] = kc_tensor_new(&r, MLSYS_F32, 2, xs, KC_DENSE);
    c.in[1] = kc_tensor_new(&r, t, 2, ws, KC_DENSE);
    c.out[0] = kc_tensor_new(&r, MLSYS_F32, 2, ys, KC_DENSE);
    c.constant[1] = true;
    for (int64_t k = 0; k < 256; k++)
        kc_set_f(&c.in[0].view, k, 1.0);
    memcpy(c.in[0].before, c.in[0].block, c.in[0].bytes);
    int bytes = info->block_bytes, n, at_scale = scales_at(t, &n);
    int64_t changed_row = kc_int(&r, 0, 32) * (256 / info->block_elems) * bytes;
    for (int i = 0; i < bytes; i++) {
        if (i >= at_scale && i < at_scale + 2 * n) continue;
        fill_visible(&r, &c.in[1]);
        const mlsi_kernel *row = kc_row(MLSI_OP_QUANT_MATMUL, 0);
        for (int j = 1; !kc_accepts(row, &c); j++)
            row = kc_row(MLSI_OP_QUANT_MATMUL, j);
        ck_assert_int_eq(kc_run(row, &c, 0), MLSYS_OK);
        float before[33], after[33];
        memcpy(before, c.out[0].view.data, sizeof before);
        ((uint8_t *)c.in[1].view.data)[changed_row + i] ^= 0x40;
        memcpy(c.in[1].before, c.in[1].block, c.in[1].bytes);
        ck_assert_int_eq(kc_run(row, &c, 0), MLSYS_OK);
        memcpy(after, c.out[0].view.data, sizeof after);
        int changed = 0;
        for (int j = 0; j < 33; j++)
            changed += memcmp(&before[j], &after[j], 4) != 0;
        ck_assert_msg(changed == 1, "%s: byte %d changed %d results", info->name, i, changed);
    }
    kc_call_free(&c);
}
END_TEST

int main(void) {
    Suite *s = suite_create("kernel_quant_matmul");
    TCase *t = tcase_create("rows");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, quant_matmul_is_exact, 0, FORMATS);
    tcase_add_loop_test(t, dequantize_is_exact, 0, FORMATS);
    tcase_add_loop_test(t, every_weight_counts, 0, 2 * FORMATS);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
