/* Staging: runs of any plain dtype and stride to arrays of the compute type and back.
 *
 * The compute type of a dtype is f64 for f64, f32 for the other floats, and i64 for integers and
 * bool; each widening is exact and each store rounds, wraps or normalises once. A kernel that
 * works on arrays of its compute type thereby works on every dtype and layout. */
#ifndef MLSI_KERNELS_STAGE_H
#define MLSI_KERNELS_STAGE_H

#include "cpu/kernel.h"
#include "cpu/iterate.h"

enum { STAGE = 512 }; /* elements per block: four blocks of f64 fit half of a 32 KB L1 */

typedef enum compute_type { COMPUTE_F32, COMPUTE_F64, COMPUTE_I64 } compute_type;

static inline compute_type compute_type_of(mlsys_dtype t) {
    if (t == MLSYS_F64) return COMPUTE_F64;
    return mlsi_dtype_is_float(t) ? COMPUTE_F32 : COMPUTE_I64;
}

static inline bool is_plain(mlsys_dtype t) { return !mlsi_dtype_is_block(t); }

/* Copy n elements of `size` bytes between strides (in bytes). */
static inline void stage_move(char *dst, int64_t ds, const char *src, int64_t ss, int size,
                              int64_t n) {
    if (ds == size && ss == size) {
        memcpy(dst, src, (size_t)(n * size));
        return;
    }
#define MOVE(type)                                                                                 \
    for (int64_t i = 0; i < n; i++, dst += ds, src += ss) {                                        \
        type moved;                                                                                \
        memcpy(&moved, src, sizeof moved);                                                         \
        memcpy(dst, &moved, sizeof moved);                                                         \
    }                                                                                              \
    break
    switch (size) {
    case 1: MOVE(uint8_t);
    case 2: MOVE(uint16_t);
    case 4: MOVE(uint32_t);
    case 8: MOVE(uint64_t);
    default: break;
    }
#undef MOVE
}

/* Outputs from here on are written past the caches: they would push out everything else, and a
 * store that allocates a cache line reads it from memory first. */
enum { STREAM_BYTES = 1 << 25 };

/* Copy bytes to dst with streaming stores; the caller ends its work with v_stream_fence. */
static inline void stream_bytes(char *dst, const char *src, int64_t bytes) {
    int64_t step = VF_LANES * 4, head = (int64_t)(-(uintptr_t)dst & (uintptr_t)(step - 1));
    if (head > bytes) head = bytes;
    memcpy(dst, src, (size_t)head);
    for (; head + step <= bytes; head += step) {
        float block[VF_LANES];
        memcpy(block, src + head, sizeof block);
        vf_stream((float *)(void *)(dst + head), vf_load(block));
    }
    memcpy(dst + head, src + head, (size_t)(bytes - head));
}

/* ---- f32 ------------------------------------------------------------------------------------- */

static inline void widen_f16(float *dst, const uint16_t *src, int64_t n) {
    int64_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES)
        vf_store(dst + i, vf_load_f16(src + i));
    if (i < n) vf_store_n(dst + i, vf_load_f16_n(src + i, (int)(n - i)), (int)(n - i));
}

static inline void widen_bf16(float *dst, const uint16_t *src, int64_t n) {
    int64_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES)
        vf_store(dst + i, vf_load_bf16(src + i));
    if (i < n) vf_store_n(dst + i, vf_load_bf16_n(src + i, (int)(n - i)), (int)(n - i));
}

static inline void narrow_f16(uint16_t *dst, const float *src, int64_t n) {
    int64_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES)
        vf_store_f16(dst + i, vf_load(src + i));
    if (i < n) vf_store_f16_n(dst + i, vf_load_n(src + i, (int)(n - i)), (int)(n - i));
}

static inline void narrow_bf16(uint16_t *dst, const float *src, int64_t n) {
    int64_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES)
        vf_store_bf16(dst + i, vf_load(src + i));
    if (i < n) vf_store_bf16_n(dst + i, vf_load_n(src + i, (int)(n - i)), (int)(n - i));
}

