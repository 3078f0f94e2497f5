/* The hardware's limits, measured. A limit is the best rate of several samples: what disturbs a
 * sample can only make it slower. The spread is reported beside it. */
#include "support/isa_loops.h"
#include "support/machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct probe {
    const bench_isa_loops *loops;
    bench_limit_kind kind;
    char *from, *to;
    uint64_t bytes; /* of one thread; a copy reads half and writes half */
    bool library;   /* copy by memcpy: its non-temporal stores win on large buffers, lose on small
                       ones */
    int64_t passes;
} probe;

static void run_probe(void *user, int thread) {
    const probe *p = user;
    float sink[16];
    uint64_t at = p->bytes * (uint64_t)thread;
    for (int64_t i = 0; i < p->passes; i++) {
        if (p->kind == BENCH_LIMIT_FMA)
            p->loops->fma(4096, sink);
        else if (p->kind == BENCH_LIMIT_READ)
            p->loops->read(p->from + at, p->bytes);
        else if (p->library)
            memcpy(p->to + at / 2, p->from + at / 2, p->bytes / 2);
        else
            p->loops->copy(p->to + at / 2, p->from + at / 2, p->bytes / 2);
        __asm__ volatile("" ::"r"(sink), "r"(p->to) : "memory");
    }
}

/* Work of all threads in one run. */
static double probe_work(const probe *p, int threads) {
    double each = p->kind == BENCH_LIMIT_FMA ? 4096 * p->loops->flops_per_step : (double)p->bytes;
    return each * (double)p->passes * threads;
}

static bench_summary sample_probe(probe *p, int threads, int samples, uint64_t seed) {
    double rate[BENCH_MAX_SAMPLES];
    p->passes = 1;
    while (bench_parallel(threads, run_probe, p) < 4e-3)
        p->passes *= 2;
    for (int i = 0; i < samples; i++)
        rate[i] = probe_work(p, threads) / bench_parallel(threads, run_probe, p);
    return bench_summarise(rate, samples, seed);
}

static void add_limit(bench_limits *out, probe *p, const char *what, int threads, int samples,
                      uint64_t seed) {
    if (out->n == BENCH_MAX_LIMITS) return;
    bench_summary s = sample_probe(p, threads, samples, seed);
    if (p->kind == BENCH_LIMIT_COPY) {
        p->library = true;
        bench_summary other = sample_probe(p, threads, samples, seed);
        if (other.max > s.max) s = other;
    }
    out->row[out->n++] =
        (bench_limit){p->kind, what, threads, p->kind == BENCH_LIMIT_FMA ? 0 : p->bytes, s};
}

/* Half of a level, so that the copy's two halves fit too; shared levels are split between threads.
 */
static uint64_t level_bytes(int level, int threads, bool quick) {
    if (level <= 3) {
        uint64_t bytes = bench_cache_bytes(level) / 2;
        return level == 3 ? bytes / (uint64_t)threads : bytes;
    }
    uint64_t bytes = 8 * bench_cache_bytes(3), most = quick ? 256u << 20 : 1u << 30;
    uint64_t ceiling = bench_memory_bytes() / 16;
    if (bytes < 256u << 20) bytes = 256u << 20;
    if (bytes > most) bytes = most;
    if (bytes > ceiling) bytes = ceiling;
    return bytes / (uint64_t)threads;
}

static void measure_for(bench_limits *out, int threads, bool quick, char *from, char *to,
                        uint64_t seed) {
    static const char *const levels[] = {"L1", "L2", "L3", "memory"};
    int samples = quick ? 7 : 21;
    const bench_isa_loops *best = bench_isas;
    for (int i = 0; i < bench_isa_count; i++) {
        probe p = {.loops = &bench_isas[i], .kind = BENCH_LIMIT_FMA};
        if (!p.loops->present()) continue;
        best = p.loops;
        add_limit(out, &p, p.loops->isa, threads, samples, seed);
    }
    for (int level = 1; level <= 4; level++)
        for (int kind = BENCH_LIMIT_READ; kind <= BENCH_LIMIT_COPY; kind++) {
            probe p = {.loops = best,
                       .kind = (bench_limit_kind)kind,
                       .from = from,
                       .to = to,
                       .bytes = level_bytes(level, threads, quick) / 4096 * 4096};
            /* A virtual machine may report the host's whole last level: then it is no level of
             * ours. */
            if (!p.bytes || (level == 3 && p.bytes > level_bytes(4, threads, quick) / 4)) continue;
            add_limit(out, &p, levels[level - 1], threads, samples, seed);
        }
}

