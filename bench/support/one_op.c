#include "support/one_op.h"

#include "run/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- inputs ------------------------------------------------------------------------------------
 */

/* Byte offsets of the half-precision factors in a block; random bits there would be infinities. */
static int block_factors(mlsys_dtype t, int offset[2]) {
    offset[0] = t == MLSYS_Q6_K ? 208 : 0;
    offset[1] = 2;
    return t == MLSYS_Q4_1 || t == MLSYS_Q5_1 || t == MLSYS_Q4_K || t == MLSYS_Q5_K ? 2 : 1;
}

static void fill_blocks(unsigned char *p, uint64_t bytes, mlsys_dtype t, uint64_t seed) {
    int32_t elems, block;
    int offset[2], n = block_factors(t, offset);
    bench_need(mlsys_dtype_info(t, &elems, &block, NULL), "dtype");
    for (uint64_t i = 0; i < bytes; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        p[i] = (unsigned char)(seed >> 56);
    }
    for (uint64_t b = 0; b + (uint64_t)block <= bytes; b += (uint64_t)block)
        for (int i = 0; i < n; i++) { /* 2^-7 .. 2^-6, the sign kept */
            unsigned char *high = p + b + offset[i] + 1;
            *high = (unsigned char)((*high & 0x83) | 0x20);
        }
}

static mlsys_tensor make_input(const one_op *o, const one_op_input *in, int index) {
    mlsys_tensor t;
    int32_t elems;
    void *data;
    uint64_t bytes;
    bench_need(mlsys_tensor_create(o->lib.device, in->dtype, in->ndim, in->shape, &t), "input");
    bench_need(mlsys_dtype_info(in->dtype, &elems, NULL, NULL), "dtype");
    if (elems == 1) {
        bench_need(mlsys_tensor_random(t, o->lib.stream, "normal", o->seed, (uint64_t)index),
                   "input");
    } else {
        bench_need(mlsys_tensor_data(t, &data, &bytes), "input");
        fill_blocks(data, bytes, in->dtype, o->seed + (uint64_t)index);
    }
    return t;
}

void one_op_shapes(const one_op_case *c, char *out, size_t cap) {
    size_t used = 0;
    *out = 0;
    for (int i = 0; i < ONE_OP_INPUTS && c->in[i].dtype; i++) {
        const char *name = "?";
        mlsys_dtype_info(c->in[i].dtype, NULL, NULL, &name);
        used += (size_t)snprintf(out + used, cap - used, "%s%s[", i ? " " : "", name);
        for (int d = 0; d < c->in[i].ndim && used < cap; d++)
            used += (size_t)snprintf(out + used, cap - used, "%s%lld", d ? "," : "",
                                     (long long)c->in[i].shape[d]);
        if (used < cap)
            used += (size_t)snprintf(out + used, cap - used, "]%s",
                                     c->in[i].constant ? " constant" : "");
        if (used >= cap) return;
    }
}

/* ---- graphs ------------------------------------------------------------------------------------
 */

static mlsys_config make_attrs(const one_op_case *c) {
    mlsys_config attrs;
    bench_need(mlsys_config_create(&attrs), "attributes");
    for (int i = 0; i < ONE_OP_ATTRS && c->attrs[i][0]; i++) {
        char *end;
        const char *key = c->attrs[i][0], *value = c->attrs[i][1];
        long long number = strtoll(value, &end, 10);
        bench_need(*end ? mlsys_config_set_str(attrs, key, value)
                        : mlsys_config_set_i64(attrs, key, number),
                   key);
    }
    return attrs;
}

