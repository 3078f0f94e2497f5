#include "core/dtype.h"

#include "core/faults.h"

#include <math.h>
#include <stddef.h>

/* Indexed by code; a row without a name is no dtype. */
static const mlsi_dtype_info table[] = {
    [MLSYS_F64] = {"f64", MLSI_CLASS_FLOAT, 1, 8, true},
    [MLSYS_F32] = {"f32", MLSI_CLASS_FLOAT, 1, 4, true},
    [MLSYS_F16] = {"f16", MLSI_CLASS_FLOAT, 1, 2, true},
    [MLSYS_BF16] = {"bf16", MLSI_CLASS_FLOAT, 1, 2, true},
    [MLSYS_F8E4M3] = {"f8e4m3", MLSI_CLASS_FLOAT, 1, 1, true},
    [MLSYS_F8E5M2] = {"f8e5m2", MLSI_CLASS_FLOAT, 1, 1, true},
    [MLSYS_I64] = {"i64", MLSI_CLASS_INT, 1, 8, true},
    [MLSYS_I32] = {"i32", MLSI_CLASS_INT, 1, 4, true},
    [MLSYS_I16] = {"i16", MLSI_CLASS_INT, 1, 2, true},
    [MLSYS_I8] = {"i8", MLSI_CLASS_INT, 1, 1, true},
    [MLSYS_U8] = {"u8", MLSI_CLASS_INT, 1, 1, false},
    [MLSYS_BOOL] = {"bool", MLSI_CLASS_BOOL, 1, 1, false},
    [MLSYS_Q4_0] = {"q4_0", MLSI_CLASS_BLOCK, 32, sizeof(mlsi_q4_0), true},
    [MLSYS_Q4_1] = {"q4_1", MLSI_CLASS_BLOCK, 32, sizeof(mlsi_q4_1), true},
    [MLSYS_Q5_0] = {"q5_0", MLSI_CLASS_BLOCK, 32, sizeof(mlsi_q5_0), true},
    [MLSYS_Q5_1] = {"q5_1", MLSI_CLASS_BLOCK, 32, sizeof(mlsi_q5_1), true},
    [MLSYS_Q8_0] = {"q8_0", MLSI_CLASS_BLOCK, 32, sizeof(mlsi_q8_0), true},
    [MLSYS_Q4_K] = {"q4_k", MLSI_CLASS_BLOCK, 256, sizeof(mlsi_q4_k), true},
    [MLSYS_Q5_K] = {"q5_k", MLSI_CLASS_BLOCK, 256, sizeof(mlsi_q5_k), true},
    [MLSYS_Q6_K] = {"q6_k", MLSI_CLASS_BLOCK, 256, sizeof(mlsi_q6_k), true},
};
enum { CODES = (int)(sizeof table / sizeof table[0]) };

_Static_assert(sizeof(mlsi_q4_0) == 18 && sizeof(mlsi_q4_1) == 20 && sizeof(mlsi_q5_0) == 22 &&
                   sizeof(mlsi_q5_1) == 24 && sizeof(mlsi_q8_0) == 34 && sizeof(mlsi_q4_k) == 144 &&
                   sizeof(mlsi_q5_k) == 176 && sizeof(mlsi_q6_k) == 210,
               "block layouts are GGUF's");

const mlsi_dtype_info *mlsi_dtype_get(mlsys_dtype dtype) {
    return dtype > 0 && dtype < CODES && table[dtype].name ? &table[dtype] : NULL;
}

mlsys_dtype mlsi_dtype_by_name(const char *name) {
    for (int i = 0; i < CODES; i++)
        if (table[i].name && !strcmp(table[i].name, name)) return i;
    return 0;
}

const mlsys_dtype *mlsi_dtype_all(int *n) {
    static const mlsys_dtype codes[] = {
        MLSYS_F64,  MLSYS_F32,  MLSYS_F16,  MLSYS_BF16, MLSYS_F8E4M3, MLSYS_F8E5M2, MLSYS_I64,
        MLSYS_I32,  MLSYS_I16,  MLSYS_I8,   MLSYS_U8,   MLSYS_BOOL,   MLSYS_Q4_0,   MLSYS_Q4_1,
        MLSYS_Q5_0, MLSYS_Q5_1, MLSYS_Q8_0, MLSYS_Q4_K, MLSYS_Q5_K,   MLSYS_Q6_K};
    *n = (int)(sizeof codes / sizeof codes[0]);
    return codes;
}

