#include "core/sealed_file.h"

#include "core/cache_folder.h"
#include "core/faults.h"
#include "core/file_write.h"
#include "core/sha256.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum { SEAL = 32 };

static void digest_of(const void *p, uint64_t n, uint8_t digest[SEAL]) {
    mlsi_sha256 h;
    mlsi_sha256_init(&h);
    mlsi_sha256_add(&h, p, (size_t)n);
    mlsi_sha256_finish(&h, digest);
}

bool mlsi_sealed_read(mlsi_alloc *a, const char *path, mlsi_file_bytes *out) {
    uint8_t digest[SEAL];
    if (!mlsi_cache_file_is_private(path)) return false;
    if (mlsi_file_bytes_open(a, path, false, out) != MLSYS_OK) return false;
    bool whole = out->size > SEAL;
    if (whole) {
        out->size -= SEAL;
        digest_of(out->data, out->size, digest);
        whole = mlsi_fault(MLSI_FAULT_SEALED_FILE) ||
                !memcmp((const char *)out->data + out->size, digest, SEAL);
    }
    if (!whole) mlsi_file_bytes_close(out);
    return whole;
}

mlsys_status mlsi_sealed_write(mlsi_alloc *a, const char *path, const void *data, uint64_t bytes) {
    uint8_t digest[SEAL];
    mlsi_file_writer *w;
    digest_of(data, bytes, digest);
    MLSI_TRY(mlsi_file_write_begin(a, path, &w));
    mlsys_status st = mlsi_file_write(w, data, bytes);
    if (st == MLSYS_OK) st = mlsi_file_write(w, digest, SEAL);
    if (st == MLSYS_OK)
        st = mlsi_file_write_commit(w);
    else
        mlsi_file_write_abort(w);
    /* A umask that lets others write would make it a file that nobody reads. */
    if (st == MLSYS_OK && chmod(path, 0600))
        st = mlsi_fail(MLSYS_E_IO, "%.400s: %s", path, strerror(errno));
    return st;
}
