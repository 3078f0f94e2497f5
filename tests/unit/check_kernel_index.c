/* gather, embedding, scatter, sort and topk against literal code. */
#include "support/kernel_case.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEED = 20261203 };

static const mlsys_dtype plain[] = {MLSYS_F32, MLSYS_F64,    MLSYS_F16,    MLSYS_BF16,
                                    MLSYS_I64, MLSYS_F8E4M3, MLSYS_I32,    MLSYS_I16,
                                    MLSYS_I8,  MLSYS_U8,     MLSYS_F8E5M2, MLSYS_BOOL};
enum { PLAIN = (int)(sizeof plain / sizeof plain[0]), NUMBERS = PLAIN - 1 };

static void fill_indices(kc_rng *r, kc_tensor *ids, int64_t n) {
    for (int64_t i = 0; i < mlsi_view_count(&ids->view); i++)
        kc_set_i(&ids->view, i, kc_int(r, -n, n - 1));
    memcpy(ids->before, ids->block, ids->bytes);
}

/* Shape of x with the axis replaced by the shape of ids. */
static int indexed_shape(const mlsi_view *x, int axis, const mlsi_view *ids, int64_t *out) {
    int rank = 0;
    for (int d = 0; d < axis; d++)
        out[rank++] = x->shape[d];
    for (int d = 0; d < ids->rank; d++)
        out[rank++] = ids->shape[d];
    for (int d = axis + 1; d < x->rank; d++)
        out[rank++] = x->shape[d];
    return rank;
}

/* Linear index in x for the linear index i of an indexed shape; *j is the position in ids. */
static int64_t source_index(const mlsi_view *x, int axis, const mlsi_view *ids, int64_t i,
                            int64_t *j) {
    int64_t inner = 1, count = mlsi_view_count(ids), n = x->shape[axis];
    for (int d = axis + 1; d < x->rank; d++)
        inner *= x->shape[d];
    *j = i / inner % count;
    int64_t row = kc_get_i(ids, *j);
    if (row < 0) row += n;
    return (i / inner / count * n + row) * inner + i % inner;
}

static void random_table(kc_rng *r, mlsys_dtype t, int rank, kc_tensor *x) {
    int64_t shape[4];
    for (int d = 0; d < rank; d++)
        shape[d] = kc_int(r, 1, d == rank - 1 ? 40 : 6);
    *x = kc_tensor_new(r, t, rank, shape, (kc_layout)kc_int(r, 0, KC_BROADCAST));
    kc_fill(r, x, KC_ANY);
}

static kc_tensor random_ids(kc_rng *r, int64_t n) {
    int64_t shape[3] = {kc_int(r, 1, 4), kc_int(r, 0, 12), 2};
    kc_tensor ids = kc_tensor_new(r, kc_bits(r) % 2 ? MLSYS_I32 : MLSYS_I64, (int)kc_int(r, 0, 3),
                                  shape, (kc_layout)kc_int(r, 0, KC_BROADCAST));
    fill_indices(r, &ids, n);
    return ids;
}

/* Every position is checked: put a bad index at one and look for the sentence. */
static void check_refused(kc_rng *r, kc_call *c, int64_t n) {
    const mlsi_view *ids = &c->in[1].view;
    int64_t count = mlsi_view_count(ids);
    bool broadcast = false;
    char want[128];
    const mlsi_kernel *k;
    for (int d = 0; d < ids->rank; d++)
        broadcast = broadcast || (ids->shape[d] > 1 && ids->strides[d] == 0);
    if (count == 0 || broadcast) return;
    int64_t at = kc_int(r, 0, count - 1), bad = kc_bits(r) % 2 ? n + kc_int(r, 0, 3) : -n - 1;
    kc_set_i(ids, at, bad);
    memcpy(c->in[1].before, c->in[1].block, c->in[1].bytes);
    snprintf(want, sizeof want, "index %lld at position %lld outside", (long long)bad,
             (long long)at);
    for (int i = 0; (k = kc_row(c->op, i)) != NULL; i++) {
        if (!kc_accepts(k, c)) continue;
        ck_assert_int_eq(kc_run(k, c, 2), MLSYS_E_ARG);
        ck_assert_msg(strstr(mlsys_last_error(), want) != NULL, "%s", mlsys_last_error());
        ck_assert_ptr_nonnull(strstr(mlsys_last_error(), mlsi_op_name(c->op)));
    }
}

