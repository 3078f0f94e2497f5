#include "autodiff/check.h"

#include "autodiff/reverse.h"
#include "core/rng.h"

#include <math.h>
#include <string.h>

enum { MAX_TENSORS = 512 }; /* inputs with weights, or outputs */

typedef struct checker {
    const mlsi_graph *g;
    mlsi_gradient_check *c;
    mlsi_graph own;   /* the copy, whose outputs become the gradients */
    mlsi_arena arena; /* of all tensors */
    int32_t n_in, n_out, n_weights, n_x;
    mlsi_view in[MAX_TENSORS], out[MAX_TENSORS], dx[MAX_TENSORS];
    int32_t weight[MAX_TENSORS], x[MAX_TENSORS]; /* input numbers; weight -1: no float */
    bool have[MAX_TENSORS];
    uint64_t draws;
} checker;

/* In [0, 1). */
static double draw(checker *k) { return mlsi_rng_uniform64(k->c->seed, 0, k->draws++); }

static mlsys_status dense(checker *k, const mlsi_layout *like, mlsi_view *out) {
    mlsi_layout l;
    void *p;
    MLSI_TRY(mlsi_layout_row_major(&l, like->dtype, like->rank, like->shape));
    MLSI_TRY(mlsi_arena_zalloc(&k->arena, mlsi_layout_bytes(&l) + 1, &p));
    *out = mlsi_view_of(p, &l);
    return MLSYS_OK;
}

/* ---- the function -------------------------------------------------------------------------- */

static mlsys_status value_of(checker *k, double *sum) {
    *sum = 0;
    MLSI_TRY(mlsi_interpret_with(k->g, 0, k->n_in, k->in, k->n_out, k->out, k->c->custom));
    for (int32_t o = 0; o < k->n_out; o++) {
        if (k->weight[o] < 0) continue;
        const double *w = k->in[k->weight[o]].data, *y = k->out[o].data;
        for (int64_t i = 0, n = mlsi_view_count(&k->out[o]); i < n; i++)
            if (isfinite(y[i])) *sum += w[i] * y[i]; /* an infinity is constant */
    }
    return MLSYS_OK;
}

typedef struct slopes {
    double centre, left, right;
} slopes;

static mlsys_status slopes_at(checker *k, double *x, double h, slopes *s) {
    double at = *x, up, here, down;
    mlsys_status st = value_of(k, &here);
    *x = at + h;
    if (st == MLSYS_OK) st = value_of(k, &up);
    *x = at - h;
    if (st == MLSYS_OK) st = value_of(k, &down);
    *x = at;
    if (st == MLSYS_OK) *s = (slopes){(up - down) / (2 * h), (here - down) / h, (up - here) / h};
    return st;
}

static mlsys_status probe(checker *k, int32_t input, int64_t element, double gradient) {
    mlsi_gradient_check *c = k->c;
    double *x = (double *)k->in[input].data + element, best = INFINITY, shown = 0;
    slopes s = {0}, half;
    for (double h = 1e-2; h > 5e-7 && best > c->tolerance; h /= 10) {
        MLSI_TRY(slopes_at(k, x, h, &s));
        MLSI_TRY(slopes_at(k, x, h / 2, &half));
        double difference = (4 * half.centre - s.centre) / 3;
        double error =
            fabs(difference - gradient) / fmax(1, fmax(fabs(difference), fabs(gradient)));
        if (error < best) best = error, shown = difference;
    }
    c->checked++;
    if (best > c->tolerance && fabs(s.left - s.right) > 1e-3 * fmax(1, fabs(gradient))) {
        c->kinks++;
        return MLSYS_OK;
    }
    if (best < c->worst && c->input >= 0) return MLSYS_OK;
    c->worst = best;
    c->input = input;
    c->element = element;
    c->gradient = gradient;
    c->difference = shown;
    return MLSYS_OK;
}

/* ---- the gradient -------------------------------------------------------------------------- */

static mlsys_status differentiate(checker *k) {
    mlsi_graph *own = &k->own;
    int32_t main, y[MAX_TENSORS], seeds[MAX_TENSORS], by[MAX_TENSORS], d[MAX_TENSORS];
    mlsi_graph_truncate(own, 0);
    MLSI_TRY(mlsi_graph_import(own, k->g, 0, &main));
    for (int32_t o = 0; o < k->n_out; o++) {
        int32_t v = own->funcs[0].outputs[o].value;
        mlsi_type t = *mlsi_type_of(own, 0, v);
        k->weight[o] = -1;
        if (t.dtype != MLSYS_F64) continue;
        k->weight[o] = k->n_in + k->n_weights;
        y[k->n_weights] = v;
        MLSI_TRY(mlsi_build_input(own, 0, NULL, &t, &seeds[k->n_weights++]));
    }
    for (int32_t i = 0; i < k->n_in; i++)
        if (k->in[i].dtype == MLSYS_F64) {
            by[k->n_x] = own->funcs[0].inputs[i];
            k->x[k->n_x++] = i;
        }
    if (!k->n_x || !k->n_weights)
        return mlsi_fail(MLSYS_E_ARG, "gradient check: %d f64 inputs and %d f64 outputs", k->n_x,
                         k->n_weights);
    MLSI_TRY(mlsi_gradient(own, 0, k->n_weights, y, seeds, k->n_x, by, d));
    own->funcs[0].n_outputs = 0;
    for (int32_t j = 0; j < k->n_x; j++) {
        k->have[j] = d[j] >= 0;
        if (k->have[j]) MLSI_TRY(mlsi_build_output(own, 0, NULL, d[j]));
    }
    return MLSYS_OK;
}

