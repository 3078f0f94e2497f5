/* Attribute structs of the ops. Plain data: compared and copied as values (unused list entries and
 * padding are zero). Their text form, defaults and hashes come from the descriptors in the op's
 * definition, see ir/ops/op_def.h. Fields marked dims may hold dim codes in a graph; kernels see them
 * resolved to extents. Axes may be negative in text and API; type inference normalises them. */
#ifndef MLSI_OP_ATTRS_H
#define MLSI_OP_ATTRS_H

#include <mlsys/mlsys.h>

enum { MLSI_LIST_CAP = 16 };

typedef struct mlsi_list { /* integers */
    int64_t n;
    int64_t v[MLSI_LIST_CAP];
} mlsi_list;

typedef struct mlsi_attr_none {
    int64_t none;
} mlsi_attr_none;
typedef struct mlsi_attr_cast {
    int64_t dtype;
} mlsi_attr_cast; /* cast, bitcast */
typedef struct mlsi_attr_shape {
    mlsi_list shape;
} mlsi_attr_shape; /* reshape, broadcast: dims */
typedef struct mlsi_attr_transpose {
    mlsi_list perm;
} mlsi_attr_transpose;
/* One entry per axis of x; plain integers (never dim codes): negative ones count from the end, and
 * INT64_MIN/INT64_MAX are open ends (ONNX clamping). */
