#include "support/roofline.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LEFT = 70, TOP = 50, WIDTH = 640, HEIGHT = 440, LEGEND = 760, LINE = 15 };

typedef struct frame {
    double x0, x1, y0, y1; /* log2 of the edges */
} frame;

void bench_roofline_add(bench_roofline *r, const char *name, double intensity, double rate,
                        int threads) {
    if (r->n == BENCH_MAX_POINTS || !(intensity > 0) || !(rate > 0) || !isfinite(intensity) ||
        !isfinite(rate))
        return;
    bench_point *p = &r->point[r->n++];
    snprintf(p->name, sizeof p->name, "%s", name);
    p->intensity = intensity;
    p->rate = rate;
    p->threads = threads;
}

static double px(const frame *f, double intensity) {
    return LEFT + WIDTH * (log2(intensity) - f->x0) / (f->x1 - f->x0);
}

static double py(const frame *f, double rate) {
    return TOP + HEIGHT * (1 - (log2(rate) - f->y0) / (f->y1 - f->y0));
}

/* Whole powers of two around all points and roofs. */
static frame make_frame(const bench_roofline *r) {
    frame f = {-4, 8, 30, 36};
    for (int i = 0; i < r->n; i++) {
        double x = log2(r->point[i].intensity), y = log2(r->point[i].rate);
        f.x0 = fmin(f.x0, floor(x));
        f.x1 = fmax(f.x1, ceil(x));
        f.y0 = fmin(f.y0, floor(y));
    }
    for (int i = 0; i < r->limits->n; i++)
        if (r->limits->row[i].kind == BENCH_LIMIT_FMA)
            f.y1 = fmax(f.y1, ceil(log2(r->limits->row[i].rate.max) + 0.3));
    return f;
}

static void put_text(FILE *out, const char *s) {
    for (; *s; s++) {
        if (*s == '<')
            fputs("&lt;", out);
        else if (*s == '&')
            fputs("&amp;", out);
        else
            fputc(*s, out);
    }
}

static void axes(FILE *out, const frame *f) {
    for (double x = ceil(f->x0); x <= f->x1; x++) {
        double at = px(f, exp2(x));
        fprintf(out, "<line class='grid' x1='%.1f' y1='%d' x2='%.1f' y2='%d'/>\n", at, TOP, at,
                TOP + HEIGHT);
        fprintf(out, "<text x='%.1f' y='%d' text-anchor='middle'>%s%.0f</text>\n", at,
                TOP + HEIGHT + 18, x < 0 ? "1/" : "", exp2(fabs(x)));
    }
    for (double decade = floor(f->y0 / log2(10)); decade <= f->y1 / log2(10); decade++) {
        double rate = pow(10, decade), at = py(f, rate);
        if (at > TOP + HEIGHT || at < TOP) continue;
        fprintf(out, "<line class='grid' x1='%d' y1='%.1f' x2='%d' y2='%.1f'/>\n", LEFT, at,
                LEFT + WIDTH, at);
        fprintf(out, "<text x='%d' y='%.1f' text-anchor='end'>%g</text>\n", LEFT - 6, at + 4,
                rate * 1e-9);
    }
    fprintf(out, "<rect x='%d' y='%d' width='%d' height='%d' fill='none' stroke='#444'/>\n", LEFT,
            TOP, WIDTH, HEIGHT);
    fprintf(out, "<text x='%d' y='%d' text-anchor='middle'>flops per byte</text>\n",
            LEFT + WIDTH / 2, TOP + HEIGHT + 38);
    fprintf(out,
            "<text transform='translate(18,%d) rotate(-90)' text-anchor='middle'>GF/s</text>\n",
            TOP + HEIGHT / 2);
}

/* One roof: bandwidth up to the ridge, then the peak. */
static void roof(FILE *out, const frame *f, const bench_limits *l, int threads) {
    double peak = bench_peak_flops(l, NULL, threads);
    double bandwidth = bench_bandwidth(l, BENCH_LIMIT_READ, threads, UINT64_MAX);
    if (!isfinite(peak) || !isfinite(bandwidth)) return;
    double left = fmax(exp2(f->x0), exp2(f->y0) / bandwidth), ridge = peak / bandwidth;
    fprintf(out, "<polyline class='t%d' points='%.1f,%.1f %.1f,%.1f %d,%.1f'/>\n",
            threads > 1 ? 2 : 1, px(f, left), py(f, left * bandwidth), px(f, ridge), py(f, peak),
            LEFT + WIDTH, py(f, peak));
    fprintf(
        out,
        "<text x='%d' y='%.1f' text-anchor='end'>%d thread%s: %.0f GF/s, memory %.1f GB/s</text>\n",
        LEFT + WIDTH - 6, py(f, peak) - 5, threads, threads > 1 ? "s" : "", peak * 1e-9,
        bandwidth * 1e-9);
}

