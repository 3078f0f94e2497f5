#include "support/op_eval.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* One context for all evaluations of a process. */
static mlsi_ctx *shared_ctx(void) {
    static mlsi_ctx *ctx;
    if (!ctx) ctx = op_ctx_new();
    return ctx;
}

op_eval op_eval_begin(const char *op, const char *operands, const char *attrs, int n_out,
                      const double *const *values) {
    op_case row = {op, "", operands, attrs, n_out};
    op_eval e;
    memset(&e, 0, sizeof e);
    e.ctx = shared_ctx();
    e.r = kc_seed(7);
    ck_assert(op_case_variant(&row, 0, NULL, &e.v));
    mlsys_status st = op_variant_graph(e.ctx, &e.v, &e.g);
    ck_assert_msg(st == MLSYS_OK, "%s(%s): %s", op, operands, mlsys_last_error());
    e.call = (kc_call){
        .op = e.v.op, .attrs = e.g.funcs[0].nodes[0].attrs, .n_in = e.v.n_in, .n_out = n_out};
    for (int i = 0; i < e.v.n_in; i++) {
        const mlsi_type *t = &e.v.in[i].type;
        e.call.absent[i] = e.v.in[i].absent;
        if (e.v.in[i].absent) continue;
        e.call.in[i] = kc_tensor_new(&e.r, t->dtype, t->rank, t->dims, KC_DENSE);
        op_operand_fill(&e.r, &e.call.in[i], &e.v.in[i]);
        const double *x = values ? *values++ : NULL;
        for (int64_t k = 0; x && k < mlsi_view_count(&e.call.in[i].view); k++)
            op_eval_set(&e, i, k, x[k]);
    }
    for (int o = 0; o < n_out; o++) {
        const mlsi_type *t = mlsi_type_of(&e.g, 0, e.g.funcs[0].outputs[o].value);
        e.call.out[o] = kc_tensor_new(&e.r, t->dtype, t->rank, t->dims, KC_NEGATIVE);
        e.expected[o] = kc_tensor_new(&e.r, t->dtype, t->rank, t->dims, KC_DENSE);
    }
    return e;
}

void op_eval_set(op_eval *e, int operand, int64_t i, double x) {
    kc_tensor *t = &e->call.in[operand];
    if (mlsi_dtype_is_float(t->view.dtype))
        kc_set_f(&t->view, i, x);
    else
        kc_set_i(&t->view, i, (int64_t)x);
    memcpy(t->before, t->block, t->bytes);
}

static mlsys_status interpret(op_eval *e) {
    mlsi_view in[KC_OPERANDS], out[KC_OPERANDS];
    int n = 0;
    for (int i = 0; i < e->v.n_in; i++)
        if (!e->v.in[i].absent) in[n++] = e->call.in[i].view;
    for (int o = 0; o < e->v.n_out; o++)
        out[o] = e->expected[o].view;
    return mlsi_interpret(&e->g, 0, n, in, e->v.n_out, out);
}

void op_eval_run(op_eval *e) {
    char text[512];
    op_variant_text(&e->v, text, sizeof text);
    mlsys_status st = interpret(e);
    ck_assert_msg(st == MLSYS_OK, "%s: %s", text, mlsys_last_error());
    kc_check(&e->call, e->expected, text);
}

void op_eval_must_fail(op_eval *e, mlsys_status status, const char *text) {
    const mlsi_kernel *k;
    mlsys_status st = interpret(e);
    ck_assert_msg(st == status && strstr(mlsys_last_error(), text),
                  "reference: %s \"%s\", expected %s \"%s\"", mlsys_status_name(st),
                  mlsys_last_error(), mlsys_status_name(status), text);
    for (int i = 0; (k = kc_row(e->v.op, i)) != NULL; i++) {
        if (!kc_accepts(k, &e->call)) continue;
        st = kc_run(k, &e->call, 0);
        ck_assert_msg(st == status && strstr(mlsys_last_error(), text),
                      "%s: %s \"%s\", expected %s \"%s\"", k->name, mlsys_status_name(st),
                      mlsys_last_error(), mlsys_status_name(status), text);
    }
}

double op_eval_get(const op_eval *e, int result, int64_t i) {
    return kc_get_f(&e->expected[result].view, i);
}

void op_eval_end(op_eval *e) {
    for (int o = 0; o < e->v.n_out; o++)
        kc_tensor_free(&e->expected[o]);
    kc_call_free(&e->call);
    mlsi_graph_free(&e->g);
}
