/* Where records lie: folder, path, whole text, appending; between tune_record.c, tune_replay.c and tune_file.c. */
#ifndef MLSI_TUNE_FILE_H
#define MLSI_TUNE_FILE_H

#include "core/cache_folder.h"
#include "run/tune.h"

/* False: there is none that may be used. */
bool mlsi_tune_folder(const mlsi_tune_key *key, char folder[MLSI_PATH_SIZE]);
void mlsi_tune_path(const mlsi_tune_key *key, const char *folder, char path[MLSI_PATH_SIZE + 32]);
/* NUL-ended; NULL for a file that is not there, or not this user's alone. */
mlsys_status mlsi_tune_file_text(mlsi_alloc *a, const char *path, char **text);
/* A new file gets a head that says of what it is. */
mlsys_status mlsi_tune_file_append(mlsi_alloc *a, const mlsi_tune_key *key, const char *path,
                                   const char *line, int64_t n);
/* tune_record.c: lines of a text, which is written over; those that are no records are counted and logged. known: the key
 * has its sizes, else it gets those of the first record. */
mlsys_status mlsi_tune_read_text(mlsi_ctx *ctx, mlsi_tune_key *key, bool known, const char *path,
                                 char *text, mlsi_tune_records *out);

#endif
