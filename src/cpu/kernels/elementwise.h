/* The engine of the elementwise kernels: an op is a function on arrays of each compute type; this
 * file feeds it with blocks of any dtype and layout.
 *
 * Blocks of an operand that already is an array of its compute type are passed in place. All inputs
 * of a block are read before its output is written, so an output may share the buffer of an input
 * with the same dtype and layout. */
#ifndef MLSI_KERNELS_ELEMENTWISE_H
#define MLSI_KERNELS_ELEMENTWISE_H

#include "cpu/kernels/stage.h"
#include "core/faults.h"

/* Functions on tiles (core/block_code.h), whose classes begin with the compute types, in their order; NULL where the op is not
 * defined. Kernels hold bool as i64, block code as bytes. */
typedef struct elementwise_op {
    mlsi_tile_fn fn[MLSI_TILE_CLASSES];
    bool predicate; /* y is an array of bytes 0 or 1 */
} elementwise_op;

/* What accepts() asks about the operands. */
static inline bool elementwise_operands(const mlsi_query *q, bool floats, bool others) {
    mlsys_dtype t = q->in[q->n_in - 1].dtype;
    if (mlsi_dtype_is_float(t) ? !floats : !others) return false;
    for (int i = 0; i < q->n_in; i++)
        if (q->in[i].dtype != t) return false;
    return is_plain(t);
}
static inline bool accepts_float(const mlsi_query *q) {
    return elementwise_operands(q, true, false) && q->out[0].dtype == q->in[0].dtype;
}
static inline bool accepts_integer(const mlsi_query *q) {
    return elementwise_operands(q, false, true) && q->out[0].dtype == q->in[0].dtype;
}
static inline bool accepts_number(const mlsi_query *q) {
    return elementwise_operands(q, true, true) && q->out[0].dtype == q->in[0].dtype;
}
static inline bool accepts_predicate(const mlsi_query *q) {
    return elementwise_operands(q, true, true) && q->out[0].dtype == MLSYS_BOOL;
}

enum { ELEMENTWISE_INPUTS = 3 };

typedef struct elementwise_job {
    mlsi_tile_fn fn;
    int inputs;
    mlsys_dtype type, out_type;
    bool predicate;
    bool stream; /* the output is large */
} elementwise_job;

static inline int stage_size(mlsys_dtype t) { return compute_type_of(t) == COMPUTE_F32 ? 4 : 8; }

static inline void elementwise_run_blocks(const void *user, char *const *p, const int64_t *stride,
                                          int64_t n, int worker) {
    const elementwise_job *job = user;
    stage_block in[ELEMENTWISE_INPUTS], out;
    const void *x[ELEMENTWISE_INPUTS];
    int out_size = mlsi_dtype_size(job->out_type);
    bool dense = job->predicate ? stride[0] == 1 : is_staged(job->out_type, stride[0]);
    bool out_direct = dense && !job->stream;
    (void)worker;
    for (int64_t i = 0; i < n; i += STAGE) {
        int64_t m = n - i < STAGE ? n - i : STAGE;
        for (int k = 0; k < job->inputs; k++) {
            const char *src = p[k + 1] + i * stride[k + 1];
            bool direct = is_staged(job->type, stride[k + 1]);
            x[k] = direct ? (const void *)src : &in[k];
            if (!direct &&
                (i == 0 || (stride[k + 1] != 0 && !mlsi_fault(MLSI_FAULT_CPU_STAGE_ONCE))))
                stage_load(&in[k], src, job->type, stride[k + 1], m);
        }
        char *dst = p[0] + i * stride[0];
        job->fn(out_direct ? (void *)dst : &out, x, m, job->type);
        if (out_direct) continue;
        if (dense)
            stream_bytes(dst, (const char *)&out, m * out_size);
        else if (job->predicate)
            stage_move(dst, stride[0], (const char *)&out, out_size, out_size, m);
        else
            stage_store(dst, job->out_type, stride[0], &out, m);
    }
    if (job->stream) v_stream_fence();
}

/* In place, the lines of the output have been read anyway. */
static inline bool shares_input(const mlsi_kernel_args *args) {
    for (int i = 0; i < args->n_in; i++)
        if (args->in[i].data == args->out[0].data) return true;
    return false;
}

