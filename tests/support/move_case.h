/* Calls of kernels that move or create elements, of random shape, dtype and layout. */
#ifndef MLSI_TESTS_MOVE_CASE_H
#define MLSI_TESTS_MOVE_CASE_H

#include "support/kernel_case.h"

#include <check.h>

static const mlsys_dtype move_dtypes[] = {MLSYS_F32,  MLSYS_I8,  MLSYS_F64, MLSYS_F16,
                                          MLSYS_BF16, MLSYS_I64, MLSYS_I32, MLSYS_F8E4M3,
                                          MLSYS_BOOL, MLSYS_I16, MLSYS_U8,  MLSYS_F8E5M2};
enum { MOVE_DTYPES = (int)(sizeof move_dtypes / sizeof move_dtypes[0]) };

static inline int64_t count_of(int rank, const int64_t *shape) {
    int64_t n = 1;
    for (int d = 0; d < rank; d++)
        n *= shape[d];
    return n;
}

static inline void unravel(int rank, const int64_t *shape, int64_t i, int64_t *index) {
    for (int d = rank - 1; d >= 0; d--) {
        index[d] = i % shape[d];
        i /= shape[d];
    }
}

static inline int move_shape(kc_rng *r, int64_t *shape, int least_rank) {
    static const int64_t extents[] = {0, 1, 2, 3, 5, 16, 17, 33, 70};
    int rank = (int)kc_int(r, least_rank, 4);
    int64_t count = 1;
    for (int d = 0; d < rank; d++) {
        shape[d] = extents[kc_int(r, kc_int(r, 0, 12) ? 1 : 0, 8)];
        if (count * shape[d] > 4000) shape[d] = 2;
        count *= shape[d];
    }
    return rank;
}

/* A call with one output; e is the expected result, to be filled. */
typedef struct move_case {
    kc_call c;
    kc_tensor e;
    mlsys_dtype t;
} move_case;

static inline void move_case_output(kc_rng *r, move_case *m, int rank, const int64_t *shape) {
    m->c.out[0] = kc_tensor_new(r, m->t, rank, shape, (kc_layout)kc_int(r, 0, KC_PADDED));
    m->e = kc_tensor_new(r, m->t, rank, shape, KC_DENSE);
}

static inline void move_case_check(move_case *m) {
    ck_assert_int_gt(kc_check(&m->c, &m->e, mlsi_dtype_get(m->t)->name), 0);
    kc_tensor_free(&m->e);
    kc_call_free(&m->c);
}

#endif
