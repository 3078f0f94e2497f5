/* Files that end with the SHA-256 of what is before: whoever reads one knows that it is whole. Written beside their path, synced
 * and renamed: a killed writer leaves nothing that is read, two writers write the same. */
#ifndef MLSI_SEALED_FILE_H
#define MLSI_SEALED_FILE_H

#include "core/file_bytes.h"

#include <stdbool.h>

/* The bytes before the hash, to be closed. False: the file is absent, not this user's alone to write, or not whole. */
bool mlsi_sealed_read(mlsi_alloc *a, const char *path, mlsi_file_bytes *out);
mlsys_status mlsi_sealed_write(mlsi_alloc *a, const char *path, const void *data, uint64_t bytes);

#endif
