#include "core/backend.h"

static const char *const names[MLSI_OP_COUNT] = {
#define MLSI_OP(ID, name, family) [MLSI_OP_##ID] = #name,
#include "core/op_list.h"
#undef MLSI_OP
};

const char *mlsi_op_name(mlsi_op op) {
    return (unsigned)op < MLSI_OP_COUNT ? names[op] : "unknown op";
}

mlsi_op mlsi_op_by_name(const char *name) {
    for (int i = 0; i < MLSI_OP_COUNT; i++)
        if (!strcmp(names[i], name)) return (mlsi_op)i;
    return MLSI_OP_COUNT;
}
