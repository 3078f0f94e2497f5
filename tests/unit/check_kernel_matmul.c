/* dot_general and matmul rows against three loops written after docs/numerics.md. */
#include "support/kernel_case.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 20261201, SEGMENT = 256 };

/* ---- reference ------------------------------------------------------------------------------- */

static mlsys_dtype compute_of(mlsys_dtype t) {
    if (!mlsi_dtype_is_float(t)) return MLSYS_I64;
    return t == MLSYS_F64 ? MLSYS_F64 : MLSYS_F32;
}

/* Planted faults: the suite must notice a reference that differs from the contract in one of
 * these. */
typedef enum fault { NO_FAULT, FAULT_SEGMENT, FAULT_TWO_ROUNDINGS, FAULT_DROPS_LAST } fault;

/* c[i] = dot of n pairs at a[ia(k)], b[ib(k)], given as arrays of row-major indices, after an addend that may be
 * absent (data NULL). */
static void reference_dot(const mlsi_view *a, const int64_t *ia, const mlsi_view *b,
                          const int64_t *ib, int64_t n, const mlsi_view *addend, const mlsi_view *c,
                          int64_t i, fault f) {
    float total32 = 0, s32 = 0;
    double total64 = 0, s64 = 0;
    uint64_t sum = 0;
    bool added = addend && addend->data;
    int64_t segment = f == FAULT_SEGMENT ? SEGMENT / 2 : SEGMENT;
    mlsys_dtype compute = compute_of(c->dtype);
    if (f == FAULT_DROPS_LAST && n > 0) n--;
    if (added && compute == MLSYS_I64)
        sum = (uint64_t)kc_get_i(addend, i);
    else if (added)
        total64 = kc_get_f(addend, i), total32 = (float)total64;
    if (n == 0) total32 += 0.0f, total64 += 0.0; /* one empty segment */
    for (int64_t k = 0; k < n; k++) {
        if (compute == MLSYS_I64) {
            sum += (uint64_t)kc_get_i(a, ia[k]) * (uint64_t)kc_get_i(b, ib[k]);
        } else if (compute == MLSYS_F64) {
            s64 = fma(kc_get_f(a, ia[k]), kc_get_f(b, ib[k]), s64);
        } else {
            float x = (float)kc_get_f(a, ia[k]), y = (float)kc_get_f(b, ib[k]);
            s32 = f == FAULT_TWO_ROUNDINGS ? x * y + s32 : fmaf(x, y, s32);
        }
        if ((k + 1) % segment && k + 1 < n) continue;
        total32 = k < segment && !added ? s32 : total32 + s32;
        total64 = k < segment && !added ? s64 : total64 + s64;
        s32 = 0, s64 = 0;
    }
    if (compute == MLSYS_I64)
        kc_set_i(c, i, (int64_t)sum);
    else
        kc_set_f(c, i, compute == MLSYS_F64 ? total64 : (double)total32);
}

/* Row-major index from a multi-index. */
static int64_t linear(const mlsi_view *v, const int64_t *index) {
    int64_t r = 0;
    for (int d = 0; d < v->rank; d++)
        r = r * v->shape[d] + index[d];
    return r;
}

static bool listed(const mlsi_list *l, int d) {
    for (int64_t i = 0; i < l->n; i++)
        if (l->v[i] == d) return true;
    return false;
}

/* Set the contracted entries of index to those of the flat k. */
static void contract_index(const mlsi_view *v, const mlsi_list *contract, int64_t k,
                           int64_t *index) {
    for (int64_t i = contract->n - 1; i >= 0; i--) {
        int64_t extent = v->shape[contract->v[i]];
        index[contract->v[i]] = k % extent;
        k /= extent;
    }
}

