/* Shared by the reference meanings of the op families, on top of op_def.h. */
#ifndef MLSI_REFERENCE_H
#define MLSI_REFERENCE_H

#include "core/elementary.h"
#include "core/faults.h"
#include "ir/ops/op_def.h"

#include <math.h>

/* Floats of f64 are computed in f64, all others in f32; see docs/numerics.md. */
static inline bool mlsi_ref_is_f64(mlsys_dtype t) { return t == MLSYS_F64; }
/* v rounded to the compute type: one IEEE operation done in f64 on f32 operands is not always an
 * f32 operation, so reference code computes in float and only stores the results in doubles. */
static inline double mlsi_ref_narrow(bool f64, double v) { return f64 ? v : (double)(float)v; }

#define MLSI_REF_OP(name, expr)                                                                    \
    static inline double mlsi_ref_##name(bool f64, double x, double y) {                           \
        if (f64) {                                                                                 \
            double a = x, b = y;                                                                   \
            return expr;                                                                           \
        }                                                                                          \
        float a = (float)x, b = (float)y;                                                          \
        return (double)(float)(expr);                                                              \
    }
MLSI_REF_OP(add, a + b)
MLSI_REF_OP(sub, a - b)
MLSI_REF_OP(mul, a *b)
MLSI_REF_OP(div, a / b)
#undef MLSI_REF_OP

static inline double mlsi_ref_fma(bool f64, double a, double b, double c) {
    return f64 ? fma(a, b, c) : (double)fmaf((float)a, (float)b, (float)c);
}
static inline double mlsi_ref_exp(bool f64, double a) {
    return f64 ? mlsi_ed_exp(a) : (double)mlsi_ef_exp((float)a);
}
static inline double mlsi_ref_log(bool f64, double a) {
    return f64 ? mlsi_ed_log(a) : (double)mlsi_ef_log((float)a);
}

/* NaN if either is NaN; +0 above -0. */
static inline double mlsi_ref_max(double a, double b) {
    if (mlsi_fault(MLSI_FAULT_OPS_MAX_DROPS_NAN)) return a > b ? a : b;
    if (isnan(a) || isnan(b)) return NAN;
    if (a == b) return signbit(a) ? b : a;
    return a > b ? a : b;
}
static inline double mlsi_ref_min(double a, double b) {
    if (isnan(a) || isnan(b)) return NAN;
    if (a == b) return signbit(a) ? a : b;
    return a < b ? a : b;
}

/* Wrapping integer arithmetic in 64 bits; mlsi_ref_set_i wraps to the dtype. */
static inline int64_t mlsi_ref_iadd(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}
static inline int64_t mlsi_ref_isub(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a - (uint64_t)b);
}
static inline int64_t mlsi_ref_imul(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

/* Address of the element with a linear row-major index; plain dtypes. */
void *mlsi_ref_at(const mlsi_view *v, int64_t linear);
/* Move one element bit for bit between views of one dtype. */
void mlsi_ref_move(const mlsi_view *to, int64_t to_linear, const mlsi_view *from,
                   int64_t from_linear);

/* Element i of an optional addend, -0 where it is absent. */
double mlsi_ref_addend(const mlsi_ref_args *r, int operand, int64_t i);

/* An index operand's value: [-n, n) -> [0, n), else an error that names op, operand and position.
 */
mlsys_status mlsi_ref_index(const char *op, const char *operand, const mlsi_view *ids,
                            int64_t position, int64_t n, int64_t *out);

/* Row `row` (row-major over all axes but the last) of a block tensor, decoded. */
void mlsi_ref_block_row(const mlsi_view *v, int64_t row, float *out);

/* Number of elements of an operand. */
static inline uint64_t mlsi_cost_count(const mlsi_view *v) { return (uint64_t)mlsi_view_count(v); }

/* Operand is of a block dtype with a last axis of known extent, a multiple of the block. */
mlsys_status mlsi_infer_blocks(const mlsi_infer *t, int operand, int min_rank);

/* Classes of dtypes, for mlsi_infer_class. */
enum {
    MLSI_FLOATS = 1u << MLSI_CLASS_FLOAT,
    MLSI_INTS = 1u << MLSI_CLASS_INT,
    MLSI_BOOLS = 1u << MLSI_CLASS_BOOL,
    MLSI_BLOCKS = 1u << MLSI_CLASS_BLOCK,
    MLSI_NUMBERS = MLSI_FLOATS | MLSI_INTS,
    MLSI_PLAIN = MLSI_NUMBERS | MLSI_BOOLS
};

#endif
