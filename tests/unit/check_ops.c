/* The op table's rules on all rows of tests/op_cases.h: attributes, symbolic types, views, costs.
 */
#include "support/op_case.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 20261202 };

static const mlsi_node *only_node(const mlsi_graph *g) { return &g->funcs[0].nodes[0]; }

/* ---- attributes ---------------------------------------------------------------------------- */

START_TEST(attributes_read_back_as_printed) {
    mlsi_ctx *ctx = op_ctx_new();
    op_variant v;
    for (int i = 0; i < op_case_count; i++)
        for (int k = 0; k < 3 && op_case_variant(&op_cases[i], k, NULL, &v); k++) {
            mlsi_graph g;
            mlsi_text text;
            const mlsi_op_def *def = mlsi_op_get(v.op);
            ck_assert_int_eq(op_variant_graph(ctx, &v, &g), MLSYS_OK);
            const void *attrs = only_node(&g)->attrs;
            void *again = calloc(1, def->attrs_size);
            mlsi_text_init(&text, &ctx->alloc);
            mlsi_attrs_print(def, attrs, &g.symbols, &text);
            const char *p = text.data ? text.data : "";
            mlsys_status st = mlsi_attrs_parse(def, op_cases[i].op, &g.symbols, &p, again);
            ck_assert_msg(st == MLSYS_OK && !*p, "%s %s: %s", op_cases[i].op, text.data,
                          mlsys_last_error());
            ck_assert_msg(mlsi_attrs_equal(def, attrs, again), "%s %s: differs", op_cases[i].op,
                          text.data);
            ck_assert_uint_eq(mlsi_attrs_hash(def, attrs), mlsi_attrs_hash(def, again));
            ck_assert_int_eq(memcmp(attrs, again, def->attrs_size), 0);
            free(again);
            mlsi_text_free(&text);
            mlsi_graph_free(&g);
        }
    op_ctx_free(ctx);
}
END_TEST

/* Every attribute of every op changes equality and hash. */
START_TEST(every_attribute_counts) {
    for (int op = 0; op < MLSI_OP_COUNT; op++) {
        const mlsi_op_def *def = mlsi_op_get((mlsi_op)op);
        unsigned char *a = calloc(1, def->attrs_size), *b = calloc(1, def->attrs_size);
        for (const mlsi_attr_desc *d = def->attrs; d && d->name; d++) {
            mlsi_attrs_default(def, a);
            mlsi_attrs_default(def, b);
            ck_assert(mlsi_attrs_equal(def, a, b));
            b[d->offset] ^= 1;
            ck_assert_msg(!mlsi_attrs_equal(def, a, b), "%s: %s", mlsi_op_name((mlsi_op)op),
                          d->name);
            ck_assert_uint_ne(mlsi_attrs_hash(def, a), mlsi_attrs_hash(def, b));
        }
        free(a);
        free(b);
    }
}
END_TEST

static void expect_config_error(const char *op, const mlsi_config_entry *e, mlsys_status code,
                                const char *text) {
    const mlsi_op_def *def = mlsi_op_get(mlsi_op_by_name(op));
    mlsi_config c = {.entries = (mlsi_config_entry *)e, .count = e ? 1 : 0};
    void *attrs = calloc(1, def->attrs_size);
    mlsys_status st = mlsi_attrs_from_config(def, op, NULL, &c, attrs);
    free(attrs);
    ck_assert_msg(st == code && strstr(mlsys_last_error(), text),
                  "%s: %s \"%s\", expected %s \"%s\"", op, mlsys_status_name(st),
                  mlsys_last_error(), mlsys_status_name(code), text);
}

