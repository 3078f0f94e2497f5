/* Types of "call", "if", "while" and "custom", what the interpreter makes of them, and the types
 * that a language model's graph needs with symbolic batch and length. */
#include "support/op_case.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mlsi_ctx *ctx;
static mlsi_graph g;

static void setup(void) {
    ctx = op_ctx_new();
    ck_assert_int_eq(mlsi_graph_init(&g, ctx), MLSYS_OK);
}
static void teardown(void) {
    mlsi_graph_free(&g);
    op_ctx_free(ctx);
}

static const mlsi_type scalar_i64 = {.dtype = MLSYS_I64}, scalar_bool = {.dtype = MLSYS_BOOL};

static int32_t input(int32_t func, const mlsi_type *t) {
    int32_t v;
    ck_assert_int_eq(mlsi_build_input(&g, func, NULL, t, &v), MLSYS_OK);
    return v;
}

static int32_t node(int32_t func, mlsi_op op, const void *attrs, int n, const int32_t *in) {
    int32_t v;
    mlsys_status st = mlsi_build_node(&g, func, op, attrs, n, in, 1, &v);
    ck_assert_msg(st == MLSYS_OK, "%s", mlsys_last_error());
    return v;
}

static int32_t constant(int32_t func, int64_t value) {
    mlsi_attr_full full = {.dtype = MLSYS_I64, .ivalue = value};
    return node(func, MLSI_OP_FULL, &full, 0, NULL);
}

/* x -> op(x, value) */
static int32_t function(const char *name, mlsi_op op, int64_t value) {
    int32_t f;
    ck_assert_int_eq(mlsi_func_add(&g, name, &f), MLSYS_OK);
    int32_t in[2];
    in[0] = input(f, &scalar_i64);
    in[1] = constant(f, value);
    ck_assert_int_eq(mlsi_build_output(&g, f, NULL, node(f, op, NULL, 2, in)), MLSYS_OK);
    return f;
}

static int64_t run1(int n, const int64_t *values, const mlsys_dtype *dtypes) {
    mlsi_view in[4];
    int64_t bytes[4], result = -1;
    for (int i = 0; i < n; i++) {
        bytes[i] = values[i];
        in[i] = (mlsi_view){.data = &bytes[i], .dtype = dtypes[i]};
    }
    mlsi_view out = {.data = &result, .dtype = MLSYS_I64};
    mlsys_status st = mlsi_interpret(&g, 0, n, in, 1, &out);
    ck_assert_msg(st == MLSYS_OK, "%s", mlsys_last_error());
    return result;
}

static void expect_error(mlsi_op op, const void *attrs, int n_in, const int32_t *in, int n_out,
                         mlsys_status code, const char *text) {
    int32_t out[4];
    mlsys_status st = mlsi_build_node(&g, 0, op, attrs, n_in, in, n_out, out);
    ck_assert_msg(st == code && strstr(mlsys_last_error(), text), "%s \"%s\", expected %s \"%s\"",
                  mlsys_status_name(st), mlsys_last_error(), mlsys_status_name(code), text);
}

START_TEST(while_runs_until_its_condition_fails) {
    mlsi_attr_control c = {.fn1 = function("below", MLSI_OP_LT, 100),
                           .fn2 = function("twice", MLSI_OP_MUL, 2)};
    int32_t x = input(0, &scalar_i64);
    ck_assert_int_eq(mlsi_build_output(&g, 0, NULL, node(0, MLSI_OP_WHILE, &c, 1, &x)), MLSYS_OK);
    ck_assert_int_eq(run1(1, (int64_t[]){3}, (mlsys_dtype[]){MLSYS_I64}), 192);
    ck_assert_int_eq(run1(1, (int64_t[]){500}, (mlsys_dtype[]){MLSYS_I64}), 500);
    mlsi_attr_control swapped = {.fn1 = c.fn2, .fn2 = c.fn2}, narrow = {.fn1 = c.fn1, .fn2 = c.fn1};
    expect_error(MLSI_OP_WHILE, &swapped, 1, &x, 1, MLSYS_E_DTYPE,
                 "condition twice gives i64[], expected bool[]");
    expect_error(MLSI_OP_WHILE, &narrow, 1, &x, 1, MLSYS_E_SHAPE, "i64[], body below gives bool[]");
    expect_error(MLSI_OP_WHILE, &c, 1, &x, 2, MLSYS_E_ARG, "2 results for 1 carried values");
    expect_error(MLSI_OP_WHILE, &c, 2, (int32_t[]){x, x}, 2, MLSYS_E_ARG,
                 "2 arguments, function below takes 1");
}
END_TEST

