/* Nests against the function that they lower: the nest's expressions with lets, LOCAL rows and accumulators written out. */
#include "ir/proof/nest_check.h"

#include <stdio.h>
#include <string.h>

static void conclude(mlsi_nest_check *k, mlsi_answer answer, const char *why, const char *what) {
    if (k->v->answer != MLSI_PROVED) return;
    k->v->answer = answer;
    snprintf(k->v->why, sizeof k->v->why, "nest %.40s: %s%s", k->n->name, why, what);
}

void mlsi_nx_refuse(mlsi_nest_check *k, const char *why, const char *what) {
    conclude(k, MLSI_REFUSED, why, what);
}

void mlsi_nx_uncovered(mlsi_nest_check *k, const char *why, const char *what) {
    conclude(k, MLSI_NOT_COVERED, why, what);
}

static const mlsi_ls *stmt(const mlsi_nest_check *k, int32_t s) { return &k->n->stmts[s]; }

/* ---- places in the text ------------------------------------------------------------------------------------------ */

static void number_body(mlsi_nest_check *k, int32_t s, int32_t parent, int32_t *next) {
    for (; s >= 0; s = stmt(k, s)->next) {
        k->parent[s] = parent;
        k->order[s] = (*next)++;
        number_body(k, stmt(k, s)->body, s, next);
    }
}

/* The one statement of a kind about ref; -1 and a reason when there is none or more. */
static int32_t only(mlsi_nest_check *k, mlsi_ls_kind kind, int32_t ref, const char *what) {
    int32_t found = -1;
    for (int32_t s = 0; s < k->n->n_stmts; s++) {
        if (stmt(k, s)->kind != kind || stmt(k, s)->ref != ref || k->order[s] < 0) continue;
        if (found >= 0) mlsi_nx_uncovered(k, "more than one statement gives ", what);
        found = s;
    }
    if (found < 0) mlsi_nx_refuse(k, "no statement gives ", what);
    return mlsi_nx_stop(k) ? -1 : found;
}

static bool never_runs(const mlsi_nest_check *k, int32_t s) {
    for (; s >= 0; s = k->parent[s])
        if (stmt(k, s)->kind == MLSI_LS_FOR && k->n->vars[stmt(k, s)->var].extent == 0) return true;
    return false;
}

static bool encloses(const mlsi_nest_check *k, int32_t outer, int32_t s) {
    while (s >= 0 && s != outer)
        s = k->parent[s];
    return s == outer;
}

/* Loops from the body that `outer` is in (-1: the root) down to s. Guards on the way must say that an entry of
 * subs is below its extent: they cut a ragged tile. */
static int loops_to(mlsi_nest_check *k, int32_t outer, int32_t s, int32_t *vars) {
    int32_t body = outer < 0 ? -1 : k->parent[outer];
    int n = 0;
    for (s = k->parent[s]; s != body && s >= 0; s = k->parent[s]) {
        if (stmt(k, s)->kind == MLSI_LS_FOR && n < MLSI_RADIX_VARS) vars[n++] = stmt(k, s)->var;
        if (stmt(k, s)->kind == MLSI_LS_IF && stmt(k, s)->value >= 0)
            mlsi_nx_uncovered(k, "a statement under a condition on data", "");
    }
    if (n == MLSI_RADIX_VARS) mlsi_nx_uncovered(k, "too many loops", "");
    return n;
}

/* Does a guard between keep code < extent, and does no guard keep anything else? */
static bool cut_by_guard(mlsi_nest_check *k, int32_t outer, int32_t s, int64_t code,
                         int64_t extent) {
    int32_t body = outer < 0 ? -1 : k->parent[outer];
    for (s = k->parent[s]; s != body && s >= 0; s = k->parent[s]) {
        const mlsi_ls *l = stmt(k, s);
        if (l->kind == MLSI_LS_IF && l->index[0] == 0 && l->index[1] == code &&
            l->index[2] == extent)
            return true;
    }
    return false;
}

