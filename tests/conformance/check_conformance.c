/* Every row OP_CASE of tests/op_cases.h: the reference on dense inputs against the reference on
 * strided ones, the decomposition where an op has both, and every kernel row of the CPU backend
 * that this machine can run. Bit for bit; NaN equals NaN; -0 differs from +0. */
#include "support/op_case.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 20261201 };

/* One variant under one layout. */
typedef struct trial {
    const op_variant *v;
    mlsi_graph *g;
    char text[512];
    kc_tensor dense[KC_OPERANDS]; /* the inputs, contiguous */
    kc_tensor expected[KC_OPERANDS];
    kc_call call; /* the inputs under the layout, and outputs */
} trial;

static bool same_bits(const mlsi_view *a, const mlsi_view *b, int64_t i) {
    if (!memcmp(kc_at(a, i), kc_at(b, i), (size_t)mlsi_dtype_size(a->dtype))) return true;
    return mlsi_dtype_is_float(a->dtype) && isnan(kc_get_f(a, i)) && isnan(kc_get_f(b, i));
}

/* First differing element, or -1. Blocks are compared as bytes; their views are dense. */
static int64_t first_difference(const mlsi_view *a, const mlsi_view *b) {
    int64_t n = mlsi_view_count(a);
    if (mlsi_dtype_is_block(a->dtype)) {
        const mlsi_dtype_info *info = mlsi_dtype_get(a->dtype);
        return memcmp(a->data, b->data, (size_t)(n / info->block_elems * info->block_bytes)) ? 0
                                                                                             : -1;
    }
    for (int64_t i = 0; i < n; i++)
        if (!same_bits(a, b, i)) return i;
    return -1;
}

static void require_same(const trial *t, const mlsi_view *got, int o, const char *who) {
    const mlsi_view *want = &t->expected[o].view;
    int64_t i = first_difference(got, want);
    if (i < 0) return;
    bool plain = !mlsi_dtype_is_block(got->dtype);
    ck_abort_msg("%s: %s: result %d element %lld is %.17g, expected %.17g", t->text, who, o,
                 (long long)i, plain ? kc_get_f(got, i) : 0, plain ? kc_get_f(want, i) : 0);
}

static void copy_elements(kc_tensor *to, const kc_tensor *from) {
    int64_t n = mlsi_view_count(&to->view);
    if (mlsi_dtype_is_block(to->view.dtype)) {
        const mlsi_dtype_info *info = mlsi_dtype_get(to->view.dtype);
        memcpy(to->view.data, from->view.data, (size_t)(n / info->block_elems * info->block_bytes));
    } else {
        for (int64_t i = 0; i < n; i++)
            memcpy(kc_at(&to->view, i), kc_at(&from->view, i),
                   (size_t)mlsi_dtype_size(to->view.dtype));
    }
    memcpy(to->before, to->block, to->bytes);
}

static kc_tensor new_like(kc_rng *r, const mlsi_type *t, kc_layout layout) {
    if (mlsi_dtype_is_block(t->dtype)) layout = KC_DENSE;
    return kc_tensor_new(r, t->dtype, t->rank, t->dims, layout);
}

static const mlsi_type *result_type(const trial *t, int o) {
    return mlsi_type_of(t->g, 0, t->g->funcs[0].outputs[o].value);
}

static void make_operands(trial *t, kc_rng *r, kc_layout layout) {
    const op_variant *v = t->v;
    t->call = (kc_call){
        .op = v->op, .attrs = t->g->funcs[0].nodes[0].attrs, .n_in = v->n_in, .n_out = v->n_out};
    for (int i = 0; i < v->n_in; i++) {
        t->call.absent[i] = v->in[i].absent;
        if (v->in[i].absent) continue;
        t->call.in[i] = new_like(r, &v->in[i].type, layout);
        op_operand_fill(r, &t->call.in[i], &v->in[i]);
        t->dense[i] = new_like(r, &v->in[i].type, KC_DENSE);
        copy_elements(&t->dense[i], &t->call.in[i]);
    }
    for (int o = 0; o < v->n_out; o++) {
        kc_layout out = layout == KC_BROADCAST ? KC_DENSE : layout;
        t->call.out[o] = new_like(r, result_type(t, o), out);
        t->expected[o] = new_like(r, result_type(t, o), KC_DENSE);
    }
}

static void free_operands(trial *t) {
    for (int i = 0; i < t->v->n_in; i++) {
        kc_tensor_free(&t->dense[i]);
        kc_tensor_free(&t->call.in[i]);
    }
    for (int o = 0; o < t->v->n_out; o++) {
        kc_tensor_free(&t->expected[o]);
        kc_tensor_free(&t->call.out[o]);
    }
}

