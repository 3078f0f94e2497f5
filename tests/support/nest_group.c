#include "support/nest_group.h"

#include "core/hash.h"
#include "ir/codegen/codegen.h"
#include "ir/loop/lower.h"
#include "ir/passes/passes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IN3(t)                                                                                     \
    "%0 = input \"a\" : f32" t "\n%1 = input \"b\" : f32" t "\n%2 = input \"c\" : f32" t "\n"
static const char *const groups[] = {
    IN3("[3,70]") "%3 = mul(%0, %1) : f32[3,70]\n%4 = add(%3, %2) : f32[3,70]\n"
                  "%5 = gelu(%4) : f32[3,70]\n%6 = sigmoid(%0) : f32[3,70]\n"
                  "%7 = mul(%5, %6) : f32[3,70]\n%8 = add(%7, %1) : f32[3,70]\noutput \"\" %8\n",
    IN3("[B,9]") "%3 = sub(%0, %1) : f32[B,9]\n%4 = softmax(%3) {axis=1} : f32[B,9]\n"
                 "%5 = mul(%4, %2) : f32[B,9]\noutput \"\" %5\n",
    IN3("[4,L]") "%3 = add(%0, %1) : f32[4,L]\n%4 = reduce_max(%3) {axes=[1], keep=true} : "
                 "f32[4,1]\n"
                 "%5 = sub(%3, %4) : f32[4,L]\n%6 = exp(%5) : f32[4,L]\n"
                 "%7 = reduce_sum(%6) {axes=[1], keep=true} : f32[4,1]\n"
                 "%8 = div(%6, %7) : f32[4,L]\noutput \"\" %8\noutput \"\" %7\n",
    "%0 = input \"x\" : f32[B,3,8]\n%1 = input \"g\" : f32[8]\n%2 = input \"b\" : f32[8]\n"
    "%3 = layer_norm(%0, %1, %2) {axis=2} : f32[B,3,8]\n%4 = relu(%3) : f32[B,3,8]\n"
    "output \"\" %4\noutput \"\" %3\n",
    "%0 = input \"x\" : bf16[5,16]\n%1 = input \"g\" : bf16[16]\n%2 = input \"r\" : bf16[5,16]\n"
    "%3 = add(%0, %2) : bf16[5,16]\n%4 = rms_norm(%3, %1) {axis=1} : bf16[5,16]\n"
    "output \"\" %3\noutput \"\" %4\n",
    IN3("[6,4]") "%3 = transpose(%0) {perm=[1,0]} : f32[4,6]\n%4 = reshape(%1) {shape=[4,6]} : "
                 "f32[4,6]\n"
                 "%5 = add(%3, %4) : f32[4,6]\n%6 = reverse(%5) {axes=[1]} : f32[4,6]\n"
                 "%7 = slice(%6) {starts=[0, 1], stops=[4, 6], steps=[1, 2]} : f32[4,3]\n"
                 "%8 = reshape(%2) {shape=[4,6]} : f32[4,6]\n"
                 "%9 = slice(%8) {starts=[0, 0], stops=[4, 3], steps=[1, 1]} : f32[4,3]\n"
                 "%10 = mul(%7, %9) : f32[4,3]\noutput \"\" %10\n",
    "%0 = input \"a\" : f32[B,L,6]\n%1 = input \"b\" : f32[6]\n%2 = input \"c\" : f32[B,1,6]\n"
    "%3 = broadcast(%1) {shape=[B,L,6]} : f32[B,L,6]\n%4 = add(%0, %3) : f32[B,L,6]\n"
    "%5 = mul(%4, %2) : f32[B,L,6]\n%6 = reshape(%5) {shape=[B*L,2,3]} : f32[B*L,2,3]\n"
    "%7 = tanh(%6) : f32[B*L,2,3]\noutput \"\" %7\n",
    "%0 = input \"a\" : f32[2,3,5]\n%1 = input \"b\" : f32[2,3,5]\n%2 = input \"c\" : f32[2,3,5]\n"
    "%3 = reverse(%0) {axes=[2]} : f32[2,3,5]\n%4 = mul(%0, %3) : f32[2,3,5]\n"
    "%5 = reduce_sum(%4) {axes=[1, 2]} : f32[2]\n%6 = iota() {dtype=f32, shape=[2]} : f32[2]\n"
    "%7 = add(%5, %6) : f32[2]\noutput \"\" %7\n",
    "%0 = input \"a\" : f32[9000]\n%1 = input \"b\" : f32[9000]\n%2 = input \"c\" : f32[9000]\n"
    "%3 = fma(%0, %1, %2) : f32[9000]\n%4 = gt(%3, %0) : bool[9000]\n"
    "%5 = select(%4, %3, %1) : f32[9000]\n%6 = cast(%5) {dtype=bf16} : bf16[9000]\n"
    "output \"\" %6\noutput \"\" %4\n",
    "%0 = input \"a\" : f32[B,20]\n%1 = input \"b\" : f32[20,70]\n%2 = input \"c\" : f32[70]\n"
    "%3 = matmul(%0, %1) : f32[B,70]\n%4 = add(%3, %2) : f32[B,70]\noutput \"\" %4\n",
    "%0 = input \"a\" : i32[6,L]\n%1 = reduce_sum(%0) {axes=[1], keep=false} : i32[6]\n"
    "output \"\" %1\n",
    "%0 = input \"a\" : f32[3,9000]\n%1 = reduce_sum(%0) {axes=[1], keep=true} : f32[3,1]\n"
    "%2 = sub(%0, %1) : f32[3,9000]\noutput \"\" %2\n",
    "%0 = input \"a\" : f32[B,L]\n%1 = input \"b\" : f32[L,B]\n"
    "%2 = transpose(%1) {perm=[1,0]} : f32[B,L]\n%3 = add(%0, %2) : f32[B,L]\noutput \"\" %3\n",
    "%0 = input \"a\" : f32[30,130]\n%1 = reduce_max(%0) {axes=[0], keep=false} : f32[130]\n"
    "%2 = exp(%1) : f32[130]\noutput \"\" %2\n",
    "%0 = input \"a\" : f32[30,7]\n%1 = input \"b\" : f32[4,6]\n%2 = exp(%1) : f32[4,6]\n"
    "%3 = pad(%2) {low=[1,2], high=[0,1]} : f32[5,9]\noutput \"\" %3\n",
};
const int nest_group_count = (int)(sizeof groups / sizeof groups[0]);

