#include "support/rates.h"

#include <stdio.h>

double bench_operations(const mlsys_cost *c) { return (double)(c->flops + c->transcendentals); }

static double bytes_of(const mlsys_cost *c) { return (double)(c->bytes_read + c->bytes_written); }

bench_roof bench_cost_roof(const bench_program *p, const mlsys_cost *c, const bench_subject *s) {
    return bench_roof_of(&p->limits, bench_operations(c), (double)c->bytes_read,
                         (double)c->bytes_written, s->cache == BENCH_COLD, s->threads);
}

void bench_print_rates(const bench_subject *s, const bench_result *r, const bench_summary *t,
                       const mlsys_cost *c, const bench_roof *top) {
    printf("%-34s %-6s %-4s %d  ", s->name, bench_boundary_name(s->boundary),
           bench_cache_name(s->cache), s->threads);
    if (r->verdict.judgement != BENCH_PASS) {
        printf("WRONG, no time: %s\n", r->verdict.finding);
        return;
    }
    printf("%9.1f us  p95 %9.1f  +-%3.0f %%  %7.1f GF/s  %6.1f GB/s  %3.0f %% of %s%s\n",
           t->median * 1e6, t->p95 * 1e6, 50 * bench_spread(t),
           bench_operations(c) / t->median * 1e-9, bytes_of(c) / t->median * 1e-9,
           100 * top->seconds / t->median, top->name, r->cpu_share < 0.9 ? "  (disturbed)" : "");
}

void bench_set_rates(bench_record *record, const bench_summary *t, const mlsys_cost *c,
                     const bench_roof *top) {
    bench_set_number(record, "flops", (double)c->flops);
    bench_set_number(record, "transcendentals", (double)c->transcendentals);
    bench_set_number(record, "bytes", bytes_of(c));
    bench_set_number(record, "intensity", bench_operations(c) / bytes_of(c));
    bench_set_number(record, "gflops", bench_operations(c) / t->median * 1e-9);
    bench_set_number(record, "gbytes_s", bytes_of(c) / t->median * 1e-9);
    bench_set_number(record, "roof_seconds", top->seconds);
    bench_set_number(record, "roof_percent", 100 * top->seconds / t->median);
    bench_set_text(record, "roof", top->name);
}
