/* Statements as C: loops, tasks, tiles, reductions in their order. */
#include "ir/codegen/cuda_writer.h"

#include "core/faults.h"

#include <string.h>

static const char *acc_name(const mlsi_c_writer *w, int32_t acc) { return w->n->accs[acc].name; }

/* ---- reductions ------------------------------------------------------------------------------------------ */

static const char *const acc_words[] = {"",    "sum", "prod", "dot",    "max",
                                        "min", "and", "or",   "argmax", "argmin"};

/* The state's type: ml_KIND_TYPE, for lanes of results ml_vKIND, for terms in lanes ml_lKIND (cpu/gen.h). */
void mlsi_c_acc_type(mlsi_c_writer *w, int32_t acc) {
    const mlsi_acc *a = &w->n->accs[acc];
    const char *word =
        acc_words[a->kind == MLSI_ACC_MAX && mlsi_fault(MLSI_FAULT_C_REDUCTION) ? MLSI_ACC_MIN
                                                                                : a->kind];
    static const char *const suffix[] = {"f32", "f64", "int", "int"};
    if (w->acc_in_lanes[acc])
        mlsi_text_add(w->out, "ml_l%s", word);
    else if (w->acc_is_vector[acc])
        mlsi_text_add(w->out, "ml_v%s", word);
    else
        mlsi_text_add(w->out, "ml_%s_%s%s", word, suffix[mlsi_c_class_of(a->dtype)],
                      w->worker == MLSI_C_HOST ? "" : mlsi_cuda_acc_variant(w, acc));
}

static void begin_acc(mlsi_c_writer *w, const mlsi_ls *s) {
    const mlsi_acc *a = &w->n->accs[s->ref];
    mlsi_c_acc_type(w, s->ref);
    mlsi_text_add(w->out, " %s;\n", acc_name(w, s->ref));
    mlsi_c_acc_type(w, s->ref);
    mlsi_text_add(w->out, "_begin(&%s", acc_name(w, s->ref));
    if (a->kind == MLSI_ACC_DOT) mlsi_text_add(w->out, ", ");
    if (a->kind == MLSI_ACC_DOT && a->init >= 0)
        mlsi_c_value(w, a->init);
    else if (a->kind == MLSI_ACC_DOT)
        mlsi_text_add(w->out, w->acc_is_vector[s->ref]        ? "vf_set1(-0.0f)"
                              : mlsi_dtype_is_float(a->dtype) ? "-0.0"
                                                              : "0");
    mlsi_text_add(w->out, ");\n");
}

/* Once a reduction's loops have ended its result has a name. */
static void finish_acc(mlsi_c_writer *w, int32_t acc) {
    const mlsi_acc *a = &w->n->accs[acc];
    bool wraps = mlsi_c_class_of(a->dtype) == MLSI_C_INT && a->dtype != MLSYS_I64 &&
                 a->kind < MLSI_ACC_ARGMAX;
    mlsi_text_add(
        w->out, "const %s %s_r = ", mlsi_c_register_type(mlsi_acc_result(a), w->acc_is_vector[acc]),
        acc_name(w, acc));
    if (wraps) mlsi_text_add(w->out, "(int64_t)(%s)", mlsi_c_memory_type(a->dtype));
    mlsi_c_acc_type(w, acc);
    mlsi_text_add(w->out, "_end(&%s", acc_name(w, acc));
    if (w->worker == MLSI_C_BLOCK) mlsi_cuda_end(w, acc);
    mlsi_text_add(w->out, ");\n");
}