/* Tensors for outputs, weights and gradients, under the binding of the inputs. */
static mlsys_status make_tensors(checker *k, const int64_t *binding) {
    const mlsi_func *f = &k->g->funcs[0];
    for (int32_t o = 0; o < k->n_out; o++) {
        mlsi_layout l;
        const mlsi_type *t = &f->values[f->outputs[o].value].type;
        MLSI_TRY(mlsi_type_layout(&k->g->symbols, t, binding, &l));
        MLSI_TRY(dense(k, &l, &k->out[o]));
        if (k->weight[o] < 0) continue;
        mlsi_view *w = &k->in[k->weight[o]];
        MLSI_TRY(dense(k, &l, w));
        for (int64_t i = 0, n = mlsi_view_count(w); i < n; i++)
            ((double *)w->data)[i] = 2 * draw(k) - 1;
    }
    for (int32_t j = 0, d = 0; j < k->n_x; j++) {
        mlsi_layout l;
        const mlsi_view *x = &k->in[k->x[j]];
        MLSI_TRY(mlsi_layout_row_major(&l, x->dtype, x->rank, x->shape));
        if (k->have[j]) MLSI_TRY(dense(k, &l, &k->dx[d++]));
    }
    return MLSYS_OK;
}

static mlsys_status compare_all(checker *k) {
    int32_t n_dx = (int32_t)k->own.funcs[0].n_outputs;
    MLSI_TRY(
        mlsi_interpret_with(&k->own, 0, k->n_in + k->n_weights, k->in, n_dx, k->dx, k->c->custom));
    for (int32_t j = 0, d = 0; j < k->n_x; j++) {
        const double *dx = k->have[j] ? k->dx[d++].data : NULL;
        int64_t n = mlsi_view_count(&k->in[k->x[j]]);
        for (int64_t p = 0; p < n && p < k->c->probes; p++) {
            int64_t i = n <= k->c->probes ? p : (int64_t)(draw(k) * (double)n);
            MLSI_TRY(probe(k, k->x[j], i, dx ? dx[i] : 0));
        }
    }
    return MLSYS_OK;
}

static mlsys_status run(checker *k, const mlsi_view *in) {
    const mlsi_layout *layouts[MAX_TENSORS];
    mlsi_layout shapes[MAX_TENSORS];
    int64_t *binding;
    for (int32_t i = 0; i < k->n_in; i++) { /* dense copies, which may be written */
        MLSI_TRY(mlsi_layout_row_major(&shapes[i], in[i].dtype, in[i].rank, in[i].shape));
        layouts[i] = &shapes[i];
        MLSI_TRY(dense(k, &shapes[i], &k->in[i]));
        mlsi_copy_view(&k->in[i], &in[i]);
    }
    MLSI_TRY(mlsi_arena_zalloc(&k->arena, sizeof *binding * (size_t)(k->g->symbols.n_symbols + 1),
                               (void **)&binding));
    MLSI_TRY(mlsi_bind_inputs(k->g, 0, k->n_in, layouts, binding));
    MLSI_TRY(differentiate(k));
    MLSI_TRY(make_tensors(k, binding));
    return compare_all(k);
}

mlsys_status mlsi_gradient_compare(const mlsi_graph *g, int32_t n_in, const mlsi_view *in,
                                   mlsi_gradient_check *c) {
    const mlsi_func *f = &g->funcs[0];
    checker *k;
    c->checked = c->kinks = 0;
    c->worst = 0;
    c->input = -1;
    if (n_in != f->n_inputs || n_in + f->n_outputs > MAX_TENSORS)
        return mlsi_fail(
            MLSYS_E_ARG,
            "gradient check: %d inputs given, %lld expected; with %lld outputs at most "
            "%d",
            n_in, (long long)f->n_inputs, (long long)f->n_outputs, MAX_TENSORS);
    MLSI_TRY(MLSI_NEW(g->alloc, &k));
    k->g = g;
    k->c = c;
    k->n_in = n_in;
    k->n_out = (int32_t)f->n_outputs;
    mlsi_arena_init(&k->arena, g->alloc);
    mlsys_status st = mlsi_graph_init(&k->own, g->ctx);
    if (st == MLSYS_OK) {
        st = run(k, in);
        mlsi_graph_free(&k->own);
    }
    mlsi_arena_free(&k->arena);
    mlsi_mem_free(g->alloc, k);
    if (st != MLSYS_OK || c->input < 0 || c->worst <= c->tolerance) return st;
    return mlsi_fail(
        MLSYS_E_ARG,
        "gradient check: input %d, element %lld: gradient %.9g, difference quotient %.9g", c->input,
        (long long)c->element, c->gradient, c->difference);
}