/* Guards that are no cut of these subscripts leave elements out. */
static void check_guards(mlsi_nest_check *k, int32_t outer, int32_t s, int rank,
                         const int64_t *code, const int64_t *extent) {
    int32_t body = outer < 0 ? -1 : k->parent[outer];
    for (int32_t p = k->parent[s]; p != body && p >= 0; p = k->parent[p]) {
        const mlsi_ls *l = stmt(k, p);
        bool known = l->kind != MLSI_LS_IF;
        for (int d = 0; d < rank && !known; d++)
            known = l->index[0] == 0 && l->index[1] == code[d] && l->index[2] == extent[d];
        if (!known) mlsi_nx_refuse(k, "a guard leaves elements out", "");
    }
}

/* ---- one to one ------------------------------------------------------------------------------------------------------ */

/* Loops down to a statement, and what their variables are: KEEP, or fixed by what is around. */
typedef struct loops {
    int32_t outer, stmt, vars[MLSI_RADIX_VARS];
    int n;
    bool used[MLSI_RADIX_VARS];
    int64_t *own; /* per variable */
} loops;

static bool open_loops(mlsi_nest_check *k, int32_t outer, int32_t s, const int64_t *env, loops *l) {
    *l = (loops){.outer = outer, .stmt = s};
    l->n = loops_to(k, outer, s, l->vars);
    mlsys_status st = MLSI_NEW_N(k->n->alloc, k->n->n_vars + 1, &l->own);
    if (st != MLSYS_OK) return k->st = st, false;
    for (int64_t i = 0; i < k->n->n_vars; i++)
        l->own[i] = env ? env[i] : MLSI_NX_KEEP;
    for (int i = 0; i < l->n; i++)
        l->own[l->vars[i]] = MLSI_NX_KEEP;
    return true;
}

/* Does code take each value of [0, extent) once while the loops that move it run? A guard may cut what is beyond. Loops that
 * turn at most once move nothing: the extent says where they belong. */
static bool takes_each(mlsi_nest_check *k, loops *l, int64_t code, int64_t extent, mlsi_radix *r) {
    int32_t axis[MLSI_RADIX_VARS];
    int64_t lo, hi;
    int m = 0;
    for (int i = 0; i < l->n; i++) {
        int32_t v = l->vars[i];
        l->own[v] = 0;
        int64_t still = mlsi_nx_subst(k, code, l->own);
        l->own[v] = 1;
        bool moves = k->n->vars[v].symbol >= 0 && mlsi_nx_subst(k, code, l->own) != still;
        l->own[v] = MLSI_NX_KEEP;
        l->used[i] |= moves || k->n->vars[v].extent == 1;
        if (moves) axis[m++] = v;
    }
    if (!mlsi_nx_radix(k, code, m, axis, l->own, r)) return false;
    bool cut = cut_by_guard(k, l->outer, l->stmt, code, extent);
    for (int i = 0; i < l->n && r->total != extent; i++) {
        const mlsi_loop_var *v = &k->n->vars[l->vars[i]];
        if (l->used[i] || v->symbol >= 0) continue;
        int64_t total = mlsi_nx_ix(k, '*', r->total, v->extent);
        mlsi_dim_range(&k->n->tab, mlsi_nx_ix(k, '-', total, extent), &lo, &hi);
        l->used[i] = total == extent || (cut && lo >= 0);
        if (l->used[i]) r->total = total;
    }
    if (r->total == extent) return true;
    mlsi_dim_range(&k->n->tab, mlsi_nx_ix(k, '-', r->total, extent), &lo, &hi);
    return lo >= 0 && cut;
}

/* The variables of a radix as digits of a number. */
static void solve(mlsi_nest_check *k, const loops *l, const mlsi_radix *r, int64_t number,
                  int64_t *env) {
    for (int i = 0; env && i < r->n; i++) {
        int64_t extent = mlsi_nx_subst(k, k->n->vars[r->var[i]].extent, l->own);
        env[r->var[i]] = mlsi_nx_digit(k, number, r->coef[i], i == r->n - 1 ? 0 : extent);
    }
}

