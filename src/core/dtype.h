/* dtypes: facts, scalar conversions, block layouts. */
#ifndef MLSI_DTYPE_H
#define MLSI_DTYPE_H

#include "core/status.h"

#include <stdbool.h>
#include <string.h>

typedef enum mlsi_class {
    MLSI_CLASS_FLOAT = 1,
    MLSI_CLASS_INT,
    MLSI_CLASS_BOOL,
    MLSI_CLASS_BLOCK
} mlsi_class;

typedef struct mlsi_dtype_info {
    const char *name; /* text form, e.g. "f32", "q4_1" */
    mlsi_class class_;
    int32_t block_elems; /* 1 for plain dtypes */
    int32_t block_bytes;
    bool is_signed; /* integers and floats */
} mlsi_dtype_info;

/* NULL for an unknown code. */
const mlsi_dtype_info *mlsi_dtype_get(mlsys_dtype dtype);
/* 0 for an unknown name. */
mlsys_dtype mlsi_dtype_by_name(const char *name);
/* Known codes in ascending order; *n receives their count. */
const mlsys_dtype *mlsi_dtype_all(int *n);

static inline bool mlsi_dtype_is_float(mlsys_dtype t) {
    return t >= MLSYS_F64 && t <= MLSYS_F8E5M2;
}
static inline bool mlsi_dtype_is_int(mlsys_dtype t) {
    return (t >= MLSYS_I64 && t <= MLSYS_I8) || t == MLSYS_U8;
}
static inline bool mlsi_dtype_is_block(mlsys_dtype t) { return t >= MLSYS_Q4_0; }
/* Bytes of one element of a plain dtype. */
static inline int mlsi_dtype_size(mlsys_dtype t) { return mlsi_dtype_get(t)->block_bytes; }

/* Alignment that memory of the dtype must have: the element's size, 2 for blocks (f16 scales; a
 * q6_k block has one too). */
static inline int mlsi_dtype_align(mlsys_dtype t) {
    return mlsi_dtype_is_block(t) ? 2 : mlsi_dtype_size(t);
}

static inline float mlsi_bits_f32(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static inline uint32_t mlsi_f32_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

/* Exact widening; narrowing rounds to nearest even, NaN stays NaN (quiet, sign kept).
 * Overflow: f16, bf16, f8e5m2 to infinity; f8e4m3 (no infinity) saturates to +-448, and infinities
 * become NaN: OCP's non-saturating conversion would lose finite inputs, so saturation is for finite. */
float mlsi_f16_to_f32(uint16_t h);
float mlsi_bf16_to_f32(uint16_t h);
float mlsi_f8e4m3_to_f32(uint8_t h);
float mlsi_f8e5m2_to_f32(uint8_t h);
uint16_t mlsi_f32_to_f16(float f);
uint16_t mlsi_f32_to_bf16(float f);
uint8_t mlsi_f32_to_f8e4m3(float f);
uint8_t mlsi_f32_to_f8e5m2(float f);
/* One rounding from f64 (not through f32). */
uint16_t mlsi_f64_to_f16(double f);
uint16_t mlsi_f64_to_bf16(double f);
uint8_t mlsi_f64_to_f8e4m3(double f);
uint8_t mlsi_f64_to_f8e5m2(double f);

/* Float to integer: truncates toward zero, saturates, NaN gives 0. */
int64_t mlsi_f64_to_int(double f, mlsys_dtype to);
/* Wrap a 64-bit integer to the width of an integer dtype. */
int64_t mlsi_int_wrap(int64_t v, mlsys_dtype to);

/* GGUF blocks. d, m are f16 bits. Element order: as GGUF writes it. */
typedef struct mlsi_q4_0 {
    uint16_t d;
    uint8_t q[16];
} mlsi_q4_0;
typedef struct mlsi_q4_1 {
    uint16_t d, m;
    uint8_t q[16];
} mlsi_q4_1;
typedef struct mlsi_q5_0 {
    uint16_t d;
    uint8_t h[4];
    uint8_t q[16];
} mlsi_q5_0;
typedef struct mlsi_q5_1 {
    uint16_t d, m;
    uint8_t h[4];
    uint8_t q[16];
} mlsi_q5_1;
typedef struct mlsi_q8_0 {
    uint16_t d;
    int8_t q[32];
} mlsi_q8_0;
typedef struct mlsi_q4_k {
    uint16_t d, dmin;
    uint8_t scales[12];
    uint8_t q[128];
} mlsi_q4_k;
typedef struct mlsi_q5_k {
    uint16_t d, dmin;
    uint8_t scales[12];
    uint8_t h[32];
    uint8_t q[128];
} mlsi_q5_k;
typedef struct mlsi_q6_k {
    uint8_t ql[128];
    uint8_t qh[64];
    int8_t scales[16];
    uint16_t d;
} mlsi_q6_k;

#endif