/* ---- small floats: one routine for all formats ----------------------------------------------- */

#define SMALL_FLOAT_TIES_UP mlsi_fault(MLSI_FAULT_DTYPE_TIES_UP)
#include "core/small_float.h"

float mlsi_bf16_to_f32(uint16_t h) { return mlsi_bits_f32((uint32_t)h << 16); }

float mlsi_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = (h >> 10) & 31, man = h & 1023;
    if (exp == 31) return mlsi_bits_f32(sign | 0x7f800000u | man << 13 | (man ? 1u << 22 : 0));
    if (exp) return mlsi_bits_f32(sign | (exp + 112) << 23 | man << 13);
    return mlsi_bits_f32(sign | mlsi_f32_bits((float)man * 0x1p-24f));
}

float mlsi_f8e4m3_to_f32(uint8_t h) { return (float)small_to_f64(h, small_e4m3); }
float mlsi_f8e5m2_to_f32(uint8_t h) { return (float)small_to_f64(h, small_e5m2); }

uint16_t mlsi_f64_to_f16(double f) { return (uint16_t)small_from_f64(f, small_f16); }
uint16_t mlsi_f64_to_bf16(double f) { return (uint16_t)small_from_f64(f, small_bf16); }
uint8_t mlsi_f64_to_f8e4m3(double f) { return (uint8_t)small_from_f64(f, small_e4m3); }
uint8_t mlsi_f64_to_f8e5m2(double f) { return (uint8_t)small_from_f64(f, small_e5m2); }

/* f32 to f64 is exact, so these round once. */
uint16_t mlsi_f32_to_f16(float f) { return mlsi_f64_to_f16((double)f); }
uint8_t mlsi_f32_to_f8e4m3(float f) { return mlsi_f64_to_f8e4m3((double)f); }
uint8_t mlsi_f32_to_f8e5m2(float f) { return mlsi_f64_to_f8e5m2((double)f); }

uint16_t mlsi_f32_to_bf16(float f) {
    uint32_t u = mlsi_f32_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16 & 0x8000) | 0x7fc0);
    if (mlsi_fault(MLSI_FAULT_BF16_TRUNCATE)) return (uint16_t)(u >> 16);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

int64_t mlsi_int_wrap(int64_t v, mlsys_dtype to) {
    switch (to) {
    case MLSYS_I32: return (int32_t)(uint32_t)(uint64_t)v;
    case MLSYS_I16: return (int16_t)(uint16_t)(uint64_t)v;
    case MLSYS_I8: return (int8_t)(uint8_t)(uint64_t)v;
    case MLSYS_U8: return (uint8_t)(uint64_t)v;
    case MLSYS_BOOL: return v != 0;
    default: return v;
    }
}

int64_t mlsi_f64_to_int(double f, mlsys_dtype to) {
    if (isnan(f)) return to == MLSYS_BOOL ? 1 : 0;
    if (to == MLSYS_BOOL) return f != 0;
    double lo = -0x1p63, hi = 0x1p63;
    int64_t min = INT64_MIN, max = INT64_MAX;
    switch (to) {
    case MLSYS_I32: lo = min = INT32_MIN, hi = max = INT32_MAX; break;
    case MLSYS_I16: lo = min = INT16_MIN, hi = max = INT16_MAX; break;
    case MLSYS_I8: lo = min = INT8_MIN, hi = max = INT8_MAX; break;
    case MLSYS_U8: lo = min = 0, hi = max = UINT8_MAX; break;
    default: break;
    }
    if (mlsi_fault(MLSI_FAULT_INT_NO_SATURATION) && f >= hi) return min;
    if (f <= lo) return min;
    if (f >= hi) return max;
    return (int64_t)f;
}
