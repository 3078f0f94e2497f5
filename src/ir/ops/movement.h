/* Type rules about axes and shapes. */
#ifndef MLSI_MOVEMENT_H
#define MLSI_MOVEMENT_H

#include "ir/ops/elementwise.h"

/* The list has one entry per axis. */
mlsys_status mlsi_infer_list_length(const mlsi_infer *t, const char *what, const mlsi_list *l,
                                    int64_t n);
/* Distinct axes, made non-negative and ascending. */
mlsys_status mlsi_infer_axes(const mlsi_infer *t, const char *what, int64_t rank, mlsi_list *axes);
/* An attribute that is a shape becomes out's rank and dims. */
mlsys_status mlsi_infer_shape(const mlsi_infer *t, const char *what, const mlsi_list *shape,
                              mlsi_type *out);

#endif
