#include "core/cache_folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_private(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           !(st.st_mode & 022);
}

static bool make_folder(const char *path) {
    char part[MLSI_PATH_SIZE];
    for (size_t i = 1; path[i]; i++) {
        if (path[i] != '/') continue;
        memcpy(part, path, i);
        part[i] = 0;
        if (mkdir(part, 0700) && errno != EEXIST) return false;
    }
    if (mkdir(path, 0700) && errno != EEXIST) return false;
    return is_private(path);
}

bool mlsi_cache_folder(const char *name, char out[MLSI_PATH_SIZE]) {
    enum { ROOM = MLSI_PATH_SIZE - 128 };
    const char *own = getenv("MLSYS_CACHE"), *xdg = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    int n = -1;
    if (own && own[0] == '/')
        n = snprintf(out, ROOM, "%s/%s", own, name);
    else if (xdg && xdg[0] == '/')
        n = snprintf(out, ROOM, "%s/mlsys/%s", xdg, name);
    else if (home && home[0] == '/')
        n = snprintf(out, ROOM, "%s/.cache/mlsys/%s", home, name);
    return n > 0 && n < ROOM && make_folder(out);
}

bool mlsi_cache_file_is_private(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
           !(st.st_mode & 022);
}