static void add(mlsi_c_writer *w, const mlsi_ls *s) {
    const bool gpu = w->worker != MLSI_C_HOST;
    if (gpu && mlsi_cuda_leave_run(w, s)) return;
    mlsi_c_acc_type(w, s->ref);
    mlsi_text_add(w->out, "_add(&%s, ", acc_name(w, s->ref));
    if (w->acc_in_lanes[s->ref])
        mlsi_text_add(w->out, w->mode == MLSI_C_TAIL ? "u, m, " : "u, VF_LANES, ");
    if (gpu) mlsi_cuda_add(w, s);
    if (!gpu || !mlsi_cuda_take_run(w, s)) mlsi_c_value(w, s->value);
    if (s->value2 >= 0) {
        mlsi_text_add(w->out, ", ");
        mlsi_c_value(w, s->value2);
    }
    mlsi_text_add(w->out, ");\n");
}

/* Do the positions ascend by one in the order of the text? loops: from ACC to ADD, outermost first; an iteration may add
 * several terms. */
typedef struct walk {
    int32_t vars[16];
    int n, terms, seen; /* terms of an iteration; those seen so far */
} walk;

static bool order_is_free(const mlsi_acc *a) {
    if (a->kind > MLSI_ACC_DOT) return a->kind < MLSI_ACC_ARGMAX;
    return a->kind != MLSI_ACC_DOT && !mlsi_dtype_is_float(a->dtype);
}

static void check_order(mlsi_c_writer *w, const mlsi_ls *add_stmt, walk *loops) {
    mlsi_nest *n = w->n;
    int64_t position = 0;
    if (order_is_free(&w->n->accs[add_stmt->ref])) return;
    for (int i = 0; i < loops->n; i++) {
        position = mlsi_nest_index(n, '*', position, w->n->vars[loops->vars[i]].extent);
        position = mlsi_nest_index(n, '+', position, w->n->vars[loops->vars[i]].code);
    }
    position =
        mlsi_nest_index(n, '+', mlsi_nest_index(n, '*', position, loops->terms), loops->seen++);
    if (position != add_stmt->index[0])
        mlsi_c_refuse(w, "a reduction whose terms do not come in order");
}

static int count_adds(const mlsi_nest *n, int32_t first, int32_t acc) {
    int count = 0;
    for (int32_t i = first; i >= 0; i = n->stmts[i].next) {
        count += n->stmts[i].kind == MLSI_LS_ADD && n->stmts[i].ref == acc;
        if (n->stmts[i].body >= 0) count += count_adds(n, n->stmts[i].body, acc);
    }
    return count;
}

/* Every ADD to acc below first comes in order. */
static void check_adds(mlsi_c_writer *w, int32_t acc, int32_t first, walk *loops) {
    for (int32_t i = first; i >= 0; i = w->n->stmts[i].next) {
        const mlsi_ls *s = &w->n->stmts[i];
        if (s->kind == MLSI_LS_ADD && s->ref == acc) check_order(w, s, loops);
        if (s->body < 0) continue;
        bool loop = s->kind == MLSI_LS_FOR;
        if (loop && loops->n == (int)(sizeof loops->vars / sizeof loops->vars[0])) {
            mlsi_c_refuse(w, "a reduction of so many loops");
            return;
        }
        if (loop) loops->vars[loops->n++] = s->var;
        check_adds(w, acc, s->body, loops);
        if (loop) loops->n--;
    }
}

bool mlsi_c_adds_to(const mlsi_nest *n, int32_t first, int32_t acc) {
    for (int32_t i = first; i >= 0; i = n->stmts[i].next) {
        const mlsi_ls *s = &n->stmts[i];
        if ((s->kind == MLSI_LS_ADD && s->ref == acc) ||
            (s->body >= 0 && mlsi_c_adds_to(n, s->body, acc)))
            return true;
    }
    return false;
}

/* ---- stores ------------------------------------------------------------------------------------------------ */

const char *mlsi_c_store_name(mlsys_dtype t) {
    switch (t) {
    case MLSYS_F32: return "vf_store";
    case MLSYS_F16: return "vf_store_f16";
    case MLSYS_BF16: return "vf_store_bf16";
    case MLSYS_I32: return "vi_store";
    case MLSYS_BOOL: return "ml_store_bool";
    default: return NULL;
    }
}