/* The op over tensors of these shapes: inputs, or constants where constant[i]. */
static mlsys_graph make_graph(const one_op *o, const mlsys_tensor *in, bool constants) {
    const one_op_case *c = o->what;
    mlsys_graph g;
    mlsys_value v[ONE_OP_INPUTS], out;
    bench_need(mlsys_graph_create(o->lib.ctx, &g), "graph");
    for (int i = 0; i < o->n_in; i++) {
        int64_t shape[MLSYS_MAX_DIMS];
        int32_t ndim;
        char name[8];
        snprintf(name, sizeof name, "x%d", i);
        bench_need(mlsys_tensor_shape(in[i], MLSYS_MAX_DIMS, shape, &ndim), "shape");
        if (constants && c->in[i].constant)
            bench_need(mlsys_graph_const(g, in[i], &v[i]), "constant");
        else
            bench_need(mlsys_graph_input(g, name, c->in[i].dtype, ndim, shape, &v[i]), "input");
    }
    mlsys_config attrs = make_attrs(c);
    bench_need(mlsys_graph_op(g, c->op, o->n_in, v, attrs, 1, &out), c->name);
    bench_need(mlsys_graph_output(g, "y", out), "output");
    mlsys_release(attrs);
    return g;
}

static mlsys_program compile(const one_op *o, mlsys_graph g, const char *isa) {
    mlsys_config c;
    mlsys_program p;
    bench_need(mlsys_config_create(&c), "compile options");
    bench_need(mlsys_config_set_str(c, "numerics", o->numerics), "numerics");
    bench_need(mlsys_config_set_str(c, "isa", isa), "isa");
    bench_need(mlsys_graph_compile(g, o->lib.device, c, &p), o->what->name);
    mlsys_release(c);
    return p;
}

static uint64_t tensor_digest(mlsys_tensor t) {
    void *data;
    uint64_t bytes;
    bench_need(mlsys_tensor_data(t, &data, &bytes), "output");
    return bench_digest(data, bytes);
}

/* What the portable kernels give, or 0 when that would take too long. */
static uint64_t run_portable(const one_op *o, mlsys_graph g) {
    mlsys_tensor out = NULL;
    double work = (double)o->cost.flops + 20.0 * (double)o->cost.transcendentals;
    if (work > o->portable_limit) return 0;
    mlsys_program p = compile(o, g, "portable");
    bench_need(mlsys_program_run(p, o->lib.stream, o->n_run_in, o->run_in, 1, &out), "portable");
    uint64_t digest = tensor_digest(out);
    mlsys_release(out);
    mlsys_release(p);
    return digest;
}

void one_op_open(one_op *o, const one_op_case *what, int threads, const char *numerics,
                 uint64_t seed) {
    double limit = o->portable_limit;
    bool plant = o->plant;
    *o = (one_op){
        .what = what, .numerics = numerics, .seed = seed, .portable_limit = limit, .plant = plant};
    bench_library_open(&o->lib, threads, NULL);
    for (; o->n_in < ONE_OP_INPUTS && what->in[o->n_in].dtype; o->n_in++) {
        o->in[o->n_in] = make_input(o, &what->in[o->n_in], o->n_in);
        if (!what->in[o->n_in].constant) o->run_in[o->n_run_in++] = o->in[o->n_in];
    }
    mlsys_graph g = make_graph(o, o->in, true);
    o->program = compile(o, g, "auto");
    o->cost.size = sizeof o->cost;
    bench_need(mlsys_program_cost(o->program, 0, NULL, NULL, &o->cost), "cost");
    bench_need(mlsys_program_run(o->program, o->lib.stream, o->n_run_in, o->run_in, 1, &o->out),
               what->name);
    o->portable_digest = run_portable(o, g);
    mlsys_release(g);
}

void one_op_close(one_op *o) {
    mlsi_unpin(o->pinned_program);
    mlsi_unpin(o->pinned_stream);
    mlsys_release(o->program);
    mlsys_release(o->out);
    for (int i = 0; i < o->n_in; i++)
        mlsys_release(o->in[i]);
    bench_library_close(&o->lib);
}

/* ---- running -----------------------------------------------------------------------------------
 */

