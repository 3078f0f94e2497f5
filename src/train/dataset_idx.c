#include "train/dataset.h"

#include "core/faults.h"

#include <inttypes.h>

enum { HEAD = 4, EXTENT = 4, TYPE_U8 = 8 };

static uint64_t big_endian(const uint8_t *p) {
    return (uint64_t)p[0] << 24 | (uint64_t)p[1] << 16 | (uint64_t)p[2] << 8 | p[3];
}

/* The rank, from the first four bytes. */
static mlsys_status read_head(const char *file, const uint8_t *data, uint64_t size, int32_t *rank) {
    if (size < HEAD || data[0] || data[1])
        return mlsi_fail(MLSYS_E_FORMAT, "%.400s: not an IDX file: it does not begin with 0 0",
                         file);
    if (data[2] != TYPE_U8)
        return mlsi_fail(MLSYS_E_UNSUPPORTED,
                         "%.400s: IDX elements of type 0x%02x; only bytes (0x08) are read", file,
                         data[2]);
    *rank = data[3];
    if (*rank < 1 || *rank > MLSYS_MAX_DIMS)
        return mlsi_fail(MLSYS_E_FORMAT, "%.400s: rank %d outside [1,%d]", file, *rank,
                         MLSYS_MAX_DIMS);
    return MLSYS_OK;
}

static mlsys_status read_dims(const char *file, const uint8_t *data, uint64_t size, int32_t rank,
                              int64_t *dims, uint64_t *total) {
    uint64_t elements = 1, head = HEAD + EXTENT * (uint64_t)rank;
    if (size < head)
        return mlsi_fail(MLSYS_E_FORMAT,
                         "%.400s: %" PRIu64 " bytes, a header of rank %d has %" PRIu64, file, size,
                         rank, head);
    for (int32_t d = 0; d < rank; d++) {
        uint64_t extent = big_endian(data + HEAD + EXTENT * d);
        if (!extent) return mlsi_fail(MLSYS_E_FORMAT, "%.400s: extent %d is 0", file, d);
        if (!mlsi_mul_u64(elements, extent, &elements) || elements > INT64_MAX - head)
            return mlsi_fail(MLSYS_E_FORMAT,
                             "%.400s: the product of %d extents does not fit 63 bits", file, d + 1);
        dims[d] = (int64_t)extent;
    }
    *total = head + elements;
    return MLSYS_OK;
}

mlsys_status mlsi_idx_measure(const char *file, const uint8_t *head, uint64_t head_bytes,
                              uint64_t *total) {
    int32_t rank;
    int64_t dims[MLSYS_MAX_DIMS];
    MLSI_TRY(read_head(file, head, head_bytes, &rank));
    return read_dims(file, head, head_bytes, rank, dims, total);
}

mlsys_status mlsi_idx_read(const char *file, const uint8_t *data, uint64_t size, mlsi_idx *out) {
    uint64_t total;
    MLSI_TRY(read_head(file, data, size, &out->rank));
    MLSI_TRY(read_dims(file, data, size, out->rank, out->dims, &total));
    if (total != size && !mlsi_fault(MLSI_FAULT_IDX_SIZE))
        return mlsi_fail(MLSYS_E_FORMAT, "%.400s: %" PRIu64 " bytes, its extents say %" PRIu64,
                         file, size, total);
    out->elements = data + HEAD + EXTENT * (uint64_t)out->rank;
    return MLSYS_OK;
}
