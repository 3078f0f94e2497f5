/* conv and pool against literal loops. */
#include "support/canonical_reference.h"
#include "support/kernel_case.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEED = 20261204 };

typedef struct geometry {
    int spatial;
    int64_t x[3], y[3], kernel[3], stride[3], dilation[3], low[3], high[3], extra[3];
    bool transposed;
} geometry;

/* Window parameters with at least one result per axis. */
static geometry random_geometry(kc_rng *r, bool transposed, bool ceil_mode) {
    geometry g = {.spatial = (int)kc_int(r, 1, 3), .transposed = transposed};
    for (int d = 0; d < g.spatial; d++) {
        g.kernel[d] = kc_int(r, 1, 4);
        g.stride[d] = kc_int(r, 1, 3);
        g.dilation[d] = kc_int(r, 1, 2);
        g.low[d] = kc_int(r, 0, 2);
        g.high[d] = kc_int(r, 0, 2);
        g.x[d] = kc_int(r, 1, g.spatial == 1 ? 90 : g.spatial == 2 ? 14 : 6);
        int64_t reach = g.dilation[d] * (g.kernel[d] - 1) + 1;
        if (transposed) {
            g.extra[d] =
                kc_int(r, 0, (g.stride[d] > g.dilation[d] ? g.stride[d] : g.dilation[d]) - 1);
            g.y[d] = (g.x[d] - 1) * g.stride[d] + reach + g.extra[d] - g.low[d] - g.high[d];
            if (g.y[d] < 0) g.y[d] = 0;
        } else {
            if (g.x[d] + g.low[d] + g.high[d] < reach) g.x[d] = reach;
            int64_t room = g.x[d] + g.low[d] + g.high[d] - reach;
            g.y[d] = (ceil_mode ? (room + g.stride[d] - 1) / g.stride[d] : room / g.stride[d]) + 1;
            if (ceil_mode && (g.y[d] - 1) * g.stride[d] >= g.x[d] + g.low[d]) g.y[d]--;
        }
    }
    return g;
}

static void geometry_lists(const geometry *g, mlsi_list *strides, mlsi_list *dilations,
                           mlsi_list *pads) {
    strides->n = dilations->n = g->spatial;
    pads->n = 2 * g->spatial;
    for (int d = 0; d < g->spatial; d++) {
        strides->v[d] = g->stride[d];
        dilations->v[d] = g->dilation[d];
        pads->v[d] = g->low[d];
        pads->v[g->spatial + d] = g->high[d];
    }
}

enum { INSIDE, PAD, BEHIND };

/* Row-major index in x's spatial axes of cell `cell` of the window of position `p`. */
static int meet(const geometry *g, int64_t p, int64_t cell, int64_t *at) {
    int64_t v[3];
    int where = INSIDE;
    for (int d = g->spatial - 1; d >= 0; d--) {
        int64_t out = p % g->y[d], tap = cell % g->kernel[d];
        p /= g->y[d];
        cell /= g->kernel[d];
        if (g->transposed) {
            v[d] = out + g->low[d] - tap * g->dilation[d];
            bool hit = v[d] >= 0 && v[d] % g->stride[d] == 0 && v[d] / g->stride[d] < g->x[d];
            v[d] /= g->stride[d];
            if (!hit) where = PAD;
            continue;
        }
        v[d] = out * g->stride[d] + tap * g->dilation[d] - g->low[d];
        if (v[d] >= g->x[d] + g->high[d])
            where = BEHIND;
        else if ((v[d] < 0 || v[d] >= g->x[d]) && where == INSIDE)
            where = PAD;
    }
    *at = 0;
    for (int d = 0; d < g->spatial; d++)
        *at = *at * g->x[d] + v[d];
    return where;
}

static int64_t product(const int64_t *v, int n) {
    int64_t p = 1;
    for (int i = 0; i < n; i++)
        p *= v[i];
    return p;
}

/* ---- conv ------------------------------------------------------------------------------------ */

static void conv_reference(const kc_call *c, const geometry *g, int64_t groups,
                           const mlsi_view *y) {
    const mlsi_view *x = &c->in[0].view, *w = &c->in[1].view;
    int64_t in_group = x->shape[1] / groups, out_group = y->shape[1] / groups;
    int64_t cells = product(g->kernel, g->spatial), xs = product(g->x, g->spatial);
    int64_t ys = product(g->y, g->spatial), k = in_group * cells;
    double *a = malloc((size_t)(k + 1) * sizeof *a), *b = malloc((size_t)(k + 1) * sizeof *b);
    for (int64_t i = 0; i < mlsi_view_count(y); i++) {
        int64_t p = i % ys, o = i / ys % y->shape[1], image = i / ys / y->shape[1];
        for (int64_t j = 0, at; j < k; j++) {
            int64_t channel = o / out_group * in_group + j / cells, cell = j % cells;
            a[j] = meet(g, p, cell, &at) == INSIDE
                       ? kc_get_f(x, (image * x->shape[1] + channel) * xs + at)
                       : 0;
            b[j] =
                kc_get_f(w, g->transposed ? (channel * w->shape[1] + o % out_group) * cells + cell
                                          : (o * w->shape[1] + j / cells) * cells + cell);
        }
        kc_set_f(y, i, cr_dot(x->dtype == MLSYS_F64, a, b, k));
    }
    free(a);
    free(b);
}

