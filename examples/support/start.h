/* What the training programs begin with. */
#ifndef START_H
#define START_H

#include <mlsys/mlsys.h>

/* A context of so many threads (0: all processors), its CPU and a stream. What was made before a failure is left for
 * the caller to release. */
mlsys_status start_on_cpu(long threads, mlsys_ctx *ctx, mlsys_device *cpu, mlsys_stream *stream);
/* Bits that look random, a function of z: the finaliser of splitmix64 (Steele, Lea, Flood 2014). */
uint64_t mix(uint64_t z);

#endif
