/* Scalar expressions as C, one element at a time or in lanes. */
#include "ir/codegen/cuda_writer.h"

#include "core/faults.h"

#include <string.h>

mlsi_c_class mlsi_c_class_of(mlsys_dtype t) {
    if (t == MLSYS_F64) return MLSI_C_F64;
    if (mlsi_dtype_is_float(t)) return MLSI_C_F32;
    return t == MLSYS_BOOL ? MLSI_C_BOOL : MLSI_C_INT;
}

const char *mlsi_c_memory_type(mlsys_dtype t) {
    switch (t) {
    case MLSYS_F64: return "double";
    case MLSYS_F32: return "float";
    case MLSYS_F16:
    case MLSYS_BF16: return "uint16_t";
    case MLSYS_I64: return "int64_t";
    case MLSYS_I32: return "int32_t";
    case MLSYS_I16: return "int16_t";
    case MLSYS_I8: return "int8_t";
    case MLSYS_F8E4M3:
    case MLSYS_F8E5M2:
    case MLSYS_U8:
    case MLSYS_BOOL: return "uint8_t";
    default: return NULL;
    }
}

const char *mlsi_c_register_type(mlsys_dtype t, bool vector) {
    switch (mlsi_c_class_of(t)) {
    case MLSI_C_F32: return vector ? "VF" : "float";
    case MLSI_C_F64: return "double";
    case MLSI_C_BOOL: return vector ? "VM" : "int";
    default: return vector ? "VI" : "int64_t";
    }
}

void mlsi_c_refuse(mlsi_c_writer *w, const char *why) {
    if (w->status == MLSYS_OK)
        w->status = mlsi_fail(MLSYS_E_UNSUPPORTED, "%s: no C text for %s", w->n->name, why);
}

static bool is_narrow(mlsys_dtype t) {
    return mlsi_dtype_is_float(t) && t != MLSYS_F32 && t != MLSYS_F64;
}

/* ---- memory ----------------------------------------------------------------------------------------------- */

static void element(mlsi_c_writer *w, const mlsi_lx *x) {
    const char *name = w->n->buffers[x->ref].name;
    if (!mlsi_c_memory_type(x->dtype)) mlsi_c_refuse(w, mlsi_dtype_get(x->dtype)->name);
    if (is_narrow(x->dtype)) mlsi_text_add(w->out, "ml_load_%s(&", mlsi_dtype_get(x->dtype)->name);
    if (w->worker == MLSI_C_HOST || (!mlsi_cuda_packed_load(w, x) && !mlsi_cuda_tiled_load(w, x))) {
        mlsi_text_add(w->out, "m_%s[", name);
        mlsi_c_address(w, x->ref, x->index);
        mlsi_text_add(w->out, "]");
    }
    if (is_narrow(x->dtype)) mlsi_text_add(w->out, ")");
}

const char *mlsi_c_load_name(mlsys_dtype t) {
    switch (t) {
    case MLSYS_F32: return "vf_load";
    case MLSYS_F16: return "vf_load_f16";
    case MLSYS_BF16: return "vf_load_bf16";
    case MLSYS_I32: return "vi_load";
    case MLSYS_I8: return "vi_load_i8";
    case MLSYS_U8: return "vi_load_u8";
    case MLSYS_BOOL: return "ml_load_bool";
    default: return NULL;
    }
}

static void load_lanes(mlsi_c_writer *w, const mlsi_lx *x) {
    const char *name = mlsi_c_load_name(x->dtype);
    bool tail = w->mode == MLSI_C_TAIL,
         own = x->dtype == MLSYS_I8 || x->dtype == MLSYS_U8 || x->dtype == MLSYS_BOOL;
    if (!name) {
        mlsi_c_refuse(w, "lanes of this dtype");
        return;
    }
    mlsi_text_add(w->out, "%s%s%s(&m_%s[", tail && own && x->dtype != MLSYS_BOOL ? "ml_" : "", name,
                  tail ? "_n" : "", w->n->buffers[x->ref].name);
    mlsi_c_address(w, x->ref, x->index);
    mlsi_text_add(w->out, tail ? "], m)" : "])");
}

/* ---- ops ------------------------------------------------------------------------------------------------------ */

mlsys_dtype mlsi_c_args_dtype(const mlsi_nest *n, const mlsi_lx *x) {
    return n->exprs[x->args[x->n_args - 1]].dtype;
}