static void check_conv(kc_rng *r, mlsys_dtype t, const geometry *g, int64_t images, int64_t groups,
                       int64_t in_group, int64_t out_group, kc_fill_kind fill) {
    int64_t x[5] = {images, groups * in_group}, w[5] = {groups * out_group, in_group};
    int64_t y[5] = {images, groups * out_group};
    mlsi_attr_conv attrs = {.groups = groups, .transposed = g->transposed};
    int rank = 2 + g->spatial;
    char what[128];
    if (g->transposed) w[0] = groups * in_group, w[1] = out_group;
    geometry_lists(g, &attrs.strides, &attrs.dilations, &attrs.pads);
    attrs.output_pads.n = g->spatial;
    for (int d = 0; d < g->spatial; d++) {
        x[2 + d] = g->x[d];
        w[2 + d] = g->kernel[d];
        y[2 + d] = g->y[d];
        attrs.output_pads.v[d] = g->extra[d];
    }
    kc_call c = {.op = MLSI_OP_CONV, .attrs = &attrs, .n_in = 2, .n_out = 1};
    c.in[0] = kc_tensor_new(r, t, rank, x, (kc_layout)kc_int(r, 0, KC_BROADCAST));
    c.in[1] = kc_tensor_new(r, t, rank, w, (kc_layout)kc_int(r, 0, KC_BROADCAST));
    kc_fill(r, &c.in[0], fill);
    kc_fill(r, &c.in[1], fill);
    c.out[0] = kc_tensor_new(r, t, rank, y, (kc_layout)kc_int(r, 0, KC_PADDED));
    kc_tensor e = kc_tensor_new(r, t, rank, y, KC_DENSE);
    conv_reference(&c, g, groups, &e.view);
    snprintf(what, sizeof what, "%s, %d axes, %lld groups of %lld to %lld%s",
             mlsi_dtype_get(t)->name, g->spatial, (long long)groups, (long long)in_group,
             (long long)out_group, g->transposed ? ", transposed" : "");
    ck_assert_msg(kc_check(&c, &e, what) > 0, "no kernel: %s", what);
    kc_tensor_free(&e);
    kc_call_free(&c);
}

START_TEST(conv) {
    static const mlsys_dtype types[] = {MLSYS_F32, MLSYS_F32, MLSYS_F16, MLSYS_BF16, MLSYS_F64};
    kc_rng r = kc_seed(SEED);
    for (int repeat = 0; repeat < 300; repeat++) {
        geometry g = random_geometry(&r, repeat % 3 == 0, false);
        check_conv(&r, types[repeat % 5], &g, kc_int(&r, 0, 9) ? kc_int(&r, 1, 2) : 0,
                   kc_int(&r, 1, 3), kc_int(&r, 0, 9) ? kc_int(&r, 1, 5) : 0, kc_int(&r, 1, 15),
                   repeat % 6 ? KC_FINITE : KC_ANY);
    }
}
END_TEST

/* Several K segments, several panels, channels cut among threads. */
START_TEST(conv_large) {
    kc_rng r = kc_seed(SEED + 1);
    geometry g = {.spatial = 2,
                  .x = {9, 17},
                  .kernel = {3, 3},
                  .stride = {1, 1},
                  .dilation = {1, 1},
                  .low = {1, 1},
                  .high = {1, 1},
                  .y = {9, 17}};
    check_conv(&r, MLSYS_F32, &g, 1, 1, 60, 50, KC_FINITE);
    check_conv(&r, MLSYS_F32, &g, 2, 60, 1, 1, KC_FINITE);
    geometry point = {
        .spatial = 1, .x = {5}, .kernel = {1}, .stride = {1}, .dilation = {1}, .y = {5}};
    check_conv(&r, MLSYS_F32, &point, 1, 1, 600, 130, KC_FINITE);
}
END_TEST

/* ---- pool ------------------------------------------------------------------------------------ */

static double larger(double a, double b) {
    if (isnan(a) || isnan(b)) return NAN;
    if (a == 0 && b == 0) return signbit(a) && signbit(b) ? -0.0 : 0.0;
    return a > b ? a : b;
}

