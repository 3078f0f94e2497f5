/* What attention and its backward op share. */
#ifndef MLSI_ATTENTION_H
#define MLSI_ATTENTION_H

#include "ir/ops/op_def.h"

/* Checks operands q, k, v, mask?, kv_len? (0..4) and the attributes; puts the default scale in. */
mlsys_status mlsi_infer_attention(const mlsi_infer *t);

extern const char *const mlsi_causal_names[];

#define MLSI_ATTENTION_ATTRS                                                                       \
    {.name = "scale",                                                                              \
     .kind = MLSI_ATTR_F64,                                                                        \
     .offset = offsetof(mlsi_attr_attention, scale),                                               \
     .help = "factor of the scores; 0: 1/sqrt(D)"},                                                \
        {.name = "softcap",                                                                        \
         .kind = MLSI_ATTR_F64,                                                                    \
         .offset = offsetof(mlsi_attr_attention, softcap),                                         \
         .help = "scores become cap * tanh(s / cap); 0: off"},                                     \
        {.name = "causal",                                                                         \
         .kind = MLSI_ATTR_ENUM,                                                                   \
         .offset = offsetof(mlsi_attr_attention, causal),                                          \
         .names = mlsi_causal_names,                                                               \
         .help = "top_left: query i sees keys <= i; bottom_right: keys <= n - Lq + i, n the "      \
                 "number of valid keys"},                                                          \
    {                                                                                              \
        .name = "window", .kind = MLSI_ATTR_I64, .offset = offsetof(mlsi_attr_attention, window),  \
        .help = "query at position p sees keys > p - window; 0: off"                               \
    }

#endif