/* All axes together, by their row-major number: what fused loops give. */
static bool number_maps_onto(mlsi_nest_check *k, const loops *l, int rank, const int64_t *code,
                             const int64_t *extent, const int64_t *element, int64_t *env) {
    int64_t number = 0, whole = 0, below = 1;
    mlsi_radix r;
    for (int d = 0; d < rank; d++) {
        number = mlsi_nx_ix(k, '+', mlsi_nx_ix(k, '*', number, extent[d]), code[d]);
        if (env) whole = mlsi_nx_ix(k, '+', mlsi_nx_ix(k, '*', whole, extent[d]), element[d]);
    }
    for (int d = rank - 1; d >= 0; d--) {
        if (mlsi_nx_digit(k, number, below, d ? extent[d] : 0) != code[d]) return false;
        below = mlsi_nx_ix(k, '*', below, extent[d]);
    }
    if (!mlsi_nx_radix(k, number, l->n, l->vars, l->own, &r) || r.total != below) return false;
    solve(k, l, &r, whole, env);
    return true;
}

/* Subscripts of statement s as a map from the loops since `outer` onto the box of extents: each axis by loops of its own, or
 * all together. What the variables are for an element goes to env, when there is one. */
static bool maps_onto(mlsi_nest_check *k, int32_t outer, int32_t s, int rank, const int64_t *code,
                      const int64_t *extent, const int64_t *element, int64_t *env) {
    loops l;
    mlsi_radix r;
    bool apart = open_loops(k, outer, s, env, &l);
    check_guards(k, outer, s, rank, code, extent);
    for (int d = 0; d < rank && apart; d++) {
        apart = takes_each(k, &l, code[d], extent[d], &r);
        if (apart && env) solve(k, &l, &r, element[d], env);
    }
    for (int i = 0; i < l.n; i++)
        apart = apart && (l.used[i] || k->n->vars[l.vars[i]].extent == 1);
    if (!apart && l.own) apart = number_maps_onto(k, &l, rank, code, extent, element, env);
    mlsi_mem_free(k->n->alloc, l.own);
    return apart && !mlsi_nx_stop(k);
}

/* ---- expressions --------------------------------------------------------------------------------------------------------- */

static int32_t eval(mlsi_nest_check *k, int32_t x, int32_t at, int32_t env, int depth);

static int32_t env_of(mlsi_nest_check *k, const int64_t *codes) {
    int64_t *words;
    int32_t id = -1;
    mlsys_status st = MLSI_NEW_N(k->n->alloc, k->n->n_vars + 1, &words);
    if (st != MLSYS_OK) return k->st = st, -1;
    words[0] = MLSI_NX_ENV;
    memcpy(words + 1, codes, sizeof *codes * (size_t)k->n->n_vars);
    id = mlsi_nx(k, words, (int)k->n->n_vars + 1);
    mlsi_mem_free(k->n->alloc, words);
    return id;
}

/* A copy that the caller frees. */
static int64_t *env_codes(mlsi_nest_check *k, int32_t env) {
    int64_t *codes;
    mlsys_status st = MLSI_NEW_N(k->n->alloc, k->n->n_vars + 1, &codes);
    if (st != MLSYS_OK) return k->st = st, NULL;
    memcpy(codes, mlsi_tuple_words(&k->t, env) + 1, sizeof *codes * (size_t)k->n->n_vars);
    return codes;
}

/* The term at position $depth: the loops' variables are its digits. */
static int32_t acc_value(mlsi_nest_check *k, int32_t acc, int32_t env, int depth) {
    const mlsi_acc a = k->n->accs[acc];
    int32_t open = only(k, MLSI_LS_ACC, acc, "a reduction's beginning");
    int32_t add = only(k, MLSI_LS_ADD, acc, "a reduction's terms");
    if (mlsi_nx_stop(k)) return -1;
    int64_t *codes = env_codes(k, env);
    if (!codes) return -1;
    int64_t count = mlsi_nx_subst(k, a.count, codes);
    int64_t position = mlsi_nx_position(k, depth, count);
    const mlsi_ls s = *stmt(k, add);
    int32_t init = a.init >= 0 ? eval(k, a.init, open, env, depth) : -1;
    if (count == 0 && never_runs(k, add)) {
        mlsi_mem_free(k->n->alloc, codes);
        return mlsi_nx_reduce(k, a.kind, a.dtype, 0, -1, -1, init);
    }
    if (k->order[open] > k->order[add] || !encloses(k, k->parent[open], add) ||
        !maps_onto(k, open, add, 1, s.index, &a.count, &position, codes))
        mlsi_nx_refuse(k, "positions are not taken once each: ", a.name);
    int32_t inner = mlsi_nx_stop(k) ? -1 : env_of(k, codes), terms[2] = {-1, -1};
    mlsi_mem_free(k->n->alloc, codes);
    if (inner < 0) return -1;
    terms[0] = eval(k, s.value, add, inner, depth + 1);
    if (s.value2 >= 0) terms[1] = eval(k, s.value2, add, inner, depth + 1);
    return mlsi_nx_reduce(k, a.kind, a.dtype, count, terms[0], terms[1], init);
}

