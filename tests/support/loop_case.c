#include "support/loop_case.h"

#include "ir/codegen/codegen.h"
#include "ir/loop/lower.h"
#include "ir/loop/schedule.h"
#include "ir/passes/passes.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char *name_of(const loop_case *c, const loop_part *p, const char *name) {
    return p->node < 0 ? name : mlsi_op_name(c->g->funcs[0].nodes[p->node].op);
}

/* The node alone; symbols have the codes that they have in c->g. */
static mlsys_status node_graph(const mlsi_graph *from, const mlsi_node *node, mlsi_graph *g) {
    int32_t in[MLSI_MAX_OPERANDS], out[MLSI_MAX_OPERANDS];
    ck_assert_int_eq(mlsi_graph_init(g, from->ctx), MLSYS_OK);
    ck_assert_int_eq(mlsi_symtab_copy(&g->symbols, &from->symbols), MLSYS_OK);
    for (int i = 0; i < node->n_in; i++) {
        in[i] = -1;
        if (node->in[i] >= 0)
            MLSI_TRY(mlsi_build_input(g, 0, NULL, mlsi_type_of(from, 0, node->in[i]), &in[i]));
    }
    MLSI_TRY(mlsi_build_node(g, 0, node->op, node->attrs, node->n_in, in, node->n_out, out));
    for (int o = 0; o < node->n_out; o++)
        MLSI_TRY(mlsi_build_output(g, 0, NULL, out[o]));
    return MLSYS_OK;
}

static mlsys_status lower_nodes(loop_case *c, const char *name) {
    const mlsi_func *f = &c->g->funcs[0];
    loop_case_free(c);
    c->parts = calloc((size_t)f->n_nodes + 1, sizeof *c->parts);
    ck_assert_ptr_nonnull(c->parts);
    for (int64_t i = 0; i < f->n_nodes; i++) {
        loop_part *p = &c->parts[c->n_parts++];
        p->node = (int32_t)i;
        mlsys_status st = node_graph(c->g, &f->nodes[i], &p->g);
        ck_assert_msg(st == MLSYS_OK, "%s: node %lld: %s", name, (long long)i, mlsys_last_error());
        MLSI_TRY(mlsi_lower_func(&p->g, 0, name_of(c, p, name), &p->n));
    }
    return MLSYS_OK;
}

mlsys_status loop_case_lower(mlsi_graph *g, const char *name, loop_case *out) {
    mlsi_pass_ctx p = {.g = g};
    *out = (loop_case){.g = g, .n_parts = 1};
    out->parts = calloc(1, sizeof *out->parts);
    ck_assert_ptr_nonnull(out->parts);
    out->parts[0].node = -1;
    ck_assert_int_eq(mlsi_graph_init(&out->parts[0].g, g->ctx), MLSYS_OK);
    mlsys_status st = mlsi_decompose_to_loops(&p, 0);
    ck_assert_msg(st == MLSYS_OK, "%s: decompose: %s", name, mlsys_last_error());
    st = mlsi_lower_func(g, 0, name, &out->parts[0].n);
    return st == MLSYS_E_UNSUPPORTED ? lower_nodes(out, name) : st;
}

void loop_case_free(loop_case *c) {
    for (int64_t i = 0; i < c->n_parts; i++) {
        if (c->parts[i].n.alloc) mlsi_nest_free(&c->parts[i].n);
        mlsi_graph_free(&c->parts[i].g);
    }
    free(c->parts);
    c->parts = NULL;
    c->n_parts = 0;
}

/* ---- runs ------------------------------------------------------------------------------------------- */

static kc_tensor value_tensor(const loop_case *c, kc_rng *r, int32_t value,
                              const int64_t *binding) {
    const mlsi_type *t = mlsi_type_of(c->g, 0, value);
    int64_t shape[MLSYS_MAX_DIMS] = {0};
    for (int d = 0; d < t->rank; d++)
        ck_assert_int_eq(mlsi_dim_eval(&c->g->symbols, t->dims[d], binding, &shape[d]), MLSYS_OK);
    return kc_tensor_new(r, t->dtype, t->rank, shape, KC_DENSE);
}

