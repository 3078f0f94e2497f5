/* The first op with a result that is not finite. */
#include "core/faults.h"
#include "run/program.h"

#include <math.h>
#include <string.h>

typedef struct search {
    const mlsi_graph *g;
    mlsi_text *out;
} search;

typedef struct extent {
    double min, max; /* of the finite elements; min > max: there is none */
    int64_t nan, infinite, elements;
} extent;

static extent extent_of(const mlsi_view *v) {
    extent e = {INFINITY, -INFINITY, 0, 0, mlsi_view_count(v)};
    for (int64_t i = 0; i < e.elements; i++) {
        double x = mlsi_ref_get_f(v, i);
        if (isnan(x))
            e.nan++;
        else if (isinf(x))
            e.infinite++;
        else
            e.min = fmin(e.min, x), e.max = fmax(e.max, x);
    }
    return e;
}

/* "%12 f32[8,4] in [-0.5, 2], 3 NaN, 1 infinite of 32" */
static void describe(const search *s, int32_t value, const mlsi_view *v) {
    const mlsi_value_def *def = &s->g->funcs[0].values[value];
    char type[160];
    mlsi_text_add(s->out, "%%%d", value);
    if (def->name) mlsi_text_add(s->out, " \"%s\"", def->name);
    mlsi_text_add(s->out, " %s", mlsi_type_text(&s->g->symbols, &def->type, type, sizeof type));
    if (!mlsi_dtype_is_float(v->dtype)) return;
    extent e = extent_of(v);
    if (e.min <= e.max) mlsi_text_add(s->out, " in [%.6g, %.6g]", e.min, e.max);
    if (e.nan) mlsi_text_add(s->out, ", %lld NaN", (long long)e.nan);
    if (e.infinite) mlsi_text_add(s->out, ", %lld infinite", (long long)e.infinite);
    if (e.nan || e.infinite) mlsi_text_add(s->out, " of %lld", (long long)e.elements);
}

static void report(const search *s, const mlsi_node *node, int32_t value, const mlsi_view *values) {
    const char *name = mlsi_op_name(node->op);
    if (node->op == MLSI_OP_CUSTOM)
        name = s->g->customs[((const mlsi_attr_custom *)node->attrs)->op_index].op->name;
    mlsi_text_add(s->out, "%s: ", name);
    describe(s, value, &values[value]);
    for (int i = 0; i < node->n_in; i++) {
        mlsi_text_add(s->out, "; operand %d: ", i);
        if (node->in[i] >= 0)
            describe(s, node->in[i], &values[node->in[i]]);
        else
            mlsi_text_add(s->out, "absent");
    }
}

static bool seen(void *user, const mlsi_node *node, const mlsi_view *values) {
    const search *s = user;
    if (mlsi_op_get(node->op)->traits & MLSI_TRAIT_CREATION) return false;
    for (int i = 0; i < node->n_out; i++) {
        const mlsi_view *v = &values[node->first_out + i];
        if (!mlsi_dtype_is_float(v->dtype)) continue;
        extent e = extent_of(v);
        if (mlsi_fault(MLSI_FAULT_NONFINITE_NAN_ONLY) ? e.nan == 0 : e.nan + e.infinite == 0)
            continue;
        report(s, node, node->first_out + i, values);
        return true;
    }
    return false;
}

mlsys_status mlsi_find_nonfinite(const mlsi_graph *g, mlsi_stream *s, int n_in,
                                 mlsi_tensor *const *in, mlsi_text *out) {
    const mlsi_interpret_custom custom = {mlsi_custom_run, s};
    search look = {g, out};
    const mlsi_interpret_watch watch = {seen, &look};
    mlsi_view *views;
    if (n_in != g->funcs[0].n_inputs)
        return mlsi_fail(MLSYS_E_ARG, "find_nonfinite: %d inputs given, the graph has %lld", n_in,
                         (long long)g->funcs[0].n_inputs);
    MLSI_TRY(mlsi_graph_verify(g));
    MLSI_TRY(MLSI_NEW_N(g->alloc, n_in + 1, &views));
    for (int i = 0; i < n_in; i++)
        views[i] = mlsi_tensor_view_of(in[i]);
    mlsys_status st = mlsi_interpret_watched(g, n_in, views, &custom, &watch);
    mlsi_mem_free(g->alloc, views);
    return st;
}