static int argument(const mlsi_lx *x, int i) {
    if (mlsi_fault(MLSI_FAULT_C_OPERANDS) && x->op == MLSI_OP_SUB) return 1 - i;
    if (mlsi_fault(MLSI_FAULT_C_SELECT) && x->op == MLSI_OP_SELECT && i) return 3 - i;
    return i;
}

static void substitute(mlsi_c_writer *w, const char *text, const mlsi_lx *x, bool lanes) {
    for (const char *p = text; *p; p++) {
        if (*p != '$') {
            mlsi_text_add(w->out, "%c", *p);
            continue;
        }
        p++;
        int arg = argument(x, *p - '0');
        if (lanes)
            mlsi_c_value(w, x->args[arg]);
        else
            mlsi_c_scalar(w, x->args[arg]);
    }
}

static void shift(mlsi_c_writer *w, const mlsi_lx *x) {
    mlsi_text_add(w->out, "(int64_t)(%s)shift_%s(", mlsi_c_memory_type(x->dtype),
                  x->op == MLSI_OP_SHIFT_LEFT ? "left" : "right");
    mlsi_c_scalar(w, x->args[0]);
    mlsi_text_add(w->out, ", ");
    mlsi_c_scalar(w, x->args[1]);
    mlsi_text_add(w->out, ", %d)", 8 * mlsi_dtype_size(x->dtype));
}

static void bitcast(mlsi_c_writer *w, const mlsi_lx *x) {
    mlsys_dtype from = w->n->exprs[x->args[0]].dtype;
    mlsi_text_add(w->out, "ml_bits_to_%s(ml_bits_of_%s(", mlsi_dtype_get(x->dtype)->name,
                  mlsi_dtype_get(from)->name);
    mlsi_c_scalar(w, x->args[0]);
    mlsi_text_add(w->out, "))");
}

static void random_number(mlsi_c_writer *w, const mlsi_lx *x) {
    const char *name = mlsi_dtype_get(x->dtype)->name;
    bool wraps = x->bits == MLSI_RANDOM_BITS && x->dtype != MLSYS_I64;
    if (wraps) mlsi_text_add(w->out, "(int64_t)(%s)", mlsi_c_memory_type(x->dtype));
    if (x->bits == MLSI_RANDOM_BITS)
        mlsi_text_add(w->out, wraps ? "ml_random_bits32(" : "ml_random_bits64(");
    else
        mlsi_text_add(w->out, "ml_random_%s_%s(",
                      x->bits == MLSI_RANDOM_UNIFORM ? "uniform" : "normal", name);
    mlsi_c_scalar(w, x->args[0]);
    mlsi_text_add(w->out, ", ");
    mlsi_c_scalar(w, x->args[1]);
    mlsi_text_add(w->out, ", ");
    mlsi_c_index(w, x->index[0]);
    mlsi_text_add(w->out, ")");
}

static void op(mlsi_c_writer *w, const mlsi_lx *x, bool lanes) {
    mlsys_dtype from = mlsi_c_args_dtype(w->n, x);
    mlsi_c_class c = mlsi_c_class_of(from);
    bool narrow = is_narrow(x->dtype) && x->op != MLSI_OP_SELECT && x->op != MLSI_OP_BITCAST &&
                  !mlsi_fault(MLSI_FAULT_C_ROUNDING);
    bool wraps = !lanes && !mlsi_fault(MLSI_FAULT_C_WRAP) &&
                 mlsi_c_class_of(x->dtype) == MLSI_C_INT && x->dtype != MLSYS_I64 &&
                 c == MLSI_C_INT;
    const char *text = mlsi_c_op(x->op, c, lanes);
    if (narrow)
        mlsi_text_add(w->out, lanes ? "ml_vround_%s(" : "ml_round_%s(",
                      mlsi_dtype_get(x->dtype)->name);
    if (lanes && mlsi_c_is_index_op(w, x)) {
        mlsi_c_index_op(w, x);
    } else if (x->op == MLSI_OP_CAST) {
        mlsi_c_cast(w, from, x->dtype, x->args[0]);
    } else if (x->op == MLSI_OP_SHIFT_LEFT || x->op == MLSI_OP_SHIFT_RIGHT) {
        shift(w, x);
    } else if (x->op == MLSI_OP_BITCAST) {
        bitcast(w, x);
    } else if (!text) {
        mlsi_c_refuse(w, mlsi_op_name(x->op));
    } else {
        if (wraps) mlsi_text_add(w->out, "(int64_t)(%s)(", mlsi_c_memory_type(x->dtype));
        substitute(w, text, x, lanes);
        if (wraps) mlsi_text_add(w->out, ")");
    }
    if (narrow) mlsi_text_add(w->out, ")");
}