static void reference_dot_general(const mlsi_view *a, const mlsi_view *b, const mlsi_view *addend,
                                  const mlsi_view *c, const mlsi_attr_dot *at, fault f) {
    int64_t n = 1, ai[MLSYS_MAX_DIMS] = {0}, bi[MLSYS_MAX_DIMS] = {0};
    for (int64_t i = 0; i < at->lhs_contract.n; i++)
        n *= a->shape[at->lhs_contract.v[i]];
    int64_t *ia = malloc((size_t)(n + 1) * sizeof *ia), *ib = malloc((size_t)(n + 1) * sizeof *ib);
    for (int64_t o = 0; o < mlsi_view_count(c); o++) {
        int64_t oi[MLSYS_MAX_DIMS], rest = o;
        int d = c->rank;
        while (d-- > 0) {
            oi[d] = rest % c->shape[d];
            rest /= c->shape[d];
        }
        int next = 0;
        for (int64_t i = 0; i < at->lhs_batch.n; i++, next++)
            ai[at->lhs_batch.v[i]] = oi[next], bi[at->rhs_batch.v[i]] = oi[next];
        for (int e = 0; e < a->rank; e++)
            if (!listed(&at->lhs_batch, e) && !listed(&at->lhs_contract, e)) ai[e] = oi[next++];
        for (int e = 0; e < b->rank; e++)
            if (!listed(&at->rhs_batch, e) && !listed(&at->rhs_contract, e)) bi[e] = oi[next++];
        for (int64_t k = 0; k < n; k++) {
            contract_index(a, &at->lhs_contract, k, ai);
            contract_index(b, &at->rhs_contract, k, bi);
            ia[k] = linear(a, ai), ib[k] = linear(b, bi);
        }
        reference_dot(a, ia, b, ib, n, addend, c, o, f);
    }
    free(ia);
    free(ib);
}

