/* Exchange of tensors with other libraries: DLPack 1.x, by its public specification. The structs
 * are in dlpack.c; elsewhere a managed tensor is an opaque pointer. */
#ifndef MLSI_DLPACK_H
#define MLSI_DLPACK_H

#include "core/tensor.h"

enum { MLSI_DLPACK_READ_ONLY = 1, MLSI_DLPACK_IS_COPIED = 2 };

/* A new managed tensor that keeps t's storage. flags: 0 shares the memory, IS_COPIED exports a
 * fresh row-major copy. Read-only memory and views that overlap themselves carry the read-only
 * flag. Errors: UNSUPPORTED for block dtypes, ARG for other flags. */
mlsys_status mlsi_dlpack_export(mlsi_tensor *t, uint64_t flags, void **managed);
/* A tensor over the producer's memory, whose deleter runs when the storage dies. On failure nothing
 * is taken. */
mlsys_status mlsi_dlpack_import(mlsi_device *device, void *managed, mlsys_tensor *out);
void mlsi_dlpack_free(void *managed); /* NULL accepted */

#endif
