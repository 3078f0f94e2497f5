/* Nests of several shapes, built by hand, and their interpretation under values of the symbols. */
#ifndef MLSI_TESTS_NEST_CASE_H
#define MLSI_TESTS_NEST_CASE_H

#include "ir/loop/nest.h"

/* Symbols of all samples: M in [0, 40], N in [1, 40], K in [1, 600]. */
enum { NC_SYMBOLS = 3, NC_BINDINGS = 6 };
extern const int64_t nc_bindings[NC_BINDINGS][NC_SYMBOLS];

typedef struct nest_sample {
    const char *name;
    void (*build)(mlsi_nest *n, int64_t m, int64_t n_, int64_t k);
} nest_sample;

extern const nest_sample nest_samples[];
extern const int nest_sample_count;

/* Failures abort the test. Free with mlsi_nest_free. */
void nc_build(mlsi_nest *n, mlsi_alloc *a, const char *sample);

enum { NC_TINY = 2 }; /* a seed: floats are so small that products of two are zeros */

/* Runs a nest on random inputs and poisoned outputs; the outputs' bytes, one after the other, and what they are of. */
typedef struct nest_run {
    mlsys_status status;
    char error[400];
    unsigned char *bytes;
    uint64_t n;
} nest_run;

nest_run nc_run(const mlsi_nest *n, const int64_t *dims, uint64_t seed);
void nc_run_free(nest_run *r);
/* Both succeed with the same bits; NULL, or what differs (static). */
const char *nc_difference(const nest_run *a, const nest_run *b);
/* Every loop that is not serial, backwards: what a legal nest cannot show. In a copy; free it. */
void nc_reverse(const mlsi_nest *n, mlsi_nest *out);

#endif