static void plant(const one_op *o) {
    void *data;
    uint64_t bytes;
    bench_need(mlsys_tensor_data(o->out, &data, &bytes), "output");
    ((unsigned char *)data)[bytes / 2 / 4 * 4] ^= 1; /* last bit of a value in the middle */
}

static bool run_call(void *user) {
    one_op *o = user;
    bool ok = mlsys_program_run(o->program, o->lib.stream, o->n_run_in, o->run_in, 1, &o->out) ==
              MLSYS_OK;
    if (ok && o->plant) plant(o);
    return ok;
}

/* The kernels of the program with the operands of its last run. */
static bool run_kernels(void *user) {
    one_op *o = user;
    const mlsi_program *p = o->pinned_program;
    const mlsi_stream *s = o->pinned_stream;
    const mlsi_bound_routine *br = ((const mlsi_bound *)o->bound)->routines;
    const mlsi_routine *r = p->routines;
    for (int64_t i = 0; i < r->n_steps; i++) {
        const mlsi_step *step = &r->steps[i];
        const mlsi_node *node = &p->graph.funcs[r->func].nodes[step->node];
        const mlsi_view *operands = br->operands + step->first_operand;
        mlsi_kernel_args a = {.attrs = br->attrs + br->attr_offset[i],
                              .n_in = node->n_in,
                              .n_out = node->n_out,
                              .in = operands,
                              .out = operands + node->n_in,
                              .packed = mlsi_step_packed(p, step),
                              .work = br->work_bytes[i] ? (char *)s->scratch + br->work_offset[i]
                                                        : NULL,
                              .work_bytes = br->work_bytes[i],
                              .pool = p->graph.ctx->pool};
        if (step->kernel->run(&a) != MLSYS_OK) return false;
    }
    if (o->plant) plant(o);
    return true;
}

static bool bind_kernels(one_op *o) {
    if (o->bound) return true;
    mlsi_bound *b;
    bench_need(mlsi_pin(o->program, MLSYS_KIND_PROGRAM, "bench", &o->pinned_program), "program");
    bench_need(mlsi_pin(o->lib.stream, MLSYS_KIND_STREAM, "bench", &o->pinned_stream), "stream");
    if (!run_call(o))
        bench_need(mlsys_last_status(), o->what->name); /* operands now point at memory */
    bench_need(mlsi_bound_get(o->pinned_program, o->pinned_stream, &b), "binding");
    o->bound = b;
    const mlsi_routine *r = ((const mlsi_program *)o->pinned_program)->routines;
    for (int64_t i = 0; i < r->n_steps; i++) {
        if (!r->steps[i].kernel) return o->kernel = NULL, false;
        if (!i) o->kernel = r->steps[i].kernel->name;
    }
    return true;
}

bool one_op_has_kernels(const one_op *o) { return o->kernel != NULL; }

/* ---- judging -----------------------------------------------------------------------------------
 */

static mlsys_tensor cut(mlsys_tensor t, int axis_plus_one, int64_t start, int64_t length) {
    mlsys_tensor out;
    if (!axis_plus_one) {
        bench_need(mlsys_retain(t), "tensor");
        return t;
    }
    bench_need(mlsys_tensor_slice(t, axis_plus_one - 1, start, start + length, 1, &out), "range");
    return out;
}

static mlsys_tensor cut_both(mlsys_tensor t, int row, int column, const int64_t at[2],
                             const int64_t n[2]) {
    mlsys_tensor rows = cut(t, row, at[0], n[0]), both = cut(rows, column, at[1], n[1]);
    mlsys_release(rows);
    return both;
}

