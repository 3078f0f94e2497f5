/* Elements of a function's values as expressions: this checker's own statement of what each op makes of which elements. */
#include "ir/proof/nest_check.h"

#include "core/layout.h"

#include <string.h>

/* ---- making expressions --------------------------------------------------------------------------------------------- */

int32_t mlsi_nx(mlsi_nest_check *k, const int64_t *words, int n) {
    int32_t id = -1;
    if (mlsi_nx_stop(k)) return -1;
    mlsys_status st = mlsi_tuple(&k->t, words, n, &id);
    if (st != MLSYS_OK) k->st = st;
    return st == MLSYS_OK ? id : -1;
}

static mlsys_dtype dtype_of(const mlsi_nest_check *k, int32_t x) {
    return x < 0 ? 0 : (mlsys_dtype)mlsi_tuple_words(&k->t, x)[1];
}

int32_t mlsi_nx_op(mlsi_nest_check *k, mlsi_op op, mlsys_dtype dtype, int n, const int32_t *args) {
    int64_t words[6] = {MLSI_NX_OP, dtype, op};
    if (op == MLSI_OP_CAST && dtype_of(k, args[0]) == dtype) return args[0];
    for (int i = 0; i < n; i++)
        words[3 + i] = args[i];
    return mlsi_nx(k, words, 3 + n);
}

static int32_t cast(mlsi_nest_check *k, int32_t x, mlsys_dtype dtype) {
    return mlsi_nx_op(k, MLSI_OP_CAST, dtype, 1, &x);
}

static int32_t constant(mlsi_nest_check *k, mlsys_dtype dtype, uint64_t bits) {
    return mlsi_nx(k, (int64_t[]){MLSI_NX_CONST, dtype, (int64_t)bits}, 3);
}

/* f or else i, rounded once to the dtype. */
static int32_t number(mlsi_nest_check *k, mlsys_dtype dtype, bool is_float, double f, int64_t i) {
    uint64_t bits = 0;
    mlsi_view v = {.data = (char *)&bits, .dtype = dtype};
    if (is_float)
        mlsi_ref_set_f(&v, 0, f);
    else
        mlsi_ref_set_i(&v, 0, dtype == MLSYS_BOOL ? i != 0 : i);
    return constant(k, dtype, bits);
}

int32_t mlsi_nx_index(mlsi_nest_check *k, int64_t index) {
    if (index >= 0) return number(k, MLSYS_I64, false, 0, index);
    return mlsi_nx(k, (int64_t[]){MLSI_NX_INDEX, MLSYS_I64, index}, 3);
}

static bool always_negative(mlsi_nest_check *k, int64_t a, int64_t b) { /* a - b < 0 */
    int64_t lo, hi;
    mlsi_dim_range(&k->n->tab, mlsi_nx_ix(k, '-', a, b), &lo, &hi);
    return hi < 0;
}

/* A guard that is always or never true is no guard. */
int32_t mlsi_nx_guard(mlsi_nest_check *k, const int64_t range[3], int32_t then, int32_t other) {
    const int64_t lo = range[0], x = range[1], hi = range[2];
    int64_t last = mlsi_nx_ix(k, '-', hi, 1), before = mlsi_nx_ix(k, '-', lo, 1);
    if (always_negative(k, before, x) && always_negative(k, x, hi)) return then;
    if (always_negative(k, x, lo) || always_negative(k, last, x) || always_negative(k, last, lo))
        return other;
    const int64_t words[7] = {MLSI_NX_GUARD, dtype_of(k, then), lo, x, hi, then, other};
    return mlsi_nx(k, words, 7);
}

/* A sum of equal integers is their number times the integer. */
static int32_t sum_of_equals(mlsi_nest_check *k, mlsys_dtype dtype, int64_t count, int32_t term) {
    const int64_t *words = mlsi_tuple_words(&k->t, term);
    if (words[0] != MLSI_NX_CONST || !mlsi_dtype_is_int(dtype)) return -1;
    int64_t bits = words[2];
    mlsi_view v = {.data = (char *)&bits, .dtype = dtype};
    const int32_t args[2] = {mlsi_nx_index(k, count),
                             number(k, MLSYS_I64, false, 0, mlsi_ref_get_i(&v, 0))};
    return cast(k, mlsi_nx_op(k, MLSI_OP_MUL, MLSYS_I64, 2, args), dtype);
}

