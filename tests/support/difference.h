/* Difference quotients of a graph's outputs along lines through its inputs, in f64, by the reference interpreter. */
#ifndef MLSI_TESTS_DIFFERENCE_H
#define MLSI_TESTS_DIFFERENCE_H

#include "support/op_case.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

enum { MAX_ARGS = 32, MAX_PROBES = 6 };
static const double tolerance = 1e-6;

/* A scalar function of its inputs: the outputs of a graph, weighed and added. */
typedef struct function {
    mlsi_graph *g;
    int n_in, n_out;
    kc_tensor *in; /* all inputs, weights among them */
    kc_tensor out[MAX_ARGS];
    int weight[MAX_ARGS]; /* the input that weighs output o; -1: not a float */
} function;

static inline double value_of(function *f) {
    mlsi_view in[MAX_ARGS], out[MAX_ARGS];
    double sum = 0;
    for (int i = 0; i < f->n_in; i++)
        in[i] = f->in[i].view;
    for (int o = 0; o < f->n_out; o++)
        out[o] = f->out[o].view;
    mlsys_status st = mlsi_interpret(f->g, 0, f->n_in, in, f->n_out, out);
    ck_assert_msg(st == MLSYS_OK, "%s", mlsys_last_error());
    for (int o = 0; o < f->n_out; o++)
        for (int64_t k = 0, n = mlsi_view_count(&out[o]); f->weight[o] >= 0 && k < n; k++)
            if (isfinite(kc_get_f(&out[o], k))) /* an infinity is constant */
                sum += kc_get_f(&f->in[f->weight[o]].view, k) * kc_get_f(&out[o], k);
    return sum;
}

/* One operand, and where it is moved to and fro. */
typedef struct line {
    const mlsi_view *x;
    double *at, *direction; /* per element: the value, and its share of a step */
    int64_t n;
} line;

static inline line line_of(const mlsi_view *x) {
    line l = {.x = x, .n = mlsi_view_count(x)};
    l.at = calloc((size_t)l.n + 1, sizeof *l.at);
    l.direction = calloc((size_t)l.n + 1, sizeof *l.direction);
    ck_assert(l.at && l.direction);
    for (int64_t k = 0; k < l.n; k++)
        l.at[k] = kc_get_f(x, k);
    return l;
}

static inline void move(const line *l, double h) {
    for (int64_t k = 0; k < l->n; k++)
        kc_set_f(l->x, k, l->at[k] + h * l->direction[k]);
}

static inline double slope(function *f, const line *l, double h) {
    move(l, h);
    double up = value_of(f);
    move(l, -h);
    double down = value_of(f);
    move(l, 0);
    return (up - down) / (2 * h);
}

/* Richardson's quotient from two step sizes, of pairs the nearest counts: near a kink the large steps are wrong, at
 * large sums the small ones. */
static inline void compare(function *f, const line *l, double analytic, const char *what) {
    double best = INFINITY, shown = 0;
    for (double h = 1e-2; h > 5e-7 && best > tolerance; h /= 10) {
        double numeric = (4 * slope(f, l, h / 2) - slope(f, l, h)) / 3;
        double scale = fmax(1, fmax(fabs(numeric), fabs(analytic)));
        double error = fabs(numeric - analytic) / scale;
        if (error < best) best = error, shown = numeric;
    }
    ck_assert_msg(best <= tolerance, "%s: gradient %.12g, difference quotient %.12g", what,
                  analytic, shown);
}

#endif
