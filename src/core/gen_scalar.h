/* Generated code one element at a time: what registers of f32, f64, i64 and truth values are computed with. It stands behind a
 * vector vocabulary (cpu/simd.h; one lane in cuda/gen_device.h) and the elementary functions; f32 is lane 0 of them. Text
 * of this file goes into generated code.
 *
 * ml_KIND_TYPE are reductions in the orders of docs/numerics.md, terms one by one in ascending order. */
#ifndef MLSI_GEN_SCALAR_H
#define MLSI_GEN_SCALAR_H

#include "core/philox.h"
#include "core/scalar_ops.h"
#include "core/small_float.h"
#include "core/text_fn.h"

#define ML_FN MLSI_TEXT_FN

/* ---- index arithmetic, integers ------------------------------------------------------------------------------ */

ML_FN int64_t ml_floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0); }

/* Floats to integers truncate and saturate; NaN gives 0. */
ML_FN int64_t ml_to_int(double x, double low, double past, int64_t least, int64_t most) {
    if (x != x) return 0;
    return x < low ? least : x >= past ? most : (int64_t)x;
}
ML_FN int64_t ml_to_i64(double x) { return ml_to_int(x, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX); }
ML_FN int64_t ml_to_i32(double x) { return ml_to_int(x, -0x1p31, 0x1p31, INT32_MIN, INT32_MAX); }
ML_FN int64_t ml_to_i16(double x) { return ml_to_int(x, -0x1p15, 0x1p15, INT16_MIN, INT16_MAX); }
ML_FN int64_t ml_to_i8(double x) { return ml_to_int(x, -0x1p7, 0x1p7, INT8_MIN, INT8_MAX); }
ML_FN int64_t ml_to_u8(double x) { return ml_to_int(x, 0, 0x1p8, 0, UINT8_MAX); }

/* ---- floats one by one: lane 0 of the vocabulary ------------------------------------------------------------ */

ML_FN float ml_first(VF v) {
    float t[VF_LANES];
    vf_store(t, v);
    return t[0];
}
#define ML_1(name, fn)                                                                             \
    ML_FN float ml_##name(float x) { return ml_first(fn(vf_set1(x))); }
#define ML_2(name, fn)                                                                             \
    ML_FN float ml_##name(float x, float y) { return ml_first(fn(vf_set1(x), vf_set1(y))); }
ML_1(ceil, vf_ceil)
ML_1(floor, vf_floor)
ML_1(trunc, vf_trunc)
ML_1(rint, vf_rint)
ML_1(cbrt, ef_cbrt)
ML_1(exp, ef_exp)
ML_1(exp2, ef_exp2)
ML_1(expm1, ef_expm1)
ML_1(log, ef_log)
ML_1(log2, ef_log2)
ML_1(log10, ef_log10)
ML_1(log1p, ef_log1p)
ML_1(sin, ef_sin)
ML_1(cos, ef_cos)
ML_1(tan, ef_tan)
ML_1(asin, ef_asin)
ML_1(acos, ef_acos)
ML_1(atan, ef_atan)
ML_1(sinh, ef_sinh)
ML_1(cosh, ef_cosh)
ML_1(tanh, ef_tanh)
ML_1(asinh, ef_asinh)
ML_1(acosh, ef_acosh)
ML_1(atanh, ef_atanh)
ML_1(erf, ef_erf)
ML_1(erfc, ef_erfc)
ML_1(sigmoid, ef_sigmoid)
ML_2(pow, ef_pow)
ML_2(atan2, ef_atan2)
ML_2(max, vf_maximum)
ML_2(min, vf_minimum)

ML_FN int ml_is_nan(float x) { return x != x; }
ML_FN int ml_is_nan64(double x) { return x != x; }
ML_FN int ml_is_finite(float x) { return x - x == 0; }
ML_FN int ml_is_finite64(double x) { return x - x == 0; }
ML_FN float ml_sign(float x) { return x == 0 || x != x ? x : __builtin_copysignf(1.0f, x); }
ML_FN uint64_t ml_bits_of_f32(float x) {
    uint32_t i;
    memcpy(&i, &x, sizeof i);
    return i;
}
ML_FN float ml_bits_to_f32(uint64_t x) {
    uint32_t i = (uint32_t)x;
    float f;
    memcpy(&f, &i, sizeof f);
    return f;
}

