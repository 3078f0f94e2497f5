/* Reader of the text form: what is declared, statements; see print.c. Any bytes may come: what is read is verified. */
#include "core/dtype.h"
#include "ir/loop/text.h"

#include <string.h>

enum { MOST_BODIES = 60 };

static mlsys_status name_of(mlsi_nest_reader *r, const char *word, const char **out) {
    return mlsi_arena_strdup(&r->n->arena, word, out);
}

static bool next_line(mlsi_nest_reader *r) {
    while (*r->p == '\n' || *r->p == ' ')
        r->line += *r->p++ == '\n';
    return *r->p != 0;
}

/* ---- what is declared ------------------------------------------------------------------------------------- */

static mlsys_status read_symbol(mlsi_nest_reader *r) {
    char word[MLSI_WORD_BYTES];
    int64_t lo, hi, step = 1, code;
    mlsi_nest *n = r->n;
    if (n->n_vars) return mlsi_read_fail(r, "a shape symbol behind variables");
    MLSI_TRY(mlsi_read_word(r, word));
    MLSI_TRY(mlsi_read_expect(r, "in ["));
    MLSI_TRY(mlsi_read_i64(r, &lo));
    MLSI_TRY(mlsi_read_expect(r, ","));
    MLSI_TRY(mlsi_read_i64(r, &hi));
    MLSI_TRY(mlsi_read_expect(r, "]"));
    if (mlsi_read_accept(r, "step")) MLSI_TRY(mlsi_read_i64(r, &step));
    for (int64_t i = 0; i < n->tab.n_symbols; i++)
        if (!strcmp(n->tab.symbols[i].name, word))
            return mlsi_read_fail(r, "symbol is known already");
    if (mlsi_dim_symbol(&n->tab, word, lo, hi, step, &code) != MLSYS_OK)
        return mlsi_fail_in(MLSYS_E_FORMAT, "nest: line %d", r->line);
    n->n_shape_symbols = n->tab.n_symbols;
    return MLSYS_OK;
}

static mlsys_status read_buffer(mlsi_nest_reader *r, mlsi_loop_buffer *b) {
    char word[MLSI_WORD_BYTES];
    mlsi_nest *n = r->n;
    MLSI_TRY(mlsi_read_word(r, word));
    MLSI_TRY(mlsi_read_expect(r, ":"));
    MLSI_TRY(mlsi_read_dtype(r, &b->dtype));
    MLSI_TRY(mlsi_read_expect(r, "["));
    MLSI_TRY(mlsi_read_indices(r, "]", &b->rank, b->dims));
    MLSI_TRY(name_of(r, word, &b->name));
    MLSI_TRY(MLSI_GROW(n->alloc, &n->buffers, &n->cap_buffers, n->n_buffers + 1));
    n->buffers[n->n_buffers++] = *b;
    return MLSYS_OK;
}

static mlsys_status read_param(mlsi_nest_reader *r, mlsi_scope scope) {
    mlsi_loop_buffer b = {.scope = scope};
    b.param = scope == MLSI_SCOPE_INPUT ? r->n->n_inputs++ : r->n->n_outputs++;
    return read_buffer(r, &b);
}

static mlsys_status read_bytes(mlsi_nest_reader *r) {
    mlsi_loop_buffer b = {.bytes = true};
    int64_t param;
    MLSI_TRY(read_buffer(r, &b));
    MLSI_TRY(mlsi_read_expect(r, "of"));
    bool input = mlsi_read_accept_word(r, "input");
    if (!input && !mlsi_read_accept_word(r, "output")) return mlsi_read_fail(r, "of what");
    MLSI_TRY(mlsi_read_i64(r, &param));
    if (param < 0 || param > 1 << 20) return mlsi_read_fail(r, "no such parameter");
    mlsi_loop_buffer *made = &r->n->buffers[r->n->n_buffers - 1];
    made->scope = input ? MLSI_SCOPE_INPUT : MLSI_SCOPE_OUTPUT;
    made->param = (int32_t)param;
    return MLSYS_OK;
}

/* ---- variables ---------------------------------------------------------------------------------------------- */