START_TEST(gather) {
    kc_rng r = kc_seed(SEED);
    for (int repeat = 0; repeat < 250; repeat++) {
        mlsys_dtype t = plain[repeat % PLAIN];
        int rank = (int)kc_int(&r, 1, 4), axis = (int)kc_int(&r, 0, rank - 1);
        mlsi_attr_axis attrs = {.axis = repeat % 2 ? axis : axis - rank};
        kc_call c = {.op = MLSI_OP_GATHER, .attrs = &attrs, .n_in = 2, .n_out = 1};
        random_table(&r, t, rank, &c.in[0]);
        c.in[1] = random_ids(&r, c.in[0].view.shape[axis]);
        int64_t shape[8];
        int out_rank = indexed_shape(&c.in[0].view, axis, &c.in[1].view, shape);
        c.out[0] = kc_tensor_new(&r, t, out_rank, shape, (kc_layout)kc_int(&r, 0, KC_PADDED));
        kc_tensor e = kc_tensor_new(&r, t, out_rank, shape, KC_DENSE);
        for (int64_t i = 0, j; i < mlsi_view_count(&e.view); i++)
            memcpy(kc_at(&e.view, i),
                   kc_at(&c.in[0].view, source_index(&c.in[0].view, axis, &c.in[1].view, i, &j)),
                   (size_t)mlsi_dtype_size(t));
        ck_assert_int_gt(kc_check(&c, &e, "gather"), 0);
        check_refused(&r, &c, c.in[0].view.shape[axis]);
        kc_tensor_free(&e);
        kc_call_free(&c);
    }
}
END_TEST

START_TEST(embedding) {
    static const mlsys_dtype tables[] = {MLSYS_F32, MLSYS_F16, MLSYS_BF16, MLSYS_F8E4M3, MLSYS_F64};
    kc_rng r = kc_seed(SEED + 1);
    for (int repeat = 0; repeat < 120; repeat++) {
        mlsys_dtype t = tables[repeat % 5];
        mlsys_dtype out = t == MLSYS_F64 ? t : tables[kc_int(&r, 0, 3)];
        int64_t table[2] = {kc_int(&r, 1, 30), kc_int(&r, 0, 9) ? kc_int(&r, 1, 40) : 700};
        mlsi_attr_embedding attrs = {.dtype = out};
        kc_call c = {.op = MLSI_OP_EMBEDDING, .attrs = &attrs, .n_in = 2, .n_out = 1};
        c.in[0] = kc_tensor_new(&r, t, 2, table, (kc_layout)kc_int(&r, 0, KC_BROADCAST));
        kc_fill(&r, &c.in[0], KC_ANY);
        c.in[1] = random_ids(&r, table[0]);
        int64_t shape[8];
        int rank = indexed_shape(&c.in[0].view, 0, &c.in[1].view, shape);
        c.out[0] = kc_tensor_new(&r, out, rank, shape, (kc_layout)kc_int(&r, 0, KC_PADDED));
        kc_tensor e = kc_tensor_new(&r, out, rank, shape, KC_DENSE);
        for (int64_t i = 0, j; i < mlsi_view_count(&e.view); i++)
            kc_set_f(&e.view, i,
                     kc_get_f(&c.in[0].view, source_index(&c.in[0].view, 0, &c.in[1].view, i, &j)));
        ck_assert_int_gt(kc_check(&c, &e, mlsi_dtype_get(t)->name), 0);
        check_refused(&r, &c, table[0]);
        kc_tensor_free(&e);
        kc_call_free(&c);
    }
}
END_TEST

/* q8_0: d * q, one rounding; the other formats are decoded by the code that quant_matmul's suite
 * tests. */
START_TEST(embedding_of_blocks) {
    static const int64_t table[2] = {5, 96};
    kc_rng r = kc_seed(SEED + 2);
    mlsi_attr_embedding attrs = {.dtype = MLSYS_F32};
    kc_call c = {.op = MLSI_OP_EMBEDDING, .attrs = &attrs, .n_in = 2, .n_out = 1};
    c.in[0] = kc_tensor_new(&r, MLSYS_Q8_0, 2, table, KC_DENSE);
    mlsi_q8_0 *blocks = c.in[0].view.data;
    for (int b = 0; b < 15; b++) {
        blocks[b].d = (uint16_t)(kc_bits(&r) & 0x3fff);
        for (int i = 0; i < 32; i++)
            blocks[b].q[i] = (int8_t)kc_bits(&r);
    }
    memcpy(c.in[0].before, c.in[0].block, c.in[0].bytes);
    int64_t count = 7, shape[2] = {7, 96};
    c.in[1] = kc_tensor_new(&r, MLSYS_I32, 1, &count, KC_DENSE);
    fill_indices(&r, &c.in[1], 5);
    c.out[0] = kc_tensor_new(&r, MLSYS_F32, 2, shape, KC_PADDED);
    kc_tensor e = kc_tensor_new(&r, MLSYS_F32, 2, shape, KC_DENSE);
    for (int64_t i = 0; i < 7 * 96; i++) {
        int64_t row = kc_get_i(&c.in[1].view, i / 96);
        const mlsi_q8_0 *b = &blocks[(row < 0 ? row + 5 : row) * 3 + i % 96 / 32];
        kc_set_f(&e.view, i, (double)(mlsi_f16_to_f32(b->d) * (float)b->q[i % 32]));
    }
    ck_assert_int_gt(kc_check(&c, &e, "q8_0"), 0);
    kc_tensor_free(&e);
    kc_call_free(&c);
}
END_TEST

