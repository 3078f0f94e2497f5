/* Storage, tensors, devices and streams as objects. */
#ifndef MLSI_TENSOR_H
#define MLSI_TENSOR_H

#include "core/ctx.h"
#include "core/layout.h"

typedef struct mlsi_device {
    mlsi_object object;
    mlsys_devtype type;
    int32_t index;
} mlsi_device;

/* A new reference to the context's only device object of this type and index. */
mlsys_status mlsi_device_get(mlsi_ctx *ctx, mlsys_devtype type, int32_t index, mlsys_device *out);

/* Scratch memory of a stream: one arena that programs plan into. */
typedef struct mlsi_stream {
    mlsi_object object;
    mlsi_device *device; /* pinned */
    char *scratch;
    uint64_t scratch_bytes;
    uint64_t plan_key; /* which (program, binding) the cached plan is for; see run/ */
    void *plan_cache;  /* owned by run/, freed through plan_free */
    void (*plan_free)(mlsi_alloc *a, void *plan_cache);
    _Atomic uint64_t tape; /* handle of the tape that records eager ops; 0 = none */
} mlsi_stream;

mlsys_status mlsi_stream_create(mlsi_device *device, const mlsi_config *config, mlsys_stream *out);

/* Reference-counted memory. */
typedef struct mlsi_storage {
    _Atomic int64_t refs;
    mlsi_ctx *ctx; /* pinned */
    uint64_t id;
    char *base;
    uint64_t bytes;
    bool readonly;
    _Atomic uint64_t version; /* grows with each write that the library makes or is told to make */
    void (*done)(void *user); /* for adopted memory; NULL = base is from ctx->alloc */
    void *user;
} mlsi_storage;

typedef struct mlsi_tensor {
    mlsi_object object;
    mlsi_device *device; /* pinned */
    mlsi_storage *storage;
    mlsi_layout layout;
} mlsi_tensor;

mlsys_status mlsi_storage_create(mlsi_ctx *ctx, uint64_t bytes, mlsi_storage **out);
mlsys_status mlsi_storage_adopt(mlsi_ctx *ctx, void *base, uint64_t bytes, bool readonly,
                                void (*done)(void *), void *user, mlsi_storage **out);
/* done will not be called: a call that adopted memory and then failed gives it back. */
void mlsi_storage_disown(mlsi_storage *s);
void mlsi_storage_retain(mlsi_storage *s);
void mlsi_storage_release(mlsi_storage *s); /* NULL accepted */
/* The library is about to write to it. */
void mlsi_storage_written(mlsi_storage *s);

/* New tensor object over storage (retained); the layout is checked against the storage's bounds. */
mlsys_status mlsi_tensor_make(mlsi_device *device, mlsi_storage *storage, const mlsi_layout *l,
                              mlsys_tensor *out);
/* Fresh row-major tensor. */
mlsys_status mlsi_tensor_new(mlsi_device *device, const mlsi_layout *l, mlsys_tensor *out);
/* Fresh row-major tensor l with t's elements in row-major order; equal counts. */
mlsys_status mlsi_tensor_copy_reshaped(mlsi_tensor *t, const mlsi_layout *l, mlsys_tensor *out);
mlsi_view mlsi_tensor_view_of(const mlsi_tensor *t);
/* Refuse writing through t: read-only storage or self-overlap. */
mlsys_status mlsi_tensor_writable(const mlsi_tensor *t, const char *what);

/* Copy src to dst, equal shapes and dtypes, any strides, no overlap between the two. Block dtypes
 * move whole blocks. */
void mlsi_copy_view(const mlsi_view *dst, const mlsi_view *src);
/* The same under any overlap: goes through scratch when the ranges may overlap. */
mlsys_status mlsi_copy_overlapping(mlsi_alloc *a, const mlsi_view *dst, const mlsi_view *src);

#endif
