/* Statements as C: loops, tasks, tiles, reductions in their order. */
#include "ir/codegen/c_writer.h"

#include <string.h>

static void body(mlsi_c_writer *w, int32_t first);

static const char *acc_name(const mlsi_c_writer *w, int32_t acc) { return w->n->accs[acc].name; }

/* ---- reductions ------------------------------------------------------------------------------------------ */

static const char *const acc_words[] = {"",    "sum", "prod", "dot",    "max",
                                        "min", "and", "or",   "argmax", "argmin"};

/* The state's type: ml_KIND_TYPE, for lanes of results ml_vKIND, for terms in lanes ml_lKIND (cpu/gen.h). */
static void acc_type(mlsi_c_writer *w, int32_t acc) {
    const mlsi_acc *a = &w->n->accs[acc];
    const char *word = acc_words[a->kind];
    static const char *const suffix[] = {"f32", "f64", "int", "int"};
    if (w->acc_in_lanes[acc])
        mlsi_text_add(w->out, "ml_l%s", word);
    else if (w->acc_is_vector[acc])
        mlsi_text_add(w->out, "ml_v%s", word);
    else
        mlsi_text_add(w->out, "ml_%s_%s", word, suffix[mlsi_c_class_of(a->dtype)]);
}

static void begin_acc(mlsi_c_writer *w, const mlsi_ls *s) {
    acc_type(w, s->ref);
    mlsi_text_add(w->out, " %s;\n", acc_name(w, s->ref));
    acc_type(w, s->ref);
    mlsi_text_add(w->out, "_begin(&%s);\n", acc_name(w, s->ref));
}

/* Once a reduction's loops have ended its result has a name; `after` is the statement behind them. */
static void finish_acc(mlsi_c_writer *w, int32_t acc) {
    const mlsi_acc *a = &w->n->accs[acc];
    bool wraps = mlsi_c_class_of(a->dtype) == MLSI_C_INT && a->dtype != MLSYS_I64 &&
                 a->kind < MLSI_ACC_ARGMAX;
    mlsi_text_add(
        w->out, "const %s %s_r = ", mlsi_c_register_type(mlsi_acc_result(a), w->acc_is_vector[acc]),
        acc_name(w, acc));
    if (wraps) mlsi_text_add(w->out, "(int64_t)(%s)", mlsi_c_memory_type(a->dtype));
    acc_type(w, acc);
    mlsi_text_add(w->out, "_end(&%s);\n", acc_name(w, acc));
}

static void add(mlsi_c_writer *w, const mlsi_ls *s) {
    acc_type(w, s->ref);
    mlsi_text_add(w->out, "_add(&%s, ", acc_name(w, s->ref));
    if (w->acc_in_lanes[s->ref])
        mlsi_text_add(w->out, w->mode == MLSI_C_TAIL ? "u, m, " : "u, VF_LANES, ");
    mlsi_c_value(w, s->value);
    if (s->value2 >= 0) {
        mlsi_text_add(w->out, ", ");
        mlsi_c_value(w, s->value2);
    }
    mlsi_text_add(w->out, ");\n");
}

/* Do the positions ascend by one in the order of the text? loops: from ACC to ADD, outermost first. */
typedef struct walk {
    int32_t vars[16];
    int n;
    bool ok;
} walk;

static void check_order(mlsi_c_writer *w, const mlsi_ls *add_stmt, const walk *loops) {
    mlsi_nest *n =
        (mlsi_nest *)(uintptr_t)w->n; /* interning more expressions changes nothing that it means */
    int64_t position = 0;
    if (w->n->accs[add_stmt->ref].kind > MLSI_ACC_DOT &&
        w->n->accs[add_stmt->ref].kind < MLSI_ACC_ARGMAX)
        return;
    if (w->n->accs[add_stmt->ref].kind <= MLSI_ACC_PROD &&
        !mlsi_dtype_is_float(w->n->accs[add_stmt->ref].dtype))
        return;
    for (int i = 0; i < loops->n; i++) {
        position = mlsi_nest_index(n, '*', position, w->n->vars[loops->vars[i]].extent);
        position = mlsi_nest_index(n, '+', position, w->n->vars[loops->vars[i]].code);
    }
    if (position != add_stmt->index[0])
        mlsi_c_refuse(w, "a reduction whose terms do not come in order");
}

