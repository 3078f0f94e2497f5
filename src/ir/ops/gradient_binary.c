/* Gradient rules of the elementwise ops of two and three operands. Each operand's adjoint is summed over the
 * axes along which it was broadcast. Where a value does not pass, its adjoint is chosen away by select and
 * never multiplied by 0: an infinity or NaN on the road not taken must not reach the result. */
#include "ir/ops/gradient.h"

typedef struct binary_vjp {
    mlsi_vjp *v;
    mlsi_emit e;
    mlsys_dtype dtype;
    int32_t a, b, y, dy;
} binary_vjp;

static binary_vjp begin(mlsi_vjp *v) {
    binary_vjp x = {.v = v,
                    .e = mlsi_vjp_begin(v),
                    .a = v->in[0],
                    .b = v->in[1],
                    .y = v->out[0],
                    .dy = v->dout[0]};
    x.dtype = mlsi_emit_type(&x.e, v->out[0])->dtype;
    return x;
}

static int32_t op(binary_vjp *x, mlsi_op o, int32_t a, int32_t b) {
    return mlsi_emit_2(&x->e, o, a, b);
}
static int32_t negated(binary_vjp *x, int32_t a) { return mlsi_emit_1(&x->e, MLSI_OP_NEG, a); }
static int32_t number(binary_vjp *x, double value) {
    return mlsi_emit_scalar(&x->e, x->dtype, value);
}
static int32_t choose(binary_vjp *x, int32_t condition, int32_t yes, int32_t no) {
    return mlsi_emit_select(&x->e, condition, yes, no);
}
static bool wanted(const binary_vjp *x, int i) { return x->v->wanted[i]; }
static void give(binary_vjp *x, int i, int32_t adjoint) {
    adjoint = mlsi_emit_alive(&x->e, x->v, adjoint);
    x->v->din[i] = mlsi_emit_unbroadcast(&x->e, adjoint, x->v->in[i]);
}

mlsys_status mlsi_vjp_add(mlsi_vjp *v) {
    binary_vjp x = begin(v);
    for (int i = 0; i < 2; i++)
        if (wanted(&x, i)) give(&x, i, x.dy);
    return x.e.st;
}

mlsys_status mlsi_vjp_sub(mlsi_vjp *v) {
    binary_vjp x = begin(v);
    if (wanted(&x, 0)) give(&x, 0, x.dy);
    if (wanted(&x, 1)) give(&x, 1, negated(&x, x.dy));
    return x.e.st;
}

mlsys_status mlsi_vjp_mul(mlsi_vjp *v) {
    binary_vjp x = begin(v);
    if (wanted(&x, 0)) give(&x, 0, op(&x, MLSI_OP_MUL, x.dy, x.b));
    if (wanted(&x, 1)) give(&x, 1, op(&x, MLSI_OP_MUL, x.dy, x.a));
    return x.e.st;
}

mlsys_status mlsi_vjp_div(mlsi_vjp *v) {
    binary_vjp x = begin(v);
    int32_t da = op(&x, MLSI_OP_DIV, x.dy, x.b);
    if (wanted(&x, 0)) give(&x, 0, da);
    if (wanted(&x, 1)) give(&x, 1, negated(&x, op(&x, MLSI_OP_MUL, da, x.y)));
    return x.e.st;
}

/* y = a - b * whole(a / b): the integer counts as constant. */
static mlsys_status vjp_remainder(mlsi_vjp *v, mlsi_op whole) {
    binary_vjp x = begin(v);
    if (wanted(&x, 0)) give(&x, 0, x.dy);
    if (wanted(&x, 1)) {
        int32_t n = mlsi_emit_1(&x.e, whole, op(&x, MLSI_OP_DIV, x.a, x.b));
        give(&x, 1, negated(&x, op(&x, MLSI_OP_MUL, x.dy, n)));
    }
    return x.e.st;
}
mlsys_status mlsi_vjp_rem(mlsi_vjp *v) { return vjp_remainder(v, MLSI_OP_TRUNC); }
mlsys_status mlsi_vjp_mod(mlsi_vjp *v) { return vjp_remainder(v, MLSI_OP_FLOOR); }

/* da = dy * b * a^(b-1), 0 where b = 0; db = dy * y * log(a), 0 where a = 0 and b >= 0, the limit. */
mlsys_status mlsi_vjp_pow(mlsi_vjp *v) {
    binary_vjp x = begin(v);
    int32_t zero = number(&x, 0), one = number(&x, 1);
    if (wanted(&x, 0)) {
        int32_t constant = op(&x, MLSI_OP_EQ, x.b, zero);
        int32_t power = op(&x, MLSI_OP_POW, x.a, op(&x, MLSI_OP_SUB, x.b, one));
        int32_t slope = choose(&x, constant, zero, op(&x, MLSI_OP_MUL, x.b, power));
        give(&x, 0, op(&x, MLSI_OP_MUL, x.dy, slope));
    }
    if (wanted(&x, 1)) {
        int32_t base_zero = op(&x, MLSI_OP_EQ, x.a, zero), grows = op(&x, MLSI_OP_GE, x.b, zero);
        int32_t flat = op(&x, MLSI_OP_AND, base_zero, grows);
        int32_t safe = choose(&x, flat, one, x.a), log = mlsi_emit_1(&x.e, MLSI_OP_LOG, safe);
        int32_t slope = choose(&x, flat, zero, op(&x, MLSI_OP_MUL, x.y, log));
        give(&x, 1, op(&x, MLSI_OP_MUL, x.dy, slope));
    }
    return x.e.st;
}