/* Nothing is said of the terms where there are none. */
int32_t mlsi_nx_reduce(mlsi_nest_check *k, mlsi_acc_kind kind, mlsys_dtype dtype, int64_t count,
                       int32_t term, int32_t second, int32_t init) {
    const mlsi_acc acc = {.kind = kind, .dtype = dtype};
    int32_t x = count ? cast(k, term, dtype) : -1;
    int32_t y = count && second >= 0 ? cast(k, second, dtype) : -1;
    int32_t equals = x >= 0 && kind == MLSI_ACC_SUM ? sum_of_equals(k, dtype, count, x) : -1;
    int32_t from = init >= 0 ? cast(k, init, dtype) : -1;
    const int64_t words[8] = {
        MLSI_NX_REDUCE, mlsi_acc_result(&acc), kind, dtype, count, x, y, from};
    return equals >= 0 ? equals : mlsi_nx(k, words, 8);
}

int32_t mlsi_nx_memo(mlsi_nest_check *k, const int64_t *words, int n, int32_t *found) {
    int32_t id = mlsi_nx(k, words, n);
    *found = -1;
    if (id < 0) return -1;
    mlsys_status st = MLSI_GROW(k->n->alloc, &k->answer, &k->cap_answer, id + 1);
    if (st != MLSYS_OK) return k->st = st, -1;
    *found = k->answer[id] - 1;
    return id;
}

void mlsi_nx_answer(mlsi_nest_check *k, int32_t memo, int32_t x) {
    if (memo >= 0) k->answer[memo] = x + 1;
}

/* ---- where an element comes from -------------------------------------------------------------------------------------- */

typedef struct place { /* a node of a frame, at an index of its result */
    int32_t frame;
    const mlsi_func *f;
    const mlsi_type *types;
    const mlsi_node *node;
    const mlsi_type *out;
    const int64_t *index;
    int depth;
} place;

static const mlsi_type *type_in(const place *p, int i) { return &p->types[p->node->in[i]]; }

static int32_t operand(mlsi_nest_check *k, const place *p, int i, const int64_t *index, int depth) {
    return mlsi_nest_element(k, p->frame, p->node->in[i], index, depth);
}

/* NumPy: axes from the right, extents of 1 stand for any. */
static int32_t broadcast(mlsi_nest_check *k, const place *p, int i) {
    const mlsi_type *t = type_in(p, i);
    int64_t own[MLSYS_MAX_DIMS];
    for (int d = 0; d < t->rank; d++)
        own[d] = t->dims[d] == 1 ? 0 : p->index[p->out->rank - t->rank + d];
    return operand(k, p, i, own, p->depth);
}

static int64_t product(mlsi_nest_check *k, const int64_t *dims, int from, int to) {
    int64_t n = 1;
    for (int i = from; i < to; i++)
        n = mlsi_nx_ix(k, '*', n, dims[i]);
    return n;
}

static int64_t linear(mlsi_nest_check *k, const int64_t *dims, const int64_t *index, int from,
                      int to) {
    int64_t n = 0;
    for (int i = from; i < to; i++)
        n = mlsi_nx_ix(k, '+', mlsi_nx_ix(k, '*', n, dims[i]), index[i]);
    return n;
}

/* Row-major digits of a number of the space dims[from..to). The highest one that can differ from 0 has no end of its own. */
static void digits(mlsi_nest_check *k, int64_t n, const int64_t *dims, int from, int to,
                   int64_t *out) {
    bool highest = true;
    for (int i = from; i < to; i++) {
        out[i] = 0;
        if (dims[i] == 1) continue;
        out[i] = mlsi_nx_digit(k, n, product(k, dims, i + 1, to), highest ? 0 : dims[i]);
        highest = false;
    }
}

/* Row-major numbers are kept. Where leading axes of both hold equally many elements, they are kept apart, so that symbolic
 * extents need no division. */
static int32_t reshape(mlsi_nest_check *k, const place *p) {
    const mlsi_type *in = type_in(p, 0), *out = p->out;
    int64_t own[MLSYS_MAX_DIMS] = {0};
    for (int o = 0, i = 0; o < out->rank && i < in->rank;) {
        int o_end = out->rank, i_end = in->rank;
        bool found = false;
        for (int a = o + 1; a <= out->rank && !found; a++)
            for (int b = i + 1; b <= in->rank && !found; b++)
                if (product(k, out->dims, o, a) == product(k, in->dims, i, b))
                    o_end = a, i_end = b, found = true;
        if (o_end - o == 1 && i_end - i == 1)
            own[i] = p->index[o];
        else
            digits(k, linear(k, out->dims, p->index, o, o_end), in->dims, i, i_end, own);
        o = o_end, i = i_end;
    }
    return operand(k, p, 0, own, p->depth);
}

