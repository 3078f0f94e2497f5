/* Text of nests: what is printed reads back to the same text and the same meaning; what cannot be read is refused. */
#include "ir/loop/prove.h"
#include "support/nest_case.h"
#include "support/random.h"
#include "support/require.h"

#include <stdlib.h>
#include <string.h>

static void parse(mlsi_nest *n, const char *text) {
    if (mlsi_nest_parse(n, &mlsi_alloc_process, text) != MLSYS_OK)
        ck_abort_msg("%s\n%s", mlsys_last_error(), text);
}

static char *print(const mlsi_nest *n) {
    mlsi_text t;
    mlsi_text_init(&t, n->alloc);
    mlsi_nest_print(n, &t);
    if (t.st != MLSYS_OK) ck_abort_msg("print: %s", mlsys_last_error());
    char *copy = strdup(t.data);
    mlsi_text_free(&t);
    return copy;
}

/* Reads the text of n; it prints the same. */
static void read_back(const mlsi_nest *n, mlsi_nest *back) {
    char *first = print(n);
    parse(back, first);
    char *second = print(back);
    if (strcmp(first, second)) ck_abort_msg("%s\nreads back as\n%s", first, second);
    free(first);
    free(second);
}

/* ---- the same meaning ------------------------------------------------------------------------------------- */

START_TEST(samples_read_back) {
    mlsi_nest n, back;
    nc_build(&n, &mlsi_alloc_process, nest_samples[_i].name);
    read_back(&n, &back);
    for (int k = 0; k < NC_BINDINGS; k++) {
        nest_run a = nc_run(&n, nc_bindings[k], (uint64_t)k),
                 b = nc_run(&back, nc_bindings[k], (uint64_t)k);
        const char *difference = nc_difference(&a, &b);
        if (a.status == MLSYS_OK && difference)
            ck_abort_msg("%s: %s", nest_samples[_i].name, difference);
        ck_assert_int_eq(a.status, b.status);
        ck_assert_str_eq(a.error, b.error);
        nc_run_free(&a);
        nc_run_free(&b);
    }
    mlsi_nest_free(&n);
    mlsi_nest_free(&back);
}
END_TEST

/* ---- every kind of statement and value ------------------------------------------------------------------- */

static const char kinds[] =
    "nest kinds\n"
    "symbol M in [0,5]\n"
    "symbol C in [4,12] step 4\n"
    "input in0: f32[M,C]\n"
    "input in1: q8_0[2,64]\n"
    "input in2: i64[3]\n"
    "output out0: f32[M,C]\n"
    "bytes in1_bytes: u8[2,2,34] of input 1\n"
    "let %a = cast(in1_bytes[1,0,33]):f32\n"
    "bind row_0 < M = in2[2] \"gather: index\" clamp\n"
    "bind col_1 < C = in2[0] wrap at 2*M\n"
    "bind one_2 < 1 = in2[1]\n"
    "for i_3 < M {\n"
    "  local tile: f64[2,((C)/(4))]\n"
    "  acc @s: dot f32 of C from $1=add(%a, f32(1.5))\n"
    "  acc @m: argmax bf16 of C\n"
    "  for k_4 < C {\n"
    "    add @s[k_4] in0[i_3,k_4], $2=mul(in0[row_0,k_4], $1)\n"
    "    add @m[C-k_4-1] cast($2):bf16\n"
    "  }\n"
    "  unrolled u_5 < 2 {\n"
    "    vector v_6 < C {\n"
    "      when lt(%a, @s) {\n"
    "        if 0 <= -u_5+v_6 < C {\n"
    "          out0[i_3,v_6] = guard(1 <= v_6 < C, random_uniform(M*v_6, index(i_3), @m):f32, "
    "cast(index(col_1-3)):f32)\n"
    "        }\n"
    "      }\n"
    "    }\n"
    "  }\n"
    "  copy tile[1,0] = tile[0,0]\n"
    "  wait\n"
    "  mma tile (1,1,2) tile[0,0], in0[i_3,0]\n"
    "}\n";

