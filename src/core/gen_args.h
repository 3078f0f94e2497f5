/* What a generated function is called with; text of this file goes into generated code. */
#ifndef MLSI_GEN_ARGS_H
#define MLSI_GEN_ARGS_H

#include <stdint.h>

typedef struct mlsi_gen_args {
    char *const *data;   /* parameters: inputs, then outputs; dense */
    const int64_t *dims; /* a value per shape symbol */
    char *work;          /* LOCAL memory of this worker */
    int64_t begin, end;  /* tasks */
    int64_t error[3];    /* of a failed BIND: value, extent, position */
    int stream; /* 1: store large outputs past the caches, 2: ask for the next row ahead; or both */
} mlsi_gen_args;

/* 0, or 1 + the number of the BIND that failed. */
typedef int64_t (*mlsi_gen_fn)(mlsi_gen_args *a);

#endif
