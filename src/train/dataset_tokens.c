#include "core/faults.h"
#include "train/dataset.h"

#include <inttypes.h>
#include <string.h>

mlsys_status mlsi_tokens_windows(mlsi_dataset *d, const char *what, int64_t n) {
    d->count = n > 0 ? (n - 1) / d->length : 0; /* the last window has a target behind it */
    d->n_fields = 2;
    if (d->count > 0) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_FORMAT,
                     "%.400s: %" PRId64 " tokens; an example of length %" PRId64 " needs %" PRId64,
                     what, n, d->length, d->length + 1);
}

mlsys_status mlsi_tokens_read(mlsi_dataset *d, const char *file, const char *dtype) {
    static const struct {
        const char *name;
        mlsys_dtype dtype;
        bool is_unsigned;
    } kinds[] = {{"u16", MLSYS_I16, true}, {"u32", MLSYS_I32, true}, {"i32", MLSYS_I32, false}};
    mlsi_view *v = &d->fields[0];
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strcmp(kinds[i].name, dtype)) {
            v->dtype = kinds[i].dtype;
            d->is_unsigned = kinds[i].is_unsigned;
        }
    if (!v->dtype)
        return mlsi_fail(MLSYS_E_ARG, "dtype is none of u16, u32, i32: \"%.32s\"", dtype);
    uint64_t each = (uint64_t)mlsi_dtype_size(v->dtype), size = d->files[0].size;
    if (size % each)
        return mlsi_fail(MLSYS_E_FORMAT, "%.400s: %" PRIu64 " bytes are not whole tokens of %s",
                         file, size, dtype);
    v->data = (void *)(uintptr_t)d->files[0].data;
    v->rank = 1;
    v->shape[0] = (int64_t)(size / each);
    v->strides[0] = 1;
    return mlsi_tokens_windows(d, file, v->shape[0]);
}

/* Id number i, widened; ids of a file need not be aligned. */
static int64_t id_at(const mlsi_dataset *d, int64_t i) {
    const mlsi_view *v = &d->fields[0];
    const char *p = (const char *)v->data + i * v->strides[0] * mlsi_dtype_size(v->dtype);
    uint16_t narrow;
    int32_t wide;
    if (v->dtype == MLSYS_I16) return memcpy(&narrow, p, sizeof narrow), narrow;
    memcpy(&wide, p, sizeof wide);
    return d->is_unsigned ? (int64_t)(uint32_t)wide : wide;
}

int64_t mlsi_tokens_copy(const mlsi_dataset *d, int64_t example, int32_t *inputs,
                         int32_t *targets) {
    int64_t first = example * d->length, bad = -1;
    int64_t later = mlsi_fault(MLSI_FAULT_TOKENS_TARGET) ? 0 : 1;
    for (int64_t k = d->length - 1; k >= 0; k--) {
        int64_t id = id_at(d, first + k), next = id_at(d, first + k + later);
        if (next > INT32_MAX) bad = first + k + later;
        if (id > INT32_MAX) bad = first + k;
        inputs[k] = (int32_t)id;
        targets[k] = (int32_t)next;
    }
    return bad;
}