/* The element of LOCAL memory is the one that the store gave it, which ran before. */
static int32_t local_value(mlsi_nest_check *k, int32_t buffer, const int64_t *element, int32_t at,
                           int32_t env, int depth) {
    const mlsi_loop_buffer b = k->n->buffers[buffer];
    int32_t alloc = only(k, MLSI_LS_ALLOC, buffer, b.name);
    int32_t store = only(k, MLSI_LS_STORE, buffer, b.name);
    if (mlsi_nx_stop(k)) return -1;
    int64_t *codes = env_codes(k, env), *was = env_codes(k, env);
    const mlsi_ls s = *stmt(k, store);
    bool before = k->order[store] < k->order[at] && k->order[alloc] < k->order[store];
    if (codes && was && before && encloses(k, k->parent[alloc], at))
        before = maps_onto(k, alloc, store, b.rank, s.index, b.dims, element, codes);
    /* In a loop around both, the element is of the same turn: others have not run, or are written over. */
    for (int32_t p = k->parent[store]; before && p >= 0 && p != k->parent[alloc]; p = k->parent[p])
        if (stmt(k, p)->kind == MLSI_LS_FOR && encloses(k, p, at))
            before = codes[stmt(k, p)->var] == (was[stmt(k, p)->var] == MLSI_NX_KEEP
                                                    ? k->n->vars[stmt(k, p)->var].code
                                                    : was[stmt(k, p)->var]);
    if (!before) mlsi_nx_refuse(k, "memory is read that is not known to be written: ", b.name);
    int32_t inner = mlsi_nx_stop(k) ? -1 : env_of(k, codes);
    mlsi_mem_free(k->n->alloc, codes);
    mlsi_mem_free(k->n->alloc, was);
    return inner < 0 ? -1 : eval(k, s.value, store, inner, depth);
}

/* Subscripts of a load are digits of the loops around it, so in range. Those of inputs need no such rule: the expression has
 * to be the function's, and types bound that. */
static void check_local(mlsi_nest_check *k, const mlsi_loop_buffer *b, const int64_t *index,
                        int32_t at) {
    loops l;
    mlsi_radix r;
    bool inside = open_loops(k, -1, at, NULL, &l);
    for (int d = 0; d < b->rank && inside; d++)
        inside = takes_each(k, &l, index[d], b->dims[d], &r);
    mlsi_mem_free(k->n->alloc, l.own);
    if (!inside) mlsi_nx_refuse(k, "index: a subscript may be out of range: ", b->name);
}

static int32_t load_value(mlsi_nest_check *k, const mlsi_lx *x, const int64_t *index, int32_t at,
                          int32_t env, int depth) {
    const mlsi_loop_buffer *b = &k->n->buffers[x->ref];
    int64_t words[3 + MLSYS_MAX_DIMS] = {MLSI_NX_LOAD, b->dtype, b->param};
    if (b->scope == MLSI_SCOPE_LOCAL) {
        check_local(k, b, x->index, at);
        return local_value(k, x->ref, index, at, env, depth);
    }
    if (b->scope != MLSI_SCOPE_INPUT || b->bytes) {
        mlsi_nx_uncovered(k, "reads of an output, shared memory or bytes: ", b->name);
        return -1;
    }
    memcpy(words + 3, index, sizeof *index * (size_t)x->n_index);
    return mlsi_nx(k, words, 3 + x->n_index);
}

