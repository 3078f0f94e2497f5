/* Text of nests, which parse.c reads back:
 *
 *     nest rows
 *     symbol N in [1,64]                         step 8: a multiple of 8
 *     input in0: f32[N,16]
 *     output out0: f32[N]
 *     bytes in1_bytes: u8[N,2,18] of input 1
 *     variable k_2 < 16                          only where the table does not have the order of the text
 *     parallel i_0 < N {                         for, vector, unrolled, grid, block, lane
 *       local row_2: f32[16]                     shared
 *       acc @acc_0: sum f32 of 16                dot ... from VALUE
 *       for k_1 < 16 {
 *         add @acc_0[k_1] in0[i_0,k_1]           a dot takes two values
 *       }
 *       let %s_0 = @acc_0
 *       bind row_3 < N = cast(%s_0):i64 "gather: index" clamp        wrap, at POSITION
 *       if 0 <= i_0-1 < N {                      when VALUE {
 *         out0[i_0] = guard(0 <= i_0 < N, mul(%s_0, f32(2)), index(i_0):f32)
 *       }
 *     }
 *
 * Also barrier, wait, "copy a[..] = b[..]", "mma c (M,N,K) a[..] b[..]". A value that several places share stands in full
 * once, as $1=VALUE, and is $1 elsewhere. A value's dtype is written where the op and its arguments do not tell it. */
#include "core/dtype.h"
#include "core/faults.h"
#include "ir/loop/text.h"
#include "ir/ops/op_def.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const loop_words[] = {"",         "for",  "parallel", "vector",
                                         "unrolled", "grid", "block",    "lane"};
static const char *const acc_words[] = {"",    "sum", "prod", "dot",    "max",
                                        "min", "and", "or",   "argmax", "argmin"};
static const char *const random_words[] = {"random_bits", "random_uniform", "random_normal"};

const char *mlsi_loop_word(int kind) {
    return kind >= MLSI_LOOP_SERIAL && kind <= MLSI_LOOP_LANE ? loop_words[kind] : NULL;
}
const char *mlsi_acc_word(int kind) {
    return kind >= MLSI_ACC_SUM && kind <= MLSI_ACC_ARGMIN ? acc_words[kind] : NULL;
}
const char *mlsi_random_word(int kind) {
    return kind >= MLSI_RANDOM_BITS && kind <= MLSI_RANDOM_NORMAL ? random_words[kind] : NULL;
}

typedef struct writer {
    const mlsi_nest *n;
    mlsi_text *out;
    int32_t *uses;    /* per expression: places that name it */
    int32_t *written; /* per expression: its $ number */
    int32_t n_written;
    mlsi_nest_names names;
    int32_t last_symbol; /* of the variables met so far */
    bool in_order;
    int indent;
} writer;

static void write_value(writer *w, int32_t value);

static void write_index(writer *w, int64_t index) { mlsi_dim_print(&w->n->tab, index, w->out); }

static void write_indices(writer *w, int n, const int64_t *index) {
    for (int i = 0; i < n; i++) {
        mlsi_text_add(w->out, "%s", i ? "," : "");
        write_index(w, index[i]);
    }
}

static void write_range(writer *w, const int64_t *index) {
    write_index(w, index[0]);
    mlsi_text_add(w->out, " <= ");
    write_index(w, index[1]);
    mlsi_text_add(w->out, " < ");
    write_index(w, index[2]);
}

static void write_element(writer *w, int32_t buffer, int n, const int64_t *index) {
    mlsi_text_add(w->out, "%s[", w->names.buffers[buffer]);
    write_indices(w, n, index);
    mlsi_text_add(w->out, "]");
}

/* ---- values ---------------------------------------------------------------------------------------------- */

static const char *dtype_name(mlsys_dtype t) { return mlsi_dtype_get(t)->name; }

