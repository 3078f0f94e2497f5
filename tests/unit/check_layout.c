/* Layouts against brute force: every index is visited and its address computed from first
 * principles. */
#include "core/layout.h"
#include "support/random.h"
#include "support/require.h"

#include <check.h>

enum { ELEMENTS_MAX = 4096 };

/* ---- the model ------------------------------------------------------------------------------ */

/* Addresses of all indices in row-major order; returns the count. */
static int64_t addresses(const mlsi_layout *l, int64_t *out) {
    int64_t index[MLSYS_MAX_DIMS] = {0}, n = 0;
    for (int d = 0; d < l->rank; d++)
        if (l->shape[d] == 0) return 0;
    for (;;) {
        int64_t a = l->offset;
        for (int d = 0; d < l->rank; d++)
            a += index[d] * l->strides[d];
        REQUIRE(n < ELEMENTS_MAX);
        out[n++] = a;
        int d = l->rank - 1;
        while (d >= 0 && ++index[d] == l->shape[d])
            index[d--] = 0;
        if (d < 0) return n;
    }
}

/* Rank 0..8, extents 0..5 but few elements, strides of any sign, often zero, often nice. */
static mlsi_layout random_layout(test_random *r) {
    mlsi_layout l = {.dtype = MLSYS_F32, .rank = (int32_t)test_int(r, 0, 8)};
    int64_t room = 200, dense = 1;
    int style = (int)test_int(r, 0, 3);
    for (int d = l.rank - 1; d >= 0; d--) {
        int64_t n = test_int(r, 0, 19) ? test_int(r, 1, room < 5 ? room : 5) : 0;
        l.shape[d] = n;
        room /= n ? n : 1;
        int64_t s = test_int(r, -12, 12);
        if (style == 0) s = dense;
        if (style == 1) s = test_int(r, 0, 2) ? dense : 0;
        if (style == 2) s = test_int(r, 0, 1) ? dense : -dense;
        l.strides[d] = s;
        dense *= n ? n : 1;
    }
    l.offset = test_int(r, -5, 50);
    if (test_int(r, 0, 3) == 0 && l.rank) { /* swap two axes of a nice layout */
        int a = (int)test_int(r, 0, l.rank - 1), b = (int)test_int(r, 0, l.rank - 1);
        int64_t n = l.shape[a], s = l.strides[a];
        l.shape[a] = l.shape[b], l.strides[a] = l.strides[b];
        l.shape[b] = n, l.strides[b] = s;
    }
    return l;
}