/* A let may run where its reader does not: in turns that a guard of the reader leaves out, or before loops that turn out
 * empty. Its loads are those of the function for indices in range only, so neither may be. */
static void check_ahead(mlsi_nest_check *k, int32_t let, int32_t at) {
    int64_t *cut, lo, hi;
    mlsys_status st = MLSI_NEW_N(k->n->alloc, k->n->n_vars + 1, &cut);
    if (st != MLSYS_OK) k->st = st;
    for (int64_t i = 0; st == MLSYS_OK && i < k->n->n_vars; i++)
        cut[i] = MLSI_NX_KEEP;
    for (int32_t p = st == MLSYS_OK ? k->parent[let] : -1; p >= 0; p = k->parent[p])
        if (stmt(k, p)->kind == MLSI_LS_FOR) cut[stmt(k, p)->var] = 0;
    for (int32_t p = st == MLSYS_OK ? k->parent[at] : -1; p >= 0 && !encloses(k, p, let);
         p = k->parent[p]) {
        const mlsi_ls *l = stmt(k, p);
        if (l->kind == MLSI_LS_FOR) {
            mlsi_dim_range(&k->n->tab, k->n->vars[l->var].extent, &lo, &hi);
            if (lo < 1) mlsi_nx_uncovered(k, "a value before loops that may be empty", "");
        } else if (mlsi_nx_subst(k, l->index[1], cut) != l->index[1]) {
            mlsi_nx_refuse(k, "index: a value is read ahead of its guard", "");
        }
    }
    mlsi_mem_free(k->n->alloc, cut);
}

static int32_t eval_kind(mlsi_nest_check *k, const mlsi_lx *x, int32_t at, int32_t env, int depth) {
    int64_t index[MLSYS_MAX_DIMS], *codes = env_codes(k, env);
    int32_t args[3] = {-1, -1, -1};
    if (!codes) return -1;
    for (int i = 0; i < x->n_index; i++)
        index[i] = mlsi_nx_subst(k, x->index[i], codes);
    mlsi_mem_free(k->n->alloc, codes);
    for (int i = 0; i < x->n_args; i++)
        args[i] = eval(k, x->args[i], at, env, depth);
    if (mlsi_nx_stop(k)) return -1;
    switch (x->kind) {
    case MLSI_LX_CONST:
        return mlsi_nx(k, (int64_t[]){MLSI_NX_CONST, x->dtype, (int64_t)x->bits}, 3);
    case MLSI_LX_INDEX: return mlsi_nx_index(k, index[0]);
    case MLSI_LX_OP: return mlsi_nx_op(k, x->op, x->dtype, x->n_args, args);
    case MLSI_LX_GUARD: return mlsi_nx_guard(k, index, args[0], args[1]);
    case MLSI_LX_ACC: return acc_value(k, x->ref, env, depth);
    case MLSI_LX_LOAD: return load_value(k, x, index, at, env, depth);
    case MLSI_LX_LET: {
        int32_t let = only(k, MLSI_LS_LET, x->ref, "a let");
        if (let >= 0) check_ahead(k, let, at);
        return let < 0 ? -1 : eval(k, stmt(k, let)->value, let, env, depth);
    }
    default: mlsi_nx_uncovered(k, "random numbers and shuffles", ""); return -1;
    }
}

/* Expression x of statement `at`, with variables as env says. */
static int32_t eval(mlsi_nest_check *k, int32_t x, int32_t at, int32_t env, int depth) {
    const int64_t words[6] = {MLSI_NX_MEMO, -1, x, at, env, depth};
    int32_t found, memo = mlsi_nx_memo(k, words, 6, &found);
    if (found >= 0 || mlsi_nx_stop(k)) return found;
    if (++k->deep > 1000) mlsi_nx_uncovered(k, "expressions nest too deep", "");
    const mlsi_lx own = k->n->exprs[x];
    k->seen[x] = true;
    int32_t y = mlsi_nx_stop(k) ? -1 : eval_kind(k, &own, at, env, depth);
    k->deep--;
    mlsi_nx_answer(k, memo, y);
    return y;
}