/* The shortest decimal of a few lengths that reads back to the same bits, else the bits. */
static void write_const(writer *w, const mlsi_lx *x) {
    static const char *const formats[] = {"%.6g", "%.9g", "%.17g"};
    uint64_t bits = x->bits, back;
    mlsi_view v = {.data = &bits, .dtype = x->dtype}, r = {.data = &back, .dtype = x->dtype};
    char text[40];
    mlsi_text_add(w->out, "%s(", dtype_name(x->dtype));
    if (!mlsi_dtype_is_float(x->dtype)) {
        mlsi_text_add(w->out, "%lld)", (long long)mlsi_ref_get_i(&v, 0));
        return;
    }
    double value = mlsi_ref_get_f(&v, 0);
    for (int k = 0; k < 3 && isfinite(value); k++) {
        back = 0;
        snprintf(text, sizeof text, formats[k], value);
        mlsi_ref_set_f(&r, 0, strtod(text, NULL));
        if (back != bits && !mlsi_fault(MLSI_FAULT_NEST_TEXT_DIGITS)) continue;
        mlsi_text_add(w->out, "%s)", text);
        return;
    }
    mlsi_text_add(w->out, "0x%llx)", (unsigned long long)bits);
}

static void write_arguments(writer *w, const mlsi_lx *x) {
    for (int i = 0; i < x->n_args; i++) {
        mlsi_text_add(w->out, "%s", i ? ", " : "");
        write_value(w, x->args[i]);
    }
}

static void write_op(writer *w, const mlsi_lx *x) {
    mlsi_text_add(w->out, "%s(", mlsi_op_name(x->op));
    write_arguments(w, x);
    mlsi_text_add(w->out, ")");
    mlsys_dtype last = x->n_args ? w->n->exprs[x->args[x->n_args - 1]].dtype : 0;
    if (x->dtype != mlsi_nest_op_dtype(x->op, last))
        mlsi_text_add(w->out, ":%s", dtype_name(x->dtype));
}

static void write_kind(writer *w, const mlsi_lx *x) {
    switch (x->kind) {
    case MLSI_LX_CONST: write_const(w, x); return;
    case MLSI_LX_INDEX:
        mlsi_text_add(w->out, "index(");
        write_index(w, x->index[0]);
        mlsi_text_add(w->out, ")");
        return;
    case MLSI_LX_LOAD: write_element(w, x->ref, x->n_index, x->index); return;
    case MLSI_LX_OP: write_op(w, x); return;
    case MLSI_LX_LET: mlsi_text_add(w->out, "%%%s", w->names.lets[x->ref]); return;
    case MLSI_LX_ACC: mlsi_text_add(w->out, "@%s", w->names.accs[x->ref]); return;
    case MLSI_LX_GUARD:
        mlsi_text_add(w->out, "guard(");
        write_range(w, x->index);
        mlsi_text_add(w->out, ", ");
        write_arguments(w, x);
        mlsi_text_add(w->out, ")");
        return;
    case MLSI_LX_RANDOM:
        mlsi_text_add(w->out, "%s(", mlsi_random_word((int)x->bits));
        write_index(w, x->index[0]);
        mlsi_text_add(w->out, ", ");
        write_arguments(w, x);
        mlsi_text_add(w->out, "):%s", dtype_name(x->dtype));
        return;
    case MLSI_LX_SHUFFLE:
        mlsi_text_add(w->out, "shuffle(%%%s, ", w->names.lets[x->ref]);
        write_index(w, x->index[0]);
        mlsi_text_add(w->out, ")");
        return;
    }
}

static bool is_short(const mlsi_lx *x) {
    return x->kind == MLSI_LX_CONST || x->kind == MLSI_LX_LET || x->kind == MLSI_LX_ACC;
}

static void write_value(writer *w, int32_t value) {
    const mlsi_lx *x = &w->n->exprs[value];
    if (w->out->st != MLSYS_OK) return;
    if (w->written[value]) {
        mlsi_text_add(w->out, "$%d", (int)w->written[value]);
        return;
    }
    if (w->uses[value] > 1 && !is_short(x) && !mlsi_fault(MLSI_FAULT_NEST_TEXT_SHARED)) {
        w->written[value] = ++w->n_written;
        mlsi_text_add(w->out, "$%d=", (int)w->n_written);
    }
    write_kind(w, x);
}

/* ---- statements ------------------------------------------------------------------------------------------ */

static void write_type(writer *w, int32_t buffer) {
    const mlsi_loop_buffer *b = &w->n->buffers[buffer];
    mlsi_text_add(w->out, "%s: %s[", w->names.buffers[buffer], dtype_name(b->dtype));
    write_indices(w, b->rank, b->dims);
    mlsi_text_add(w->out, "]");
}

static void write_acc(writer *w, int32_t acc) {
    const mlsi_acc *a = &w->n->accs[acc];
    mlsi_text_add(w->out, "acc @%s: %s %s of ", w->names.accs[acc], mlsi_acc_word(a->kind),
                  dtype_name(a->dtype));
    write_index(w, a->count);
    if (a->init < 0) return;
    mlsi_text_add(w->out, " from ");
    write_value(w, a->init);
}