/* Every ADD to acc below first comes in order. */
static void check_adds(mlsi_c_writer *w, int32_t acc, int32_t first, walk *loops) {
    for (int32_t i = first; i >= 0; i = w->n->stmts[i].next) {
        const mlsi_ls *s = &w->n->stmts[i];
        if (s->kind == MLSI_LS_ADD && s->ref == acc) check_order(w, s, loops);
        if (s->body < 0) continue;
        if (s->kind == MLSI_LS_FOR && loops->n < 16) loops->vars[loops->n++] = s->var;
        check_adds(w, acc, s->body, loops);
        if (s->kind == MLSI_LS_FOR) loops->n--;
    }
}

static bool adds_to(const mlsi_nest *n, int32_t first, int32_t acc) {
    for (int32_t i = first; i >= 0; i = n->stmts[i].next) {
        const mlsi_ls *s = &n->stmts[i];
        if ((s->kind == MLSI_LS_ADD && s->ref == acc) || (s->body >= 0 && adds_to(n, s->body, acc)))
            return true;
    }
    return false;
}

/* ---- stores ------------------------------------------------------------------------------------------------ */

static void store(mlsi_c_writer *w, const mlsi_ls *s) {
    const mlsi_loop_buffer *b = &w->n->buffers[s->ref];
    static const char *const lanes[] = {"vf_store", "vf_store_f16",  "vf_store_bf16",
                                        "vi_store", "ml_store_bool", "ml_store_i8"};
    bool tail = w->mode == MLSI_C_TAIL;
    int which = b->dtype == MLSYS_F16    ? 1
                : b->dtype == MLSYS_BF16 ? 2
                : b->dtype == MLSYS_I32  ? 3
                : b->dtype == MLSYS_BOOL ? 4
                : b->dtype == MLSYS_F32  ? 0
                                         : 5;
    if (!mlsi_c_memory_type(b->dtype)) mlsi_c_refuse(w, mlsi_dtype_get(b->dtype)->name);
    if (w->mode != MLSI_C_SCALAR) {
        bool streams = w->mode == MLSI_C_FULL && b->scope == MLSI_SCOPE_OUTPUT && which == 0;
        mlsi_text_add(w->out, "%s%s(%s&%s[", streams ? "ml_store" : lanes[which], tail ? "_n" : "",
                      streams ? "stream, " : "", b->name);
        mlsi_c_address(w, s->ref, s->index);
        mlsi_text_add(w->out, "], ");
        mlsi_c_value(w, s->value);
        mlsi_text_add(w->out, tail ? ", m);\n" : ");\n");
        return;
    }
    mlsi_text_add(w->out, "%s[", b->name);
    mlsi_c_address(w, s->ref, s->index);
    mlsi_text_add(w->out, "] = (%s)", mlsi_c_memory_type(b->dtype));
    if (which == 1 || which == 2)
        mlsi_text_add(w->out, "ml_to_%s_bits(", which == 1 ? "f16" : "bf16");
    mlsi_text_add(w->out, which == 1 || which == 2 ? "" : "(");
    mlsi_c_value(w, s->value);
    mlsi_text_add(w->out, ");\n");
}

/* ---- loops --------------------------------------------------------------------------------------------------- */

/* A ragged tile: the loop's whole body is one range test of base + variable. */
static const mlsi_ls *ragged(const mlsi_c_writer *w, const mlsi_ls *s) {
    int64_t stride;
    if (s->body < 0) return NULL;
    const mlsi_ls *t = &w->n->stmts[s->body];
    if (t->kind != MLSI_LS_IF || t->value >= 0 || t->next >= 0 || t->index[0] != 0) return NULL;
    if (!mlsi_c_stride(w->n, t->index[1], s->var, &stride) || stride != 1) return NULL;
    return mlsi_c_stride(w->n, t->index[2], s->var, &stride) && stride == 0 ? t : NULL;
}