void ng_open(const program_case *pc, int i, bool scheduled, nest_group *c) {
    char text[4096];
    kc_rng r = kc_seed((uint64_t)i);
    snprintf(
        text, sizeof text,
        "mlsys-ir 1\nsymbol B 1 64 1\nsymbol L 1 2048 1\nfunctions 1\nfunc 0 \"main\" {\n%s}\n",
        groups[i]);
    OK(mlsi_graph_init(&c->graph, pc->ctx));
    if (mlsi_graph_parse(&c->graph, pc->device, text) != MLSYS_OK)
        ck_abort_msg("%s\n%s", mlsys_last_error(), text);
    mlsi_pass_ctx p = {.g = &c->graph};
    OK(mlsi_decompose_to_loops(&p, 0));
    OK(mlsi_lower_func(&c->graph, 0, "group", &c->n));
    if (scheduled) OK(mlsi_codegen_schedule(&c->n));
    const mlsi_func *f = &c->graph.funcs[0];
    c->dims[0] = 3, c->dims[1] = 5;
    c->n_in = (int)f->n_inputs;
    c->n_params = c->n_in + (int)f->n_outputs;
    for (int k = 0; k < c->n_params; k++) {
        mlsi_layout l;
        int32_t v = k < c->n_in ? f->inputs[k] : f->outputs[k - c->n_in].value;
        OK(mlsi_type_layout(&c->graph.symbols, mlsi_type_of(&c->graph, 0, v), c->dims, &l));
        c->params[k] = mlsi_view_of(malloc(mlsi_layout_bytes(&l) + 1), &l);
        if (k < c->n_in) rg_fill(&r, &c->params[k]);
    }
}

void ng_close(nest_group *c) {
    for (int k = 0; k < c->n_params; k++)
        free(c->params[k].data);
    mlsi_nest_free(&c->n);
    mlsi_graph_free(&c->graph);
}

uint64_t ng_outputs(const nest_group *c, const mlsi_nest *n) {
    uint64_t h = MLSI_HASH_SEED;
    for (int k = c->n_in; k < c->n_params; k++)
        memset(c->params[k].data, 0xa5,
               (size_t)(mlsi_view_count(&c->params[k]) * mlsi_dtype_size(c->params[k].dtype)));
    if (mlsi_nest_interpret(n, c->dims, c->params) != MLSYS_OK) return 0;
    for (int k = c->n_in; k < c->n_params; k++)
        for (int64_t i = 0; i < mlsi_view_count(&c->params[k]); i++) {
            double x = mlsi_dtype_is_float(c->params[k].dtype)
                           ? mlsi_ref_get_f(&c->params[k], i)
                           : (double)mlsi_ref_get_i(&c->params[k], i);
            if (x != x) x = 12345678;
            h = mlsi_hash_bytes(h, &x, sizeof x);
        }
    return h | 1;
}
