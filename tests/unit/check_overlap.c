/* Self-overlap of layouts that are too large for brute force, or just small enough for marks. */
#include "core/layout.h"
#include "support/random.h"
#include "support/require.h"

static bool overlaps(int32_t rank, const int64_t *shape, const int64_t *strides) {
    mlsi_layout l = {.dtype = MLSYS_U8, .rank = rank};
    for (int d = 0; d < rank; d++)
        l.shape[d] = shape[d], l.strides[d] = strides[d];
    return mlsi_layout_self_overlaps(&l);
}

START_TEST(overlap_of_large_layouts) {
    /* 999983 and 1000003 are primes: they first meet at 999983 * 1000003. */
    int64_t primes[] = {999983, 1000003};
    ck_assert(!overlaps(2, (int64_t[]){1000003, 999983}, primes));
    ck_assert(overlaps(2, (int64_t[]){1000004, 999984}, primes));
    ck_assert(!overlaps(2, (int64_t[]){1000004, 999983}, primes));
    ck_assert(overlaps(1, (int64_t[]){INT64_MAX / 2}, (int64_t[]){0}));
    ck_assert(!overlaps(1, (int64_t[]){INT64_MAX / 2}, (int64_t[]){-2}));
    ck_assert(!overlaps(3, (int64_t[]){1024, 1024, 1024}, (int64_t[]){1, 1 << 20, 1 << 10}));
    ck_assert(overlaps(3, (int64_t[]){1024, 1025, 1025}, (int64_t[]){1, 1 << 20, 1 << 10}));
    ck_assert(overlaps(2, (int64_t[]){3, 5}, (int64_t[]){1, -1}));
    /* A sliding window: 100 windows of 32, step 16 (overlap) and 32 (none). */
    ck_assert(overlaps(2, (int64_t[]){100, 32}, (int64_t[]){16, 1}));
    ck_assert(!overlaps(2, (int64_t[]){100, 32}, (int64_t[]){32, 1}));
    /* Subset sums: powers of two never, then one dependent stride. */
    int64_t two[8] = {2, 2, 2, 2, 2, 2, 2, 2}, powers[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    ck_assert(!overlaps(8, two, powers));
    powers[7] = 127;
    ck_assert(overlaps(8, two, powers));
    /* Conway-Guy: eight numbers with distinct subset sums although none dominates the rest. */
    int64_t conway_guy[8] = {40, 60, 71, 77, 80, 82, 83, 84};
    ck_assert(!overlaps(8, two, conway_guy));
}
END_TEST

/* Medium layouts, with marks instead of sorting. */
START_TEST(overlap_matches_marking) {
    test_random r = test_random_seed("overlap", 5);
    enum { REACH = 1 << 16 };
    static unsigned char marks[REACH];
    int yes = 0, no = 0;
    for (int i = 0; i < 4000; i++) {
        mlsi_layout l = {.dtype = MLSYS_U8, .rank = (int32_t)test_int(&r, 2, 5)};
        int64_t reach = 0;
        for (int d = 0; d < l.rank; d++) {
            l.shape[d] = test_int(&r, 1, 7);
            l.strides[d] = test_int(&r, 1, 1 << test_int(&r, 1, 10));
            reach += (l.shape[d] - 1) * l.strides[d];
        }
        if (reach >= REACH) continue;
        bool expected = false;
        int64_t index[MLSYS_MAX_DIMS] = {0};
        memset(marks, 0, (size_t)reach + 1);
        for (int d = 0; d >= 0 && !expected;) {
            int64_t at = 0;
            for (int k = 0; k < l.rank; k++)
                at += index[k] * l.strides[k];
            expected = marks[at]++;
            d = l.rank - 1;
            while (d >= 0 && ++index[d] == l.shape[d])
                index[d--] = 0;
        }
        for (int d = 0; d < l.rank; d++)
            if (test_int(&r, 0, 1)) l.strides[d] = -l.strides[d];
        REQUIRE(mlsi_layout_self_overlaps(&l) == expected);
        if (expected)
            yes++;
        else
            no++;
    }
    ck_assert_int_gt(yes, 300);
    ck_assert_int_gt(no, 300);
}
END_TEST

int main(void) {
    Suite *s = suite_create("overlap");
    TCase *t = tcase_create("overlap");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, overlap_of_large_layouts);
    tcase_add_test(t, overlap_matches_marking);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
