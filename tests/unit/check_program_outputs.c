/* Outputs of a run: checked, of any strides, owning their memory; constants and their packed forms. */
#include "support/program_case.h"

#include <stdlib.h>
#include <string.h>

static program_case pc;

static void setup(void) { pc_open(&pc, 2); }
static void teardown(void) { pc_close(&pc); }

static const char *const simple = "functions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f32[2,4]\n"
                                  "  %1 = exp(%0) : f32[2,4]\n  output \"y\" %1\n}\n";

START_TEST(outputs_are_checked) {
    mlsys_graph g = pc_parse(&pc, simple);
    mlsys_program p = pc_compile(&pc, g, "");
    kc_rng r = kc_seed(2);
    const int64_t shape[2] = {2, 4}, row[2] = {1, 4}, zero[2] = {0, 1}, cube[3] = {1, 2, 4};
    mlsys_tensor x = pc_random(&pc, &r, MLSYS_F32, 2, shape),
                 one = pc_random(&pc, &r, MLSYS_F32, 2, row), t;
    mlsys_ctx other;
    mlsys_device device;
    pc_expect(mlsys_program_run(p, pc.stream, 1, &x, 1, &x), MLSYS_E_ARG,
              "output 0 shares memory with input 0");
    pc_expect(mlsys_graph_interpret(g, pc.stream, 1, &x, 1, &x), MLSYS_E_ARG,
              "shares memory with input 0");
    OK(mlsys_tensor_broadcast(one, 2, shape, &t)); /* BO-05: an expanded destination */
    pc_expect(mlsys_program_run(p, pc.stream, 1, &x, 1, &t), MLSYS_E_ARG, "overlaps itself");
    pc_expect(mlsys_graph_interpret(g, pc.stream, 1, &x, 1, &t), MLSYS_E_ARG, "overlaps itself");
    pc_release(1, &t);
    OK(mlsys_tensor_view(one, 2, shape, zero, 0, &t));
    pc_expect(mlsys_program_run(p, pc.stream, 1, &x, 1, &t), MLSYS_E_ARG, "overlaps itself");
    pc_release(1, &t);
    t = pc_tensor(&pc, MLSYS_F32, 2, row, NULL);
    pc_expect(mlsys_program_run(p, pc.stream, 1, &x, 1, &t), MLSYS_E_SHAPE,
              "output 0 is f32[1,4], expected f32[2,4]");
    pc_release(1, &t);
    t = pc_tensor(&pc, MLSYS_F32, 3, cube, NULL);
    pc_expect(mlsys_program_run(p, pc.stream, 1, &x, 1, &t), MLSYS_E_SHAPE, "f32[1,2,4]");
    pc_release(1, &t);
    t = pc_tensor(&pc, MLSYS_F64, 2, shape, NULL);
    pc_expect(mlsys_program_run(p, pc.stream, 1, &x, 1, &t), MLSYS_E_DTYPE, "f64[2,4]");
    pc_release(1, &t);
    OK(mlsys_ctx_create(NULL, NULL, &other));
    OK(mlsys_device_get(other, MLSYS_CPU, 0, &device));
    OK(mlsys_tensor_create(device, MLSYS_F32, 2, shape, &t));
    pc_expect(mlsys_program_run(p, pc.stream, 1, &x, 1, &t), MLSYS_E_ARG,
              "output 0 is from another context");
    pc_expect(mlsys_graph_interpret(g, pc.stream, 1, &x, 1, &t), MLSYS_E_ARG, "another context");
    pc_release(1, &t);
    OK(mlsys_release(device));
    OK(mlsys_release(other));
    pc_release(1, &x);
    pc_release(1, &one);
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}
END_TEST

