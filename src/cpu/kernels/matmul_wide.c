/* dot_general and matmul on f64 and on integers: one blocked loop, vectorised by the compiler.
 * Integers are multiplied modulo 2^64, which wraps to the same bits in every narrower width. */
#include "cpu/kernels/addend.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/stage.h"

enum { WIDE_ROWS = 32, WIDE_COLUMNS = 32 };

typedef struct wide_job {
    const gemm *g;
    int64_t m_blocks, n_blocks;
    char *work;
} wide_job;

#define T                                  double
#define WIDE(name)                         f64_##name
#define WIDE_LOAD(dst, src, t, stride, n)  stage_move((char *)(dst), 8, src, stride, 8, n)
#define WIDE_STORE(dst, t, stride, src, n) stage_move(dst, stride, (const char *)(src), 8, 8, n)
#define WIDE_MADD(x, y, sum)               __builtin_fma(x, y, sum)
#include "cpu/kernels/matmul_wide.inc"
#undef T
#undef WIDE
#undef WIDE_LOAD
#undef WIDE_STORE
#undef WIDE_MADD

#define T                                  uint64_t
#define WIDE(name)                         int_##name
#define WIDE_LOAD(dst, src, t, stride, n)  load_i64((int64_t *)(dst), src, t, stride, n)
#define WIDE_STORE(dst, t, stride, src, n) store_i64(dst, t, stride, (const int64_t *)(src), n)
#define WIDE_MADD(x, y, sum)               ((x) * (y) + (sum))
#include "cpu/kernels/matmul_wide.inc"

static mlsys_status run(const mlsi_kernel_args *args, mlsi_op op) {
    gemm g;
    MLSI_K(gemm_problem)(&g, op, &args->in[0], &args->in[1], &args->out[0], args->attrs, NULL);
    g.accumulate = addend_in_result(args);
    wide_job job = {.g = &g, .work = args->work};
    job.m_blocks = (g.m.count + WIDE_ROWS - 1) / WIDE_ROWS;
    job.n_blocks = (g.n.count + WIDE_COLUMNS - 1) / WIDE_COLUMNS;
    mlsi_pool_run(args->pool, g.batch.count * job.m_blocks * job.n_blocks,
                  g.c_type == MLSYS_F64 ? f64_run : int_run, &job);
    return MLSYS_OK;
}

static mlsys_status run_dot(const mlsi_kernel_args *args) { return run(args, MLSI_OP_DOT_GENERAL); }
static mlsys_status run_matmul(const mlsi_kernel_args *args) { return run(args, MLSI_OP_MATMUL); }

static uint64_t work(const mlsi_kernel_args *args, int threads) {
    (void)args;
    _Static_assert(sizeof(f64_block) == sizeof(int_block), "one size of scratch");
    return sizeof(f64_block) * (uint64_t)threads;
}

static bool accepts(const mlsi_query *q) {
    mlsys_dtype a = q->in[0].dtype, b = q->in[1].dtype, c = q->out[0].dtype;
    return (a == MLSYS_F64 && b == MLSYS_F64 && c == MLSYS_F64) ||
           (mlsi_dtype_is_int(a) && mlsi_dtype_is_int(b) && mlsi_dtype_is_int(c));
}

MLSI_KERNEL_TABLE(matmul_wide) = {
    {.op = MLSI_OP_DOT_GENERAL,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("dot_general_f64_int_blocks"),
     .in_place = ADDEND_IN_PLACE,
     .accepts = accepts,
     .run = run_dot,
     .work = work},
    {.op = MLSI_OP_MATMUL,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("matmul_f64_int_blocks"),
     .accepts = accepts,
     .run = run_matmul,
     .work = work},
    {.run = NULL},
};
