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

static void number_body(mlsi_nest_check *k, int32_t s, int32_t parent, int32_t *next) {
    for (; s >= 0; s = stmt(k, s)->next) {
        k->parent[s] = parent;
        k->order[s] = (*next)++;
        number_body(k, stmt(k, s)->body, s, next);
    }
}

/* ---- expressions --------------------------------------------------------------------------------------------------------- */

/* Where an expression is read: in statement `at`, with variables as env says, under so many reductions. */
typedef struct reading {
    int32_t at, env; /* of a tuple */
    int depth;
    int32_t guards; /* a tuple and 1: the innermost GUARD around, the next one; 0 = none */
} reading;

static void facts_of(mlsi_nest_check *k, reading in, const mlsi_nx_env *env, mlsi_nx_facts *f) {
    mlsi_nx_facts_at(k, in.at, env, f);
    for (int32_t g = in.guards; g > 0;) {
        const int64_t *words = mlsi_tuple_words(&k->t, g - 1);
        mlsi_nx_know(f, words[1], words[2], words[3]);
        g = (int32_t)words[4];
    }
}

static int32_t eval(mlsi_nest_check *k, int32_t x, reading in);

static int32_t env_id(mlsi_nest_check *k, const mlsi_nx_env *env) {
    int64_t words[1 + MLSI_NX_VARS] = {MLSI_NX_ENV};
    memcpy(words + 1, env->of, sizeof env->of);
    return mlsi_nx(k, words, 1 + MLSI_NX_VARS);
}

static mlsi_nx_env env_of(const mlsi_nest_check *k, int32_t id) {
    mlsi_nx_env env;
    memcpy(env.of, mlsi_tuple_words(&k->t, id) + 1, sizeof env.of);
    return env;
}

/* The statements of a reduction that is read in `in`. */
static bool find_reduction(mlsi_nest_check *k, int32_t acc, reading in, int32_t *open,
                           int32_t *add) {
    const char *name = k->n->accs[acc].name;
    *open = mlsi_nx_only(k, MLSI_LS_ACC, acc, name);
    *add = mlsi_nx_only(k, MLSI_LS_ADD, acc, name);
    if (mlsi_nx_stop(k)) return false;
    int32_t last = *add; /* the statement beside `open` that holds all terms */
    while (last >= 0 && k->parent[last] != k->parent[*open])
        last = k->parent[last];
    if (last < 0 || !mlsi_nx_in_scope(k, *open, *add) || !mlsi_nx_in_scope(k, last, in.at) ||
        mlsi_nx_encloses(k, last, in.at))
        mlsi_nx_refuse(k, "a reduction is read before its end: ", name);
    return !mlsi_nx_stop(k);
}

/* A position that is known to be in [0, count). */
typedef struct spot {
    int64_t position, count;
} spot;

/* The reading of the term at a position: the loops' variables are its digits. from: what it is a digit of itself; NULL. */
static bool at_position(mlsi_nest_check *k, int32_t acc, reading in, spot at, const spot *from,
                        reading *term) {
    int32_t open, add;
    if (!find_reduction(k, acc, in, &open, &add)) return false;
    mlsi_nx_env env = env_of(k, in.env);
    mlsi_nx_facts facts;
    facts_of(k, in, &env, &facts);
    mlsi_nx_know(&facts, 0, at.position, at.count);
    if (from) mlsi_nx_know(&facts, 0, from->position, from->count);
    const int64_t index = stmt(k, add)->index[0];
    const mlsi_nx_box box = {1, &index, &at.count, &at.position};
    if (!mlsi_nx_stop(k) && !mlsi_nx_maps_onto(k, open, add, &box, &facts, &env))
        mlsi_nx_refuse(k, "positions are not taken once each: ", k->n->accs[acc].name);
    *term = (reading){add, env_id(k, &env), in.depth + 1, 0};
    return !mlsi_nx_stop(k);
}

/* Is the result that of the results of runs of c terms, in order? Of rounded sums for the chunks of the canonical tree
 * only (docs/numerics.md). */
