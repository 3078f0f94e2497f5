/* Files as they are, and gzip files (RFC 1952) of one member. */
#include "core/faults.h"
#include "train/dataset.h"

#include <inttypes.h>
#include <string.h>
#if defined(MLSI_HAVE_ZLIB)
#include <zlib.h>
#endif

mlsys_status mlsi_dataset_file_open(mlsi_alloc *a, const char *path, mlsi_dataset_measure measure,
                                    mlsi_dataset_file *out) {
    memset(out, 0, sizeof *out);
    out->alloc = a;
    MLSI_TRY(mlsi_file_bytes_open(a, path, true, &out->raw));
    out->data = out->raw.data;
    out->size = out->raw.size;
    if (out->size < 2 || out->data[0] != 0x1f || out->data[1] != 0x8b) return MLSYS_OK;
    mlsys_status st =
        mlsi_gzip_unpack(a, path, out->data, out->size, measure, &out->unpacked, &out->size);
    out->data = out->unpacked;
    mlsi_file_bytes_close(&out->raw);
    return st;
}

void mlsi_dataset_file_close(mlsi_dataset_file *f) {
    if (f->alloc) mlsi_mem_free(f->alloc, f->unpacked);
    mlsi_file_bytes_close(&f->raw);
    memset(f, 0, sizeof *f);
}

#if defined(MLSI_HAVE_ZLIB)

enum {
    HEAD_BYTES = 4 + 4 * MLSYS_MAX_DIMS,
    SMALLEST = 18, /* a gzip member: header 10, trailer 8 */
    RATIO = 1032,  /* deflate's largest: 258 bytes from two bits */
    AT_ONCE = 1 << 30
};

static void *take(void *alloc, unsigned items, unsigned size) {
    void *p;
    return mlsi_mem_alloc(alloc, (uint64_t)items * size, &p) == MLSYS_OK ? p : NULL;
}
static void give(void *alloc, void *p) { mlsi_mem_free(alloc, p); }

static mlsys_status refused(const char *file, const z_stream *z, int code) {
    if (code == Z_MEM_ERROR)
        return mlsi_fail(MLSYS_E_NOMEM, "%.400s: no memory to unpack it", file);
    if (code == Z_BUF_ERROR || code == Z_OK)
        return mlsi_fail(MLSYS_E_FORMAT, "%.400s: the gzip data end too early", file);
    return mlsi_fail(MLSYS_E_FORMAT, "%.400s: broken gzip data: %s", file,
                     z->msg ? z->msg : "not a stream of one member");
}

static mlsys_status begin(mlsi_alloc *a, const char *file, const uint8_t *data, z_stream *z) {
    memset(z, 0, sizeof *z);
    z->zalloc = take;
    z->zfree = give;
    z->opaque = a;
    z->next_in = (Bytef *)(uintptr_t)data;
    int code = inflateInit2(z, 15 + 16); /* gzip, with its check sum */
    return code == Z_OK ? MLSYS_OK : refused(file, z, code);
}

/* Unpacks up to n bytes: *got of them; Z_STREAM_END at the stream's end. */
static int unpack(z_stream *z, const uint8_t *end, uint8_t *to, uint64_t n, uint64_t *got) {
    int code = Z_OK;
    uint8_t nothing;
    *got = 0;
    do { /* also with n = 0: the trailer is behind the data */
        uint64_t in = (uint64_t)(end - z->next_in), out = n - *got;
        z->next_out = n ? to + *got : &nothing;
        z->avail_in = (unsigned)(in < AT_ONCE ? in : AT_ONCE);
        z->avail_out = (unsigned)(out < AT_ONCE ? out : AT_ONCE);
        unsigned room = z->avail_out;
        code = inflate(z, Z_NO_FLUSH);
        *got += room - z->avail_out;
    } while (code == Z_OK && (*got < n || z->next_in < end) && (*got < n || z->avail_out > 0));
    return code;
}

