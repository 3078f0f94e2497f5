#include "core/dlpack.h"

#include "core/faults.h"

/* The structs of DLPack 1.x, field for field. */
typedef struct dl_version {
    uint32_t major, minor;
} dl_version;

typedef struct dl_device {
    int32_t type, id;
} dl_device;

typedef struct dl_dtype {
    uint8_t code, bits;
    uint16_t lanes;
} dl_dtype;

typedef struct dl_tensor {
    void *data;
    dl_device device;
    int32_t ndim;
    dl_dtype dtype;
    int64_t *shape;
    int64_t *strides; /* in elements */
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
    dl_version version; /* first in every version */
    void *manager;
    void (*deleter)(struct dl_managed *self); /* at a fixed place in every version */
    uint64_t flags;
    dl_tensor tensor;
} dl_managed;

_Static_assert(sizeof(dl_tensor) == 48 && sizeof(dl_managed) == 80, "DLPack's layout on 64 bits");

enum {
    DL_MAJOR = 1,
    DL_MINOR = 0,
    DL_CPU = 1,
    DL_CUDA = 2,
    DL_CUDA_HOST = 3,
    DL_CUDA_MANAGED = 13
};
enum {
    DL_INT = 0,
    DL_UINT = 1,
    DL_FLOAT = 2,
    DL_BFLOAT = 4,
    DL_BOOL = 6,
    DL_E4M3FN = 10,
    DL_E5M2 = 12
};

static const struct {
    mlsys_dtype dtype;
    uint8_t code, bits;
} dtypes[] = {
    {MLSYS_F64, DL_FLOAT, 64},   {MLSYS_F32, DL_FLOAT, 32},    {MLSYS_F16, DL_FLOAT, 16},
    {MLSYS_BF16, DL_BFLOAT, 16}, {MLSYS_F8E4M3, DL_E4M3FN, 8}, {MLSYS_F8E5M2, DL_E5M2, 8},
    {MLSYS_I64, DL_INT, 64},     {MLSYS_I32, DL_INT, 32},      {MLSYS_I16, DL_INT, 16},
    {MLSYS_I8, DL_INT, 8},       {MLSYS_U8, DL_UINT, 8},       {MLSYS_BOOL, DL_BOOL, 8},
};
enum { DTYPES = (int)(sizeof dtypes / sizeof dtypes[0]) };

/* ---- export --------------------------------------------------------------------------------- */

typedef struct exported {
    dl_managed managed;
    mlsi_ctx *ctx; /* pinned: owns this struct's memory */
    mlsi_storage *storage;
    int64_t shape[MLSYS_MAX_DIMS], strides[MLSYS_MAX_DIMS];
} exported;

static void exported_delete(dl_managed *self) {
    exported *e = (exported *)self;
    mlsi_ctx *ctx = e->ctx;
    mlsi_storage_release(e->storage);
    mlsi_mem_free(&ctx->alloc, e);
    mlsi_unpin(ctx);
}

/* Dims of extent 1 get the stride they would have if dense: consumers check it. */
static void canonical_strides(const mlsi_layout *l, int64_t *strides) {
    int64_t next = 1;
    for (int d = l->rank - 1; d >= 0; d--) {
        strides[d] = l->shape[d] == 1 ? next : l->strides[d];
        next = strides[d] * (l->shape[d] ? l->shape[d] : 1);
    }
}

static mlsys_status export_storage(mlsi_tensor *t, bool copy, mlsi_layout *l,
                                   mlsi_storage **storage) {
    *l = t->layout;
    *storage = t->storage;
    if (!copy) {
        mlsi_storage_retain(t->storage);
        return MLSYS_OK;
    }
    MLSI_TRY(mlsi_layout_row_major(l, t->layout.dtype, t->layout.rank, t->layout.shape));
    MLSI_TRY(mlsi_storage_create(t->device, mlsi_layout_bytes(l), storage));
    mlsi_tensor to = *t;
    to.storage = *storage;
    to.layout = *l;
    mlsys_status st = mlsi_tensor_transfer(&to, t);
    if (st != MLSYS_OK) mlsi_storage_release(*storage);
    return st;
}

