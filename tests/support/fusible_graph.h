/* Random graphs of what fusion is for, and of what only looks like it: chains over one shape, rows and their reductions,
 * norms, masks, broadcasts, views, several outputs, extents around lanes, blocks and tiles, and shapes that nearly fit. A
 * graph is a function of the random state only; none fails on any data. */
#ifndef MLSI_TESTS_FUSIBLE_GRAPH_H
#define MLSI_TESTS_FUSIBLE_GRAPH_H

#include "support/random_graph.h"

/* The symbols of all these graphs, in this order: B in [1,4], L in [0,140], S a multiple of 8 in [8,72]. */
enum { FG_SYMBOLS = 3 };
mlsys_status fg_symbols(mlsi_graph *g, int64_t *codes);
/* Values of them, the edges more often. */
void fg_bind(kc_rng *r, int64_t *binding);
/* g freshly initialised: at most 12 inputs and 8 outputs. */
void fg_graph(kc_rng *r, mlsi_graph *g, mlsi_device *device);

#endif
