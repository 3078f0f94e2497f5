/* Elementwise ops on one scalar, as docs/numerics.md states them: what CPU kernels and generated code both compute. Text of this
 * file goes into generated code. */
#ifndef MLSI_SCALAR_OPS_H
#define MLSI_SCALAR_OPS_H

#include "core/text_fn.h"

#include <stdint.h>

#define SCALAR_OP MLSI_TEXT_FN

/* ---- integers wrap: computed modulo 2^64, and the store keeps the low bits of the dtype ---------------------- */

SCALAR_OP int64_t wrap_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
SCALAR_OP int64_t wrap_sub(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
SCALAR_OP int64_t wrap_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
SCALAR_OP int64_t int_abs(int64_t a) { return a < 0 ? wrap_sub(0, a) : a; }
SCALAR_OP int64_t int_sign(int64_t a) { return (a > 0) - (a < 0); }
SCALAR_OP int64_t int_max(int64_t a, int64_t b) { return a > b ? a : b; }
SCALAR_OP int64_t int_min(int64_t a, int64_t b) { return a < b ? a : b; }
/* x / 0 = 0 and MIN / -1 = MIN (by wrapping). */
SCALAR_OP int64_t int_div(int64_t a, int64_t b) {
    if (b == 0) return 0;
    return b == -1 ? wrap_sub(0, a) : a / b;
}
SCALAR_OP int64_t int_rem(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
SCALAR_OP int64_t int_mod(int64_t a, int64_t b) {
    int64_t r = int_rem(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
SCALAR_OP int64_t int_pow(int64_t a, int64_t b) {
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    int64_t r = 1;
    for (; b; b >>= 1, a = wrap_mul(a, a))
        if (b & 1) r = wrap_mul(r, a);
    return r;
}
/* A count outside [0, width) shifts everything out. */
SCALAR_OP int64_t shift_left(int64_t a, int64_t count, int64_t width) {
    return count < 0 || count >= width ? 0 : (int64_t)((uint64_t)a << count);
}
SCALAR_OP int64_t shift_right(int64_t a, int64_t count, int64_t width) {
    return count < 0 || count >= width ? (a < 0 ? -1 : 0) : a >> count;
}

/* ---- floats --------------------------------------------------------------------------------------------------- */

/* fmod is exact. The quotient of mod is rounded down, so its result has the divisor's sign, also as a zero. */
SCALAR_OP double float_mod64(double a, double b) {
    double r = __builtin_fmod(a, b);
    if (r == 0) return __builtin_copysign(r, b);
    return (r < 0) != (b < 0) ? r + b : r;
}
SCALAR_OP float float_mod32(float a, float b) {
    float r = __builtin_fmodf(a, b);
    if (r == 0) return __builtin_copysignf(r, b);
    return (r < 0) != (b < 0) ? r + b : r;
}
SCALAR_OP double max64(double a, double b) {
    if (a != a || b != b) return a + b;
    return a > b || (a == b && !__builtin_signbit(a)) ? a : b;
}
SCALAR_OP double min64(double a, double b) {
    if (a != a || b != b) return a + b;
    return a < b || (a == b && __builtin_signbit(a)) ? a : b;
}
SCALAR_OP double sign64(double a) { return a == 0 || a != a ? a : __builtin_copysign(1.0, a); }

#endif