static int compare_i64(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* ---- tests ---------------------------------------------------------------------------------- */

START_TEST(facts_match_brute_force) {
    test_random r = test_random_seed("facts", 1);
    static int64_t a[ELEMENTS_MAX];
    for (int i = 0; i < 120000; i++) {
        mlsi_layout l = random_layout(&r);
        int64_t n = addresses(&l, a), low, high;
        REQUIRE(mlsi_layout_count(&l) == n);
        REQUIRE(mlsi_layout_bytes(&l) == 4 * (uint64_t)n);
        bool contiguous = true;
        for (int64_t k = 0; k < n; k++)
            contiguous = contiguous && a[k] == a[0] + k;
        REQUIRE(mlsi_layout_contiguous(&l) == contiguous);
        qsort(a, (size_t)n, sizeof a[0], compare_i64);
        bool overlaps = false;
        for (int64_t k = 1; k < n; k++)
            overlaps = overlaps || a[k] == a[k - 1];
        REQUIRE(mlsi_layout_self_overlaps(&l) == overlaps);
        REQUIRE(mlsi_layout_bounds(&l, &low, &high) == MLSYS_OK);
        REQUIRE(low == (n ? a[0] : 0));
        REQUIRE(high == (n ? a[n - 1] + 1 : 0));
        static float base[8192];
        mlsi_view v = mlsi_view_of(base + 4096, &l);
        uintptr_t from, to;
        mlsi_view_range(&v, &from, &to);
        REQUIRE(mlsi_view_count(&v) == n);
        REQUIRE(mlsi_view_contiguous(&v) == contiguous);
        if (n) {
            REQUIRE(from == (uintptr_t)(base + 4096 + low));
            REQUIRE(to == (uintptr_t)(base + 4096 + high));
        } else {
            REQUIRE(from == to);
        }
    }
}
END_TEST

START_TEST(permute_matches_brute_force) {
    test_random r = test_random_seed("permute", 2);
    static int64_t a[ELEMENTS_MAX], b[ELEMENTS_MAX];
    for (int i = 0; i < 20000; i++) {
        mlsi_layout l = random_layout(&r), p;
        int32_t perm[MLSYS_MAX_DIMS];
        for (int d = 0; d < l.rank; d++)
            perm[d] = d;
        for (int d = l.rank - 1; d > 0; d--) {
            int e = (int)test_int(&r, 0, d);
            int32_t t = perm[d];
            perm[d] = perm[e];
            perm[e] = t;
        }
        REQUIRE(mlsi_layout_permute(&l, perm, &p) == MLSYS_OK);
        int64_t n = addresses(&p, b);
        REQUIRE(addresses(&l, a) == n);
        for (int64_t k = 0; k < n; k++) { /* index of p -> index of l */
            int64_t rest = k, from[MLSYS_MAX_DIMS] = {0}, at = 0;
            for (int d = l.rank - 1; d >= 0; d--) {
                from[perm[d]] = rest % p.shape[d];
                rest /= p.shape[d];
            }
            for (int d = 0; d < l.rank; d++)
                at = at * l.shape[d] + from[d];
            REQUIRE(b[k] == a[at]);
        }
    }
    mlsi_layout l = {.dtype = MLSYS_F32, .rank = 2, .shape = {2, 3}, .strides = {3, 1}}, p;
    REQUIRE(mlsi_layout_permute(&l, (int32_t[]){0, 0}, &p) == MLSYS_E_ARG);
    REQUIRE(mlsi_layout_permute(&l, (int32_t[]){0, 2}, &p) == MLSYS_E_ARG);
    REQUIRE(mlsi_layout_permute(&l, (int32_t[]){-1, 0}, &p) == MLSYS_E_ARG);
}
END_TEST

START_TEST(broadcast_matches_brute_force) {
    test_random r = test_random_seed("broadcast", 3);
    static int64_t a[ELEMENTS_MAX], b[ELEMENTS_MAX];
    for (int i = 0; i < 20000; i++) {
        mlsi_layout l = random_layout(&r), w;
        if (mlsi_layout_count(&l) > 64) continue;
        int32_t rank = (int32_t)test_int(&r, l.rank, 8);
        int64_t shape[MLSYS_MAX_DIMS], total = 1;
        bool legal = true;
        for (int d = 0; d < rank; d++) {
            int from = d - (rank - l.rank);
            shape[d] = from >= 0 && l.shape[from] != 1 && test_int(&r, 0, 15) ? l.shape[from]
                                                                              : test_int(&r, 0, 3);
            if (from >= 0 && l.shape[from] != 1 && l.shape[from] != shape[d]) legal = false;
            total *= shape[d];
        }
        if (total > ELEMENTS_MAX / 2) continue;
        REQUIRE(mlsi_layout_broadcast(&l, rank, shape, &w) == (legal ? MLSYS_OK : MLSYS_E_SHAPE));
        if (!legal) continue;
        addresses(&l, a);
        int64_t n = addresses(&w, b);
        REQUIRE(n == total);
        for (int64_t k = 0; k < n; k++) {
            int64_t rest = k, at = 0, step = 1;
            for (int d = rank - 1; d >= rank - l.rank; d--) {
                int64_t extent = l.shape[d - (rank - l.rank)], index = rest % shape[d];
                rest /= shape[d];
                at += (extent == 1 ? 0 : index) * step;
                step *= extent;
            }
            REQUIRE(b[k] == a[at]);
        }
    }
    mlsi_layout l = {.dtype = MLSYS_F32, .rank = 1, .shape = {1}, .strides = {1}}, w;
    int64_t huge[] = {INT64_MAX / 8, 9};
    REQUIRE(mlsi_layout_broadcast(&l, 2, huge, &w) == MLSYS_E_SHAPE);
    REQUIRE(mlsi_layout_broadcast(&l, 0, NULL, &w) == MLSYS_E_SHAPE);
    REQUIRE(mlsi_layout_broadcast(&l, 9, NULL, &w) == MLSYS_E_SHAPE);
}
END_TEST

/* A view exists if and only if the address is an affine function of the new index. */
static bool affine(const int64_t *a, int32_t rank, const int64_t *shape, int64_t *strides) {
    int64_t step = 1, n = 1;
    for (int d = rank - 1; d >= 0; d--) {
        strides[d] = shape[d] > 1 ? a[step] - a[0] : 0;
        step *= shape[d];
    }
    for (int d = 0; d < rank; d++)
        n *= shape[d];
    for (int64_t k = 0; k < n; k++) {
        int64_t rest = k, at = a[0];
        for (int d = rank - 1; d >= 0; d--) {
            at += rest % shape[d] * strides[d];
            rest /= shape[d];
        }
        if (at != a[k]) return false;
    }
    return true;
}

/* A random factorisation of n into rank extents, with ones strewn in. */
static int32_t random_shape(test_random *r, int64_t n, int64_t *shape) {
    int32_t rank = (int32_t)test_int(r, 0, 8);
    if (n == 0 && rank == 0) rank = 1;
    for (int d = 0; d < rank; d++)
        shape[d] = 1;
    if (n == 0) {
        for (int d = 0; d < rank; d++)
            shape[d] = test_int(r, 0, 3);
        shape[test_int(r, 0, rank - 1)] = 0;
        return rank;
    }
    for (int64_t p = 2; n > 1 && rank; p++)
        while (n % p == 0) {
            shape[test_int(r, 0, rank - 1)] *= p;
            n /= p;
        }
    if (n > 1) shape[rank++] = n; /* rank was 0 */
    return rank;
}

START_TEST(reshape_decides_exactly) {
    test_random r = test_random_seed("reshape", 4);
    static int64_t a[ELEMENTS_MAX], b[ELEMENTS_MAX];
    int views = 0, copies = 0;
    for (int i = 0; i < 120000; i++) {
        mlsi_layout l = random_layout(&r), out;
        int64_t n = addresses(&l, a), shape[MLSYS_MAX_DIMS], strides[MLSYS_MAX_DIMS];
        int32_t rank = random_shape(&r, n, shape);
        bool is_view;
        REQUIRE(mlsi_layout_reshape(&l, rank, shape, &out, &is_view) == MLSYS_OK);
        REQUIRE(is_view == (n == 0 || affine(a, rank, shape, strides)));
        REQUIRE(out.rank == rank);
        int64_t m = addresses(&out, b);
        REQUIRE(m == n);
        for (int64_t k = 0; k < n; k++)
            REQUIRE(b[k] == (is_view ? a[k] : k));
        if (is_view)
            views++;
        else
            copies++;
    }
    ck_assert_int_gt(views, 20000); /* both answers were asked for */
    ck_assert_int_gt(copies, 20000);
    mlsi_layout l = {.dtype = MLSYS_F32, .rank = 1, .shape = {6}, .strides = {1}}, out;
    bool is_view;
    REQUIRE(mlsi_layout_reshape(&l, 2, (int64_t[]){2, 4}, &out, &is_view) == MLSYS_E_SHAPE);
    REQUIRE(mlsi_layout_reshape(&l, 1, (int64_t[]){-1}, &out, &is_view) == MLSYS_E_SHAPE);
}
END_TEST

/* ---- BO-04: slices --------------------------------------------------------------------------- */

/* ONNX's text, position by position, in integers that cannot overflow. */
static int64_t slice_model(int64_t n, int64_t start, int64_t stop, int64_t step, int64_t *out) {
    __int128 i = start, end = stop, low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    int64_t count = 0;
    if (n == 0) return 0;
    if (i < 0) i += n;
    if (end < 0) end += n;
    if (i < 0) i = 0;
    if (i > high) i = high;
    if (end < low) end = low;
    if (end > high) end = high;
    for (; step > 0 ? i < end : i > end; i += step)
        out[count++] = (int64_t)i;
    return count;
}

START_TEST(slice_grid) {
    int64_t want[8], ends[16];
    for (int64_t n = 0; n <= 5; n++) {
        int count = 0;
        ends[count++] = INT64_MIN;
        ends[count++] = INT64_MIN + 1;
        for (int64_t e = -n - 1; e <= n + 1; e++)
            ends[count++] = e;
        ends[count++] = INT64_MAX;
        for (int s = 0; s < count; s++)
            for (int e = 0; e < count; e++)
                for (int k = 0; k < 8; k++) {
                    int64_t step = (int64_t[]){-3, -2, -1, 1, 2, 3, INT64_MIN, INT64_MAX}[k];
                    int64_t first, got, m = slice_model(n, ends[s], ends[e], step, want);
                    mlsi_slice_range(n, ends[s], ends[e], step, &first, &got);
                    if (got != m || (m && first != want[0]))
                        ck_abort_msg("n %lld [%lld:%lld:%lld]: first %lld count %lld, not %lld",
                                     (long long)n, (long long)ends[s], (long long)ends[e],
                                     (long long)step, (long long)first, (long long)got,
                                     (long long)m);
                    mlsi_layout l = {.dtype = MLSYS_F32,
                                     .rank = 2,
                                     .shape = {2, n},
                                     .strides = {-7, 3},
                                     .offset = 100},
                                v;
                    REQUIRE(mlsi_layout_slice(&l, k % 2 ? 1 : -1, ends[s], ends[e], step, &v) ==
                            MLSYS_OK);
                    REQUIRE(v.shape[1] == m);
                    for (int64_t j = 0; j < m; j++)
                        REQUIRE(v.offset + j * v.strides[1] == 100 + 3 * want[j]);
                }
    }
}
END_TEST

START_TEST(slice_named_cases) {
    int64_t first, count;
    mlsi_slice_range(10, -1, INT64_MAX, -1, &first, &count);
    REQUIRE(count == 0);
    mlsi_slice_range(10, -1, INT64_MIN, -1, &first, &count);
    REQUIRE(first == 9);
    REQUIRE(count == 10);
    mlsi_slice_range(10, 9, 0, -3, &first, &count);
    REQUIRE(first == 9);
    REQUIRE(count == 3);
    mlsi_slice_range(10, 0, 5, -1, &first, &count);
    REQUIRE(count == 0);
    mlsi_layout l = {.dtype = MLSYS_F32, .rank = 1, .shape = {4}, .strides = {1}}, v;
    REQUIRE(mlsi_layout_slice(&l, 0, 0, 4, 0, &v) == MLSYS_E_ARG);
    REQUIRE(mlsi_layout_slice(&l, 1, 0, 4, 1, &v) == MLSYS_E_ARG);
    REQUIRE(mlsi_layout_slice(&l, -2, 0, 4, 1, &v) == MLSYS_E_ARG);
}
END_TEST

/* ---- refusals ------------------------------------------------------------------------------- */

START_TEST(row_major_refuses) {
    mlsi_layout l;
    int64_t big = (int64_t)1 << 31;
    ck_assert_int_eq(mlsi_layout_row_major(&l, 999, 0, NULL), MLSYS_E_DTYPE);
    ck_assert_int_eq(mlsi_layout_row_major(&l, MLSYS_F32, -1, NULL), MLSYS_E_SHAPE);
    ck_assert_int_eq(mlsi_layout_row_major(&l, MLSYS_F32, 9, NULL), MLSYS_E_SHAPE);
    ck_assert_int_eq(mlsi_layout_row_major(&l, MLSYS_F32, 1, NULL), MLSYS_E_ARG);
    ck_assert_int_eq(mlsi_layout_row_major(&l, MLSYS_F32, 1, (int64_t[]){-1}), MLSYS_E_SHAPE);
    /* Elements, then bytes: 2^62 u8 fit, 2^62 f32 do not, 2^93 elements do not even times 0. */
    ck_assert_int_eq(mlsi_layout_row_major(&l, MLSYS_U8, 2, (int64_t[]){big, big}), MLSYS_OK);
    ck_assert_int_eq(mlsi_layout_row_major(&l, MLSYS_F32, 2, (int64_t[]){big, big}), MLSYS_E_SHAPE);
    ck_assert_int_eq(mlsi_layout_row_major(&l, MLSYS_U8, 4, (int64_t[]){0, big, big, big}),
                     MLSYS_E_SHAPE);
    ck_assert_int_eq(mlsi_layout_row_major(&l, MLSYS_U8, 1, (int64_t[]){INT64_MAX}), MLSYS_OK);
    ck_assert_int_eq(mlsi_layout_row_major(&l, MLSYS_U8, 2, (int64_t[]){INT64_MAX, 2}),
                     MLSYS_E_SHAPE);
}
END_TEST

START_TEST(validate_refuses_overflow) {
    mlsi_layout l = {.dtype = MLSYS_U8, .rank = 1, .shape = {3}, .strides = {INT64_MAX}};
    ck_assert_int_eq(mlsi_layout_validate(&l), MLSYS_E_SHAPE);
    l.strides[0] = INT64_MIN;
    ck_assert_int_eq(mlsi_layout_validate(&l), MLSYS_E_SHAPE);
    l.strides[0] = 1;
    l.offset = INT64_MAX - 2;
    ck_assert_int_eq(mlsi_layout_validate(&l), MLSYS_E_SHAPE);
    l.offset = INT64_MAX - 3;
    ck_assert_int_eq(mlsi_layout_validate(&l), MLSYS_OK);
    l.shape[0] = 1; /* the stride of a unit dim is never used */
    l.offset = 0;
    l.strides[0] = INT64_MIN;
    ck_assert_int_eq(mlsi_layout_validate(&l), MLSYS_OK);
}
END_TEST

START_TEST(block_layouts_move_by_blocks) {
    mlsi_layout l, v;
    ck_assert_int_eq(mlsi_layout_row_major(&l, MLSYS_Q4_1, 2, (int64_t[]){4, 33}), MLSYS_E_SHAPE);
    ck_assert_int_eq(mlsi_layout_row_major(&l, MLSYS_Q4_1, 0, NULL), MLSYS_E_SHAPE);
    ck_assert_int_eq(mlsi_layout_row_major(&l, MLSYS_Q6_K, 1, (int64_t[]){32}), MLSYS_E_SHAPE);
    ck_assert_int_eq(mlsi_layout_row_major(&l, MLSYS_Q4_1, 2, (int64_t[]){4, 96}), MLSYS_OK);
    ck_assert_uint_eq(mlsi_layout_bytes(&l), 4 * 3 * 20);
    ck_assert_int_eq(mlsi_layout_slice(&l, 1, 32, 96, 1, &v), MLSYS_OK);
    ck_assert_int_eq(v.offset, 32);
    ck_assert_int_eq(mlsi_layout_slice(&l, 1, 16, 48, 1, &v), MLSYS_E_SHAPE);
    ck_assert_int_eq(mlsi_layout_slice(&l, 1, 0, 16, 1, &v), MLSYS_E_SHAPE);
    ck_assert_int_eq(mlsi_layout_slice(&l, 1, -1, INT64_MIN, -1, &v), MLSYS_E_SHAPE);
    ck_assert_int_eq(mlsi_layout_slice(&l, 1, 0, 96, 3, &v), MLSYS_E_SHAPE);
    ck_assert_int_eq(mlsi_layout_slice(&l, 0, -1, INT64_MIN, -1, &v), MLSYS_OK);
    ck_assert_int_eq(v.offset, 3 * 96);
    ck_assert_int_eq(mlsi_layout_permute(&l, (int32_t[]){1, 0}, &v), MLSYS_E_SHAPE);
    char base[4 * 3 * 20];
    mlsi_view k = mlsi_view_of(base, &v);
    ck_assert_msg(mlsi_layout_slice(&l, 0, 3, INT64_MIN, -1, &v) == MLSYS_OK, "rows backwards");
    k = mlsi_view_of(base, &v);
    ck_assert_ptr_eq(k.data, base + 3 * 60);
    uintptr_t low, high;
    mlsi_view_range(&k, &low, &high);
    ck_assert_uint_eq(low, (uintptr_t)base);
    ck_assert_uint_eq(high, (uintptr_t)(base + sizeof base));
    bool is_view;
    ck_assert_int_eq(mlsi_layout_reshape(&l, 3, (int64_t[]){2, 6, 32}, &v, &is_view), MLSYS_OK);
    ck_assert(is_view);
    ck_assert_int_eq(mlsi_layout_reshape(&l, 2, (int64_t[]){24, 16}, &v, &is_view), MLSYS_E_SHAPE);
}
END_TEST

START_TEST(text_names_dtype_and_extents) {
    mlsi_layout l;
    char text[128], tiny[8];
    mlsi_layout_row_major(&l, MLSYS_F32, 2, (int64_t[]){2, 3});
    ck_assert_str_eq(mlsi_layout_text(&l, text, sizeof text), "f32[2,3]");
    mlsi_layout_row_major(&l, MLSYS_BF16, 0, NULL);
    ck_assert_str_eq(mlsi_layout_text(&l, text, sizeof text), "bf16[]");
    mlsi_layout_row_major(&l, MLSYS_BF16, 8, (int64_t[]){10, 10, 10, 10, 10, 10, 10, 10});
    mlsi_layout_text(&l, tiny, sizeof tiny);
    ck_assert_str_eq(tiny, "bf16[10");
}
END_TEST

int main(void) {
    Suite *s = suite_create("layout");
    TCase *t = tcase_create("layout");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, facts_match_brute_force);
    tcase_add_test(t, permute_matches_brute_force);
    tcase_add_test(t, broadcast_matches_brute_force);
    tcase_add_test(t, reshape_decides_exactly);
    tcase_add_test(t, slice_grid);
    tcase_add_test(t, slice_named_cases);
    tcase_add_test(t, row_major_refuses);
    tcase_add_test(t, validate_refuses_overflow);
    tcase_add_test(t, block_layouts_move_by_blocks);
    tcase_add_test(t, text_names_dtype_and_extents);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