/* ---- scatter --------------------------------------------------------------------------------- */

static double update(int64_t kind, mlsys_dtype t, double y, double u) {
    bool f64 = t == MLSYS_F64;
    bool unordered = isnan(y) || isnan(u), zeros = y == 0 && u == 0;
    switch (kind) {
    case MLSI_SCATTER_ADD: return f64 ? y + u : (double)((float)y + (float)u);
    case MLSI_SCATTER_MUL: return f64 ? y * u : (double)((float)y * (float)u);
    case MLSI_SCATTER_MAX:
        return unordered ? NAN : zeros ? (signbit(y) && signbit(u) ? -0.0 : 0.0) : y > u ? y : u;
    default:
        return unordered ? NAN : zeros ? (signbit(y) || signbit(u) ? -0.0 : 0.0) : y < u ? y : u;
    }
}

static int64_t update_int(int64_t kind, int64_t y, int64_t u) {
    switch (kind) {
    case MLSI_SCATTER_ADD: return (int64_t)((uint64_t)y + (uint64_t)u);
    case MLSI_SCATTER_MUL: return (int64_t)((uint64_t)y * (uint64_t)u);
    case MLSI_SCATTER_MAX: return y > u ? y : u;
    default: return y < u ? y : u;
    }
}

static void scatter_reference(const kc_call *c, int axis, int64_t kind, const mlsi_view *y) {
    const mlsi_view *x = &c->in[0].view, *ids = &c->in[1].view, *u = &c->in[2].view;
    size_t size = (size_t)mlsi_dtype_size(x->dtype);
    for (int64_t i = 0; i < mlsi_view_count(y); i++)
        memcpy(kc_at(y, i), kc_at(x, i), size);
    for (int64_t i = 0, j; i < mlsi_view_count(u); i++) {
        int64_t at = source_index(x, axis, ids, i, &j);
        if (kind == MLSI_SCATTER_SET)
            memcpy(kc_at(y, at), kc_at(u, i), size);
        else if (mlsi_dtype_is_float(x->dtype))
            kc_set_f(y, at, update(kind, x->dtype, kc_get_f(y, at), kc_get_f(u, i)));
        else
            kc_set_i(y, at, update_int(kind, kc_get_i(y, at), kc_get_i(u, i)));
    }
}

START_TEST(scatter) {
    kc_rng r = kc_seed(SEED + 3);
    for (int repeat = 0; repeat < 250; repeat++) {
        mlsys_dtype t = plain[repeat % NUMBERS];
        int rank = (int)kc_int(&r, 1, 3), axis = (int)kc_int(&r, 0, rank - 1);
        mlsi_attr_scatter attrs = {.axis = repeat % 2 ? axis : axis - rank,
                                   .kind = kc_int(&r, 0, 4)};
        kc_call c = {.op = MLSI_OP_SCATTER, .attrs = &attrs, .n_in = 3, .n_out = 1};
        random_table(&r, t, rank, &c.in[0]);
        c.in[1] = random_ids(&r, c.in[0].view.shape[axis]);
        int64_t shape[8];
        int u_rank = indexed_shape(&c.in[0].view, axis, &c.in[1].view, shape);
        c.in[2] = kc_tensor_new(&r, t, u_rank, shape, (kc_layout)kc_int(&r, 0, KC_BROADCAST));
        kc_fill(&r, &c.in[2], KC_ANY);
        c.out[0] =
            kc_tensor_new(&r, t, rank, c.in[0].view.shape, (kc_layout)kc_int(&r, 0, KC_PADDED));
        kc_tensor e = kc_tensor_new(&r, t, rank, c.in[0].view.shape, KC_DENSE);
        scatter_reference(&c, axis, attrs.kind, &e.view);
        ck_assert_int_gt(kc_check(&c, &e, mlsi_dtype_get(t)->name), 0);
        check_refused(&r, &c, c.in[0].view.shape[axis]);
        kc_tensor_free(&e);
        kc_call_free(&c);
    }
}
END_TEST