START_TEST(configs_are_checked) {
    expect_config_error("softmax", &(mlsi_config_entry){.key = (char *)"axes", .type = 'i'},
                        MLSYS_E_ARG, "softmax: no attribute \"axes\"");
    expect_config_error("softmax", &(mlsi_config_entry){.key = (char *)"axis", .type = 'f'},
                        MLSYS_E_ARG, "softmax: attribute axis: expected an integer");
    expect_config_error("softmax",
                        &(mlsi_config_entry){.key = (char *)"masked_zero", .type = 'i', .i = 2},
                        MLSYS_E_ARG, "expected 0 or 1");
    expect_config_error("softmax", &(mlsi_config_entry){.key = (char *)"axis", .type = 'v', .n = 1},
                        MLSYS_E_ARG, "one value, not a list");
    expect_config_error(
        "cast", &(mlsi_config_entry){.key = (char *)"dtype", .type = 's', .s = (char *)"f33"},
        MLSYS_E_DTYPE, "unknown dtype \"f33\"");
    expect_config_error("cast", NULL, MLSYS_E_ARG, "cast: attribute dtype is required");
    expect_config_error("cast", &(mlsi_config_entry){.key = (char *)"dtype", .type = 'i', .i = 99},
                        MLSYS_E_DTYPE, "unknown dtype 99");
    expect_config_error("gelu", &(mlsi_config_entry){.key = (char *)"form", .type = 'i', .i = 2},
                        MLSYS_E_ARG, "2 outside [0,1]");
    expect_config_error(
        "reshape",
        &(mlsi_config_entry){.key = (char *)"shape", .type = 'v', .n = 1, .v = {MLSI_DIM_CODE - 9}},
        MLSYS_E_ARG, "entry 0 is not a dim of this graph");
}
END_TEST

/* ---- symbolic types ------------------------------------------------------------------------ */

static void bind_all(const mlsi_graph *g, int64_t *binding) {
    for (int64_t s = 0; s < g->symbols.n_symbols; s++) {
        const char *name = g->symbols.symbols[s].name;
        binding[s] = name[0] == 'N' ? atoll(name + 1) : g->symbols.symbols[s].min;
    }
}

static void require_type_at_binding(const mlsi_graph *g, const mlsi_type *symbolic,
                                    const mlsi_type *fixed, const int64_t *binding,
                                    const char *text) {
    ck_assert_msg(symbolic->dtype == fixed->dtype && symbolic->rank == fixed->rank,
                  "%s: another type", text);
    for (int d = 0; d < fixed->rank; d++) {
        int64_t extent;
        ck_assert_int_eq(mlsi_dim_eval(&g->symbols, symbolic->dims[d], binding, &extent), MLSYS_OK);
        ck_assert_msg(extent == fixed->dims[d], "%s: axis %d is %lld, static inference gives %lld",
                      text, d, (long long)extent, (long long)fixed->dims[d]);
    }
}

/* The decomposition written for symbolic operands has the inferred types and, bound, the bits. */
static void check_symbolic_decomposition(mlsi_graph *g, const op_variant *v,
                                         const mlsi_graph *fixed, const int32_t *in,
                                         const int32_t *result, kc_rng *r, const char *text) {
    const mlsi_op_def *def = mlsi_op_get(v->op);
    int32_t out[KC_OPERANDS];
    mlsi_view views[KC_OPERANDS], want[KC_OPERANDS], got[KC_OPERANDS];
    kc_tensor x[KC_OPERANDS], y[KC_OPERANDS], z[KC_OPERANDS];
    int n = 0;
    if (!def->decompose) return;
    mlsys_status st = def->decompose(g, 0, only_node(g)->attrs, v->n_in, in, v->n_out, out);
    ck_assert_msg(st == MLSYS_OK, "%s: symbolic decomposition: %s", text, mlsys_last_error());
    for (int o = 0; o < v->n_out; o++) {
        ck_assert_msg(mlsi_type_equal(mlsi_type_of(g, 0, out[o]), mlsi_type_of(g, 0, result[o])),
                      "%s: the decomposition gives another type", text);
        ck_assert_int_eq(mlsi_build_output(g, 0, NULL, out[o]), MLSYS_OK);
        const mlsi_type *t = mlsi_type_of(fixed, 0, fixed->funcs[0].outputs[o].value);
        y[o] = kc_tensor_new(r, t->dtype, t->rank, t->dims, KC_DENSE);
        z[o] = kc_tensor_new(r, t->dtype, t->rank, t->dims, KC_DENSE);
        want[o] = y[o].view, got[o] = z[o].view;
    }
    for (int i = 0; i < v->n_in; i++) {
        const mlsi_type *t = &v->in[i].type;
        if (v->in[i].absent) continue;
        x[n] = kc_tensor_new(r, t->dtype, t->rank, t->dims, KC_DENSE);
        op_operand_fill(r, &x[n], &v->in[i]);
        views[n] = x[n].view;
        n++;
    }
    ck_assert_int_eq(mlsi_interpret(fixed, 0, n, views, v->n_out, want), MLSYS_OK);
    st = mlsi_interpret(g, 0, n, views, v->n_out, got);
    ck_assert_msg(st == MLSYS_OK, "%s: symbolic decomposition: %s", text, mlsys_last_error());
    for (int o = 0; o < v->n_out; o++) {
        for (int64_t i = 0; i < mlsi_view_count(&want[o]); i++)
            ck_assert_msg((isnan(kc_get_f(&want[o], i)) && isnan(kc_get_f(&got[o], i))) ||
                              !memcmp(kc_at(&want[o], i), kc_at(&got[o], i),
                                      (size_t)mlsi_dtype_size(want[o].dtype)),
                          "%s: symbolic decomposition: element %lld", text, (long long)i);
        kc_tensor_free(&y[o]);
        kc_tensor_free(&z[o]);
    }
    while (n)
        kc_tensor_free(&x[--n]);
}

