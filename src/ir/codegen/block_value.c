/* Scalar expressions as registers of block code: scalars, or tiles where they differ between the lanes. */
#include "ir/codegen/block_writer.h"

#include "core/faults.h"
#include "ir/ops/op_def.h"

#include <string.h>

static mlsi_tile_class class_of(const mlsi_block_writer *w, int32_t reg) {
    return w->code->registers[reg].cls;
}
static bool is_tile(const mlsi_block_writer *w, int32_t reg) {
    return w->code->registers[reg].tile;
}

int32_t mlsi_block_register_new(mlsi_block_writer *w, int32_t scope, mlsi_tile_class cls,
                                bool tile) {
    mlsi_alloc *a = w->n->alloc;
    int32_t r = w->code->n_registers;
    if (w->status == MLSYS_OK)
        w->status = MLSI_GROW(a, &w->code->registers, &w->cap_registers, r + 1);
    if (w->status == MLSYS_OK) w->status = MLSI_GROW(a, &w->facts, &w->cap_facts, r + 1);
    if (w->status != MLSYS_OK) return 0;
    w->code->registers[r] = (mlsi_block_register){.cls = cls, .tile = tile};
    w->facts[r] = (mlsi_block_fact){.scope = scope, .spread = -1};
    return w->code->n_registers++;
}

static int32_t define(mlsi_block_writer *w, mlsi_block_instr i, mlsi_tile_class cls, bool tile) {
    i.dst = mlsi_block_register_new(w, w->depth, cls, tile);
    i.one = !tile;
    mlsi_block_emit(w, w->depth, &i);
    return i.dst;
}

/* ---- constants, indices, memory -------------------------------------------------------------------------- */

/* Equal constants are one, written before the tasks. */
static int32_t before_tasks(mlsi_block_writer *w, const mlsi_block_instr *bits) {
    const mlsi_block_scope *s = &w->scopes[0];
    mlsi_block_instr i = *bits;
    for (int64_t k = 0; k < s->n; k++)
        if (s->instrs[k].kind == MLSI_BLOCK_BITS && s->instrs[k].cls == i.cls &&
            s->instrs[k].value == i.value)
            return s->instrs[k].dst;
    i.dst = mlsi_block_register_new(w, 0, i.cls, false);
    i.one = true;
    mlsi_block_emit(w, 0, &i);
    return i.dst;
}

static int32_t constant(mlsi_block_writer *w, const mlsi_lx *x) {
    mlsi_view v = {.data = (char *)(uintptr_t)&x->bits, .dtype = x->dtype};
    mlsi_tile_class c = mlsi_tile_class_of(x->dtype);
    mlsi_block_instr i = {.kind = MLSI_BLOCK_BITS, .cls = c};
    double d = 0;
    float f;
    if (mlsi_dtype_is_float(x->dtype)) d = mlsi_ref_get_f(&v, 0);
    f = (float)d;
    if (c == MLSI_TILE_F64)
        memcpy(&i.value, &d, sizeof d);
    else if (c == MLSI_TILE_F32)
        memcpy(&i.value, &f, sizeof f);
    else if (c == MLSI_TILE_BOOL)
        memset(&i.value, mlsi_ref_get_i(&v, 0) != 0, 1);
    else
        i.value = mlsi_ref_get_i(&v, 0);
    return before_tasks(w, &i);
}

static int32_t index_value(mlsi_block_writer *w, int64_t code) {
    mlsi_block_affine f = mlsi_block_affine_of(w, code);
    return define(w, (mlsi_block_instr){.kind = MLSI_BLOCK_INDEX, .b = f.base, .c = f.stride},
                  MLSI_TILE_I64, f.varies);
}

static int32_t load(mlsi_block_writer *w, const mlsi_lx *x) {
    mlsi_block_affine f = mlsi_block_address(w, x->ref, x->index);
    return define(w,
                  (mlsi_block_instr){.kind = MLSI_BLOCK_LOAD,
                                     .dtype = x->dtype,
                                     .a = x->ref,
                                     .b = f.base,
                                     .c = f.stride,
                                     .direct = f.unit || !f.varies},
                  mlsi_tile_class_of(x->dtype), f.varies);
}

/* ---- ops ---------------------------------------------------------------------------------------------------- */

/* Where the scalar is made, but not farther out than the tiles are; a constant before the tasks. */
int32_t mlsi_block_lanes(mlsi_block_writer *w, int32_t reg) {
    if (w->status != MLSYS_OK || w->vector_var < 0 || is_tile(w, reg)) return reg;
    if (w->facts[reg].spread >= 0) return w->facts[reg].spread;
    int32_t scope = w->facts[reg].scope, outside = w->tiles - 1;
    if (scope && scope < outside) scope = outside;
    int32_t dst = mlsi_block_register_new(w, scope, class_of(w, reg), true);
    if (w->status != MLSYS_OK) return 0;
    w->facts[reg].spread = dst;
    mlsi_block_emit(w, scope,
                    &(mlsi_block_instr){.kind = MLSI_BLOCK_SPREAD,
                                        .dst = dst,
                                        .a = reg,
                                        .b = scope == outside ? w->tiles_extent : -1,
                                        .value = scope <= outside});
    return dst;
}

