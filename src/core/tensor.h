/* Storage, tensors, devices and streams as objects. */
#ifndef MLSI_TENSOR_H
#define MLSI_TENSOR_H

#include "core/accelerator.h"
#include "core/ctx.h"
#include "core/layout.h"

typedef struct mlsi_device {
    mlsi_object object;
    mlsys_devtype type;
    int32_t index;
    struct mlsi_device *next;      /* in the context's list */
    const mlsi_accelerator *accel; /* NULL: the host, whose memory is the context's */
    mlsi_accel *opened;
    mlsi_queue *transfers; /* for what no stream's queue does */
    pthread_mutex_t lock;  /* of transfers */
} mlsi_device;

static inline bool mlsi_is_host(const mlsi_device *d) { return !d->accel; }

/* 0 where there is no such backend or device; mlsi_device_get says why. */
mlsys_status mlsi_device_count(mlsys_devtype type, int32_t *out);
/* A new reference to the context's only device object of this type and index. */
mlsys_status mlsi_device_get(mlsi_ctx *ctx, mlsys_devtype type, int32_t index, mlsys_device *out);

/* A queue of work and its scratch memory: one arena that programs plan into. */
typedef struct mlsi_stream {
    mlsi_object object;
    mlsi_device *device; /* pinned */
    mlsi_queue *queue;   /* NULL on the host, where work is done when the call returns */
    char *scratch;       /* of the device */
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
    mlsi_ctx *ctx;       /* pinned */
    mlsi_device *device; /* pinned; NULL: adopted memory of the host */
    uint64_t id;
    char *base;
    uint64_t bytes;
    bool readonly;
    _Atomic uint64_t version; /* grows with each write that the library makes or is told to make */
    void (*done)(void *user); /* for adopted memory; NULL = base is the device's */
    void *user;
} mlsi_storage;

typedef struct mlsi_tensor {
    mlsi_object object;
    mlsi_device *device; /* pinned */
    mlsi_storage *storage;
    mlsi_layout layout;
} mlsi_tensor;

mlsys_status mlsi_storage_create(mlsi_device *device, uint64_t bytes, mlsi_storage **out);
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

/* ---- memory of any device (transfer.c) ------------------------------------------------------- */

/* Scratch and other memory that is no tensor's. */
mlsys_status mlsi_device_alloc(mlsi_device *d, uint64_t bytes, char **out);
void mlsi_device_free(mlsi_device *d, void *p); /* NULL accepted */
/* Bytes between the host and a device; done when the call returns. */
mlsys_status mlsi_device_upload(mlsi_device *d, char *to, const void *from, uint64_t bytes);
mlsys_status mlsi_device_download(mlsi_device *d, void *to, const char *from, uint64_t bytes);
mlsys_status mlsi_device_zero(mlsi_device *d, char *to, uint64_t bytes);
/* t's elements as dense row-major host memory, and back. */
mlsys_status mlsi_tensor_download(const mlsi_tensor *t, void *host);
mlsys_status mlsi_tensor_upload(mlsi_tensor *t, const void *host);
/* dst[i] = src[i]: equal shapes and dtypes, any devices, layouts and overlap. */
mlsys_status mlsi_tensor_transfer(mlsi_tensor *dst, const mlsi_tensor *src);
/* Refuse what reads or writes elements on the host: "what: f32[3] lies on CUDA device 0". */
mlsys_status mlsi_tensor_on_host(const mlsi_tensor *t, const char *what);

/* Copy src to dst, equal shapes and dtypes, any strides, no overlap between the two; both on the host. Block dtypes
 * move whole blocks. */
void mlsi_copy_view(const mlsi_view *dst, const mlsi_view *src);
/* The same under any overlap: goes through scratch when the ranges may overlap. */
mlsys_status mlsi_copy_overlapping(mlsi_alloc *a, const mlsi_view *dst, const mlsi_view *src);

#endif
