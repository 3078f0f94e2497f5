/* What the parts of the fake driver share. All under one lock, from BEGIN or CURRENT to done. */
#ifndef FAKE_CUDA_STATE_H
#define FAKE_CUDA_STATE_H

#include "cuda_shim/cuda_shim.h"
#include "fake_cuda.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

extern fake_cuda fake;

enum { INVALID_VALUE = 1, INVALID_DEVICE = 101, INVALID_IMAGE = 200, CAPTURE_UNSUPPORTED = 900 };
enum { CAPTURE_INVALIDATED = 901, DEPTH = 16, PARAMS = 32, ARGUMENTS = 400 };

typedef enum op_kind { OP_COPY, OP_FILL, OP_EVENT, OP_LAUNCH, OP_GRAPH } op_kind;

typedef struct op {
    struct op *next;
    op_kind kind;
    char *to;
    const char *from;
    size_t bytes;
    unsigned char byte;
    bool to_host, from_host, poisoned;
    CUevent event;
    const fake_kernel *kernel;
    unsigned blocks, threads, shared;
    uint64_t params[PARAMS];
    const struct CUfunc_st *shim; /* a kernel that runs, with its parameters */
    void **arguments;
    struct op *graph;
} op;

struct CUevent_st {
    int64_t pending;
};
struct CUstream_st {
    op *first, **end;
    bool capturing, invalid;
    CUstream next;
};
struct CUfunc_st {
    CUfunction next;
    const fake_kernel *kernel;
    cuda_shim_module *shim;
    void *call;
    bool waits; /* its threads have barriers without dynamic shared memory */
    int n_params;
    size_t bytes[ARGUMENTS];
    char name[64];
    int shared_most;
};
struct CUmod_st {
    char *text;
    cuda_shim_module *shim;
    CUfunction functions;
};
struct CUgraph_st {
    op *first;
};
struct CUgraphExec_st {
    op *first;
};

static inline bool fake_runs(void) { return getenv("FAKE_CUDA_RUN") != NULL; }
/* Memory that the end of the last context frees if nobody does. */
void *fake_make(size_t bytes);
void fake_drop(void *p);
/* The result of a call that counts as planned; then for calls on a context. */
CUresult fake_begin(const char *name);
CUresult fake_current(const char *name);
CUresult fake_done(CUresult r);
CUresult fake_give(CUstream s, const op *o);
void fake_free_ops(op *first);
void fake_run_streams(void);

#define BEGIN(name)                                                                                \
    CUresult result = fake_begin(name);                                                            \
    if (result) return fake_done(result)
#define CURRENT(name)                                                                              \
    CUresult result = fake_current(name);                                                          \
    if (result) return fake_done(result)

#endif
