/* The system's C compiler: found once a call, run without a shell. */
#ifndef MLSI_CPU_COMPILER_H
#define MLSI_CPU_COMPILER_H

#include "core/backend.h"

typedef struct mlsi_compiler {
    char path[400];
    int64_t size, modified; /* of the file: another compiler is another cache entry */
} mlsi_compiler;

/* $MLSYS_CC, else cc, gcc or clang in PATH. UNSUPPORTED: there is none. */
mlsys_status mlsi_compiler_find(mlsi_compiler *c);
/* Options for an instruction set, ended by NULL. */
const char *const *mlsi_compiler_options(mlsi_isa isa);
/* Source to shared object. IO with the compiler's first words when it fails or takes minutes. */
mlsys_status mlsi_compiler_run(const mlsi_compiler *c, mlsi_isa isa, const char *source,
                               const char *object, const char *log);

#endif