/* First element of a slice: ONNX's clamping. A symbolic bound counts only where it is certain which way it falls. */
static int64_t slice_first(mlsi_nest_check *k, int64_t extent, int64_t start, int64_t step) {
    int64_t lo, hi, most, least;
    mlsys_status st = mlsi_dim_import(&k->n->tab, &k->g->symbols, start, &start);
    if (st != MLSYS_OK) k->st = st;
    mlsi_dim_range(&k->n->tab, extent, &least, &most);
    if (step < 0 && start == INT64_MAX) return mlsi_nx_ix(k, '-', extent, 1);
    if (start == INT64_MIN || start == INT64_MAX) return start < 0 ? 0 : extent;
    if (!mlsi_dim_is_code(&k->n->tab, start) && start < 0) {
        if (-start <= least) return mlsi_nx_ix(k, '-', extent, -start);
        if (-start >= most) return 0; /* clamped, for either sign of the step */
        return mlsi_nx_uncovered(k, "a slice that may begin before its operand", ""), 0;
    }
    int64_t last = step < 0 ? mlsi_nx_ix(k, '-', extent, 1) : extent;
    mlsi_dim_range(&k->n->tab, mlsi_nx_ix(k, '-', last, start), &lo, &hi);
    if (lo >= 0) return start;
    if (hi < 0) return last;
    return mlsi_nx_uncovered(k, "a slice that may begin behind its operand", ""), 0;
}

static int32_t slice(mlsi_nest_check *k, const place *p) {
    const mlsi_attr_slice *a = p->node->attrs;
    int64_t own[MLSYS_MAX_DIMS];
    for (int d = 0; d < p->out->rank; d++) {
        int64_t step = a->steps.v[d], size = step < 0 ? -step : step;
        int64_t way = mlsi_nx_ix(k, '*', p->index[d], size);
        own[d] = mlsi_nx_ix(k, step < 0 ? '-' : '+',
                            slice_first(k, type_in(p, 0)->dims[d], a->starts.v[d], step), way);
        if (p->out->dims[d] == 0) own[d] = 0;
    }
    return operand(k, p, 0, own, p->depth);
}

static int32_t pad(mlsi_nest_check *k, const place *p) {
    const mlsi_attr_pad *a = p->node->attrs;
    const mlsi_type *in = type_in(p, 0);
    int64_t own[MLSYS_MAX_DIMS];
    for (int d = 0; d < in->rank; d++)
        own[d] = mlsi_nx_ix(k, a->low.v[d] < 0 ? '+' : '-', p->index[d],
                            a->low.v[d] < 0 ? -a->low.v[d] : a->low.v[d]);
    int32_t x = operand(k, p, 0, own, p->depth);
    int32_t fill = number(k, p->out->dtype, true, a->value, 0);
    for (int d = in->rank - 1; d >= 0; d--)
        if (a->low.v[d] > 0 || a->high.v[d] > 0) /* where nothing is added, all is inside */
            x = mlsi_nx_guard(k, (int64_t[]){0, own[d], in->dims[d]}, x, fill);
    return x;
}

static int32_t concat(mlsi_nest_check *k, const place *p) {
    int64_t axis = ((const mlsi_attr_axis *)p->node->attrs)->axis, own[MLSYS_MAX_DIMS];
    int64_t end = p->out->dims[axis];
    int32_t x = number(k, p->out->dtype, false, 0, 0); /* never chosen */
    memcpy(own, p->index, sizeof own[0] * (size_t)p->out->rank);
    if (p->node->n_in == 1) return operand(k, p, 0, p->index, p->depth);
    for (int i = p->node->n_in - 1; i >= 0; i--) {
        int64_t first = mlsi_nx_ix(k, '-', end, type_in(p, i)->dims[axis]);
        own[axis] = mlsi_nx_ix(k, '-', p->index[axis], first);
        int32_t part = operand(k, p, i, own, p->depth);
        x = mlsi_nx_guard(k, (int64_t[]){first, p->index[axis], end}, part, x);
        end = first;
    }
    return x;
}