/* Bandwidth of the caches, one thread: warm operands lie there. */
static void cache_roofs(FILE *out, const frame *f, const bench_limits *l) {
    double peak = bench_peak_flops(l, NULL, 1);
    for (int i = 0; i < l->n; i++) {
        const bench_limit *r = &l->row[i];
        if (r->kind != BENCH_LIMIT_READ || r->threads != 1 || !strcmp(r->what, "memory")) continue;
        double bandwidth = r->rate.max, left = fmax(exp2(f->x0), exp2(f->y0) / bandwidth);
        double ridge = peak / bandwidth;
        if (!(ridge > left)) continue;
        fprintf(out, "<polyline class='cache' points='%.1f,%.1f %.1f,%.1f'/>\n", px(f, left),
                py(f, left * bandwidth), px(f, ridge), py(f, peak));
        fprintf(out, "<text class='tag' x='%.1f' y='%.1f'>%s %.0f</text>\n", px(f, left) + 3,
                py(f, left * bandwidth) - 6, r->what, bandwidth * 1e-9);
    }
}

static void points(FILE *out, const frame *f, const bench_roofline *r) {
    for (int i = 0; i < r->n; i++) {
        const bench_point *p = &r->point[i];
        double x = px(f, p->intensity), y = py(f, p->rate);
        const char *fill = p->threads > 1 ? "#c2410c" : "#1d4ed8";
        fprintf(out, "<circle cx='%.1f' cy='%.1f' r='4' fill='%s'/>\n", x, y, fill);
        fprintf(out, "<text x='%.1f' y='%.1f' class='tag'>%d</text>\n", x + 5, y - 4, i + 1);
        fprintf(out, "<circle cx='%d' cy='%d' r='4' fill='%s'/>\n", LEGEND, TOP + i * LINE, fill);
        fprintf(out, "<text x='%d' y='%d'>%d ", LEGEND + 9, TOP + i * LINE + 4, i + 1);
        put_text(out, p->name);
        fprintf(out, ": %.3g GF/s</text>\n", p->rate * 1e-9);
    }
}

bool bench_roofline_write(const bench_roofline *r, const char *path) {
    frame f = make_frame(r);
    int height = TOP + (r->n * LINE > HEIGHT ? r->n * LINE : HEIGHT) + 60, most = 1;
    FILE *out = fopen(path, "w");
    if (!out) {
        fprintf(stderr, "bench: cannot write %s\n", path);
        return false;
    }
    fprintf(out,
            "<svg xmlns='http://www.w3.org/2000/svg' width='1180' height='%d' "
            "font-family='sans-serif' font-size='11'>\n",
            height);
    fputs("<style>.grid{stroke:#ddd} polyline{fill:none;stroke-width:2} .t1{stroke:#1d4ed8} "
          ".t2{stroke:#c2410c} .tag{font-size:9px} "
          ".cache{stroke:#999;stroke-width:1;stroke-dasharray:4 3}</style>\n<rect width='100%' "
          "height='100%' "
          "fill='#fff'/>\n",
          out);
    fprintf(out, "<text x='%d' y='28' font-size='15'>", LEFT);
    put_text(out, r->title);
    fputs("</text>\n", out);
    axes(out, &f);
    for (int i = 0; i < r->limits->n; i++)
        if (r->limits->row[i].threads > most) most = r->limits->row[i].threads;
    cache_roofs(out, &f, r->limits);
    roof(out, &f, r->limits, 1);
    if (most > 1) roof(out, &f, r->limits, most);
    points(out, &f, r);
    fputs("</svg>\n", out);
    bool ok = !ferror(out);
    if (fclose(out) || !ok) {
        fprintf(stderr, "bench: cannot write %s\n", path);
        return false;
    }
    return true;
}