/* ---- half floats, truth values, bytes ------------------------------------------------------------------------- */

#define ML_HALF(name)                                                                              \
    ML_FN float ml_load_##name(const uint16_t *p) { return ml_first(vf_load_##name##_n(p, 1)); }   \
    ML_FN uint16_t ml_to_##name##_bits(float x) {                                                  \
        uint16_t h;                                                                                \
        vf_store_##name##_n(&h, vf_set1(x), 1);                                                    \
        return h;                                                                                  \
    }                                                                                              \
    ML_FN float ml_round_##name(float x) {                                                         \
        uint16_t h = ml_to_##name##_bits(x);                                                       \
        return ml_load_##name(&h);                                                                 \
    }                                                                                              \
    ML_FN VF ml_vround_##name(VF x) {                                                              \
        uint16_t h[VF_LANES];                                                                      \
        vf_store_##name(h, x);                                                                     \
        return vf_load_##name(h);                                                                  \
    }                                                                                              \
    ML_FN uint64_t ml_bits_of_##name(float x) { return ml_to_##name##_bits(x); }                   \
    ML_FN float ml_bits_to_##name(uint64_t x) {                                                    \
        uint16_t h = (uint16_t)x;                                                                  \
        return ml_load_##name(&h);                                                                 \
    }
ML_HALF(f16)
ML_HALF(bf16)

#define ML_F8(name, format)                                                                        \
    ML_FN float ml_load_##name(const uint8_t *p) { return (float)small_to_f64(*p, format); }       \
    ML_FN uint8_t ml_to_##name##_bits(float x) { return (uint8_t)small_from_f64(x, format); }      \
    ML_FN float ml_round_##name(float x) {                                                         \
        return (float)small_to_f64(small_from_f64(x, format), format);                             \
    }                                                                                              \
    ML_FN uint64_t ml_bits_of_##name(float x) { return ml_to_##name##_bits(x); }                   \
    ML_FN float ml_bits_to_##name(uint64_t x) { return (float)small_to_f64((uint8_t)x, format); }
ML_F8(f8e4m3, small_e4m3)
ML_F8(f8e5m2, small_e5m2)

/* From f64, and from an integer with the bits that do not fit gathered in the lowest one (rounding to odd): one
 * rounding to the narrow dtype. */
#define ML_NARROW(name, format)                                                                    \
    ML_FN float ml_narrow_##name(double x) {                                                       \
        return (float)small_to_f64(small_from_f64(x, format), format);                             \
    }
ML_NARROW(f16, small_f16)
ML_NARROW(bf16, small_bf16)
ML_NARROW(f8e4m3, small_e4m3)
ML_NARROW(f8e5m2, small_e5m2)
ML_FN double ml_to_odd(int64_t x) {
    uint64_t mag = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
    if (mag >> 53) mag = (mag >> 11 | ((mag & 0x7ff) != 0)) << 11;
    return x < 0 ? -(double)mag : (double)mag;
}

/* ---- bits of a value in memory -------------------------------------------------------------------------------- */

ML_FN uint64_t ml_bits_of_f64(double x) { return ed_bits(x); }
ML_FN double ml_bits_to_f64(uint64_t x) { return ed_from_bits(x); }
#define ML_INT_BITS(name, type)                                                                    \
    ML_FN uint64_t ml_bits_of_##name(int64_t x) { return (uint64_t)(type)x; }                      \
    ML_FN int64_t ml_bits_to_##name(uint64_t x) { return (int64_t)(type)x; }
ML_INT_BITS(i64, int64_t)
ML_INT_BITS(i32, int32_t)
ML_INT_BITS(i16, int16_t)
ML_INT_BITS(i8, int8_t)
ML_INT_BITS(u8, uint8_t)
ML_INT_BITS(bool, uint8_t)

/* ---- random numbers: core/rng.h ------------------------------------------------------------------------------------ */

