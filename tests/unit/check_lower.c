/* Functions of several nodes as one nest: the bits and the failures of the reference interpreter, and what is refused. */
#include "ir/loop/lower.h"
#include "ir/passes/passes.h"
#include "support/op_case.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4 };

typedef struct func_case {
    const char *name, *head, *body; /* what stands before "functions 1", and in main */
    const char *refused;            /* part of the sentence; NULL = one nest */
    int64_t bound[MOST];            /* integers of input i are in [-bound, bound) */
    int64_t bindings[MOST][2];      /* values of the symbols, in order */
    int n_bindings;
} func_case;

static mlsi_graph parse(mlsi_ctx *ctx, const func_case *c) {
    char text[2000];
    mlsi_graph g;
    snprintf(text, sizeof text, "mlsys-ir 1\n%sfunctions 1\nfunc 0 \"main\" {\n%s}\n", c->head,
             c->body);
    ck_assert_int_eq(mlsi_graph_init(&g, ctx), MLSYS_OK);
    mlsys_status st = mlsi_graph_parse(&g, NULL, text);
    ck_assert_msg(st == MLSYS_OK, "%s: %s", c->name, mlsys_last_error());
    return g;
}

static kc_tensor dense(kc_rng *r, const mlsi_graph *g, int32_t value, const int64_t *binding) {
    const mlsi_type *t = mlsi_type_of(g, 0, value);
    int64_t shape[MLSYS_MAX_DIMS] = {0};
    for (int d = 0; d < t->rank; d++)
        ck_assert_int_eq(mlsi_dim_eval(&g->symbols, t->dims[d], binding, &shape[d]), MLSYS_OK);
    return kc_tensor_new(r, t->dtype, t->rank, shape, KC_DENSE);
}

static void fill(kc_rng *r, kc_tensor *x, int64_t bound) {
    kc_fill(r, x, KC_ANY);
    for (int64_t i = 0; bound && i < mlsi_view_count(&x->view); i++)
        kc_set_i(&x->view, i, kc_int(r, -bound, bound - 1));
}

static bool same(const mlsi_view *a, const mlsi_view *b) {
    size_t size = (size_t)mlsi_dtype_size(a->dtype);
    for (int64_t i = 0; i < mlsi_view_count(a); i++)
        if (memcmp(kc_at(a, i), kc_at(b, i), size) &&
            !(mlsi_dtype_is_float(a->dtype) && isnan(kc_get_f(a, i)) && isnan(kc_get_f(b, i))))
            return false;
    return true;
}

/* Both interpreters on the same inputs: one status, one sentence, one result. */
static void compare(const func_case *c, const mlsi_graph *g, const mlsi_nest *n,
                    const int64_t *binding) {
    const mlsi_func *f = &g->funcs[0];
    kc_rng r = kc_seed(20261207);
    kc_tensor in[MOST], want[MOST], got[MOST];
    mlsi_view ins[MOST], wants[MOST], params[2 * MOST];
    char sentence[512] = "";
    for (int64_t i = 0; i < f->n_inputs; i++) {
        in[i] = dense(&r, g, f->inputs[i], binding);
        fill(&r, &in[i], c->bound[i]);
        ins[i] = params[i] = in[i].view;
    }
    for (int64_t o = 0; o < f->n_outputs; o++) {
        want[o] = dense(&r, g, f->outputs[o].value, binding);
        got[o] = dense(&r, g, f->outputs[o].value, binding);
        wants[o] = want[o].view;
        params[f->n_inputs + o] = got[o].view;
    }
    mlsys_status st = mlsi_interpret(g, 0, (int)f->n_inputs, ins, (int)f->n_outputs, wants);
    if (st != MLSYS_OK) snprintf(sentence, sizeof sentence, "%s", mlsys_last_error());
    mlsys_status loops = mlsi_nest_interpret(n, binding, params);
    const char *said = loops == MLSYS_OK ? "" : mlsys_last_error();
    ck_assert_msg(loops == st && !strcmp(said, sentence), "%s: loops \"%s\", reference \"%s\"",
                  c->name, said, sentence);
    for (int64_t o = 0; o < f->n_outputs; o++)
        ck_assert_msg(st != MLSYS_OK || same(&wants[o], &got[o].view), "%s: result %d differs",
                      c->name, (int)o);
    for (int64_t i = 0; i < f->n_inputs; i++)
        kc_tensor_free(&in[i]);
    for (int64_t o = 0; o < f->n_outputs; o++) {
        kc_tensor_free(&want[o]);
        kc_tensor_free(&got[o]);
    }
}

