/* Gradient rules of the elementwise ops of one operand: dx = dy * f'(x), computed in x's dtype. Values that
 * the forward node has computed (y) are used where that costs no accuracy. */
#include "core/faults.h"
#include "ir/ops/gradient.h"

#include <math.h>

typedef struct unary_vjp {
    mlsi_emit e;
    mlsys_dtype dtype;
    int32_t x, y, dy;
} unary_vjp;

static unary_vjp begin(const mlsi_vjp *v) {
    unary_vjp u = {.e = mlsi_vjp_begin(v), .x = v->in[0], .y = v->out[0], .dy = v->dout[0]};
    u.dtype = mlsi_emit_type(&u.e, u.x)->dtype;
    return u;
}

static int32_t number(unary_vjp *u, double value) {
    return mlsi_emit_scalar(&u->e, u->dtype, value);
}
static int32_t add(unary_vjp *u, int32_t a, int32_t b) {
    return mlsi_emit_2(&u->e, MLSI_OP_ADD, a, b);
}
static int32_t sub(unary_vjp *u, int32_t a, int32_t b) {
    return mlsi_emit_2(&u->e, MLSI_OP_SUB, a, b);
}
static int32_t mul(unary_vjp *u, int32_t a, int32_t b) {
    return mlsi_emit_2(&u->e, MLSI_OP_MUL, a, b);
}
static int32_t quotient(unary_vjp *u, int32_t a, int32_t b) {
    return mlsi_emit_2(&u->e, MLSI_OP_DIV, a, b);
}
static int32_t apply(unary_vjp *u, mlsi_op op, int32_t a) { return mlsi_emit_1(&u->e, op, a); }
static int32_t scaled(unary_vjp *u, int32_t a, double factor) {
    int32_t f = number(u, factor);
    return mul(u, a, f);
}
/* 1 + square of a; 1 - square of a as (1 - a)(1 + a), which does not cancel near 1. */
static int32_t one_plus_square(unary_vjp *u, int32_t a) {
    int32_t square = mul(u, a, a), one = number(u, 1);
    return add(u, one, square);
}
static int32_t one_minus_square(unary_vjp *u, int32_t a) {
    int32_t one = number(u, 1), less = sub(u, one, a), more = add(u, one, a);
    return mul(u, less, more);
}
/* exp(-x^2) * factor */
static int32_t bell(unary_vjp *u, double factor) {
    int32_t square = mul(u, u->x, u->x), minus = apply(u, MLSI_OP_NEG, square);
    return scaled(u, apply(u, MLSI_OP_EXP, minus), factor);
}

/* UNARY_VJP(op, dx as an expression in u) */
#define UNARY_VJP(name, ...)                                                                       \
    mlsys_status mlsi_vjp_##name(mlsi_vjp *v) {                                                    \
        unary_vjp state = begin(v), *u = &state;                                                   \
        int32_t dx = __VA_ARGS__;                                                                  \
        v->din[0] = mlsi_emit_alive(&u->e, v, dx);                                                 \
        return u->e.st;                                                                            \
    }

UNARY_VJP(neg, apply(u, MLSI_OP_NEG, u->dy))
UNARY_VJP(copy, u->dy)
UNARY_VJP(barrier, u->dy)
UNARY_VJP(abs, mul(u, u->dy, apply(u, MLSI_OP_SIGN, u->x))) /* 0 at the kink */
UNARY_VJP(sqrt, quotient(u, scaled(u, u->dy, 0.5), u->y))
UNARY_VJP(rsqrt, quotient(u, mul(u, scaled(u, u->dy, -0.5), u->y), u->x))
UNARY_VJP(cbrt, quotient(u, u->dy, scaled(u, mul(u, u->y, u->y), 3)))
UNARY_VJP(exp,
          mul(u, mlsi_fault(MLSI_FAULT_ADJOINT_SCALE) ? scaled(u, u->dy, 1.0001) : u->dy, u->y))