/* ---- the nest --------------------------------------------------------------------------------------------------------------- */

/* What no output is made of is not compared with anything: its loads could be anywhere. */
static void check_seen(mlsi_nest_check *k, int32_t x) {
    if (x < 0 || mlsi_nx_stop(k)) return;
    const mlsi_lx *l = &k->n->exprs[x];
    if (l->kind == MLSI_LX_LOAD && !k->seen[x])
        mlsi_nx_refuse(k, "index: a load that no output needs: ", k->n->buffers[l->ref].name);
    for (int i = 0; i < l->n_args; i++)
        check_seen(k, l->args[i]);
}

/* Memory that outlives a turn of a loop which may run beside others belongs to that turn alone: LOCAL is begun inside; an
 * output's elements differ from turn to turn, as each is stored once. */
static void check_hazard(mlsi_nest_check *k, int32_t s) {
    const mlsi_ls *l = stmt(k, s);
    if (l->kind != MLSI_LS_STORE || k->n->buffers[l->ref].scope != MLSI_SCOPE_LOCAL) return;
    int32_t alloc = only(k, MLSI_LS_ALLOC, l->ref, k->n->buffers[l->ref].name);
    for (int32_t p = k->parent[s]; p >= 0 && alloc >= 0; p = k->parent[p])
        if (stmt(k, p)->kind == MLSI_LS_FOR && stmt(k, p)->loop == MLSI_LOOP_PARALLEL &&
            !encloses(k, p, alloc))
            mlsi_nx_refuse(
                k, "hazard: parallel turns write the same memory: ", k->n->buffers[l->ref].name);
}

static void check_stmt(mlsi_nest_check *k, int32_t s) {
    const mlsi_ls l = *stmt(k, s);
    switch (l.kind) {
    case MLSI_LS_FOR:
        if (l.loop > MLSI_LOOP_UNROLLED) mlsi_nx_uncovered(k, "loops of a GPU", "");
        break;
    case MLSI_LS_STORE:
    case MLSI_LS_LET:
    case MLSI_LS_ALLOC:
    case MLSI_LS_ACC:
    case MLSI_LS_ADD:
    case MLSI_LS_IF: break;
    case MLSI_LS_BIND: mlsi_nx_uncovered(k, "indices from data", ""); break;
    default: mlsi_nx_uncovered(k, "barriers, copies and matrix intrinsics", ""); break;
    }
    check_hazard(k, s);
}

static void check_output(mlsi_nest_check *k, int32_t buffer) {
    const mlsi_loop_buffer b = k->n->buffers[buffer];
    const mlsi_func *f = &k->frames[0].f;
    if (mlsi_dtype_is_block(b.dtype)) mlsi_nx_uncovered(k, "blocks: ", b.name);
    int32_t store = mlsi_nx_stop(k) ? -1 : only(k, MLSI_LS_STORE, buffer, b.name);
    if (store < 0) return;
    const mlsi_ls s = *stmt(k, store);
    if (!maps_onto(k, -1, store, b.rank, s.index, b.dims, NULL, NULL))
        mlsi_nx_refuse(k, "index: elements are not stored once each: ", b.name);
    int64_t *codes;
    if (mlsi_nx_stop(k)) return;
    mlsys_status st = MLSI_NEW_N(k->n->alloc, k->n->n_vars + 1, &codes);
    if (st != MLSYS_OK) {
        k->st = st;
        return;
    }
    for (int64_t i = 0; i < k->n->n_vars; i++)
        codes[i] = MLSI_NX_KEEP;
    int32_t env = env_of(k, codes);
    mlsi_mem_free(k->n->alloc, codes);
    int32_t have = env < 0 ? -1 : eval(k, s.value, store, env, 0);
    int32_t want = mlsi_nest_element(k, 0, f->outputs[b.param].value, s.index, 0);
    if (!mlsi_nx_stop(k) && have != want) mlsi_nx_refuse(k, "value: another expression: ", b.name);
}

