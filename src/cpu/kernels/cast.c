/* cast between all plain dtypes, and bitcast between dtypes of one size.
 *
 * A cast goes through the compute types: source dtype -> its compute type (exact) -> the target's
 * compute type -> target dtype. Where that would round twice the source goes straight to the
 * target. */
#include "cpu/kernels/copy_view.h"
#include "core/faults.h"

#include <math.h>

typedef struct cast_job {
    mlsys_dtype from, to;
} cast_job;

/* i64 as f64 with the bits that do not fit gathered in the lowest one (rounding to odd): rounding
 * the result again, to 8 or 11 bits, equals rounding the integer once. */
static double int_to_odd(int64_t x) {
    uint64_t mag = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
    if (mag >> 53 && !mlsi_fault(MLSI_FAULT_CPU_CAST_TWICE))
        mag = (mag >> 11 | ((mag & 0x7ff) != 0)) << 11;
    return x < 0 ? -(double)mag : (double)mag;
}

/* To a float of compute type f32. */
static void cast_to_f32(char *dst, mlsys_dtype t, int64_t stride, const stage_block *in,
                        compute_type from, int64_t n) {
    stage_block out;
    if (from == COMPUTE_F32) {
        store_f32(dst, t, stride, in->f32, n);
        return;
    }
    if (t != MLSYS_F32) {
        for (int64_t i = 0; i < n; i++)
            store_f64(dst + i * stride, t,
                      from == COMPUTE_F64 ? in->f64[i] : int_to_odd(in->i64[i]));
        return;
    }
    if (from == COMPUTE_F64)
        for (int64_t i = 0; i < n; i++)
            out.f32[i] = (float)in->f64[i];
    else
        for (int64_t i = 0; i < n; i++)
            out.f32[i] = (float)in->i64[i];
    store_f32(dst, t, stride, out.f32, n);
}

static void cast_to_f64(char *dst, int64_t stride, const stage_block *in, compute_type from,
                        int64_t n) {
    stage_block out;
    if (from == COMPUTE_F64) out = *in;
    for (int64_t i = 0; from == COMPUTE_F32 && i < n; i++)
        out.f64[i] = (double)in->f32[i];
    for (int64_t i = 0; from == COMPUTE_I64 && i < n; i++)
        out.f64[i] = (double)in->i64[i];
    stage_store(dst, MLSYS_F64, stride, &out, n);
}

static void cast_to_int(char *dst, mlsys_dtype t, int64_t stride, const stage_block *in,
                        compute_type from, int64_t n) {
    stage_block out;
    for (int64_t i = 0; from == COMPUTE_F32 && i < n; i++)
        out.i64[i] = mlsi_f64_to_int((double)in->f32[i], t);
    for (int64_t i = 0; from == COMPUTE_F64 && i < n; i++)
        out.i64[i] = mlsi_f64_to_int(in->f64[i], t);
    store_i64(dst, t, stride, from == COMPUTE_I64 ? in->i64 : out.i64, n);
}

static void cast_blocks(const void *user, char *const *p, const int64_t *stride, int64_t n,
                        int worker) {
    const cast_job *job = user;
    compute_type from = compute_type_of(job->from);
    (void)worker;
    for (int64_t i = 0; i < n; i += STAGE) {
        stage_block in;
        int64_t m = n - i < STAGE ? n - i : STAGE;
        char *dst = p[0] + i * stride[0];
        if (job->to == MLSYS_F32 && from == COMPUTE_F32 && stride[0] == 4) {
            load_f32((float *)(void *)dst, p[1] + i * stride[1], job->from, stride[1], m);
            continue;
        }
        stage_load(&in, p[1] + i * stride[1], job->from, stride[1], m);
        switch (compute_type_of(job->to)) {
        case COMPUTE_F32: cast_to_f32(dst, job->to, stride[0], &in, from, m); break;
        case COMPUTE_F64: cast_to_f64(dst, stride[0], &in, from, m); break;
        case COMPUTE_I64: cast_to_int(dst, job->to, stride[0], &in, from, m); break;
        }
    }
}

