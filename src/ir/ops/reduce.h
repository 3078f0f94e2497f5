/* Type rules of reductions. */
#ifndef MLSI_REDUCE_H
#define MLSI_REDUCE_H

#include "ir/ops/movement.h"

/* Empty axes become all axes; others distinct, non-negative and ascending. */
mlsys_status mlsi_infer_reduce_axes(mlsi_infer *t, mlsi_list *axes);
/* x without the (normalised) axes, or with extent 1 there. */
void mlsi_reduced_type(const mlsi_type *x, const mlsi_list *axes, bool keep, mlsi_type *out);

#endif
