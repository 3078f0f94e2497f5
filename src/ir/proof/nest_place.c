/* Outputs in the memory of inputs. A load and a store of the same element must be of the same iteration of the loops around both:
 * on axes where both have the same subscript, these tell those loops' variables (mixed radix). Then the order of the text is the
 * order in time, and the load must come first. */
#include "core/faults.h"
#include "ir/proof/nest_check.h"

/* code = sum of coef * var, in which each variable's coefficient is the product of the extents before it: all values of
 * [0, total) exactly once. */
typedef struct radix {
    int n;
    int32_t var[MLSI_NX_VARS];
    int64_t coef[MLSI_NX_VARS], total;
} radix;

typedef struct pair {
    mlsi_nest_check *k;
    int32_t input, output; /* parameters */
    int32_t *met;          /* per expression: the last statement that holds it, plus 1 */
} pair;

static const mlsi_ls *stmt(const mlsi_nest_check *k, int32_t s) { return &k->n->stmts[s]; }

static bool encloses(const mlsi_nest_check *k, int32_t outer, int32_t s) {
    while (s >= 0 && s != outer)
        s = k->parent[s];
    return s == outer;
}

static bool is_param(const mlsi_nest_check *k, int32_t buffer, mlsi_scope scope, int32_t param) {
    return k->n->buffers[buffer].scope == scope && k->n->buffers[buffer].param == param;
}

/* Variables of the loops around both statements. */
static int common_loops(const mlsi_nest_check *k, int32_t a, int32_t b, int32_t *vars) {
    int n = 0;
    for (int32_t p = k->parent[a]; p >= 0; p = k->parent[p])
        if (stmt(k, p)->kind == MLSI_LS_FOR && k->n->vars[stmt(k, p)->var].symbol >= 0 &&
            encloses(k, p, b) && n < MLSI_NX_VARS)
            vars[n++] = stmt(k, p)->var;
    return n;
}

static bool find_radix(mlsi_nest_check *k, int64_t code, int n, const int32_t *vars,
                       const mlsi_nx_env *env, radix *r) {
    int64_t extent[MLSI_NX_VARS], coef[MLSI_NX_VARS], sum = 0;
    mlsi_nx_env all = *env;
    for (int i = 0; i < n; i++)
        all.of[vars[i]] = 0;
    bool affine = mlsi_nx_subst(k, code, &all) == 0;
    for (int i = 0; i < n; i++) {
        const mlsi_loop_var *v = &k->n->vars[vars[i]];
        all.of[vars[i]] = 1;
        coef[i] = v->symbol < 0 ? 0 : mlsi_nx_subst(k, code, &all);
        all.of[vars[i]] = 0;
        extent[i] = mlsi_nx_subst(k, v->extent, env);
        sum = mlsi_nx_ix(k, '+', sum, mlsi_nx_ix(k, '*', coef[i], v->code));
    }
    for (int i = 0; i < n; i++)
        all.of[vars[i]] = MLSI_NX_KEEP;
    affine = affine && sum == mlsi_nx_subst(k, code, &all);
    *r = (radix){.total = 1};
    int left = n;
    for (int i = 0; i < n; i++) /* a loop that turns once moves nothing */
        left -= extent[i] == 1;
    for (int i = 0; affine && i < n; i++) { /* begins anew whenever one has been found */
        if (coef[i] == 0 || coef[i] != r->total) continue;
        r->var[r->n] = vars[i];
        r->coef[r->n++] = coef[i];
        r->total = mlsi_nx_ix(k, '*', r->total, extent[i]);
        coef[i] = 0;
        left -= extent[i] != 1;
        i = -1;
    }
    return affine && left == 0 && !mlsi_nx_stop(k);
}

/* Takes those of n variables that the code tells out of the list, however much it is moved or turned round; how many are left.
 * Other variables that it names have been told before. */
static int take_told(mlsi_nest_check *k, int64_t code, int n, int32_t *vars) {
    mlsi_nx_env env = mlsi_nx_keep_all();
    int32_t moving[MLSI_NX_VARS], left = 0;
    radix r;
    int m = 0;
    for (int i = 0; i < n; i++) {
        env.of[vars[i]] = 0;
        int64_t still = mlsi_nx_subst(k, code, &env);
        env.of[vars[i]] = MLSI_NX_KEEP;
        if (still != code) moving[m++] = vars[i];
    }
    for (int i = 0; i < m; i++)
        env.of[moving[i]] = 0;
    const int64_t base = mlsi_nx_subst(k, code, &env);
    env = mlsi_nx_keep_all();
    if (!m || !(find_radix(k, mlsi_nx_ix(k, '-', code, base), m, moving, &env, &r) ||
                find_radix(k, mlsi_nx_ix(k, '-', base, code), m, moving, &env, &r)))
        return n;
    for (int i = 0; i < n; i++) {
        bool told = false;
        for (int j = 0; j < m; j++)
            told |= moving[j] == vars[i];
        if (!told) vars[left++] = vars[i];
    }
    return left;
}