static mlsys_status make_var(mlsi_nest_reader *r, const char *word, int64_t extent, int32_t *out) {
    mlsi_nest *n = r->n;
    mlsi_loop_var v = {.extent = extent, .symbol = -1};
    int64_t lo, hi;
    mlsi_dim_range(&n->tab, extent, &lo, &hi);
    if (hi > 1) {
        v.symbol = (int32_t)n->tab.n_symbols;
        mlsys_status st = mlsi_dim_variable(&n->tab, word, extent, &v.code);
        if (st != MLSYS_OK)
            return st == MLSYS_E_NOMEM ? st
                                       : mlsi_fail_in(MLSYS_E_FORMAT, "nest: line %d", r->line);
    }
    MLSI_TRY(name_of(r, word, &v.name));
    MLSI_TRY(MLSI_GROW(n->alloc, &n->vars, &n->cap_vars, n->n_vars + 1));
    n->vars[n->n_vars] = v;
    *out = (int32_t)n->n_vars++;
    return MLSYS_OK;
}

/* "i_0 < N": declared before, or new. */
static mlsys_status read_var(mlsi_nest_reader *r, bool declared, int32_t *out) {
    char word[MLSI_WORD_BYTES];
    int64_t extent;
    MLSI_TRY(mlsi_read_word(r, word));
    MLSI_TRY(mlsi_read_expect(r, "<"));
    MLSI_TRY(mlsi_read_index(r, &extent));
    for (int64_t i = 0; i < r->n->n_vars && !declared; i++) {
        const mlsi_loop_var *v = &r->n->vars[i];
        if (v->symbol < 0 || strcmp(v->name, word)) continue;
        if (v->extent != extent) return mlsi_read_fail(r, "another extent than declared");
        return *out = (int32_t)i, MLSYS_OK;
    }
    return make_var(r, word, extent, out);
}

/* ---- statements ----------------------------------------------------------------------------------------------- */

static mlsys_status read_acc(mlsi_nest_reader *r, mlsi_ls *s) {
    char word[MLSI_WORD_BYTES];
    mlsi_nest *n = r->n;
    mlsi_acc a = {.init = -1};
    MLSI_TRY(mlsi_read_expect(r, "@"));
    MLSI_TRY(mlsi_read_word(r, word));
    MLSI_TRY(name_of(r, word, &a.name));
    MLSI_TRY(mlsi_read_expect(r, ":"));
    MLSI_TRY(mlsi_read_word(r, word));
    for (int kind = MLSI_ACC_SUM; mlsi_acc_word(kind); kind++)
        if (!strcmp(mlsi_acc_word(kind), word)) a.kind = (mlsi_acc_kind)kind;
    if (!a.kind) return mlsi_read_fail(r, "unknown reduction before this");
    MLSI_TRY(mlsi_read_dtype(r, &a.dtype));
    MLSI_TRY(mlsi_read_expect(r, "of"));
    MLSI_TRY(mlsi_read_index(r, &a.count));
    if (mlsi_read_accept_word(r, "from")) MLSI_TRY(mlsi_read_value(r, &a.init));
    MLSI_TRY(MLSI_GROW(n->alloc, &n->accs, &n->cap_accs, n->n_accs + 1));
    n->accs[n->n_accs] = a;
    s->kind = MLSI_LS_ACC;
    s->ref = (int32_t)n->n_accs++;
    return MLSYS_OK;
}

static mlsys_status read_let(mlsi_nest_reader *r, mlsi_ls *s) {
    char word[MLSI_WORD_BYTES];
    mlsi_nest *n = r->n;
    mlsi_let let;
    MLSI_TRY(mlsi_read_expect(r, "%"));
    MLSI_TRY(mlsi_read_word(r, word));
    MLSI_TRY(mlsi_read_expect(r, "="));
    MLSI_TRY(mlsi_read_value(r, &s->value));
    let.dtype = n->exprs[s->value].dtype;
    MLSI_TRY(name_of(r, word, &let.name));
    MLSI_TRY(MLSI_GROW(n->alloc, &n->lets, &n->cap_lets, n->n_lets + 1));
    n->lets[n->n_lets] = let;
    s->kind = MLSI_LS_LET;
    s->ref = (int32_t)n->n_lets++;
    return MLSYS_OK;
}

static mlsys_status read_text(mlsi_nest_reader *r, mlsi_ls *s) {
    char text[MLSI_WORD_BYTES];
    size_t n = strcspn(r->p, "\"\n");
    if (r->p[n] != '"' || n >= sizeof text) return mlsi_read_fail(r, "unended or long text");
    memcpy(text, r->p, n);
    text[n] = 0;
    r->p += n + 1;
    return name_of(r, text, &s->text);
}