static uint64_t trailer(const uint8_t *data, uint64_t size) {
    const uint8_t *p = data + size - 4;
    return (uint64_t)p[3] << 24 | (uint64_t)p[2] << 16 | (uint64_t)p[1] << 8 | p[0];
}

/* What must come out of the file. */
static mlsys_status total_of(mlsi_alloc *a, const char *file, const uint8_t *data, uint64_t size,
                             mlsi_dataset_measure measure, uint64_t *total) {
    *total = trailer(data, size);
    if (measure) {
        uint8_t head[HEAD_BYTES];
        uint64_t got;
        z_stream z;
        MLSI_TRY(begin(a, file, data, &z));
        int code = unpack(&z, data + size, head, sizeof head, &got);
        mlsys_status st = MLSYS_OK;
        if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
            st = refused(file, &z, code);
        inflateEnd(&z);
        if (st == MLSYS_OK) st = measure(file, head, got, total);
        if (st != MLSYS_OK) return st;
        if ((*total & UINT32_MAX) != trailer(data, size))
            return mlsi_fail(MLSYS_E_FORMAT,
                             "%.400s: %" PRIu64 " bytes are packed by the gzip trailer (modulo "
                             "2^32), %" PRIu64 " by the header inside",
                             file, trailer(data, size), *total);
    }
    if (*total / RATIO > size && !mlsi_fault(MLSI_FAULT_GZIP_BOMB))
        return mlsi_fail(MLSYS_E_FORMAT,
                         "%.400s: %" PRIu64 " bytes cannot be packed in a gzip file of %" PRIu64,
                         file, *total, size);
    return MLSYS_OK;
}

mlsys_status mlsi_gzip_unpack(mlsi_alloc *a, const char *file, const uint8_t *data, uint64_t size,
                              mlsi_dataset_measure measure, void **out, uint64_t *out_size) {
    uint64_t total, got, more = 0;
    uint8_t extra[1];
    z_stream z;
    *out = NULL;
    if (size < SMALLEST)
        return mlsi_fail(MLSYS_E_FORMAT, "%.400s: %" PRIu64 " bytes are no gzip file", file, size);
    MLSI_TRY(total_of(a, file, data, size, measure, &total));
    MLSI_TRY(mlsi_mem_alloc(a, total, out));
    mlsys_status st = begin(a, file, data, &z);
    if (st == MLSYS_OK) {
        int code = unpack(&z, data + size, *out, total, &got);
        if (code == Z_OK) code = unpack(&z, data + size, extra, sizeof extra, &more);
        if (more)
            st = mlsi_fail(MLSYS_E_FORMAT,
                           "%.400s: more is packed than the %" PRIu64
                           " bytes that the file says (several members, or over 4 GiB)",
                           file, total);
        else if (code != Z_STREAM_END)
            st = refused(file, &z, code);
        else if (got != total || z.next_in != data + size)
            st = mlsi_fail(MLSYS_E_FORMAT,
                           "%.400s: %" PRIu64 " bytes unpacked of %" PRIu64 ", %" PRIu64
                           " bytes behind the end of the gzip data",
                           file, got, total, (uint64_t)(data + size - z.next_in));
        inflateEnd(&z);
    }
    if (st != MLSYS_OK) {
        mlsi_mem_free(a, *out);
        *out = NULL;
    }
    *out_size = total;
    return st;
}

#else

mlsys_status mlsi_gzip_unpack(mlsi_alloc *a, const char *file, const uint8_t *data, uint64_t size,
                              mlsi_dataset_measure measure, void **out, uint64_t *out_size) {
    (void)a, (void)data, (void)size, (void)measure, (void)out_size;
    *out = NULL;
    return mlsi_fail(MLSYS_E_UNSUPPORTED,
                     "%.400s: a gzip file, and this build of the library has no zlib", file);
}

#endif