/* values: views of what is there; the node's results are made. */
static mlsys_status run_node(const loop_case *c, const loop_part *p, const int64_t *binding,
                             kc_rng *r, kc_tensor *made, mlsi_view *values, loop_part_fn fn,
                             void *user) {
    const mlsi_node *node = &c->g->funcs[0].nodes[p->node];
    mlsi_view params[2 * MLSI_MAX_OPERANDS];
    int n = 0;
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0) params[n++] = values[node->in[i]];
    for (int32_t v = node->first_out; v < node->first_out + node->n_out; v++) {
        made[v] = value_tensor(c, r, v, binding);
        params[n++] = values[v] = made[v].view;
    }
    return fn(user, p, binding, params, n);
}

static uint64_t dense_bytes(const mlsi_view *v) {
    const mlsi_dtype_info *info = mlsi_dtype_get(v->dtype);
    return (uint64_t)(mlsi_view_count(v) / info->block_elems * info->block_bytes);
}

static bool has_own_loops(const loop_case *c, const loop_part *part) {
    const mlsi_func *f = part->node < 0 ? &c->g->funcs[0] : &part->g.funcs[0];
    for (int64_t i = 0; i < f->n_nodes; i++)
        if (mlsi_op_get(f->nodes[i].op)->nest) return true;
    return false;
}

mlsys_status loop_part_schedule(const loop_case *c, loop_part *part) {
    if (!has_own_loops(c, part)) MLSI_TRY(mlsi_codegen_schedule(&part->n));
    return mlsi_nest_move_invariants(&part->n);
}

mlsys_status loop_part_schedule_cuda(const loop_case *c, loop_part *part) {
    if (!has_own_loops(c, part)) MLSI_TRY(mlsi_codegen_cuda_schedule(&part->n));
    return mlsi_nest_move_invariants(&part->n);
}

mlsys_status loop_part_interpret(void *user, const loop_part *part, const int64_t *dims,
                                 const mlsi_view *params, int n_params) {
    (void)user, (void)n_params;
    return mlsi_nest_interpret(&part->n, dims, params);
}

mlsys_status loop_case_run(const loop_case *c, const int64_t *binding, const mlsi_view *params) {
    return loop_case_run_by(c, binding, params, loop_part_interpret, NULL);
}

mlsys_status loop_case_run_by(const loop_case *c, const int64_t *binding, const mlsi_view *params,
                              loop_part_fn fn, void *user) {
    const mlsi_func *f = &c->g->funcs[0];
    if (c->parts[0].node < 0)
        return fn(user, &c->parts[0], binding, params, (int)(f->n_inputs + f->n_outputs));
    kc_tensor *made = calloc((size_t)f->n_values + 1, sizeof *made);
    mlsi_view *values = calloc((size_t)f->n_values + 1, sizeof *values);
    kc_rng r = kc_seed(1);
    mlsys_status st = MLSYS_OK;
    ck_assert(made && values);
    for (int64_t i = 0; i < f->n_inputs; i++)
        values[f->inputs[i]] = params[i];
    for (int32_t v = 0; v < f->n_values; v++)
        if (f->values[v].kind == MLSI_VALUE_CONST)
            values[v] = mlsi_tensor_view_of(c->g->consts[f->values[v].index]);
    for (int64_t i = 0; i < c->n_parts && st == MLSYS_OK; i++)
        st = run_node(c, &c->parts[i], binding, &r, made, values, fn, user);
    for (int64_t o = 0; o < f->n_outputs && st == MLSYS_OK; o++) {
        const mlsi_view *y = &values[f->outputs[o].value];
        memcpy(params[f->n_inputs + o].data, y->data, dense_bytes(y));
    }
    for (int32_t v = 0; v < f->n_values; v++)
        kc_tensor_free(&made[v]);
    free(made);
    free(values);
    return st;
}