static bool has_runs(const mlsi_acc *outer, const mlsi_acc *run, int64_t c) {
    bool rounds = mlsi_dtype_is_float(run->dtype), dot = run->kind == MLSI_ACC_DOT;
    if (outer->init >= 0 || run->init >= 0 || outer->dtype != run->dtype ||
        outer->kind != (dot ? MLSI_ACC_SUM : run->kind))
        return false;
    switch (run->kind) {
    case MLSI_ACC_SUM:
    case MLSI_ACC_PROD: return !rounds || c == 4096;
    case MLSI_ACC_DOT: return !rounds;
    case MLSI_ACC_MAX:
    case MLSI_ACC_MIN:
    case MLSI_ACC_AND:
    case MLSI_ACC_OR: return true;
    default: return false;
    }
}

static int64_t run_count(mlsi_nest_check *k, int32_t run, reading in) {
    const mlsi_nx_env env = env_of(k, in.env);
    return mlsi_nx_subst(k, k->n->accs[run].count, &env);
}

/* Where the terms of a reduction are the results of another one: do all its runs have c terms, but the last one, which has
 * `left` of them, 1 to c? Both kinds have theirs once each. */
static bool runs_of(mlsi_nest_check *k, int32_t acc, int32_t run, reading in, int64_t c,
                    int64_t *left) {
    const mlsi_nx_env env = env_of(k, in.env);
    int64_t runs = mlsi_nx_subst(k, k->n->accs[acc].count, &env);
    int64_t last = mlsi_nx_ix(k, '-', runs, 1);
    const spot any = {mlsi_nx_position(k, in.depth, runs), runs};
    mlsi_nx_facts facts;
    reading at, term;
    facts_of(k, in, &env, &facts);
    if (!mlsi_nx_within(k, &facts, 0, 0, runs) ||
        !at_position(k, acc, in, (spot){last, runs}, NULL, &at))
        return false;
    *left = run_count(k, run, at);
    const spot in_last = {mlsi_nx_position(k, in.depth + 1, *left), *left};
    if (!mlsi_nx_within(k, &facts, 1, *left, c + 1) ||
        !at_position(k, run, at, in_last, NULL, &term) || !at_position(k, acc, in, any, NULL, &at))
        return false;
    mlsi_nx_know(&facts, 0, any.position, last);
    const spot before = {any.position, last}, full = {mlsi_nx_position(k, in.depth + 1, c), c};
    return mlsi_nx_simpler(k, run_count(k, run, at), &facts) == c &&
           at_position(k, run, at, full, &before, &term);
}

/* A reduction in two stages is the one of all terms. c: what the run's own loops reach. */
static int32_t of_runs(mlsi_nest_check *k, int32_t acc, int32_t run, reading in) {
    const mlsi_acc a = k->n->accs[acc], r = k->n->accs[run];
    const mlsi_nx_env env = env_of(k, in.env);
    int32_t add = mlsi_nx_only(k, MLSI_LS_ADD, run, r.name);
    int64_t lo, c, left, count;
    reading outer, at;
    if (mlsi_nx_stop(k)) return -1;
    mlsi_dim_range(&k->n->tab, stmt(k, add)->index[0], &lo, &c);
    if (!has_runs(&a, &r, ++c) || !runs_of(k, acc, run, in, c, &left)) {
        mlsi_nx_refuse(k, "results of runs are not those of all terms: ", a.name);
        return -1;
    }
    int64_t runs = mlsi_nx_subst(k, a.count, &env);
    count = mlsi_nx_ix(k, '+', mlsi_nx_ix(k, '*', mlsi_nx_ix(k, '-', runs, 1), c), left);
    const spot all = {mlsi_nx_position(k, in.depth, count), count};
    const spot first = {mlsi_nx_digit(k, all.position, c, 0), runs};
    if (!at_position(k, acc, in, first, &all, &outer)) return -1;
    outer.depth = in.depth;
    const spot then = {mlsi_nx_digit(k, all.position, 1, c), c};
    if (!at_position(k, run, outer, then, &all, &at)) return -1;
    const mlsi_ls s = *stmt(k, at.at);
    int32_t term = eval(k, s.value, at), second = s.value2 < 0 ? -1 : eval(k, s.value2, at);
    return mlsi_nx_stop(k) ? -1 : mlsi_nx_reduce(k, r.kind, r.dtype, count, term, second, -1);
}

