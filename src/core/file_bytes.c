#include "core/file_bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static mlsys_status refused(const char *path, const char *step, int error) {
    char text[128] = "";
    mlsys_status code = error == ENOENT || error == ENOTDIR ? MLSYS_E_NOTFOUND
                        : error == ENOMEM                   ? MLSYS_E_NOMEM
                                                            : MLSYS_E_IO;
    return mlsi_fail(code, "%.400s: cannot %s: %s", path, step,
                     strerror_r(error, text, sizeof text));
}

static mlsys_status map_file(const char *path, int fd, mlsi_file_bytes *f) {
    void *p = mmap(NULL, (size_t)f->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) return refused(path, "map the file", errno);
    f->data = p;
    f->mapped = true;
    return MLSYS_OK;
}

static mlsys_status read_file(const char *path, int fd, mlsi_file_bytes *f) {
    char *p;
    MLSI_TRY(mlsi_mem_alloc(f->alloc, f->size, (void **)&p));
    f->data = p;
    for (uint64_t at = 0; at < f->size;) {
        ssize_t n = read(fd, p + at, (size_t)(f->size - at));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return refused(path, "read the file", errno);
        if (n == 0)
            return mlsi_fail(MLSYS_E_IO,
                             "%.400s: the file shrank from %llu to %llu bytes while read", path,
                             (unsigned long long)f->size, (unsigned long long)at);
        at += (uint64_t)n;
    }
    return MLSYS_OK;
}

static mlsys_status fill(const char *path, int fd, bool map, mlsi_file_bytes *f) {
    struct stat st;
    if (fstat(fd, &st) != 0) return refused(path, "read the file's size", errno);
    if (!S_ISREG(st.st_mode)) return mlsi_fail(MLSYS_E_IO, "%.400s: not a regular file", path);
    f->size = (uint64_t)st.st_size;
    if (f->size > SIZE_MAX / 2)
        return mlsi_fail(MLSYS_E_IO, "%.400s: %llu bytes are too many for this process", path,
                         (unsigned long long)f->size);
    /* an empty mapping is an error of mmap's, an empty file is not */
    return map && f->size > 0 ? map_file(path, fd, f) : read_file(path, fd, f);
}

mlsys_status mlsi_file_bytes_open(mlsi_alloc *a, const char *path, bool map, mlsi_file_bytes *out) {
    memset(out, 0, sizeof *out);
    out->alloc = a;
    int fd;
    do
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a fifo must not block */
    while (fd < 0 && errno == EINTR);
    if (fd < 0) return refused(path, "open the file", errno);
    mlsys_status st = fill(path, fd, map, out);
    close(fd);
    if (st != MLSYS_OK) mlsi_file_bytes_close(out);
    return st;
}

void mlsi_file_bytes_close(mlsi_file_bytes *f) {
    if (f->mapped)
        munmap((void *)(uintptr_t)f->data, (size_t)f->size);
    else if (f->data)
        mlsi_mem_free(f->alloc, (void *)(uintptr_t)f->data);
    f->data = NULL;
    f->size = 0;
    f->mapped = false;
}