static const char gpu[] = "nest gpu\n"
                          "input in0: f32[1024]\n"
                          "output out0: f32[1024]\n"
                          "grid g_0 < 8 {\n"
                          "  block w_1 < 4 {\n"
                          "    shared s: f32[32]\n"
                          "    lane l_2 < 32 {\n"
                          "      let %x = in0[128*g_0+32*w_1+l_2]\n"
                          "      copy s[l_2] = in0[l_2]\n"
                          "      wait\n"
                          "      barrier\n"
                          "      out0[128*g_0+32*w_1+l_2] = add(shuffle(%x, -l_2+31), s[0])\n"
                          "    }\n"
                          "  }\n"
                          "}\n";

static const char *const texts[] = {kinds, gpu};

START_TEST(texts_read_back) {
    mlsi_nest n;
    parse(&n, texts[_i]);
    char *again = print(&n);
    ck_assert_str_eq(again, texts[_i]);
    free(again);
    mlsi_nest_free(&n);
}
END_TEST

/* ---- what the text cannot leave open --------------------------------------------------------------------- */

static int64_t index_of(mlsi_nest *n, int op, int64_t a, int64_t b) {
    int64_t d;
    ck_assert_int_eq(mlsi_dim_op(&n->tab, op, a, b, &d), MLSYS_OK);
    return d;
}

/* The order of terms is that of the variables' symbols: where the text meets them in another one, they are declared. */
START_TEST(variables_in_another_order) {
    mlsi_nest n, back;
    mlsi_type t = {.dtype = MLSYS_I64, .rank = 1, .dims = {12}};
    mlsi_nest_init(&n, &mlsi_alloc_process, NULL, "order");
    int32_t y = mlsi_nest_param(&n, MLSI_SCOPE_OUTPUT, NULL, &t);
    int64_t i = mlsi_nest_for(&n, MLSI_LOOP_SERIAL, "i", 3),
            j = mlsi_nest_for(&n, MLSI_LOOP_SERIAL, "j", 4);
    int64_t at = index_of(&n, '+', index_of(&n, '*', i, 4), j);
    mlsi_nest_store(&n, y, &at, mlsi_nest_index_value(&n, at));
    mlsi_nest_end(&n);
    mlsi_nest_end(&n);
    n.first = 1; /* j outside */
    n.stmts[1].body = 0;
    n.stmts[0].body = 2;
    char *text = print(&n);
    ck_assert_ptr_nonnull(
        strstr(text, "variable i_0 < 3\nvariable j_1 < 4\nfor j_1 < 4 {\n  for i_0 < 3 {\n"));
    ck_assert_ptr_nonnull(strstr(text, "out0[4*i_0+j_1] = "));
    free(text);
    read_back(&n, &back);
    ck_assert_int_eq(mlsi_nest_prove(&back, MLSI_PROVE_ALL), MLSYS_OK);
    mlsi_nest_free(&n);
    mlsi_nest_free(&back);
}
END_TEST

START_TEST(equal_names_are_told_apart) {
    mlsi_nest n, back;
    mlsi_type t = {.dtype = MLSYS_F32, .rank = 0};
    mlsi_nest_init(&n, &mlsi_alloc_process, NULL, "twice or so");
    int32_t x = mlsi_nest_param(&n, MLSI_SCOPE_INPUT, "a", &t),
            z = mlsi_nest_param(&n, MLSI_SCOPE_INPUT, "a", &t);
    int32_t y = mlsi_nest_param(&n, MLSI_SCOPE_OUTPUT, "the result", &t);
    int32_t first = mlsi_nest_let(&n, "v", mlsi_nest_load(&n, x, NULL));
    int32_t second = mlsi_nest_let(&n, "v", mlsi_nest_load(&n, z, NULL));
    mlsi_nest_store(&n, y, NULL, mlsi_nest_op(&n, MLSI_OP_SUB, 0, first, second, -1));
    n.lets[1].name = n.lets[0].name;
    char *text = print(&n);
    ck_assert_str_eq(text, "nest twice_or_so\n"
                           "input a: f32[]\n"
                           "input a_1: f32[]\n"
                           "output the_result: f32[]\n"
                           "let %v_0 = a[]\n"
                           "let %v_0_1 = a_1[]\n"
                           "the_result[] = sub(%v_0, %v_0_1)\n");
    free(text);
    read_back(&n, &back);
    mlsi_nest_free(&n);
    mlsi_nest_free(&back);
}
END_TEST

