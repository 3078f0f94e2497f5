/* Tiles of block code on one instruction set: memory, scalars, accumulators (cpu/tile.h). */
#include "cpu/tile.h"
#include "cpu/kernels/canonical_sum.h"
#include "cpu/kernels/stage.h"

#include "core/faults.h"
#include "core/scalar_ops.h"

/* ---- memory --------------------------------------------------------------------------------------------------- */

static void load_tile(void *tile, const char *src, mlsys_dtype t, int64_t stride, int64_t n) {
    uint8_t *truth = tile;
    switch (mlsi_tile_class_of(t)) {
    case MLSI_TILE_F32: load_f32(tile, src, t, stride, n); break;
    case MLSI_TILE_F64: stage_move(tile, 8, src, stride, 8, n); break;
    case MLSI_TILE_I64: load_i64(tile, src, t, stride, n); break;
    default:
        for (int64_t i = 0; i < n; i++)
            truth[i] = src[i * stride] != 0;
        break;
    }
}

static void store_tile(char *dst, mlsys_dtype t, int64_t stride, const void *tile, int64_t n) {
    switch (mlsi_tile_class_of(t)) {
    case MLSI_TILE_F32: store_f32(dst, t, stride, tile, n); break;
    case MLSI_TILE_F64: stage_move(dst, stride, tile, 8, 8, n); break;
    case MLSI_TILE_I64: store_i64(dst, t, stride, tile, n); break;
    default: stage_move(dst, stride, tile, 1, 1, n); break;
    }
}

static void spread_tile(void *tile, const void *scalar, mlsi_tile_class c, int64_t n) {
    uint64_t x8;
    float x4;
    if (c == MLSI_TILE_BOOL) {
        memset(tile, *(const uint8_t *)scalar, (size_t)n);
    } else if (c == MLSI_TILE_F32) {
        float *to = tile;
        int64_t i = 0;
        memcpy(&x4, scalar, sizeof x4);
        for (; i + VF_LANES <= n; i += VF_LANES)
            vf_store(to + i, vf_set1(x4));
        if (i < n) vf_store_n(to + i, vf_set1(x4), (int)(n - i));
    } else {
        uint64_t *to = tile;
        memcpy(&x8, scalar, sizeof x8);
        for (int64_t i = 0; i < n; i++)
            to[i] = x8;
    }
}

/* ---- f32 -------------------------------------------------------------------------------------------------------- */

#define ROWS_F32(op)                                                                               \
    for (; i + VF_LANES <= n; i += VF_LANES)                                                       \
        vf_store(y + i, op(vf_load(y + i), vf_load(x + i)));                                       \
    if (i < n)                                                                                     \
        vf_store_n(y + i, op(vf_load_n(y + i, (int)(n - i)), vf_load_n(x + i, (int)(n - i))),      \
                   (int)(n - i));                                                                  \
    break
static void rows_f32(mlsi_block_sum kind, float *y, const float *x, int64_t n) {
    int64_t i = 0;
    switch (kind) {
    case MLSI_BLOCK_PROD: ROWS_F32(vf_mul);
    case MLSI_BLOCK_MAX: ROWS_F32(vf_maximum);
    case MLSI_BLOCK_MIN: ROWS_F32(vf_minimum);
    default: ROWS_F32(vf_add);
    }
}
static float combine_f32(mlsi_block_sum kind, float a, float b) {
    rows_f32(kind, &a, &b, 1);
    return a;
}
/* Maximum or minimum of n > 0 terms. */
static float reduce_f32(mlsi_block_sum kind, const float *x, int64_t n) {
    const bool max = kind == MLSI_BLOCK_MAX;
    VF none = vf_set1(max ? -__builtin_inff() : __builtin_inff()), m = none;
    int64_t i = 0;
    if (n >= 4 * VF_LANES) { /* four chains: one would wait for itself */
        VF r[4] = {none, none, none, none};
        for (; i + 4 * VF_LANES <= n; i += 4 * VF_LANES)
            for (int u = 0; u < 4; u++) {
                VF v = vf_load(x + i + u * VF_LANES);
                r[u] = max ? vf_maximum(r[u], v) : vf_minimum(r[u], v);
            }
        for (int u = 0; u < 4; u++)
            m = max ? vf_maximum(m, r[u]) : vf_minimum(m, r[u]);
    }
    for (; i + VF_LANES <= n; i += VF_LANES)
        m = max ? vf_maximum(m, vf_load(x + i)) : vf_minimum(m, vf_load(x + i));
    if (i < n) {
        VM in = vi_lt(vi_iota(), vi_set1((int)(n - i)));
        VF v = vf_select(in, vf_load_n(x + i, (int)(n - i)), none);
        m = max ? vf_maximum(m, v) : vf_minimum(m, v);
    }
    return max ? vf_reduce_maximum(m) : vf_reduce_minimum(m);
}
static void fma_rows_f32(float *part, const float *x, const float *y, int64_t n) {
    int64_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES)
        vf_store(part + i, vf_fma(vf_load(x + i), vf_load(y + i), vf_load(part + i)));
    for (; i < n; i++)
        part[i] = __builtin_fmaf(x[i], y[i], part[i]);
}
#define T             float
#define ACC(name)     name##_f32
#define ACC_LEAST     (-__builtin_inff())
#define ACC_MOST      __builtin_inff()
#define ACC_NOTHING   (-0.0f)
#define ACC_HAS_TREE  1
#define ACC_IS_NAN(x) ((x) != (x))
#include "cpu/kernels/tile_acc.inc"