static void store_lanes(mlsi_c_writer *w, const mlsi_ls *s) {
    const mlsi_loop_buffer *b = &w->n->buffers[s->ref];
    bool tail = w->mode == MLSI_C_TAIL && !mlsi_fault(MLSI_FAULT_C_TAIL_STORE);
    bool streams = w->mode == MLSI_C_FULL && b->scope == MLSI_SCOPE_OUTPUT && b->dtype == MLSYS_F32;
    mlsi_text_add(w->out, "%s%s(%s&m_%s[", streams ? "ml_store" : mlsi_c_store_name(b->dtype),
                  tail ? "_n" : "", streams ? "stream, " : "", b->name);
    mlsi_c_address(w, s->ref, s->index);
    mlsi_text_add(w->out, "], ");
    mlsi_c_value(w, s->value);
    mlsi_text_add(w->out, tail ? ", m);\n" : ");\n");
}

static void store(mlsi_c_writer *w, const mlsi_ls *s) {
    const mlsi_loop_buffer *b = &w->n->buffers[s->ref];
    bool narrow = mlsi_dtype_is_float(b->dtype) && b->dtype != MLSYS_F32 && b->dtype != MLSYS_F64;
    if (!mlsi_c_memory_type(b->dtype)) {
        mlsi_c_refuse(w, mlsi_dtype_get(b->dtype)->name);
        return;
    }
    if (w->mode != MLSI_C_SCALAR) {
        store_lanes(w, s);
        return;
    }
    if (w->worker == MLSI_C_BLOCK && !mlsi_cuda_is_private(w, s->ref))
        mlsi_text_add(w->out, "if (threadIdx.x == 0) ");
    if (w->worker != MLSI_C_HOST && w->plan->columns) mlsi_cuda_column_store(w);
    if (w->worker == MLSI_C_HOST || !mlsi_cuda_packed_store(w, s)) {
        mlsi_text_add(w->out, "m_%s[", b->name);
        mlsi_c_address(w, s->ref, s->index);
        mlsi_text_add(w->out, "]");
    }
    mlsi_text_add(w->out, " = (%s)", mlsi_c_memory_type(b->dtype));
    if (narrow)
        mlsi_text_add(w->out, "ml_to_%s_bits(", mlsi_dtype_get(b->dtype)->name);
    else
        mlsi_text_add(w->out, "(");
    mlsi_c_value(w, s->value);
    mlsi_text_add(w->out, ");\n");
}

/* ---- loops --------------------------------------------------------------------------------------------------- */

const mlsi_ls *mlsi_c_ragged(const mlsi_c_writer *w, const mlsi_ls *s) {
    int64_t stride;
    if (s->body < 0) return NULL;
    const mlsi_ls *t = &w->n->stmts[s->body];
    if (t->kind != MLSI_LS_IF || t->value >= 0 || t->next >= 0 || t->index[0] != 0) return NULL;
    if (!mlsi_c_stride(w->n, t->index[1], s->var, &stride) || stride != 1) return NULL;
    return mlsi_c_stride(w->n, t->index[2], s->var, &stride) && stride == 0 ? t : NULL;
}

