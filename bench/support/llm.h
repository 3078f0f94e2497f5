/* A language model as a subject: a program of the public interface, tokens in, logits out. Tokens
 * are a fixed pseudo-random sequence, as in llama-bench; nothing is sampled. Sees <mlsys/mlsys.h>
 * alone. */
#ifndef BENCH_LLM_H
#define BENCH_LLM_H

#include "support/program.h"

enum { LLM_MAX_LAYERS = 128 };

typedef struct llm_options {
    const char *numerics, *act, *kv;
    int threads, context, chunk;
} llm_options;

typedef struct llm {
    bench_library lib;
    mlsys_model model;
    mlsys_program program;
    int layers;
    int32_t vocab;
    uint64_t file_bytes, cache_bytes, constant_bytes, scratch_bytes;
    mlsys_tensor tokens, start, logits;
    mlsys_tensor in[2 + 2 * LLM_MAX_LAYERS], out[1 + 2 * LLM_MAX_LAYERS];
    llm_options how;
    int cached; /* tokens in the caches */
    /* What a token needs, from the file's tensors. */
    double block_elements, block_bytes; /* matrices of the layers */
    double head_elements, head_bytes;   /* the matrix of the logits */
    double heads, kv_heads, key_dim, value_dim, window, window_period;
    /* the subject */
    int depth, prompt, generate;
    bool plant;
} llm;

/* Exits with the library's sentence when the model cannot be run. */
void llm_open(llm *m, const char *path, const llm_options *how);
void llm_close(llm *m);
/* Work of processing tokens [from, from + n) in one go, logits for the last only. */
double llm_flops(const llm *m, int from, int n);
/* Bytes that must be read: each matrix once, keys and values once. */
double llm_bytes(const llm *m, int from, int n);
/* The subject: `depth` tokens untimed, then `prompt` tokens in chunks, or `generate` tokens one by
 * one. Judged by logits of an independent implementation (see golden_logits.h), or for a file that
 * is not known there by the agreement of one run over a prompt with one token at a time. */
bench_subject llm_subject(llm *m, int depth, int prompt, int generate, const char *name);

#endif