void bench_measure_limits(bench_limits *out, int threads, bool quick, uint64_t seed) {
    uint64_t bytes = level_bytes(4, 1, quick);
    char *from = bench_memory(bytes), *to = bench_memory(bytes / 2);
    memset(from, 1, bytes); /* zero pages may all be one page */
    memset(to, 2, bytes / 2);
    out->n = 0;
    measure_for(out, 1, quick, from, to, seed);
    if (threads > 1) measure_for(out, threads, quick, from, to, seed);
    free(from);
    free(to);
}

void bench_limits_again(const bench_limits *l, bool quick, double *fma, double *read) {
    bench_limits now = {.n = 0};
    uint64_t bytes = level_bytes(4, 1, quick) / 4096 * 4096;
    char *from = bench_memory(bytes);
    int best = bench_isa_count - 1;
    while (best > 0 && !bench_isas[best].present())
        best--;
    probe f = {.loops = &bench_isas[best], .kind = BENCH_LIMIT_FMA};
    probe r = {.loops = &bench_isas[best], .kind = BENCH_LIMIT_READ, .from = from, .bytes = bytes};
    memset(from, 1, bytes);
    add_limit(&now, &f, bench_isas[best].isa, 1, 7, 1);
    add_limit(&now, &r, "memory", 1, 5, 1);
    *fma = now.row[0].rate.max / bench_peak_flops(l, bench_isas[best].isa, 1);
    *read = now.row[1].rate.max / bench_bandwidth(l, BENCH_LIMIT_READ, 1, UINT64_MAX);
    free(from);
}

double bench_peak_flops(const bench_limits *l, const char *isa, int threads) {
    double best = NAN;
    for (int i = 0; i < l->n; i++) {
        const bench_limit *r = &l->row[i];
        if (r->kind != BENCH_LIMIT_FMA || r->threads != threads || (isa && strcmp(isa, r->what)))
            continue;
        if (!(r->rate.max <= best)) best = r->rate.max;
    }
    return best;
}

double bench_bandwidth(const bench_limits *l, bench_limit_kind kind, int threads, uint64_t bytes) {
    const bench_limit *memory = NULL;
    for (int i = 0; i < l->n; i++) {
        const bench_limit *r = &l->row[i];
        if (r->kind != kind || r->threads != threads) continue;
        memory = r;
        /* The probe used half of the level. */
        if (strcmp(r->what, "memory") && bytes / (uint64_t)threads <= 2 * r->bytes)
            return r->rate.max;
    }
    return memory ? memory->rate.max : NAN;
}

/* A level gives a read and a copy rate; a copy is half reads and half writes, which gives the cost of a written
 * byte. */
bench_roof bench_roof_of(const bench_limits *l, double operations, double reads, double writes,
                         bool cold, int threads) {
    uint64_t set = cold ? UINT64_MAX : (uint64_t)(reads + writes);
    double read = 1 / bench_bandwidth(l, BENCH_LIMIT_READ, threads, set);
    double write = fmax(2 / bench_bandwidth(l, BENCH_LIMIT_COPY, threads, set) - read, 0);
    double traffic = reads * read + writes * write;
    double arithmetic = operations / bench_peak_flops(l, NULL, threads);
    return arithmetic > traffic ? (bench_roof){arithmetic, "arithmetic"}
                                : (bench_roof){traffic, "bandwidth"};
}

static const char *kind_name(bench_limit_kind k) {
    return k == BENCH_LIMIT_FMA ? "FMA" : k == BENCH_LIMIT_READ ? "read" : "copy";
}

void bench_limits_print(const bench_limits *l) {
    printf("measured limits (best of %d; spread of the middle half)\n",
           l->n ? l->row[0].rate.n : 0);
    for (int i = 0; i < l->n; i++) {
        const bench_limit *r = &l->row[i];
        printf("  %-4s %-8s %d thread%s %8.1f %s  spread %.0f %%\n", kind_name(r->kind), r->what,
               r->threads, r->threads > 1 ? "s" : " ", r->rate.max * 1e-9,
               r->kind == BENCH_LIMIT_FMA ? "GF/s" : "GB/s", 100 * bench_spread(&r->rate));
    }
}

bool bench_limits_report(const bench_limits *l, bench_report *report) {
    bool ok = true;
    for (int i = 0; i < l->n; i++) {
        const bench_limit *r = &l->row[i];
        bench_record record = {NULL, 0, 0};
        char name[64];
        snprintf(name, sizeof name, "%s %s", kind_name(r->kind), r->what);
        bench_set_text(&record, "name", name);
        bench_set_text(&record, "unit", r->kind == BENCH_LIMIT_FMA ? "flop/s" : "byte/s");
        bench_set_number(&record, "threads", r->threads);
        if (r->bytes) bench_set_number(&record, "bytes_per_thread", (double)r->bytes);
        bench_set_number(&record, "best", r->rate.max);
        bench_set_summary(&record, &r->rate);
        ok = bench_report_add(report, BENCH_RECORD_LIMIT, &record) && ok;
    }
    return ok;
}
