/* Reductions: the shape of the problem, and what one chunk of 4096 elements reduces to.
 *
 * A result is made of `length` elements of x, in row-major order of the reduced axes, cut into
 * chunks. Sums and products follow the canonical tree; maxima, minima and integers have the same
 * bits in any order and use the same cut. */
#ifndef MLSI_KERNELS_REDUCE_H
#define MLSI_KERNELS_REDUCE_H

#include "cpu/kernels/canonical_sum.h"
#include "cpu/kernels/stage.h"

typedef enum reduce_kind {
    REDUCE_SUM,
    REDUCE_MEAN,
    REDUCE_SQUARES, /* the sum of x * x over everything, of the compute type */
    REDUCE_PROD,
    REDUCE_MAX, /* also "or" of bool */
    REDUCE_MIN  /* also "and" of bool */
} reduce_kind;

typedef union reduce_value {
    double f; /* f32 and f64 */
    int64_t i;
} reduce_value;

typedef struct reduce_dims {
    int rank;
    int64_t shape[MLSYS_MAX_DIMS];
    int64_t x[MLSYS_MAX_DIMS], y[MLSYS_MAX_DIMS]; /* strides in bytes */
} reduce_dims;

typedef struct reduce_problem {
    reduce_kind kind;
    mlsys_dtype dtype; /* of x */
    compute_type compute;
    const char *x;
    char *y;
    reduce_dims kept, reduced; /* reduced: adjacent dims merged, order kept */
    int64_t results, length, chunks;
    bool direct;           /* a chunk is an array of the compute type in x */
    reduce_value *partial; /* [results][chunks], when chunks > 1 */
    char *scratch;         /* one part per worker */
} reduce_problem;

enum {
    COLUMN_PANEL = 256,                                              /* columns reduced together */
    REDUCE_SCRATCH = SUM_LANES * COLUMN_PANEL * 4 + COLUMN_PANEL * 4 /* >= 4096 f64 too */
};

/* Offset of the linear index i; strides x or y of the dims. */
static inline int64_t reduce_offset(const reduce_dims *d, const int64_t *strides, int64_t i) {
    int64_t offset = 0;
    for (int k = d->rank - 1; k >= 0; k--) {
        offset += i % d->shape[k] * strides[k];
        i /= d->shape[k];
    }
    return offset;
}

/* Elements [first, first + n) of the row at base, in the compute type. */
static inline void reduce_gather(const reduce_problem *p, const char *base, int64_t first,
                                 int64_t n, void *to) {
    const reduce_dims *d = &p->reduced;
    int last = d->rank - 1, size = p->compute == COMPUTE_F32 ? 4 : 8;
    char *dst = to;
    while (n > 0) {
        int64_t at = first % d->shape[last], run = d->shape[last] - at;
        const char *src = base + reduce_offset(d, d->x, first);
        if (run > n) run = n;
        if (p->compute == COMPUTE_F32)
            load_f32((float *)(void *)dst, src, p->dtype, d->x[last], run);
        else if (p->compute == COMPUTE_I64)
            load_i64((int64_t *)(void *)dst, src, p->dtype, d->x[last], run);
        else
            stage_move(dst, 8, src, d->x[last], 8, run);
        dst += run * size;
        first += run;
        n -= run;
    }
}

/* combine(a, b) of the kind for vectors. */
V_FN VF reduce_combine(reduce_kind kind, VF a, VF b) {
    switch (kind) {
    case REDUCE_PROD: return vf_mul(a, b);
    case REDUCE_MAX: return vf_maximum(a, b);
    case REDUCE_MIN: return vf_minimum(a, b);
    default: return vf_add(a, b);
    }
}
V_FN float reduce_identity(reduce_kind kind) {
    return kind == REDUCE_PROD  ? 1.0f
           : kind == REDUCE_MAX ? -__builtin_inff()
           : kind == REDUCE_MIN ? __builtin_inff()
                                : 0.0f;
}

/* The stored result of a row: mean divides; one rounding to the dtype. */
static inline void reduce_store(const reduce_problem *p, int64_t result, reduce_value v) {
    char *to = p->y + reduce_offset(&p->kept, p->kept.y, result);
    float f = (float)v.f;
    if (p->compute == COMPUTE_I64) {
        store_i64(to, p->dtype, 8, &v.i, 1);
    } else if (p->compute == COMPUTE_F64) {
        double d = p->kind == REDUCE_MEAN ? v.f / (double)p->length : v.f;
        memcpy(to, &d, sizeof d);
    } else {
        if (p->kind == REDUCE_MEAN) f = f / (float)p->length;
        store_f32(to, p->kind == REDUCE_SQUARES ? MLSYS_F32 : p->dtype, 4, &f, 1);
    }
}

/* Reduce along strided axes, many results at once; false = not that kind of problem. Fills the
 * results, or `partial` when there are several chunks. */
bool MLSI_K(reduce_columns)(const reduce_problem *p, mlsi_pool *pool);

#endif
