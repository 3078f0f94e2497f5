/* A program of one op: made, filled with random numbers, run by a public call or by its kernels
 * alone, and judged. The judgement has two parts: ranges of the output against the reference
 * interpreter, bit for bit (the interpreter shares no code with the kernels), and, where that is
 * affordable, every byte of it against the portable C kernels, which numerics=exact promises to be
 * the same. */
#ifndef BENCH_ONE_OP_H
#define BENCH_ONE_OP_H

#include "support/program.h"

enum { ONE_OP_INPUTS = 3, ONE_OP_ATTRS = 4 };

typedef struct one_op_input {
    mlsys_dtype dtype; /* 0 = no such input */
    int32_t ndim;
    int64_t shape[4];
    bool constant;   /* known at compile time: may be packed */
    int row, column; /* the axis that the output's rows (columns) depend on, plus one; 0 = all of it
                        is needed */
} one_op_input;

typedef struct one_op_case {
    const char *name, *op;
    one_op_input in[ONE_OP_INPUTS];
    int out_row, out_column; /* axes of the output that are cut, plus one; 0 = not cut */
    int64_t rows, columns;   /* length of a judged range */
    bool last_rows;          /* only the last rows may be judged alone (causal attention) */
    const char *attrs[ONE_OP_ATTRS][2]; /* key, value */
} one_op_case;

typedef struct one_op {
    const one_op_case *what;
    bench_library lib;
    mlsys_program program;
    mlsys_tensor in[ONE_OP_INPUTS], run_in[ONE_OP_INPUTS], out;
    int n_in, n_run_in;
    mlsys_cost cost;
    const char *numerics;
    uint64_t seed, portable_digest;
    double portable_limit; /* flops up to which the portable kernels are run */
    bool plant;
    void *pinned_program, *pinned_stream, *bound; /* of the kernel boundary */
    const char *kernel;                           /* name of its first kernel */
} one_op;

/* Exits when the library refuses. */
void one_op_open(one_op *o, const one_op_case *what, int threads, const char *numerics,
                 uint64_t seed);
void one_op_close(one_op *o);
/* As a subject of the harness; the name is kept by the caller. */
bench_subject one_op_subject(one_op *o, bench_boundary boundary, bench_cache cache, int threads,
                             const char *name);
/* False when a step has no kernel. */
bool one_op_has_kernels(const one_op *o);
/* "f32[1024,1024] f32[1024,1024]" */
void one_op_shapes(const one_op_case *c, char *out, size_t cap);

#endif
