/* The op table: every row of the op list with its definition. */
#include "ir/ops/op_def.h"

static const mlsi_op_def *const table[MLSI_OP_COUNT] = {
#define MLSI_OP(ID, name, family) [MLSI_OP_##ID] = &mlsi_op_def_##name,
#include "core/op_list.h"
#undef MLSI_OP
};

const mlsi_op_def *mlsi_op_get(mlsi_op op) {
    return (unsigned)op < MLSI_OP_COUNT ? table[op] : NULL;
}
