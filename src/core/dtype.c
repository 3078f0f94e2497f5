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

typedef struct small_float {
    int exp_bits, man_bits;
    bool has_inf; /* all-ones exponent means inf/NaN; else only the all-ones pattern is NaN */
} small_float;

static const small_float F16 = {5, 10, true}, BF16 = {8, 7, true}, E4M3 = {4, 3, false},
                         E5M2 = {5, 2, true};

static double small_to_f64(uint32_t bits, small_float f) {
    uint32_t man = bits & ((1u << f.man_bits) - 1), exp_max = (1u << f.exp_bits) - 1;
    uint32_t exp = (bits >> f.man_bits) & exp_max;
    double sign = bits >> (f.exp_bits + f.man_bits) ? -1.0 : 1.0;
    int bias = (1 << (f.exp_bits - 1)) - 1;
    if (f.has_inf ? exp == exp_max : (exp == exp_max && man == (1u << f.man_bits) - 1))
        return f.has_inf && !man ? sign * INFINITY : copysign(NAN, sign);
    if (exp == 0) return sign * ldexp((double)man, 1 - bias - f.man_bits);
    return sign * ldexp((double)(man | 1u << f.man_bits), (int)exp - bias - f.man_bits);
}

/* Round to nearest even in integer arithmetic on the f64's bits: independent of rounding mode. */
static uint32_t small_from_f64(double x, small_float f) {
    uint64_t u;
    memcpy(&u, &x, 8);
    uint32_t sign = (uint32_t)(u >> 63) << (f.exp_bits + f.man_bits);
    uint64_t mag = u & ~((uint64_t)1 << 63), man = mag & (((uint64_t)1 << 52) - 1);
    int exp = (int)(mag >> 52), bias = (1 << (f.exp_bits - 1)) - 1;
    uint32_t exp_max = (1u << f.exp_bits) - 1,
             all = (exp_max << f.man_bits) | ((1u << f.man_bits) - 1);
    uint32_t inf = f.has_inf ? exp_max << f.man_bits : all;
    uint32_t nan = f.has_inf ? inf | 1u << (f.man_bits - 1) : all;
    uint32_t largest = f.has_inf ? inf - 1 : all - 1;
    if (exp == 2047) return sign | (man ? nan : inf);
    if (exp == 0) return sign; /* f64 subnormals lie below half of every smallest subnormal */
    int e = exp - 1023 + bias;
    uint64_t full = man | (uint64_t)1 << 52;
    int drop = 52 - f.man_bits + (e < 1 ? 1 - e : 0);
    if (drop > 62) return sign;
    uint64_t kept = full >> drop, rest = full & (((uint64_t)1 << drop) - 1),
             half = (uint64_t)1 << (drop - 1);
    bool odd = (kept & 1) || mlsi_fault(MLSI_FAULT_DTYPE_TIES_UP);
    if (rest > half || (rest == half && odd)) kept++;
    /* Adding instead of or-ing lets a mantissa carry run into the exponent. */
    uint64_t r = e < 1 ? kept : (((uint64_t)(e - 1)) << f.man_bits) + kept;
    if (e >= 1 && r > largest) r = f.has_inf ? inf : largest;
    return sign | (uint32_t)r;
}

float mlsi_bf16_to_f32(uint16_t h) { return mlsi_bits_f32((uint32_t)h << 16); }

float mlsi_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = (h >> 10) & 31, man = h & 1023;
    if (exp == 31) return mlsi_bits_f32(sign | 0x7f800000u | man << 13 | (man ? 1u << 22 : 0));
    if (exp) return mlsi_bits_f32(sign | (exp + 112) << 23 | man << 13);
    return mlsi_bits_f32(sign | mlsi_f32_bits((float)man * 0x1p-24f));
}

float mlsi_f8e4m3_to_f32(uint8_t h) { return (float)small_to_f64(h, E4M3); }
float mlsi_f8e5m2_to_f32(uint8_t h) { return (float)small_to_f64(h, E5M2); }

uint16_t mlsi_f64_to_f16(double f) { return (uint16_t)small_from_f64(f, F16); }
uint16_t mlsi_f64_to_bf16(double f) { return (uint16_t)small_from_f64(f, BF16); }
uint8_t mlsi_f64_to_f8e4m3(double f) { return (uint8_t)small_from_f64(f, E4M3); }
uint8_t mlsi_f64_to_f8e5m2(double f) { return (uint8_t)small_from_f64(f, E5M2); }

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
