/* Loops that show what one core can do, by instruction set: multiply-adds in registers, with no
 * memory in the way, and loads with next to no arithmetic. */
#ifndef BENCH_ISA_LOOPS_H
#define BENCH_ISA_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct bench_isa_loops {
    const char *isa;                         /* as mlsys names them */
    bool (*present)(void);                   /* does this processor have it? */
    void (*fma)(int64_t steps, float *sink); /* sink[16] */
    double flops_per_step;                   /* a multiply and an add are two */
    /* Read data[0, bytes), 32-byte aligned, a multiple of 1024, in four streams. */
    void (*read)(const void *data, uint64_t bytes);
    void (*copy)(void *to, const void *from, uint64_t bytes); /* ordinary stores; aligned alike */
} bench_isa_loops;

/* From the lowest to the highest. */
extern const bench_isa_loops bench_isas[];
extern const int bench_isa_count;

#endif
