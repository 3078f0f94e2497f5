/* What the optimiser steps share: the type rule, and formulas in the compute type. */
#ifndef MLSI_OPTIMIZER_H
#define MLSI_OPTIMIZER_H

#include "ir/ops/decompose.h"

#define MLSI_ATTR_NUMBER(type, field, value, text)                                                 \
    {                                                                                              \
        .name = #field, .kind = MLSI_ATTR_F64, .offset = offsetof(type, field),                    \
        .default_f = value, .help = text                                                           \
    }
#define MLSI_ATTR_FLAG(type, field, value, text)                                                   \
    {                                                                                              \
        .name = #field, .kind = MLSI_ATTR_BOOL, .offset = offsetof(type, field),                   \
        .default_i = value, .help = text                                                           \
    }
#define MLSI_ATTR_WHOLE(type, field, value, text)                                                  \
    {                                                                                              \
        .name = #field, .kind = MLSI_ATTR_I64, .offset = offsetof(type, field),                    \
        .default_i = value, .help = text                                                           \
    }

/* Operand i must be a scalar: i64, or a float. */
mlsys_status mlsi_infer_scalar(const mlsi_infer *t, int i, bool integer);
/* Operand i is a float of the shape of like, f64 only together with operand 0. */
mlsys_status mlsi_infer_like(const mlsi_infer *t, int i, const mlsi_type *like);
/* An attribute outside what is allowed: "adam_step: attribute beta1: 1.5 ...". */
mlsys_status mlsi_infer_range(const mlsi_infer *t, const char *name, double value, bool fits,
                              const char *expected);

/* One step being written down; operands w, g, lr first. */
typedef struct mlsi_update {
    mlsi_emit e;
    int32_t w, g, lr; /* in the compute type */
    const int32_t *in;
    int32_t *out;
} mlsi_update;

mlsi_update mlsi_update_begin(mlsi_graph *g, int32_t func, const int32_t *in, int32_t *out);
/* Result number `result` is value, in the dtype of that operand. */
void mlsi_update_give(mlsi_update *s, int result, int operand, int32_t value);
/* w - lr * decay * w: weight decay that no moment sees. */
int32_t mlsi_update_decayed(mlsi_update *s, double decay);
/* beta * m + (1 - beta) * x */
int32_t mlsi_update_average(mlsi_update *s, double beta, int32_t m, int32_t x);

static inline int32_t mlsi_update_add(mlsi_update *s, int32_t a, int32_t b) {
    return mlsi_emit_2(&s->e, MLSI_OP_ADD, a, b);
}
static inline int32_t mlsi_update_sub(mlsi_update *s, int32_t a, int32_t b) {
    return mlsi_emit_2(&s->e, MLSI_OP_SUB, a, b);
}
static inline int32_t mlsi_update_mul(mlsi_update *s, int32_t a, int32_t b) {
    return mlsi_emit_2(&s->e, MLSI_OP_MUL, a, b);
}
static inline int32_t mlsi_update_times(mlsi_update *s, double factor, int32_t a) {
    return mlsi_update_mul(s, a, mlsi_emit_float(&s->e, factor));
}

#endif