START_TEST(if_runs_one_branch) {
    mlsi_attr_control c = {.fn1 = function("plus", MLSI_OP_ADD, 5),
                           .fn2 = function("minus", MLSI_OP_SUB, 5)};
    int32_t less = function("less", MLSI_OP_LT, 5);
    int32_t in[2];
    in[0] = input(0, &scalar_bool);
    in[1] = input(0, &scalar_i64);
    ck_assert_int_eq(mlsi_build_output(&g, 0, NULL, node(0, MLSI_OP_IF, &c, 2, in)), MLSYS_OK);
    mlsys_dtype types[] = {MLSYS_BOOL, MLSYS_I64};
    ck_assert_int_eq(run1(2, (int64_t[]){1, 10}, types), 15);
    ck_assert_int_eq(run1(2, (int64_t[]){0, 10}, types), 5);
    mlsi_attr_control mixed = {.fn1 = c.fn1, .fn2 = less};
    expect_error(MLSI_OP_IF, &mixed, 2, in, 1, MLSYS_E_SHAPE,
                 "result 0: i64[] from function plus, bool[] from less");
    expect_error(MLSI_OP_IF, &c, 2, (int32_t[]){in[1], in[1]}, 1, MLSYS_E_DTYPE,
                 "operand 0 (pred): i64[], expected bool[]");
    expect_error(MLSI_OP_IF, &c, 2, (int32_t[]){in[0], in[0]}, 1, MLSYS_E_DTYPE,
                 "operand 1 (args): bool[], function plus takes i64[]");
    expect_error(MLSI_OP_IF, &c, 2, in, 2, MLSYS_E_ARG, "2 results, function plus gives 1");
}
END_TEST

START_TEST(call_has_the_types_of_its_function) {
    mlsi_attr_control c = {.fn1 = function("plus", MLSI_OP_ADD, 5)};
    int32_t x = input(0, &scalar_i64), y = node(0, MLSI_OP_CALL, &c, 1, &x);
    ck_assert_int_eq(mlsi_build_output(&g, 0, NULL, node(0, MLSI_OP_CALL, &c, 1, &y)), MLSYS_OK);
    ck_assert_int_eq(run1(1, (int64_t[]){1}, (mlsys_dtype[]){MLSYS_I64}), 11);
    mlsi_type wide = {.dtype = MLSYS_I64, .rank = 1, .dims = {3}};
    int32_t z = input(0, &wide);
    expect_error(MLSI_OP_CALL, &c, 1, &z, 1, MLSYS_E_SHAPE,
                 "call: operand 0 (args): i64[3], function plus takes i64[]");
}
END_TEST

/* ---- custom ops ---------------------------------------------------------------------------- */

static mlsys_status custom_infer(void *user, int32_t n_in, const mlsys_dtype *dtypes,
                                 const int32_t *ndims, const int64_t *in_shapes, mlsys_config attrs,
                                 int32_t n_out, mlsys_dtype *out_dtypes, int32_t *out_ndims,
                                 int64_t *out_shapes) {
    int64_t mode = 0;
    (void)n_in, (void)n_out, (void)user;
    if (attrs) mlsys_config_get_i64(attrs, "mode", &mode);
    if (mode == 1) return mlsys_set_error(MLSYS_E_SHAPE, "twice: not today");
    out_dtypes[0] = mode == 2 ? 999 : dtypes[0];
    out_ndims[0] = ndims[0];
    memcpy(out_shapes, in_shapes, sizeof(int64_t) * 8);
    if (mode == 3) out_shapes[0] = -5;
    return MLSYS_OK;
}

