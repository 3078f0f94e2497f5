/* Each position of a reduction, each element of an output: given exactly once. */
#include "core/faults.h"
#include "ir/loop/prove_walk.h"

#include <string.h>

/* FORs and IFs around, from `from` on, as a region; false where a condition depends on data. */
typedef struct region_of {
    int32_t vars[MLSI_WALK_DEPTH];
    int64_t conditions[MLSI_WALK_DEPTH][3];
    mlsi_region r;
} region_of;

static bool make_region(const mlsi_walk_place *p, int from, region_of *out) {
    out->r = (mlsi_region){0, 0, out->vars, (const int64_t(*)[3])out->conditions};
    for (int i = from; i < p->depth; i++) {
        const mlsi_ls *s = &p->n->stmts[p->around[i]];
        if (s->kind == MLSI_LS_FOR) {
            out->vars[out->r.n_vars++] = s->var;
        } else if (s->value >= 0) {
            if (!mlsi_fault(MLSI_FAULT_COVER_DATA)) return false;
        } else {
            memcpy(out->conditions[out->r.n_conditions++], s->index, sizeof out->conditions[0]);
        }
    }
    return true;
}

/* ---- reductions ------------------------------------------------------------------------------------------- */

enum { MOST_ADDS = 16 };

typedef struct opened {
    int depth; /* statements around its ACC */
    int n_adds;
    int64_t positions[MOST_ADDS];
    int32_t beside; /* the statement beside the ACC that holds the terms */
    bool read;
    mlsi_facts facts;
    mlsi_walk_place add; /* of the first */
} opened;

typedef struct reductions {
    const mlsi_nest *n;
    opened **accs;
} reductions;

static int32_t beside(const mlsi_walk_place *p, const opened *o) {
    return p->depth > o->depth ? p->around[o->depth] : p->stmt;
}

static mlsys_status open_acc(reductions *r, const mlsi_walk_place *p, int32_t acc) {
    MLSI_TRY(MLSI_NEW(r->n->alloc, &r->accs[acc]));
    r->accs[acc]->depth = p->depth;
    r->accs[acc]->facts = p->facts;
    return MLSYS_OK;
}

/* Terms given by several statements stand in one body. */
static mlsys_status add_term(reductions *r, const mlsi_walk_place *p, const mlsi_ls *s) {
    opened *o = r->accs[s->ref];
    const char *name = p->n->accs[s->ref].name;
    if (o->read) return mlsi_unproved(p, "%s gets a term after it was read", name);
    if (o->n_adds == 0) {
        o->add = *p;
        o->beside = beside(p, o);
    }
    if (o->n_adds == MOST_ADDS || p->depth != o->add.depth ||
        memcmp(p->around, o->add.around, sizeof p->around[0] * (size_t)p->depth))
        return mlsi_unproved(p, "%s gets terms in several places", name);
    o->positions[o->n_adds++] = s->index[0];
    return MLSYS_OK;
}

/* k statements with the positions k*q, k*q + 1, ..., k*q + k - 1 give each position once where q runs over count / k. */
static bool one_position(const opened *o, int64_t count, mlsi_symtab *t, int64_t *q, int64_t *c) {
    bool exact = false, whole = false;
    for (int i = 0; i < o->n_adds; i++) {
        int64_t want;
        if (mlsi_dim_op(t, '+', o->positions[0], i, &want) != MLSYS_OK || want != o->positions[i])
            return false;
    }
    return mlsi_dim_divide_exact(t, o->positions[0], o->n_adds, q, &exact) == MLSYS_OK && exact &&
           mlsi_dim_divide_exact(t, count, o->n_adds, c, &whole) == MLSYS_OK && whole;
}

static mlsys_status prove_terms(const mlsi_nest *n, const opened *o, const mlsi_acc *a,
                                bool *proved) {
    region_of region;
    mlsi_symtab t;
    int64_t q = o->positions[0], count = a->count;
    *proved = false;
    if (!make_region(&o->add, o->depth, &region)) return MLSYS_OK;
    if (o->n_adds == 1) return mlsi_prove_onto(n, &o->facts, &region.r, 1, &q, &count, proved);
    mlsi_nest with = *n; /* the same, with a table that may grow */
    mlsi_facts facts = o->facts;
    mlsi_symtab_init(&t, n->alloc);
    mlsys_status st = mlsi_symtab_copy(&t, &n->tab);
    if (st == MLSYS_OK && one_position(o, a->count, &t, &q, &count)) {
        with.tab = t;
        facts.tab = &with.tab;
        st = mlsi_prove_onto(&with, &facts, &region.r, 1, &q, &count, proved);
    }
    mlsi_symtab_free(&t);
    return st;
}

