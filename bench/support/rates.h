/* What a subject does beside the least time for it: the figures of a line and of a report's record. */
#ifndef BENCH_RATES_H
#define BENCH_RATES_H

#include "support/program.h"

/* A transcendental function counts as one operation. */
double bench_operations(const mlsys_cost *c);
/* The least time for these operations and bytes, which are the compulsory traffic. */
bench_roof bench_cost_roof(const bench_program *p, const mlsys_cost *c, const bench_subject *s);
/* One line: time, rates, share of the roof; without a passed verdict the finding. */
void bench_print_rates(const bench_subject *s, const bench_result *r, const bench_summary *t,
                       const mlsys_cost *c, const bench_roof *top);
void bench_set_rates(bench_record *record, const bench_summary *t, const mlsys_cost *c,
                     const bench_roof *top);

#endif