static int32_t rearranged(mlsi_nest_check *k, const place *p) {
    int64_t own[MLSYS_MAX_DIMS];
    memcpy(own, p->index, sizeof own[0] * (size_t)p->out->rank);
    if (p->node->op == MLSI_OP_TRANSPOSE) {
        const mlsi_attr_transpose *a = p->node->attrs;
        for (int64_t i = 0; i < a->perm.n; i++)
            own[a->perm.v[i]] = p->index[i];
    } else if (p->node->op == MLSI_OP_REVERSE) {
        const mlsi_list *axes = &((const mlsi_attr_axes *)p->node->attrs)->axes;
        for (int64_t i = 0; i < axes->n; i++) {
            int64_t last = mlsi_nx_ix(k, '-', p->out->dims[axes->v[i]], 1);
            own[axes->v[i]] = mlsi_nx_ix(k, '-', last, p->index[axes->v[i]]);
        }
    }
    return operand(k, p, 0, own, p->depth);
}

/* ---- reductions ----------------------------------------------------------------------------------------------------------- */

static bool has_axis(const mlsi_list *l, int64_t axis) {
    for (int64_t i = 0; i < l->n; i++)
        if (l->v[i] == axis) return true;
    return false;
}

static mlsi_acc_kind acc_kind(mlsi_op op) {
    switch (op) {
    case MLSI_OP_REDUCE_SUM: return MLSI_ACC_SUM;
    case MLSI_OP_REDUCE_PROD: return MLSI_ACC_PROD;
    case MLSI_OP_REDUCE_MAX: return MLSI_ACC_MAX;
    case MLSI_OP_REDUCE_MIN: return MLSI_ACC_MIN;
    case MLSI_OP_REDUCE_AND: return MLSI_ACC_AND;
    case MLSI_OP_REDUCE_OR: return MLSI_ACC_OR;
    case MLSI_OP_ARGMAX: return MLSI_ACC_ARGMAX;
    default: return MLSI_ACC_ARGMIN;
    }
}

/* Sums and products of narrow floats are computed in f32; extremes and positions in x's own type. */
static int32_t reduction(mlsi_nest_check *k, const place *p) {
    const mlsi_type *x = type_in(p, 0);
    mlsi_acc_kind kind = acc_kind(p->node->op);
    bool arg = kind == MLSI_ACC_ARGMAX || kind == MLSI_ACC_ARGMIN;
    bool widens = kind <= MLSI_ACC_PROD && mlsi_dtype_is_float(x->dtype) && x->dtype != MLSYS_F64;
    const mlsi_attr_reduce *r = p->node->attrs;
    const mlsi_attr_arg *a = p->node->attrs;
    mlsi_list axes = {.n = 1};
    if (arg)
        axes.v[0] = a->axis;
    else
        axes = r->axes;
    bool keep = arg ? a->keep : r->keep;
    int64_t space[MLSYS_MAX_DIMS], at[MLSYS_MAX_DIMS], own[MLSYS_MAX_DIMS];
    int n = 0, from = 0;
    for (int d = 0; d < x->rank; d++)
        if (has_axis(&axes, d)) space[n++] = x->dims[d];
    int64_t count = product(k, space, 0, n);
    digits(k, mlsi_nx_position(k, p->depth, count), space, 0, n, at);
    n = 0;
    for (int d = 0; d < x->rank; d++) {
        bool reduced = has_axis(&axes, d);
        own[d] = reduced ? at[n++] : p->index[from];
        if (!reduced || keep) from++;
    }
    int32_t term = operand(k, p, 0, own, p->depth + 1);
    int32_t y = mlsi_nx_reduce(k, kind, widens ? MLSYS_F32 : x->dtype, count, term, -1, -1);
    return cast(k, y, p->out->dtype);
}