/* ---- constants ------------------------------------------------------------------------------------------------- */

static void constant(mlsi_c_writer *w, const mlsi_lx *x) {
    mlsi_view v = {.data = (char *)(uintptr_t)&x->bits, .dtype = x->dtype};
    if (!mlsi_dtype_is_float(x->dtype)) {
        int64_t i = mlsi_ref_get_i(&v, 0);
        if (i == INT64_MIN)
            mlsi_text_add(w->out, "INT64_MIN");
        else
            mlsi_text_add(w->out, x->dtype == MLSYS_BOOL ? "%lld" : "INT64_C(%lld)", (long long)i);
        return;
    }
    double f = mlsi_ref_get_f(&v, 0);
    if (mlsi_fault(MLSI_FAULT_C_ZERO) && f == 0) f = 0;
    const char *suffix = x->dtype == MLSYS_F64 ? "" : "f";
    if (f != f)
        mlsi_text_add(w->out, "__builtin_nan%s(\"\")", suffix);
    else if (f - f != 0)
        mlsi_text_add(w->out, "%s__builtin_inf%s()", f < 0 ? "-" : "", suffix);
    else
        mlsi_text_add(w->out, "%a%s", f, suffix);
}

static void guard(mlsi_c_writer *w, const mlsi_lx *x, bool lanes) {
    mlsi_text_add(w->out, "(");
    mlsi_c_index(w, x->index[0]);
    mlsi_text_add(w->out, " <= ");
    mlsi_c_index(w, x->index[1]);
    mlsi_text_add(w->out, " && ");
    mlsi_c_index(w, x->index[1]);
    mlsi_text_add(w->out, " < ");
    mlsi_c_index(w, x->index[2]);
    for (int i = 0; i < 2; i++) {
        mlsi_text_add(w->out, i ? " : " : " ? ");
        if (lanes)
            mlsi_c_value(w, x->args[i]);
        else
            mlsi_c_scalar(w, x->args[i]);
    }
    mlsi_text_add(w->out, ")");
}

void mlsi_c_scalar(mlsi_c_writer *w, int32_t expr) {
    const mlsi_lx *x = &w->n->exprs[expr];
    switch (x->kind) {
    case MLSI_LX_CONST: constant(w, x); break;
    case MLSI_LX_INDEX: mlsi_c_index(w, x->index[0]); break;
    case MLSI_LX_LOAD: element(w, x); break;
    case MLSI_LX_OP: op(w, x, false); break;
    case MLSI_LX_LET: mlsi_text_add(w->out, "x_%s", w->n->lets[x->ref].name); break;
    case MLSI_LX_ACC: mlsi_text_add(w->out, "%s_r", w->n->accs[x->ref].name); break;
    case MLSI_LX_GUARD: guard(w, x, false); break;
    case MLSI_LX_RANDOM: random_number(w, x); break;
    default: mlsi_c_refuse(w, "shuffles"); break;
    }
}

static void broadcast(mlsi_c_writer *w, const mlsi_lx *x, int32_t expr) {
    switch (mlsi_c_class_of(x->dtype)) {
    case MLSI_C_F32: mlsi_text_add(w->out, "vf_set1("); break;
    case MLSI_C_INT: mlsi_text_add(w->out, "vi_set1((int32_t)"); break;
    case MLSI_C_BOOL: mlsi_text_add(w->out, "ml_vm_set1("); break;
    default: mlsi_c_refuse(w, "lanes of f64"); return;
    }
    mlsi_c_scalar(w, expr);
    mlsi_text_add(w->out, ")");
}

void mlsi_c_value(mlsi_c_writer *w, int32_t expr) {
    const mlsi_lx *x = &w->n->exprs[expr];
    if (w->mode == MLSI_C_SCALAR) {
        mlsi_c_scalar(w, expr);
    } else if (!mlsi_c_varies(w, expr)) {
        broadcast(w, x, expr);
    } else if (x->kind == MLSI_LX_LOAD) {
        load_lanes(w, x);
    } else if (x->kind == MLSI_LX_OP) {
        op(w, x, true);
    } else if (x->kind == MLSI_LX_GUARD) {
        guard(w, x, true);
    } else {
        mlsi_c_scalar(w, expr); /* a name */
    }
}
