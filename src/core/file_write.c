#include "core/file_write.h"

#include "core/faults.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER = 1 << 16, ATTEMPTS = 1000, MAX_SUFFIX = 32 };

struct mlsi_file_writer {
    mlsi_alloc *alloc;
    char *path, *temporary; /* from one allocation, which path heads */
    int fd;
    uint64_t held; /* bytes in the buffer */
    char buffer[BUFFER];
};

static mlsys_status refused(const char *path, const char *step, int error) {
    char text[128] = "";
    mlsys_status code = error == ENOENT || error == ENOTDIR ? MLSYS_E_NOTFOUND
                        : error == ENOMEM                   ? MLSYS_E_NOMEM
                                                            : MLSYS_E_IO;
    return mlsi_fail(code, "%.400s: cannot %s: %s", path, step,
                     strerror_r(error, text, sizeof text));
}

static void free_writer(mlsi_file_writer *w) {
    if (w->path) mlsi_mem_free(w->alloc, w->path);
    mlsi_mem_free(w->alloc, w);
}

/* A file that is there already belongs to somebody: another name is tried. */
static mlsys_status create(mlsi_file_writer *w) {
    for (int k = 0; k < ATTEMPTS; k++) {
        snprintf(w->temporary, strlen(w->path) + MAX_SUFFIX, "%s.tmp-%d", w->path, k);
        do
            w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        while (w->fd < 0 && errno == EINTR);
        if (w->fd >= 0) return MLSYS_OK;
        if (errno != EEXIST) break;
    }
    return refused(w->temporary, "create the file", errno);
}

mlsys_status mlsi_file_write_begin(mlsi_alloc *a, const char *path, mlsi_file_writer **out) {
    mlsi_file_writer *w;
    size_t n = strlen(path);
    *out = NULL;
    MLSI_TRY(MLSI_NEW(a, &w));
    w->alloc = a;
    mlsys_status st = mlsi_mem_alloc(a, 2 * n + 1 + MAX_SUFFIX, (void **)&w->path);
    if (st == MLSYS_OK) {
        memcpy(w->path, path, n + 1);
        w->temporary = w->path + n + 1;
        st = create(w);
    }
    if (st != MLSYS_OK) {
        free_writer(w);
        return st;
    }
    *out = w;
    return MLSYS_OK;
}

static mlsys_status put(mlsi_file_writer *w, const char *p, uint64_t bytes) {
    while (bytes) {
        ssize_t n = write(w->fd, p, bytes < 1 << 30 ? (size_t)bytes : 1 << 30);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return refused(w->path, "write the file", errno);
        p += n;
        bytes -= (uint64_t)n;
    }
    return MLSYS_OK;
}

static mlsys_status flush(mlsi_file_writer *w) {
    uint64_t n = w->held;
    w->held = 0;
    return put(w, w->buffer, n);
}

mlsys_status mlsi_file_write(mlsi_file_writer *w, const void *data, uint64_t bytes) {
    if (bytes > BUFFER - w->held) MLSI_TRY(flush(w));
    if (bytes > BUFFER) return put(w, data, bytes);
    if (bytes) memcpy(w->buffer + w->held, data, bytes);
    w->held += bytes;
    return MLSYS_OK;
}

/* The rename is durable when the folder is. A file system that cannot sync folders says EINVAL. */
static mlsys_status sync_folder(const mlsi_file_writer *w) {
    char *end = strrchr(w->temporary, '/');
    if (end) end[end == w->temporary] = 0;
    int fd = open(end ? w->temporary : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return MLSYS_OK; /* a folder that may be written but not read */
    int error = fsync(fd) && errno != EINVAL ? errno : 0;
    close(fd);
    return error ? refused(w->path, "sync the folder", error) : MLSYS_OK;
}

mlsys_status mlsi_file_write_commit(mlsi_file_writer *w) {
    mlsys_status st = flush(w);
    if (st == MLSYS_OK && fsync(w->fd)) st = refused(w->path, "sync the file", errno);
    if (st != MLSYS_OK) {
        mlsi_file_write_abort(w);
        return st;
    }
    int closed = close(w->fd);
    w->fd = -1;
    if (closed && errno != EINTR) st = refused(w->path, "close the file", errno);
    if (st == MLSYS_OK && rename(w->temporary, w->path)) st = refused(w->path, "rename", errno);
    if (st != MLSYS_OK) {
        mlsi_file_write_abort(w);
        return st;
    }
    st = sync_folder(w);
    free_writer(w);
    return st;
}

void mlsi_file_write_abort(mlsi_file_writer *w) {
    if (!w) return;
    if (w->fd >= 0) close(w->fd);
    if (!mlsi_fault(MLSI_FAULT_SAVE_IN_PLACE)) unlink(w->temporary);
    free_writer(w);
}