static int32_t op_of(mlsi_block_writer *w, mlsi_op op, mlsi_tile_class cls, mlsys_dtype t,
                     mlsi_tile_class result, int32_t n, const int32_t *args) {
    mlsi_block_instr i = {
        .kind = MLSI_BLOCK_OP, .op = (int32_t)op, .cls = cls, .dtype = t, .n_args = n};
    int32_t x[3] = {args[0], n > 1 ? args[1] : 0, n > 2 ? args[2] : 0};
    bool tile = false;
    for (int k = 0; k < n && w->status == MLSYS_OK; k++)
        tile = tile || is_tile(w, x[k]);
    for (int k = 0; k < n && tile; k++)
        x[k] = mlsi_block_lanes(w, x[k]);
    i.a = x[0], i.b = x[1], i.c = x[2];
    return define(w, i, result, tile);
}

static bool is_narrow(mlsys_dtype t) {
    return mlsi_dtype_is_float(t) && t != MLSYS_F32 && t != MLSYS_F64;
}

static int32_t cast(mlsi_block_writer *w, int32_t reg, mlsys_dtype to) {
    if (w->status != MLSYS_OK) return 0;
    if (to == MLSYS_F32 && class_of(w, reg) == MLSI_TILE_F32) return reg; /* held so already */
    if (to == MLSYS_I64 && class_of(w, reg) == MLSI_TILE_I64) return reg;
    return op_of(w, MLSI_OP_CAST, class_of(w, reg), to, mlsi_tile_class_of(to), 1, &reg);
}

int32_t mlsi_block_fit(mlsi_block_writer *w, int32_t reg, mlsys_dtype t) {
    bool wraps = mlsi_dtype_is_int(t) && t != MLSYS_I64;
    if (mlsi_fault(MLSI_FAULT_BLOCK_FIT)) return reg;
    return is_narrow(t) || wraps ? cast(w, reg, t) : reg;
}

/* Results that are one of the operands, or differ in the sign, need no rounding. */
static bool keeps_dtype(mlsi_op op) {
    switch (op) {
    case MLSI_OP_SELECT:
    case MLSI_OP_MAX:
    case MLSI_OP_MIN:
    case MLSI_OP_CLAMP:
    case MLSI_OP_AND:
    case MLSI_OP_OR:
    case MLSI_OP_XOR: return true;
    default: return false;
    }
}

static int32_t op(mlsi_block_writer *w, const mlsi_lx *x) {
    int32_t args[3] = {0, 0, 0};
    for (int k = 0; k < x->n_args; k++)
        args[k] = mlsi_block_value(w, x->args[k]);
    if (w->status != MLSYS_OK) return 0;
    if (mlsi_fault(MLSI_FAULT_BLOCK_OPERANDS) && x->op == MLSI_OP_SUB) {
        int32_t first = args[0];
        args[0] = args[1], args[1] = first;
    }
    mlsys_dtype from = w->n->exprs[x->args[x->n_args - 1]].dtype;
    if (x->op == MLSI_OP_BITCAST) mlsi_block_refuse(w, "bitcast");
    if (x->op == MLSI_OP_CAST) return from == x->dtype ? args[0] : cast(w, args[0], x->dtype);
    int32_t r = op_of(w, x->op, mlsi_tile_class_of(from), from, mlsi_tile_class_of(x->dtype),
                      x->n_args, args);
    return keeps_dtype(x->op) ? r : mlsi_block_fit(w, r, x->dtype);
}

/* ---- guards -------------------------------------------------------------------------------------------------- */

static void branch(mlsi_block_writer *w, mlsi_block_instr range, mlsi_block_kind kind, int32_t expr,
                   int32_t dst) {
    range.kind = kind;
    mlsi_block_open(w, &range);
    int32_t x = mlsi_block_lanes(w, mlsi_block_value(w, expr));
    mlsi_block_emit(
        w, w->depth,
        &(mlsi_block_instr){.kind = MLSI_BLOCK_COPY, .dst = dst, .a = x, .one = w->vector_var < 0});
    mlsi_block_close(w);
}

static int32_t guard(mlsi_block_writer *w, const mlsi_lx *x) {
    mlsi_block_affine f = mlsi_block_affine_of(w, x->index[1]);
    mlsi_block_instr range = {.a = mlsi_block_int(w, x->index[0]),
                              .b = f.base,
                              .c = f.stride,
                              .d = mlsi_block_int(w, x->index[2])};
    int32_t dst = define(w, (mlsi_block_instr){.kind = MLSI_BLOCK_OPEN},
                         mlsi_tile_class_of(x->dtype), w->vector_var >= 0);
    branch(w, range, MLSI_BLOCK_RANGE, x->args[0], dst);
    branch(w, range, MLSI_BLOCK_ELSE, x->args[1], dst);
    return dst;
}

int32_t mlsi_block_value(mlsi_block_writer *w, int32_t expr) {
    const mlsi_lx x = w->n->exprs[expr];
    int32_t r = -1;
    if (w->status != MLSYS_OK) return 0;
    switch (x.kind) {
    case MLSI_LX_CONST: return constant(w, &x);
    case MLSI_LX_INDEX: return index_value(w, x.index[0]);
    case MLSI_LX_LOAD: return load(w, &x);
    case MLSI_LX_OP: return op(w, &x);
    case MLSI_LX_LET: r = w->let_register[x.ref]; break;
    case MLSI_LX_ACC: r = w->acc_register[x.ref]; break;
    case MLSI_LX_GUARD: return guard(w, &x);
    default: mlsi_block_refuse(w, "random numbers, or values of other lanes"); return 0;
    }
    if (r < 0) mlsi_block_refuse(w, "a value that is read before it is made");
    return r < 0 ? 0 : r;
}
