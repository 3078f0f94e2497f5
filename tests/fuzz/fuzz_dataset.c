/* Any bytes as a file of training data. The first byte chooses the reader: IDX, CSV with or without a header, gzip
 * with IDX or CSV inside. They are refused with a sentence, or everything that the reader gives is sound. Also
 * checked: the stated bounds on memory, and that nothing stays allocated. */
#include "train/dataset.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEMAND(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) __builtin_trap();                                                        \
    } while (0)

static volatile uint64_t sink;
static mlsi_alloc alloc;

static mlsys_status read_idx(const uint8_t *data, size_t size) {
    mlsi_idx x;
    uint64_t n = 1, sum = 0;
    mlsys_status st = mlsi_idx_read("fuzz.data", data, size, &x);
    if (st != MLSYS_OK) return st;
    DEMAND(x.rank >= 1 && x.rank <= MLSYS_MAX_DIMS);
    for (int32_t d = 0; d < x.rank; d++) {
        DEMAND(x.dims[d] > 0);
        n *= (uint64_t)x.dims[d];
    }
    DEMAND(x.elements >= data && n <= (uint64_t)(data + size - x.elements));
    for (uint64_t i = 0; i < n; i++)
        sum += x.elements[i];
    sink = sum;
    return st;
}

static mlsys_status read_csv(const uint8_t *data, size_t size, bool header, const char *label) {
    mlsi_csv t;
    mlsys_status st = mlsi_csv_read(&alloc, "fuzz.data", data, size, header, NULL, label, &t);
    if (st == MLSYS_OK) {
        DEMAND(t.rows > 0 && t.columns > 0 && !t.labels == !label);
        for (int64_t i = 0; i < t.rows * t.columns; i++)
            DEMAND(t.numbers[i] - t.numbers[i] == 0); /* finite */
        for (int64_t i = 0; i < t.rows && label; i++)
            sink += (uint64_t)t.labels[i];
        mlsi_mem_free(&alloc, t.numbers);
        mlsi_mem_free(&alloc, t.labels);
    }
    DEMAND(!t.rows == (st != MLSYS_OK));
    return st;
}

static mlsys_status read_gzip(const uint8_t *data, size_t size, bool idx) {
    void *p;
    uint64_t n;
    mlsys_status st =
        mlsi_gzip_unpack(&alloc, "fuzz.data", data, size, idx ? mlsi_idx_measure : NULL, &p, &n);
    if (st != MLSYS_OK) return st;
    st = idx ? read_idx(p, n) : read_csv(p, n, true, NULL);
    mlsi_mem_free(&alloc, p);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    int kind = data[0] % 5;
    uint8_t *copy = malloc(size); /* with an end that a sanitizer knows */
    mlsys_status st;
    if (!copy) return 0;
    memcpy(copy, data + 1, --size);
    mlsi_alloc_init(&alloc, NULL);
    if (kind < 3)
        st = kind ? read_csv(copy, size, kind == 1, kind == 1 ? "y" : NULL) : read_idx(copy, size);
    else
        st = read_gzip(copy, size, kind == 3);
    DEMAND(alloc.live_bytes == 0);
    DEMAND(alloc.peak_bytes <= (kind < 3 ? 256 : 1032 * 256) * (uint64_t)size + 128 * 1024);
    if (st != MLSYS_OK) {
        DEMAND(st == MLSYS_E_FORMAT || st == MLSYS_E_UNSUPPORTED || st == MLSYS_E_NOTFOUND);
        DEMAND(!strncmp(mlsys_last_error(), "fuzz.data: ", 11));
    }
    free(copy);
    return 0;
}
