/* One op on given values: the reference's results, and every kernel row held to them. */
#ifndef MLSI_TEST_OP_EVAL_H
#define MLSI_TEST_OP_EVAL_H

#include "support/op_case.h"

typedef struct op_eval {
    mlsi_ctx *ctx; /* shared by all */
    mlsi_graph g;
    op_variant v;
    kc_call call;
    kc_tensor expected[KC_OPERANDS]; /* the reference's results */
    kc_rng r;
} op_eval;

/* Operands as in tests/op_cases.h, without T; values: one array per present operand in row-major
 * order, NULL = by domain. Fails the test when the call is refused. */
op_eval op_eval_begin(const char *op, const char *operands, const char *attrs, int n_out,
                      const double *const *values);
/* Set element i of an input. */
void op_eval_set(op_eval *e, int operand, int64_t i, double x);
/* Interpret into `expected`; then all kernels that accept must give the same bits. */
void op_eval_run(op_eval *e);
/* The reference and every kernel must fail with this status and a sentence that holds text. */
void op_eval_must_fail(op_eval *e, mlsys_status status, const char *text);
double op_eval_get(const op_eval *e, int result, int64_t i);
void op_eval_end(op_eval *e);

#endif