static mlsys_status read_bind(mlsi_nest_reader *r, mlsi_ls *s) {
    s->kind = MLSI_LS_BIND;
    MLSI_TRY(read_var(r, false, &s->var));
    MLSI_TRY(mlsi_read_expect(r, "="));
    MLSI_TRY(mlsi_read_value(r, &s->value));
    if (mlsi_read_accept(r, "\"")) MLSI_TRY(read_text(r, s));
    s->clamp = mlsi_read_accept_word(r, "clamp");
    s->wrap = mlsi_read_accept_word(r, "wrap");
    if (!mlsi_read_accept_word(r, "at")) return MLSYS_OK;
    s->n_index = 1;
    return mlsi_read_index(r, &s->index[0]);
}

static mlsys_status read_add(mlsi_nest_reader *r, mlsi_ls *s) {
    s->kind = MLSI_LS_ADD;
    s->n_index = 1;
    MLSI_TRY(mlsi_read_acc(r, &s->ref));
    MLSI_TRY(mlsi_read_expect(r, "["));
    MLSI_TRY(mlsi_read_index(r, &s->index[0]));
    MLSI_TRY(mlsi_read_expect(r, "]"));
    MLSI_TRY(mlsi_read_value(r, &s->value));
    return mlsi_read_accept(r, ",") ? mlsi_read_value(r, &s->value2) : MLSYS_OK;
}

static mlsys_status read_mma(mlsi_nest_reader *r, mlsi_ls *s) {
    s->kind = MLSI_LS_MMA;
    MLSI_TRY(mlsi_read_buffer(r, &s->ref));
    MLSI_TRY(mlsi_read_expect(r, "("));
    MLSI_TRY(mlsi_read_indices(r, ")", &s->n_index, s->index));
    MLSI_TRY(mlsi_read_value(r, &s->value));
    MLSI_TRY(mlsi_read_expect(r, ","));
    return mlsi_read_value(r, &s->value2);
}

static mlsys_status read_store(mlsi_nest_reader *r, mlsi_ls *s, mlsi_ls_kind kind) {
    s->kind = kind;
    MLSI_TRY(mlsi_read_buffer(r, &s->ref));
    MLSI_TRY(mlsi_read_expect(r, "["));
    MLSI_TRY(mlsi_read_indices(r, "]", &s->n_index, s->index));
    MLSI_TRY(mlsi_read_expect(r, "="));
    return mlsi_read_value(r, &s->value);
}

static mlsys_status read_local(mlsi_nest_reader *r, mlsi_ls *s, mlsi_scope scope) {
    mlsi_loop_buffer b = {.scope = scope, .param = -1};
    s->kind = MLSI_LS_ALLOC;
    s->ref = (int32_t)r->n->n_buffers;
    return read_buffer(r, &b);
}

static mlsys_status read_if(mlsi_nest_reader *r, mlsi_ls *s, bool range) {
    s->kind = MLSI_LS_IF;
    s->n_index = range ? 3 : 0;
    return range ? mlsi_read_range(r, s->index) : mlsi_read_value(r, &s->value);
}

