/* Accuracy of the f32 elementary functions over all arguments.
 *
 *     elementary_sweep [-s stride] [-i isa] [function ...]
 *
 * Runs every stride-th bit pattern (default 1: all 2^32 of a unary function) of the instance for
 * isa (default: the widest that runs here), compares with f64 libm, whose own error is below 2^-28
 * of an f32 ulp, and prints the largest error, where it is, and how many results are not correctly
 * rounded.  Binary functions get pairs from a counter-based hash, 2^32 / stride of them.  Exit 1 if
 * a published bound is exceeded. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/elementary.h"
#include "support/elementary_instance.h"
#include "support/elementary_reference.h"

enum { BLOCK = 4096 };

typedef struct sweep_result {
    double worst;
    float x, y, got;
    double exact;
    uint64_t count, not_rounded;
} sweep_result;

static uint64_t mix(uint64_t z) {
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static float from_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static void check_block(int row, const float *x, const float *y, const float *out, int n,
                        sweep_result *r) {
    for (int i = 0; i < n; i++) {
        double exact = reference_f64(row, x[i], y[i]);
        double err = ulp_error_f32(out[i], exact);
        r->count++;
        r->not_rounded += err > 0.5000001;
        if (err > r->worst) {
            r->worst = err;
            r->x = x[i];
            r->y = y[i];
            r->got = out[i];
            r->exact = exact;
        }
    }
}

static sweep_result sweep(const elementary_instance *e, int row, uint64_t stride) {
    static float x[BLOCK], y[BLOCK], out[BLOCK];
    sweep_result r = {0};
    int binary = mlsi_elementary_table[row].f32_2 != NULL;
    uint64_t total = ((UINT64_C(1) << 32) + stride - 1) / stride;
    for (uint64_t i = 0; i < total; i += BLOCK) {
        int n = total - i < BLOCK ? (int)(total - i) : BLOCK;
        for (int j = 0; j < n; j++) {
            uint64_t h = binary ? mix(i + (uint64_t)j) : (i + (uint64_t)j) * stride;
            x[j] = from_bits((uint32_t)h);
            y[j] = from_bits((uint32_t)(h >> 32));
            if (binary && (h & 7) != 0) /* most pairs of moderate size, else results are 0 or inf */
                elementary_moderate_pair(row, h, &x[j], &y[j]);
        }
        e->map(row, x, y, out, (size_t)n);
        check_block(row, x, y, out, n, &r);
    }
    return r;
}

int main(int argc, char **argv) {
    uint64_t stride = 1;
    const char *isa = NULL;
    int a = 1, failed = 0;
    for (; a < argc && argv[a][0] == '-'; a += 2) {
        if (a + 1 >= argc)
            return fprintf(stderr, "elementary_sweep: %s needs a value\n", argv[a]), 2;
        if (!strcmp(argv[a], "-s"))
            stride = strtoull(argv[a + 1], NULL, 0);
        else if (!strcmp(argv[a], "-i"))
            isa = argv[a + 1];
    }
    const elementary_instance *e = NULL;
    for (int i = 0; i < ELEMENTARY_INSTANCES; i++) {
        const elementary_instance *c = elementary_instance_get(i);
        if (c->available && (!isa || !strcmp(isa, c->isa))) e = c;
    }
    if (!e || !stride) return fprintf(stderr, "elementary_sweep: no such instance or stride\n"), 2;
    for (int row = 0; row < mlsi_elementary_count; row++) {
        const mlsi_elementary_row *t = &mlsi_elementary_table[row];
        int wanted = a == argc;
        for (int j = a; j < argc; j++)
            wanted |= !strcmp(argv[j], t->name);
        if (!wanted) continue;
        sweep_result r = sweep(e, row, stride);
        int bad = !(r.worst <= t->f32_ulp);
        failed |= bad;
        printf("%-9s %-8s max %.4f ulp (bound %.2f) at %a", t->name, e->isa, r.worst, t->f32_ulp,
               (double)r.x);
        if (t->f32_2) printf(", %a", (double)r.y);
        printf(" = %a, exact %a; not correctly rounded %.4f %% of %" PRIu64 "%s\n", (double)r.got,
               r.exact, 100.0 * (double)r.not_rounded / (double)r.count, r.count,
               bad ? "  FAIL" : "");
        fflush(stdout);
    }
    return failed;
}