/* Half floats at any stride go through a dense block of their bits. */
static inline void load_half(float *dst, const char *src, int64_t stride, int64_t n,
                             void (*widen)(float *, const uint16_t *, int64_t)) {
    uint16_t dense[STAGE];
    if (stride == 2) {
        widen(dst, (const uint16_t *)(const void *)src, n);
        return;
    }
    for (int64_t i = 0; i < n; i += STAGE) {
        int64_t m = n - i < STAGE ? n - i : STAGE;
        stage_move((char *)dense, 2, src + i * stride, stride, 2, m);
        widen(dst + i, dense, m);
    }
}

static inline void store_half(char *dst, int64_t stride, const float *src, int64_t n,
                              void (*narrow)(uint16_t *, const float *, int64_t)) {
    uint16_t dense[STAGE];
    if (stride == 2) {
        narrow((uint16_t *)(void *)dst, src, n);
        return;
    }
    for (int64_t i = 0; i < n; i += STAGE) {
        int64_t m = n - i < STAGE ? n - i : STAGE;
        narrow(dense, src + i, m);
        stage_move(dst + i * stride, stride, (const char *)dense, 2, 2, m);
    }
}

/* VF_LANES neighbours, or the first n of them, of f32, f16 or bf16. */
V_FN VF load_lanes(const char *p, mlsys_dtype t) {
    if (t == MLSYS_F32) return vf_load((const float *)(const void *)p);
    const uint16_t *h = (const uint16_t *)(const void *)p;
    return t == MLSYS_F16 ? vf_load_f16(h) : vf_load_bf16(h);
}
V_FN VF load_lanes_n(const char *p, mlsys_dtype t, int n) {
    if (t == MLSYS_F32) return vf_load_n((const float *)(const void *)p, n);
    const uint16_t *h = (const uint16_t *)(const void *)p;
    return t == MLSYS_F16 ? vf_load_f16_n(h, n) : vf_load_bf16_n(h, n);
}

static inline void load_f32(float *dst, const char *src, mlsys_dtype t, int64_t stride, int64_t n) {
    switch (t) {
    case MLSYS_F32: stage_move((char *)dst, 4, src, stride, 4, n); break;
    case MLSYS_F16: load_half(dst, src, stride, n, widen_f16); break;
    case MLSYS_BF16: load_half(dst, src, stride, n, widen_bf16); break;
    case MLSYS_F8E4M3:
        for (int64_t i = 0; i < n; i++)
            dst[i] = mlsi_f8e4m3_to_f32((uint8_t)src[i * stride]);
        break;
    case MLSYS_F8E5M2:
        for (int64_t i = 0; i < n; i++)
            dst[i] = mlsi_f8e5m2_to_f32((uint8_t)src[i * stride]);
        break;
    default: break;
    }
}

static inline void store_f32(char *dst, mlsys_dtype t, int64_t stride, const float *src,
                             int64_t n) {
    switch (t) {
    case MLSYS_F32: stage_move(dst, stride, (const char *)src, 4, 4, n); break;
    case MLSYS_F16: store_half(dst, stride, src, n, narrow_f16); break;
    case MLSYS_BF16: store_half(dst, stride, src, n, narrow_bf16); break;
    case MLSYS_F8E4M3:
        for (int64_t i = 0; i < n; i++)
            dst[i * stride] = (char)mlsi_f32_to_f8e4m3(src[i]);
        break;
    case MLSYS_F8E5M2:
        for (int64_t i = 0; i < n; i++)
            dst[i * stride] = (char)mlsi_f32_to_f8e5m2(src[i]);
        break;
    default: break;
    }
}