static int32_t acc_value(mlsi_nest_check *k, int32_t acc, reading in) {
    const mlsi_acc a = k->n->accs[acc];
    int32_t open, add;
    reading at;
    if (!find_reduction(k, acc, in, &open, &add)) return -1;
    const mlsi_ls s = *stmt(k, add);
    const mlsi_nx_env env = env_of(k, in.env);
    int64_t count = mlsi_nx_subst(k, a.count, &env);
    const int32_t init = a.init < 0 ? -1 : eval(k, a.init, (reading){open, in.env, in.depth, 0});
    if (count == 0 && mlsi_nx_never_runs(k, add))
        return mlsi_nx_reduce(k, a.kind, a.dtype, 0, -1, -1, init);
    if (k->joins && k->n->exprs[s.value].kind == MLSI_LX_ACC)
        return of_runs(k, acc, k->n->exprs[s.value].ref, in);
    const spot any = {mlsi_nx_position(k, in.depth, count), count};
    if (!at_position(k, acc, in, any, NULL, &at)) return -1;
    int32_t term = eval(k, s.value, at), second = s.value2 < 0 ? -1 : eval(k, s.value2, at);
    return mlsi_nx_stop(k) ? -1 : mlsi_nx_reduce(k, a.kind, a.dtype, count, term, second, init);
}

/* The element of LOCAL memory is the one that the store gave it, which ran before. */
static int32_t local_value(mlsi_nest_check *k, int32_t buffer, const int64_t *element, reading in) {
    const mlsi_loop_buffer b = k->n->buffers[buffer];
    int32_t alloc = mlsi_nx_only(k, MLSI_LS_ALLOC, buffer, b.name);
    int32_t store = mlsi_nx_only(k, MLSI_LS_STORE, buffer, b.name);
    if (mlsi_nx_stop(k)) return -1;
    const mlsi_ls s = *stmt(k, store);
    const mlsi_nx_env was = env_of(k, in.env);
    mlsi_nx_env env = was;
    mlsi_nx_facts facts;
    facts_of(k, in, &was, &facts);
    const mlsi_nx_box box = {b.rank, s.index, b.dims, element};
    bool before = mlsi_nx_in_scope(k, alloc, store) && mlsi_nx_in_scope(k, alloc, in.at) &&
                  k->order[store] < k->order[in.at] &&
                  mlsi_nx_maps_onto(k, alloc, store, &box, &facts, &env);
    /* In a loop around both, the element is of the same turn: others have not run, or are written over. */
    for (int32_t p = k->parent[store]; before && p >= 0 && p != k->parent[alloc];
         p = k->parent[p]) {
        int32_t v =
            stmt(k, p)->kind == MLSI_LS_FOR && mlsi_nx_encloses(k, p, in.at) ? stmt(k, p)->var : -1;
        if (v >= 0)
            before = env.of[v] == (was.of[v] == MLSI_NX_KEEP ? k->n->vars[v].code : was.of[v]);
    }
    if (!before) mlsi_nx_refuse(k, "memory is read that is not known to be written: ", b.name);
    return eval(k, s.value, (reading){store, env_id(k, &env), in.depth, 0});
}

static int32_t load_value(mlsi_nest_check *k, const mlsi_lx *x, const int64_t *index, reading in) {
    const mlsi_loop_buffer *b = &k->n->buffers[x->ref];
    int64_t words[3 + MLSYS_MAX_DIMS] = {MLSI_NX_LOAD, b->dtype, b->param};
    if (b->scope == MLSI_SCOPE_LOCAL) return local_value(k, x->ref, index, in);
    if (b->scope != MLSI_SCOPE_INPUT || b->bytes)
        mlsi_nx_uncovered(k, "reads of an output, shared memory or bytes: ", b->name);
    memcpy(words + 3, index, sizeof *index * (size_t)x->n_index);
    return mlsi_nx(k, words, 3 + x->n_index);
}

static int32_t let_value(mlsi_nest_check *k, int32_t ref, reading in) {
    int32_t let = mlsi_nx_only(k, MLSI_LS_LET, ref, "a let");
    if (let >= 0 && !mlsi_nx_in_scope(k, let, in.at))
        mlsi_nx_refuse(k, "a let is read outside its scope", "");
    if (mlsi_nx_stop(k)) return -1;
    return eval(k, stmt(k, let)->value, (reading){let, in.env, in.depth, in.guards});
}