static void write_variable(writer *w, int32_t var) {
    mlsi_text_add(w->out, "%s < ", w->n->vars[var].name);
    write_index(w, w->n->vars[var].extent);
}

static void write_bind(writer *w, const mlsi_ls *s) {
    mlsi_text_add(w->out, "bind ");
    write_variable(w, s->var);
    mlsi_text_add(w->out, " = ");
    write_value(w, s->value);
    if (s->text) mlsi_text_add(w->out, " \"%s\"", s->text);
    mlsi_text_add(w->out, "%s%s", s->clamp ? " clamp" : "", s->wrap ? " wrap" : "");
    if (!s->n_index) return;
    mlsi_text_add(w->out, " at ");
    write_index(w, s->index[0]);
}

static void write_add(writer *w, const mlsi_ls *s) {
    mlsi_text_add(w->out, "add @%s[", w->names.accs[s->ref]);
    write_index(w, s->index[0]);
    mlsi_text_add(w->out, "] ");
    write_value(w, s->value);
    if (s->value2 < 0) return;
    mlsi_text_add(w->out, ", ");
    write_value(w, s->value2);
}

static void write_mma(writer *w, const mlsi_ls *s) {
    mlsi_text_add(w->out, "mma %s (", w->names.buffers[s->ref]);
    write_indices(w, 3, s->index);
    mlsi_text_add(w->out, ") ");
    write_value(w, s->value);
    mlsi_text_add(w->out, ", ");
    write_value(w, s->value2);
}

static void write_store(writer *w, const mlsi_ls *s) {
    write_element(w, s->ref, s->n_index, s->index);
    mlsi_text_add(w->out, " = ");
    write_value(w, s->value);
}

static void write_body(writer *w, int32_t first);

static void write_if(writer *w, const mlsi_ls *s) {
    mlsi_text_add(w->out, s->value < 0 ? "if " : "when ");
    if (s->value < 0)
        write_range(w, s->index);
    else
        write_value(w, s->value);
}

static void write_stmt(writer *w, const mlsi_ls *s) {
    const mlsi_nest *n = w->n;
    switch (s->kind) {
    case MLSI_LS_FOR:
        mlsi_text_add(w->out, "%s ", mlsi_loop_word(s->loop));
        write_variable(w, s->var);
        return;
    case MLSI_LS_LET:
        mlsi_text_add(w->out, "let %%%s = ", w->names.lets[s->ref]);
        write_value(w, s->value);
        return;
    case MLSI_LS_COPY: mlsi_text_add(w->out, "copy "); /* fall through */
    case MLSI_LS_STORE: write_store(w, s); return;
    case MLSI_LS_IF: write_if(w, s); return;
    case MLSI_LS_ALLOC:
        mlsi_text_add(w->out, n->buffers[s->ref].scope == MLSI_SCOPE_SHARED ? "shared " : "local ");
        write_type(w, s->ref);
        return;
    case MLSI_LS_ACC: write_acc(w, s->ref); return;
    case MLSI_LS_ADD: write_add(w, s); return;
    case MLSI_LS_BIND: write_bind(w, s); return;
    case MLSI_LS_BARRIER: mlsi_text_add(w->out, "barrier"); return;
    case MLSI_LS_WAIT: mlsi_text_add(w->out, "wait"); return;
    case MLSI_LS_MMA: write_mma(w, s); return;
    }
}

static void write_body(writer *w, int32_t first) {
    for (int32_t i = first; i >= 0; i = w->n->stmts[i].next) {
        const mlsi_ls *s = &w->n->stmts[i];
        mlsi_text_add(w->out, "%*s", 2 * w->indent, "");
        write_stmt(w, s);
        if (s->kind != MLSI_LS_FOR && s->kind != MLSI_LS_IF) {
            mlsi_text_add(w->out, "\n");
            continue;
        }
        mlsi_text_add(w->out, " {\n");
        w->indent++;
        write_body(w, s->body);
        w->indent--;
        mlsi_text_add(w->out, "%*s}\n", 2 * w->indent, "");
    }
}

/* ---- what is used ---------------------------------------------------------------------------------------- */

static void count_uses(writer *w, int32_t value) {
    if (value < 0 || w->uses[value]++) return;
    for (int i = 0; i < w->n->exprs[value].n_args; i++)
        count_uses(w, w->n->exprs[value].args[i]);
}

