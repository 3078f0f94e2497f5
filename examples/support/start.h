/* What the training programs begin with. */
#ifndef START_H
#define START_H

#include <mlsys/mlsys.h>

/* A context of so many threads (0: all processors), its CPU and a stream. What was made before a failure is left for
 * the caller to release. */
mlsys_status start_on_cpu(long threads, mlsys_ctx *ctx, mlsys_device *cpu, mlsys_stream *stream);
/* The same on a device by name: "cpu", "cuda" or "cuda:1"; cpu is where batches are made. */
mlsys_status start_on(const char *name, long threads, mlsys_ctx *ctx, mlsys_device *cpu,
                      mlsys_device *device, mlsys_stream *stream);
mlsys_status device_of(mlsys_ctx ctx, const char *name, mlsys_device *out);
/* *t becomes a tensor of the device with its elements. */
mlsys_status move_to(mlsys_device device, mlsys_stream stream, mlsys_tensor *t);
/* Bits that look random, a function of z: the finaliser of splitmix64 (Steele, Lea, Flood 2014). */
uint64_t mix(uint64_t z);

#endif