static void reference_matmul(const mlsi_view *a, const mlsi_view *b, const mlsi_view *c,
                             const mlsi_attr_matmul *at, fault f) {
    bool ta = at->transpose_a && a->rank > 1, tb = at->transpose_b && b->rank > 1;
    int64_t k_count = a->shape[ta ? a->rank - 2 : a->rank - 1];
    int64_t *ia = malloc((size_t)(k_count + 1) * sizeof *ia),
            *ib = malloc((size_t)(k_count + 1) * sizeof *ib);
    int own_m = a->rank > 1, own_n = b->rank > 1, batch_dims = c->rank - own_m - own_n;
    for (int64_t o = 0; o < mlsi_view_count(c); o++) {
        int64_t rest = o, m = 0, n = 0, oi[MLSYS_MAX_DIMS];
        if (own_n) n = rest % c->shape[c->rank - 1], rest /= c->shape[c->rank - 1];
        if (own_m) m = rest % c->shape[batch_dims], rest /= c->shape[batch_dims];
        for (int d = batch_dims - 1; d >= 0; d--) {
            oi[d] = rest % c->shape[d];
            rest /= c->shape[d];
        }
        int64_t base_a = 0, base_b = 0;
        for (int d = 0; d < a->rank - 2; d++)
            base_a =
                base_a * a->shape[d] + (a->shape[d] == 1 ? 0 : oi[d + batch_dims - (a->rank - 2)]);
        for (int d = 0; d < b->rank - 2; d++)
            base_b =
                base_b * b->shape[d] + (b->shape[d] == 1 ? 0 : oi[d + batch_dims - (b->rank - 2)]);
        int64_t rows = own_m ? a->shape[a->rank - (ta ? 1 : 2)] : 1;
        int64_t columns = own_n ? b->shape[b->rank - (tb ? 2 : 1)] : 1;
        for (int64_t k = 0; k < k_count; k++) {
            ia[k] = base_a * rows * k_count + (ta ? k * rows + m : m * k_count + k);
            ib[k] = base_b * columns * k_count + (tb ? n * k_count + k : k * columns + n);
        }
        reference_dot(a, ia, b, ib, k_count, NULL, c, o, f);
    }
    free(ia);
    free(ib);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static const mlsys_dtype dtypes[] = {MLSYS_F32, MLSYS_F16,    MLSYS_BF16,  MLSYS_F64,
                                     MLSYS_I64, MLSYS_I32,    MLSYS_I16,   MLSYS_I8,
                                     MLSYS_U8,  MLSYS_F8E4M3, MLSYS_F8E5M2};
enum { DTYPES = (int)(sizeof dtypes / sizeof dtypes[0]) };

static const int64_t *shape_of(int64_t *s, int64_t a, int64_t b, int64_t c, int64_t d) {
    s[0] = a, s[1] = b, s[2] = c, s[3] = d;
    return s;
}

static void check(kc_call *c, kc_tensor *expected, const char *what) {
    for (int constant = 0; constant < 2; constant++) {
        c->constant[1] = constant;
        ck_assert_int_ge(kc_check(c, expected, what), 1);
    }
    kc_call_free(c);
    kc_tensor_free(expected);
}

/* Extents around every boundary of the kernels: tile, panel, segment, block. */
static int64_t pick_extent(kc_rng *r, bool is_k) {
    static const int64_t around[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65};
    static const int64_t along[] = {0, 1, 2, 7, 31, 255, 256, 257, 512, 513, 700};
    return is_k ? along[kc_int(r, 0, 10)] : around[kc_int(r, 0, 16)];
}

static void matmul_case(kc_rng *r, mlsys_dtype t, int64_t m, int64_t n, int64_t k, int ra, int rb,
                        kc_fill_kind fill) {
    mlsi_attr_matmul at = {kc_int(r, 0, 1), kc_int(r, 0, 1)};
    int64_t as[4], bs[4], cs[4], p = kc_int(r, 1, 3), q = kc_int(r, 1, 2);
    kc_call c = {.op = MLSI_OP_MATMUL, .attrs = &at, .n_in = 2, .n_out = 1};
    char what[160];
    shape_of(as, q, p, at.transpose_a ? k : m, at.transpose_a ? m : k);
    shape_of(bs, kc_int(r, 0, 1) ? q : 1, kc_int(r, 0, 1) ? p : 1, at.transpose_b ? n : k,
             at.transpose_b ? k : n);
    if (ra == 1) as[3] = k;
    if (rb == 1) bs[3] = k;
    int rank = ra > rb ? ra : rb, out = 0;
    for (int d = 4 - rank; d < 2; d++) {
        int64_t ea = d >= 4 - ra ? as[d] : 1, eb = d >= 4 - rb ? bs[d] : 1;
        cs[out++] = ea > eb ? ea : eb;
    }
    if (ra > 1) cs[out++] = m;
    if (rb > 1) cs[out++] = n;
    kc_layout la = (kc_layout)kc_int(r, 0, KC_LAYOUTS - 1),
              lb = (kc_layout)kc_int(r, 0, KC_LAYOUTS - 1), lc = (kc_layout)kc_int(r, 0, KC_PADDED);
    c.in[0] = kc_tensor_new(r, t, ra, as + 4 - ra, la);
    c.in[1] = kc_tensor_new(r, t, rb, bs + 4 - rb, lb);
    c.out[0] = kc_tensor_new(r, t, out, cs, lc);
    kc_fill(r, &c.in[0], fill);
    kc_fill(r, &c.in[1], fill);
    kc_tensor expected = kc_tensor_new(r, t, out, cs, KC_DENSE);
    reference_matmul(&c.in[0].view, &c.in[1].view, &expected.view, &at, NO_FAULT);
    snprintf(what, sizeof what,
             "matmul %s m %lld n %lld k %lld ranks %d %d T %d %d layouts %d %d %d",
             mlsi_dtype_get(t)->name, (long long)m, (long long)n, (long long)k, ra, rb,
             (int)at.transpose_a, (int)at.transpose_b, (int)la, (int)lb, (int)lc);
    check(&c, &expected, what);
}

START_TEST(matmul_is_exact) {
    kc_rng r = kc_seed(SEED + (uint64_t)_i);
    printf("matmul seed %llu\n", (unsigned long long)r.state);
    for (int i = 0; i < 24; i++) {
        mlsys_dtype t = dtypes[i % 3 == 0 ? kc_int(&r, 0, DTYPES - 1) : kc_int(&r, 0, 2)];
        int64_t m = pick_extent(&r, false), n = pick_extent(&r, false), k = pick_extent(&r, true);
        if (m * n * k > 400000) k = 40;
        matmul_case(&r, t, m, n, k, (int)kc_int(&r, 1, 4), (int)kc_int(&r, 1, 4),
                    (kc_fill_kind)kc_int(&r, KC_ANY, KC_FINITE));
    }
}
END_TEST

/* Blocks of rows and columns larger than one task takes. */
START_TEST(large_matmul_is_exact) {
    static const int64_t shapes[][3] = {{251, 40, 300}, {7, 1100, 33},  {500, 130, 20},
                                        {4, 600, 513},  {243, 270, 10}, {1, 2100, 260}};
    kc_rng r = kc_seed(SEED + 500 + (uint64_t)_i);
    const int64_t *s = shapes[_i];
    for (int i = 0; i < 3; i++)
        matmul_case(&r, dtypes[i], s[0], s[1], s[2], 2, 2, KC_SMALL);
}
END_TEST

static int64_t shuffle_axes(kc_rng *r, int rank, int *perm) {
    for (int d = 0; d < rank; d++)
        perm[d] = d;
    for (int d = 0; d < rank; d++) {
        int e = (int)kc_int(r, d, rank - 1), t = perm[d];
        perm[d] = perm[e];
        perm[e] = t;
    }
    return 0;
}

/* Operands with batch, free and contracted axes in a random order. */
static void dot_case(kc_rng *r, mlsys_dtype ta, mlsys_dtype tb, mlsys_dtype tc, bool add) {
    mlsi_attr_dot at = {.dtype = tc};
    int batch = (int)kc_int(r, 0, 2), contract = (int)kc_int(r, 0, 3);
    int fa = (int)kc_int(r, 0, 2), fb = (int)kc_int(r, 0, 2), pa[8], pb[8];
    int64_t as[8], bs[8], cs[8], extent[8];
    int ra = batch + contract + fa, rb = batch + contract + fb, out = 0;
    shuffle_axes(r, ra, pa);
    shuffle_axes(r, rb, pb);
    for (int i = 0; i < batch + contract; i++) {
        extent[i] = kc_int(r, 0, 20) == 0 ? 0 : i < batch ? kc_int(r, 1, 3) : kc_int(r, 1, 13);
        if (i == batch && contract == 1) extent[i] = pick_extent(r, true) % 400;
        as[pa[i]] = bs[pb[i]] = extent[i];
        mlsi_list *la = i < batch ? &at.lhs_batch : &at.lhs_contract;
        mlsi_list *lb = i < batch ? &at.rhs_batch : &at.rhs_contract;
        la->v[la->n++] = pa[i], lb->v[lb->n++] = pb[i];
        if (i < batch) cs[out++] = extent[i];
    }
    for (int i = batch + contract; i < ra; i++)
        as[pa[i]] = kc_int(r, 1, 9);
    for (int i = batch + contract; i < rb; i++)
        bs[pb[i]] = kc_int(r, 1, 20);
    for (int d = 0; d < ra; d++)
        if (!listed(&at.lhs_batch, d) && !listed(&at.lhs_contract, d)) cs[out++] = as[d];
    for (int d = 0; d < rb; d++)
        if (!listed(&at.rhs_batch, d) && !listed(&at.rhs_contract, d)) cs[out++] = bs[d];
    kc_call c = {.op = MLSI_OP_DOT_GENERAL, .attrs = &at, .n_in = 2, .n_out = 1};
    c.in[0] = kc_tensor_new(r, ta, ra, as, (kc_layout)kc_int(r, 0, KC_LAYOUTS - 1));
    c.in[1] = kc_tensor_new(r, tb, rb, bs, (kc_layout)kc_int(r, 0, KC_LAYOUTS - 1));
    c.out[0] = kc_tensor_new(r, tc, out, cs, (kc_layout)kc_int(r, 0, KC_PADDED));
    kc_fill(r, &c.in[0], KC_ANY);
    kc_fill(r, &c.in[1], KC_FINITE);
    if (add) {
        c.n_in = 3;
        c.in[2] = kc_tensor_new(r, tc, out, cs, (kc_layout)kc_int(r, 0, KC_LAYOUTS - 1));
        kc_fill(r, &c.in[2], KC_FINITE);
    }
    kc_tensor expected = kc_tensor_new(r, tc, out, cs, KC_DENSE);
    reference_dot_general(&c.in[0].view, &c.in[1].view, &c.in[2].view, &expected.view, &at,
                          NO_FAULT);
    char what[160];
    snprintf(what, sizeof what,
             "dot_general %s %s %s, %d batch, %d contracted, %d and %d free, addend %d",
             mlsi_dtype_get(ta)->name, mlsi_dtype_get(tb)->name, mlsi_dtype_get(tc)->name, batch,
             contract, fa, fb, (int)add);
    check(&c, &expected, what);
}

START_TEST(dot_general_is_exact) {
    kc_rng r = kc_seed(SEED + 1000 + (uint64_t)_i);
    printf("dot_general seed %llu\n", (unsigned long long)r.state);
    for (int i = 0; i < 30; i++) {
        mlsys_dtype t = dtypes[kc_int(&r, 0, DTYPES - 1)];
        dot_case(&r, t, t, t, i % 2);
    }
    for (int i = 0; i < 15; i++) /* narrow inputs, wide result and the other way */
        dot_case(&r, dtypes[kc_int(&r, 0, 2)], dtypes[kc_int(&r, 0, 2)], dtypes[kc_int(&r, 0, 2)],
                 i % 2);
    dot_case(&r, MLSYS_I8, MLSYS_U8, MLSYS_I32, true);
    dot_case(&r, MLSYS_I16, MLSYS_I16, MLSYS_I64, false);
}
END_TEST

/* The suite can fail: results that break the contract in one way each are told from the right
 * ones. */
START_TEST(faults_are_noticed) {
    kc_rng r = kc_seed(SEED + 2000);
    mlsi_attr_matmul at = {0, 1};
    int64_t as[] = {5, 600}, bs[] = {19, 600}, cs[] = {5, 19};
    kc_call c = {.op = MLSI_OP_MATMUL, .attrs = &at, .n_in = 2, .n_out = 1};
    c.in[0] = kc_tensor_new(&r, MLSYS_F32, 2, as, KC_DENSE);
    c.in[1] = kc_tensor_new(&r, MLSYS_F32, 2, bs, KC_DENSE);
    c.out[0] = kc_tensor_new(&r, MLSYS_F32, 2, cs, KC_DENSE);
    kc_fill(&r, &c.in[0], KC_FINITE);
    kc_fill(&r, &c.in[1], KC_FINITE);
    kc_tensor expected = kc_tensor_new(&r, MLSYS_F32, 2, cs, KC_DENSE);
    ck_assert_int_eq(kc_run(kc_row(MLSI_OP_MATMUL, 1), &c, 0), MLSYS_OK);
    for (int f = NO_FAULT; f <= FAULT_DROPS_LAST; f++) {
        int differ = 0;
        reference_matmul(&c.in[0].view, &c.in[1].view, &expected.view, &at, (fault)f);
        for (int64_t i = 0; i < 5 * 19; i++)
            differ += memcmp(kc_at(&c.out[0].view, i), kc_at(&expected.view, i), 4) != 0;
        ck_assert_msg((differ > 0) == (f != NO_FAULT), "fault %d: %d elements differ", f, differ);
    }
    kc_call_free(&c);
    kc_tensor_free(&expected);
}
END_TEST

int main(void) {
    Suite *s = suite_create("kernel_matmul");
    TCase *t = tcase_create("rows");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, matmul_is_exact, 0, 6);
    tcase_add_loop_test(t, large_matmul_is_exact, 0, 6);
    tcase_add_loop_test(t, dot_general_is_exact, 0, 4);
    tcase_add_test(t, faults_are_noticed);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