/* "const int64_t NAME_n = ...": the extent, cut by the tile's end. */
static const char *extent(mlsi_c_writer *w, const mlsi_ls *s, const mlsi_ls *cut) {
    const mlsi_loop_var *v = &w->n->vars[s->var];
    mlsi_text_add(w->out, "{ const int64_t n_%s = ", v->name);
    if (cut) {
        mlsi_nest *n = (mlsi_nest *)(uintptr_t)w->n;
        int64_t base = mlsi_nest_index(n, '-', cut->index[1], v->code);
        mlsi_text_add(w->out, "ml_min_i64(");
        mlsi_c_index(w, mlsi_nest_index(n, '-', cut->index[2], base));
        mlsi_text_add(w->out, ", ");
    }
    mlsi_c_index(w, v->extent);
    mlsi_text_add(w->out, cut ? ");\n" : ";\n");
    return v->name;
}

static bool takes_terms(mlsi_c_writer *w, int32_t first) {
    bool takes = false;
    for (int32_t i = first; i >= 0; i = w->n->stmts[i].next) {
        const mlsi_ls *s = &w->n->stmts[i];
        if (s->kind == MLSI_LS_ADD && !w->acc_is_vector[s->ref]) takes = true;
        if (s->body >= 0) takes |= takes_terms(w, s->body);
    }
    return takes;
}

static void lanes_body(mlsi_c_writer *w, int32_t first, mlsi_c_mode mode) {
    w->mode = mode;
    body(w, first);
    w->mode = MLSI_C_SCALAR;
}

static void vector_loop(mlsi_c_writer *w, const mlsi_ls *s, const mlsi_ls *cut) {
    const char *v = extent(w, s, cut);
    int32_t first = cut ? cut->body : s->body;
    w->vector_var = s->var;
    if (takes_terms(w, first)) {
        mlsi_text_add(w->out,
                      "for (int64_t b_%s = 0; b_%s < n_%s; b_%s += 128) {\nfor (int u = 0; u < "
                      "ML_LANES; u++) {\n"
                      "const int64_t v_%s = b_%s + u * VF_LANES;\nif (v_%s + VF_LANES <= n_%s) {\n",
                      v, v, v, v, v, v, v, v);
        lanes_body(w, first, MLSI_C_FULL);
        mlsi_text_add(w->out, "} else if (v_%s < n_%s) {\nconst int m = (int)(n_%s - v_%s);\n", v,
                      v, v, v);
        lanes_body(w, first, MLSI_C_TAIL);
        mlsi_text_add(w->out, "} else break;\n}\n");
        for (int32_t a = 0; a < w->n->n_accs; a++)
            if (w->acc_in_lanes[a] && adds_to(w->n, first, a)) {
                acc_type(w, a);
                mlsi_text_add(w->out, "_block(&%s, b_%s, n_%s);\n", acc_name(w, a), v, v);
            }
        mlsi_text_add(w->out, "}\n}\n");
    } else {
        mlsi_text_add(w->out,
                      "int64_t v_%s = 0;\nfor (; v_%s + VF_LANES <= n_%s; v_%s += VF_LANES) {\n", v,
                      v, v, v);
        lanes_body(w, first, MLSI_C_FULL);
        mlsi_text_add(w->out, "}\nif (v_%s < n_%s) {\nconst int m = (int)(n_%s - v_%s);\n", v, v, v,
                      v);
        lanes_body(w, first, MLSI_C_TAIL);
        mlsi_text_add(w->out, "}\n}\n");
    }
    w->vector_var = -1;
}

static void scalar_loop(mlsi_c_writer *w, const mlsi_ls *s, const mlsi_ls *cut) {
    const char *v = extent(w, s, cut);
    mlsi_text_add(w->out, "for (int64_t v_%s = 0; v_%s < n_%s; v_%s++) {\n", v, v, v, v);
    body(w, cut ? cut->body : s->body);
    mlsi_text_add(w->out, "}\n}\n");
}

