/* The vector vocabulary: every operation gives the stated bits in every instance, and memory past
 * the stated count is neither read nor written. */
#include "support/elementary_instance.h"
#include "support/random.h"
#include "support/skip.h"

#include <check.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { N = 4096 };
static uint64_t seed;

static float f32(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t bits(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* A NaN stands for all: payloads are not part of the contract. */
static uint32_t canonical(uint32_t u) { return (u & 0x7fffffff) > 0x7f800000 ? 0x7fc00000 : u; }

static const uint32_t corner[] = {0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff,
                                  0x00800000, 0x3effffff, 0x3f000000, 0xbf000000, 0x3f800000,
                                  0xbf800000, 0x3fc00000, 0x40200000, 0xc0200000, 0x4affffff,
                                  0x4b000000, 0xcb000001, 0x4f000000, 0xcf000000, 0x7f7fffff,
                                  0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000};
enum { CORNERS = sizeof corner / sizeof corner[0] };

/* ---- what each operation means, in scalar C
 * ------------------------------------------------------ */

static float meaning_of_minimum(float a, float b) {
    if (isnan(a) || isnan(b)) return NAN;
    if (a == b) return signbit(a) ? a : b;
    return a < b ? a : b;
}

static uint32_t meaning_f(int op, float a, float b, float c) {
    switch (op) {
    case VOCABULARY_F_neg: return bits(a) ^ 0x80000000;
    case VOCABULARY_F_abs: return bits(a) & 0x7fffffff;
    case VOCABULARY_F_sqrt: return bits(sqrtf(a));
    case VOCABULARY_F_rint: return bits(rintf(a));
    case VOCABULARY_F_floor: return bits(floorf(a));
    case VOCABULARY_F_ceil: return bits(ceilf(a));
    case VOCABULARY_F_trunc: return bits(truncf(a));
    case VOCABULARY_F_add: return bits(a + b);
    case VOCABULARY_F_sub: return bits(a - b);
    case VOCABULARY_F_mul: return bits(a * b);
    case VOCABULARY_F_div: return bits(a / b);
    case VOCABULARY_F_copysign: return bits(copysignf(a, b));
    case VOCABULARY_F_min_sel: return bits(a < b ? a : b);
    case VOCABULARY_F_max_sel: return bits(a > b ? a : b);
    case VOCABULARY_F_minimum: return bits(meaning_of_minimum(a, b));
    case VOCABULARY_F_maximum: return bits(-meaning_of_minimum(-a, -b));
    case VOCABULARY_F_fma: return bits(fmaf(a, b, c));
    case VOCABULARY_F_fms: return bits(fmaf(a, b, -c));
    case VOCABULARY_F_fnma: return bits(fmaf(-a, b, c));
    case VOCABULARY_M_lt: return a < b;
    case VOCABULARY_M_le: return a <= b;
    case VOCABULARY_M_gt: return a > b;
    case VOCABULARY_M_ge: return a >= b;
    case VOCABULARY_M_eq: return a == b;
    case VOCABULARY_M_ne: return a != b;
    case VOCABULARY_F_isnan: return isnan(a) != 0;
    case VOCABULARY_F_cvt_i: return fabsf(a) < 0x1p31f ? (uint32_t)(int32_t)rintf(a) : 0;
    case VOCABULARY_F_cvtt_i: return fabsf(a) < 0x1p31f ? (uint32_t)(int32_t)a : 0;
    default: return 0;
    }
}

static uint32_t meaning_i(int op, uint32_t a, uint32_t b) {
    int32_t sa = (int32_t)a, sb = (int32_t)b;
    switch (op) {
    case VOCABULARY_I_add: return a + b;
    case VOCABULARY_I_sub: return a - b;
    case VOCABULARY_I_mul: return a * b;
    case VOCABULARY_I_mulhi_u: return (uint32_t)((uint64_t)a * b >> 32);
    case VOCABULARY_I_and: return a & b;
    case VOCABULARY_I_or: return a | b;
    case VOCABULARY_I_xor: return a ^ b;
    case VOCABULARY_I_sllv: return b < 32 ? a << b : 0;
    case VOCABULARY_I_srlv: return b < 32 ? a >> b : 0;
    case VOCABULARY_I_min: return sa < sb ? a : b;
    case VOCABULARY_I_max: return sa > sb ? a : b;
    case VOCABULARY_I_sll: return a << 13;
    case VOCABULARY_I_srl: return a >> 13;
    case VOCABULARY_I_sra: return (uint32_t)((int64_t)sa >> 13);
    case VOCABULARY_I_eq: return a == b;
    case VOCABULARY_I_gt: return sa > sb;
    case VOCABULARY_I_lt: return sa < sb;
    case VOCABULARY_I_cvt_f: return bits((float)sa);
    default: return 0;
    }
}

static int is_integer_op(int op) {
    return (op >= VOCABULARY_I_add && op <= VOCABULARY_I_sra) || op == VOCABULARY_I_eq ||
           op == VOCABULARY_I_gt || op == VOCABULARY_I_lt || op == VOCABULARY_I_cvt_f;
}

/* Every pair of corners, then random bits; shift counts near 32 in a quarter of b. */
static void fill(test_random *r, uint32_t *a, uint32_t *b, uint32_t *c) {
    for (int i = 0; i < N; i++) {
        int pair = i < CORNERS * CORNERS;
        a[i] = pair ? corner[i / CORNERS] : (uint32_t)test_bits(r);
        b[i] = pair ? corner[i % CORNERS] : (uint32_t)test_bits(r);
        c[i] = pair ? corner[(i / 3) % CORNERS] : (uint32_t)test_bits(r);
        if (!pair && i % 4 == 0) b[i] = (uint32_t)test_int(r, 0, 40);
        if (!pair && i % 4 == 1) a[i] = bits((float)test_int(r, -100000, 100000) * 0x1p-3f);
        if (!pair && i % 8 == 2) c[i] = bits(-f32(a[i]) * f32(b[i]));
    }
}

static int64_t mismatches(const elementary_instance *e, int op, int broken) {
    static uint32_t a[N], b[N], c[N], out[N];
    test_random r = {seed};
    int64_t count = 0;
    fill(&r, a, b, c);
    memset(out, 0xa5, sizeof out);
    e->op(op, a, b, c, out, N);
    if (broken) out[9 * CORNERS + 11] ^= 1; /* a = 1, b = 1.5: never NaN */
    for (int i = 0; i < N; i++) {
        int converts = op == VOCABULARY_F_cvt_i || op == VOCABULARY_F_cvtt_i;
        if (converts && !(fabsf(f32(a[i])) < 0x1p31f)) continue;
        int integer = is_integer_op(op);
        uint32_t want =
            integer ? meaning_i(op, a[i], b[i]) : meaning_f(op, f32(a[i]), f32(b[i]), f32(c[i]));
        uint32_t got = integer ? out[i] : canonical(out[i]);
        count += got != (integer ? want : canonical(want));
    }
    return count;
}

static void all_operations(int instance) {
    const elementary_instance *e = elementary_instance_get(instance);
    if (!e->available) TEST_SKIP("vector vocabulary on %s: this CPU lacks it", e->isa);
    for (int op = 0; op < VOCABULARY_OP_COUNT; op++) {
        ck_assert_msg(mismatches(e, op, 0) == 0, "%s: operation %d", e->isa, op);
        ck_assert_msg(mismatches(e, op, 1) == 1, "%s: operation %d: a flipped bit passed", e->isa,
                      op);
    }
}
START_TEST(operations_portable) { all_operations(0); }
END_TEST
START_TEST(operations_avx2) { all_operations(1); }
END_TEST
START_TEST(operations_avx2_pairs) { all_operations(2); }
END_TEST
START_TEST(operations_avx512) { all_operations(3); }
END_TEST

/* ---- f16 and bf16, from their definitions -------------------------------------------------------
 */

static float half_value(uint16_t h) {
    int e = h >> 10 & 31, m = h & 1023;
    float v = e == 31 ? (m ? NAN : INFINITY) : ldexpf((float)(e ? m + 1024 : m), (e ? e : 1) - 25);
    return h & 0x8000 ? -v : v;
}

/* Nearest of a narrow format with p bits of precision, least exponent emin, largest value max. */
static double round_to(double x, int p, int emin, double max) {
    int e;
    frexp(x, &e);
    e = e - p < emin ? emin : e - p;
    double r = ldexp(rint(ldexp(x, -e)), e);
    return fabs(r) > max ? copysign(HUGE_VAL, x) : r;
}

START_TEST(narrow_formats_widen_exactly) {
    static uint16_t h[65536];
    static float f[65536], g[65536];
    for (int i = 0; i < 65536; i++)
        h[i] = (uint16_t)i;
    for (int k = 0; k < ELEMENTARY_INSTANCES; k++) {
        const elementary_instance *e = elementary_instance_get(k);
        if (!e->available) continue;
        e->from_f16(h, f, 65536);
        e->from_bf16(h, g, 65536);
        for (int i = 0; i < 65536; i++) {
            uint32_t want = canonical(bits(half_value((uint16_t)i)));
            ck_assert_msg(canonical(bits(f[i])) == want, "%s f16 %04x", e->isa, i);
            ck_assert_msg(canonical(bits(g[i])) == canonical((uint32_t)i << 16), "%s bf16 %04x",
                          e->isa, i);
        }
    }
}
END_TEST

static int is_nan16(uint16_t h, int exponent_mask) {
    return (h & exponent_mask) == exponent_mask && (h & (0x7fff & ~exponent_mask));
}

/* Every pattern that is near the middle of two halves, all exponents, and random ones. */
START_TEST(narrowing_rounds_to_nearest_even) {
    static float x[N];
    static uint16_t h[N], b[N];
    test_random r = {seed};
    for (int round = 0; round < 60; round++) {
        for (int i = 0; i < N; i++) {
            uint32_t u = (uint32_t)test_bits(&r);
            if (i & 1) u = (u & 0xfffff000) + (uint32_t)test_int(&r, -1, 1);
            if ((i & 6) == 2) u = (u & 0x807fffff) | (uint32_t)test_int(&r, 100, 145) << 23;
            if ((i & 6) == 4) u = (u & 0xffff8000) + (uint32_t)test_int(&r, -1, 1);
            x[i] = i < CORNERS ? f32(corner[i]) : f32(u);
        }
        for (int k = 0; k < ELEMENTARY_INSTANCES; k++) {
            const elementary_instance *e = elementary_instance_get(k);
            if (!e->available) continue;
            e->to_f16(x, h, N);
            e->to_bf16(x, b, N);
            for (int i = 0; i < N; i++) {
                double v = x[i];
                if (isnan(v)) {
                    ck_assert(is_nan16(h[i], 0x7c00) && (h[i] & 0x200));
                    ck_assert(is_nan16(b[i], 0x7f80) && (b[i] & 0x40));
                    continue;
                }
                float want = (float)round_to(v, 11, -24, 65504.0);
                ck_assert_msg(bits(half_value(h[i])) == bits(want), "%s f16(%a)", e->isa, v);
                want = (float)round_to(v, 8, -133, 0x1.fep127);
                ck_assert_msg((uint32_t)b[i] << 16 == bits(want), "%s bf16(%a)", e->isa, v);
            }
        }
    }
}
END_TEST

/* ---- memory
 * -------------------------------------------------------------------------------------- */

/* Two pages, the second without access: the end of the first, n bytes before it. */
static char *before_guard(char *pages, size_t n) { return pages + sysconf(_SC_PAGESIZE) - n; }

static char *guarded_pages(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(p != MAP_FAILED);
    ck_assert_int_eq(mprotect(p + page, page, PROT_NONE), 0);
    return p;
}

/* Partial loads and stores of every length end at a page that faults, and leave the byte after
 * alone (in an array that goes on). */
static void tails_stay_inside(const elementary_instance *e) {
    char *in = guarded_pages(), *in16 = guarded_pages(), *out = guarded_pages(),
         *out16 = guarded_pages();
    for (size_t n = 0; n <= 40; n++) {
        float *x = (float *)(void *)before_guard(in, n * 4);
        uint16_t *x16 = (uint16_t *)(void *)before_guard(in16, n * 2);
        float *y = (float *)(void *)before_guard(out, n * 4);
        uint16_t *y16 = (uint16_t *)(void *)before_guard(out16, n * 2);
        for (size_t i = 0; i < n; i++)
            x[i] = (float)i;
        e->map(0, x, x, y, n);
        e->to_f16(x, y16, n);
        e->to_bf16(x, y16, n);
        memset(x16, 0, n * 2);
        e->from_f16(x16, y, n);
        e->from_bf16(x16, y, n);
        e->op(VOCABULARY_I_add, (uint32_t *)x, (uint32_t *)x, (uint32_t *)x, (uint32_t *)y, n);
        float inner[64];
        uint16_t inner16[64];
        memset(inner, 0x77, sizeof inner);
        memset(inner16, 0x77, sizeof inner16);
        e->map(0, x, x, inner, n);
        e->to_f16(x, inner16, n);
        for (size_t i = n; i < 64; i++)
            ck_assert(bits(inner[i]) == 0x77777777 && inner16[i] == 0x7777);
    }
}

START_TEST(partial_access_stays_inside) {
    for (int k = 0; k < ELEMENTARY_INSTANCES; k++)
        if (elementary_instance_get(k)->available) tails_stay_inside(elementary_instance_get(k));
}
END_TEST

/* ---- reductions
 * ---------------------------------------------------------------------------------- */

START_TEST(reductions_fold_in_halves) {
    test_random r = {seed};
    for (int round = 0; round < 2000; round++) {
        float x[16], s[16], got[3], mx = -INFINITY, mn = INFINITY;
        for (int i = 0; i < 16; i++) {
            x[i] =
                (float)test_int(&r, -1000000, 1000000) * ldexpf(1.0f, (int)test_int(&r, -20, 20));
            if (round % 10 == 1 && i == round % 16) x[i] = NAN;
            if (round % 10 == 2) x[i] = i == round % 16 ? -0.0f : 0.0f;
            s[i] = x[i];
            mn = meaning_of_minimum(mn, x[i]);
            mx = -meaning_of_minimum(-mx, -x[i]);
        }
        for (int h = 8; h > 0; h /= 2)
            for (int i = 0; i < h; i++)
                s[i] += s[i + h];
        for (int k = 0; k < ELEMENTARY_INSTANCES; k++) {
            const elementary_instance *e = elementary_instance_get(k);
            if (!e->available) continue;
            e->reduce16(x, got);
            ck_assert_uint_eq(canonical(bits(got[0])), canonical(bits(s[0])));
            ck_assert_uint_eq(canonical(bits(got[1])), canonical(bits(mx)));
            ck_assert_uint_eq(canonical(bits(got[2])), canonical(bits(mn)));
        }
    }
}
END_TEST

int main(void) {
    seed = test_random_seed("simd", 20260102).state;
    Suite *s = suite_create("simd");
    TCase *t = tcase_create("simd");
    suite_add_tcase(s, t);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, operations_portable);
    tcase_add_test(t, operations_avx2);
    tcase_add_test(t, operations_avx2_pairs);
    tcase_add_test(t, operations_avx512);
    tcase_add_test(t, narrow_formats_widen_exactly);
    tcase_add_test(t, narrowing_rounds_to_nearest_even);
    tcase_add_test(t, partial_access_stays_inside);
    tcase_add_test(t, reductions_fold_in_halves);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
