/* Ops with an optional addend, operand 2, go on with a sum that was begun elsewhere. Their kernels find its value
 * where the result goes, which is one case of everything; the planner gives the result the addend's memory where
 * nobody else reads it. */
#ifndef MLSI_KERNELS_ADDEND_H
#define MLSI_KERNELS_ADDEND_H

#include "core/tensor.h"
#include "cpu/kernel.h"

enum { ADDEND = 2, ADDEND_IN_PLACE = 1 << ADDEND };

/* Is there an addend? It is in the result's memory then. */
static inline bool addend_in_result(const mlsi_kernel_args *args) {
    if (args->n_in <= ADDEND || !args->in[ADDEND].data) return false;
    if (args->in[ADDEND].data != args->out[0].data)
        mlsi_copy_view(&args->out[0], &args->in[ADDEND]);
    return true;
}

#endif