static void loop(mlsi_c_writer *w, const mlsi_ls *s) {
    const mlsi_ls *cut = ragged(w, s);
    if (s->loop >= MLSI_LOOP_GRID) mlsi_c_refuse(w, "loops of a GPU");
    if (s->loop == MLSI_LOOP_VECTOR && w->vector_var < 0 &&
        mlsi_c_fits_lanes(w, cut ? cut->body : s->body, s->var))
        vector_loop(w, s, cut);
    else
        scalar_loop(w, s, cut);
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

static void range_if(mlsi_c_writer *w, const mlsi_ls *s) {
    mlsi_text_add(w->out, "if (");
    if (s->value >= 0) {
        mlsi_c_scalar(w, s->value);
    } else {
        mlsi_c_index(w, s->index[0]);
        mlsi_text_add(w->out, " <= ");
        mlsi_c_index(w, s->index[1]);
        mlsi_text_add(w->out, " && ");
        mlsi_c_index(w, s->index[1]);
        mlsi_text_add(w->out, " < ");
        mlsi_c_index(w, s->index[2]);
    }
    mlsi_text_add(w->out, ") {\n");
    body(w, s->body);
    mlsi_text_add(w->out, "}\n");
}

static void bind(mlsi_c_writer *w, const mlsi_ls *s) {
    const char *v = w->n->vars[s->var].name;
    mlsi_text_add(w->out, "int64_t v_%s = ", v);
    mlsi_c_scalar(w, s->value);
    mlsi_text_add(w->out, ";\n{ const int64_t n = ");
    mlsi_c_index(w, w->n->vars[s->var].extent);
    if (s->clamp)
        mlsi_text_add(w->out, "; v_%s = v_%s >= n ? n - 1 : v_%s; v_%s = v_%s < 0 ? 0 : v_%s", v, v,
                      v, v, v, v);
    mlsi_text_add(
        w->out,
        "; if (v_%s < 0 || v_%s >= n) { a->error[0] = v_%s; a->error[1] = n; return %d; } }\n", v,
        v, v, ++w->bind_count);
}

static void alloc(mlsi_c_writer *w, const mlsi_ls *s) {
    const mlsi_loop_buffer *b = &w->n->buffers[s->ref];
    const char *type = mlsi_c_memory_type(b->dtype);
    if (!type) {
        mlsi_c_refuse(w, "local memory of this dtype");
        return;
    }
    mlsi_text_add(w->out, "%s *const %s = (%s *)(void *)(a->work + %s_at);\n", type, b->name, type,
                  b->name);
}

/* Whether terms come in lanes is known before the state is declared: by the loop that adds them. */
static void find_lanes(mlsi_c_writer *w, int32_t acc, int32_t first) {
    for (int32_t i = first; i >= 0; i = w->n->stmts[i].next) {
        const mlsi_ls *s = &w->n->stmts[i];
        if (s->body < 0 || !adds_to(w->n, s->body, acc)) continue;
        if (s->kind == MLSI_LS_FOR && s->loop == MLSI_LOOP_VECTOR && w->vector_var < 0 &&
            !ragged(w, s) && mlsi_c_fits_lanes(w, s->body, s->var)) {
            w->acc_in_lanes[acc] = true;
            return;
        }
        find_lanes(w, acc, s->body);
    }
}

static void stmt(mlsi_c_writer *w, int32_t i) {
    const mlsi_ls *s = &w->n->stmts[i];
    walk loops = {.n = 0};
    switch (s->kind) {
    case MLSI_LS_FOR: loop(w, s); break;
    case MLSI_LS_LET: {
        bool vector = w->mode != MLSI_C_SCALAR && mlsi_c_varies(w, s->value);
        w->let_is_vector[s->ref] = vector;
        mlsi_text_add(w->out,
                      "const %s %s = ", mlsi_c_register_type(w->n->lets[s->ref].dtype, vector),
                      w->n->lets[s->ref].name);
        if (vector)
            mlsi_c_value(w, s->value);
        else
            mlsi_c_scalar(w, s->value);
        mlsi_text_add(w->out, ";\n");
        break;
    }
    case MLSI_LS_STORE: store(w, s); break;
    case MLSI_LS_IF: range_if(w, s); break;
    case MLSI_LS_ALLOC: alloc(w, s); break;
    case MLSI_LS_ACC:
        w->acc_is_vector[s->ref] = w->mode != MLSI_C_SCALAR;
        w->acc_in_lanes[s->ref] = false;
        check_adds(w, s->ref, s->next, &loops);
        if (w->mode == MLSI_C_SCALAR) find_lanes(w, s->ref, s->next);
        begin_acc(w, s);
        break;
    case MLSI_LS_ADD: add(w, s); break;
    case MLSI_LS_BIND: bind(w, s); break;
    default: mlsi_c_refuse(w, "statements of a GPU"); break;
    }
}

/* A body; behind the last statement that adds to an accumulator of it, its result gets a name. */
static void body(mlsi_c_writer *w, int32_t first) {
    int32_t open[16];
    int n_open = 0;
    for (int32_t i = first; i >= 0 && w->status == MLSYS_OK; i = w->n->stmts[i].next) {
        const mlsi_ls *s = &w->n->stmts[i];
        stmt(w, i);
        if (s->kind == MLSI_LS_ACC) {
            if (n_open == 16)
                mlsi_c_refuse(w, "more than 16 reductions at once");
            else
                open[n_open++] = s->ref;
        }
        for (int k = 0; k < n_open; k++) {
            bool adds =
                (s->kind == MLSI_LS_ADD && s->ref == open[k]) || adds_to(w->n, s->body, open[k]);
            if (!adds || adds_to(w->n, s->next, open[k])) continue;
            finish_acc(w, open[k]);
            open[k--] = open[--n_open];
        }
    }
}

/* ---- the function -------------------------------------------------------------------------------------------------- */

/* Behind the parallel loops that nest perfectly from the root; how many. */
static int parallel_chain(const mlsi_nest *n, int32_t *chain, int32_t *inner) {
    int count = 0;
    *inner = n->first;
    while (*inner >= 0 && count < 8) {
        const mlsi_ls *s = &n->stmts[*inner];
        if (s->kind != MLSI_LS_FOR || s->loop != MLSI_LOOP_PARALLEL || s->next >= 0) break;
        chain[count++] = s->var;
        *inner = s->body;
    }
    return count;
}

mlsys_status mlsi_codegen_tasks(mlsi_nest *n, int64_t *code) {
    int32_t chain[8], inner;
    int count = parallel_chain(n, chain, &inner);
    *code = 1;
    for (int i = 0; i < count; i++)
        *code = mlsi_nest_index(n, '*', *code, n->vars[chain[i]].extent);
    return n->status;
}

mlsys_status mlsi_codegen_work(const mlsi_nest *n, const int64_t *dims, uint64_t *bytes) {
    *bytes = 0;
    for (int64_t i = 0; i < n->n_buffers; i++) {
        const mlsi_loop_buffer *b = &n->buffers[i];
        uint64_t size = (uint64_t)mlsi_dtype_size(b->dtype);
        if (b->scope != MLSI_SCOPE_LOCAL) continue;
        for (int d = 0; d < b->rank; d++) {
            int64_t extent_d;
            MLSI_TRY(mlsi_dim_eval(&n->tab, b->dims[d], dims, &extent_d));
            if (!mlsi_mul_u64(size, (uint64_t)extent_d, &size) || size > UINT64_MAX / 4)
                return mlsi_fail(MLSYS_E_SHAPE, "%s: local memory exceeds 2^62 bytes", n->name);
        }
        if (!mlsi_add_u64(*bytes, (size + 63) & ~(uint64_t)63, bytes))
            return mlsi_fail(MLSYS_E_SHAPE, "%s: local memory exceeds 2^64 bytes", n->name);
    }
    return MLSYS_OK;
}

static void declare_param(mlsi_c_writer *w, const mlsi_loop_buffer *b) {
    const char *type = mlsi_c_memory_type(b->dtype);
    bool out = b->scope == MLSI_SCOPE_OUTPUT;
    if (!type) {
        mlsi_c_refuse(w, mlsi_dtype_get(b->dtype)->name);
        return;
    }
    mlsi_text_add(w->out, "%s%s *const %s = (%s%s *)(void *)a->data[%d];\n", out ? "" : "const ",
                  type, b->name, out ? "" : "const ", type, b->param + (out ? w->n->n_inputs : 0));
}

/* Row-major strides, but the last one, which is 1. */
static void declare_strides(mlsi_c_writer *w, const mlsi_loop_buffer *b) {
    for (int d = b->rank - 2; d >= 0; d--) {
        mlsi_text_add(w->out, "const int64_t %s_s%d = ", b->name, d);
        mlsi_c_index(w, b->dims[d + 1]);
        if (d + 2 < b->rank) mlsi_text_add(w->out, " * %s_s%d", b->name, d + 1);
        mlsi_text_add(w->out, "; (void)%s_s%d;\n", b->name, d);
    }
}

static void declare_all(mlsi_c_writer *w) {
    const char *last = NULL;
    for (int64_t i = 0; i < w->n->n_shape_symbols; i++)
        mlsi_text_add(w->out, "const int64_t s_%s = a->dims[%lld]; (void)s_%s;\n",
                      w->n->tab.symbols[i].name, (long long)i, w->n->tab.symbols[i].name);
    for (int64_t i = 0; i < w->n->n_buffers && w->status == MLSYS_OK; i++) {
        const mlsi_loop_buffer *b = &w->n->buffers[i];
        if (b->scope != MLSI_SCOPE_LOCAL && (!mlsi_dtype_is_block(b->dtype))) declare_param(w, b);
        if (mlsi_dtype_is_block(b->dtype)) continue;
        declare_strides(w, b);
        if (b->scope != MLSI_SCOPE_LOCAL) continue;
        mlsi_text_add(w->out, "const int64_t %s_at = %s%s;\n", b->name, last ? last : "0",
                      last ? "_end" : "");
        mlsi_text_add(w->out, "const int64_t %s_end = %s_at + ((%d", b->name, b->name,
                      mlsi_dtype_size(b->dtype));
        for (int d = 0; d < b->rank; d++) {
            mlsi_text_add(w->out, " * ");
            mlsi_c_index(w, b->dims[d]);
        }
        mlsi_text_add(w->out, " + 63) & ~INT64_C(63)); (void)%s_end;\n", b->name);
        last = b->name;
    }
}

static void tasks(mlsi_c_writer *w) {
    int32_t chain[8], inner;
    int count = parallel_chain(w->n, chain, &inner);
    mlsi_text_add(w->out, "for (int64_t task = a->begin; task < a->end; task++) {\n");
    if (count) mlsi_text_add(w->out, "int64_t rest = task;\n");
    for (int i = count - 1; i >= 0; i--) {
        const mlsi_loop_var *v = &w->n->vars[chain[i]];
        if (i == 0) {
            mlsi_text_add(w->out, "const int64_t v_%s = rest; (void)v_%s;\n", v->name, v->name);
            break;
        }
        mlsi_text_add(w->out, "const int64_t v_%s = rest %% ", v->name);
        mlsi_c_index(w, v->extent);
        mlsi_text_add(w->out, "; (void)v_%s; rest /= ", v->name);
        mlsi_c_index(w, v->extent);
        mlsi_text_add(w->out, ";\n");
    }
    body(w, inner);
    mlsi_text_add(w->out, "}\n");
}

mlsys_status mlsi_codegen_c(const mlsi_nest *n, const char *name, mlsi_text *out) {
    mlsi_c_writer w = {.n = n, .out = out, .vector_var = -1};
    mlsys_status st = MLSI_NEW_N(n->alloc, n->n_lets + 1, &w.let_is_vector);
    if (st == MLSYS_OK) st = MLSI_NEW_N(n->alloc, n->n_accs + 1, &w.acc_is_vector);
    if (st == MLSYS_OK) st = MLSI_NEW_N(n->alloc, n->n_accs + 1, &w.acc_in_lanes);
    if (st == MLSYS_OK) {
        mlsi_text_add(out,
                      "/* %s */\nint64_t %s(mlsi_gen_args *a) {\nconst int stream = a->stream; "
                      "(void)stream;\n",
                      n->name, name);
        declare_all(&w);
        tasks(&w);
        mlsi_text_add(out, "if (stream) v_stream_fence();\nreturn 0;\n}\n");
        st = w.status;
    }
    mlsi_mem_free(n->alloc, w.let_is_vector);
    mlsi_mem_free(n->alloc, w.acc_is_vector);
    mlsi_mem_free(n->alloc, w.acc_in_lanes);
    return st;
}
