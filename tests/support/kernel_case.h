/* Calling kernel rows on tensors of any layout, and comparing results bit for bit.
 *
 * Every tensor lies inside a larger block of poison. After a call each byte of the output's block
 * that is no element of the view must be as it was, and the inputs must be unchanged. */
#ifndef MLSI_TEST_KERNEL_CASE_H
#define MLSI_TEST_KERNEL_CASE_H

#include "core/backend.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- random numbers: printed seed, reproducible ---------------------------------------------- */

typedef struct kc_rng {
    uint64_t state;
} kc_rng;

kc_rng kc_seed(uint64_t seed);
uint64_t kc_bits(kc_rng *r);
/* In [lo, hi]. */
int64_t kc_int(kc_rng *r, int64_t lo, int64_t hi);
double kc_uniform(kc_rng *r, double lo, double hi);

/* ---- tensors --------------------------------------------------------------------------------- */

typedef enum kc_layout {
    KC_DENSE,
    KC_PERMUTED,  /* strides in a random order */
    KC_NEGATIVE,  /* some dims run backwards */
    KC_PADDED,    /* gaps between rows and elements */
    KC_BROADCAST, /* some dims have stride 0: inputs only */
    KC_LAYOUTS
} kc_layout;

typedef struct kc_tensor {
    mlsi_view view;
    unsigned char *block, *before; /* before: a copy of the block */
    uint64_t bytes;
} kc_tensor;

/* Filled with poison. Block dtypes: KC_DENSE only. The base is aligned to the element, no more. */
kc_tensor kc_tensor_new(kc_rng *r, mlsys_dtype dtype, int rank, const int64_t *shape,
                        kc_layout layout);
void kc_tensor_free(kc_tensor *t);

typedef enum kc_fill_kind {
    KC_ANY,    /* ordinary values, special values and random bits */
    KC_SMALL,  /* integers -9..9, floats in [-2, 2] */
    KC_FINITE, /* floats in [-8, 8] of varied size, integers of any size */
} kc_fill_kind;
void kc_fill(kc_rng *r, kc_tensor *t, kc_fill_kind kind);

/* Element with the row-major index i; a float widened, an integer as it is. */
double kc_get_f(const mlsi_view *v, int64_t i);
int64_t kc_get_i(const mlsi_view *v, int64_t i);
/* Rounds to nearest even, or wraps. */
void kc_set_f(const mlsi_view *v, int64_t i, double x);
void kc_set_i(const mlsi_view *v, int64_t i, int64_t x);
void *kc_at(const mlsi_view *v, int64_t i);
/* Row-major index in v of the element that the index i of `out` broadcasts from. */
int64_t kc_broadcast_index(const mlsi_view *v, const mlsi_view *out, int64_t i);

/* ---- calling --------------------------------------------------------------------------------- */

/* The i-th row of op that this machine can run, NULL past the end. */
const mlsi_kernel *kc_row(mlsi_op op, int i);

enum { KC_OPERANDS = 9 };
typedef struct kc_call {
    mlsi_op op;
    const void *attrs;
    int n_in, n_out;
    kc_tensor in[KC_OPERANDS], out[KC_OPERANDS];
    bool absent[KC_OPERANDS];   /* optional inputs */
    bool constant[KC_OPERANDS]; /* inputs that a row may pack; its run then sees no data there */
    int shared;                 /* in place: out[0] is in[shared - 1]; 0 = not */
} kc_call;

bool kc_accepts(const mlsi_kernel *k, const kc_call *c);
/* Run on `threads` workers (0: without a pool), with scratch of exactly the asked size between
 * guards. Fails the test when anything but the outputs' elements changed. */
mlsys_status kc_run(const mlsi_kernel *k, kc_call *c, int threads);
/* Run each row that accepts with several thread counts; every output must equal expected[o] (dense,
 * same dtype and shape) bit for bit, NaN equal to NaN. Returns the number of rows that accepted. */
int kc_check(kc_call *c, const kc_tensor *expected, const char *what);
void kc_call_free(kc_call *c);

#endif
