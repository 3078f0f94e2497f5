/* Floats of 8 and 16 bits from and to f64, in integer arithmetic: independent of the rounding mode and of the C library. Text
 * of this file goes into generated code. */
#ifndef MLSI_SMALL_FLOAT_H
#define MLSI_SMALL_FLOAT_H

#include "core/text_fn.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifndef SMALL_FLOAT_TIES_UP
#define SMALL_FLOAT_TIES_UP 0 /* a planted fault of tests */
#endif

typedef struct small_float {
    int exp_bits, man_bits;
    bool has_inf; /* all-ones exponent means inf/NaN; else only the all-ones pattern is NaN */
} small_float;

MLSI_TEXT_CONST small_float small_f16 = {5, 10, true}, small_bf16 = {8, 7, true},
                            small_e4m3 = {4, 3, false}, small_e5m2 = {5, 2, true};

/* 2^n, n in [-1022, 1023] */
MLSI_TEXT_FN double small_two_to(int n) {
    uint64_t u = (uint64_t)(int64_t)(n + 1023) << 52;
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

MLSI_TEXT_FN double small_to_f64(uint32_t bits, small_float f) {
    uint32_t man = bits & ((1u << f.man_bits) - 1), exp_max = (1u << f.exp_bits) - 1;
    uint32_t exp = (bits >> f.man_bits) & exp_max;
    double sign = bits >> (f.exp_bits + f.man_bits) ? -1.0 : 1.0;
    int bias = (1 << (f.exp_bits - 1)) - 1;
    if (f.has_inf ? exp == exp_max : (exp == exp_max && man == (1u << f.man_bits) - 1))
        return f.has_inf && !man ? sign * __builtin_inf()
                                 : __builtin_copysign(__builtin_nan(""), sign);
    if (exp == 0) return sign * (double)man * small_two_to(1 - bias - f.man_bits);
    return sign * (double)(man | 1u << f.man_bits) * small_two_to((int)exp - bias - f.man_bits);
}

/* Round to nearest even in integer arithmetic on the f64's bits: independent of rounding mode. */
MLSI_TEXT_FN uint32_t small_from_f64(double x, small_float f) {
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
    bool odd = (kept & 1) || SMALL_FLOAT_TIES_UP;
    if (rest > half || (rest == half && odd)) kept++;
    /* Adding instead of or-ing lets a mantissa carry run into the exponent. */
    uint64_t r = e < 1 ? kept : (((uint64_t)(e - 1)) << f.man_bits) + kept;
    if (e >= 1 && r > largest) r = f.has_inf ? inf : largest;
    return sign | (uint32_t)r;
}

#endif