START_TEST(constants_are_not_written) {
    mlsys_graph g;
    mlsys_value c, x, y;
    mlsys_tensor t = pc_f32(&pc, 8, (const float[]){1, 2, 3, 4, 5, 6, 7, 8}), view,
                 in = pc_f32(&pc, 4, NULL);
    const mlsys_dim four[1] = {4};
    OK(mlsys_graph_create(pc.ctx_handle, &g));
    OK(mlsys_graph_input(g, "x", MLSYS_F32, 1, four, &x));
    OK(mlsys_graph_donate(g, x));
    OK(mlsys_tensor_slice(t, 0, 0, 4, 1, &view));
    OK(mlsys_graph_const(g, view, &c));
    OK(mlsys_graph_op(g, "mul", 2, (mlsys_value[]){x, c}, NULL, 1, &y));
    OK(mlsys_graph_output(g, NULL, y));
    OK(mlsys_graph_output(g, NULL, c));
    mlsys_program p = pc_compile(&pc, g, "");
    mlsys_tensor out[2] = {view, NULL};
    pc_expect(mlsys_program_run(p, pc.stream, 1, &in, 2, out), MLSYS_E_ARG,
              "output 0 shares memory with a constant");
    out[0] = NULL;
    pc_expect(mlsys_program_run(p, pc.stream, 1, &view, 2, out), MLSYS_E_ARG,
              "donated input 0 shares memory with a constant");
    mlsys_tensor rest;
    OK(mlsys_tensor_slice(t, 0, 4, 8, 1, &rest));
    out[0] = rest;
    OK(mlsys_program_run(p, pc.stream, 1, &in, 2, out));
    ck_assert(((const float *)rg_view(t).data)[3] == 4 &&
              ((const float *)rg_view(out[1]).data)[3] == 4);
    pc_release(1, &out[1]);
    pc_release(1, &rest);
    pc_release(1, &view);
    pc_release(1, &t);
    pc_release(1, &in);
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}
END_TEST

/* Views, an input, a constant and one value twice, all as outputs: each has memory of its own. */
START_TEST(outputs_own_their_memory) {
    mlsys_graph g = pc_parse(
        &pc, "functions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f32[2,4]\n"
             "  %1 = exp(%0) : f32[2,4]\n  %2 = transpose(%1) {perm=[1,0]} : f32[4,2]\n"
             "  %3 = slice(%0) {starts=[1,0], stops=[2,4]} : f32[1,4]\n"
             "  %4 = const f32[2] hex:0000803f00000040\n"
             "  %5 = broadcast(%4) {shape=[3,2]} : f32[3,2]\n"
             "  output \"\" %1\n  output \"\" %1\n  output \"\" %2\n  output \"\" %3\n"
             "  output \"\" %4\n  output \"\" %0\n  output \"\" %5\n  output \"\" %0\n}\n");
    kc_rng r = kc_seed(6);
    mlsys_tensor in[1] = {pc_random(&pc, &r, MLSYS_F32, 2, (const int64_t[]){2, 4})}, out[8] = {0};
    pc_compare(&pc, g, "", 1, in, 8);
    pc_compare(&pc, g, "plan=0 passes_off=cse,cse2,dce", 1, in, 8);
    mlsys_program p = pc_compile(&pc, g, "");
    OK(mlsys_program_run(p, pc.stream, 1, in, 8, out));
    for (int i = 0; i < 8; i++) {
        uint64_t a, b;
        int32_t contiguous, overlaps;
        OK(mlsys_tensor_layout(out[i], &contiguous, &overlaps));
        ck_assert(contiguous && !overlaps);
        OK(mlsys_tensor_storage_id(out[i], &a));
        for (int j = 0; j < i; j++) {
            OK(mlsys_tensor_storage_id(out[j], &b));
            ck_assert_uint_ne(a, b);
        }
    }
    mlsys_tensor same[8] = {out[0], out[0]}; /* one tensor for two outputs */
    pc_expect(mlsys_program_run(p, pc.stream, 1, in, 8, same), MLSYS_E_ARG,
              "output 1 shares memory with output 0");
    for (int i = 2; i < 8; i++)
        ck_assert_ptr_null(same[i]);
    pc_release(8, out);
    pc_release(1, in);
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}
END_TEST

