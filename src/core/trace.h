/* A bounded ring of timed events, written as Chrome/Perfetto trace JSON. */
#ifndef MLSI_TRACE_H
#define MLSI_TRACE_H

#include "core/alloc.h"

typedef struct mlsi_trace mlsi_trace;

mlsys_status mlsi_trace_create(mlsi_alloc *a, int64_t capacity, mlsi_trace **out);
void mlsi_trace_destroy(mlsi_trace *t);
/* Forget all events and keep the next `capacity` ones (0 = none). */
mlsys_status mlsi_trace_reserve(mlsi_trace *t, int64_t capacity);
void mlsi_trace_enable(mlsi_trace *t, bool on);
bool mlsi_trace_enabled(const mlsi_trace *t); /* cheap; false for NULL */
/* Record [t0, t1] in nanoseconds of mlsi_now_ns on a lane ("op", "kernel", "memory"). name is
 * copied (truncated). bytes and flops 0 = unknown. Never allocates; thread-safe. */
void mlsi_trace_add(mlsi_trace *t, const char *lane, const char *name, int64_t t0, int64_t t1,
                    uint64_t flops, uint64_t bytes);
void mlsi_trace_json(mlsi_trace *t, mlsi_text *out);
int64_t mlsi_now_ns(void); /* monotonic */

#endif
