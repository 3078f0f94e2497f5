/* Eager ops on the stream of a program case, and its tape. */
#ifndef MLSI_TESTS_TAPE_CASE_H
#define MLSI_TESTS_TAPE_CASE_H

#include "support/program_case.h"

static program_case pc;
static mlsys_tape tape;

static inline mlsys_tensor op(const char *name, mlsys_tensor a, mlsys_tensor b) {
    mlsys_tensor in[2] = {a, b}, out = NULL;
    OK(mlsys_op_run(pc.stream, name, b ? 2 : 1, in, NULL, 1, &out));
    return out;
}

static inline mlsys_tensor ramp(int rank, const int64_t *shape) {
    mlsys_tensor t = pc_tensor(&pc, MLSYS_F32, rank, shape, NULL);
    mlsi_view v = rg_view(t);
    for (int64_t i = 0; i < mlsi_view_count(&v); i++)
        ((float *)v.data)[i] = 0.25f + (float)((i * 7) % 11) / 8;
    return t;
}
static inline mlsys_tensor matrix(int64_t n, int64_t m) { return ramp(2, (int64_t[]){n, m}); }

static inline mlsys_tensor by(mlsys_tensor y, mlsys_tensor x) {
    mlsys_tensor dx = NULL;
    OK(mlsys_tape_gradient(tape, 1, &y, NULL, 1, &x, &dx));
    return dx;
}

static inline const float *numbers(mlsys_tensor t) { return rg_view(t).data; }
static inline int64_t count(mlsys_tensor t) {
    mlsi_view v = rg_view(t);
    return mlsi_view_count(&v);
}

static inline void drop(mlsys_tensor t) { OK(mlsys_release(t)); }

#endif