typedef struct mlsi_attr_slice {
    mlsi_list starts, stops, steps;
} mlsi_attr_slice;
typedef struct mlsi_attr_axes {
    mlsi_list axes;
} mlsi_attr_axes; /* reverse */
typedef struct mlsi_attr_batch_sum {
    mlsi_list axes; /* empty = all */
    int64_t dtype;  /* of the result; 0 = x's */
} mlsi_attr_batch_sum;
/* dims; negative low/high crop. */
typedef struct mlsi_attr_pad {
    mlsi_list low, high;
    double value;
} mlsi_attr_pad;
typedef struct mlsi_attr_axis {
    int64_t axis;
} mlsi_attr_axis; /* concat, gather, log_softmax... */
typedef struct mlsi_attr_dynamic_slice {
    mlsi_list sizes;
} mlsi_attr_dynamic_slice; /* dims */
typedef struct mlsi_attr_iota {
    int64_t dtype, axis;
    mlsi_list shape;
} mlsi_attr_iota; /* dims */
/* Integers come from ivalue, floats from value. */
typedef struct mlsi_attr_full {
    int64_t dtype, ivalue;
    double value;
    mlsi_list shape;
} mlsi_attr_full;
enum { MLSI_RANDOM_BITS = 0, MLSI_RANDOM_UNIFORM = 1, MLSI_RANDOM_NORMAL = 2 };
typedef struct mlsi_attr_random {
    int64_t dtype, kind;
    mlsi_list shape;
} mlsi_attr_random; /* in: key i64, stream i64 */
/* Barriers with different ids are different values, also of the same operand. */
typedef struct mlsi_attr_barrier {
    int64_t id;
} mlsi_attr_barrier;
/* Empty axes = all. */
typedef struct mlsi_attr_reduce {
    mlsi_list axes;
    int64_t keep;
} mlsi_attr_reduce;
typedef struct mlsi_attr_arg {
    int64_t axis, keep;
} mlsi_attr_arg;
enum { MLSI_SCAN_SUM = 0, MLSI_SCAN_PROD = 1, MLSI_SCAN_MAX = 2, MLSI_SCAN_MIN = 3 };
typedef struct mlsi_attr_scan {
    int64_t kind, axis, exclusive, reverse;
} mlsi_attr_scan;
/* Output dims: batch, then lhs free, then rhs free, each in operand order. */
typedef struct mlsi_attr_dot {
    mlsi_list lhs_batch, rhs_batch, lhs_contract, rhs_contract;
    int64_t dtype; /* of the result; 0 = lhs's */
} mlsi_attr_dot;
/* matmul: NumPy semantics; transpose_b reads b as [..., N, K]. */
typedef struct mlsi_attr_matmul {
    int64_t transpose_a, transpose_b;
} mlsi_attr_matmul;
enum { MLSI_ACT_F32 = 0, MLSI_ACT_INT8 = 1 };
typedef struct mlsi_attr_quant_matmul {
    int64_t act;
} mlsi_attr_quant_matmul;
/* x [N, C, spatial...], w [Cout, C/groups, kernel...]; pads: low per spatial axis, then high. */
typedef struct mlsi_attr_conv {
    mlsi_list strides, dilations, pads;
    int64_t groups, transposed;
    mlsi_list output_pads; /* dims */
} mlsi_attr_conv;
enum { MLSI_POOL_MAX = 0, MLSI_POOL_AVERAGE = 1, MLSI_POOL_SUM = 2 };
/* x [N, C, spatial...]; count_pad: do padded cells count in the average's divisor. */
typedef struct mlsi_attr_pool {
    int64_t kind;
    mlsi_list kernel, strides, dilations, pads;
    int64_t count_pad, ceil_mode;
} mlsi_attr_pool;
enum {
    MLSI_SCATTER_SET = 0,
    MLSI_SCATTER_ADD = 1,
    MLSI_SCATTER_MUL = 2,
    MLSI_SCATTER_MAX = 3,
    MLSI_SCATTER_MIN = 4
};
/* Rows along axis: out[.., idx[i], ..] (op)= updates[.., i, ..] in ascending i. */
typedef struct mlsi_attr_scatter {
    int64_t axis, kind;
} mlsi_attr_scatter;
typedef struct mlsi_attr_sort {
    int64_t axis, descending;
} mlsi_attr_sort; /* stable; NaN is the greatest */
typedef struct mlsi_attr_topk {
    int64_t axis, k;
} mlsi_attr_topk;
typedef struct mlsi_attr_embedding {
    int64_t dtype;
} mlsi_attr_embedding; /* of the result */
enum { MLSI_GELU_ERF = 0, MLSI_GELU_TANH = 1 };
typedef struct mlsi_attr_gelu {
    int64_t form;
} mlsi_attr_gelu;
/* masked_zero: a row whose maximum is -inf gives zeros instead of NaN. */
typedef struct mlsi_attr_softmax {
    int64_t axis, masked_zero;
} mlsi_attr_softmax;
typedef struct mlsi_attr_norm {
    int64_t axis;
    double eps;
} mlsi_attr_norm; /* from axis to the end */
typedef struct mlsi_attr_cross_entropy {
    int64_t ignore_index;
} mlsi_attr_cross_entropy;
enum { MLSI_ROPE_HALVES = 0, MLSI_ROPE_PAIRS = 1 }; /* (i, i + d/2), or (2i, 2i + 1) */
typedef struct mlsi_attr_rope {
    int64_t pairing;
} mlsi_attr_rope; /* in: x [B,L,H,D], positions [B,L] or [L], freqs f32 [<= D/2] */
/* NONE: no causality. TOP_LEFT: query i sees keys <= i. BOTTOM_RIGHT: keys <= Lk - Lq + i. */
enum { MLSI_CAUSAL_NONE = 0, MLSI_CAUSAL_TOP_LEFT = 1, MLSI_CAUSAL_BOTTOM_RIGHT = 2 };
typedef struct mlsi_attr_attention {
    double scale;           /* 0 = 1/sqrt(D) */
    double softcap;         /* 0 = none; else cap * tanh(s / cap) */
    int64_t causal, window; /* window w > 0: keys >= aligned position - w + 1 */
    int64_t lse;            /* 1: second output, the log-sum-exp [B, H, Lq] */
} mlsi_attr_attention;
typedef struct mlsi_attr_sgd {
    double momentum, dampening, weight_decay;
    int64_t nesterov;
} mlsi_attr_sgd;
typedef struct mlsi_attr_adam {
    double beta1, beta2, eps, weight_decay;
    int64_t decoupled;
} mlsi_attr_adam;
typedef struct mlsi_attr_lion {
    double beta1, beta2, weight_decay;
} mlsi_attr_lion;
typedef struct mlsi_attr_adafactor {
    double decay_rate, eps, eps_w, clip, weight_decay;
    int64_t relative, scale;
} mlsi_attr_adafactor;
typedef struct mlsi_attr_muon {
    double momentum, weight_decay, eps;
    int64_t nesterov;
} mlsi_attr_muon;
typedef struct mlsi_attr_ema {
    double decay;
} mlsi_attr_ema;
enum {
    MLSI_SCHEDULE_CONSTANT = 0,
    MLSI_SCHEDULE_LINEAR = 1,
    MLSI_SCHEDULE_COSINE = 2,
    MLSI_SCHEDULE_INVERSE_SQRT = 3,
    MLSI_SCHEDULE_STEP = 4,
    MLSI_SCHEDULE_WSD = 5
};
typedef struct mlsi_attr_learning_rate {
    int64_t schedule, warmup, steps, every, decay;
    double rate, floor, factor;
} mlsi_attr_learning_rate;
typedef struct mlsi_attr_clip {
    double max;
} mlsi_attr_clip;
typedef struct mlsi_attr_control {
    int64_t fn1, fn2;
} mlsi_attr_control; /* function indices */
/* Custom op: its name lives in the graph; attrs in a config copied there. */
typedef struct mlsi_attr_custom {
    int64_t op_index;
} mlsi_attr_custom;

#endif