/* These must be provable with one symbol. */
static bool must_be_provable(const op_variant *v) {
    static const mlsi_op names[] = {
        MLSI_OP_ADD,       MLSI_OP_EXP,         MLSI_OP_SELECT,   MLSI_OP_CAST,
        MLSI_OP_TRANSPOSE, MLSI_OP_REVERSE,     MLSI_OP_CONCAT,   MLSI_OP_REDUCE_SUM,
        MLSI_OP_SCAN,      MLSI_OP_DOT_GENERAL, MLSI_OP_MATMUL,   MLSI_OP_QUANT_MATMUL,
        MLSI_OP_GATHER,    MLSI_OP_EMBEDDING,   MLSI_OP_SCATTER,  MLSI_OP_SORT,
        MLSI_OP_RELU,      MLSI_OP_GELU,        MLSI_OP_SILU,     MLSI_OP_SOFTMAX,
        MLSI_OP_LOGSUMEXP, MLSI_OP_REDUCE_MEAN, MLSI_OP_RMS_NORM, MLSI_OP_CROSS_ENTROPY,
        MLSI_OP_DEQUANTIZE};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (v->op == names[i]) return true;
    return false;
}

static bool check_symbolic(mlsi_ctx *ctx, const op_variant *v, bool one, kc_rng *r) {
    mlsi_graph fixed, g;
    int32_t in[KC_OPERANDS], out[KC_OPERANDS];
    int64_t binding[64];
    char text[512];
    op_variant_text(v, text, sizeof text);
    ck_assert_int_eq(op_variant_graph(ctx, v, &fixed), MLSYS_OK);
    mlsys_status st = op_variant_symbolic(ctx, v, one, &g, in, out);
    bool ok = st == MLSYS_OK;
    ck_assert_msg(ok || st == MLSYS_E_SHAPE, "%s: %s", text, mlsys_last_error());
    ck_assert_msg(ok || !one || !must_be_provable(v), "%s: %s", text, mlsys_last_error());
    bind_all(&g, binding);
    for (int o = 0; o < v->n_out && ok; o++)
        require_type_at_binding(&g, mlsi_type_of(&g, 0, out[o]),
                                mlsi_type_of(&fixed, 0, fixed.funcs[0].outputs[o].value), binding,
                                text);
    if (ok) check_symbolic_decomposition(&g, v, &fixed, in, out, r, text);
    mlsi_graph_free(&fixed);
    mlsi_graph_free(&g);
    return ok;
}

START_TEST(symbolic_types_agree_with_static_ones) {
    mlsi_ctx *ctx = op_ctx_new();
    kc_rng r = kc_seed(SEED);
    op_variant v;
    int proved = 0, tried = 0;
    printf("seed %d\n", SEED);
    for (int i = 0; i < op_case_count; i++)
        for (int k = 0; k < 2 && op_case_variant(&op_cases[i], k, NULL, &v); k++)
            for (int one = 0; one < 2; one++, tried++)
                proved += check_symbolic(ctx, &v, one, &r);
    printf("%d of %d symbolic calls provable\n", proved, tried);
    ck_assert_int_gt(proved * 2, tried);
    op_ctx_free(ctx);
}
END_TEST

/* ---- views --------------------------------------------------------------------------------- */