static inline mlsys_status elementwise_run(const mlsi_kernel_args *args, const elementwise_op *op) {
    enum { GRAIN = 16384 };
    const mlsi_view *views[1 + ELEMENTWISE_INPUTS] = {&args->out[0]};
    elementwise_job job = {.inputs = args->n_in,
                           .type = args->in[args->n_in - 1].dtype,
                           .out_type = args->out[0].dtype,
                           .predicate = op->predicate};
    mlsi_iter it;
    for (int i = 0; i < args->n_in; i++)
        views[i + 1] = &args->in[i];
    job.fn = op->fn[compute_type_of(job.type)];
    mlsi_iter_init(&it, views, 1 + args->n_in);
    job.stream = it.count * mlsi_dtype_size(job.out_type) >= STREAM_BYTES && !shares_input(args);
    mlsi_iter_run(&it, args->pool, GRAIN, elementwise_run_blocks, &job);
    return MLSYS_OK;
}

/* ---- op functions from expressions ----------------------------------------------------------- */

/* Expressions in a, b, c, the operands. MAP_F32 sees vectors (VF), the others scalars. Unused
 * operands alias x[0] and cost nothing. */
#define MAP_F32(name, inputs, expr)                                                                \
    static void name##_f32(void *yv, const void *const *xv, int64_t n, mlsys_dtype t) {            \
        float *y = yv;                                                                             \
        const float *xa = xv[0], *xb = xv[inputs > 1 ? 1 : 0], *xc = xv[inputs > 2 ? 2 : 0];       \
        int64_t i = 0;                                                                             \
        (void)t;                                                                                   \
        for (; i + VF_LANES <= n; i += VF_LANES) {                                                 \
            VF a = vf_load(xa + i), b = vf_load(xb + i), c = vf_load(xc + i);                      \
            (void)a, (void)b, (void)c;                                                             \
            vf_store(y + i, expr);                                                                 \
        }                                                                                          \
        if (i < n) {                                                                               \
            int m = (int)(n - i);                                                                  \
            VF a = vf_load_n(xa + i, m), b = vf_load_n(xb + i, m), c = vf_load_n(xc + i, m);       \
            (void)a, (void)b, (void)c;                                                             \
            vf_store_n(y + i, expr, m);                                                            \
        }                                                                                          \
    }

#define MAP_SCALAR(name, suffix, type, out_type, inputs, expr)                                     \
    static void name##_##suffix(void *yv, const void *const *xv, int64_t n, mlsys_dtype t) {       \
        out_type *y = yv;                                                                          \
        const type *xa = xv[0], *xb = xv[inputs > 1 ? 1 : 0], *xc = xv[inputs > 2 ? 2 : 0];        \
        (void)t;                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                          \
            type a = xa[i], b = xb[i], c = xc[i];                                                  \
            (void)a, (void)b, (void)c;                                                             \
            y[i] = (out_type)(expr);                                                               \
        }                                                                                          \
    }
#define MAP_F64(name, inputs, expr)  MAP_SCALAR(name, f64, double, double, inputs, expr)
#define MAP_I64(name, inputs, expr)  MAP_SCALAR(name, i64, int64_t, int64_t, inputs, expr)
#define MAP_BOOL(name, inputs, expr) MAP_SCALAR(name, bool, uint8_t, uint8_t, inputs, expr)

/* Functions and run function of an op; the row is ELEMENTWISE_ROW. */
#define ELEMENTWISE_OP_OR_BOOL(name, f32_fn, f64_fn, i64_fn, bool_fn, is_predicate)                \
    static const elementwise_op name##_op = {{f32_fn, f64_fn, i64_fn, bool_fn}, is_predicate};     \
    static mlsys_status name##_run(const mlsi_kernel_args *args) {                                 \
        return elementwise_run(args, &name##_op);                                                  \
    }
#define ELEMENTWISE_OP(name, f32_fn, f64_fn, i64_fn, is_predicate)                                 \
    ELEMENTWISE_OP_OR_BOOL(name, f32_fn, f64_fn, i64_fn, NULL, is_predicate)
#define ELEMENTWISE_ROW(ID, id, accept, shareable)                                                 \
    {                                                                                              \
        .op = MLSI_OP_##ID, .isa = MLSI_K_ISA, .name = MLSI_K_NAME(#id), .accepts = accept,        \
        .run = id##_run, .in_place = shareable, .tile = id##_op.fn                                 \
    }

#endif