static void pool_reference(const kc_call *c, const geometry *g, const mlsi_view *y) {
    const mlsi_attr_pool *attrs = c->attrs;
    const mlsi_view *x = &c->in[0].view;
    int64_t cells = product(g->kernel, g->spatial), xs = product(g->x, g->spatial);
    int64_t ys = product(g->y, g->spatial), at;
    bool max = attrs->kind == MLSI_POOL_MAX, f64 = x->dtype == MLSYS_F64;
    double *v = malloc((size_t)cells * sizeof *v);
    for (int64_t i = 0; i < mlsi_view_count(y); i++) {
        double m = -INFINITY;
        int64_t count = 0, n = max ? mlsi_f64_to_int(-1e30, x->dtype) : 0;
        for (int64_t cell = 0; cell < cells; cell++) {
            int where = meet(g, i % ys, cell, &at);
            v[cell] = 0;
            count += where == INSIDE || (where == PAD && attrs->count_pad);
            if (where != INSIDE) continue;
            at += i / ys * xs;
            if (mlsi_dtype_is_float(x->dtype)) {
                v[cell] = kc_get_f(x, at);
                m = larger(m, v[cell]);
            } else {
                int64_t q = kc_get_i(x, at);
                n = !max ? (int64_t)((uint64_t)n + (uint64_t)q) : q > n ? q : n;
            }
        }
        double s = max ? m : cr_sum(f64, v, cells);
        if (attrs->kind == MLSI_POOL_AVERAGE)
            s = f64 ? s / (double)count : (double)((float)s / (float)count);
        if (mlsi_dtype_is_float(x->dtype))
            kc_set_f(y, i, s);
        else
            kc_set_i(y, i, n);
    }
    free(v);
}

static void check_pool(kc_rng *r, mlsys_dtype t, const geometry *g, mlsi_attr_pool attrs,
                       kc_fill_kind fill) {
    int64_t x[5] = {kc_int(r, 1, 2), kc_int(r, 1, 3)}, y[5] = {x[0], x[1]};
    attrs.kernel.n = g->spatial;
    geometry_lists(g, &attrs.strides, &attrs.dilations, &attrs.pads);
    for (int d = 0; d < g->spatial; d++) {
        attrs.kernel.v[d] = g->kernel[d];
        x[2 + d] = g->x[d];
        y[2 + d] = g->y[d];
    }
    kc_call c = {.op = MLSI_OP_POOL, .attrs = &attrs, .n_in = 1, .n_out = 1};
    c.in[0] = kc_tensor_new(r, t, 2 + g->spatial, x, (kc_layout)kc_int(r, 0, KC_BROADCAST));
    kc_fill(r, &c.in[0], fill);
    c.out[0] = kc_tensor_new(r, t, 2 + g->spatial, y, (kc_layout)kc_int(r, 0, KC_PADDED));
    kc_tensor e = kc_tensor_new(r, t, 2 + g->spatial, y, KC_DENSE);
    pool_reference(&c, g, &e.view);
    ck_assert_int_gt(kc_check(&c, &e, mlsi_dtype_get(t)->name), 0);
    kc_tensor_free(&e);
    kc_call_free(&c);
}

START_TEST(pool) {
    static const mlsys_dtype types[] = {MLSYS_F32, MLSYS_BF16, MLSYS_F64, MLSYS_F32,
                                        MLSYS_I32, MLSYS_U8,   MLSYS_I64};
    kc_rng r = kc_seed(SEED + 2);
    for (int repeat = 0; repeat < 300; repeat++) {
        mlsys_dtype t = types[repeat % 7];
        mlsi_attr_pool attrs = {
            .kind = kc_int(&r, 0, 2), .count_pad = kc_int(&r, 0, 1), .ceil_mode = kc_int(&r, 0, 1)};
        if (!mlsi_dtype_is_float(t) && attrs.kind == MLSI_POOL_AVERAGE) attrs.kind = MLSI_POOL_SUM;
        geometry g = random_geometry(&r, false, attrs.ceil_mode != 0);
        check_pool(&r, t, &g, attrs, repeat % 3 ? KC_FINITE : KC_ANY);
    }
}
END_TEST

/* Windows of more cells than lanes, and than a chunk. */
START_TEST(pool_large_windows) {
    kc_rng r = kc_seed(SEED + 3);
    mlsi_attr_pool attrs = {.kind = MLSI_POOL_AVERAGE, .count_pad = 1};
    geometry lanes = {.spatial = 2,
                      .x = {14, 15},
                      .kernel = {12, 13},
                      .stride = {1, 1},
                      .dilation = {1, 1},
                      .low = {1, 1},
                      .high = {1, 1},
                      .y = {5, 5}};
    geometry chunk = {.spatial = 2,
                      .x = {70, 71},
                      .kernel = {70, 70},
                      .stride = {1, 1},
                      .dilation = {1, 1},
                      .y = {1, 2}};
    check_pool(&r, MLSYS_F32, &lanes, attrs, KC_FINITE);
    check_pool(&r, MLSYS_F32, &chunk, attrs, KC_FINITE);
    attrs.kind = MLSI_POOL_MAX;
    check_pool(&r, MLSYS_F32, &lanes, attrs, KC_FINITE);
    check_pool(&r, MLSYS_F16, &chunk, attrs, KC_FINITE);
}
END_TEST

int main(void) {
    printf("seed %d\n", SEED);
    Suite *s = suite_create("kernel_conv");
    TCase *t = tcase_create("conv");
    suite_add_tcase(s, t);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, conv);
    tcase_add_test(t, conv_large);
    tcase_add_test(t, pool);
    tcase_add_test(t, pool_large_windows);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