/* Each bit pattern of a constant reads back. */
START_TEST(constants_read_back) {
    static const mlsys_dtype dtypes[] = {MLSYS_F64, MLSYS_F32, MLSYS_F16, MLSYS_BF16, MLSYS_I64,
                                         MLSYS_I32, MLSYS_I8,  MLSYS_U8,  MLSYS_BOOL};
    test_random r = test_random_seed("constants_read_back", 41);
    for (size_t k = 0; k < sizeof dtypes / sizeof dtypes[0]; k++)
        for (int trial = 0; trial < 300; trial++) {
            mlsi_nest n, back;
            mlsi_type t = {.dtype = dtypes[k], .rank = 0};
            uint64_t bits = test_bits(&r);
            if (trial % 3 == 0)
                bits &= (uint64_t)0xff << 8 * (trial % 8); /* round numbers, zeros, denormals */
            if (trial % 7 == 0) bits |= (uint64_t)0x7ff0 << 48 | 0x7f800000u; /* infinities, NaN */
            if (t.dtype == MLSYS_BOOL) bits = trial & 1;
            mlsi_nest_init(&n, &mlsi_alloc_process, NULL, "constant");
            int32_t y = mlsi_nest_param(&n, MLSI_SCOPE_OUTPUT, NULL, &t);
            int32_t x = mlsi_nest_const(&n, t.dtype, &bits);
            mlsi_nest_store(&n, y, NULL, x);
            read_back(&n, &back);
            if (back.exprs[back.stmts[0].value].bits != n.exprs[x].bits)
                ck_abort_msg("%016llx", (unsigned long long)n.exprs[x].bits);
            mlsi_nest_free(&n);
            mlsi_nest_free(&back);
        }
}
END_TEST

/* A value that is used many times is written once: the text of a chain of squares stays short. */
START_TEST(shared_values_are_written_once) {
    mlsi_nest n, back;
    mlsi_type t = {.dtype = MLSYS_F32, .rank = 0};
    mlsi_nest_init(&n, &mlsi_alloc_process, NULL, "squares");
    int32_t x = mlsi_nest_load(&n, mlsi_nest_param(&n, MLSI_SCOPE_INPUT, NULL, &t), NULL);
    int32_t y = mlsi_nest_param(&n, MLSI_SCOPE_OUTPUT, NULL, &t);
    for (int i = 0; i < 16; i++)
        x = mlsi_nest_op(&n, MLSI_OP_MUL, 0, x, x, -1);
    mlsi_nest_store(&n, y, NULL, x);
    char *text = print(&n);
    ck_assert_int_lt((int)strlen(text), 600);
    free(text);
    read_back(&n, &back);
    ck_assert_int_eq(back.n_exprs, n.n_exprs);
    mlsi_nest_free(&n);
    mlsi_nest_free(&back);
}
END_TEST