static int32_t eval_kind(mlsi_nest_check *k, const mlsi_lx *x, reading in) {
    const mlsi_nx_env env = env_of(k, in.env);
    int64_t index[MLSYS_MAX_DIMS] = {0};
    int32_t args[3] = {-1, -1, -1};
    for (int i = 0; i < x->n_index; i++)
        index[i] = mlsi_nx_subst(k, x->index[i], &env);
    for (int i = 0; i < x->n_args; i++) {
        reading inner = in;
        const int64_t guard[5] = {MLSI_NX_KNOWN, index[0], index[1], index[2], in.guards};
        if (x->kind == MLSI_LX_GUARD && i == 0) inner.guards = mlsi_nx(k, guard, 5) + 1;
        args[i] = eval(k, x->args[i], inner);
    }
    if (mlsi_nx_stop(k)) return -1;
    switch (x->kind) {
    case MLSI_LX_CONST:
        return mlsi_nx(k, (int64_t[]){MLSI_NX_CONST, x->dtype, (int64_t)x->bits}, 3);
    case MLSI_LX_INDEX: return mlsi_nx_index(k, index[0]);
    case MLSI_LX_OP: return mlsi_nx_op(k, x->op, x->dtype, x->n_args, args);
    case MLSI_LX_GUARD: return mlsi_nx_guard(k, index, args[0], args[1]);
    case MLSI_LX_ACC: return acc_value(k, x->ref, in);
    case MLSI_LX_LOAD: return load_value(k, x, index, in);
    case MLSI_LX_LET: return let_value(k, x->ref, in);
    default: mlsi_nx_uncovered(k, "random numbers and shuffles", ""); return -1;
    }
}

static int32_t eval(mlsi_nest_check *k, int32_t x, reading in) {
    const int64_t words[7] = {MLSI_NX_MEMO, -1, x, in.at, in.env, in.depth, in.guards};
    int32_t found, memo = mlsi_nx_memo(k, words, 7, &found);
    if (found >= 0 || mlsi_nx_stop(k)) return found;
    if (++k->deep > MLSI_NX_DEEPEST) mlsi_nx_uncovered(k, "expressions nest too deep", "");
    const mlsi_lx own = k->n->exprs[x];
    int32_t y = mlsi_nx_stop(k) ? -1 : eval_kind(k, &own, in);
    k->deep--;
    mlsi_nx_answer(k, memo, y);
    return y;
}

/* ---- the nest --------------------------------------------------------------------------------------------------------------- */

/* Every load, needed or not, is in range where it runs. context: a statement or the inside of a GUARD, in which an
 * expression is met once. */
static void check_loads(mlsi_nest_check *k, int32_t x, int32_t context, mlsi_nx_facts *f) {
    if (x < 0 || k->met[x] == context || mlsi_nx_stop(k)) return;
    const mlsi_lx l = k->n->exprs[x];
    const mlsi_loop_buffer *b = l.kind == MLSI_LX_LOAD ? &k->n->buffers[l.ref] : NULL;
    k->met[x] = context;
    for (int d = 0; b && d < b->rank; d++)
        if (!mlsi_nx_within(k, f, 0, l.index[d], b->dims[d]))
            mlsi_nx_refuse(k, "index: a subscript may be out of range: ", b->name);
    for (int i = 0; i < l.n_args; i++) {
        const int known = f->n;
        bool inside = l.kind == MLSI_LX_GUARD && i == 0;
        if (inside) mlsi_nx_know(f, l.index[0], l.index[1], l.index[2]);
        check_loads(k, l.args[i], inside ? ++k->contexts : context, f);
        f->n = known;
    }
}

static void check_values(mlsi_nest_check *k, int32_t s) {
    const mlsi_ls l = *stmt(k, s);
    const mlsi_nx_env keep = mlsi_nx_keep_all();
    const int32_t context = ++k->contexts;
    mlsi_nx_facts f;
    if (mlsi_nx_never_runs(k, s)) return;
    mlsi_nx_facts_at(k, s, &keep, &f);
    if (l.kind != MLSI_LS_IF) check_loads(k, l.value, context, &f);
    check_loads(k, l.value2, context, &f);
    if (l.kind == MLSI_LS_ACC) check_loads(k, k->n->accs[l.ref].init, context, &f);
}

/* Memory that outlives a turn of a loop which may run beside others belongs to that turn alone: LOCAL is begun inside; an
 * output's elements differ from turn to turn, as each is stored once. */
