/* Gradients against central differences. */
#ifndef MLSI_GRADIENT_CHECK_H
#define MLSI_GRADIENT_CHECK_H

#include "ir/graph/ir.h"

typedef struct mlsi_gradient_check {
    double tolerance;                    /* of the relative error, and the absolute one below 1 */
    int64_t probes;                      /* elements tried per input, at random when it has more */
    uint64_t seed;                       /* of the outputs' weights and of the choice */
    const mlsi_interpret_custom *custom; /* how custom ops are run; NULL: they are refused */
    /* results */
    int64_t checked, kinks; /* elements; of these, where left and right slopes differ */
    double worst;           /* largest error; its place, and both values: */
    int32_t input;          /* -1 when nothing was checked */
    int64_t element;        /* row-major */
    double gradient, difference;
} mlsi_gradient_check;

/* Differentiates a copy of g's main by each f64 input and compares with Richardson's central differences of
 * the interpreter's values, at three pairs of step sizes of which the nearest counts. Outputs are weighed with
 * random numbers and added. in: views of main's inputs, any strides, not written. A kink is no error.
 * Errors: what the gradient or the interpreter refuses; ARG when no input is f64, or when the error of an
 * element exceeds the tolerance (the results say where). */
mlsys_status mlsi_gradient_compare(const mlsi_graph *g, int32_t n_in, const mlsi_view *in,
                                   mlsi_gradient_check *c);

#endif