START_TEST(deep_values_are_refused) {
    mlsi_nest n;
    mlsi_text t;
    mlsi_type type = {.dtype = MLSYS_F32, .rank = 0};
    mlsi_nest_init(&n, &mlsi_alloc_process, NULL, "deep");
    int32_t x = mlsi_nest_load(&n, mlsi_nest_param(&n, MLSI_SCOPE_INPUT, NULL, &type), NULL);
    int32_t y = mlsi_nest_param(&n, MLSI_SCOPE_OUTPUT, NULL, &type);
    for (int i = 0; i < 100000; i++)
        x = mlsi_nest_op(&n, MLSI_OP_NEG, 0, x, -1, -1);
    mlsi_nest_store(&n, y, NULL, x);
    mlsi_text_init(&t, &mlsi_alloc_process);
    mlsi_nest_print(&n, &t);
    ck_assert_int_eq(t.st, MLSYS_E_STATE);
    ck_assert_ptr_nonnull(strstr(mlsys_last_error(), "nest deeper than 2000"));
    mlsi_text_free(&t);
    mlsi_nest_free(&n);
    t = (mlsi_text){.alloc = &mlsi_alloc_process};
    mlsi_text_add(&t, "nest deep\noutput y: f32[]\ny[] = ");
    for (int i = 0; i < 100000; i++)
        mlsi_text_add(&t, "neg(");
    ck_assert_int_eq(mlsi_nest_parse(&n, &mlsi_alloc_process, t.data), MLSYS_E_FORMAT);
    mlsi_nest_free(&n);
    mlsi_text_free(&t);
}
END_TEST

/* ---- what is refused --------------------------------------------------------------------------------------- */

#define HEAD "nest n\nsymbol N in [1,4]\ninput a: f32[N]\noutput y: f32[N]\n"

static const struct bad {
    const char *text, *sentence;
} bads[] = {
    {"", "line 1: expected nest"},
    {"nest n\nsymbol 5 in [1,4]\n", "line 2"},
    {"nest n\nsymbol N in [4,1]\n", "line 2: symbol N"},
    {"nest n\nsymbol N in [1,4]\nsymbol N in [1,4]\n", "symbol is known already"},
    {"nest n\nvariable i < 4\nsymbol N in [1,4]\n", "a shape symbol behind variables"},
    {"nest n\ninput a: f31[2]\n", "unknown dtype"},
    {"nest n\ninput a: f32[1,1,1,1,1,1,1,1,1]\n", "more than 8 indices"},
    {"nest n\ninput a: f32[N]\n", "known symbol expected"},
    {"nest n\nbytes b: u8[2] of input 0\n", "b is parameter 0"},
    {"nest n\ninput a: q8_0[64]\nbytes b: u8[2] of input 0\n", "does not show the bytes"},
    {"nest n\ninput a: q8_0[64]\nbytes b: u8[3,34] of input 0\n", "another number of blocks"},
    {"nest n\nbytes b: u8[2] of input 99999999999\n", "no such parameter"},
    {HEAD "frob\n", "line 5: expected a statement"},
    {HEAD "}\n", "no body ends"},
    {HEAD "for i < N {\n", "expected }"},
    {HEAD "for i < N\n", "expected {"},
    {HEAD "for i < N { wait\n}\n", "expected the end of the line"},
    {HEAD "for N < 4 {\n}\n", "the name is taken"},
    {HEAD "variable i < N\nfor i < 4 {\n}\n", "another extent than declared"},
    {HEAD "for i < N {\n  for i < N {\n  }\n}\n", "variable 0 is defined twice"},
    {HEAD "y[0] = b[0]\n", "unknown buffer"},
    {HEAD "b[0] = a[0]\n", "unknown buffer"},
    {HEAD "a[0] = a[0]\n", "a is an input"},
    {HEAD "y[0] = a[i]\n", "known symbol expected"},
    {HEAD "y[0] = frob(a[0])\n", "unknown op"},
    {HEAD "y[0] = cast(a[0])\n", "expected :dtype"},
    {HEAD "y[0] = add(a[0], a[0], a[0], a[0])\n", "more than 3 arguments"},
    {HEAD "y[0] = add(a[0])\n", "add has 1 arguments"},
    {HEAD "y[0] = f32(x)\n", "expected a number"},
    {HEAD "y[0] = f32(0x100000000)\n", "more bits than f32"},
    {HEAD "y[0] = cast(i8(128)):f32\n", "integer is too large"},
    {HEAD "y[0] = q8_0(1)\n", "a constant has no blocks"},
    {HEAD "y[0] = %v\n", "unknown let"},
    {HEAD "y[0] = @v\n", "unknown accumulator"},
    {HEAD "y[0] = $1\n", "unknown $"},
    {HEAD "y[0] = $2=a[0]\n", "unknown $"},
    {HEAD "y[0] = $1=neg($1)\n", "unknown $"},
    {HEAD "y[0] = $1=neg($1=a[0])\n", "this $ is known already"},
    {HEAD "acc @s: frob f32 of N\n", "unknown reduction"},
    {HEAD "acc @s: sum f16 of N\n", "no reduction"},
    {HEAD "acc @s: sum f32 of N from f32(1)\n", "is no product"},
    {HEAD "for i < N {\n  let %v = a[i]\n}\ny[0] = %v\n", "let 0 is not defined here"},
    {HEAD "bind i < N = a[0]\n", "the value is f32, not i64"},
    {HEAD "bind i < N = index(i) \"x\n", "unended or long text"},
    {HEAD "bind i < N = index(i)\n", "i is not defined here"},
    {HEAD "bind i < N = index(0-1) clamp wrap\n", "a clamp or a wrap"},
    {HEAD "y[0] = guard(0 <= 0 < 1, a[0])\n", "a guard has two arguments"},
    {HEAD "y[N/0] = a[0]\n", "divisor 0"},
    {HEAD "for i < N-2 {\n}\n", "the extent of i may be -1"},
};

