/* Exports a program, builds the file without libraries for this machine and, where a compiler and an emulator are installed, for others, and
 * runs it: the bits must be those of the library's own run. */
#ifndef MLSI_TESTS_EXPORT_CASE_H
#define MLSI_TESTS_EXPORT_CASE_H

#include "support/program_case.h"

typedef struct export_input {
    mlsys_dtype dtype;
    int rank;
    int64_t shape[4];
    int64_t below; /* integers are taken from [0, below); 0: any */
} export_input;

typedef struct export_case {
    const char *name;
    const char *text;     /* IR; "@" stands for random bytes of f32 constants */
    const char *settings; /* of compiling */
    int n_in, n_out;
    export_input in[3];
    const char *symbol; /* NULL: none, or its maximum */
    int64_t value;
} export_case;

/* Compilers and emulators. */
typedef struct export_target {
    const char *name, *flags, *run; /* of the host: "" */
    const char *compiler;
} export_target;
extern const export_target export_targets[];
extern const int n_export_targets;
bool export_target_is_here(const export_target *t);

mlsys_graph export_parse(const program_case *pc, kc_rng *r, const char *text);
/* Compile, run, export, build, run, compare. */
void export_compare(const program_case *pc, kc_rng *r, const export_case *c,
                    const export_target *t);
/* The same with what the caller has. inside: export this, which computes what p does; NULL: p. */
void export_check(const program_case *pc, mlsys_program p, const mlsi_program *inside,
                  const char *name, int n_in, mlsys_tensor *in, int n_out, const char *symbol,
                  int64_t value, const export_target *t);

#endif