/* A word that is followed by [ is a buffer, whatever it is called. */
static bool is_store(const mlsi_nest_reader *r) {
    const char *p =
        r->p + strspn(r->p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return *p == '[';
}

static mlsys_status read_stmt(mlsi_nest_reader *r, mlsi_ls *s) {
    if (is_store(r)) return read_store(r, s, MLSI_LS_STORE);
    for (int kind = MLSI_LOOP_SERIAL; mlsi_loop_word(kind); kind++) {
        if (!mlsi_read_accept_word(r, mlsi_loop_word(kind))) continue;
        s->kind = MLSI_LS_FOR;
        s->loop = (mlsi_loop_kind)kind;
        return read_var(r, false, &s->var);
    }
    if (mlsi_read_accept_word(r, "let")) return read_let(r, s);
    if (mlsi_read_accept_word(r, "add")) return read_add(r, s);
    if (mlsi_read_accept_word(r, "if")) return read_if(r, s, true);
    if (mlsi_read_accept_word(r, "when")) return read_if(r, s, false);
    if (mlsi_read_accept_word(r, "acc")) return read_acc(r, s);
    if (mlsi_read_accept_word(r, "local")) return read_local(r, s, MLSI_SCOPE_LOCAL);
    if (mlsi_read_accept_word(r, "shared")) return read_local(r, s, MLSI_SCOPE_SHARED);
    if (mlsi_read_accept_word(r, "bind")) return read_bind(r, s);
    if (mlsi_read_accept_word(r, "copy")) return read_store(r, s, MLSI_LS_COPY);
    if (mlsi_read_accept_word(r, "mma")) return read_mma(r, s);
    s->kind = MLSI_LS_BARRIER;
    if (mlsi_read_accept_word(r, "barrier")) return MLSYS_OK;
    s->kind = MLSI_LS_WAIT;
    return mlsi_read_accept_word(r, "wait") ? MLSYS_OK : mlsi_read_fail(r, "expected a statement");
}

static mlsys_status end_of_line(mlsi_nest_reader *r) {
    while (*r->p == ' ')
        r->p++;
    return *r->p == '\n' || *r->p == 0 ? MLSYS_OK
                                       : mlsi_read_fail(r, "expected the end of the line");
}

/* Statements up to a }, or the end of the text at the root; *first: the first one. */
static mlsys_status read_body(mlsi_nest_reader *r, int depth, int32_t *first) {
    mlsi_nest *n = r->n;
    int32_t last = -1;
    *first = -1;
    if (depth > MOST_BODIES) return mlsi_read_fail(r, "bodies nest too deep");
    while (next_line(r)) {
        mlsi_ls s = {.next = -1, .body = -1, .var = -1, .ref = -1, .value = -1, .value2 = -1};
        if (mlsi_read_accept(r, "}"))
            return depth ? end_of_line(r) : mlsi_read_fail(r, "no body ends before this");
        MLSI_TRY(read_stmt(r, &s));
        MLSI_TRY(MLSI_GROW(n->alloc, &n->stmts, &n->cap_stmts, n->n_stmts + 1));
        int32_t made = (int32_t)n->n_stmts++;
        n->stmts[made] = s;
        if (last < 0)
            *first = made;
        else
            n->stmts[last].next = made;
        last = made;
        if (s.kind == MLSI_LS_FOR || s.kind == MLSI_LS_IF) {
            int32_t body;
            MLSI_TRY(mlsi_read_expect(r, "{"));
            MLSI_TRY(end_of_line(r));
            MLSI_TRY(read_body(r, depth + 1, &body));
            n->stmts[made].body = body;
        } else {
            MLSI_TRY(end_of_line(r));
        }
    }
    return depth ? mlsi_read_fail(r, "expected }") : MLSYS_OK;
}

static mlsys_status read_head(mlsi_nest_reader *r) {
    char word[MLSI_WORD_BYTES];
    MLSI_TRY(mlsi_read_expect(r, "nest"));
    MLSI_TRY(mlsi_read_word(r, word));
    MLSI_TRY(name_of(r, word, &r->n->name));
    MLSI_TRY(end_of_line(r));
    while (next_line(r)) {
        int32_t var;
        if (is_store(r)) break;
        if (mlsi_read_accept_word(r, "symbol"))
            MLSI_TRY(read_symbol(r));
        else if (mlsi_read_accept_word(r, "input"))
            MLSI_TRY(read_param(r, MLSI_SCOPE_INPUT));
        else if (mlsi_read_accept_word(r, "output"))
            MLSI_TRY(read_param(r, MLSI_SCOPE_OUTPUT));
        else if (mlsi_read_accept_word(r, "bytes"))
            MLSI_TRY(read_bytes(r));
        else if (mlsi_read_accept_word(r, "variable"))
            MLSI_TRY(read_var(r, true, &var));
        else
            break;
        MLSI_TRY(end_of_line(r));
    }
    return MLSYS_OK;
}

mlsys_status mlsi_nest_parse(mlsi_nest *n, mlsi_alloc *a, const char *text) {
    mlsi_nest_reader r = {.n = n, .p = text, .line = 1};
    mlsi_nest_init(n, a, NULL, "");
    mlsys_status st = n->status;
    if (st == MLSYS_OK) st = read_head(&r);
    if (st == MLSYS_OK) st = read_body(&r, 0, &n->first);
    mlsi_mem_free(a, r.shared);
    if (st == MLSYS_OK) st = mlsi_nest_verify(n);
    if (st != MLSYS_OK && st != MLSYS_E_NOMEM) st = mlsi_fail_in(MLSYS_E_FORMAT, "nest text");
    n->status = st;
    return st;
}
