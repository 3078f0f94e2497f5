#include "run_log.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double run_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int run_log_begin(run_log *r, long first, long total, const char *unit) {
    memset(r, 0, sizeof *r);
    r->first = first;
    r->total = total;
    r->unit = unit;
    size_t bytes = sizeof *r->loss * (size_t)(total > first ? total - first : 1);
    r->loss = malloc(bytes);
    r->seconds = malloc(bytes);
    r->started = r->shown = r->ended = run_seconds();
    return r->loss && r->seconds;
}

mlsys_status run_log_peak(run_log *r, mlsys_device device, mlsys_stream stream) {
    enum { SIDE = 1024, TIMES = 4 };
    const int64_t shape[2] = {SIDE, SIDE};
    mlsys_tensor x = NULL, y = NULL;
    mlsys_status st = mlsys_tensor_create(device, MLSYS_F32, 2, shape, &x);
    if (st == MLSYS_OK) st = mlsys_tensor_random(x, stream, "normal", 1, 0);
    for (int i = 0; i < TIMES && st == MLSYS_OK; i++) {
        double begun = run_seconds();
        st = mlsys_matmul(stream, x, x, &y);
        double speed = 2.0 * SIDE * SIDE * SIDE / (run_seconds() - begun);
        if (st == MLSYS_OK && speed > r->peak) r->peak = speed;
        mlsys_release(y);
        y = NULL;
    }
    mlsys_release(x);
    return st;
}

/* Losses jump from batch to batch: the mean of at most the last n. */
static double recent(const run_log *r, long end, long n) {
    double sum = 0;
    if (n > end) n = end;
    for (long i = end - n; i < end; i++)
        sum += r->loss[i];
    return n ? sum / (double)n : NAN;
}

static void print_rates(FILE *f, const run_log *r) {
    double seconds = r->ended - r->started;
    if (seconds <= 0) return;
    fprintf(f, "%.4g %s/s", r->units / seconds, r->unit);
    double speed = r->work / seconds;
    if (r->work > 0) fprintf(f, ", %.3g GFLOP/s", speed * 1e-9);
    if (r->work > 0 && r->peak > 0)
        fprintf(f, " (%.0f %% of a large product)", 100 * speed / r->peak);
}

void run_log_step(run_log *r, double loss, double units) {
    double now = run_seconds();
    r->loss[r->done] = loss;
    r->seconds[r->done++] = now - r->ended;
    r->units += units;
    r->work += r->flops;
    r->ended = now;
    long steps = r->total - r->first;
    int terminal = isatty(2);
    if (r->ended - r->shown < (terminal ? 0.5 : 15) && r->done > 1 && r->done < steps) return;
    double left = (r->ended - r->started) / (double)r->done * (double)(steps - r->done);
    r->shown = r->ended;
    fprintf(stderr, "%sstep %ld/%ld  loss %.4f  ", terminal ? "\r\033[K" : "", r->first + r->done,
            r->total, recent(r, r->done, 10));
    print_rates(stderr, r);
    fprintf(stderr, "  %ld:%02ld left%s", (long)left / 60, (long)left % 60,
            terminal && r->done < steps ? "" : "\n");
}

void run_log_end(run_log *r) {
    if (!r->done) return;
    printf("%ld steps in %.1f s: ", r->done, r->ended - r->started);
    print_rates(stdout, r);
    printf("; loss of the first 10 steps %.4f, of the last 10 %.4f\n",
           recent(r, r->done < 10 ? r->done : 10, 10), recent(r, r->done, 10));
}

/* ---- the picture ------------------------------------------------------------------------------- */

enum { WIDTH = 720, HEIGHT = 360, LEFT = 60, RIGHT = 20, TOP = 40, BOTTOM = 40 };

typedef struct frame {
    long n;
    double low, high; /* of the losses */
} frame;

static double x_of(const frame *f, long i) {
    return LEFT + (double)i / (double)(f->n > 1 ? f->n - 1 : 1) * (WIDTH - LEFT - RIGHT);
}
static double y_of(const frame *f, double loss) {
    return TOP + (f->high - loss) / (f->high - f->low) * (HEIGHT - TOP - BOTTOM);
}

static frame frame_of(const run_log *r) {
    frame f = {r->done, INFINITY, -INFINITY};
    for (long i = 0; i < r->done; i++)
        if (isfinite(r->loss[i])) {
            f.low = fmin(f.low, r->loss[i]);
            f.high = fmax(f.high, r->loss[i]);
        }
    if (!(f.low < f.high)) f.low = isfinite(f.low) ? f.low - 1 : 0, f.high = f.low + 2;
    return f;
}

static void draw_axes(FILE *out, const run_log *r, const frame *f) {
    for (int i = 0; i <= 4; i++) {
        double loss = f->low + (f->high - f->low) * i / 4, y = y_of(f, loss);
        long at = (f->n > 1 ? f->n - 1 : 1) * i / 4;
        fprintf(out,
                "<line x1='%d' y1='%.1f' x2='%d' y2='%.1f' stroke='#ddd'/>\n"
                "<text x='%d' y='%.1f' text-anchor='end'>%.3g</text>\n"
                "<text x='%.1f' y='%d' text-anchor='middle'>%ld</text>\n",
                LEFT, y, WIDTH - RIGHT, y, LEFT - 6, y + 4, loss, x_of(f, at), HEIGHT - BOTTOM + 18,
                r->first + at);
    }
}

/* Of each loss, or of the mean of the last ones. */
static void draw_line(FILE *out, const run_log *r, const frame *f, long mean_of,
                      const char *style) {
    fprintf(out, "<polyline fill='none' %s points='", style);
    for (long i = 0; i < r->done; i++) {
        double loss = recent(r, i + 1, mean_of);
        if (isfinite(loss)) fprintf(out, "%.1f,%.1f ", x_of(f, i), y_of(f, loss));
    }
    fprintf(out, "'/>\n");
}

int run_log_curve(const run_log *r, const char *path, const char *title) {
    FILE *out = fopen(path, "w");
    frame f = frame_of(r);
    if (out) {
        fprintf(
            out,
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' font-family='sans-serif' "
            "font-size='12'>\n<rect width='%d' height='%d' fill='white'/>\n"
            "<text x='%d' y='24' font-size='14'>",
            WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT);
        for (const char *p = title; *p; p++)
            fputs(*p == '<' ? "&lt;" : *p == '&' ? "&amp;" : (char[2]){*p, 0}, out);
        fprintf(out, "</text>\n");
        draw_axes(out, r, &f);
        draw_line(out, r, &f, 1, "stroke='#9ac' stroke-width='1'");
        draw_line(out, r, &f, 20, "stroke='#246' stroke-width='2'");
        fprintf(out, "</svg>\n");
    }
    if (out && !ferror(out) && !fclose(out)) return 1;
    fprintf(stderr, "%s: the curve cannot be written\n", path);
    return 0;
}

void run_log_free(run_log *r) {
    free(r->loss);
    free(r->seconds);
    r->loss = r->seconds = NULL;
}
