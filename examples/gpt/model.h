/* A small GPT (Radford et al., 2019) over bytes, as a graph: learned positions, layer norm before each part,
 * attention over several heads, a GELU network, and logits by the transposed table of tokens. */
#ifndef GPT_MODEL_H
#define GPT_MODEL_H

#include <mlsys/mlsys.h>

enum { GPT_VOCAB = 256, GPT_MAX_LAYERS = 48, GPT_MAX_WEIGHTS = 4 + 16 * GPT_MAX_LAYERS };

typedef struct gpt_weight {
    char name[32];
    int32_t rank;
    int64_t shape[2];
    double spread; /* of the normal numbers that it starts from; 0: `start` everywhere */
    float start;
} gpt_weight;

typedef struct gpt {
    int64_t layers, heads, width, context;
    int32_t n;
    gpt_weight weights[GPT_MAX_WEIGHTS];
} gpt;

/* Sizes, and from them the list of weights. 0 when the heads do not divide the width, or one is out of range. */
int gpt_init(gpt *m, int64_t layers, int64_t heads, int64_t width, int64_t context);

/* Inputs: tokens i32 [B, L], the weights, targets i32 [B, L]; output: the mean cross-entropy, which is *loss. */
mlsys_status gpt_loss_graph(const gpt *m, mlsys_ctx ctx, int64_t batch, mlsys_graph *out,
                            mlsys_value *weights, mlsys_value *loss);
/* Inputs: tokens i32 [1, L] with 1 <= L <= context, the weights; output: logits f32 [1, 1, 256] of the byte that
 * comes next. */
mlsys_status gpt_next_graph(const gpt *m, mlsys_ctx ctx, mlsys_graph *out);

#endif
