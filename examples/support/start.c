#include "start.h"

#include <stddef.h>

mlsys_status start_on_cpu(long threads, mlsys_ctx *ctx, mlsys_device *cpu, mlsys_stream *stream) {
    mlsys_config c = NULL;
    mlsys_status st = mlsys_config_create(&c);
    if (st == MLSYS_OK && threads) st = mlsys_config_set_i64(c, "threads", threads);
    if (st == MLSYS_OK) st = mlsys_ctx_create(c, NULL, ctx);
    mlsys_release(c);
    if (st == MLSYS_OK) st = mlsys_device_get(*ctx, MLSYS_CPU, 0, cpu);
    if (st == MLSYS_OK) st = mlsys_stream_create(*cpu, NULL, stream);
    return st;
}

uint64_t mix(uint64_t z) {
    z += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}
