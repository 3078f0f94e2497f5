/* Rotary position embedding. */
#include "ir/ops/decompose.h"
#include "ir/ops/gradient.h"

#include <string.h>

static mlsys_status infer_rope(mlsi_infer *t) {
    const mlsi_attr_rope *at = t->attrs;
    const mlsi_type *x = &t->in[0], *p = &t->in[1], *f = &t->in[2];
    int64_t twice, room, lo, hi;
    char a[160], b[160];
    MLSI_TRY(mlsi_infer_class(t, 0, MLSI_FLOATS));
    if (at->pairing != MLSI_ROPE_HALVES && at->pairing != MLSI_ROPE_PAIRS)
        return mlsi_infer_fail(t, MLSYS_E_ARG, -1, "attribute pairing: %lld",
                               (long long)at->pairing);
    if (x->rank != 4)
        return mlsi_infer_fail(t, MLSYS_E_SHAPE, 0, "%s, expected [B, L, H, D]",
                               mlsi_type_text(t->symbols, x, a, sizeof a));
    if (p->dtype != MLSYS_I32 && p->dtype != MLSYS_I64)
        return mlsi_infer_fail(t, MLSYS_E_DTYPE, 1, "%s, expected i32 or i64",
                               mlsi_type_text(t->symbols, p, a, sizeof a));
    bool fits = p->rank == 1 ? p->dims[0] == x->dims[1]
                : p->rank == 2
                    ? p->dims[1] == x->dims[1] && (p->dims[0] == x->dims[0] || p->dims[0] == 1)
                    : false;
    if (!fits)
        return mlsi_infer_fail(t, MLSYS_E_SHAPE, 1, "%s, expected [L] or [B, L] of %s",
                               mlsi_type_text(t->symbols, p, a, sizeof a),
                               mlsi_type_text(t->symbols, x, b, sizeof b));
    if (f->dtype != MLSYS_F32) return mlsi_infer_fail(t, MLSYS_E_DTYPE, 2, "expected f32");
    if (f->rank != 1) return mlsi_infer_fail(t, MLSYS_E_SHAPE, 2, "rank %d, expected 1", f->rank);
    MLSI_TRY(mlsi_dim_op(t->symbols, '*', f->dims[0], 2, &twice));
    MLSI_TRY(mlsi_dim_op(t->symbols, '-', x->dims[3], twice, &room));
    mlsi_dim_range(t->symbols, room, &lo, &hi);
    if (lo < 0)
        return mlsi_infer_fail(
            t, MLSYS_E_SHAPE, 2, "%s: twice its extent is not provably within D of %s",
            mlsi_type_text(t->symbols, f, a, sizeof a), mlsi_type_text(t->symbols, x, b, sizeof b));
    t->out[0] = *x;
    return MLSYS_OK;
}

/* cos or sin of position * frequency as [B or 1, L, 1, n]. */
static int32_t angles(mlsi_emit *e, int32_t positions, int32_t freqs) {
    if (e->st != MLSYS_OK) return positions;
    mlsi_type p = *mlsi_emit_type(e, positions);
    int64_t dims[4] = {p.rank == 2 ? p.dims[0] : 1, p.dims[p.rank - 1], 1, 1};
    int32_t at = mlsi_emit_reshape(e, mlsi_emit_widen(e, positions), 4, dims);
    return mlsi_emit_2(e, MLSI_OP_MUL, at, mlsi_emit_widen(e, freqs));
}

/* The rotated pairs: x0 and x1 in, y0 and y1 out. */
static void rotate(mlsi_emit *e, int32_t x0, int32_t x1, int32_t angle, int32_t *y0, int32_t *y1) {
    int32_t c = mlsi_emit_1(e, MLSI_OP_COS, angle), s = mlsi_emit_1(e, MLSI_OP_SIN, angle);
    int32_t x0c = mlsi_emit_2(e, MLSI_OP_MUL, x0, c), x1s = mlsi_emit_2(e, MLSI_OP_MUL, x1, s);
    int32_t x1c = mlsi_emit_2(e, MLSI_OP_MUL, x1, c), x0s = mlsi_emit_2(e, MLSI_OP_MUL, x0, s);
    *y0 = mlsi_emit_2(e, MLSI_OP_SUB, x0c, x1s);
    *y1 = mlsi_emit_2(e, MLSI_OP_ADD, x1c, x0s);
}

