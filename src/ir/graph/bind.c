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

static mlsys_status fix_symbol(const mlsi_graph *g, int32_t func, int i, int d, int64_t extent,
                               int32_t symbol, int64_t v, int64_t *binding) {
    const mlsi_symbol *sym = &g->symbols.symbols[symbol];
    char name[128];
    binding[symbol] = v;
    if (v >= sym->min && v <= sym->max && v % sym->divisor == 0) return MLSYS_OK;
    return mlsi_fail(
        MLSYS_E_SHAPE,
        "run: %s: extent %d = %lld gives %s = %lld, outside [%lld, %lld] in steps of %lld",
        input_name(&g->funcs[func], i, name, sizeof name), d, (long long)extent, sym->name,
        (long long)v, (long long)sym->min, (long long)sym->max, (long long)sym->divisor);
}

/* Extents that are plain symbols fix them; in the second round also those that hold one symbol and
 * a number, as far as it is open still. The comparison of all extents comes later. */
static mlsys_status bind_symbols(const mlsi_graph *g, int32_t func, int i, const mlsi_layout *l,
                                 bool plain, int64_t *binding) {
    const mlsi_func *f = &g->funcs[func];
    const mlsi_type *t = &f->values[f->inputs[i]].type;
    if (l->dtype != t->dtype || l->rank != t->rank) return mismatch(g, func, i, l);
    for (int d = 0; d < t->rank; d++) {
        int64_t units, v;
        int32_t s = mlsi_dim_as_symbol(&g->symbols, t->dims[d]);
        if (plain && s >= 0 && binding[s] < 0)
            MLSI_TRY(fix_symbol(g, func, i, d, l->shape[d], s, l->shape[d], binding));
        if (plain || !mlsi_dim_solve(&g->symbols, t->dims[d], l->shape[d], &s, &units)) continue;
        if (binding[s] >= 0) continue;
        if (!mlsi_mul_i64(units, g->symbols.symbols[s].divisor, &v)) return mismatch(g, func, i, l);
        MLSI_TRY(fix_symbol(g, func, i, d, l->shape[d], s, v, binding));
    }
    return MLSYS_OK;
}

mlsys_status mlsi_bind_inputs(const mlsi_graph *g, int32_t func, int n_in,
                              const mlsi_layout *const *in, int64_t *binding) {
    const mlsi_func *f = &g->funcs[func];
    for (int64_t s = 0; s < g->symbols.n_symbols; s++)
        binding[s] = -1;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < n_in; i++)
            MLSI_TRY(bind_symbols(g, func, i, in[i], round == 0, binding));
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