/* One f64 in any float dtype, rounded once. */
static inline void store_f64(char *dst, mlsys_dtype t, double x) {
    float f = (float)x;
    uint16_t half;
    switch (t) {
    case MLSYS_F64: memcpy(dst, &x, sizeof x); break;
    case MLSYS_F32: memcpy(dst, &f, sizeof f); break;
    case MLSYS_F16: half = mlsi_f64_to_f16(x), memcpy(dst, &half, sizeof half); break;
    case MLSYS_BF16: half = mlsi_f64_to_bf16(x), memcpy(dst, &half, sizeof half); break;
    case MLSYS_F8E4M3: *dst = (char)mlsi_f64_to_f8e4m3(x); break;
    case MLSYS_F8E5M2: *dst = (char)mlsi_f64_to_f8e5m2(x); break;
    default: break;
    }
}

/* ---- i64 ------------------------------------------------------------------------------------- */

static inline void load_i64(int64_t *dst, const char *src, mlsys_dtype t, int64_t stride,
                            int64_t n) {
#define LOAD(type, expr)                                                                           \
    for (int64_t i = 0; i < n; i++) {                                                              \
        type x;                                                                                    \
        memcpy(&x, src + i * stride, sizeof x);                                                    \
        dst[i] = (expr);                                                                           \
    }                                                                                              \
    break
    switch (t) {
    case MLSYS_I64: stage_move((char *)dst, 8, src, stride, 8, n); break;
    case MLSYS_I32: LOAD(int32_t, x);
    case MLSYS_I16: LOAD(int16_t, x);
    case MLSYS_I8: LOAD(int8_t, x);
    case MLSYS_U8: LOAD(uint8_t, x);
    case MLSYS_BOOL: LOAD(uint8_t, x != 0);
    default: break;
    }
#undef LOAD
}

static inline void store_i64(char *dst, mlsys_dtype t, int64_t stride, const int64_t *src,
                             int64_t n) {
#define STORE(type, expr)                                                                          \
    for (int64_t i = 0; i < n; i++) {                                                              \
        type x = (type)(expr);                                                                     \
        memcpy(dst + i * stride, &x, sizeof x);                                                    \
    }                                                                                              \
    break
    switch (t) {
    case MLSYS_I64: stage_move(dst, stride, (const char *)src, 8, 8, n); break;
    case MLSYS_I32: STORE(uint32_t, (uint64_t)src[i]);
    case MLSYS_I16: STORE(uint16_t, (uint64_t)src[i]);
    case MLSYS_I8:
    case MLSYS_U8: STORE(uint8_t, (uint64_t)src[i]);
    case MLSYS_BOOL: STORE(uint8_t, src[i] != 0);
    default: break;
    }
#undef STORE
}

/* ---- any compute type ------------------------------------------------------------------------ */

/* Block of one operand in its compute type. */
typedef union stage_block {
    float f32[STAGE];
    double f64[STAGE];
    int64_t i64[STAGE];
} stage_block;

static inline void stage_load(stage_block *b, const char *src, mlsys_dtype t, int64_t stride,
                              int64_t n) {
    switch (compute_type_of(t)) {
    case COMPUTE_F32: load_f32(b->f32, src, t, stride, n); break;
    case COMPUTE_F64: stage_move((char *)b->f64, 8, src, stride, 8, n); break;
    case COMPUTE_I64: load_i64(b->i64, src, t, stride, n); break;
    }
}

static inline void stage_store(char *dst, mlsys_dtype t, int64_t stride, const stage_block *b,
                               int64_t n) {
    switch (compute_type_of(t)) {
    case COMPUTE_F32: store_f32(dst, t, stride, b->f32, n); break;
    case COMPUTE_F64: stage_move(dst, stride, (const char *)b->f64, 8, 8, n); break;
    case COMPUTE_I64: store_i64(dst, t, stride, b->i64, n); break;
    }
}

/* Is a run already an array of its compute type? */
static inline bool is_staged(mlsys_dtype t, int64_t stride) {
    return (t == MLSYS_F32 && stride == 4) || ((t == MLSYS_F64 || t == MLSYS_I64) && stride == 8);
}

#endif
