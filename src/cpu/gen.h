/* The vocabulary of generated code (ir/codegen). Embedded into the library as text with all that it includes, compiled
 * together with the generated functions: it may use no library but the compiler's own builtins.
 *
 * What takes elements one by one is core/gen_scalar.h. Of its reductions ml_vKIND are those of VF_LANES results at once; ml_lKIND
 * is one result whose terms come in lanes: blocks of 128 terms, lane register u of the block, the last one with m terms. */
#ifndef MLSI_CPU_GEN_H
#define MLSI_CPU_GEN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cpu/simd.h"

#include "core/elementary.inc"
#define ED_FN static inline
#include "core/elementary_f64.inc"

#include "core/gen_args.h"
#include "core/gen_scalar.h"

#define ML_LANES (128 / VF_LANES)

/* a - b as far as it can be told from a lane's number, which is far below 2^20. */
ML_FN int32_t ml_lane_bound(int64_t a, int64_t b) {
    int64_t d;
    const int32_t far = 1 << 20;
    if (__builtin_sub_overflow(a, b, &d)) return a < b ? -far : far;
    return d < -far ? -far : d > far ? far : (int32_t)d;
}

ML_FN VM ml_vm_set1(int x) { return vi_gt(vi_set1(x), vi_zero()); }
ML_FN VM ml_load_bool(const uint8_t *p) { return vi_gt(vi_load_u8(p), vi_zero()); }
ML_FN VM ml_load_bool_n(const uint8_t *p, int n) {
    uint8_t t[VF_LANES] = {0};
    memcpy(t, p, (size_t)n);
    return ml_load_bool(t);
}
ML_FN VI ml_vi_load_u8_n(const uint8_t *p, int n) {
    uint8_t t[VF_LANES] = {0};
    memcpy(t, p, (size_t)n);
    return vi_load_u8(t);
}
ML_FN VI ml_vi_load_i8_n(const int8_t *p, int n) {
    int8_t t[VF_LANES] = {0};
    memcpy(t, p, (size_t)n);
    return vi_load_i8(t);
}
ML_FN void ml_store_bool_n(uint8_t *p, VM m, int n) {
    int32_t t[VF_LANES];
    vi_store(t, vi_select(m, vi_set1(1), vi_zero()));
    for (int i = 0; i < n; i++)
        p[i] = (uint8_t)t[i];
}
ML_FN void ml_store_bool(uint8_t *p, VM m) { ml_store_bool_n(p, m, VF_LANES); }
ML_FN VF ml_vsign(VF a) {
    VM keep = vm_or(vf_eq(a, vf_zero()), vf_isnan(a));
    return vf_select(keep, a, vf_copysign(vf_set1(1.0f), a));
}
/* Past the caches where the task asks for it. */
ML_FN void ml_store(int stream, float *p, VF v) {
    if (stream && !((uintptr_t)p & (VF_STREAM_ALIGN - 1)))
        vf_stream(p, v);
    else
        vf_store(p, v);
}
/* Asks for the line at p + bytes, an address that may lie behind the buffer. A vector of 16 lanes is a line of f32. */
ML_FN void ml_ahead(int ahead, const void *p, int64_t bytes) {
    if (ahead && VF_LANES == 16)
        __builtin_prefetch((const void *)((uintptr_t)p + (uintptr_t)bytes));
}
ML_FN void ml_store_n(int stream, float *p, VF v, int n) {
    (void)stream;
    vf_store_n(p, v, n);
}

/* ---- reductions in lanes ----------------------------------------------------------------------------------------- */

ML_TREE(ml_vsum, VF, vf_set1, vf_add, 0.0f)
ML_TREE(ml_vprod, VF, vf_set1, vf_mul, 1.0f)

