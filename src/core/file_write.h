/* Writing a file so that its path always holds a whole one: the bytes go to a new file beside it, which is
 * synced and then renamed over it. */
#ifndef MLSI_FILE_WRITE_H
#define MLSI_FILE_WRITE_H

#include "core/alloc.h"

typedef struct mlsi_file_writer mlsi_file_writer;

/* Open "<path>.tmp-<number>" for writing. Errors IO, NOTFOUND (no such folder), NOMEM; sentences name the
 * path. On success the writer ends in exactly one of commit and abort. */
mlsys_status mlsi_file_write_begin(mlsi_alloc *a, const char *path, mlsi_file_writer **out);
/* Append. After a failure only abort is left to call. */
mlsys_status mlsi_file_write(mlsi_file_writer *w, const void *data, uint64_t bytes);
/* Sync, rename over path, sync the folder. Ends the writer; on failure path is as it was, unless only the
 * folder's sync failed: then it is the new file, which a power cut may still undo. */
mlsys_status mlsi_file_write_commit(mlsi_file_writer *w);
/* Remove what was written and end the writer; NULL accepted. */
void mlsi_file_write_abort(mlsi_file_writer *w);

#endif