static int32_t dot(mlsi_nest_check *k, const place *p) {
    const mlsi_attr_dot *a = p->node->attrs;
    const mlsi_list *batch[2] = {&a->lhs_batch, &a->rhs_batch};
    const mlsi_list *contract[2] = {&a->lhs_contract, &a->rhs_contract};
    const mlsi_type *x = type_in(p, 0);
    int64_t space[MLSYS_MAX_DIMS], at[MLSYS_MAX_DIMS], own[MLSYS_MAX_DIMS];
    int32_t terms[2];
    int n = (int)a->lhs_contract.n, free = (int)a->lhs_batch.n;
    for (int i = 0; i < n; i++)
        space[i] = x->dims[a->lhs_contract.v[i]];
    int64_t count = product(k, space, 0, n);
    digits(k, mlsi_nx_position(k, p->depth, count), space, 0, n, at);
    for (int o = 0; o < 2; o++) {
        for (int64_t i = 0; i < batch[o]->n; i++)
            own[batch[o]->v[i]] = p->index[i];
        for (int i = 0; i < n; i++)
            own[contract[o]->v[i]] = at[i];
        for (int d = 0; d < type_in(p, o)->rank; d++)
            if (!has_axis(batch[o], d) && !has_axis(contract[o], d)) own[d] = p->index[free++];
        terms[o] = operand(k, p, o, own, p->depth + 1);
    }
    mlsys_dtype compute = x->dtype == MLSYS_F64 ? MLSYS_F64 : MLSYS_F32;
    if (!mlsi_dtype_is_float(x->dtype)) compute = p->out->dtype;
    bool has_addend = p->node->n_in > 2 && p->node->in[2] >= 0;
    int32_t init = has_addend ? operand(k, p, 2, p->index, p->depth) : -1;
    return cast(k, mlsi_nx_reduce(k, MLSI_ACC_DOT, compute, count, terms[0], terms[1], init),
                p->out->dtype);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------------------ */

mlsys_status mlsi_nest_frame_add(mlsi_nest_check *k, int32_t func, int32_t parent,
                                 const mlsi_node *node) {
    MLSI_TRY(MLSI_GROW(k->n->alloc, &k->frames, &k->cap_frames, k->n_frames + 1));
    mlsi_nest_frame *fr = &k->frames[k->n_frames++];
    *fr = (mlsi_nest_frame){.f = k->g->funcs[func], .parent = parent, .node = node};
    MLSI_TRY(MLSI_NEW_N(k->n->alloc, fr->f.n_values + 1, &fr->types));
    for (int64_t v = 0; v < fr->f.n_values; v++) {
        mlsi_type *t = &fr->types[v];
        *t = fr->f.values[v].type;
        for (int d = 0; d < t->rank; d++)
            MLSI_TRY(mlsi_dim_import(&k->n->tab, &k->g->symbols, t->dims[d], &t->dims[d]));
    }
    return MLSYS_OK;
}

/* The frame of a composite's decomposition. */
static mlsys_status decomposition(mlsi_nest_check *k, const place *p, int32_t *frame) {
    int32_t in[MLSI_MAX_OPERANDS], out[MLSI_MAX_OPERANDS], func;
    for (*frame = 0; *frame < k->n_frames; ++*frame)
        if (k->frames[*frame].parent == p->frame && k->frames[*frame].node == p->node)
            return MLSYS_OK;
    MLSI_TRY(mlsi_func_add(k->g, "proof", &func));
    for (int i = 0; i < p->node->n_in; i++) {
        in[i] = -1;
        if (p->node->in[i] >= 0)
            MLSI_TRY(
                mlsi_build_input(k->g, func, NULL, &p->f->values[p->node->in[i]].type, &in[i]));
    }
    MLSI_TRY(mlsi_op_get(p->node->op)
                 ->decompose(k->g, func, p->node->attrs, p->node->n_in, in, p->node->n_out, out));
    for (int i = 0; i < p->node->n_out; i++)
        MLSI_TRY(mlsi_build_output(k->g, func, NULL, out[i]));
    return mlsi_nest_frame_add(k, func, p->frame, p->node);
}

static int32_t composite(mlsi_nest_check *k, const place *p, int result) {
    int32_t frame;
    const mlsi_node *node = p->node;
    mlsys_status st = decomposition(k, p, &frame);
    if (st == MLSYS_OK)
        return mlsi_nest_element(k, frame, k->frames[frame].f.outputs[result].value, p->index,
                                 p->depth);
    if (st == MLSYS_E_NOMEM) k->st = st;
    mlsi_nx_uncovered(k, "no decomposition of ", mlsi_op_name(node->op));
    return -1;
}

static int32_t node_element(mlsi_nest_check *k, const place *p, int result) {
    const mlsi_op_def *def = mlsi_op_get(p->node->op);
    switch (p->node->op) {
    case MLSI_OP_COPY:
    case MLSI_OP_BARRIER:
    case MLSI_OP_STOP_GRADIENT:
    case MLSI_OP_TRANSPOSE:
    case MLSI_OP_REVERSE: return rearranged(k, p);
    case MLSI_OP_RESHAPE: return reshape(k, p);
    case MLSI_OP_BROADCAST: return broadcast(k, p, 0);
    case MLSI_OP_SLICE: return slice(k, p);
    case MLSI_OP_PAD: return pad(k, p);
    case MLSI_OP_CONCAT: return concat(k, p);
    case MLSI_OP_IOTA: {
        const mlsi_attr_iota *a = p->node->attrs;
        return cast(k, mlsi_nx_index(k, p->index[a->axis]), p->out->dtype);
    }
    case MLSI_OP_FULL: {
        const mlsi_attr_full *a = p->node->attrs;
        return number(k, p->out->dtype, mlsi_dtype_is_float(p->out->dtype), a->value, a->ivalue);
    }
    case MLSI_OP_REDUCE_SUM:
    case MLSI_OP_REDUCE_PROD:
    case MLSI_OP_REDUCE_MAX:
    case MLSI_OP_REDUCE_MIN:
    case MLSI_OP_REDUCE_AND:
    case MLSI_OP_REDUCE_OR:
    case MLSI_OP_ARGMAX:
    case MLSI_OP_ARGMIN: return reduction(k, p);
    case MLSI_OP_DOT_GENERAL: return dot(k, p);
    default: break;
    }
    if (def->decompose && !def->nest) return composite(k, p, result);
    bool plain = !def->attrs || p->node->op == MLSI_OP_CAST || p->node->op == MLSI_OP_BITCAST;
    if (!(def->traits & MLSI_TRAIT_ELEMENTWISE) || !plain || p->node->n_in > 3) {
        mlsi_nx_uncovered(k, "elements of ", mlsi_op_name(p->node->op));
        return -1;
    }
    int32_t args[3];
    for (int i = 0; i < p->node->n_in; i++)
        args[i] = broadcast(k, p, i);
    return mlsi_nx_op(k, p->node->op, p->out->dtype, p->node->n_in, args);
}

static int32_t const_element(mlsi_nest_check *k, const mlsi_value_def *def) {
    mlsi_view v = mlsi_tensor_view_of(k->g->consts[def->index]);
    uint64_t bits = 0;
    if (mlsi_view_count(&v) != 1 || mlsi_dtype_is_block(v.dtype)) {
        mlsi_nx_uncovered(k, "a constant of more than one element", "");
        return -1;
    }
    memcpy(&bits, v.data, (size_t)mlsi_dtype_size(v.dtype));
    return constant(k, v.dtype, bits);
}

int32_t mlsi_nest_element(mlsi_nest_check *k, int32_t frame, int32_t value, const int64_t *index,
                          int depth) {
    const mlsi_nest_frame fr = k->frames[frame];
    const mlsi_value_def *def = &fr.f.values[value];
    int64_t words[4 + MLSYS_MAX_DIMS] = {MLSI_NX_MEMO, frame, value, depth};
    int32_t found, x, rank = def->type.rank;
    if (rank) memcpy(words + 4, index, sizeof *index * (size_t)rank);
    int32_t memo = mlsi_nx_memo(k, words, 4 + rank, &found);
    if (found >= 0 || mlsi_nx_stop(k)) return found;
    if (++k->deep > MLSI_NX_DEEPEST) mlsi_nx_uncovered(k, "expressions nest too deep", "");
    if (mlsi_nx_stop(k)) {
        x = -1;
    } else if (def->kind == MLSI_VALUE_CONST) {
        x = const_element(k, def);
    } else if (def->kind == MLSI_VALUE_INPUT &&
               fr.parent >= 0) { /* inputs: operands that are there */
        int i = 0;
        for (int left = def->index; fr.node->in[i] < 0 || left-- > 0; i++)
            ;
        x = mlsi_nest_element(k, fr.parent, fr.node->in[i], index, depth);
    } else if (def->kind == MLSI_VALUE_INPUT) {
        int64_t load[3 + MLSYS_MAX_DIMS] = {MLSI_NX_LOAD, def->type.dtype, def->index};
        if (rank) memcpy(load + 3, index, sizeof *index * (size_t)rank);
        x = mlsi_nx(k, load, 3 + rank);
    } else {
        const place p = {frame, &fr.f, fr.types, &fr.f.nodes[def->index], &fr.types[value],
                         index, depth};
        x = node_element(k, &p, def->result);
    }
    k->deep--;
    mlsi_nx_answer(k, memo, x);
    return x;
}