/* ---- tiles: from a class to what t is held as -------------------------------------------------------- */

/* The value as memory of t, and back to t's class. */
static void cast_tile(void *y, const stage_block *in, compute_type from, int64_t n, mlsys_dtype t) {
    stage_block stored;
    bool held = t == MLSYS_F32 || t == MLSYS_F64 || t == MLSYS_I64 || t == MLSYS_BOOL;
    char *to = held ? (char *)y : (char *)&stored;
    int size = mlsi_dtype_size(t);
    switch (compute_type_of(t)) {
    case COMPUTE_F32: cast_to_f32(to, t, size, in, from, n); break;
    case COMPUTE_F64: cast_to_f64(to, size, in, from, n); break;
    case COMPUTE_I64: cast_to_int(to, t, size, in, from, n); break;
    }
    if (!held && compute_type_of(t) == COMPUTE_F32)
        load_f32(y, to, t, size, n);
    else if (!held)
        load_i64(y, to, t, size, n);
}

static void cast_f32(void *y, const void *const *x, int64_t n, mlsys_dtype t) {
    stage_block in;
    memcpy(in.f32, x[0], (size_t)n * sizeof(float));
    cast_tile(y, &in, COMPUTE_F32, n, t);
}
static void cast_f64(void *y, const void *const *x, int64_t n, mlsys_dtype t) {
    stage_block in;
    memcpy(in.f64, x[0], (size_t)n * sizeof(double));
    cast_tile(y, &in, COMPUTE_F64, n, t);
}
static void cast_i64(void *y, const void *const *x, int64_t n, mlsys_dtype t) {
    stage_block in;
    memcpy(in.i64, x[0], (size_t)n * sizeof(int64_t));
    cast_tile(y, &in, COMPUTE_I64, n, t);
}
static void cast_bool(void *y, const void *const *x, int64_t n, mlsys_dtype t) {
    stage_block in;
    load_i64(in.i64, x[0], MLSYS_BOOL, 1, n);
    cast_tile(y, &in, COMPUTE_I64, n, t);
}
static const mlsi_tile_fn cast_tiles[] = {cast_f32, cast_f64, cast_i64, cast_bool};

static mlsys_status cast_run(const mlsi_kernel_args *args) {
    enum { GRAIN = 16384 };
    const mlsi_view *views[2] = {&args->out[0], &args->in[0]};
    cast_job job = {args->in[0].dtype, args->out[0].dtype};
    mlsi_iter it;
    if (job.from == job.to && job.to != MLSYS_BOOL) {
        copy_view(&args->out[0], &args->in[0], args->pool);
        return MLSYS_OK;
    }
    mlsi_iter_init(&it, views, 2);
    mlsi_iter_run(&it, args->pool, GRAIN, cast_blocks, &job);
    return MLSYS_OK;
}

static mlsys_status bitcast_run(const mlsi_kernel_args *args) {
    mlsi_view x = args->in[0];
    x.dtype = args->out[0].dtype;
    copy_view(&args->out[0], &x, args->pool);
    return MLSYS_OK;
}

static bool accepts_cast(const mlsi_query *q) {
    return is_plain(q->in[0].dtype) && is_plain(q->out[0].dtype);
}
static bool accepts_bitcast(const mlsi_query *q) {
    return accepts_cast(q) && mlsi_dtype_size(q->in[0].dtype) == mlsi_dtype_size(q->out[0].dtype);
}

MLSI_KERNEL_TABLE(cast) = {
    {.op = MLSI_OP_CAST,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("cast"),
     .accepts = accepts_cast,
     .run = cast_run,
     .tile = cast_tiles},
    {.op = MLSI_OP_BITCAST,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("bitcast"),
     .accepts = accepts_bitcast,
     .run = bitcast_run},
    {.run = NULL},
};
