/* Functions as fusion makes them, lowered to nests, with random inputs to run them on. */
#ifndef MLSI_TESTS_NEST_GROUP_H
#define MLSI_TESTS_NEST_GROUP_H

#include "support/program_case.h"

enum { NG_PARAMS = 8 };

typedef struct nest_group {
    mlsi_graph graph;
    mlsi_nest n;
    mlsi_view params[NG_PARAMS];
    int n_in, n_params;
    int64_t dims[4];
} nest_group;

extern const int nest_group_count;

/* scheduled: by the default schedule. Failures abort the test. */
void ng_open(const program_case *pc, int i, bool scheduled, nest_group *c);
void ng_close(nest_group *c);
/* A hash of all outputs of n, a nest of the group, NaN as one value; 0 when it fails. */
uint64_t ng_outputs(const nest_group *c, const mlsi_nest *n);

#endif
