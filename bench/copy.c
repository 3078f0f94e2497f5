/* Strided copies, bytes written per second beside memcpy of the same size:
 *   cc -O2 -Iinclude -Isrc bench/copy.c build/release/libmlsys.a -lm -lpthread */
#include "core/tensor.h"
#include "core/trace.h"

#include <stdio.h>
#include <stdlib.h>

enum { N = 1024, ROUNDS = 15 };

static unsigned char *from, *to;

typedef struct shape_case {
    const char *name;
    mlsys_dtype dtype;
    int rank;
    int64_t shape[4], dst[4], src[4], src_offset;
} shape_case;

static double best_seconds(const shape_case *c, int64_t bytes) {
    mlsi_view d = {.data = to, .dtype = c->dtype, .rank = c->rank};
    mlsi_view s = {.data = from + c->src_offset * mlsi_dtype_size(c->dtype),
                   .dtype = c->dtype,
                   .rank = c->rank};
    for (int i = 0; i < c->rank; i++) {
        d.shape[i] = s.shape[i] = c->shape[i];
        d.strides[i] = c->dst[i];
        s.strides[i] = c->src[i];
    }
    double best = 1e30;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t t0 = mlsi_now_ns();
        if (c->name)
            mlsi_copy_view(&d, &s);
        else
            memcpy(to, from, (size_t)bytes);
        double t = (double)(mlsi_now_ns() - t0) * 1e-9;
        if (t < best) best = t;
    }
    return best;
}

int main(void) {
    static const shape_case cases[] = {
        {"f32 rows", MLSYS_F32, 2, {N, N}, {N, 1}, {N, 1}, 0},
        {"f32 transposed", MLSYS_F32, 2, {N, N}, {N, 1}, {1, N}, 0},
        {"f16 transposed", MLSYS_F16, 2, {N, N}, {N, 1}, {1, N}, 0},
        {"u8 transposed", MLSYS_U8, 2, {N, N}, {N, 1}, {1, N}, 0},
        {"f64 transposed", MLSYS_F64, 2, {N, N}, {N, 1}, {1, N}, 0},
        {"f32 NCHW to NHWC, C 3",
         MLSYS_F32,
         3,
         {N, N / 4, 3},
         {3 * N / 4, 3, 1},
         {N / 4, 1, N * N / 4},
         0},
        {"f32 heads: [L,H,D] to [H,L,D], D 64",
         MLSYS_F32,
         3,
         {16, N, 64},
         {N * 64, 64, 1},
         {64, 16 * 64, 1},
         0},
        {"f32 reversed", MLSYS_F32, 1, {N * N}, {1}, {-1}, N * N - 1},
        {"f32 every other", MLSYS_F32, 1, {N * N / 2}, {1}, {2}, 0},
        {"f32 broadcast rows", MLSYS_F32, 2, {N, N}, {N, 1}, {0, 1}, 0},
        {"f32 broadcast columns", MLSYS_F32, 2, {N, N}, {N, 1}, {1, 0}, 0},
    };
    from = malloc(N * N * 8);
    to = malloc(N * N * 8);
    if (!from || !to) return 1;
    memset(from, 1, N * N * 8);
    memset(to, 2, N * N * 8);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t bytes = mlsi_dtype_size(cases[i].dtype);
        for (int d = 0; d < cases[i].rank; d++)
            bytes *= cases[i].shape[d];
        double t = best_seconds(&cases[i], bytes),
               m = best_seconds(&(shape_case){.dtype = MLSYS_U8}, bytes);
        printf("%-38s %7.2f GB/s   memcpy %7.2f GB/s\n", cases[i].name, (double)bytes / t * 1e-9,
               (double)bytes / m * 1e-9);
    }
    free(from);
    free(to);
    return 0;
}