mlsys_status mlsi_dlpack_export(mlsi_tensor *t, uint64_t flags, void **managed) {
    *managed = NULL;
    if (flags & ~(uint64_t)MLSI_DLPACK_IS_COPIED)
        return mlsi_fail(MLSYS_E_ARG, "tensor_to_dlpack: flags 0x%llx: only 0 and 2 (copy) exist",
                         (unsigned long long)flags);
    int row = 0;
    while (row < DTYPES && dtypes[row].dtype != t->layout.dtype)
        row++;
    if (row == DTYPES)
        return mlsi_fail(MLSYS_E_UNSUPPORTED, "tensor_to_dlpack: DLPack has no %s",
                         mlsi_dtype_get(t->layout.dtype)->name);
    mlsi_ctx *ctx = t->object.ctx;
    exported *e;
    MLSI_TRY(MLSI_NEW(&ctx->alloc, &e));
    mlsi_layout l;
    bool copy = flags & MLSI_DLPACK_IS_COPIED;
    mlsys_status st = export_storage(t, copy, &l, &e->storage);
    if (st != MLSYS_OK) {
        mlsi_mem_free(&ctx->alloc, e);
        return st;
    }
    e->ctx = ctx;
    mlsi_repin(ctx);
    memcpy(e->shape, l.shape, sizeof e->shape);
    canonical_strides(&l, e->strides);
    mlsi_view v = mlsi_view_of(e->storage->base, &l);
    bool readonly = (e->storage->readonly || mlsi_layout_self_overlaps(&l)) &&
                    !mlsi_fault(MLSI_FAULT_DLPACK_READ_ONLY);
    e->managed = (dl_managed){
        .version = {DL_MAJOR, DL_MINOR},
        .manager = ctx,
        .deleter = exported_delete,
        .flags = (readonly ? MLSI_DLPACK_READ_ONLY : 0) | (copy ? MLSI_DLPACK_IS_COPIED : 0),
        .tensor = {.data = mlsi_layout_count(&l) ? v.data : NULL,
                   .device = {mlsi_is_host(t->device) ? DL_CPU : DL_CUDA, t->device->index},
                   .ndim = l.rank,
                   .dtype = {dtypes[row].code, dtypes[row].bits, 1},
                   .shape = l.rank ? e->shape : NULL,
                   .strides = l.rank ? e->strides : NULL}};
    *managed = &e->managed;
    return MLSYS_OK;
}

/* ---- import --------------------------------------------------------------------------------- */

static void imported_done(void *user) { mlsi_dlpack_free(user); }

void mlsi_dlpack_free(void *managed) {
    dl_managed *m = managed;
    if (m && m->deleter) m->deleter(m);
}

static mlsys_status import_layout(const mlsi_device *on, const dl_tensor *t, mlsi_layout *l) {
    bool host = t->device.type == DL_CPU || t->device.type == DL_CUDA_HOST ||
                t->device.type == DL_CUDA_MANAGED;
    if (mlsi_is_host(on) && !host)
        return mlsi_fail(MLSYS_E_DEVICE, "tensor_from_dlpack: device type %d is not host memory",
                         t->device.type);
    if (!mlsi_is_host(on) && (t->device.type != DL_CUDA || t->device.id != on->index))
        return mlsi_fail(MLSYS_E_DEVICE,
                         "tensor_from_dlpack: device type %d, number %d is not CUDA device %d",
                         t->device.type, t->device.id, on->index);
    int row = 0;
    while (row < DTYPES &&
           !(dtypes[row].code == t->dtype.code && dtypes[row].bits == t->dtype.bits))
        row++;
    if (row == DTYPES || t->dtype.lanes != 1)
        return mlsi_fail(MLSYS_E_DTYPE, "tensor_from_dlpack: dtype code %d, bits %d, lanes %d",
                         t->dtype.code, t->dtype.bits, t->dtype.lanes);
    MLSI_TRY(mlsi_layout_row_major(l, dtypes[row].dtype, t->ndim, t->shape));
    for (int d = 0; t->strides && d < t->ndim; d++)
        l->strides[d] = t->strides[d];
    return mlsi_layout_validate(l);
}

mlsys_status mlsi_dlpack_import(mlsi_device *device, void *managed, mlsys_tensor *out) {
    *out = NULL;
    dl_managed *m = managed;
    if (m->version.major != DL_MAJOR) /* nothing behind the version may be read */
        return mlsi_fail(MLSYS_E_VERSION,
                         "tensor_from_dlpack: DLPack %u.%u, this library reads 1.x",
                         m->version.major, m->version.minor);
    const dl_tensor *t = &m->tensor;
    mlsi_layout l;
    MLSI_TRY(import_layout(device, t, &l));
    /* The storage is exactly what the view reaches: it starts at the lowest element. */
    int64_t low, high, bytes;
    MLSI_TRY(mlsi_layout_bounds(&l, &low, &high));
    int64_t size = mlsi_dtype_size(l.dtype), back;
    if (!mlsi_mul_i64(low, size, &back) ||
        !mlsi_add_i64(high, low == INT64_MIN ? 0 : -low, &bytes) ||
        !mlsi_mul_i64(bytes, size, &bytes))
        return mlsi_fail(MLSYS_E_SHAPE, "tensor_from_dlpack: the strides overflow");
    if (bytes && !t->data) return mlsi_fail(MLSYS_E_ARG, "tensor_from_dlpack: data is NULL");
    char *first = bytes ? (char *)t->data + t->byte_offset : NULL;
    if ((uintptr_t)first % (uintptr_t)mlsi_dtype_align(l.dtype))
        return mlsi_fail(MLSYS_E_ARG, "tensor_from_dlpack: %p is not aligned to %d bytes",
                         (void *)first, mlsi_dtype_align(l.dtype));
    l.offset = -low;
    mlsi_storage *storage;
    MLSI_TRY(mlsi_storage_adopt(device->object.ctx, bytes ? first + back : NULL, (uint64_t)bytes,
                                m->flags & MLSI_DLPACK_READ_ONLY, imported_done, m, &storage));
    mlsys_status st = mlsi_tensor_make(device, storage, &l, out);
    if (st != MLSYS_OK && !mlsi_fault(MLSI_FAULT_DLPACK_OWNERSHIP)) mlsi_storage_disown(storage);
    mlsi_storage_release(storage);
    return st;
}