static mlsys_status check_terms(const reductions *r, int32_t acc) {
    const opened *o = r->accs[acc];
    const mlsi_acc *a = &r->n->accs[acc];
    bool proved;
    char position[200], count[200];
    if (!o || !o->n_adds) return MLSYS_OK;
    MLSI_TRY(prove_terms(r->n, o, a, &proved));
    if (proved) return MLSYS_OK;
    return mlsi_unproved(&o->add, "positions of %s are not proved to be [0,%s), each once: %s",
                         a->name, mlsi_dim_text(&r->n->tab, a->count, count, sizeof count),
                         mlsi_dim_text(&r->n->tab, o->positions[0], position, sizeof position));
}

static mlsys_status reduction_stmt(void *user, const mlsi_walk_place *p, const mlsi_ls *s) {
    reductions *r = user;
    if (s->kind == MLSI_LS_ACC) return open_acc(r, p, s->ref);
    return s->kind == MLSI_LS_ADD ? add_term(r, p, s) : MLSYS_OK;
}

static mlsys_status reduction_read(void *user, const mlsi_walk_place *p, const mlsi_lx *x) {
    reductions *r = user;
    if (x->kind != MLSI_LX_ACC) return MLSYS_OK;
    opened *o = r->accs[x->ref];
    const mlsi_acc *a = &p->n->accs[x->ref];
    if (o->n_adds && o->beside == beside(p, o) && !mlsi_fault(MLSI_FAULT_COVER_READ))
        return mlsi_unproved(p, "%s is read among its terms", a->name);
    if (!o->n_adds && !mlsi_prove_equal(&o->facts, a->count, 0))
        return mlsi_unproved(p, "%s is read and gets no terms", a->name);
    o->read = true;
    return MLSYS_OK;
}

mlsys_status mlsi_prove_positions(const mlsi_nest *n) {
    reductions r = {.n = n};
    const mlsi_walk w = {.stmt = reduction_stmt, .value = reduction_read, .user = &r};
    MLSI_TRY(MLSI_NEW_N(n->alloc, n->n_accs + 1, &r.accs));
    mlsys_status st = mlsi_nest_walk(n, &w);
    for (int32_t i = 0; i < n->n_accs; i++) {
        if (st == MLSYS_OK) st = check_terms(&r, i);
        mlsi_mem_free(n->alloc, r.accs[i]);
    }
    mlsi_mem_free(n->alloc, r.accs);
    return st;
}

/* ---- outputs ----------------------------------------------------------------------------------------------- */

typedef struct outputs {
    bool *covered; /* per output */
} outputs;

static mlsys_status cover(void *user, const mlsi_walk_place *p, int32_t buffer,
                          const int64_t *index, bool write) {
    const mlsi_loop_buffer *b = &p->n->buffers[buffer];
    outputs *o = user;
    const mlsi_facts nothing = {.tab = &p->n->tab};
    region_of region;
    if (!write || b->scope != MLSI_SCOPE_OUTPUT || o->covered[b->param]) return MLSYS_OK;
    if (!make_region(p, 0, &region)) return MLSYS_OK;
    return mlsi_prove_onto(p->n, &nothing, &region.r, b->rank, index, b->dims,
                           &o->covered[b->param]);
}

mlsys_status mlsi_prove_outputs(const mlsi_nest *n) {
    outputs o;
    const mlsi_walk w = {.access = cover, .user = &o};
    MLSI_TRY(MLSI_NEW_N(n->alloc, n->n_outputs + 1, &o.covered));
    mlsys_status st = mlsi_nest_walk(n, &w);
    for (int64_t i = 0; i < n->n_buffers && st == MLSYS_OK; i++) {
        const mlsi_loop_buffer *b = &n->buffers[i];
        bool done = b->scope != MLSI_SCOPE_OUTPUT || o.covered[b->param];
        for (int d = 0; d < b->rank; d++)
            done = done || b->dims[d] == 0;
        if (!done)
            st = mlsi_fail(MLSYS_E_STATE,
                           "nest %s: no store is proved to write each element of %s once", n->name,
                           b->name);
    }
    mlsi_mem_free(n->alloc, o.covered);
    return st;
}