/* (2i, 2i+1): the rotated part as [B, L, H, n, 2]. angle gets its own trailing axis. */
static int32_t rotate_pairs(mlsi_emit *e, int32_t part, int32_t angle, int64_t n, int64_t twice) {
    int64_t dims[5], flat[4], angle_dims[5];
    if (e->st != MLSYS_OK) return part;
    memcpy(dims, mlsi_emit_type(e, part)->dims, 3 * sizeof *dims);
    memcpy(flat, dims, 3 * sizeof *dims);
    memcpy(angle_dims, mlsi_emit_type(e, angle)->dims, 3 * sizeof *dims);
    dims[3] = angle_dims[3] = n;
    dims[4] = 2, angle_dims[4] = 1, flat[3] = twice;
    int32_t y0, y1, split = mlsi_emit_reshape(e, part, 5, dims);
    int32_t x0 = mlsi_emit_slice(e, split, 4, 0, 1), x1 = mlsi_emit_slice(e, split, 4, 1, 2);
    rotate(e, x0, x1, mlsi_emit_reshape(e, angle, 5, angle_dims), &y0, &y1);
    return mlsi_emit_reshape(e, mlsi_emit_concat(e, y0, y1, 4), 4, flat);
}

static mlsys_status decompose_rope(mlsi_graph *g, int32_t func, const void *attrs, int32_t n_in,
                                   const int32_t *in, int32_t n_out, int32_t *out) {
    const mlsi_attr_rope *at = attrs;
    mlsi_emit e = mlsi_emit_begin(g, func, in[0]);
    mlsi_type t = *mlsi_emit_type(&e, in[0]);
    int64_t n = mlsi_emit_type(&e, in[2])->dims[0], twice;
    (void)n_in, (void)n_out;
    MLSI_TRY(mlsi_dim_op(&g->symbols, '*', n, 2, &twice));
    int32_t x = mlsi_emit_widen(&e, in[0]), angle = angles(&e, in[1], in[2]), y0, y1, y;
    if (at->pairing == MLSI_ROPE_HALVES) {
        int32_t x0 = mlsi_emit_slice(&e, x, 3, 0, n), x1 = mlsi_emit_slice(&e, x, 3, n, twice);
        rotate(&e, x0, x1, angle, &y0, &y1);
        y = mlsi_emit_concat(&e, y0, y1, 3);
    } else {
        y = rotate_pairs(&e, mlsi_emit_slice(&e, x, 3, 0, twice), angle, n, twice);
    }
    if (twice != t.dims[3])
        y = mlsi_emit_concat(&e, y, mlsi_emit_slice(&e, x, 3, twice, INT64_MAX), 3);
    out[0] = mlsi_emit_cast(&e, y, t.dtype);
    return e.st;
}

static void cost_rope(const mlsi_cost_args *a, mlsi_op_cost *c) {
    const mlsi_view *x = &a->in[0];
    c->transcendentals = 2 * mlsi_cost_count(&a->in[1]) * mlsi_cost_count(&a->in[2]);
    c->flops = 3 * mlsi_cost_count(x);
}

static const char *const pairings[] = {"halves", "pairs", NULL};
static const mlsi_attr_desc rope_attrs[] = {{.name = "pairing",
                                             .kind = MLSI_ATTR_ENUM,
                                             .offset = offsetof(mlsi_attr_rope, pairing),
                                             .names = pairings,
                                             .help = "halves: (i, i + n); pairs: (2i, 2i + 1)"},
                                            {.name = NULL}};

const mlsi_op_def mlsi_op_def_rope = {
    .min_in = 3,
    .max_in = 3,
    .min_out = 1,
    .max_out = 1,
    .operands = "x, positions, freqs",
    .traits = MLSI_TRAIT_DIFFERENTIABLE,
    .narrow = MLSI_NARROW_FOLLOWS,
    .narrow_keeps = 1u << 2, /* the frequencies */

    .attrs_size = sizeof(mlsi_attr_rope),
    .attrs = rope_attrs,
    .infer = infer_rope,
    .cost = cost_rope,
    .decompose = decompose_rope,
    .vjp = mlsi_vjp_rope,
    .doc = "x [B, L, H, D], positions [L] or [B, L] (i32 or i64), freqs f32 [n], 2n <= D. For pair "
           "i at a position: "
           "a = float(position) * freqs[i], c = cos(a), s = sin(a), y0 = x0 * c - x1 * s, y1 = x1 "
           "* c + x0 * s, "
           "each product and sum rounded in the compute type. Elements past 2n pass through.",
    .special = "Positions may be negative and are rounded to the compute type.",
    .onnx = "RotaryEmbedding"};