/* Run the interpreter on g: inputs from `in` (absent ones left out), results into `out`. */
static void interpret(const trial *t, const mlsi_graph *g, const kc_tensor *in,
                      const kc_tensor *out) {
    mlsi_view views[KC_OPERANDS], results[KC_OPERANDS];
    int n = 0;
    for (int i = 0; i < t->v->n_in; i++)
        if (!t->v->in[i].absent) views[n++] = in[i].view;
    for (int o = 0; o < t->v->n_out; o++)
        results[o] = out[o].view;
    mlsys_status st = mlsi_interpret(g, 0, n, views, t->v->n_out, results);
    ck_assert_msg(st == MLSYS_OK, "%s: interpreter: %s", t->text, mlsys_last_error());
}

static void check_strided_reference(trial *t, kc_rng *r) {
    kc_tensor out[KC_OPERANDS];
    for (int o = 0; o < t->v->n_out; o++)
        out[o] = new_like(r, result_type(t, o), KC_DENSE);
    interpret(t, t->g, t->call.in, out);
    for (int o = 0; o < t->v->n_out; o++) {
        require_same(t, &out[o].view, o, "reference on strided inputs");
        kc_tensor_free(&out[o]);
    }
}

/* An op with both a reference and a decomposition means the same by both. */
static void check_decomposition(trial *t, kc_rng *r) {
    const mlsi_op_def *def = mlsi_op_get(t->v->op);
    mlsi_graph g;
    int32_t in[KC_OPERANDS], out[KC_OPERANDS];
    kc_tensor got[KC_OPERANDS];
    if (!def->decompose || !def->ref) return;
    ck_assert_int_eq(mlsi_graph_init(&g, t->g->ctx), MLSYS_OK);
    for (int i = 0; i < t->v->n_in; i++) {
        in[i] = -1;
        if (!t->v->in[i].absent)
            ck_assert_int_eq(mlsi_build_input(&g, 0, NULL, &t->v->in[i].type, &in[i]), MLSYS_OK);
    }
    mlsys_status st = def->decompose(&g, 0, t->call.attrs, t->v->n_in, in, t->v->n_out, out);
    ck_assert_msg(st == MLSYS_OK, "%s: decomposition: %s", t->text, mlsys_last_error());
    for (int o = 0; o < t->v->n_out; o++) {
        ck_assert_int_eq(mlsi_build_output(&g, 0, NULL, out[o]), MLSYS_OK);
        got[o] = new_like(r, result_type(t, o), KC_DENSE);
    }
    interpret(t, &g, t->dense, got);
    for (int o = 0; o < t->v->n_out; o++) {
        require_same(t, &got[o].view, o, "decomposition");
        kc_tensor_free(&got[o]);
    }
    mlsi_graph_free(&g);
}

/* ---- kernels ------------------------------------------------------------------------------- */

/* The comparison must notice one changed bit in one element of the kernel's own result. */
static void check_comparison(const trial *t, const kc_tensor *got, int o, kc_rng *r) {
    int64_t n = mlsi_view_count(&got->view);
    if (!n) return;
    int64_t i = kc_int(r, 0, n - 1);
    unsigned char *p = kc_at(&got->view, i), old = *p;
    if (mlsi_dtype_is_float(got->view.dtype) && isnan(kc_get_f(&got->view, i))) return;
    *p ^= 1;
    ck_assert_msg(first_difference(&got->view, &t->expected[o].view) == i,
                  "%s: a flipped bit of element %lld was not noticed", t->text, (long long)i);
    *p = old;
}

static void reset_outputs(kc_call *c) {
    for (int o = 0; o < c->n_out; o++)
        memcpy(c->out[o].block, c->out[o].before, c->out[o].bytes);
}

static void run_row(trial *t, const mlsi_kernel *k, int threads, kc_rng *r) {
    char who[160];
    snprintf(who, sizeof who, "%s, %d threads", k->name, threads);
    reset_outputs(&t->call);
    mlsys_status st = kc_run(k, &t->call, threads);
    ck_assert_msg(st == MLSYS_OK, "%s: %s: %s", t->text, who, mlsys_last_error());
    for (int o = 0; o < t->v->n_out; o++) {
        require_same(t, &t->call.out[o].view, o, who);
        check_comparison(t, &t->call.out[o], o, r);
    }
}

