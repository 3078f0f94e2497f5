/* What shows the same memory depends on the same value, however it is viewed. */
#include "support/tape_case.h"

#include <string.h>

static void setup(void) {
    pc_open(&pc, 2);
    OK(mlsys_tape_create(pc.stream, &tape));
}
static void teardown(void) {
    OK(mlsys_release(tape));
    pc_close(&pc);
}

/* d sum(v * v) / d x of a view v of x: 2 x times how often v shows it. */
static void expect_view(mlsys_tensor x, mlsys_tensor v, const char *what) {
    static float times[64];
    memset(times, 0, sizeof times);
    mlsi_view view = rg_view(v), base = rg_view(x);
    int64_t at[8] = {0};
    for (int64_t i = 0; i < mlsi_view_count(&view); i++) {
        int64_t offset = 0;
        mlsi_ref_unravel(view.rank, view.shape, i, at);
        for (int d = 0; d < view.rank; d++)
            offset += at[d] * view.strides[d];
        times[((float *)view.data - (float *)base.data) + offset]++;
    }
    mlsys_tensor y = op("mul", v, v), dx = by(y, x);
    for (int64_t i = 0; i < count(x); i++)
        ck_assert_msg(numbers(dx)[i] == 2 * times[i] * numbers(x)[i], "%s: element %d: %g", what,
                      (int)i, (double)numbers(dx)[i]);
    mlsys_tensor rest[] = {y, dx, v};
    pc_release(3, rest);
    OK(mlsys_tape_clear(tape));
}

static void expect_views(mlsys_tensor x) { /* [4, 6] */
    mlsys_tensor v, w;
    OK(mlsys_tensor_reshape(x, 3, (int64_t[]){2, 2, 6}, &v, NULL));
    expect_view(x, v, "reshape");
    OK(mlsys_tensor_transpose(x, 0, 1, &v));
    expect_view(x, v, "transpose");
    OK(mlsys_tensor_slice(x, 1, 1, 6, 2, &v));
    expect_view(x, v, "slice");
    OK(mlsys_tensor_reverse(x, 0, &v));
    expect_view(x, v, "reverse");
    OK(mlsys_tensor_broadcast(x, 3, (int64_t[]){2, 4, 6}, &v));
    expect_view(x, v, "broadcast");
    OK(mlsys_tensor_slice(x, 0, 2, 3, 1, &w));
    OK(mlsys_tensor_broadcast(w, 2, (int64_t[]){3, 6}, &v));
    drop(w);
    expect_view(x, v, "broadcast slice");
    OK(mlsys_tensor_view(x, 2, (int64_t[]){3, 4}, (int64_t[]){5, 2}, 1, &v));
    expect_view(x, v, "overlapping view");
    OK(mlsys_tensor_slice(x, 0, 1, 1, 1, &v));
    expect_view(x, v, "empty view");
}

START_TEST(views_are_followed) {
    mlsys_tensor x = matrix(4, 6);
    expect_views(x);
    /* The same of a computed tensor, which is recorded anew each time. */
    OK(mlsys_tape_record(tape, 0));
    mlsys_tensor e = op("exp", x, NULL);
    OK(mlsys_tape_record(tape, 1));
    expect_views(e);
    drop(x);
    drop(e);
}
END_TEST

/* One memory, seen two ways in one expression: sum of W * W^T. And x asked for as a view. */
START_TEST(memory_not_tensors) {
    mlsys_tensor w = matrix(3, 3), e, wt, y, dw, part, dpart;
    for (int computed = 0; computed < 2; computed++) {
        e = computed ? op("neg", w, NULL) : w;
        OK(mlsys_tensor_transpose(e, 0, 1, &wt));
        y = op("mul", wt, e);
        dw = by(y, e);
        for (int i = 0; i < 9; i++)
            ck_assert_float_eq(numbers(dw)[i], 2 * numbers(e)[i % 3 * 3 + i / 3]);
        OK(mlsys_tensor_slice(e, 1, 2, 3, 1, &part));
        dpart = by(y, part);
        for (int i = 0; i < 3; i++)
            ck_assert_float_eq(numbers(dpart)[i], numbers(dw)[3 * i + 2]);
        mlsys_tensor rest[] = {wt, y, dw, part, dpart};
        pc_release(5, rest);
        if (computed) drop(e);
    }
    drop(w);
}
END_TEST

int main(void) {
    Suite *s = suite_create("tape_views");
    TCase *tc = tcase_create("tape_views");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, views_are_followed);
    tcase_add_test(tc, memory_not_tensors);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