static void check_view(mlsi_ctx *ctx, const op_variant *v, kc_layout layout, kc_rng *r) {
    const mlsi_op_def *def = mlsi_op_get(v->op);
    const mlsi_type *t = &v->in[0].type;
    mlsi_graph g;
    char text[512];
    op_variant_text(v, text, sizeof text);
    ck_assert_int_eq(op_variant_graph(ctx, v, &g), MLSYS_OK);
    const mlsi_type *y = mlsi_type_of(&g, 0, g.funcs[0].outputs[0].value);
    kc_tensor x = kc_tensor_new(r, t->dtype, t->rank, t->dims, layout);
    kc_tensor want = kc_tensor_new(r, y->dtype, y->rank, y->dims, KC_DENSE);
    op_operand_fill(r, &x, &v->in[0]);
    ck_assert_int_eq(mlsi_interpret(&g, 0, 1, &x.view, 1, &want.view), MLSYS_OK);
    mlsi_layout in = {.dtype = t->dtype, .rank = t->rank}, type, view;
    memcpy(in.shape, x.view.shape, sizeof in.shape);
    memcpy(in.strides, x.view.strides, sizeof in.strides);
    bool is_view;
    ck_assert_int_eq(mlsi_layout_row_major(&type, y->dtype, y->rank, y->dims), MLSYS_OK);
    ck_assert_msg(def->view(only_node(&g)->attrs, &in, &type, &view, &is_view) == MLSYS_OK,
                  "%s: %s", text, mlsys_last_error());
    ck_assert_msg(is_view || v->op == MLSI_OP_RESHAPE, "%s is no view", text);
    mlsi_view got = mlsi_view_of(x.view.data, &view);
    bool blocks = mlsi_dtype_is_block(y->dtype); /* of dense views only */
    if (blocks) ck_assert(!memcmp(got.data, want.view.data, mlsi_view_bytes(&want.view)));
    for (int64_t i = 0; is_view && !blocks && i < mlsi_view_count(&want.view); i++)
        ck_assert_msg(
            !memcmp(kc_at(&got, i), kc_at(&want.view, i), (size_t)mlsi_dtype_size(y->dtype)),
            "%s: element %lld of the view", text, (long long)i);
    kc_tensor_free(&x);
    kc_tensor_free(&want);
    mlsi_graph_free(&g);
}

START_TEST(views_hold_the_elements_of_the_reference) {
    mlsi_ctx *ctx = op_ctx_new();
    kc_rng r = kc_seed(SEED + 1);
    op_variant v;
    int checked = 0;
    for (int i = 0; i < op_case_count; i++)
        for (int k = 0; op_case_variant(&op_cases[i], k, NULL, &v); k++) {
            if (!(mlsi_op_get(v.op)->traits & MLSI_TRAIT_VIEW)) break;
            bool blocks = mlsi_dtype_is_block(v.in[0].type.dtype);
            for (kc_layout l = KC_DENSE; l < (blocks ? KC_DENSE + 1 : KC_LAYOUTS); l++, checked++)
                check_view(ctx, &v, l, &r);
        }
    ck_assert_int_gt(checked, 500);
    op_ctx_free(ctx);
}
END_TEST

/* ---- costs, texts -------------------------------------------------------------------------- */

static mlsi_op_cost cost_of(mlsi_ctx *ctx, const char *op, const char *operands, const char *attrs,
                            int n_out) {
    op_case row = {op, "", operands, attrs, n_out};
    op_variant v;
    mlsi_graph g;
    mlsi_view in[KC_OPERANDS] = {{0}}, out[KC_OPERANDS] = {{0}};
    mlsi_op_cost c = {0};
    ck_assert(op_case_variant(&row, 0, NULL, &v));
    ck_assert_int_eq(op_variant_graph(ctx, &v, &g), MLSYS_OK);
    for (int i = 0; i < v.n_in; i++) {
        in[i] = (mlsi_view){.dtype = v.in[i].type.dtype, .rank = v.in[i].type.rank};
        memcpy(in[i].shape, v.in[i].type.dims, sizeof in[i].shape);
    }
    for (int o = 0; o < v.n_out; o++) {
        const mlsi_type *t = mlsi_type_of(&g, 0, g.funcs[0].outputs[o].value);
        out[o] = (mlsi_view){.dtype = t->dtype, .rank = t->rank};
        memcpy(out[o].shape, t->dims, sizeof out[o].shape);
    }
    mlsi_cost_args a = {only_node(&g)->attrs, v.n_in, v.n_out, in, out};
    mlsi_op_get(v.op)->cost(&a, &c);
    mlsi_graph_free(&g);
    return c;
}