/* Is the order of the variables' symbols that of the text? */
static void look_at(writer *w, int32_t first) {
    for (int32_t i = first; i >= 0; i = w->n->stmts[i].next) {
        const mlsi_ls *s = &w->n->stmts[i];
        if (s->kind == MLSI_LS_ACC) count_uses(w, w->n->accs[s->ref].init);
        count_uses(w, s->value);
        count_uses(w, s->value2);
        if (s->kind == MLSI_LS_FOR || s->kind == MLSI_LS_BIND) {
            int32_t symbol = w->n->vars[s->var].symbol;
            if (symbol >= 0 && symbol < w->last_symbol) w->in_order = false;
            if (symbol >= 0) w->last_symbol = symbol;
        }
        look_at(w, s->body);
    }
}

static bool is_reached(const mlsi_nest *n, int32_t first, int32_t var) {
    for (int32_t i = first; i >= 0; i = n->stmts[i].next) {
        const mlsi_ls *s = &n->stmts[i];
        if ((s->kind == MLSI_LS_FOR || s->kind == MLSI_LS_BIND) && s->var == var) return true;
        if (is_reached(n, s->body, var)) return true;
    }
    return false;
}

static void write_variables(writer *w) {
    for (int64_t symbol = w->n->n_shape_symbols; symbol < w->n->tab.n_symbols; symbol++)
        for (int32_t v = 0; v < w->n->n_vars; v++) {
            if (w->n->vars[v].symbol != symbol || !is_reached(w->n, w->n->first, v)) continue;
            mlsi_text_add(w->out, "variable ");
            write_variable(w, v);
            mlsi_text_add(w->out, "\n");
        }
}

static void write_parameters(writer *w, mlsi_scope scope, bool bytes) {
    const char *word = scope == MLSI_SCOPE_INPUT ? "input" : "output";
    int32_t count = scope == MLSI_SCOPE_INPUT ? w->n->n_inputs : w->n->n_outputs;
    for (int32_t p = 0; p < count; p++)
        for (int32_t i = 0; i < w->n->n_buffers; i++) {
            const mlsi_loop_buffer *b = &w->n->buffers[i];
            if (b->scope != scope || b->param != p || b->bytes != bytes) continue;
            mlsi_text_add(w->out, "%s ", bytes ? "bytes" : word);
            write_type(w, i);
            if (bytes) mlsi_text_add(w->out, " of %s %d", word, (int)p);
            mlsi_text_add(w->out, "\n");
        }
}

static void write_head(writer *w) {
    const mlsi_nest *n = w->n;
    mlsi_text_add(w->out, "nest %s\n", w->names.nest);
    for (int64_t i = 0; i < n->n_shape_symbols; i++) {
        const mlsi_symbol *s = &n->tab.symbols[i];
        mlsi_text_add(w->out, "symbol %s in [%lld,%lld]", s->name, (long long)s->min,
                      (long long)s->max);
        if (s->divisor != 1) mlsi_text_add(w->out, " step %lld", (long long)s->divisor);
        mlsi_text_add(w->out, "\n");
    }
    write_parameters(w, MLSI_SCOPE_INPUT, false);
    write_parameters(w, MLSI_SCOPE_OUTPUT, false);
    write_parameters(w, MLSI_SCOPE_INPUT, true);
    write_parameters(w, MLSI_SCOPE_OUTPUT, true);
}

void mlsi_nest_print(const mlsi_nest *n, mlsi_text *out) {
    writer w = {.n = n, .out = out, .last_symbol = -1, .in_order = true};
    mlsys_status st = mlsi_nest_verify(n);
    if (st == MLSYS_OK) st = mlsi_nest_names_make(n, &w.names);
    if (st == MLSYS_OK) st = MLSI_NEW_N(n->alloc, 2 * n->n_exprs + 1, &w.uses);
    if (st == MLSYS_OK) {
        w.written = w.uses + n->n_exprs;
        look_at(&w, n->first);
        write_head(&w);
        if (!w.in_order && !mlsi_fault(MLSI_FAULT_NEST_TEXT_ORDER)) write_variables(&w);
        write_body(&w, n->first);
    }
    mlsi_mem_free(n->alloc, w.uses);
    mlsi_nest_names_free(n, &w.names);
    if (out->st == MLSYS_OK) out->st = st;
}
