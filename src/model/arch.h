/* Architectures: a model file's metadata and tensors become a graph, built by the public graph API.
 */
#ifndef MLSI_ARCH_H
#define MLSI_ARCH_H

#include "model/model.h"

/* Hyperparameters of a decoder-only transformer, read and checked from "<arch>.*" metadata. */
typedef struct mlsi_decoder_params {
    int64_t layers, width, ffn, heads, kv_heads, key_dim, value_dim, vocab, trained_context;
    int64_t rope_dims, window, window_period; /* layer i is global when (i + 1) % period == 0 */
    double rope_base, local_rope_base, rope_scale, eps, attention_scale, embedding_scale;
    double attention_softcap, logit_softcap;
    bool rope_halves, gelu, qk_norm, post_norm;
} mlsi_decoder_params;

typedef enum mlsi_trainable {
    MLSI_TRAIN_NONE, /* all weights are constants of the model */
    MLSI_TRAIN_LORA, /* so are they, and adapters are inputs */
    MLSI_TRAIN_ALL   /* weights are inputs, adapters of the model constants */
} mlsi_trainable;

typedef struct mlsi_graph_options {
    int64_t context;   /* cache capacity in tokens */
    int64_t max_new;   /* upper bound of L; in training that is the context */
    int64_t max_batch; /* upper bound of B */
    bool all_logits;   /* logits of every position, or of the last one */
    mlsys_dtype kv_dtype;
    int64_t act; /* MLSI_ACT_*: activations of block-quantised products */
    bool train;  /* whole sequences from position 0, no cache */
    mlsi_trainable trainable;
    int64_t lora_rank;
    double lora_alpha;
    const char *lora_targets; /* comma list of matrix names without "blk.<i>."; the config's */
} mlsi_graph_options;

const mlsi_config_key *mlsi_model_graph_config_keys(int *n);
mlsys_status mlsi_graph_options_read(const mlsi_model *m, const mlsi_config *c,
                                     mlsi_graph_options *o);
/* Errors UNSUPPORTED: an architecture without a row; FORMAT: a missing or impossible value. */
mlsys_status mlsi_decoder_params_read(const mlsi_model *m, mlsi_decoder_params *p);
mlsys_status mlsi_decoder_build(mlsi_model *m, const mlsi_decoder_params *p,
                                const mlsi_graph_options *o, mlsys_graph *out);

#endif
