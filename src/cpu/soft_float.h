/* What the vocabulary of generated code asks of libm and libc, from IEEE + - * and integers alone: for machines that have neither
 * (ir/codegen, exported programs). The same bits as the C library's functions; NaNs are any NaN. Text of this file goes into
 * exported programs. */
#ifndef MLSI_SOFT_FLOAT_H
#define MLSI_SOFT_FLOAT_H

#include <stddef.h>
#include <stdint.h>

#define SOFT_FN static inline __attribute__((unused))

#ifndef SOFT_FAULT
#define SOFT_FAULT 0 /* planted faults of tests: 1 no sticky bit, 2 a root is cut off */
#endif

/* ---- bits -------------------------------------------------------------------------------------------------- */

/* Bytes one by one; the empty statement keeps compilers from making a call of memcpy or memset of the loop. */
SOFT_FN void *soft_copy(void *to, const void *from, size_t n) {
    unsigned char *t = (unsigned char *)to;
    const unsigned char *f = (const unsigned char *)from;
    for (size_t i = 0; i < n; i++) {
        t[i] = f[i];
        __asm__ volatile("" : : : "memory");
    }
    return to;
}
SOFT_FN void *soft_fill(void *to, int byte, size_t n) {
    unsigned char *t = (unsigned char *)to;
    for (size_t i = 0; i < n; i++) {
        t[i] = (unsigned char)byte;
        __asm__ volatile("" : : : "memory");
    }
    return to;
}
SOFT_FN uint64_t soft_bits(double x) {
    union {
        double f;
        uint64_t u;
    } b;
    b.f = x;
    return b.u;
}
SOFT_FN double soft_of_bits(uint64_t u) {
    union {
        double f;
        uint64_t u;
    } b;
    b.u = u;
    return b.f;
}
SOFT_FN int soft_is_finite(double x) { return (soft_bits(x) >> 52 & 2047) != 2047; }

/* A finite number that is not 0: (-1)^negative * man * 2^exp, man in [2^52, 2^53). */
typedef struct soft_number {
    uint64_t man;
    int exp, negative;
} soft_number;

SOFT_FN soft_number soft_take(double x) {
    soft_number r;
    uint64_t u = soft_bits(x);
    r.negative = (int)(u >> 63);
    r.exp = (int)(u >> 52 & 2047);
    r.man = u & ((UINT64_C(1) << 52) - 1);
    if (r.exp)
        r.man |= UINT64_C(1) << 52;
    else
        r.exp = 1;
    for (; r.man >> 52 == 0; r.exp--) /* subnormal */
        r.man <<= 1;
    r.exp -= 1075;
    return r;
}

/* ---- a * b + c, rounded once ---------------------------------------------------------------------------------- */

typedef struct soft_wide {
    uint64_t hi, lo;
} soft_wide;

SOFT_FN soft_wide soft_product(uint64_t a, uint64_t b) {
    uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
    uint64_t low = al * bl, m1 = ah * bl, m2 = al * bh;
    uint64_t mid = (low >> 32) + (uint32_t)m1 + (uint32_t)m2;
    soft_wide r;
    r.lo = mid << 32 | (uint32_t)low;
    r.hi = ah * bh + (m1 >> 32) + (m2 >> 32) + (mid >> 32);
    return r;
}
SOFT_FN soft_wide soft_left(soft_wide x, int n) { /* 0 <= n < 128 */
    soft_wide r = x;
    if (n >= 64) r.hi = r.lo << (n - 64), r.lo = 0;
    if (n > 0 && n < 64) r.hi = x.hi << n | x.lo >> (64 - n), r.lo = x.lo << n;
    return r;
}
/* The lowest bit of the result also stands for all bits that are shifted out: what is rounded once more later must know
 * that something was there. */
SOFT_FN soft_wide soft_right(soft_wide x, int n) {
    soft_wide r = {0, 0};
    if (n >= 128) {
        r.lo = (x.hi | x.lo) != 0;
        return r;
    }
    if (n <= 0) return x;
    soft_wide lost = soft_left(x, 128 - n);
    if (n >= 64) {
        r.lo = x.hi >> (n - 64);
    } else {
        r.hi = x.hi >> n;
        r.lo = x.lo >> n | x.hi << (64 - n);
    }
    if (SOFT_FAULT != 1) r.lo |= (lost.hi | lost.lo) != 0;
    return r;
}

/* (-1)^negative * m * 2^exp, m > 0, to the nearest f64, ties to even; subnormal results and overflow too. */
SOFT_FN double soft_round(soft_wide m, int exp, int negative) {
    uint64_t sign = (uint64_t)(negative != 0) << 63;
    if (!m.hi) m = soft_left(m, 64), exp -= 64; /* to the top: m in [2^127, 2^128) */
    for (int n = 32; n; n /= 2)
        if (m.hi >> (64 - n) == 0) m = soft_left(m, n), exp -= n;
    int e = exp + 127 + 1023; /* biased; below 1 the result is subnormal */
    if (e > 2046) return soft_of_bits(sign | UINT64_C(2047) << 52);
    uint64_t q =
        soft_right(m, 73 + (e < 1 ? 1 - e : 0)).lo; /* the result, a half, and what is less */
    uint64_t kept = q >> 2, rest = q & 3;
    if (rest > 2 || (rest == 2 && (kept & 1))) kept++;
    /* Adding lets a carry run into the exponent, at its end to infinity. */
    return soft_of_bits(sign | (e < 1 ? kept : ((uint64_t)(e - 1) << 52) + kept));
}

