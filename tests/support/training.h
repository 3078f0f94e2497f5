/* A small network with a batch of symbolic extent, and short ways to train it. Any failure of a call fails the
 * test. */
#ifndef MLSI_TESTS_TRAINING_H
#define MLSI_TESTS_TRAINING_H

#include "support/program_case.h"

enum { TR_PARAMS = 4, TR_IN = 6, TR_HIDDEN = 8, TR_CLASSES = 4 };

typedef struct training {
    program_case pc;
    mlsys_graph g; /* inputs: x f32 [B,6], labels i64 [B], then the parameters w0, b0, w1, b1 */
    mlsys_value loss, params[TR_PARAMS];
    mlsys_tensor initial[TR_PARAMS];
} training;

void tn_open(training *t, int threads);
void tn_open_hooks(training *t, int threads, const mlsys_hooks *hooks);
void tn_close(training *t); /* as pc_close */
/* key=value settings of the scope "trainer". */
mlsys_config tn_config(const char *settings);
mlsys_trainer tn_create(training *t, const char *settings);
/* Batch number `number` of n examples. */
void tn_batch(training *t, int64_t number, int64_t n, mlsys_tensor in[2]);
/* Steps first .. last - 1 on their batches; the last loss. */
double tn_steps(training *t, mlsys_trainer trainer, int64_t first, int64_t last);
double tn_stat(mlsys_trainer trainer, const char *name);
/* SHA-256 of the bytes of a state, or of all parameters. */
void tn_hash_of(mlsys_trainer trainer, const char *name, char hash[65]);
void tn_hash(mlsys_trainer trainer, char hash[65]);

extern const char *const tn_names[TR_PARAMS];

#endif
