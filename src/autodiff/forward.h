/* Forward mode: tangents of values by the tangents of others. */
#ifndef MLSI_FORWARD_H
#define MLSI_FORWARD_H

#include "ir/graph/ir.h"

/* dy[i] = sum over j of d y[i] / d x[j] * dx[j], as values of func of y[i]'s type; -1 where y[i] depends on no x
 * through floats. dx[j] = -1: zeros, with which nothing is computed. The nodes that are there stay as they are.
 * After a failure the function is as before. Errors: as mlsi_gradient; SHAPE, dx[j] not of x[j]'s type. */
mlsys_status mlsi_tangent(mlsi_graph *g, int32_t func, int32_t n_x, const int32_t *x,
                          const int32_t *dx, int32_t n_y, const int32_t *y, int32_t *dy);

#endif