static void check_parameters(mlsi_nest_check *k) {
    const mlsi_func *f = &k->frames[0].f;
    for (int64_t i = 0; i < f->n_nodes; i++)
        if (mlsi_op_get(f->nodes[i].op)->nest)
            mlsi_nx_uncovered(k, "loops of its own: ", mlsi_op_name(f->nodes[i].op));
    if (k->n->n_inputs != f->n_inputs || k->n->n_outputs != f->n_outputs)
        mlsi_nx_refuse(k, "other parameters than the function's", "");
    for (int32_t i = 0; i < k->n->n_buffers && !mlsi_nx_stop(k); i++) {
        const mlsi_loop_buffer *b = &k->n->buffers[i];
        if (b->param < 0 || b->bytes) continue;
        const mlsi_type *t = &f->values[b->scope == MLSI_SCOPE_INPUT ? f->inputs[b->param]
                                                                     : f->outputs[b->param].value]
                                  .type;
        if (b->dtype != t->dtype || b->rank != t->rank ||
            memcmp(b->dims, t->dims, sizeof t->dims[0] * (size_t)t->rank))
            mlsi_nx_refuse(k, "a parameter of another type: ", b->name);
    }
}

static mlsys_status check(mlsi_nest_check *k, int32_t func) {
    int32_t next = 0;
    MLSI_TRY(MLSI_NEW_N(k->n->alloc, k->n->n_stmts + 1, &k->parent));
    MLSI_TRY(MLSI_NEW_N(k->n->alloc, k->n->n_stmts + 1, &k->order));
    MLSI_TRY(MLSI_NEW_N(k->n->alloc, k->n_symbols + 1, &k->var_of));
    MLSI_TRY(MLSI_NEW_N(k->n->alloc, k->n->n_exprs + 1, &k->seen));
    MLSI_TRY(MLSI_GROW(k->g->alloc, &k->frames, &k->cap_frames, 1));
    k->frames[k->n_frames++] = (mlsi_nest_frame){k->g->funcs[func], -1, NULL};
    memset(k->order, 0xff, sizeof *k->order * (size_t)k->n->n_stmts);
    memset(k->var_of, 0xff, sizeof *k->var_of * (size_t)k->n_symbols);
    for (int32_t i = 0; i < k->n->n_vars; i++)
        if (k->n->vars[i].symbol >= 0) k->var_of[k->n->vars[i].symbol] = i;
    number_body(k, k->n->first, -1, &next);
    check_parameters(k);
    for (int32_t s = 0; s < k->n->n_stmts && !mlsi_nx_stop(k); s++)
        if (k->order[s] >= 0) check_stmt(k, s);
    for (int32_t b = 0; b < k->n->n_buffers && !mlsi_nx_stop(k); b++)
        if (k->n->buffers[b].scope == MLSI_SCOPE_OUTPUT && !k->n->buffers[b].bytes)
            check_output(k, b);
    for (int32_t s = 0; s < k->n->n_stmts; s++) {
        if (k->order[s] < 0 || never_runs(k, s)) continue;
        check_seen(k, stmt(k, s)->value);
        check_seen(k, stmt(k, s)->value2);
    }
    return k->st;
}

mlsys_status mlsi_check_nest(mlsi_graph *g, int32_t func, mlsi_nest *n, mlsi_verdict *v) {
    mlsi_nest_check k = {.g = g, .n = n, .v = v, .n_symbols = n->tab.n_symbols};
    int64_t n_funcs = g->n_funcs;
    *v = (mlsi_verdict){MLSI_PROVED, ""};
    mlsi_tuples_init(&k.t, n->alloc);
    mlsys_status st = check(&k, func);
    mlsi_tuples_free(&k.t);
    mlsi_mem_free(n->alloc, k.answer);
    mlsi_mem_free(n->alloc, k.parent);
    mlsi_mem_free(n->alloc, k.order);
    mlsi_mem_free(n->alloc, k.var_of);
    mlsi_mem_free(n->alloc, k.seen);
    mlsi_mem_free(g->alloc, k.frames);
    mlsi_graph_truncate(g, n_funcs);
    return st;
}