static mlsys_status custom_run(void *user, mlsys_stream stream, int32_t n_in,
                               const mlsys_tensor *in, mlsys_config attrs, int32_t n_out,
                               const mlsys_tensor *out) {
    (void)user, (void)stream, (void)n_in, (void)in, (void)attrs, (void)n_out, (void)out;
    return MLSYS_OK;
}

START_TEST(custom_types_come_from_the_callback) {
    mlsys_opdef def;
    ck_assert_int_eq(mlsys_opdef_init(&def, sizeof def), MLSYS_OK);
    def.name = "twice";
    def.n_in = def.n_out = 1;
    def.infer = custom_infer;
    def.run = custom_run;
    mlsys_ctx handle = mlsi_handle_of(ctx);
    ck_assert_int_eq(mlsys_op_register(handle, &def), MLSYS_OK);
    mlsys_release(handle);
    int64_t batch;
    ck_assert_int_eq(mlsi_dim_symbol(&g.symbols, "B", 1, 8, 1, &batch), MLSYS_OK);
    mlsi_type t = {.dtype = MLSYS_F32, .rank = 2, .dims = {batch, 3}};
    int32_t x = input(0, &t);
    static const char *const texts[] = {NULL, "op twice: infer returned E_SHAPE: twice: not today",
                                        "op twice: result 0: dtype 999",
                                        "op twice: result 0: extent 0 is -5"};
    for (int mode = 0; mode < 4; mode++) {
        mlsys_config config;
        mlsi_config *attrs;
        ck_assert_int_eq(mlsys_config_create(&config), MLSYS_OK);
        ck_assert_int_eq(mlsys_config_set_i64(config, "mode", mode), MLSYS_OK);
        ck_assert_int_eq(mlsi_pin(config, MLSYS_KIND_CONFIG, "config", &attrs), MLSYS_OK);
        ck_assert_int_eq(MLSI_GROW(g.alloc, &g.customs, &g.cap_customs, g.n_customs + 1), MLSYS_OK);
        mlsi_attr_custom at = {.op_index = g.n_customs};
        g.customs[g.n_customs++] = (mlsi_custom_use){mlsi_custom_op_find(ctx, "twice"), attrs};
        mlsys_release(config);
        if (texts[mode])
            expect_error(MLSI_OP_CUSTOM, &at, 1, &x, 1, MLSYS_E_CALLBACK, texts[mode]);
        else
            ck_assert(
                mlsi_type_equal(mlsi_type_of(&g, 0, node(0, MLSI_OP_CUSTOM, &at, 1, &x)), &t));
    }
    mlsi_attr_custom at = {.op_index = 0};
    expect_error(MLSI_OP_CUSTOM, &at, 2, (int32_t[]){x, x}, 1, MLSYS_E_ARG,
                 "op twice: 2 operands and 1 results, takes 1 and 1");
}
END_TEST

/* ---- symbolic batch and length ------------------------------------------------------------- */

static void expect_type(const char *op, const char *operands, const char *attrs, const char *want) {
    op_case row = {op, "", operands, attrs, 1};
    op_variant v;
    mlsi_symtab tab;
    mlsi_graph h;
    char text[200];
    mlsi_symtab_init(&tab, &ctx->alloc);
    op_case_symbols(&tab);
    ck_assert(op_case_variant(&row, 0, &tab, &v));
    mlsys_status st = op_variant_graph(ctx, &v, &h);
    ck_assert_msg(st == MLSYS_OK, "%s(%s) {%s}: %s", op, operands, attrs, mlsys_last_error());
    mlsi_type_text(&h.symbols, mlsi_type_of(&h, 0, h.funcs[0].outputs[0].value), text, sizeof text);
    ck_assert_msg(!strcmp(text, want), "%s(%s) {%s} is %s, expected %s", op, operands, attrs, text,
                  want);
    mlsi_graph_free(&h);
    mlsi_symtab_free(&tab);
}

