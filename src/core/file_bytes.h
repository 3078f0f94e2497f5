/* The bytes of a whole file, mapped or read. */
#ifndef MLSI_FILE_BYTES_H
#define MLSI_FILE_BYTES_H

#include "core/alloc.h"

typedef struct mlsi_file_bytes {
    mlsi_alloc *alloc;
    const void *data; /* aligned to 64 */
    uint64_t size;
    bool mapped;
} mlsi_file_bytes;

/* map: a private read-only mapping, so that pages are read when touched and shared with other
 * processes; the file must then keep its contents and length, since a page that has gone raises
 * SIGBUS in whoever touches it. Otherwise the file is read into memory from a. Errors NOTFOUND (no
 * such file), IO, NOMEM; sentences start with the path. */
mlsys_status mlsi_file_bytes_open(mlsi_alloc *a, const char *path, bool map, mlsi_file_bytes *out);
void mlsi_file_bytes_close(mlsi_file_bytes *f); /* zeroed or closed ones accepted */

#endif
