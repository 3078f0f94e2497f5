/* Symbols from concrete shapes. */
#include "ir/graph/ir.h"

#include <stdio.h>
#include <string.h>

static const char *input_name(const mlsi_func *f, int i, char *buf, int cap) {
    const char *name = f->values[f->inputs[i]].name;
    snprintf(buf, (size_t)cap, "input %d (%s)", i, name ? name : "unnamed");
    return buf;
}

static mlsys_status mismatch(const mlsi_graph *g, int32_t func, int i, const mlsi_layout *l) {
    const mlsi_func *f = &g->funcs[func];
    char have[256], want[512], name[128];
    return mlsi_fail(l->dtype == f->values[f->inputs[i]].type.dtype ? MLSYS_E_SHAPE : MLSYS_E_DTYPE,
                     "run: %s is %s, expected %s", input_name(f, i, name, sizeof name),
                     mlsi_layout_text(l, have, sizeof have),
                     mlsi_type_text(&g->symbols, &f->values[f->inputs[i]].type, want, sizeof want));
}

/* First pass: dims that are plain symbols fix them. */
static mlsys_status bind_symbols(const mlsi_graph *g, int32_t func, int i, const mlsi_layout *l,
                                 int64_t *binding) {
    const mlsi_func *f = &g->funcs[func];
    const mlsi_type *t = &f->values[f->inputs[i]].type;
    char name[128];
    if (l->dtype != t->dtype || l->rank != t->rank) return mismatch(g, func, i, l);
    for (int d = 0; d < t->rank; d++) {
        int32_t s = mlsi_dim_as_symbol(&g->symbols, t->dims[d]);
        if (s < 0 || binding[s] >= 0) continue;
        const mlsi_symbol *sym = &g->symbols.symbols[s];
        int64_t v = l->shape[d];
        if (v < sym->min || v > sym->max || v % sym->divisor)
            return mlsi_fail(MLSYS_E_SHAPE,
                             "run: %s: extent %d gives %s = %lld, outside [%lld, %lld] in steps of %lld",
                             input_name(f, i, name, sizeof name), d, sym->name, (long long)v,
                             (long long)sym->min, (long long)sym->max, (long long)sym->divisor);
        binding[s] = v;
    }
    return MLSYS_OK;
}

mlsys_status mlsi_bind_inputs(const mlsi_graph *g, int32_t func, int n_in,
                              const mlsi_layout *const *in, int64_t *binding) {
    const mlsi_func *f = &g->funcs[func];
    for (int64_t s = 0; s < g->symbols.n_symbols; s++) binding[s] = -1;
    for (int i = 0; i < n_in; i++) MLSI_TRY(bind_symbols(g, func, i, in[i], binding));
    for (int64_t s = 0; s < g->symbols.n_symbols; s++)
        if (binding[s] < 0) {
            const mlsi_symbol *sym = &g->symbols.symbols[s];
            binding[s] = sym->max - sym->max % sym->divisor;
        }
    for (int i = 0; i < n_in; i++) {
        const mlsi_type *t = &f->values[f->inputs[i]].type;
        for (int d = 0; d < t->rank; d++) {
            int64_t v;
            MLSI_TRY(mlsi_dim_eval(&g->symbols, t->dims[d], binding, &v));
            if (v != in[i]->shape[d]) return mismatch(g, func, i, in[i]);
        }
    }
    return MLSYS_OK;
}
