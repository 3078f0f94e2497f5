/* One live object of every kind, over an allocator that counts, for calls into the whole interface.
 */
#ifndef MLSI_TESTS_ABI_FIXTURE_H
#define MLSI_TESTS_ABI_FIXTURE_H

#include <mlsys/mlsys.h>

typedef struct fixture {
    mlsys_config config;
    mlsys_ctx ctx;
    mlsys_device device;
    mlsys_stream stream;
    mlsys_tensor tensor, other, b; /* f32 [2,3], [2,3], [3,2] */
    mlsys_graph graph, callee;     /* x [2,3] -> neg; the callee likewise */
    mlsys_value input;
    mlsys_program program;
    mlsys_model model;
    mlsys_tokenizer tokenizer;
    mlsys_generator generator;
    mlsys_dataset dataset;      /* one field: tensor's rows */
    mlsys_config token_windows; /* opens any file of even size */
    mlsys_stream taped;         /* has run y[0] = neg(x[0]), on the record of tape */
    mlsys_tape tape;
    mlsys_tensor x[1], y[1];
    mlsys_graph trained; /* loss = sum(x * w) */
    mlsys_value loss, params[1];
    mlsys_trainer trainer;
    mlsys_tensor norm[1]; /* the model's tensor names[0] */
    const char *names[1];
    void *managed, *managed_out; /* DLPack */
    void *out[16];
    mlsys_tensor in[16];
    mlsys_value values[16];
    int64_t shape[16], strides[16], ints[16];
    int32_t perm[16], ids[16];
    float data[64];
    char buf[MLSYS_GENERATOR_TEXT], printed[4096];
    char *path, *saved; /* saved: a checkpoint of the trainer, at first */
    uint64_t need;
    mlsys_hooks hooks;
    mlsys_stats stats;
    mlsys_cost cost;
    mlsys_opdef opdef;
} fixture;

/* path is a model file (support/tiny_model.h), saved where calls may write. Aborts the test on failure. */
void fixture_create(fixture *f, char *path, char *saved);
/* Release all, and demand that nothing allocated through the context is left. */
void fixture_destroy(fixture *f);

#endif
