/* References for f64: libm in long double, and MPFR through dlopen, so that nothing has to be
 * linked. */
#include "support/elementary_reference.h"

#include <dlfcn.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/elementary.h"

#if defined(__has_include)
#if __has_include(<mpfr.h>)
#define HAVE_MPFR_HEADER 1
#include <mpfr.h>
#endif
#endif

double ulp_error_f64(double got, long double exact) {
    int e;
    if (isnan(exact) || isnan(got)) return isnan(exact) && isnan(got) ? 0.0 : HUGE_VAL;
    if (got == 0 && exact == 0) return !signbit(got) == !signbit(exact) ? 0.0 : HUGE_VAL;
    if (isinf(exact)) return (long double)got == exact ? 0.0 : HUGE_VAL;
    long double g = got;
    if (isinf(got)) {
        if (fabsl(exact) >= 0x1p1024L && (got > 0) == (exact > 0)) return 0.0;
        g = copysignl(0x1p1024L, g);
    }
    frexpl(exact, &e);
    e = exact == 0 ? -1074 : e - 53;
    e = e < -1074 ? -1074 : e > 971 ? 971 : e;
    return (double)ldexpl(fabsl(g - exact), -e);
}

static long double rsqrtl(long double x) {
    return x == 0 ? copysignl(HUGE_VALL, x) : 1.0L / sqrtl(x);
}
static long double sigmoidl(long double x) { return 1.0L / (1.0L + expl(-x)); }
static long double softplusl(long double x) {
    return (x > 0 || isnan(x) ? x : 0.0L) + log1pl(expl(-fabsl(x)));
}

int reference_long_works(void) { return LDBL_MANT_DIG >= 64; }

long double reference_long(int row, double x, double y) {
#define LONG_1(name, u32, u64) name##l,
    static long double (*const unary[])(long double) = {MLSI_ELEMENTARY_UNARY(LONG_1)};
    static long double (*const binary[])(long double,
                                         long double) = {MLSI_ELEMENTARY_BINARY(LONG_1)};
    const int n = (int)(sizeof unary / sizeof unary[0]);
    return row < n ? unary[row](x) : binary[row - n](x, y);
}

int reference_out_of_contract(int row, double x) {
    return strcmp(mlsi_elementary_table[row].name, "sigmoid") == 0 && x < -709.78;
}

#ifdef HAVE_MPFR_HEADER
typedef int (*mpfr_unary)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);
typedef int (*mpfr_binary)(mpfr_ptr, mpfr_srcptr, mpfr_srcptr, mpfr_rnd_t);

static struct {
    void (*init2)(mpfr_ptr, mpfr_prec_t);
    void (*clear)(mpfr_ptr);
    int (*set_d)(mpfr_ptr, double, mpfr_rnd_t);
    long double (*get_ld)(mpfr_srcptr, mpfr_rnd_t);
    mpfr_unary exp, log1p, neg;
    int (*add_ui)(mpfr_ptr, mpfr_srcptr, unsigned long, mpfr_rnd_t);
    int (*ui_div)(mpfr_ptr, unsigned long, mpfr_srcptr, mpfr_rnd_t);
} m;

static int sigmoid_mpfr(mpfr_ptr r, mpfr_srcptr x, mpfr_rnd_t mode) {
    m.neg(r, x, mode);
    m.exp(r, r, mode);
    m.add_ui(r, r, 1, mode);
    return m.ui_div(r, 1, r, mode);
}

static int softplus_mpfr(mpfr_ptr r, mpfr_srcptr x, mpfr_rnd_t mode) {
    m.exp(r, x, mode);
    return m.log1p(r, r, mode);
}

/* The functions named by the table; the library's names differ for one. */
static mpfr_unary unary[64];
static mpfr_binary binary[8];

static void *symbol(void *lib, const char *name) {
    char full[64] = "mpfr_";
    strncat(full, !strcmp(name, "rsqrt") ? "rec_sqrt" : name, sizeof full - 6);
    return dlsym(lib, full);
}

