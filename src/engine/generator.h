/* A conversation with a causal language model. One thread at a time. */
#ifndef MLSI_GENERATOR_H
#define MLSI_GENERATOR_H

#include "engine/sampler.h"
#include "model/model.h"
#include "model/token_stream.h"

typedef struct mlsi_turn { /* of a chat */
    char role;             /* 's', 'u', 'a' */
    mlsi_text text;
    int64_t end; /* tokens in context when the message that brought it was in */
} mlsi_turn;

typedef struct mlsi_generator {
    mlsi_object object;
    mlsi_model *model;          /* pinned */
    mlsi_stream *stream;        /* pinned */
    mlsys_stream stream_handle; /* a user reference, so that runs may name it */
    mlsi_tokenizer *tokenizer;  /* pinned */
    mlsys_tokenizer tokenizer_handle;
    mlsys_program program;
    mlsys_tensor tokens, start, logits; /* tokens: i32 [1, chunk] */
    mlsys_tensor *inputs, *outputs;     /* as the program takes them; caches shared by both */
    int64_t n_caches, chunk, context, vocab;
    int32_t *history; /* tokens in context: the first n_cached are in the caches */
    int64_t n_history, n_cached;
    bool logits_valid, done;
    bool streaming; /* the last token was produced: the next one's text goes on from it */
    mlsi_sampler sampler;
    mlsi_candidate *candidates;
    float *row; /* the logits on the host, where they are made on a device; else NULL */
    mlsi_token_stream text;
    int64_t held_at[MLSI_STREAM_HELD]; /* position of the token that each byte text holds is of */
    mlsi_turn *turns;
    int64_t n_turns, cap_turns; /* what follows the last one's end in context is the reply to it */
    uint64_t cache_bytes;
    double prefill_seconds, decode_seconds;
    int64_t prefill_tokens, decode_tokens;
} mlsi_generator;

const mlsi_config_key *mlsi_generator_config_keys(int *n);
mlsys_status mlsi_generator_create(mlsi_model *m, mlsi_stream *s, const mlsi_config *c,
                                   mlsys_generator *out);
/* Append ids; nothing is appended on failure. */
mlsys_status mlsi_generator_append(mlsi_generator *g, const int32_t *ids, int64_t n);
mlsys_status mlsi_generator_append_text(mlsi_generator *g, const char *text, uint64_t bytes);
mlsys_status mlsi_generator_chat(mlsi_generator *g, const char *system, const char *user);
/* Keep the first n <= n_history tokens, and of a chat the turns that lie in them. What kept tokens
 * hold back of a character is kept too. */
void mlsi_generator_rewind(mlsi_generator *g, int64_t n);
/* Keep the first `keep` turns. */
void mlsi_generator_forget_turns(mlsi_generator *g, int64_t keep);
/* Run the model over what is not yet cached. */
mlsys_status mlsi_generator_evaluate(mlsi_generator *g);
mlsys_status mlsi_generator_next(mlsi_generator *g, int32_t *id, mlsi_text *text);
mlsys_status mlsi_generator_stat(const mlsi_generator *g, const char *name, double *out);
/* The names that it knows, one a line with type and meaning. */
void mlsi_generator_stats_text(mlsi_text *out);

/* The last evaluation's logits on the host, until the next one. */
mlsys_status mlsi_generator_read_logits(mlsi_generator *g, float **out);

#endif