START_TEST(bad_texts_are_refused) {
    mlsi_nest n;
    mlsys_status st = mlsi_nest_parse(&n, &mlsi_alloc_process, bads[_i].text);
    ck_assert_msg(st == MLSYS_E_FORMAT && strstr(mlsys_last_error(), bads[_i].sentence),
                  "%s\n%s \"%s\", expected \"%s\"", bads[_i].text, mlsys_status_name(st),
                  st == MLSYS_OK ? "" : mlsys_last_error(), bads[_i].sentence);
    mlsi_nest_free(&n);
}
END_TEST

/* A copy's destination is arbitrary until the next wait. */
START_TEST(copies_are_waited_for) {
    static const struct {
        const char *wait;
        mlsys_status status;
    } cases[] = {{"  wait\n", MLSYS_OK}, {"", MLSYS_E_STATE}};
    char text[600];
    float x[4] = {1, 2, 3, 4}, y[4];
    const mlsi_view views[2] = {
        {.data = x, .dtype = MLSYS_F32, .rank = 1, .shape = {4}, .strides = {1}},
        {.data = y, .dtype = MLSYS_F32, .rank = 1, .shape = {4}, .strides = {1}}};
    mlsi_nest n;
    snprintf(text, sizeof text,
             "nest n\ninput a: f32[4]\noutput y: f32[4]\nfor r < 1 {\n  local t: f32[4]\n"
             "  for i < 4 {\n    copy t[i] = a[i]\n  }\n%s  for j < 4 {\n    y[j] = t[j]\n  }\n}\n",
             cases[_i].wait);
    if (mlsi_nest_parse(&n, &mlsi_alloc_process, text) != MLSYS_OK)
        ck_abort_msg("%s", mlsys_last_error());
    ck_assert_int_eq(mlsi_nest_interpret(&n, NULL, views), cases[_i].status);
    if (cases[_i].status == MLSYS_OK)
        ck_assert_mem_eq(x, y, sizeof x);
    else
        ck_assert_ptr_nonnull(strstr(mlsys_last_error(), "before it is waited for"));
    mlsi_nest_free(&n);
}
END_TEST

int main(void) {
    Suite *s = suite_create("text of nests");
    TCase *tc = tcase_create("text");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, samples_read_back, 0, nest_sample_count);
    tcase_add_loop_test(tc, texts_read_back, 0, sizeof texts / sizeof texts[0]);
    tcase_add_test(tc, variables_in_another_order);
    tcase_add_test(tc, equal_names_are_told_apart);
    tcase_add_test(tc, constants_read_back);
    tcase_add_test(tc, shared_values_are_written_once);
    tcase_add_test(tc, deep_values_are_refused);
    tcase_add_loop_test(tc, bad_texts_are_refused, 0, sizeof bads / sizeof bads[0]);
    tcase_add_loop_test(tc, copies_are_waited_for, 0, 2);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
