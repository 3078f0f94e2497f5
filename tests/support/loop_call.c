#include "support/loop_call.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mlsys_status build(mlsi_ctx *ctx, const op_variant *v, bool symbolic, bool one,
                          mlsi_graph *g) {
    int32_t in[KC_OPERANDS], out[KC_OPERANDS];
    if (!symbolic) return op_variant_graph(ctx, v, g);
    mlsys_status st = op_variant_symbolic(ctx, v, one, g, in, out);
    for (int o = 0; o < v->n_out && st == MLSYS_OK; o++)
        st = mlsi_build_output(g, 0, NULL, out[o]);
    return st;
}

void lc_free(lc_call *w) {
    loop_case_free(&w->c);
    mlsi_graph_free(&w->loops);
    mlsi_graph_free(&w->g);
}

lc_call *lc_lower(mlsi_ctx *ctx, const op_variant *v, int mode) {
    bool symbolic = mode != LC_FIXED, one = mode == LC_ONE_SYMBOL;
    lc_call *w = calloc(1, sizeof *w);
    ck_assert_ptr_nonnull(w);
    int n = (int)strlen(op_variant_text(v, w->text, 512));
    snprintf(w->text + n, sizeof w->text - (size_t)n, "%s",
             !symbolic ? ""
             : one     ? ", one symbol"
                       : ", symbols");
    w->symbolic = symbolic;
    mlsys_status st = build(ctx, v, symbolic, one, &w->g);
    w->built = st == MLSYS_OK;
    ck_assert_msg(w->built || symbolic, "%s: %s", w->text, mlsys_last_error());
    if (build(ctx, v, symbolic, one, &w->loops) != MLSYS_OK || !w->built) return w;
    w->st = loop_case_lower(&w->loops, mlsi_op_name(v->op), &w->c);
    ck_assert_msg(w->st == MLSYS_OK || w->st == MLSYS_E_UNSUPPORTED, "%s: lower: %s", w->text,
                  mlsys_last_error());
    return w;
}

/* ---- runs ------------------------------------------------------------------------------------------- */

static uint64_t dense_bytes(const mlsi_view *v) {
    const mlsi_dtype_info *info = mlsi_dtype_get(v->dtype);
    return (uint64_t)(mlsi_view_count(v) / info->block_elems * info->block_bytes);
}

static bool same_element(const mlsi_view *a, const mlsi_view *b, int64_t i) {
    if (!memcmp(kc_at(a, i), kc_at(b, i), (size_t)mlsi_dtype_size(a->dtype))) return true;
    return mlsi_dtype_is_float(a->dtype) && isnan(kc_get_f(a, i)) && isnan(kc_get_f(b, i));
}

static void require_same(const lc_call *w, int o, const kc_tensor *want, const kc_tensor *got) {
    const mlsi_view *a = &want->view, *b = &got->view;
    uint64_t bytes = dense_bytes(b), head = (uint64_t)((unsigned char *)b->data - got->block);
    if (memcmp(got->block, got->before, head) ||
        memcmp(got->block + head + bytes, got->before + head + bytes, got->bytes - head - bytes))
        ck_abort_msg("%s: bytes around result %d changed", w->text, o);
    if (!memcmp(a->data, b->data, bytes)) return;
    if (mlsi_dtype_is_block(a->dtype)) ck_abort_msg("%s: blocks of result %d differ", w->text, o);
    for (int64_t i = 0, n = mlsi_view_count(a); i < n; i++)
        if (!same_element(a, b, i))
            ck_abort_msg("%s: result %d element %lld is %.17g, expected %.17g", w->text, o,
                         (long long)i, kc_get_f(b, i), kc_get_f(a, i));
}

static kc_tensor dense(const lc_call *w, kc_rng *r, int32_t value, const int64_t *binding) {
    const mlsi_type *t = mlsi_type_of(&w->g, 0, value);
    int64_t shape[MLSYS_MAX_DIMS] = {0};
    for (int d = 0; d < t->rank; d++)
        ck_assert_int_eq(mlsi_dim_eval(&w->g.symbols, t->dims[d], binding, &shape[d]), MLSYS_OK);
    return kc_tensor_new(r, t->dtype, t->rank, shape, KC_DENSE);
}

typedef struct run {
    kc_tensor in[KC_OPERANDS], want[KC_OPERANDS], got[KC_OPERANDS];
    mlsi_view in_views[KC_OPERANDS], want_views[KC_OPERANDS], params[2 * KC_OPERANDS];
    int n_in, n_out;
} run;

