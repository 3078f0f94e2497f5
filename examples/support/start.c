#include "start.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

mlsys_status device_of(mlsys_ctx ctx, const char *name, mlsys_device *out) {
    if (!strcmp(name, "cpu")) return mlsys_device_get(ctx, MLSYS_CPU, 0, out);
    if (!strcmp(name, "cuda")) return mlsys_device_get(ctx, MLSYS_CUDA, 0, out);
    if (!strncmp(name, "cuda:", 5)) {
        char *end;
        long index = strtol(name + 5, &end, 10);
        if (name[5] && !*end) return mlsys_device_get(ctx, MLSYS_CUDA, (int32_t)index, out);
    }
    return mlsys_set_error(MLSYS_E_ARG, "a device is cpu, cuda or cuda:N");
}

mlsys_status start_on(const char *name, long threads, mlsys_ctx *ctx, mlsys_device *cpu,
                      mlsys_device *device, mlsys_stream *stream) {
    mlsys_config c = NULL;
    mlsys_status st = mlsys_config_create(&c);
    if (st == MLSYS_OK && threads) st = mlsys_config_set_i64(c, "threads", threads);
    if (st == MLSYS_OK) st = mlsys_ctx_create(c, NULL, ctx);
    mlsys_release(c);
    if (st == MLSYS_OK) st = mlsys_device_get(*ctx, MLSYS_CPU, 0, cpu);
    if (st == MLSYS_OK) st = device_of(*ctx, name, device);
    if (st == MLSYS_OK) st = mlsys_stream_create(*device, NULL, stream);
    return st;
}

mlsys_status start_on_cpu(long threads, mlsys_ctx *ctx, mlsys_device *cpu, mlsys_stream *stream) {
    mlsys_device same = NULL;
    mlsys_status st = start_on("cpu", threads, ctx, cpu, &same, stream);
    mlsys_release(same);
    return st;
}

mlsys_status move_to(mlsys_device device, mlsys_stream stream, mlsys_tensor *t) {
    int64_t shape[MLSYS_MAX_DIMS];
    int32_t rank;
    mlsys_dtype dtype;
    mlsys_tensor there = NULL;
    mlsys_status st = mlsys_tensor_shape(*t, MLSYS_MAX_DIMS, shape, &rank);
    if (st == MLSYS_OK) st = mlsys_tensor_dtype(*t, &dtype);
    if (st == MLSYS_OK) st = mlsys_tensor_create(device, dtype, rank, shape, &there);
    if (st == MLSYS_OK) st = mlsys_tensor_copy(there, *t, stream);
    if (st != MLSYS_OK) {
        mlsys_release(there);
        return st;
    }
    mlsys_release(*t);
    *t = there;
    return MLSYS_OK;
}

uint64_t mix(uint64_t z) {
    z += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}
