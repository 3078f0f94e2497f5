/* Exporting a program as freestanding C99: what the three parts of it share.
 *
 * The program's graph is copied with each symbol at one value, so that all shapes are numbers. Walking its functions gives places
 * (memory) and steps; each step is a nest of loops made of one node, or of one fused function, and of the views through which it sees its
 * operands. Places that steps make are planned into one arena. Then the file is written. */
#ifndef MLSI_RUN_EXPORT_H
#define MLSI_RUN_EXPORT_H

#include "core/file_write.h"
#include "run/program.h"

typedef enum mlsi_place_kind {
    MLSI_AT_INPUT = 1, /* of the run */
    MLSI_AT_OUTPUT,
    MLSI_AT_CONST, /* an array of the file */
    MLSI_AT_ARENA
} mlsi_place_kind;

/* Dense memory. */
typedef struct mlsi_place_of {
    mlsi_place_kind kind;
    int32_t index; /* input, output, constant of the graph */
    uint64_t bytes, offset;
    int32_t first, last; /* steps that touch it */
} mlsi_place_of;

/* Where a value lies, place -1: nowhere as dense memory. */
typedef struct mlsi_spot {
    int32_t place;
    uint64_t offset; /* bytes in it */
} mlsi_spot;

typedef struct mlsi_export_step {
    const char *what; /* for the reader of the file */
    int32_t kernel;
    int32_t first_arg, n_args; /* inputs, then outputs */
    int64_t tasks;
    uint64_t work_bytes, work_offset;
} mlsi_export_step;

/* The text of one function; steps that do the same share it. */
typedef struct mlsi_export_kernel {
    mlsi_text text;
    uint64_t hash; /* of its body */
} mlsi_export_kernel;

typedef struct mlsi_export {
    const mlsi_program *program;
    const char *name;   /* of the file's functions */
    mlsi_graph graph;   /* the copy */
    mlsi_pass_ctx pass; /* over it */
    int64_t *binding;   /* per symbol of the copy */
    mlsi_place_of *places;
    mlsi_export_step *steps;
    mlsi_spot *args;
    mlsi_export_kernel *kernels;
    int64_t n_places, cap_places, n_steps, cap_steps, n_args, cap_args, n_kernels, cap_kernels;
    uint64_t arena_bytes, const_bytes;
} mlsi_export;

/* export_steps.c: places and steps of the copy's main. */
mlsys_status mlsi_export_walk(mlsi_export *x);
/* export_kernel.c: appends the step of a function, the copy's last, whose nodes have loops, and of an operand list. UNSUPPORTED, and
 * nothing is changed, where it is no single nest. */
mlsys_status mlsi_export_step_of(mlsi_export *x, int32_t func, const char *what, int n_args,
                                 const mlsi_spot *args);
/* export_write.c */
mlsys_status mlsi_export_write(mlsi_export *x, mlsi_file_writer *w);

#endif