static const func_case cases[] = {
    {.name = "reshape into an extent that may be 0",
     .head = "symbol B 1 8 1\nsymbol L 0 16 1\n",
     .body = "  %0 = input \"x\" : f32[B,L]\n"
             "  %1 = reshape(%0) {shape=[B*L]} : f32[B*L]\n"
             "  output \"y\" %1\n",
     .refused = "divided by an extent that may be 0"},
    {.name = "reshape out of an extent that may be 0",
     .head = "symbol B 1 8 1\nsymbol L 0 16 1\n",
     .body = "  %0 = input \"x\" : f32[B*L]\n"
             "  %1 = input \"z\" : f32[B,L]\n"
             "  %2 = reshape(%0) {shape=[B,L]} : f32[B,L]\n"
             "  %3 = add(%2, %1) : f32[B,L]\n"
             "  output \"y\" %3\n",
     .bindings = {{3, 5}, {1, 0}, {8, 1}},
     .n_bindings = 3},
    {.name = "gather of a gather",
     .body = "  %0 = input \"x\" : f32[7,5]\n"
             "  %1 = input \"ids\" : i64[9]\n"
             "  %2 = input \"more\" : i32[4]\n"
             "  %3 = gather(%0, %1) : f32[9,5]\n"
             "  %4 = gather(%3, %2) {axis=1} : f32[9,4]\n"
             "  output \"y\" %4\n",
     .head = "",
     .bound = {0, 7, 5}},
    {.name = "index out of range",
     .head = "",
     .body = "  %0 = input \"x\" : f32[2,3]\n"
             "  %1 = input \"ids\" : i64[50]\n"
             "  %2 = gather(%0, %1) : f32[50,3]\n"
             "  %3 = neg(%2) : f32[50,3]\n"
             "  output \"y\" %3\n",
     .bound = {0, 4}},
    {.name = "gather behind a guard",
     .head = "",
     .body = "  %0 = input \"x\" : f32[7,5]\n"
             "  %1 = input \"ids\" : i64[9]\n"
             "  %2 = gather(%0, %1) : f32[9,5]\n"
             "  %3 = pad(%2) {low=[1,0], high=[0,0]} : f32[10,5]\n"
             "  output \"y\" %3\n",
     .refused = "behind a guard: gather"},
    {.name = "padding of padding of a sum",
     .head = "symbol B 1 8 1\n",
     .body = "  %0 = input \"x\" : f16[B,5]\n"
             "  %1 = add(%0, %0) : f16[B,5]\n"
             "  %2 = pad(%1) {low=[1,2], high=[0,-3], value=7} : f16[B+1,4]\n"
             "  %3 = pad(%2) {low=[0,1], high=[2,0], value=-1} : f16[B+3,5]\n"
             "  output \"y\" %3\n",
     .bindings = {{1}, {8}},
     .n_bindings = 2},
    {.name = "join of computed parts, then a product with an epilogue",
     .head = "symbol B 1 8 1\nsymbol L 0 16 1\n",
     .body = "  %0 = input \"x\" : f32[B,L]\n"
             "  %1 = input \"z\" : f32[B,3]\n"
             "  %2 = input \"w\" : f32[L+3,6]\n"
             "  %3 = neg(%0) : f32[B,L]\n"
             "  %4 = concat(%3, %1) {axis=1} : f32[B,L+3]\n"
             "  %5 = matmul(%4, %2) : f32[B,6]\n"
             "  %6 = relu(%5) : f32[B,6]\n"
             "  output \"y\" %6\n",
     .bindings = {{1, 0}, {3, 16}, {8, 1}},
     .n_bindings = 3},
    {.name = "scan between a prologue and an epilogue",
     .head = "symbol L 0 5000 1\n",
     .body = "  %0 = input \"x\" : bf16[2,L]\n"
             "  %1 = abs(%0) : bf16[2,L]\n"
             "  %2 = scan(%1) {exclusive=true} : bf16[2,L]\n"
             "  %3 = neg(%2) : bf16[2,L]\n"
             "  output \"y\" %3\n",
     .bindings = {{0}, {64}, {65}, {4500}},
     .n_bindings = 4},
    {.name = "outputs of fewer axes than the rows",
     .head = "",
     .body = "  %0 = input \"x\" : f32[3,4,5]\n"
             "  %1 = input \"b\" : f32[4]\n"
             "  %2 = reduce_sum(%0) {axes=[2]} : f32[3,4]\n"
             "  %3 = neg(%1) : f32[4]\n"
             "  output \"s\" %2\n"
             "  output \"n\" %3\n",
     .refused = "do not share"},
    {.name = "an output beside a node with loops of its own",
     .head = "",
     .body = "  %0 = input \"x\" : f32[3,4]\n"
             "  %1 = input \"b\" : f32[4]\n"
             "  %2 = sort(%0) : f32[3,4]\n"
             "  %3 = neg(%1) : f32[4]\n"
             "  output \"s\" %2\n"
             "  output \"n\" %3\n",
     .refused = "an output has other loops than sort"},
};

START_TEST(functions_are_one_nest_or_refused) {
    const func_case *c = &cases[_i];
    mlsi_ctx *ctx = op_ctx_new();
    mlsi_graph g = parse(ctx, c), loops = parse(ctx, c);
    mlsi_pass_ctx p = {.g = &loops};
    mlsi_nest n;
    ck_assert_int_eq(mlsi_decompose_to_loops(&p, 0), MLSYS_OK);
    mlsys_status st = mlsi_lower_func(&loops, 0, c->name, &n);
    if (c->refused)
        ck_assert_msg(st == MLSYS_E_UNSUPPORTED && strstr(mlsys_last_error(), c->refused),
                      "%s: %s \"%s\", expected \"%s\"", c->name, mlsys_status_name(st),
                      st == MLSYS_OK ? "" : mlsys_last_error(), c->refused);
    else
        ck_assert_msg(st == MLSYS_OK, "%s: %s", c->name, mlsys_last_error());
    for (int k = 0; !c->refused && k < (c->n_bindings ? c->n_bindings : 1); k++)
        compare(c, &g, &n, c->bindings[k]);
    mlsi_nest_free(&n);
    mlsi_graph_free(&loops);
    mlsi_graph_free(&g);
    op_ctx_free(ctx);
}
END_TEST

int main(void) {
    Suite *s = suite_create("lower");
    TCase *tc = tcase_create("functions");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, functions_are_one_nest_or_refused, 0,
                        (int)(sizeof cases / sizeof cases[0]));
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