int reference_mpfr_open(void) {
    void *lib = dlopen("libmpfr.so.6", RTLD_NOW | RTLD_LOCAL);
    if (!lib) return 0;
    int found = 1, n = 0;
    const struct {
        const char *name;
        void *slot;
    } plain[] = {{"init2", &m.init2},   {"clear", &m.clear},   {"set_d", &m.set_d},
                 {"get_ld", &m.get_ld}, {"exp", &m.exp},       {"log1p", &m.log1p},
                 {"neg", &m.neg},       {"add_ui", &m.add_ui}, {"ui_div", &m.ui_div}};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        void *f = symbol(lib, plain[i].name);
        found &= f != NULL;
        memcpy(plain[i].slot, &f, sizeof f);
    }
    for (int row = 0; row < mlsi_elementary_count; row++) {
        const mlsi_elementary_row *t = &mlsi_elementary_table[row];
        void *f = symbol(lib, t->name);
        if (t->f64_2) {
            memcpy(&binary[row - n], &f, sizeof f);
        } else {
            memcpy(&unary[n], &f, sizeof f);
            if (!strcmp(t->name, "sigmoid")) unary[n] = sigmoid_mpfr;
            if (!strcmp(t->name, "softplus")) unary[n] = softplus_mpfr;
            found &= unary[n++] != NULL;
        }
    }
    return found;
}

long double reference_mpfr(int row, double x, double y) {
    const mlsi_elementary_row *t = &mlsi_elementary_table[row];
    if (!strcmp(t->name, "rsqrt") && x == 0) return copysign(HUGE_VAL, x);
    if (!strcmp(t->name, "softplus") && x > 1000.0) return x;
    mpfr_t a, b, r;
    m.init2(a, 53);
    m.init2(b, 53);
    m.init2(r, 200);
    m.set_d(a, x, MPFR_RNDN);
    m.set_d(b, y, MPFR_RNDN);
    if (t->f64_2) {
        int first = row;
        while (mlsi_elementary_table[first - 1].f64_2)
            first--;
        binary[row - first](r, a, b, MPFR_RNDN);
    } else {
        unary[row](r, a, MPFR_RNDN);
    }
    long double v = m.get_ld(r, MPFR_RNDN);
    m.clear(a);
    m.clear(b);
    m.clear(r);
    return v;
}
#else
int reference_mpfr_open(void) { return 0; }
long double reference_mpfr(int row, double x, double y) {
    (void)row;
    return x + y;
}
#endif

static double any_bits(uint64_t u) {
    double d;
    memcpy(&d, &u, sizeof d);
    return d;
}

/* in [-1, 1) */
static double uniform(uint64_t u) { return (double)(int64_t)u * 0x1p-63; }

static double argument(uint64_t (*next)(void *), void *state) {
    uint64_t h = next(state);
    double u = uniform(next(state));
    switch (h & 3) {
    case 0: return any_bits(next(state));
    case 1: return ldexp(u, (int)(h >> 8 & 31) - 16);
    case 2: return 2.0 * u;
    default: return u * (h & 16 ? 40.0 : 760.0);
    }
}

void elementary_f64_arguments(int row, uint64_t (*next)(void *), void *state, double *x,
                              double *y) {
    const mlsi_elementary_row *t = &mlsi_elementary_table[row];
    *x = argument(next, state);
    *y = 0.0;
    if (!t->f64_2) return;
    uint64_t h = next(state);
    double u = uniform(next(state)), v = uniform(next(state));
    if ((h & 15) == 0) {
        *x = any_bits(next(state));
        *y = any_bits(next(state));
    } else if (!strcmp(t->name, "pow")) {
        u = u * u * u * (h & 32 ? 1000.0 : 1.0); /* x = 2^u, |y u| < 1080 */
        *x = exp2(u);
        *y = v * 1080.0 / u;
        if (!(fabs(*y) < 1e300)) *y = 1.0;
        if ((h & 0xf00) == 0) {
            *x = -*x;
            *y = rint(*y);
        }
    } else {
        *y = *x * v * ldexp(1.0, (int)(h >> 8 & 63) - 32);
    }
}