START_TEST(symbolic_types_of_a_language_model) {
    expect_type("embedding", "q4_1[512,64]; i32[B,L]", "", "f32[B,L,64]");
    expect_type("rms_norm", "f32[B,L,64]; f32[64]", "", "f32[B,L,64]");
    expect_type("quant_matmul", "f32[B,L,64]; q4_1[192,64]", "", "f32[B,L,192]");
    expect_type("reshape", "f32[B,L,192]", "shape=[B,L,-1,16]", "f32[B,L,12,16]");
    expect_type("reshape", "f32[B,L,192]", "shape=[-1,192]", "f32[B*L,192]");
    expect_type("reshape", "f32[B*L,192]", "shape=[B,L,192]", "f32[B,L,192]");
    expect_type("slice", "f32[B,L,192]",
                "starts=[0,0,64], stops=[9223372036854775807,9223372036854775807,128]",
                "f32[B,L,64]");
    expect_type("slice", "f32[B,L+1,8]",
                "starts=[0,-1,0], stops=[9223372036854775807,9223372036854775807,8]", "f32[B,1,8]");
    expect_type("slice", "f32[L+4]", "starts=[2], stops=[-2]", "f32[L]");
    expect_type("slice", "f32[64,8]", "starts=[0,0], stops=[L,8]", "f32[L,8]");
    expect_type("slice", "f32[2*L]", "starts=[0], stops=[9223372036854775807], steps=[2]",
                "f32[L]");
    expect_type("slice", "f32[S]", "starts=[-1], stops=[-9223372036854775808], steps=[-1]",
                "f32[S]");
    expect_type("rope", "f32[B,L,12,16]; i64[L]; f32[8]", "", "f32[B,L,12,16]");
    expect_type("dynamic_update_slice", "f32[B,64,4,16]; f32[B,L,4,16]; i64[4]", "",
                "f32[B,64,4,16]");
    expect_type("attention", "f32[B,L,12,16]; f32[B,64,4,16]; f32[B,64,4,16]; _; i64[B]",
                "causal=bottom_right", "f32[B,L,12,16]");
    expect_type("matmul", "f32[B,L,64]; f32[1000,64]", "transpose_b=true", "f32[B,L,1000]");
    expect_type("softmax", "f32[B,L]", "", "f32[B,L]");
    expect_type("reduce_mean", "f32[B,L,3]", "axes=[1]", "f32[B,3]");
    expect_type("concat", "f32[B,L]; f32[B,L]; f32[B,3]", "axis=1", "f32[B,2*L+3]");
    expect_type("pad", "f32[L]", "low=[1], high=[2]", "f32[L+3]");
    expect_type("pad", "f32[L]", "low=[-2], high=[B+2]", "f32[B+L]");
    expect_type("pad", "f32[S]", "low=[0], high=[L-S]", "f32[L]");
    expect_type("pad", "f32[3]", "low=[B], high=[L]", "f32[B+L+3]");
    expect_type("conv", "f32[2,B,S+2]; f32[5,B,S]", "", "f32[2,5,3]");
    expect_type("conv", "f32[2,3,S]; f32[3,4,2]",
                "transposed=true, strides=[2], output_pads=[L-2*(L/2)]",
                "f32[2,4,L+2*S-2*((L)/(2))]");
    expect_type("conv", "f32[B,3,S]; f32[4,3,3]", "pads=[1,1]", "f32[B,4,S]");
    expect_type("conv", "f32[B,3,S]; f32[4,3,2]", "strides=[2]", "f32[B,4,((S)/(2))]");
    expect_type("iota", "", "dtype=i64, shape=[L]", "i64[L]");
    expect_type("full", "", "dtype=f32, shape=[B,2*L]", "f32[B,2*L]");
    expect_type("topk", "f32[B,S]", "k=2", "f32[B,2]");
    expect_type("gather", "f32[B,L,8]; i64[3]", "axis=1", "f32[B,3,8]");
    expect_type("cross_entropy", "f32[B,L,100]; i64[B,L]", "", "f32[B,L]");
}
END_TEST

int main(void) {
    Suite *s = suite_create("op types");
    TCase *tc = tcase_create("control and symbols");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, while_runs_until_its_condition_fails);
    tcase_add_test(tc, if_runs_one_branch);
    tcase_add_test(tc, call_has_the_types_of_its_function);
    tcase_add_test(tc, custom_types_come_from_the_callback);
    tcase_add_test(tc, symbolic_types_of_a_language_model);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
