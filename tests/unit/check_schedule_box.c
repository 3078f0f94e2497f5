/* What schedules ask of index expressions, against counting: linear parts, extremes, and the box that an iteration reads. */
#include "ir/loop/schedule_edit.h"
#include "support/program_case.h"
#include "support/random.h"
#include "support/require.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 400, I = 5, J = 4 };

static mlsi_nest nest;
static int64_t i_code, j_code;
static int32_t in;

/* a * x + b * y + c; any of the numbers may be negative. */
static int64_t sum_of(int64_t a, int64_t x, int64_t b, int64_t y, int64_t c) {
    int64_t out;
    OK(mlsi_dim_combine(&nest.tab, c, a, x, &out));
    OK(mlsi_dim_combine(&nest.tab, out, b, y, &out));
    return out;
}

/* for i < 5: for j < 4: out[i, j] = in[a] + in[b]. */
static void build(const int64_t *a, const int64_t *b, int n_terms) {
    const mlsi_type source = {.dtype = MLSYS_I32, .rank = 1, .dims = {1000}};
    const mlsi_type target = {.dtype = MLSYS_I32, .rank = 2, .dims = {I, J}};
    mlsi_nest_init(&nest, &mlsi_alloc_process, NULL, "box");
    in = mlsi_nest_param(&nest, MLSI_SCOPE_INPUT, NULL, &source);
    int32_t out = mlsi_nest_param(&nest, MLSI_SCOPE_OUTPUT, NULL, &target);
    i_code = mlsi_nest_for(&nest, MLSI_LOOP_SERIAL, "i", I);
    j_code = mlsi_nest_for(&nest, MLSI_LOOP_SERIAL, "j", J);
    int32_t loads[2];
    for (int k = 0; k < 2; k++) {
        const int64_t *c = k ? b : a;
        int64_t at = sum_of(c[0], i_code, c[1], j_code, c[2]);
        loads[k] = mlsi_nest_load(&nest, in, &at);
    }
    int32_t value =
        n_terms == 1 ? loads[0] : mlsi_nest_op(&nest, MLSI_OP_ADD, 0, loads[0], loads[1], -1);
    mlsi_nest_store(&nest, out, (int64_t[]){i_code, j_code}, value);
    mlsi_nest_end(&nest);
    mlsi_nest_end(&nest);
    OK(mlsi_nest_finish(&nest));
}

static int64_t at_turn(int64_t code, int64_t i) {
    int64_t out = 0, binding[8] = {i, 0};
    OK(mlsi_dim_eval(&nest.tab, code, binding, &out));
    return out;
}

START_TEST(boxes_hold_what_is_read_and_no_more) {
    test_random r = {.state = 17};
    for (int round = 0; round < ROUNDS; round++) {
        int64_t c[2][3];
        int n_terms = (int)test_int(&r, 1, 2);
        mlsi_box box;
        for (int k = 0; k < 2; k++) {
            c[k][0] = k && test_int(&r, 0, 3) ? c[0][0] : test_int(&r, -3, 3);
            c[k][1] = test_int(&r, -3, 3);
            c[k][2] = test_int(&r, 100, 110);
        }
        build(c[0], c[1], n_terms);
        REQUIRE(
            mlsi_edit_box(&nest, mlsi_edit_loop(&nest, "box", nest.vars[0].name), in, false, &box));
        bool moves_apart = n_terms == 2 && c[0][0] != c[1][0];
        for (int64_t i = 0; i < I; i++) {
            int64_t least = 1000, most = 0;
            for (int64_t j = 0; j < J; j++)
                for (int k = 0; k < n_terms; k++) {
                    int64_t at = c[k][0] * i + c[k][1] * j + c[k][2];
                    least = at < least ? at : least;
                    most = at > most ? at : most;
                }
            int64_t base = at_turn(box.base[0], i);
            if (moves_apart) {
                REQUIRE(base <= least && base + box.extent[0] > most);
            } else {
                ck_assert_int_eq(base, least);
                ck_assert_int_eq(box.extent[0], most - least + 1);
            }
        }
        REQUIRE(!box.clipped[0] || box.base[0] != 0);
        mlsi_nest_free(&nest);
    }
}
END_TEST

/* d is factor * v + rest, or it is not. */
START_TEST(linear_parts) {
    const int64_t zero[3] = {0, 0, 100};
    test_random r = {.state = 18};
    build(zero, zero, 1);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t c = test_int(&r, -4, 4), e = test_int(&r, -4, 4), by = test_int(&r, 2, 3);
        bool curved = test_int(&r, 0, 1);
        int64_t inner = mlsi_nest_index(&nest, '+', i_code, test_int(&r, 0, 1));
        int64_t part = curved ? mlsi_nest_index(&nest, '/', inner, by) : i_code, factor, rest;
        int64_t d = sum_of(c, part, e, j_code, 0);
        bool linear = mlsi_index_linear(&nest, d, nest.vars[0].symbol, i_code, &factor, &rest);
        ck_assert_int_eq(linear, !curved || c == 0);
        if (!linear) continue;
        ck_assert_int_eq(at_turn(factor, 0), c);
        ck_assert_int_eq(rest, sum_of(0, i_code, e, j_code, 0));
    }
    mlsi_nest_free(&nest);
}
END_TEST

START_TEST(extremes) {
    const int64_t zero[3] = {0, 0, 100};
    test_random r = {.state = 19};
    build(zero, zero, 1);
    mlsi_edit_vars v = {0};
    mlsi_edit_vars_inside(&nest, mlsi_edit_loop(&nest, "box", nest.vars[0].name), &v);
    ck_assert_int_eq(v.n, 1);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t c = test_int(&r, -4, 4), e = test_int(&r, -4, 4), out;
        int64_t d = sum_of(c, i_code, e, j_code, 0);
        for (int greatest = 0; greatest < 2; greatest++) {
            REQUIRE(mlsi_index_extreme(&nest, &v, d, greatest, &out));
            int64_t end = (e > 0) == greatest ? e * (J - 1) : 0;
            for (int64_t i = 0; i < I; i++)
                ck_assert_int_eq(at_turn(out, i), c * i + end);
        }
    }
    mlsi_nest_free(&nest);
}
END_TEST

int main(void) {
    Suite *s = suite_create("schedule box");
    TCase *c = tcase_create("boxes");
    tcase_add_test(c, boxes_hold_what_is_read_and_no_more);
    tcase_add_test(c, linear_parts);
    tcase_add_test(c, extremes);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