/* Do rows at[0].. and columns at[1].. of the output have the interpreter's bits? */
static bool range_agrees(const one_op *o, const int64_t at[2], const int64_t n[2],
                         uint64_t *compared) {
    const one_op_case *c = o->what;
    mlsys_tensor in[ONE_OP_INPUTS], want = NULL,
                                    got = cut_both(o->out, c->out_row, c->out_column, at, n);
    uint64_t bytes;
    for (int i = 0; i < o->n_in; i++)
        in[i] = cut_both(o->in[i], c->in[i].row, c->in[i].column, at, n);
    mlsys_graph g = make_graph(o, in, false);
    bench_need(mlsys_graph_interpret(g, o->lib.stream, o->n_in, in, 1, &want), "interpreter");
    void *expected;
    bench_need(mlsys_tensor_data(want, &expected, &bytes), "expected output");
    void *found = bench_memory(bytes);
    bench_need(mlsys_tensor_read(got, o->lib.stream, found, bytes), "output range");
    bool same = !memcmp(found, expected, bytes);
    *compared += bytes / 4;
    free(found);
    mlsys_release(g);
    mlsys_release(want);
    mlsys_release(got);
    for (int i = 0; i < o->n_in; i++)
        mlsys_release(in[i]);
    return same;
}

static int64_t out_extent(const one_op *o, int axis_plus_one) {
    int64_t shape[MLSYS_MAX_DIMS];
    int32_t ndim;
    if (!axis_plus_one) return 1;
    bench_need(mlsys_tensor_shape(o->out, MLSYS_MAX_DIMS, shape, &ndim), "shape");
    return shape[axis_plus_one - 1];
}

static void judge(void *user, bench_verdict *v) {
    one_op *o = user;
    const one_op_case *c = o->what;
    int64_t extent[2] = {out_extent(o, c->out_row), out_extent(o, c->out_column)};
    int64_t n[2] = {c->rows < extent[0] ? c->rows : extent[0],
                    c->columns < extent[1] ? c->columns : extent[1]};
    uint64_t compared = 0, random = o->seed * 6364136223846793005u + 1442695040888963407u;
    int agreed = 0, ranges = c->last_rows ? 1 : 4;
    char oracle[BENCH_TEXT];
    for (int i = 0; i < ranges; i++) { /* first, last, the middle, somewhere */
        int64_t room[2] = {extent[0] - n[0], extent[1] - n[1]}, at[2];
        for (int d = 0; d < 2; d++)
            at[d] = c->last_rows || i == 1 ? room[d]
                    : i == 0               ? 0
                    : i == 2               ? room[d] / 2
                                           : (int64_t)((random >> 20) % (uint64_t)(room[d] + 1));
        agreed += range_agrees(o, at, n, &compared);
    }
    bool whole = !o->portable_digest || tensor_digest(o->out) == o->portable_digest;
    snprintf(oracle, sizeof oracle, "reference interpreter, %llu values, equal bits%s",
             (unsigned long long)compared,
             o->portable_digest ? "; portable C kernels, all values, equal bits" : "");
    bench_judge(v, agreed == ranges && whole, oracle,
                "%d of %d ranges agree with the interpreter%s", agreed, ranges,
                !o->portable_digest ? ""
                : whole             ? "; all values with portable C"
                                    : "; NOT all values with portable C");
}

static uint64_t digest(void *user) { return tensor_digest(((one_op *)user)->out); }

/* Old results must not pass for new ones. */
static void poison(one_op *o) {
    void *data;
    uint64_t bytes;
    bench_need(mlsys_tensor_data(o->out, &data, &bytes), "output");
    memset(data, 0xff, bytes);
}

bench_subject one_op_subject(one_op *o, bench_boundary boundary, bench_cache cache, int threads,
                             const char *name) {
    bool kernels = boundary == BENCH_KERNEL && bind_kernels(o);
    poison(o);
    return (bench_subject){.name = name,
                           .boundary = kernels ? BENCH_KERNEL : BENCH_CALL,
                           .cache = cache,
                           .threads = threads,
                           .user = o,
                           .call = kernels ? run_kernels : run_call,
                           .digest = digest,
                           .check = judge};
}
