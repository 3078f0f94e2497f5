/* Handles: checked names of objects, never addresses.
 *
 * Value: generation:31 | slot:24 | kind:7 | always-1:1 (64 bits). The slot table is the
 * process-wide singleton of the library: chunks are created on demand and never unmapped, so a
 * stale or forged handle reads valid memory and is refused by its generation. One atomic word per
 * slot holds the generation, the user's references and the pins (calls in flight and objects that
 * keep this one). */
#ifndef MLSI_HANDLE_H
#define MLSI_HANDLE_H

#include "core/alloc.h"

struct mlsi_ctx;

/* First member of every object that has a handle. */
typedef struct mlsi_object {
    mlsys_kind kind;
    uint64_t handle;      /* its own handle value */
    struct mlsi_ctx *ctx; /* pinned by this object; NULL for configs and the context itself */
    void (*destroy)(struct mlsi_object *self); /* frees self; must not drop ctx, the table does */
    _Atomic int32_t busy;                      /* try-lock of one-thread-at-a-time objects */
} mlsi_object;

/* Give obj a handle with one user reference; pins obj->ctx. On failure obj is untouched. */
mlsys_status mlsi_handle_create(mlsi_object *obj, mlsys_kind kind, struct mlsi_ctx *ctx,
                                void (*destroy)(mlsi_object *), void *out_handle);

/* Check a handle argument and pin its object for the call; what names the argument in the error,
 * e.g. "tensor_view: t". Pair with mlsi_unpin. */
mlsys_status mlsi_pin(void *handle, mlsys_kind kind, const char *what, void *out_object);
/* The same, and take the object's try-lock (E_BUSY when another thread holds it). */
mlsys_status mlsi_pin_exclusive(void *handle, mlsys_kind kind, const char *what, void *out_object);
/* The same for an object that the caller keeps alive anyway: its handle may have been released. */
mlsys_status mlsi_take(mlsi_object *object, const char *what, void *out_object);
void mlsi_unpin(void *object); /* NULL accepted */
void mlsi_unpin_exclusive(void *object);
/* One more pin on an object that the caller already has pinned (parents kept by children). */
void mlsi_repin(void *object);
/* Repin an object that may be dying: false when it has no user and no pin left. Its memory must be
 * kept from being freed by the caller (a lock that its destroy takes). */
bool mlsi_try_repin(void *object);
/* A new user reference to a pinned object, as a handle; NULL with the error set after 2^24. */
void *mlsi_handle_of(void *object);

/* Was the object made by this process, not by a parent before a fork? */
bool mlsi_handle_is_local(const void *object);

/* User references of a handle of any kind. Release works in a forked child too. */
mlsys_status mlsi_handle_retain(void *handle, const char *what);
mlsys_status mlsi_handle_release(void *handle, const char *what);
mlsys_status mlsi_handle_kind(void *handle, const char *what, mlsys_kind *out);

uint64_t mlsi_handle_live(const struct mlsi_ctx *ctx);

#endif
