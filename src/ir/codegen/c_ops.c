/* Elementwise ops as C. Each text means what docs/numerics.md says of the op on registers of the class; results narrower
 * than the register are rounded by the caller. */
#include "ir/codegen/c_writer.h"

typedef struct op_text {
    mlsi_op op;
    const char *f32, *lanes, *f64, *integer; /* NULL: not defined, or no text */
} op_text;

#define MATH(ID, name)                                                                             \
    { MLSI_OP_##ID, "ml_" #name "($0)", "ef_" #name "($0)", "ed_" #name "($0)", NULL }
#define COMPARE(ID, name, op)                                                                      \
    { MLSI_OP_##ID, "($0 " op " $1)", "vf_" #name "($0, $1)", "($0 " op " $1)", "($0 " op " $1)" }

static const op_text texts[] = {
    {MLSI_OP_NEG, "-($0)", "vf_neg($0)", "-($0)", "wrap_sub(0, $0)"},
    {MLSI_OP_ABS, "__builtin_fabsf($0)", "vf_abs($0)", "__builtin_fabs($0)", "int_abs($0)"},
    {MLSI_OP_SIGN, "ml_sign($0)", "ml_vsign($0)", "sign64($0)", "int_sign($0)"},
    {MLSI_OP_CEIL, "ml_ceil($0)", "vf_ceil($0)", "__builtin_ceil($0)", "$0"},
    {MLSI_OP_FLOOR, "ml_floor($0)", "vf_floor($0)", "__builtin_floor($0)", "$0"},
    {MLSI_OP_TRUNC, "ml_trunc($0)", "vf_trunc($0)", "__builtin_trunc($0)", "$0"},
    {MLSI_OP_ROUND, "ml_rint($0)", "vf_rint($0)", "__builtin_nearbyint($0)", "$0"},
    {MLSI_OP_SQRT, "__builtin_sqrtf($0)", "vf_sqrt($0)", "__builtin_sqrt($0)", NULL},
    {MLSI_OP_RSQRT, "(1.0f / __builtin_sqrtf($0))", "vf_div(vf_set1(1.0f), vf_sqrt($0))",
     "(1.0 / __builtin_sqrt($0))", NULL},
    MATH(CBRT, cbrt),
    MATH(EXP, exp),
    MATH(EXP2, exp2),
    MATH(EXPM1, expm1),
    MATH(LOG, log),
    MATH(LOG2, log2),
    MATH(LOG10, log10),
    MATH(LOG1P, log1p),
    MATH(SIN, sin),
    MATH(COS, cos),
    MATH(TAN, tan),
    MATH(ASIN, asin),
    MATH(ACOS, acos),
    MATH(ATAN, atan),
    MATH(SINH, sinh),
    MATH(COSH, cosh),
    MATH(TANH, tanh),
    MATH(ASINH, asinh),
    MATH(ACOSH, acosh),
    MATH(ATANH, atanh),
    MATH(ERF, erf),
    MATH(ERFC, erfc),
    {MLSI_OP_SIGMOID, "ml_sigmoid($0)", "ef_sigmoid($0)", "(1.0 / (1.0 + ed_exp(-($0))))", NULL},
    {MLSI_OP_POW, "ml_pow($0, $1)", "ef_pow($0, $1)", "ed_pow($0, $1)", "int_pow($0, $1)"},
    {MLSI_OP_ATAN2, "ml_atan2($0, $1)", "ef_atan2($0, $1)", "ed_atan2($0, $1)", NULL},
    {MLSI_OP_NOT, NULL, NULL, NULL, "~($0)"},
    {MLSI_OP_IS_NAN, "ml_is_nan($0)", "vf_isnan($0)", "ml_is_nan64($0)", "0"},
    {MLSI_OP_IS_FINITE, "ml_is_finite($0)", "vf_lt(vf_abs($0), vf_set1(__builtin_inff()))",
     "ml_is_finite64($0)", "1"},
    {MLSI_OP_ADD, "($0 + $1)", "vf_add($0, $1)", "($0 + $1)", "wrap_add($0, $1)"},
    {MLSI_OP_SUB, "($0 - $1)", "vf_sub($0, $1)", "($0 - $1)", "wrap_sub($0, $1)"},
    {MLSI_OP_MUL, "($0 * $1)", "vf_mul($0, $1)", "($0 * $1)", "wrap_mul($0, $1)"},
    {MLSI_OP_DIV, "($0 / $1)", "vf_div($0, $1)", "($0 / $1)", "int_div($0, $1)"},
    {MLSI_OP_REM, "__builtin_fmodf($0, $1)", NULL, "__builtin_fmod($0, $1)", "int_rem($0, $1)"},
    {MLSI_OP_MOD, "float_mod32($0, $1)", NULL, "float_mod64($0, $1)", "int_mod($0, $1)"},
    {MLSI_OP_MAX, "ml_max($0, $1)", "vf_maximum($0, $1)", "max64($0, $1)", "int_max($0, $1)"},
    {MLSI_OP_MIN, "ml_min($0, $1)", "vf_minimum($0, $1)", "min64($0, $1)", "int_min($0, $1)"},
    {MLSI_OP_AND, NULL, NULL, NULL, "($0 & $1)"},
    {MLSI_OP_OR, NULL, NULL, NULL, "($0 | $1)"},
    {MLSI_OP_XOR, NULL, NULL, NULL, "($0 ^ $1)"},
    COMPARE(EQ, eq, "=="),
    COMPARE(NE, ne, "!="),
    COMPARE(LT, lt, "<"),
    COMPARE(LE, le, "<="),
    COMPARE(GT, gt, ">"),
    COMPARE(GE, ge, ">="),
    {MLSI_OP_CLAMP, "ml_min(ml_max($0, $1), $2)", "vf_minimum(vf_maximum($0, $1), $2)",
     "min64(max64($0, $1), $2)", "int_min(int_max($0, $1), $2)"},
    {MLSI_OP_FMA, "__builtin_fmaf($0, $1, $2)", "vf_fma($0, $1, $2)", "__builtin_fma($0, $1, $2)",
     "wrap_add(wrap_mul($0, $1), $2)"},
    {MLSI_OP_SELECT, "($0 ? $1 : $2)", "vf_select($0, $1, $2)", "($0 ? $1 : $2)", "($0 ? $1 : $2)"},
};

/* On i32 in lanes. */
static const op_text int_texts[] = {
    {MLSI_OP_NEG, NULL, "vi_sub(vi_zero(), $0)", NULL, NULL},
    {MLSI_OP_NOT, NULL, "vi_xor($0, vi_set1(-1))", NULL, NULL},
    {MLSI_OP_ADD, NULL, "vi_add($0, $1)", NULL, NULL},
    {MLSI_OP_SUB, NULL, "vi_sub($0, $1)", NULL, NULL},
    {MLSI_OP_MUL, NULL, "vi_mul($0, $1)", NULL, NULL},
    {MLSI_OP_MAX, NULL, "vi_max($0, $1)", NULL, NULL},
    {MLSI_OP_MIN, NULL, "vi_min($0, $1)", NULL, NULL},
    {MLSI_OP_AND, NULL, "vi_and($0, $1)", NULL, NULL},
    {MLSI_OP_OR, NULL, "vi_or($0, $1)", NULL, NULL},
    {MLSI_OP_XOR, NULL, "vi_xor($0, $1)", NULL, NULL},
    {MLSI_OP_EQ, NULL, "vi_eq($0, $1)", NULL, NULL},
    {MLSI_OP_NE, NULL, "vm_not(vi_eq($0, $1))", NULL, NULL},
    {MLSI_OP_LT, NULL, "vi_lt($0, $1)", NULL, NULL},
    {MLSI_OP_LE, NULL, "vm_not(vi_gt($0, $1))", NULL, NULL},
    {MLSI_OP_GT, NULL, "vi_gt($0, $1)", NULL, NULL},
    {MLSI_OP_GE, NULL, "vm_not(vi_lt($0, $1))", NULL, NULL},
    {MLSI_OP_CLAMP, NULL, "vi_min(vi_max($0, $1), $2)", NULL, NULL},
    {MLSI_OP_SELECT, NULL, "vi_select($0, $1, $2)", NULL, NULL},
};

/* On truth values: scalars 0 or 1, lanes VM. */
static const op_text bool_texts[] = {
    {MLSI_OP_NOT, "(!($0))", "vm_not($0)", NULL, NULL},
    {MLSI_OP_AND, "($0 & $1)", "vm_and($0, $1)", NULL, NULL},
    {MLSI_OP_OR, "($0 | $1)", "vm_or($0, $1)", NULL, NULL},
    {MLSI_OP_XOR, "($0 ^ $1)", "vm_xor($0, $1)", NULL, NULL},
    {MLSI_OP_EQ, "($0 == $1)", "vm_not(vm_xor($0, $1))", NULL, NULL},
    {MLSI_OP_NE, "($0 != $1)", "vm_xor($0, $1)", NULL, NULL},
    {MLSI_OP_LT, "($0 < $1)", "vm_and(vm_not($0), $1)", NULL, NULL},
    {MLSI_OP_LE, "($0 <= $1)", "vm_or(vm_not($0), $1)", NULL, NULL},
    {MLSI_OP_GT, "($0 > $1)", "vm_and($0, vm_not($1))", NULL, NULL},
    {MLSI_OP_GE, "($0 >= $1)", "vm_or($0, vm_not($1))", NULL, NULL},
    {MLSI_OP_SELECT, "($0 ? $1 : $2)", "vm_or(vm_and($0, $1), vm_and(vm_not($0), $2))", NULL, NULL},
};

static const op_text *find(const op_text *t, size_t n, mlsi_op op) {
    for (size_t i = 0; i < n; i++)
        if (t[i].op == op) return &t[i];
    return NULL;
}

const char *mlsi_c_op(mlsi_op op, mlsi_c_class class_of_args, bool vector) {
    bool truth = class_of_args == MLSI_C_BOOL;
    if (vector && class_of_args == MLSI_C_INT) {
        const op_text *in_lanes = find(int_texts, sizeof int_texts / sizeof *int_texts, op);
        return in_lanes ? in_lanes->lanes : NULL;
    }
    const op_text *t = truth ? find(bool_texts, sizeof bool_texts / sizeof *bool_texts, op)
                             : find(texts, sizeof texts / sizeof *texts, op);
    if (!t) return NULL;
    if (truth) return vector ? t->lanes : t->f32;
    switch (class_of_args) {
    case MLSI_C_F32: return vector ? t->lanes : t->f32;
    case MLSI_C_F64: return vector ? NULL : t->f64;
    default: return t->integer;
    }
}

/* ---- casts -------------------------------------------------------------------------------------------- */

static bool small_int(mlsys_dtype t) { /* exact in f32 */
    return t == MLSYS_I16 || t == MLSYS_I8 || t == MLSYS_U8 || t == MLSYS_BOOL;
}

bool mlsi_c_casts_in_lanes(mlsys_dtype from, mlsys_dtype to) {
    mlsi_c_class a = mlsi_c_class_of(from), b = mlsi_c_class_of(to);
    if (to == MLSYS_F8E4M3 || to == MLSYS_F8E5M2) return false;
    if (a == MLSI_C_F32 && b == MLSI_C_F32) return true;
    if (a == MLSI_C_BOOL && (b == MLSI_C_F32 || to == MLSYS_I32)) return true;
    if (from == MLSYS_I32 && to == MLSYS_BOOL) return true;
    if (to == MLSYS_F32 && (from == MLSYS_I32 || from == MLSYS_I8 || from == MLSYS_U8)) return true;
    return a == MLSI_C_F32 && b == MLSI_C_BOOL;
}

static void in_lanes(mlsi_c_writer *w, mlsys_dtype from, mlsys_dtype to, int32_t arg) {
    mlsi_c_class a = mlsi_c_class_of(from), b = mlsi_c_class_of(to);
    const char *open = "", *close = "";
    if (b == MLSI_C_BOOL && a == MLSI_C_F32) open = "vf_ne(", close = ", vf_zero())";
    if (b == MLSI_C_BOOL && a == MLSI_C_INT) open = "vm_not(vi_eq(", close = ", vi_zero()))";
    if (a == MLSI_C_BOOL && b == MLSI_C_F32)
        open = "vf_select(", close = ", vf_set1(1.0f), vf_zero())";
    if (a == MLSI_C_BOOL && b == MLSI_C_INT)
        open = "vi_select(", close = ", vi_set1(1), vi_zero())";
    if (a == MLSI_C_INT && b == MLSI_C_F32) open = "vi_cvt_f(", close = ")";
    mlsi_text_add(w->out, "%s", open);
    mlsi_c_value(w, arg);
    mlsi_text_add(w->out, "%s", close);
}

void mlsi_c_cast(mlsi_c_writer *w, mlsys_dtype from, mlsys_dtype to, int32_t arg) {
    mlsi_c_class a = mlsi_c_class_of(from), b = mlsi_c_class_of(to);
    if (w->mode != MLSI_C_SCALAR && mlsi_c_varies(w, arg)) {
        in_lanes(w, from, to, arg);
        return;
    }
    bool narrow = b == MLSI_C_F32 && to != MLSYS_F32;
    bool wide = a == MLSI_C_F64 || (a == MLSI_C_INT && !small_int(from));
    if (narrow && wide) /* not through f32, which would round twice */
        mlsi_text_add(w->out, "ml_narrow_%s(%s(", mlsi_dtype_get(to)->name,
                      a == MLSI_C_F64 ? "" : "ml_to_odd");
    else if (b == MLSI_C_F32)
        mlsi_text_add(w->out, "(float)(");
    else if (b == MLSI_C_F64)
        mlsi_text_add(w->out, "(double)(");
    else if (b == MLSI_C_BOOL)
        mlsi_text_add(w->out, "0 != (");
    else if (a == MLSI_C_F32 || a == MLSI_C_F64)
        mlsi_text_add(w->out, "ml_to_%s((double)", mlsi_dtype_get(to)->name);
    else
        mlsi_text_add(w->out, "(int64_t)(%s)(", mlsi_c_memory_type(to));
    mlsi_c_scalar(w, arg);
    mlsi_text_add(w->out, narrow && wide ? "))" : ")");
}