static void check_store(mlsi_nest_check *k, int32_t s) {
    const mlsi_loop_buffer *b = &k->n->buffers[stmt(k, s)->ref];
    if (b->scope == MLSI_SCOPE_INPUT) mlsi_nx_refuse(k, "hazard: an input is written: ", b->name);
    if (b->scope != MLSI_SCOPE_LOCAL) return;
    int32_t alloc = mlsi_nx_only(k, MLSI_LS_ALLOC, stmt(k, s)->ref, b->name);
    for (int32_t p = k->parent[s]; p >= 0 && alloc >= 0; p = k->parent[p])
        if (stmt(k, p)->kind == MLSI_LS_FOR && stmt(k, p)->loop == MLSI_LOOP_PARALLEL &&
            !mlsi_nx_encloses(k, p, alloc))
            mlsi_nx_refuse(k, "hazard: parallel turns write the same memory: ", b->name);
}

static void check_stmt(mlsi_nest_check *k, int32_t s) {
    const mlsi_ls *l = stmt(k, s);
    switch (l->kind) {
    case MLSI_LS_FOR:
        if (l->loop > MLSI_LOOP_UNROLLED) mlsi_nx_uncovered(k, "loops of a GPU", "");
        break;
    case MLSI_LS_STORE: check_store(k, s); break;
    case MLSI_LS_LET:
    case MLSI_LS_ALLOC:
    case MLSI_LS_ACC:
    case MLSI_LS_ADD: break;
    case MLSI_LS_IF:
        if (l->value >= 0) mlsi_nx_uncovered(k, "conditions on data", "");
        break;
    case MLSI_LS_BIND: mlsi_nx_uncovered(k, "indices from data", ""); break;
    default: mlsi_nx_uncovered(k, "barriers, copies and matrix intrinsics", ""); break;
    }
}

static void check_output(mlsi_nest_check *k, int32_t buffer) {
    const mlsi_loop_buffer b = k->n->buffers[buffer];
    if (mlsi_dtype_is_block(b.dtype)) mlsi_nx_uncovered(k, "blocks: ", b.name);
    int32_t store = mlsi_nx_stop(k) ? -1 : mlsi_nx_only(k, MLSI_LS_STORE, buffer, b.name);
    if (store < 0) return;
    const mlsi_ls s = *stmt(k, store);
    const mlsi_nx_env keep = mlsi_nx_keep_all();
    mlsi_nx_env unused = keep;
    mlsi_nx_facts facts = {0};
    int64_t element[MLSYS_MAX_DIMS];
    for (int d = 0; d < b.rank; d++) {
        element[d] = mlsi_nx_element(k, d, b.dims[d]);
        mlsi_nx_know(&facts, 0, element[d], b.dims[d]);
    }
    const mlsi_nx_box box = {b.rank, s.index, b.dims, element};
    if (!mlsi_nx_maps_onto(k, -1, store, &box, &facts, &unused))
        mlsi_nx_refuse(k, "index: elements are not stored once each: ", b.name);
    int32_t have = eval(k, s.value, (reading){store, env_id(k, &keep), 0, 0});
    int32_t want = mlsi_nest_element(k, 0, k->frames[0].f.outputs[b.param].value, s.index, 0);
    if (!mlsi_nx_stop(k) && have != want) mlsi_nx_refuse(k, "value: another expression: ", b.name);
}

static void check_parameters(mlsi_nest_check *k) {
    const mlsi_nest_frame *fr = &k->frames[0];
    for (int64_t i = 0; i < fr->f.n_nodes; i++)
        if (mlsi_op_get(fr->f.nodes[i].op)->nest)
            mlsi_nx_uncovered(k, "loops of its own: ", mlsi_op_name(fr->f.nodes[i].op));
    if (k->n->n_vars > MLSI_NX_VARS) mlsi_nx_uncovered(k, "too many loops", "");
    if (k->n->n_inputs != fr->f.n_inputs || k->n->n_outputs != fr->f.n_outputs)
        mlsi_nx_refuse(k, "other parameters than the function's", "");
    for (int32_t i = 0; i < k->n->n_buffers && !mlsi_nx_stop(k); i++) {
        const mlsi_loop_buffer *b = &k->n->buffers[i];
        if (b->param < 0 || b->bytes) continue;
        const mlsi_type *t =
            &fr->types[b->scope == MLSI_SCOPE_INPUT ? fr->f.inputs[b->param]
                                                    : fr->f.outputs[b->param].value];
        if (b->dtype != t->dtype || b->rank != t->rank ||
            memcmp(b->dims, t->dims, sizeof t->dims[0] * (size_t)t->rank))
            mlsi_nx_refuse(k, "a parameter of another type: ", b->name);
    }
}