/* Inputs and outputs of any strides; elements between those of an output stay as they were. */
/* Transposes of three values, each of which may go once it is copied: one of them is alive at a time. */
START_TEST(copies_follow_their_views) {
    static const char text[] =
        "functions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f32[32,64]\n"
        "  %1 = exp(%0) : f32[32,64]\n  %2 = transpose(%1) {perm=[1,0]} : f32[64,32]\n"
        "  %3 = sin(%0) : f32[32,64]\n  %4 = transpose(%3) {perm=[1,0]} : f32[64,32]\n"
        "  %5 = cos(%0) : f32[32,64]\n  %6 = transpose(%5) {perm=[1,0]} : f32[64,32]\n"
        "  output \"a\" %2\n  output \"b\" %4\n  output \"c\" %6\n  output \"d\" %4\n}\n";
    mlsys_graph g = pc_parse(&pc, text);
    mlsys_program p = pc_compile(&pc, g, "passes_off=order");
    mlsys_cost cost = {.size = sizeof cost};
    kc_rng r = kc_seed(8);
    const int64_t shape[2] = {32, 64};
    mlsys_tensor in[1] = {pc_random(&pc, &r, MLSYS_F32, 2, shape)};
    OK(mlsys_program_cost(p, 0, NULL, NULL, &cost));
    /* four outputs; sin's value waits for the second copy of it, cos's does not */
    ck_assert_uint_eq(cost.peak_bytes, (4 + 2) * sizeof(float) * 32 * 64);
    pc_compare(&pc, g, "", 1, in, 4);
    pc_release(1, in);
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}
END_TEST

START_TEST(strided_arguments) {
    mlsys_graph g =
        pc_parse(&pc, "functions 1\nfunc 0 \"main\" {\n  %0 = input \"x\" : f32[3,4]\n"
                      "  %1 = input \"y\" : f32[4]\n  %2 = add(%0, %1) : f32[3,4]\n"
                      "  %3 = softmax(%2) : f32[3,4]\n  output \"\" %3\n  output \"\" %2\n}\n");
    mlsys_program p = pc_compile(&pc, g, "");
    kc_rng r = kc_seed(9);
    mlsys_tensor base[4], in[2], out[2], want[2] = {0};
    base[0] = pc_random(&pc, &r, MLSYS_F32, 2, (const int64_t[]){4, 3});
    base[1] = pc_random(&pc, &r, MLSYS_F32, 1, (const int64_t[]){8});
    base[2] = pc_tensor(&pc, MLSYS_F32, 2, (const int64_t[]){3, 8}, NULL);
    base[3] = pc_tensor(&pc, MLSYS_F32, 2, (const int64_t[]){4, 3}, NULL);
    OK(mlsys_tensor_transpose(base[0], 0, 1, &in[0]));
    OK(mlsys_tensor_slice(base[1], 0, 7, INT64_MIN, -2, &in[1]));
    OK(mlsys_tensor_slice(base[2], 1, 7, INT64_MIN, -2, &out[0]));
    OK(mlsys_tensor_transpose(base[3], 0, 1, &out[1]));
    OK(mlsys_graph_interpret(g, pc.stream, 2, in, 2, want));
    for (int turn = 0; turn < 2; turn++) {
        OK(mlsys_program_run(p, pc.stream, 2, in, 2, out));
        for (int o = 0; o < 2; o++)
            ck_assert_int_eq(rg_difference(out[o], want[o]), -1);
    }
    const unsigned char *gap = rg_view(base[2]).data;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 4; k++)
            ck_assert_int_eq(gap[(i * 8 + 2 * k) * 4], 0xa5);
    uint64_t before = pc_allocations(&pc); /* the scratch now holds the dense copies too */
    OK(mlsys_program_run(p, pc.stream, 2, in, 2, out));
    ck_assert_uint_eq(pc_allocations(&pc), before);
    OK(mlsys_graph_interpret(g, pc.stream, 2, in, 2,
                             out)); /* the interpreter writes strided outputs too */
    for (int o = 0; o < 2; o++)
        ck_assert_int_eq(rg_difference(out[o], want[o]), -1);
    pc_release(2, in);
    pc_release(2, out);
    pc_release(2, want);
    pc_release(4, base);
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}
END_TEST