/* Terms in lanes: a chunk's 128 lanes are registers, folded when the chunk is full or the terms end. */
#define ML_LANE_TREE(name, up_name, op, identity)                                                  \
    typedef struct name {                                                                          \
        VF lane[ML_LANES];                                                                         \
        int64_t terms;                                                                             \
        up_name up;                                                                                \
    } name;                                                                                        \
    ML_FN void name##_begin(name *s) {                                                             \
        s->terms = 0;                                                                              \
        s->up.n[1] = s->up.n[2] = s->up.n[3] = 0;                                                  \
        for (int i = 0; i < ML_LANES; i++)                                                         \
            s->lane[i] = vf_set1(identity);                                                        \
    }                                                                                              \
    ML_FN float name##_chunk(name *s) {                                                            \
        for (int h = ML_LANES / 2; h; h /= 2)                                                      \
            for (int j = 0; j < h; j++)                                                            \
                s->lane[j] = op(s->lane[j], s->lane[j + h]);                                       \
        return name##_across(s->lane[0]);                                                          \
    }                                                                                              \
    ML_FN void name##_add(name *s, int u, int m, VF x) {                                           \
        if (m < VF_LANES) x = vf_select(ml_first_lanes(m), x, vf_set1(identity));                  \
        s->lane[u] = op(s->lane[u], x);                                                            \
    }                                                                                              \
    ML_FN void name##_block(name *s, int64_t begin, int64_t n) {                                   \
        s->terms = begin + 128 < n ? begin + 128 : n;                                              \
        if (begin + 128 > n || (s->terms & 4095)) return;                                          \
        up_name##_push(&s->up, 1, name##_chunk(s));                                                \
        for (int i = 0; i < ML_LANES; i++)                                                         \
            s->lane[i] = vf_set1(identity);                                                        \
    }                                                                                              \
    ML_FN float name##_end(name *s) {                                                              \
        if (s->terms < 4096) return name##_chunk(s);                                               \
        if (s->terms & 4095) up_name##_push(&s->up, 1, name##_chunk(s));                           \
        return up_name##_end_at(&s->up, 1);                                                        \
    }
ML_FN VM ml_first_lanes(int m) { return vi_gt(vi_set1(m), vi_iota()); }
ML_FN float ml_lsum_across(VF v) { return vf_reduce_add(v); }
ML_FN float ml_lprod_across(VF v) {
    float t[VF_LANES];
    vf_store(t, v);
    for (int h = VF_LANES / 2; h; h /= 2)
        for (int j = 0; j < h; j++)
            t[j] = t[j] * t[j + h];
    return t[0];
}
ML_LANE_TREE(ml_lsum, ml_sum_f32, vf_add, 0.0f)
ML_LANE_TREE(ml_lprod, ml_prod_f32, vf_mul, 1.0f)

ML_CHAIN(ml_vdot, VF, vf_set1, vf_add, vf_fma)
ML_FOLD(ml_vmax, VF, vf_maximum, vf_set1(-__builtin_inff()))
ML_FOLD(ml_vmin, VF, vf_minimum, vf_set1(__builtin_inff()))

/* Four registers in turn: one would wait for itself. */
#define ML_LANE_FOLD(name, op, identity, across)                                                   \
    typedef struct name {                                                                          \
        VF x[4];                                                                                   \
    } name;                                                                                        \
    ML_FN void name##_begin(name *s) {                                                             \
        s->x[0] = s->x[1] = s->x[2] = s->x[3] = vf_set1(identity);                                 \
    }                                                                                              \
    ML_FN void name##_add(name *s, int u, int m, VF x) {                                           \
        if (m < VF_LANES) x = vf_select(ml_first_lanes(m), x, vf_set1(identity));                  \
        s->x[u & 3] = op(s->x[u & 3], x);                                                          \
    }                                                                                              \
    ML_FN void name##_block(name *s, int64_t begin, int64_t n) { (void)s, (void)begin, (void)n; }  \
    ML_FN float name##_end(name *s) {                                                              \
        return across(op(op(s->x[0], s->x[1]), op(s->x[2], s->x[3])));                             \
    }
ML_LANE_FOLD(ml_lmax, vf_maximum, -__builtin_inff(), vf_reduce_maximum)
ML_LANE_FOLD(ml_lmin, vf_minimum, __builtin_inff(), vf_reduce_minimum)

#endif
