/* Reductions of generated CUDA C whose terms come from all 128 threads of a block: ml_KIND_TYPE_block, and ml_KIND_TYPE_chunks
 * for sums of more than one chunk of 4096 terms. Thread t is lane t of the canonical tree (docs/numerics.md). The results are
 * the same in all threads; _end and _fold_chunk are called by all of them, and leave them behind a barrier. */
#ifndef MLSI_CUDA_GEN_BLOCK_H
#define MLSI_CUDA_GEN_BLOCK_H

#include "core/gen_scalar.h"

/* Each thread's x: the halves of 64 and 32 lanes through memory; the others within the warp, where a lane and its partner
 * compute the same. */
#define ML_FOLD_LANES(name, T, op)                                                                 \
    ML_FN T name##_fold_lanes(T x) {                                                               \
        T *lane = (T *)ml_shared;                                                                  \
        const int j = threadIdx.x & 31;                                                            \
        __syncthreads();                                                                           \
        lane[threadIdx.x] = x;                                                                     \
        __syncthreads();                                                                           \
        x = op(op(lane[j], lane[j + 64]), op(lane[j + 32], lane[j + 96]));                         \
        for (int h = 16; h; h /= 2)                                                                \
            x = op(x, __shfl_xor_sync(0xffffffffu, x, h));                                         \
        return x;                                                                                  \
    }
#define ML_BLOCK(name, T, op, identity)                                                            \
    ML_FOLD_LANES(name, T, op)                                                                     \
    typedef struct name##_block {                                                                  \
        T x;                                                                                       \
    } name##_block;                                                                                \
    ML_FN void name##_block_begin(name##_block *s) { s->x = identity; }                            \
    ML_FN void name##_block_add(name##_block *s, T x) { s->x = op(s->x, x); }                      \
    ML_FN T name##_block_end(name##_block *s) { return name##_fold_lanes(s->x); }
ML_BLOCK(ml_sum_f32, float, ML_ADD, 0.0f)
ML_BLOCK(ml_sum_f64, double, ML_ADD, 0.0)
ML_BLOCK(ml_prod_f32, float, ML_MUL, 1.0f)
ML_BLOCK(ml_prod_f64, double, ML_MUL, 1.0)
ML_BLOCK(ml_max_f32, float, ml_max, -__builtin_inff())
ML_BLOCK(ml_min_f32, float, ml_min, __builtin_inff())
ML_BLOCK(ml_max_f64, double, max64, -__builtin_inf())
ML_BLOCK(ml_min_f64, double, min64, __builtin_inf())
ML_BLOCK(ml_max_int, int64_t, int_max, INT64_MIN)
ML_BLOCK(ml_min_int, int64_t, int_min, INT64_MAX)
ML_BLOCK(ml_sum_int, int64_t, wrap_add, 0)
ML_BLOCK(ml_prod_int, int64_t, wrap_mul, 1)
ML_BLOCK(ml_and_int, int64_t, ML_AND, 1)
ML_BLOCK(ml_or_int, int64_t, ML_OR, 0)

/* x: this thread's lane of the current chunk; lane[k], n[k]: of the chunks' sums, and of the sums of 4096 of these... n is the
 * same in all threads. */
#define ML_CHUNKS(name, T, op, identity)                                                           \
    typedef struct name##_chunks {                                                                 \
        T x, lane[3];                                                                              \
        int64_t n[3];                                                                              \
    } name##_chunks;                                                                               \
    ML_FN void name##_chunks_begin(name##_chunks *s) {                                             \
        s->x = identity;                                                                           \
        s->n[0] = s->n[1] = s->n[2] = 0;                                                           \
    }                                                                                              \
    ML_FN void name##_chunks_add(name##_chunks *s, T x) { s->x = op(s->x, x); }                    \
    ML_FN void name##_chunks_push(name##_chunks *s, int level, T x) {                              \
        for (;; level++) {                                                                         \
            int64_t i = s->n[level]++ & 4095;                                                      \
            if (i == 0) s->lane[level] = identity;                                                 \
            if ((i & 127) == threadIdx.x) s->lane[level] = op(s->lane[level], x);                  \
            if (i != 4095) return;                                                                 \
            x = name##_fold_lanes(s->lane[level]);                                                 \
        }                                                                                          \
    }                                                                                              \
    ML_FN void name##_chunks_fold_chunk(name##_chunks *s) {                                        \
        name##_chunks_push(s, 0, name##_fold_lanes(s->x));                                         \
        s->x = identity;                                                                           \
    }                                                                                              \
    ML_FN T name##_chunks_end(name##_chunks *s, int64_t count) {                                   \
        if (count < 4096) return name##_fold_lanes(s->x);                                          \
        if (count & 4095) name##_chunks_push(s, 0, name##_fold_lanes(s->x));                       \
        for (int level = 0;; level++) {                                                            \
            int64_t rest = s->n[level] & 4095;                                                     \
            T x = name##_fold_lanes(s->lane[level]);                                               \
            if (s->n[level] < 4096) return x;                                                      \
            if (rest) name##_chunks_push(s, level + 1, x);                                         \
        }                                                                                          \
    }
