/* Index expressions as C, and how they move with a loop. */
#include "ir/codegen/c_writer.h"
#include "ir/loop/prove.h"

#include <string.h>

static const mlsi_expr *expr_of(const mlsi_symtab *t, int64_t code) {
    return mlsi_dim_is_code(t, code) ? &t->exprs[MLSI_DIM_CODE - code] : NULL;
}

/* ---- text -------------------------------------------------------------------------------------------- */

static void write_symbol(mlsi_c_writer *w, int32_t symbol) {
    const mlsi_symbol *s = &w->n->tab.symbols[symbol];
    if (symbol >= w->n->n_shape_symbols)
        mlsi_text_add(w->out, "v_%s", s->name);
    else if (s->divisor == 1)
        mlsi_text_add(w->out, "s_%s", s->name);
    else
        mlsi_text_add(w->out, "(s_%s / %lld)", s->name, (long long)s->divisor);
}

static void write_atom(mlsi_c_writer *w, const mlsi_atom *a) {
    int64_t lo, hi;
    if (!a->op) {
        write_symbol(w, a->symbol);
        return;
    }
    mlsi_dim_range(&w->n->tab, a->a, &lo, &hi);
    mlsi_text_add(w->out, lo >= 0 ? "(" : "ml_floor_div(");
    mlsi_c_index(w, a->a);
    mlsi_text_add(w->out, lo >= 0 ? " / " : ", ");
    mlsi_c_index(w, a->b);
    mlsi_text_add(w->out, ")");
}

void mlsi_c_index(mlsi_c_writer *w, int64_t code) {
    const mlsi_symtab *t = &w->n->tab;
    const mlsi_expr *e = expr_of(t, code);
    if (!e) {
        mlsi_text_add(w->out, "%lld", (long long)code);
        return;
    }
    mlsi_text_add(w->out, "(");
    for (int i = 0; i < e->n; i++) {
        const mlsi_term *term = &e->terms[i];
        mlsi_text_add(w->out, i ? " + " : "");
        if (term->n == 0 || term->coef != 1)
            mlsi_text_add(w->out, "INT64_C(%lld)", (long long)term->coef);
        for (int k = 0; k < term->n; k++) {
            mlsi_text_add(w->out, k || term->coef != 1 ? " * " : "");
            write_atom(w, &t->atoms[term->atoms[k]]);
        }
    }
    mlsi_text_add(w->out, ")");
}

/* ---- motion ------------------------------------------------------------------------------------------- */

bool mlsi_c_stride(const mlsi_nest *n, int64_t code, int32_t var, int64_t *stride) {
    int32_t symbol = n->vars[var].symbol; /* -1: at most one turn */
    mlsi_stride s = {MLSI_STRIDE_NUMBER, 0};
    if (symbol >= 0) s = mlsi_index_stride(&n->tab, code, symbol);
    *stride = s.value;
    return s.kind == MLSI_STRIDE_NUMBER;
}

mlsi_c_access mlsi_c_access_of(const mlsi_nest *n, int32_t buffer, const int64_t *index,
                               int32_t var) {
    int rank = n->buffers[buffer].rank;
    int64_t stride;
    for (int d = 0; d + 1 < rank; d++)
        if (!mlsi_c_stride(n, index[d], var, &stride) || stride) return MLSI_C_OTHER;
    if (!rank) return MLSI_C_SAME;
    if (!mlsi_c_stride(n, index[rank - 1], var, &stride)) return MLSI_C_OTHER;
    return stride == 0 ? MLSI_C_SAME : stride == 1 ? MLSI_C_UNIT : MLSI_C_OTHER;
}

void mlsi_c_address(mlsi_c_writer *w, int32_t buffer, const int64_t *index) {
    const mlsi_loop_buffer *b = &w->n->buffers[buffer];
    const char *plus = "";
    for (int d = 0; d < b->rank; d++) {
        if (index[d] == 0) continue;
        mlsi_text_add(w->out, "%s", plus);
        mlsi_c_index(w, index[d]);
        if (d + 1 < b->rank) mlsi_text_add(w->out, " * m_%s_s%d", b->name, d);
        plus = " + ";
    }
    if (!*plus) mlsi_text_add(w->out, "0");
}
