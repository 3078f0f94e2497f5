/* Where what can be made again is kept on disk. Only a folder that belongs to this user, and that nobody else may
 * write, is used. */
#ifndef MLSI_CACHE_FOLDER_H
#define MLSI_CACHE_FOLDER_H

#include <stdbool.h>

enum { MLSI_PATH_SIZE = 4096 };

/* $MLSYS_CACHE/name, $XDG_CACHE_HOME/mlsys/name or ~/.cache/mlsys/name, made when missing; name may have '/'. At most
 * MLSI_PATH_SIZE - 128 bytes. False: there is none that may be used. */
bool mlsi_cache_folder(const char *name, char out[MLSI_PATH_SIZE]);
/* A regular file of this user's that nobody else may write? */
bool mlsi_cache_file_is_private(const char *path);

#endif