static void make_run(const lc_call *w, const op_variant *v, kc_rng *r, const int64_t *binding,
                     run *c) {
    memset(c, 0, sizeof *c);
    const mlsi_func *f = &w->g.funcs[0];
    for (int i = 0; i < v->n_in; i++) {
        if (v->in[i].absent) continue;
        kc_tensor *x = &c->in[c->n_in];
        *x = dense(w, r, f->inputs[c->n_in], binding);
        op_operand_fill(r, x, &v->in[i]);
        c->params[c->n_in] = c->in_views[c->n_in] = x->view;
        c->n_in++;
    }
    for (c->n_out = 0; c->n_out < v->n_out; c->n_out++) {
        int o = c->n_out;
        c->want[o] = dense(w, r, f->outputs[o].value, binding);
        c->got[o] = dense(w, r, f->outputs[o].value, binding);
        c->want_views[o] = c->want[o].view;
        c->params[c->n_in + o] = c->got[o].view;
    }
}

static void free_run(run *c) {
    for (int i = 0; i < c->n_in; i++)
        kc_tensor_free(&c->in[i]);
    for (int o = 0; o < c->n_out; o++) {
        kc_tensor_free(&c->want[o]);
        kc_tensor_free(&c->got[o]);
    }
}

/* The graph's interpreter and the nest's on the same inputs. */
static void compare(const lc_call *w, const op_variant *v, kc_rng *r, const int64_t *binding,
                    loop_part_fn fn, void *user) {
    char sentence[512];
    run c;
    make_run(w, v, r, binding, &c);
    mlsys_status want =
        mlsi_interpret(&w->g, 0, c.n_in, c.in_views, c.n_out, c.want_views); /* may refuse data */
    snprintf(sentence, sizeof sentence, "%s", want == MLSYS_OK ? "" : mlsys_last_error());
    ck_assert_msg(want == MLSYS_OK || w->symbolic, "%s: %s", w->text, sentence);
    mlsys_status got = loop_case_run_by(&w->c, binding, c.params, fn, user);
    /* Indices are checked where an element is read: of an empty result none is (ir/ops/loops_index.c). */
    bool empty = true;
    for (int o = 0; o < c.n_out; o++)
        empty = empty && mlsi_view_count(&c.want_views[o]) == 0;
    if (want == MLSYS_E_ARG && empty) want = got;
    ck_assert_msg(got == want, "%s: loops: %s \"%s\", expected %s \"%s\"", w->text,
                  mlsys_status_name(got), got == MLSYS_OK ? "" : mlsys_last_error(),
                  mlsys_status_name(want), sentence);
    for (int o = 0; o < c.n_out && got == MLSYS_OK; o++)
        require_same(w, o, &c.want[o], &c.got[o]);
    for (int i = 0; i < c.n_in; i++)
        ck_assert_msg(!memcmp(c.in[i].block, c.in[i].before, c.in[i].bytes), "%s: input %d changed",
                      w->text, i);
    free_run(&c);
}

/* Elements of all inputs and outputs. */
static int64_t count_elements(const lc_call *w, const int64_t *binding) {
    const mlsi_func *f = &w->g.funcs[0];
    int64_t total = 0;
    for (int64_t v = 0; v < f->n_values; v++) {
        int64_t count = 1, extent;
        for (int d = 0; d < f->values[v].type.rank; d++) {
            mlsys_status st =
                mlsi_dim_eval(&w->g.symbols, f->values[v].type.dims[d], binding, &extent);
            ck_assert_int_eq(st, MLSYS_OK);
            count *= extent;
        }
        total += count;
    }
    return total;
}

/* Extents of symbols: those of the row, the least ones, then small and odd ones, as many as the interpreter can bear. */
void lc_compare(const lc_call *w, const op_variant *v, kc_rng *r, loop_part_fn fn, void *user) {
    enum { MOST = 5000 };
    int64_t binding[LC_SYMBOLS] = {0}, n = w->g.symbols.n_symbols;
    ck_assert_int_le(n, LC_SYMBOLS);
    for (int k = 0; k < (w->symbolic ? 4 : 1); k++) {
        for (int64_t s = 0; s < n; s++) {
            const mlsi_symbol *y = &w->g.symbols.symbols[s];
            binding[s] = k == 0 && w->symbolic ? strtoll(y->name + 1, NULL, 10)
                         : k < 2               ? y->min
                                               : kc_int(r, y->min, k == 2 ? 5 : 70);
        }
        for (int64_t s = 0; k == 3 && s < 8 * n && count_elements(w, binding) > MOST; s++)
            if (binding[s % n] > 2) binding[s % n] /= 2;
        compare(w, v, r, binding, fn, user);
    }
}
