/* Generated C compiled by the system's compiler, loaded, and kept on disk.
 *
 * The cache is a folder of shared objects named by the SHA-256 of everything that decides their content: the text, the
 * vocabulary (cpu/gen.h), compiler, options, instruction set. Each ends with the SHA-256 of what is before, written to a
 * temporary file first, synced, renamed: a killed writer leaves nothing that is read, two writers write the same.
 * Only a folder that belongs to this user, and that nobody else may write, is used. */
#ifndef MLSI_CPU_JIT_H
#define MLSI_CPU_JIT_H

#include "core/backend.h"

mlsys_status mlsi_cpu_load(mlsi_alloc *a, const char *text, mlsi_isa isa, mlsi_module **out);
/* Compiled, loaded, not kept: for code that is tried out. */
mlsys_status mlsi_cpu_load_once(mlsi_alloc *a, const char *text, mlsi_isa isa, mlsi_module **out);
bool mlsi_cpu_cached(mlsi_alloc *a, const char *text, mlsi_isa isa);
mlsi_gen_fn mlsi_cpu_function(const mlsi_module *m, const char *name);
void mlsi_cpu_unload(mlsi_alloc *a, mlsi_module *m);

#endif