static bool same_iteration(mlsi_nest_check *k, const mlsi_loop_buffer *b, int32_t load,
                           const int64_t *from, int32_t store, const int64_t *to) {
    int32_t vars[MLSI_NX_VARS], told[MLSI_NX_VARS];
    int n = common_loops(k, load, store, vars), left = n;
    int64_t number = 0;
    bool equal = true;
    for (int i = 0; i < n; i++)
        told[i] = vars[i];
    for (int d = 0; d < b->rank; d++) {
        equal = equal && from[d] == to[d];
        number = mlsi_nx_ix(k, '+', mlsi_nx_ix(k, '*', number, b->dims[d]), to[d]);
        if (from[d] == to[d]) left = take_told(k, to[d], left, told);
    }
    return !left || (equal && !take_told(k, number, n, vars));
}

static void check_load(pair *p, int32_t s, const mlsi_lx *x) {
    mlsi_nest_check *k = p->k;
    for (int32_t t = 0; t < k->n->n_stmts && !mlsi_nx_stop(k); t++) {
        const mlsi_ls *l = stmt(k, t);
        if (k->order[t] < 0 || l->kind != MLSI_LS_STORE ||
            !is_param(k, l->ref, MLSI_SCOPE_OUTPUT, p->output))
            continue;
        const mlsi_loop_buffer b = k->n->buffers[l->ref];
        if (k->n->buffers[x->ref].bytes || b.bytes)
            mlsi_nx_refuse(k, "in place: bytes of blocks: ", b.name);
        if (k->order[s] > k->order[t])
            mlsi_nx_refuse(k, "in place: an input is loaded behind the store of ", b.name);
        if (!mlsi_nx_stop(k) && !same_iteration(k, &b, s, x->index, t, l->index))
            mlsi_nx_refuse(k, "in place: other iterations load what is stored in ", b.name);
    }
}

static void check_value(pair *p, int32_t s, int32_t x) {
    if (x < 0 || mlsi_nx_stop(p->k) || p->met[x] == s + 1) return;
    const mlsi_lx own = p->k->n->exprs[x];
    p->met[x] = s + 1;
    if (own.kind == MLSI_LX_LOAD && is_param(p->k, own.ref, MLSI_SCOPE_INPUT, p->input))
        check_load(p, s, &own);
    for (int i = 0; i < own.n_args; i++)
        check_value(p, s, own.args[i]);
}

/* Both parameters have one type, of which the subscripts are. */
static void check_types(mlsi_nest_check *k, int32_t input, int32_t output) {
    const mlsi_loop_buffer *a = NULL, *b = NULL;
    for (int32_t i = 0; i < k->n->n_buffers; i++) {
        if (is_param(k, i, MLSI_SCOPE_INPUT, input)) a = &k->n->buffers[i];
        if (is_param(k, i, MLSI_SCOPE_OUTPUT, output)) b = &k->n->buffers[i];
    }
    bool same = a && b && a->dtype == b->dtype && a->rank == b->rank;
    for (int d = 0; same && d < a->rank; d++)
        same = a->dims[d] == b->dims[d];
    if (!same) mlsi_nx_refuse(k, "in place: parameters of different types", "");
}

static void check_stmts(pair *p) {
    mlsi_nest_check *k = p->k;
    check_types(k, p->input, p->output);
    for (int32_t s = 0; s < k->n->n_stmts && !mlsi_nx_stop(k); s++) {
        const mlsi_ls *l = stmt(k, s);
        if (k->order[s] < 0) continue;
        if ((l->kind == MLSI_LS_FOR && l->loop > MLSI_LOOP_UNROLLED) || l->kind >= MLSI_LS_BIND)
            mlsi_nx_refuse(k, "in place: not in the order of the text", "");
        check_value(p, s, l->value);
        check_value(p, s, l->value2);
        if (l->kind == MLSI_LS_ACC) check_value(p, s, k->n->accs[l->ref].init);
    }
}

static mlsys_status check(mlsi_nest_check *k, const uint64_t *in_place) {
    pair p = {.k = k};
    MLSI_TRY(mlsi_nx_variables(k));
    MLSI_TRY(mlsi_nx_places(k));
    if (k->n->n_vars > MLSI_NX_VARS) mlsi_nx_refuse(k, "in place: too many loops", "");
    for (p.output = 0; p.output < k->n->n_outputs; p.output++)
        for (p.input = 0; p.input < 64; p.input++) {
            if (!(in_place[p.output] >> p.input & 1) || mlsi_nx_stop(k) ||
                mlsi_fault(MLSI_FAULT_PLACE_CLAIMED))
                continue;
            mlsi_mem_free(k->n->alloc, p.met);
            p.met = NULL;
            MLSI_TRY(MLSI_NEW_N(k->n->alloc, k->n->n_exprs + 1, &p.met));
            check_stmts(&p);
        }
    mlsi_mem_free(k->n->alloc, p.met);
    return k->st;
}

mlsys_status mlsi_check_in_place(mlsi_nest *n, const uint64_t *in_place, mlsi_verdict *v) {
    mlsi_nest_check k = {.n = n, .v = v, .n_symbols = n->tab.n_symbols};
    *v = (mlsi_verdict){MLSI_PROVED, ""};
    mlsys_status st = check(&k, in_place);
    mlsi_mem_free(n->alloc, k.parent);
    mlsi_mem_free(n->alloc, k.order);
    mlsi_mem_free(n->alloc, k.var_of);
    if (st != MLSYS_OK) *v = (mlsi_verdict){MLSI_NOT_COVERED, "out of memory"};
    return st;
}