/* Result 0 written over input `i`, if the row allows that. */
static void run_in_place(trial *t, const mlsi_kernel *k, int i, kc_rng *r) {
    kc_call shared = t->call;
    mlsi_type in = t->v->in[i].type;
    if (!mlsi_type_equal(&in, result_type(t, 0)) || t->v->n_out != 1) return;
    kc_tensor both = kc_tensor_new(r, in.dtype, in.rank, in.dims, KC_DENSE);
    copy_elements(&both, &t->dense[i]);
    shared.in[i] = shared.out[0] = both;
    shared.shared = i + 1;
    if (!kc_accepts(k, &shared)) {
        kc_tensor_free(&both);
        return;
    }
    mlsys_status st = kc_run(k, &shared, 0);
    ck_assert_msg(st == MLSYS_OK, "%s: %s in place: %s", t->text, k->name, mlsys_last_error());
    require_same(t, &both.view, 0, "in place");
    kc_tensor_free(&both);
}

static int check_kernels(trial *t, kc_rng *r, kc_layout layout) {
    static const int threads[] = {0, 3, 0, 2, 0, 7, 0, 1};
    static unsigned turn;
    const mlsi_kernel *k;
    int accepted = 0;
    for (int o = 0; o < t->v->n_out; o++)
        if (mlsi_dtype_is_block(result_type(t, o)->dtype)) return 0;
    for (int i = 0; (k = kc_row(t->v->op, i)) != NULL; i++) {
        for (int packed = 0; packed <= (k->pack != NULL); packed++) {
            if (k->pack) t->call.constant[k->pack_input] = packed;
            if (!kc_accepts(k, &t->call)) continue;
            accepted++;
            run_row(t, k, threads[turn++ % 8], r);
        }
        memset(t->call.constant, 0, sizeof t->call.constant);
        for (int in = 0; in < t->v->n_in && layout == KC_DENSE; in++)
            if (k->in_place >> in & 1 && !t->v->in[in].absent && kc_accepts(k, &t->call))
                run_in_place(t, k, in, r);
    }
    return accepted;
}

static int check_variant(mlsi_ctx *ctx, const op_variant *v, kc_rng *r) {
    mlsi_graph g;
    int accepted = 0;
    trial t = {.v = v, .g = &g};
    op_variant_text(v, t.text, sizeof t.text);
    mlsys_status st = op_variant_graph(ctx, v, &g);
    ck_assert_msg(st == MLSYS_OK, "%s: %s", t.text, mlsys_last_error());
    st = mlsi_graph_verify(&g);
    ck_assert_msg(st == MLSYS_OK, "%s: verifier: %s", t.text, mlsys_last_error());
    for (kc_layout layout = KC_DENSE; layout < KC_LAYOUTS; layout++) {
        make_operands(&t, r, layout);
        interpret(&t, &g, t.dense, t.expected);
        if (layout == KC_DENSE)
            check_decomposition(&t, r);
        else
            check_strided_reference(&t, r);
        accepted += check_kernels(&t, r, layout);
        free_operands(&t);
    }
    mlsi_graph_free(&g);
    return accepted;
}

START_TEST(kernels_give_the_bits_of_the_reference) {
    const op_case *c = &op_cases[_i];
    uint64_t seed = SEED + (uint64_t)_i;
    kc_rng r = kc_seed(seed);
    mlsi_ctx *ctx = op_ctx_new();
    op_variant v;
    int accepted = 0, variants = 0;
    printf("%s(%s) {%s}: seed %llu\n", c->op, c->operands, c->attrs, (unsigned long long)seed);
    for (; op_case_variant(c, variants, NULL, &v); variants++)
        accepted += check_variant(ctx, &v, &r);
    printf("%s: %d variants, %d kernel layouts\n", c->op, variants, accepted);
    op_ctx_free(ctx);
}
END_TEST

START_TEST(every_op_has_a_row) {
    for (int op = 0; op < MLSI_OP_COUNT; op++) {
        int rows = 0;
        if (mlsi_op_get((mlsi_op)op)->traits & MLSI_TRAIT_CONTROL) continue;
        for (int i = 0; i < op_case_count; i++)
            rows += !strcmp(op_cases[i].op, mlsi_op_name((mlsi_op)op));
        ck_assert_msg(rows >= 1, "%s: no row OP_CASE", mlsi_op_name((mlsi_op)op));
    }
}
END_TEST

int main(void) {
    Suite *s = suite_create("conformance");
    TCase *tc = tcase_create("op cases");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, every_op_has_a_row);
    tcase_add_loop_test(tc, kernels_give_the_bits_of_the_reference, 0, op_case_count);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