/* Angle of (b, a): da = dy * b / (a^2 + b^2), db = -dy * a / (a^2 + b^2). */
mlsys_status mlsi_vjp_atan2(mlsi_vjp *v) {
    binary_vjp x = begin(v);
    int32_t aa = op(&x, MLSI_OP_MUL, x.a, x.a), bb = op(&x, MLSI_OP_MUL, x.b, x.b);
    int32_t q = op(&x, MLSI_OP_DIV, x.dy, op(&x, MLSI_OP_ADD, aa, bb));
    if (wanted(&x, 0)) give(&x, 0, op(&x, MLSI_OP_MUL, q, x.b));
    if (wanted(&x, 1)) give(&x, 1, negated(&x, op(&x, MLSI_OP_MUL, q, x.a)));
    return x.e.st;
}

/* To the operand that was taken; half to each where they are equal. */
static mlsys_status vjp_extreme(mlsi_vjp *v, mlsi_op first_wins) {
    binary_vjp x = begin(v);
    int32_t zero = number(&x, 0), equal = op(&x, MLSI_OP_EQ, x.a, x.b);
    int32_t first = op(&x, first_wins, x.a, x.b), half = op(&x, MLSI_OP_MUL, x.dy, number(&x, 0.5));
    for (int i = 0; i < 2; i++) {
        if (!wanted(&x, i)) continue;
        int32_t alone = i ? choose(&x, first, zero, x.dy) : choose(&x, first, x.dy, zero);
        give(&x, i, choose(&x, equal, half, alone));
    }
    return x.e.st;
}
mlsys_status mlsi_vjp_max(mlsi_vjp *v) { return vjp_extreme(v, MLSI_OP_GT); }
mlsys_status mlsi_vjp_min(mlsi_vjp *v) { return vjp_extreme(v, MLSI_OP_LT); }

/* What was not chosen is a zero by structure. */
mlsys_status mlsi_vjp_select(mlsi_vjp *v) {
    binary_vjp x = begin(v);
    int32_t zero = number(&x, 0);
    mlsi_type y = *mlsi_emit_type(&x.e, v->out[0]);
    int32_t chosen = mlsi_emit_broadcast(&x.e, v->in[0], y.rank, y.dims);
    for (int i = 1; i < 3; i++) {
        if (!wanted(&x, i)) continue;
        int32_t here = i == 1 ? chosen : mlsi_emit_1(&x.e, MLSI_OP_NOT, chosen);
        v->din_alive[i] = v->alive < 0 ? here : op(&x, MLSI_OP_AND, v->alive, here);
    }
    if (wanted(&x, 1)) give(&x, 1, choose(&x, v->in[0], x.dy, zero));
    if (wanted(&x, 2)) give(&x, 2, choose(&x, v->in[0], zero, x.dy));
    return x.e.st;
}

/* min(max(x, lo), hi): to x inside [lo, hi], ends included; else to the end that was taken, hi
 * before lo. */
mlsys_status mlsi_vjp_clamp(mlsi_vjp *v) {
    binary_vjp x = begin(v);
    int32_t zero = number(&x, 0), in = v->in[0], lo = v->in[1], hi = v->in[2];
    int32_t from_lo = op(&x, MLSI_OP_MAX, in, lo), above = op(&x, MLSI_OP_GT, from_lo, hi);
    int32_t below = op(&x, MLSI_OP_LT, in, lo), open = choose(&x, above, zero, x.dy);
    if (wanted(&x, 0)) give(&x, 0, choose(&x, below, zero, open));
    if (wanted(&x, 1)) give(&x, 1, choose(&x, below, open, zero));
    if (wanted(&x, 2)) give(&x, 2, choose(&x, above, x.dy, zero));
    return x.e.st;
}

mlsys_status mlsi_vjp_fma(mlsi_vjp *v) {
    binary_vjp x = begin(v);
    if (wanted(&x, 0)) give(&x, 0, op(&x, MLSI_OP_MUL, x.dy, x.b));
    if (wanted(&x, 1)) give(&x, 1, op(&x, MLSI_OP_MUL, x.dy, x.a));
    if (wanted(&x, 2)) give(&x, 2, x.dy);
    return x.e.st;
}