/* ---- sort, topk ------------------------------------------------------------------------------ */

static bool before(const mlsi_view *x, int64_t i, int64_t j, bool descending) {
    if (!mlsi_dtype_is_float(x->dtype)) {
        int64_t p = kc_get_i(x, i), q = kc_get_i(x, j);
        return descending ? p > q : p < q;
    }
    double a = kc_get_f(x, i), b = kc_get_f(x, j);
    int p = isnan(a), q = isnan(b);
    if (p || q) return descending ? p > q : p < q;
    return descending ? a > b : a < b;
}

START_TEST(sort_and_topk) {
    kc_rng r = kc_seed(SEED + 4);
    for (int repeat = 0; repeat < 300; repeat++) {
        mlsys_dtype t = plain[repeat % NUMBERS];
        int axis = (int)kc_int(&r, 0, 2);
        bool top = repeat % 3 == 0;
        int64_t shape[3] = {kc_int(&r, 1, 3), kc_int(&r, 0, 4), kc_int(&r, 1, 3)}, out[3];
        shape[axis] = repeat % 20 ? kc_int(&r, 1, 90) : 1500;
        int64_t n = shape[axis], inner = axis == 2 ? 1 : axis == 1 ? shape[2] : shape[1] * shape[2];
        mlsi_attr_sort sort = {.axis = axis - 3 * (repeat % 2), .descending = kc_int(&r, 0, 1)};
        mlsi_attr_topk topk = {.axis = sort.axis, .k = kc_int(&r, 0, n)};
        if (repeat % 2 && n > 20) topk.k = kc_int(&r, 1, 9);
        bool descending = top || sort.descending;
        kc_call c = {.op = top ? MLSI_OP_TOPK : MLSI_OP_SORT,
                     .attrs = top ? (const void *)&topk : (const void *)&sort,
                     .n_in = 1,
                     .n_out = repeat % 5 ? 2 : 1};
        c.in[0] = kc_tensor_new(&r, t, 3, shape, (kc_layout)kc_int(&r, 0, KC_BROADCAST));
        kc_fill(&r, &c.in[0], repeat % 4 ? KC_ANY : KC_SMALL);
        memcpy(out, shape, sizeof out);
        if (top) out[axis] = topk.k;
        kc_tensor e[2];
        for (int o = 0; o < 2; o++) {
            mlsys_dtype type = o ? MLSYS_I64 : t;
            if (o < c.n_out)
                c.out[o] = kc_tensor_new(&r, type, 3, out, (kc_layout)kc_int(&r, 0, KC_PADDED));
            e[o] = kc_tensor_new(&r, type, 3, out, KC_DENSE);
        }
        const mlsi_view *x = &c.in[0].view;
        int64_t *order = malloc((size_t)n * sizeof *order);
        for (int64_t row = 0; n && row < mlsi_view_count(x) / n; row++) {
            int64_t base = row / inner * n * inner + row % inner;
            int64_t to = row / inner * out[axis] * inner + row % inner;
            for (int64_t i = 0; i < n; i++) { /* insertion: stable */
                int64_t j = i;
                for (;
                     j > 0 && before(x, base + i * inner, base + order[j - 1] * inner, descending);
                     j--)
                    order[j] = order[j - 1];
                order[j] = i;
            }
            for (int64_t i = 0; i < out[axis]; i++) {
                memcpy(kc_at(&e[0].view, to + i * inner), kc_at(x, base + order[i] * inner),
                       (size_t)mlsi_dtype_size(t));
                kc_set_i(&e[1].view, to + i * inner, order[i]);
            }
        }
        ck_assert_int_gt(kc_check(&c, e, mlsi_dtype_get(t)->name), 0);
        free(order);
        kc_tensor_free(&e[0]);
        kc_tensor_free(&e[1]);
        kc_call_free(&c);
    }
}
END_TEST

int main(void) {
    printf("seed %d\n", SEED);
    Suite *s = suite_create("kernel_index");
    TCase *t = tcase_create("index");
    suite_add_tcase(s, t);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, gather);
    tcase_add_test(t, embedding);
    tcase_add_test(t, embedding_of_blocks);
    tcase_add_test(t, scatter);
    tcase_add_test(t, sort_and_topk);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