ML_FN int64_t ml_random_bits64(int64_t key, int64_t stream, int64_t i) {
    return (int64_t)philox_bits64((uint64_t)key, (uint64_t)stream, (uint64_t)i);
}
ML_FN int64_t ml_random_bits32(int64_t key, int64_t stream, int64_t i) {
    return (int64_t)philox_bits32((uint64_t)key, (uint64_t)stream, (uint64_t)i);
}
ML_FN float ml_random_uniform_f32(int64_t key, int64_t stream, int64_t i) {
    return philox_uniform32((uint64_t)key, (uint64_t)stream, (uint64_t)i);
}
ML_FN double ml_random_uniform_f64(int64_t key, int64_t stream, int64_t i) {
    return philox_uniform64((uint64_t)key, (uint64_t)stream, (uint64_t)i);
}
ML_FN float ml_random_normal_f32(int64_t key, int64_t stream, int64_t i) {
    uint32_t w[2];
    philox_pair((uint64_t)key, (uint64_t)stream, (uint64_t)i, w);
    float u = (float)((w[0] >> 8) + 1) * 0x1p-24f, v = (float)(w[1] >> 8) * 0x1p-24f;
    return __builtin_sqrtf(-2.0f * ml_log(u)) * ml_cos(0x1.921fb6p+2f * v);
}
ML_FN double ml_random_normal_f64(int64_t key, int64_t stream, int64_t i) {
    uint32_t w[2];
    philox_pair((uint64_t)key, (uint64_t)stream, (uint64_t)i, w);
    double u = ((double)w[0] + 1.0) * 0x1p-32, v = (double)w[1] * 0x1p-32;
    return __builtin_sqrt(-2.0 * ed_log(u)) * ed_cos(0x1.921fb54442d18p+2 * v);
}

/* ---- sums and products: the canonical tree ----------------------------------------------------------------------- */

/* Level 0 holds the lanes of the current chunk of 4096 terms, level k + 1 those of the chunks of level k. A lane starts at the
 * identity, so lanes without a term may be left out of the fold. */
#define ML_TREE(name, T, set, op, identity)                                                        \
    typedef struct name {                                                                          \
        T lane[4][128];                                                                            \
        int64_t n[4];                                                                              \
    } name;                                                                                        \
    ML_FN void name##_begin(name *s) { s->n[0] = s->n[1] = s->n[2] = s->n[3] = 0; }                \
    ML_FN T name##_fold(T *lane, int64_t used) {                                                   \
        if (used == 0) return set(identity);                                                       \
        for (int h = 64; h; h /= 2)                                                                \
            for (int j = 0; j < h && j + h < used; j++)                                            \
                lane[j] = op(lane[j], lane[j + h]);                                                \
        return lane[0];                                                                            \
    }                                                                                              \
    ML_FN void name##_push(name *s, int level, T x) {                                              \
        for (;; level++) {                                                                         \
            int64_t i = s->n[level]++ & 4095;                                                      \
            T *lane = &s->lane[level][i & 127];                                                    \
            *lane = op(i < 128 ? set(identity) : *lane, x);                                        \
            if (i != 4095) return;                                                                 \
            x = name##_fold(s->lane[level], 128);                                                  \
        }                                                                                          \
    }                                                                                              \
    ML_FN void name##_add(name *s, T x) { name##_push(s, 0, x); }                                  \
    ML_FN T name##_end_at(name *s, int level) {                                                    \
        for (;; level++) {                                                                         \
            int64_t rest = s->n[level] & 4095;                                                     \
            T x = name##_fold(s->lane[level], rest < 128 ? rest : 128);                            \
            if (s->n[level] < 4096) return x;                                                      \
            if (rest) name##_push(s, level + 1, x);                                                \
        }                                                                                          \
    }                                                                                              \
    ML_FN T name##_end(name *s) { return name##_end_at(s, 0); }
#define ML_SAME(x)   (x)
#define ML_ADD(a, b) ((a) + (b))
#define ML_MUL(a, b) ((a) * (b))
ML_TREE(ml_sum_f32, float, ML_SAME, ML_ADD, 0.0f)
ML_TREE(ml_prod_f32, float, ML_SAME, ML_MUL, 1.0f)
ML_TREE(ml_sum_f64, double, ML_SAME, ML_ADD, 0.0)
ML_TREE(ml_prod_f64, double, ML_SAME, ML_MUL, 1.0)
/* ---- products along K: segments of 256, each a chain of fma ------------------------------------------------------- */

