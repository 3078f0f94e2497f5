/* One object of each kind that needs no graph or model, for tests of handles. */
#ifndef MLSI_TESTS_OBJECTS_H
#define MLSI_TESTS_OBJECTS_H

#include <mlsys/mlsys.h>

#include <check.h>

typedef struct objects {
    mlsys_config config;
    mlsys_ctx ctx;
    mlsys_device device;
    mlsys_stream stream;
    mlsys_tensor tensor;
} objects;

enum { OBJECTS = 5 };

static inline void check_ok(mlsys_status st) {
    if (st != MLSYS_OK) ck_abort_msg("%s: %s", mlsys_status_name(st), mlsys_last_error());
}

static inline objects objects_create(const mlsys_hooks *hooks) {
    objects o = {0};
    check_ok(mlsys_config_create(&o.config));
    check_ok(mlsys_config_set_i64(o.config, "threads", 2));
    check_ok(mlsys_ctx_create(o.config, hooks, &o.ctx));
    check_ok(mlsys_device_get(o.ctx, MLSYS_CPU, 0, &o.device));
    check_ok(mlsys_stream_create(o.device, NULL, &o.stream));
    check_ok(mlsys_tensor_create(o.device, MLSYS_F32, 2, (int64_t[]){2, 3}, &o.tensor));
    return o;
}

static inline void **object_at(objects *o, int i) {
    void **all[OBJECTS] = {(void **)&o->config, (void **)&o->ctx, (void **)&o->device,
                           (void **)&o->stream, (void **)&o->tensor};
    return all[i];
}

static inline void objects_release(objects *o) {
    for (int i = 0; i < OBJECTS; i++)
        check_ok(mlsys_release(*object_at(o, i)));
}

#endif