const char *mlsi_c_extent(mlsi_c_writer *w, const mlsi_ls *s, const mlsi_ls *cut) {
    const mlsi_loop_var *v = &w->n->vars[s->var];
    if (mlsi_fault(MLSI_FAULT_C_CUT)) cut = NULL;
    mlsi_text_add(w->out, "{ const int64_t n_%s = ", v->name);
    if (cut) {
        mlsi_nest *n = w->n;
        int64_t base = mlsi_nest_index(n, '-', cut->index[1], v->code);
        mlsi_text_add(w->out, "int_min(");
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
    mlsi_c_body(w, first);
    w->mode = MLSI_C_SCALAR;
}

static void vector_loop(mlsi_c_writer *w, const mlsi_ls *s, const mlsi_ls *cut) {
    const char *v = mlsi_c_extent(w, s, cut);
    int32_t first = cut ? cut->body : s->body;
    w->vector_var = s->var;
    if (takes_terms(w, first)) {
        mlsi_text_add(w->out,
                      "for (int64_t b_%s = 0; b_%s < n_%s; b_%s += %d) {\nfor (int u = 0; u < "
                      "ML_LANES; u++) {\n"
                      "const int64_t v_%s = b_%s + u * VF_LANES;\nif (v_%s + VF_LANES <= n_%s) {\n",
                      v, v, v, v, mlsi_fault(MLSI_FAULT_C_BLOCKS) ? 256 : 128, v, v, v, v);
        lanes_body(w, first, MLSI_C_FULL);
        mlsi_text_add(w->out, "} else if (v_%s < n_%s) {\nconst int m = (int)(n_%s - v_%s);\n", v,
                      v, v, v);
        lanes_body(w, first, MLSI_C_TAIL);
        mlsi_text_add(w->out, "} else break;\n}\n");
        for (int32_t a = 0; a < w->n->n_accs; a++)
            if (w->acc_in_lanes[a] && mlsi_c_adds_to(w->n, first, a) &&
                !mlsi_fault(MLSI_FAULT_C_BLOCK)) {
                mlsi_c_acc_type(w, a);
                mlsi_text_add(w->out, "_block(&%s, b_%s, n_%s);\n", acc_name(w, a), v, v);
            }
        mlsi_text_add(w->out, "}\n}\n");
    } else {
        mlsi_text_add(w->out,
                      "int64_t v_%s = 0;\nfor (; v_%s + VF_LANES <= n_%s; v_%s += VF_LANES) {\n", v,
                      v, v, v);
        if (!cut) mlsi_c_ahead(w, s);
        lanes_body(w, first, MLSI_C_FULL);
        mlsi_text_add(w->out, "}\nif (%sv_%s < n_%s) {\nconst int m = (int)(n_%s - v_%s);\n",
                      mlsi_fault(MLSI_FAULT_C_TAIL) ? "0 && " : "", v, v, v, v);
        lanes_body(w, first, MLSI_C_TAIL);
        mlsi_text_add(w->out, "}\n}\n");
    }
    w->vector_var = -1;
}

static void scalar_loop(mlsi_c_writer *w, const mlsi_ls *s, const mlsi_ls *cut) {
    const char *v = mlsi_c_extent(w, s, cut);
    mlsi_text_add(w->out, "for (int64_t v_%s = 0; v_%s < n_%s; v_%s++) {\n", v, v, v, v);
    mlsi_c_body(w, cut ? cut->body : s->body);
    mlsi_text_add(w->out, "}\n}\n");
}

static void loop(mlsi_c_writer *w, const mlsi_ls *s) {
    const mlsi_ls *cut = mlsi_c_ragged(w, s);
    if (s->loop >= MLSI_LOOP_GRID) mlsi_c_refuse(w, "loops of a GPU");
    if (w->worker != MLSI_C_HOST && w->plan->columns)
        mlsi_cuda_column_loop(w, s);
    else if (w->worker == MLSI_C_BLOCK)
        mlsi_cuda_block_loop(w, s, cut);
    else if (w->worker == MLSI_C_HOST && s->loop == MLSI_LOOP_VECTOR && w->vector_var < 0 &&
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
    if (w->worker == MLSI_C_BLOCK)
        mlsi_cuda_block_if(w, s);
    else
        mlsi_c_body(w, s->body);
    mlsi_text_add(w->out, "}\n");
}

/* By its place in the nest's table: loops in lanes are written twice. */
static int bind_number(const mlsi_nest *n, const mlsi_ls *s) {
    int number = 0;
    for (int64_t i = 0; i < n->n_stmts; i++) {
        number += n->stmts[i].kind == MLSI_LS_BIND;
        if (&n->stmts[i] == s) break;
    }
    return number;
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
    mlsi_text_add(w->out, "; if (v_%s < %s || v_%s >= n) { ", v, s->wrap ? "-n" : "0", v);
    if (w->worker == MLSI_C_HOST)
        mlsi_text_add(w->out, "a->error[0] = v_%s; a->error[1] = n; a->error[2] = ", v);
    else
        mlsi_text_add(w->out, "ml_fail(error, %d, v_%s, n, ", bind_number(w->n, s), v);
    mlsi_c_index(w, s->n_index ? s->index[0] : 0);
    if (w->worker == MLSI_C_HOST)
        mlsi_text_add(w->out, "; return %d; }", bind_number(w->n, s));
    else
        mlsi_text_add(w->out, "); return; }");
    if (s->wrap) mlsi_text_add(w->out, " if (v_%s < 0) v_%s += n;", v, v);
    mlsi_text_add(w->out, " }\n");
}

static void alloc(mlsi_c_writer *w, const mlsi_ls *s) {
    const mlsi_loop_buffer *b = &w->n->buffers[s->ref];
    const char *type = mlsi_c_memory_type(b->dtype);
    if (!type) {
        mlsi_c_refuse(w, "local memory of this dtype");
        return;
    }
    if (w->worker == MLSI_C_HOST)
        mlsi_text_add(w->out, "%s *const m_%s = (%s *)(void *)(a->work + m_%s_at);\n", type,
                      b->name, type, b->name);
    else
        mlsi_cuda_alloc(w, s->ref, type);
}

/* Whether terms come in lanes is known before the state is declared: by the loop that adds them. */
static void find_lanes(mlsi_c_writer *w, int32_t acc, int32_t first) {
    for (int32_t i = first; i >= 0; i = w->n->stmts[i].next) {
        const mlsi_ls *s = &w->n->stmts[i];
        if (s->body < 0 || !mlsi_c_adds_to(w->n, s->body, acc)) continue;
        if (s->kind == MLSI_LS_FOR && s->loop == MLSI_LOOP_VECTOR && w->vector_var < 0 &&
            !mlsi_c_ragged(w, s) && mlsi_c_fits_lanes(w, s->body, s->var)) {
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
        mlsi_c_define_let(w, s);
        bool vector = w->let_is_vector[s->ref];
        if (w->let_index[s->ref] >= 0) break;
        mlsi_text_add(w->out,
                      "const %s x_%s = ", mlsi_c_register_type(w->n->lets[s->ref].dtype, vector),
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
        loops.terms = count_adds(w->n, s->next, s->ref);
        check_adds(w, s->ref, s->next, &loops);
        if (w->mode == MLSI_C_SCALAR && w->worker == MLSI_C_HOST) find_lanes(w, s->ref, s->next);
        begin_acc(w, s);
        break;
    case MLSI_LS_ADD: add(w, s); break;
    case MLSI_LS_BIND: bind(w, s); break;
    default: mlsi_c_refuse(w, "statements of a GPU"); break;
    }
}

/* A body; behind the last statement that adds to an accumulator of it, its result gets a name. */
void mlsi_c_body(mlsi_c_writer *w, int32_t first) {
    int32_t open[16];
    int n_open = 0;
    for (int32_t i = first; i >= 0 && w->status == MLSYS_OK; i = w->n->stmts[i].next) {
        const mlsi_ls *s = &w->n->stmts[i];
        if (w->worker == MLSI_C_BLOCK) mlsi_cuda_before(w, s);
        stmt(w, i);
        if (s->kind == MLSI_LS_ACC) {
            if (n_open == 16)
                mlsi_c_refuse(w, "more than 16 reductions at once");
            else
                open[n_open++] = s->ref;
        }
        for (int k = 0; k < n_open; k++) {
            bool adds = (s->kind == MLSI_LS_ADD && s->ref == open[k]) ||
                        mlsi_c_adds_to(w->n, s->body, open[k]);
            if (!adds || mlsi_c_adds_to(w->n, s->next, open[k])) continue;
            finish_acc(w, open[k]);
            open[k--] = open[--n_open];
        }
    }
}