/* Empty tensors inside another one's range touch nothing. */
START_TEST(empty_arguments) {
    mlsys_graph g =
        pc_parse(&pc, "symbol L 0 8 1\nfunctions 1\nfunc 0 \"main\" {\n"
                      "  %0 = input \"x\" : f32[L] donated\n  %1 = input \"y\" : f32[4]\n"
                      "  %2 = exp(%0) : f32[L]\n  %3 = reduce_sum(%2) : f32[]\n"
                      "  %4 = add(%1, %3) : f32[4]\n  output \"\" %2\n  output \"\" %4\n}\n");
    mlsys_program p = pc_compile(&pc, g, "");
    mlsys_tensor y = pc_f32(&pc, 4, (const float[]){1, 2, 3, 4}), none, out[2] = {0};
    OK(mlsys_tensor_slice(y, 0, 2, 2, 1, &none));
    OK(mlsys_program_run(p, pc.stream, 2, (mlsys_tensor[]){none, y}, 2, out));
    ck_assert(((const float *)rg_view(out[1]).data)[3] == 4);
    pc_release(2, out);
    out[0] = none;
    OK(mlsys_program_run(p, pc.stream, 2, (mlsys_tensor[]){none, y}, 2, out));
    pc_release(2, out);
    pc_release(1, &y);
    OK(mlsys_release(p));
    OK(mlsys_release(g));
}
END_TEST

/* ---- packed constants ----------------------------------------------------------------------------------- */

/* One square weight, read as it is and transposed. */
START_TEST(packs_belong_to_attributes) {
    enum { N = 48 };
    static float w[N * N], x[5 * N];
    mlsys_graph g;
    mlsys_config c;
    mlsys_value v, cw, y[2];
    const mlsys_dim shape[2] = {5, N};
    for (int i = 0; i < N * N; i++)
        w[i] = (float)(i % 97) - 48;
    for (int i = 0; i < 5 * N; i++)
        x[i] = (float)(i % 31) / 8;
    mlsys_tensor t = pc_tensor(&pc, MLSYS_F32, 2, (const int64_t[]){N, N}, w);
    mlsys_tensor in[1] = {pc_tensor(&pc, MLSYS_F32, 2, (const int64_t[]){5, N}, x)};
    OK(mlsys_graph_create(pc.ctx_handle, &g));
    OK(mlsys_graph_input(g, "x", MLSYS_F32, 2, shape, &v));
    OK(mlsys_graph_const(g, t, &cw));
    OK(mlsys_config_create(&c));
    for (int i = 0; i < 2; i++) {
        OK(mlsys_config_set_i64(c, "transpose_b", i));
        OK(mlsys_graph_op(g, "matmul", 2, (mlsys_value[]){v, cw}, c, 1, &y[i]));
        OK(mlsys_graph_output(g, NULL, y[i]));
    }
    pc_compare(&pc, g, "", 1, in, 2);
    pc_compare(&pc, g, "isa=portable", 1, in, 2);
    OK(mlsys_release(c));
    OK(mlsys_release(g));
    pc_release(1, &t);
    pc_release(1, in);
}
END_TEST

int main(void) {
    Suite *s = suite_create("program outputs");
    TCase *tc = tcase_create("outputs");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, outputs_are_checked);
    tcase_add_test(tc, constants_are_not_written);
    tcase_add_test(tc, outputs_own_their_memory);
    tcase_add_test(tc, copies_follow_their_views);
    tcase_add_test(tc, strided_arguments);
    tcase_add_test(tc, empty_arguments);
    tcase_add_test(tc, packs_belong_to_attributes);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