UNARY_VJP(exp2, mul(u, u->dy, scaled(u, u->y, 0.69314718055994530942)))
UNARY_VJP(expm1, mul(u, u->dy, apply(u, MLSI_OP_EXP, u->x))) /* y + 1 would cancel */
UNARY_VJP(log, quotient(u, u->dy, u->x))
UNARY_VJP(log2, quotient(u, u->dy, scaled(u, u->x, 0.69314718055994530942)))
UNARY_VJP(log10, quotient(u, u->dy, scaled(u, u->x, 2.30258509299404568402)))
UNARY_VJP(log1p, quotient(u, u->dy, add(u, u->x, number(u, 1))))
UNARY_VJP(sin, mul(u, u->dy, apply(u, MLSI_OP_COS, u->x)))
UNARY_VJP(cos, mul(u, u->dy, apply(u, MLSI_OP_NEG, apply(u, MLSI_OP_SIN, u->x))))
UNARY_VJP(tan, mul(u, u->dy, one_plus_square(u, u->y)))
UNARY_VJP(asin, quotient(u, u->dy, apply(u, MLSI_OP_SQRT, one_minus_square(u, u->x))))
UNARY_VJP(acos, apply(u, MLSI_OP_NEG,
                      quotient(u, u->dy, apply(u, MLSI_OP_SQRT, one_minus_square(u, u->x)))))
UNARY_VJP(atan, quotient(u, u->dy, one_plus_square(u, u->x)))
UNARY_VJP(sinh, mul(u, u->dy, apply(u, MLSI_OP_COSH, u->x)))
UNARY_VJP(cosh, mul(u, u->dy, apply(u, MLSI_OP_SINH, u->x)))
UNARY_VJP(tanh, mul(u, u->dy, one_minus_square(u, u->y)))
UNARY_VJP(asinh, quotient(u, u->dy, apply(u, MLSI_OP_SQRT, one_plus_square(u, u->x))))
UNARY_VJP(atanh, quotient(u, u->dy, one_minus_square(u, u->x)))
UNARY_VJP(erf, mul(u, u->dy, bell(u, 1.12837916709551257390)))
UNARY_VJP(erfc, mul(u, u->dy, bell(u, -1.12837916709551257390)))

/* sqrt((x - 1)(x + 1)) */
mlsys_status mlsi_vjp_acosh(mlsi_vjp *v) {
    unary_vjp state = begin(v), *u = &state;
    int32_t one = number(u, 1), less = sub(u, u->x, one), more = add(u, u->x, one);
    int32_t dx = quotient(u, u->dy, apply(u, MLSI_OP_SQRT, mul(u, less, more)));
    v->din[0] = mlsi_emit_alive(&u->e, v, dx);
    return u->e.st;
}

mlsys_status mlsi_vjp_sigmoid(mlsi_vjp *v) {
    unary_vjp state = begin(v), *u = &state;
    int32_t one = number(u, 1), rest = sub(u, one, u->y), slope = mul(u, u->y, rest);
    v->din[0] = mul(u, u->dy, slope);
    return u->e.st;
}

/* Between floats; the rounding counts as the identity. */
mlsys_status mlsi_vjp_cast(mlsi_vjp *v) {
    unary_vjp state = begin(v), *u = &state;
    v->din[0] = mlsi_emit_cast(&u->e, u->dy, u->dtype);
    return u->e.st;
}

/* 0 at the kink. */
mlsys_status mlsi_vjp_relu(mlsi_vjp *v) {
    unary_vjp state = begin(v), *u = &state;
    int32_t zero = number(u, 0), positive = mlsi_emit_2(&u->e, MLSI_OP_GT, u->x, zero);
    v->din[0] = mlsi_emit_select(&u->e, positive, u->dy, zero);
    return u->e.st;
}

/* s + y * (1 - s), s = sigmoid(x) */
mlsys_status mlsi_vjp_silu(mlsi_vjp *v) {
    unary_vjp state = begin(v), *u = &state;
    int32_t s = apply(u, MLSI_OP_SIGMOID, u->x), one = number(u, 1), rest = sub(u, one, s);
    int32_t slope = add(u, s, mul(u, u->y, rest));
    v->din[0] = mul(u, u->dy, slope);
    return u->e.st;
}

#define STEP_VJP(name)                                                                             \
    mlsys_status mlsi_vjp_##name(mlsi_vjp *v) { return mlsi_vjp_zero(v); }
STEP_VJP(sign)
STEP_VJP(ceil)
STEP_VJP(floor)
STEP_VJP(trunc)
STEP_VJP(round)