mlsys_status mlsi_nx_variables(mlsi_nest_check *k) {
    const int64_t n = k->n->tab.n_symbols + 2 * MLSI_NX_VARS;
    MLSI_TRY(MLSI_NEW_N(k->n->alloc, n, &k->var_of));
    memset(k->var_of, 0xff, sizeof *k->var_of * (size_t)n);
    for (int32_t i = 0; i < k->n->n_vars; i++)
        if (k->n->vars[i].symbol >= 0) k->var_of[k->n->vars[i].symbol] = i;
    return MLSYS_OK;
}

mlsys_status mlsi_nx_places(mlsi_nest_check *k) {
    int32_t next = 0;
    MLSI_TRY(MLSI_NEW_N(k->n->alloc, k->n->n_stmts + 1, &k->parent));
    MLSI_TRY(MLSI_NEW_N(k->n->alloc, k->n->n_stmts + 1, &k->order));
    memset(k->order, 0xff, sizeof *k->order * (size_t)k->n->n_stmts);
    number_body(k, k->n->first, -1, &next);
    return MLSYS_OK;
}

static mlsys_status check(mlsi_nest_check *k, int32_t func, const mlsi_nest *n) {
    MLSI_TRY(mlsi_nx_open(k, n));
    MLSI_TRY(mlsi_nx_variables(k));
    MLSI_TRY(mlsi_nx_take_apart(k));
    MLSI_TRY(mlsi_nx_places(k));
    MLSI_TRY(MLSI_NEW_N(n->alloc, k->n->n_exprs + 1, &k->met));
    MLSI_TRY(mlsi_nest_frame_add(k, func, -1, NULL));
    check_parameters(k);
    for (int32_t s = 0; s < k->n->n_stmts && !mlsi_nx_stop(k); s++)
        if (k->order[s] >= 0) check_stmt(k, s), check_values(k, s);
    for (int32_t b = 0; b < k->n->n_buffers && !mlsi_nx_stop(k); b++)
        if (k->n->buffers[b].scope == MLSI_SCOPE_OUTPUT && !k->n->buffers[b].bytes)
            check_output(k, b);
    return k->st;
}

/* joins: reductions of results of reductions are read as one. */
static mlsys_status judge(mlsi_graph *g, int32_t func, const mlsi_nest *n, bool joins,
                          mlsi_verdict *v) {
    mlsi_nest_check k = {.g = g, .v = v, .n_symbols = n->tab.n_symbols, .joins = joins};
    int64_t n_funcs = g->n_funcs;
    *v = (mlsi_verdict){MLSI_PROVED, ""};
    mlsi_tuples_init(&k.t, n->alloc);
    mlsys_status st = check(&k, func, n);
    for (int64_t i = 0; i < k.n_frames; i++)
        mlsi_mem_free(n->alloc, k.frames[i].types);
    void *owned[] = {k.answer, k.parent, k.order, k.met, k.var_of, k.frames};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++)
        mlsi_mem_free(n->alloc, owned[i]);
    mlsi_tuples_free(&k.t);
    mlsi_nx_close(&k);
    mlsi_graph_truncate(g, n_funcs);
    if (st != MLSYS_OK) *v = (mlsi_verdict){MLSI_NOT_COVERED, "out of memory"};
    return st;
}

static bool adds_results(const mlsi_nest *n) {
    for (int64_t s = 0; s < n->n_stmts; s++)
        if (n->stmts[s].kind == MLSI_LS_ADD && n->exprs[n->stmts[s].value].kind == MLSI_LX_ACC)
            return true;
    return false;
}

/* A function may have reductions of reductions itself. */
mlsys_status mlsi_check_nest(mlsi_graph *g, int32_t func, mlsi_nest *n, mlsi_verdict *v) {
    mlsi_verdict joined;
    MLSI_TRY(judge(g, func, n, false, v));
    if (v->answer == MLSI_PROVED || !adds_results(n)) return MLSYS_OK;
    MLSI_TRY(judge(g, func, n, true, &joined));
    fprintf(stderr, "J %s\n", joined.why);
    if (joined.answer == MLSI_PROVED) *v = joined;
    return MLSYS_OK;
}