/* total begins as what is given: -0, to which every sum is itself, where there is nothing. */
#define ML_CHAIN(name, T, set, op, mul_add)                                                        \
    typedef struct name {                                                                          \
        T total, part;                                                                             \
        int64_t k;                                                                                 \
    } name;                                                                                        \
    ML_FN void name##_begin(name *s, T init) {                                                     \
        s->total = init;                                                                           \
        s->part = set(0);                                                                          \
        s->k = 0;                                                                                  \
    }                                                                                              \
    ML_FN void name##_add(name *s, T a, T b) {                                                     \
        if (s->k == 256) {                                                                         \
            s->total = op(s->total, s->part);                                                      \
            s->part = set(0);                                                                      \
            s->k = 0;                                                                              \
        }                                                                                          \
        s->part = mul_add(a, b, s->part);                                                          \
        s->k++;                                                                                    \
    }                                                                                              \
    ML_FN T name##_end(name *s) { return op(s->total, s->part); }
ML_CHAIN(ml_dot_f32, float, ML_SAME, ML_ADD, __builtin_fmaf)
ML_CHAIN(ml_dot_f64, double, ML_SAME, ML_ADD, __builtin_fma)
/* ---- orders that cannot be seen, positions ------------------------------------------------------------------------- */

#define ML_FOLD(name, T, op, identity)                                                             \
    typedef struct name {                                                                          \
        T x;                                                                                       \
    } name;                                                                                        \
    ML_FN void name##_begin(name *s) { s->x = identity; }                                          \
    ML_FN void name##_add(name *s, T x) { s->x = op(s->x, x); }                                    \
    ML_FN T name##_end(name *s) { return s->x; }
#define ML_AND(a, b) ((a) & (b))
#define ML_OR(a, b)  ((a) | (b))
ML_FOLD(ml_max_f32, float, ml_max, -__builtin_inff())
ML_FOLD(ml_min_f32, float, ml_min, __builtin_inff())
ML_FOLD(ml_max_f64, double, max64, -__builtin_inf())
ML_FOLD(ml_min_f64, double, min64, __builtin_inf())
ML_FOLD(ml_max_int, int64_t, int_max, INT64_MIN)
ML_FOLD(ml_min_int, int64_t, int_min, INT64_MAX)
ML_FOLD(ml_sum_int, int64_t, wrap_add, 0)
ML_FOLD(ml_prod_int, int64_t, wrap_mul, 1)
ML_FOLD(ml_and_int, int64_t, ML_AND, 1)
ML_FOLD(ml_or_int, int64_t, ML_OR, 0)
typedef struct ml_dot_int {
    int64_t x;
} ml_dot_int;
ML_FN void ml_dot_int_begin(ml_dot_int *s, int64_t init) { s->x = init; }
ML_FN void ml_dot_int_add(ml_dot_int *s, int64_t a, int64_t b) {
    s->x = wrap_add(s->x, wrap_mul(a, b));
}
ML_FN int64_t ml_dot_int_end(ml_dot_int *s) { return s->x; }

/* The first NaN, else the first extreme. */
#define ML_ARG(name, T, better)                                                                    \
    typedef struct name {                                                                          \
        T x;                                                                                       \
        int64_t at, n;                                                                             \
    } name;                                                                                        \
    ML_FN void name##_begin(name *s) { s->x = 0, s->at = 0, s->n = 0; }                            \
    ML_FN void name##_add(name *s, T x) {                                                          \
        if (s->n == 0 || (s->x == s->x && (x != x || x better s->x))) s->x = x, s->at = s->n;      \
        s->n++;                                                                                    \
    }                                                                                              \
    ML_FN int64_t name##_end(name *s) { return s->at; }
ML_ARG(ml_argmax_f32, float, >)
ML_ARG(ml_argmin_f32, float, <)
ML_ARG(ml_argmax_f64, double, >)
ML_ARG(ml_argmin_f64, double, <)
ML_ARG(ml_argmax_int, int64_t, >)
ML_ARG(ml_argmin_int, int64_t, <)

#endif
