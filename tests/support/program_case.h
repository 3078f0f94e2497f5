/* A context, a device and a stream, and short ways to compile, run and compare graphs. Any failure of a
 * call fails the test. */
#ifndef MLSI_TESTS_PROGRAM_CASE_H
#define MLSI_TESTS_PROGRAM_CASE_H

#include "run/program.h"
#include "support/random_graph.h"

#include <check.h>

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != MLSYS_OK) ck_abort_msg("%s", mlsys_last_error());                            \
    } while (0)

typedef struct program_case {
    mlsys_ctx ctx_handle;
    mlsi_ctx *ctx; /* pinned, like all of these */
    mlsys_device device_handle;
    mlsi_device *device;
    mlsys_stream stream;
} program_case;

void pc_open(program_case *p, int threads);
void pc_open_hooks(program_case *p, int threads, const mlsys_hooks *hooks);
/* Demands that no handle and no memory of the context is left. */
void pc_close(program_case *p);

/* IR text without its first line. */
mlsys_graph pc_parse(const program_case *p, const char *text);
/* key = value settings: "plan=0 passes_off=cse,fold isa=portable"; "" for none. verify is on. */
mlsys_program pc_compile(const program_case *p, mlsys_graph g, const char *settings);
mlsys_program pc_compile_inside(const program_case *p, const mlsi_graph *g, const char *settings);
/* Compile and interpret with the same inputs; all outputs must have the same bits. */
void pc_compare(const program_case *p, mlsys_graph g, const char *settings, int n_in,
                const mlsys_tensor *in, int n_out);
void pc_interpret_inside(const program_case *p, const mlsi_graph *g, int n_in,
                         const mlsys_tensor *in, int n_out, mlsys_tensor *out);

mlsys_tensor pc_tensor(const program_case *p, mlsys_dtype dtype, int rank, const int64_t *shape,
                       const void *data);
mlsys_tensor pc_f32(const program_case *p, int64_t n, const float *data);
/* Filled with random values. */
mlsys_tensor pc_random(const program_case *p, kc_rng *r, mlsys_dtype dtype, int rank,
                       const int64_t *shape);
void pc_release(int n, mlsys_tensor *t); /* and set them to NULL */
uint64_t pc_allocations(const program_case *p);
/* The status and a part of the sentence. */
void pc_expect(mlsys_status got, mlsys_status want, const char *text);

#endif