START_TEST(costs_are_the_formulas) {
    mlsi_ctx *ctx = op_ctx_new();
    ck_assert_uint_eq(cost_of(ctx, "matmul", "f32[2,3,5]; f32[5,7]", "", 1).flops,
                      2 * 2 * 3 * 5 * 7);
    ck_assert_uint_eq(
        cost_of(ctx, "matmul", "f32[2,5,3]; f32[7,5]", "transpose_a=true, transpose_b=true", 1)
            .flops,
        2 * 2 * 3 * 5 * 7);
    ck_assert_uint_eq(
        cost_of(ctx, "dot_general", "f32[5,3]; f32[7,5]", "lhs_contract=[0], rhs_contract=[1]", 1)
            .flops,
        2 * 3 * 5 * 7);
    ck_assert_uint_eq(cost_of(ctx, "quant_matmul", "f32[3,64]; q4_0[5,64]", "", 1).flops,
                      2 * 3 * 5 * 64);
    ck_assert_uint_eq(cost_of(ctx, "conv", "f32[2,4,9]; f32[6,2,3]", "groups=2", 1).flops,
                      2 * (2 * 6 * 7) * (2 * 3));
    ck_assert_uint_eq(cost_of(ctx, "exp", "f32[3,5]", "", 1).transcendentals, 15);
    ck_assert_uint_eq(cost_of(ctx, "add", "f32[3,1]; f32[5]", "", 1).flops, 15);
    ck_assert_uint_eq(cost_of(ctx, "fma", "f32[7]; f32[]; f32[]", "", 1).flops, 14);
    ck_assert_uint_eq(cost_of(ctx, "reduce_sum", "f32[7,3]", "axes=[0]", 1).flops, 21);
    ck_assert_uint_eq(cost_of(ctx, "transpose", "f32[7,3]", "", 1).flops, 0);
    ck_assert_uint_eq(
        cost_of(ctx, "attention", "f32[1,3,2,8]; f32[1,5,2,8]; f32[1,5,2,4]", "", 1).flops,
        2 * (3 * 2 * 5) * (8 + 4));
    op_ctx_free(ctx);
}
END_TEST

/* Ops that read a part of an operand say so. */
START_TEST(costs_count_what_is_read) {
    mlsi_ctx *ctx = op_ctx_new();
    ck_assert_uint_eq(cost_of(ctx, "gather", "f16[50,6]; i32[3]", "", 1).bytes_read,
                      3 * 6 * 2 + 3 * 4);
    ck_assert_uint_eq(cost_of(ctx, "embedding", "q8_0[50,64]; i64[3]", "", 1).bytes_read,
                      3 * 2 * 34 + 3 * 8);
    ck_assert_uint_eq(
        cost_of(ctx, "dynamic_slice", "f32[50,6]; i64[2]", "sizes=[2,3]", 1).bytes_read,
        2 * 3 * 4 + 2 * 8);
    ck_assert_uint_eq(
        cost_of(ctx, "slice", "f32[50]", "starts=[0], stops=[9], steps=[2]", 1).bytes_read, 5 * 4);
    op_ctx_free(ctx);
}
END_TEST

START_TEST(schema_names_every_operand_and_attribute) {
    mlsi_alloc alloc;
    mlsi_alloc_init(&alloc, NULL);
    for (int op = 0; op < MLSI_OP_COUNT; op++) {
        const mlsi_op_def *def = mlsi_op_get((mlsi_op)op);
        mlsi_text page, keys;
        mlsi_text_init(&page, &alloc);
        mlsi_text_init(&keys, &alloc);
        mlsi_op_schema_text((mlsi_op)op, &page);
        mlsi_op_attrs_text((mlsi_op)op, &keys);
        ck_assert_int_eq(page.st, MLSYS_OK);
        ck_assert_ptr_nonnull(strstr(page.data, def->doc));
        ck_assert_ptr_nonnull(strstr(page.data, def->special));
        for (const mlsi_attr_desc *d = def->attrs; d && d->name; d++) {
            ck_assert_ptr_nonnull(strstr(page.data, d->help));
            ck_assert_ptr_nonnull(strstr(keys.data, d->name));
        }
        mlsi_text_free(&page);
        mlsi_text_free(&keys);
    }
    ck_assert_uint_eq(alloc.live_bytes, 0);
}
END_TEST

int main(void) {
    Suite *s = suite_create("ops");
    TCase *tc = tcase_create("rules");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, attributes_read_back_as_printed);
    tcase_add_test(tc, every_attribute_counts);
    tcase_add_test(tc, configs_are_checked);
    tcase_add_test(tc, symbolic_types_agree_with_static_ones);
    tcase_add_test(tc, views_hold_the_elements_of_the_reference);
    tcase_add_test(tc, costs_are_the_formulas);
    tcase_add_test(tc, costs_count_what_is_read);
    tcase_add_test(tc, schema_names_every_operand_and_attribute);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
