/* Time per element of the f32 elementary functions, each instance that runs here.
 *
 *     elementary_speed [function ...]
 *
 * 4096 elements in the first-level cache, uniform in (0.01, 1) (for the circular functions also
 * times 1e10, where the reduction is long); the best of many passes, in nanoseconds. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/elementary.h"
#include "support/elementary_instance.h"

enum { N = 4096 };

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double best_ns(const elementary_instance *e, int row, float scale) {
    static float x[N], y[N], out[N];
    for (int i = 0; i < N; i++) {
        float u = (float)(i * 2654435761u >> 8) * 0x1p-24f;
        x[i] = (0.01f + 0.98f * u) * scale;
        y[i] = 3.0f * (1.0f - u);
    }
    double best = 1e30;
    for (int pass = 0; pass < 400; pass++) {
        double t = now_ns();
        e->map(row, x, y, out, N);
        t = now_ns() - t;
        if (t < best) best = t;
    }
    return best / N;
}

int main(int argc, char **argv) {
    for (int row = 0; row < mlsi_elementary_count; row++) {
        const char *name = mlsi_elementary_table[row].name;
        int wanted = argc == 1,
            circular = !strcmp(name, "sin") || !strcmp(name, "cos") || !strcmp(name, "tan");
        for (int j = 1; j < argc; j++)
            wanted |= !strcmp(argv[j], name);
        if (!wanted) continue;
        printf("%-9s", name);
        for (int i = 0; i < ELEMENTARY_INSTANCES; i++) {
            const elementary_instance *e = elementary_instance_get(i);
            if (!e->available) continue;
            printf("  %s %.2f ns", e->isa, best_ns(e, row, 1.0f));
            if (circular) printf(" (large %.2f)", best_ns(e, row, 1e10f));
        }
        printf("\n");
    }
    return 0;
}