SOFT_FN double soft_fma(double a, double b, double c) {
    if (!soft_is_finite(a) || !soft_is_finite(b) || a == 0 || b == 0) return a * b + c;
    if (!soft_is_finite(c)) return c;
    if (c == 0) return a * b; /* not + c: a product below all subnormals keeps its sign */
    soft_number x = soft_take(a), y = soft_take(b), z = soft_take(c);
    /* Both with 2 bits to spare on top. What a shift loses lies below 2^21, and then nothing is cancelled above it. */
    soft_wide p = soft_left(soft_product(x.man, y.man), 20),
              s = soft_left(soft_product(z.man, 1), 73);
    int ep = x.exp + y.exp - 20, es = z.exp - 73, negative = x.negative != y.negative;
    int e = ep > es ? ep : es;
    p = soft_right(p, e - ep);
    s = soft_right(s, e - es);
    if (negative == z.negative) {
        p.lo += s.lo;
        p.hi += s.hi + (p.lo < s.lo);
        return soft_round(p, e, negative);
    }
    if (p.hi < s.hi || (p.hi == s.hi && p.lo < s.lo)) {
        soft_wide t = p;
        p = s, s = t;
        negative = z.negative;
    }
    p.hi -= s.hi + (p.lo < s.lo);
    p.lo -= s.lo;
    return p.hi | p.lo ? soft_round(p, e, negative) : 0.0;
}

/* In f64 the product is exact. The sum is rounded to odd: to the neighbour whose last bit is 1, unless it is exact. Rounding that to
 * f32, which has 29 bits fewer, is rounding the exact sum. */
SOFT_FN float soft_fmaf(float a, float b, float c) {
    double p = (double)a * (double)b, x = (double)c, s = p + x;
    if (!soft_is_finite(s)) return (float)s;
    double of_x = s - p, error = (p - (s - of_x)) + (x - of_x);
    uint64_t u = soft_bits(s);
    if (error != 0 && !(u & 1) && SOFT_FAULT != 1)
        s = soft_of_bits((error > 0) == (s > 0) ? u + 1 : u - 1);
    return (float)s;
}

/* ---- roots, remainders ------------------------------------------------------------------------------------------ */

SOFT_FN double soft_sqrt(double a) {
    if (a == 0 || a != a || !soft_is_finite(a)) return a < 0 ? a - a : a;
    if (a < 0) return (a - a) / (a - a);
    soft_number x = soft_take(a);
    if (x.exp & 1) x.man <<= 1, x.exp--;
    uint64_t root = 0, rest = 0; /* of man * 2^54, two bits at a time: 54 bits */
    for (int i = 26; i >= -27; i--) {
        rest = rest << 2 | (i < 0 ? 0 : x.man >> (2 * i) & 3);
        uint64_t next = root << 2 | 1;
        root <<= 1;
        if (rest >= next) rest -= next, root |= 1;
    }
    uint64_t kept = root >> 1;
    if ((root & 1) && (rest || (kept & 1)) && SOFT_FAULT != 2) kept++;
    /* kept * 2^(exp / 2 - 26), kept in [2^52, 2^53] */
    return soft_of_bits(((uint64_t)(x.exp / 2 - 26 + 1074) << 52) + kept);
}
/* Twice rounded is once rounded: 53 >= 2 * 24 + 2. */
SOFT_FN float soft_sqrtf(float a) { return (float)soft_sqrt((double)a); }

/* The remainder of the quotient that is rounded towards 0; exact. */
SOFT_FN double soft_fmod(double a, double b) {
    if (a != a || b != b || !soft_is_finite(a) || b == 0) return (a * b) / (a * b);
    double mag = a < 0 ? -a : a, by = b < 0 ? -b : b;
    if (mag < by) return a; /* also where b is infinite, or a is 0 */
    soft_number x = soft_take(a), y = soft_take(b);
    for (; x.exp > y.exp; x.exp--) {
        if (x.man >= y.man) x.man -= y.man;
        x.man <<= 1;
    }
    if (x.man >= y.man) x.man -= y.man;
    /* man * 2^exp is an f64, and so are both products. */
    double low = soft_of_bits((uint64_t)(y.exp < -900 ? 1023 - 200 : 1023) << 52);
    double r = (double)x.man *
               soft_of_bits((uint64_t)((y.exp < -900 ? y.exp + 200 : y.exp) + 1023) << 52) * low;
    return soft_bits(a) >> 63 ? -r : r;
}
SOFT_FN float soft_fmodf(float a, float b) { return (float)soft_fmod((double)a, (double)b); }

/* ---- integral values of f64 ----------------------------------------------------------------------------------------- */

SOFT_FN double soft_with_sign(double mag, double sign) {
    return soft_of_bits((soft_bits(mag) & ~(UINT64_C(1) << 63)) |
                        (soft_bits(sign) & UINT64_C(1) << 63));
}
/* Adding and taking away 2^52 rounds |a| < 2^52 to an integer; larger values are integers. */
SOFT_FN double soft_rint(double a) {
    double mag = a < 0 ? -a : a;
    return mag < 0x1p52 ? soft_with_sign((mag + 0x1p52) - 0x1p52, a) : a;
}
SOFT_FN double soft_floor(double a) {
    double r = soft_rint(a);
    return r > a ? soft_with_sign(r - 1, a) : r;
}
SOFT_FN double soft_ceil(double a) { return -soft_floor(-a); }
SOFT_FN double soft_trunc(double a) { return soft_with_sign(soft_floor(a < 0 ? -a : a), a); }

#endif