ML_CHUNKS(ml_sum_f32, float, ML_ADD, 0.0f)
ML_CHUNKS(ml_sum_f64, double, ML_ADD, 0.0)
ML_CHUNKS(ml_prod_f32, float, ML_MUL, 1.0f)
ML_CHUNKS(ml_prod_f64, double, ML_MUL, 1.0)

/* Of 32 columns: thread t has lanes 4 * u + t / 32 of column t mod 32, and all sums of the column's chunks. _fold is called by all
 * threads, behind each chunk. */
#define ML_COLUMN(name, T, op, identity)                                                           \
    typedef struct name##_column {                                                                 \
        T lane[32];                                                                                \
        name##_4096 chunks;                                                                        \
    } name##_column;                                                                               \
    ML_FN void name##_column_clear(name##_column *s) {                                             \
        _Pragma("unroll") for (int u = 0; u < 32; u++) s->lane[u] = identity;                      \
    }                                                                                              \
    ML_FN void name##_column_begin(name##_column *s) {                                             \
        name##_4096_begin(&s->chunks);                                                             \
        name##_column_clear(s);                                                                    \
    }                                                                                              \
    ML_FN void name##_column_add(name##_column *s, int u, T x) { s->lane[u] = op(s->lane[u], x); } \
    ML_FN void name##_column_fold(name##_column *s) {                                              \
        T *part = (T *)ml_shared;                                                                  \
        const int j = threadIdx.x & 31;                                                            \
        _Pragma("unroll") for (int h = 16; h; h /= 2) {                                            \
            _Pragma("unroll") for (int u = 0; u < 16; u++) {                                       \
                if (u < h) s->lane[u] = op(s->lane[u], s->lane[u + h]);                            \
            }                                                                                      \
        }                                                                                          \
        __syncthreads();                                                                           \
        part[threadIdx.x] = s->lane[0];                                                            \
        __syncthreads();                                                                           \
        name##_4096_add(&s->chunks,                                                                \
                        op(op(part[j], part[j + 64]), op(part[j + 32], part[j + 96])));            \
        name##_column_clear(s);                                                                    \
    }                                                                                              \
    ML_FN T name##_column_end(name##_column *s) { return name##_4096_end(&s->chunks); }
ML_COLUMN(ml_sum_f32, float, ML_ADD, 0.0f)
ML_COLUMN(ml_sum_f64, double, ML_ADD, 0.0)
ML_COLUMN(ml_prod_f32, float, ML_MUL, 1.0f)
ML_COLUMN(ml_prod_f64, double, ML_MUL, 1.0)

/* The first NaN, else the first extreme. at is -1 where there was no term; terms of a thread come in ascending order. */
#define ML_BLOCK_ARG(name, T, better)                                                              \
    typedef struct name##_block {                                                                  \
        T x;                                                                                       \
        int64_t at;                                                                                \
    } name##_block;                                                                                \
    ML_FN void name##_block_begin(name##_block *s) { s->x = 0, s->at = -1; }                       \
    ML_FN int name##_wins(T x, int64_t at, T y, int64_t y_at) {                                    \
        if (at < 0 || y_at < 0) return y_at < 0;                                                   \
        if (x != x || y != y) return x != x && (y == y || at < y_at);                              \
        return x better y || (x == y && at < y_at);                                                \
    }                                                                                              \
    ML_FN void name##_block_add(name##_block *s, int64_t at, T x) {                                \
        if (!name##_wins(s->x, s->at, x, at)) s->x = x, s->at = at;                                \
    }                                                                                              \
    ML_FN int64_t name##_block_end(name##_block *s) {                                              \
        T *x = (T *)ml_shared;                                                                     \
        int64_t *at = (int64_t *)(ml_shared + 1024);                                               \
        for (int h = 64; h; h /= 2) {                                                              \
            __syncthreads();                                                                       \
            x[threadIdx.x] = s->x, at[threadIdx.x] = s->at;                                        \
            __syncthreads();                                                                       \
            const int j = (threadIdx.x & (h - 1)) + h;                                             \
            const int i = j - h;                                                                   \
            if (name##_wins(x[i], at[i], x[j], at[j]))                                             \
                s->x = x[i], s->at = at[i];                                                        \
            else                                                                                   \
                s->x = x[j], s->at = at[j];                                                        \
        }                                                                                          \
        return s->at < 0 ? 0 : s->at;                                                              \
    }
ML_BLOCK_ARG(ml_argmax_f32, float, >)
ML_BLOCK_ARG(ml_argmin_f32, float, <)
ML_BLOCK_ARG(ml_argmax_f64, double, >)
ML_BLOCK_ARG(ml_argmin_f64, double, <)
ML_BLOCK_ARG(ml_argmax_int, int64_t, >)
ML_BLOCK_ARG(ml_argmin_int, int64_t, <)

#endif