/* ---- f64, integers, truth values ------------------------------------------------------------------------------------ */

#define SCALAR_ACC(suffix, type, add, mul, max, min, and, or, mul_add)                             \
    static type combine_##suffix(mlsi_block_sum kind, type a, type b) {                            \
        switch (kind) {                                                                            \
        case MLSI_BLOCK_PROD: return mul;                                                          \
        case MLSI_BLOCK_MAX: return max;                                                           \
        case MLSI_BLOCK_MIN: return min;                                                           \
        case MLSI_BLOCK_AND: return and;                                                           \
        case MLSI_BLOCK_OR: return or ;                                                            \
        default: return add;                                                                       \
        }                                                                                          \
    }                                                                                              \
    static void rows_##suffix(mlsi_block_sum kind, type *y, const type *x, int64_t n) {            \
        for (int64_t i = 0; i < n; i++)                                                            \
            y[i] = combine_##suffix(kind, y[i], x[i]);                                             \
    }                                                                                              \
    static type reduce_##suffix(mlsi_block_sum kind, const type *x, int64_t n) {                   \
        type r = x[0];                                                                             \
        for (int64_t i = 1; i < n; i++)                                                            \
            r = combine_##suffix(kind, r, x[i]);                                                   \
        return r;                                                                                  \
    }                                                                                              \
    static void fma_rows_##suffix(type *part, const type *x, const type *y, int64_t n) {           \
        for (int64_t i = 0; i < n; i++) {                                                          \
            type a = x[i], b = y[i], c = part[i];                                                  \
            part[i] = mul_add;                                                                     \
        }                                                                                          \
    }

SCALAR_ACC(f64, double, a + b, a *b, max64(a, b), min64(a, b), a, a, __builtin_fma(a, b, c))
#define T             double
#define ACC(name)     name##_f64
#define ACC_LEAST     (-__builtin_inf())
#define ACC_MOST      __builtin_inf()
#define ACC_NOTHING   (-0.0)
#define ACC_HAS_TREE  1
#define ACC_IS_NAN(x) ((x) != (x))
#include "cpu/kernels/tile_acc.inc"

SCALAR_ACC(i64, int64_t, wrap_add(a, b), wrap_mul(a, b), int_max(a, b), int_min(a, b), a &b, a | b,
           wrap_add(wrap_mul(a, b), c))
#define T             int64_t
#define ACC(name)     name##_i64
#define ACC_LEAST     INT64_MIN
#define ACC_MOST      INT64_MAX
#define ACC_NOTHING   0
#define ACC_HAS_TREE  0
#define ACC_IS_NAN(x) false
#include "cpu/kernels/tile_acc.inc"

SCALAR_ACC(bool, uint8_t, a | b, a &b, a | b, a &b, a &b, a | b, c | (a & b))
#define T             uint8_t
#define ACC(name)     name##_bool
#define ACC_LEAST     0
#define ACC_MOST      1
#define ACC_NOTHING   0
#define ACC_HAS_TREE  0
#define ACC_IS_NAN(x) false
#include "cpu/kernels/tile_acc.inc"

/* ---- by class --------------------------------------------------------------------------------------------------- */

static void begin_acc(const mlsi_block_acc *a, void *state, int64_t lane, const void *init,
                      int64_t n) {
    switch (a->cls) {
    case MLSI_TILE_F32: begin_f32(a, state, lane, init, n); break;
    case MLSI_TILE_F64: begin_f64(a, state, lane, init, n); break;
    case MLSI_TILE_I64: begin_i64(a, state, lane, init, n); break;
    default: begin_bool(a, state, lane, init, n); break;
    }
}

static void add_term(const mlsi_block_acc *a, void *state, int64_t lane, const void *x,
                     const void *y, int64_t n) {
    switch (a->cls) {
    case MLSI_TILE_F32: term_f32(a, state, lane, x, y, n); break;
    case MLSI_TILE_F64: term_f64(a, state, lane, x, y, n); break;
    case MLSI_TILE_I64: term_i64(a, state, lane, x, y, n); break;
    default: term_bool(a, state, lane, x, y, n); break;
    }
}

static void take_result(const mlsi_block_acc *a, void *state, int64_t lane, void *out, int64_t n) {
    switch (a->cls) {
    case MLSI_TILE_F32: result_f32(a, state, lane, out, n); break;
    case MLSI_TILE_F64: result_f64(a, state, lane, out, n); break;
    case MLSI_TILE_I64: result_i64(a, state, lane, out, n); break;
    default: result_bool(a, state, lane, out, n); break;
    }
}

extern const mlsi_tile_machine MLSI_K(mlsi_tile_machine);
const mlsi_tile_machine MLSI_K(mlsi_tile_machine) = {.load = load_tile,
                                                     .store = store_tile,
                                                     .spread = spread_tile,
                                                     .begin = begin_acc,
                                                     .term = add_term,
                                                     .result = take_result};
